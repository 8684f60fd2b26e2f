"""A text that is checked and where it stands, and what is found to be wrong with it. Records, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlake.named_tuple import NamedTuple

DUPLICATE, NEAR, CONTRADICTION, LOOP = "duplicate", "near-duplicate", "contradiction", "loop"
INSTRUCTION, SECRET, INJECTION = "instruction", "secret", "injection"
DEAD_PATH, EMPTY = "dead-path", "empty"
# What each kind means, in the order in which a report names them.
KINDS = {
    DUPLICATE: "the same text again",
    NEAR: "the same in other words, or part of another",
    CONTRADICTION: "another memory says otherwise",
    LOOP: "agents saying again what was recalled, or the same a third time",
    INSTRUCTION: "the project's instruction files say so already",
    SECRET: "looks like it holds a secret",
    INJECTION: "gives orders to whoever reads it",
    DEAD_PATH: "names a file that does not exist",
    EMPTY: "thanks, a greeting or assent, and nothing else",
}
PERSON, AGENT, TURN = "person", "agent", "turn"  # who says it; a turn is what an agent said as it worked


class Passage(NamedTuple):
    """A text and where it stands.

    Passages of one `scope` may speak about each other; an instruction speaks to everything of its `project`.
    """

    number: int  # its place in what is checked
    key: str  # its id
    where: str  # what a person finds it by: a file and a line
    content: str
    beside: str = ""  # what it says beside its content: metadata and tags
    project: str = ""
    scope: tuple[str, ...] = ()
    area: str | None = None  # the folder of this project it was said in; None where it is not about this project
    voice: str = PERSON
    time: int = 0
    filing: Mapping[str, Any] = {}
    against: str = ""  # the key of the one it is known to contradict
    fixed: str = ""  # INSTRUCTION, or HERE: others are held against it, and nothing is found wrong with it


HERE = "here"


class Finding(NamedTuple):
    """What is wrong with a passage, and the one that stands instead.

    `drops`: it is plain enough that an import may leave the passage out.
    """

    kind: str
    passage: Passage
    why: str
    other: Passage | None = None
    drops: bool = True


class Project(NamedTuple):
    """What is known of the project that the passages are about."""

    has_path: Callable[[str], bool] | None = None  # whether a path below its root exists


UNKNOWN = Project()
