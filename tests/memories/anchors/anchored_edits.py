"""A project that is edited at random, and which anchors in it are stale by then: told by the identity of each line.

Nothing here knows how memlake finds a passage again. A line is an object; an edit makes new lines, or moves and
respaces those that there are. A passage is stale as soon as its own lines, blank ones aside, no longer stand side by
side. A line just like another may take its place, since nobody can see that.
"""

from __future__ import annotations

import itertools
import json
import random
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

WORDS = (
    "read", "write", "open", "close", "parse", "port", "host", "user", "key", "value", "path", "file", "row", "index",
    "tree", "node", "commit", "branch",
)  # fmt: skip
COMMON = (
    "    return None",
    "import os",
    "",
    "else:",
    "    pass",
    "}",
    "# Copyright 2031 The Owners. All rights reserved.",
)


@dataclass(eq=False)
class Line:
    text: str

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()


@dataclass(eq=False)
class Text:
    path: str
    lines: list[Line]


@dataclass(eq=False)
class Weights:
    """A file of tensors."""

    path: str
    tensors: dict[str, bytes]


@dataclass(eq=False)
class Use:
    """What an anchor is of: lines of a text, a whole text, a tensor."""

    name: str
    of: Text | Weights
    passage: list[Line] = field(default_factory=list)
    part: str = ""
    value: bytes = b""

    def is_stale(self, project: Project) -> bool:
        if isinstance(self.of, Weights):
            return self.of not in project.weights or self.of.tensors.get(self.part) != self.value
        if self.of not in project.texts:
            return True
        kept, own = [line for line in self.of.lines if not line.is_blank], self.passage
        starts = range(len(kept) - len(own) + 1) if ":" in self.name else [0]
        runs = (kept[start : start + len(own)] if ":" in self.name else kept for start in starts)
        return not any(_is_intact(run, own) for run in runs)


def _is_intact(run: list[Line], own: list[Line]) -> bool:
    """Whether lines read as a passage did and most of them are its own: a copy of it is not it."""
    same = [line.text.split() for line in run] == [line.text.split() for line in own]
    return same and 2 * sum(line in own for line in run) > len(own)


class Project:
    """Files of a folder, and edits of them. After `edit` the folder holds what the model says."""

    def __init__(self, root: Path, seed: int, texts: int, weights: int) -> None:
        self.root, self.random, self._numbers = root, random.Random(seed), itertools.count()
        self.texts = [Text(self._make_path(".py"), self._make_lines(self.random.randint(12, 80))) for _ in range(texts)]
        self.weights = [Weights(self._make_path(".safetensors"), self._make_tensors()) for _ in range(weights)]
        self.did = Counter[str]()
        for one in (*self.texts, *self.weights):
            self._write(one)

    def _make_path(self, suffix: str) -> str:
        folder = self.random.choice(("src", "src/api", "lib", "prompts"))
        return f"{folder}/{self.random.choice(WORDS)}_{next(self._numbers)}{suffix}"

    def _make_line(self) -> Line:
        if self.random.random() < 0.25:
            return Line(self.random.choice(COMMON))
        words = " ".join(self.random.choices(WORDS, k=self.random.randint(2, 7)))
        return Line(" " * self.random.choice((0, 4, 8)) + f"{words} = {next(self._numbers)}")

    def _make_lines(self, count: int) -> list[Line]:
        return [Line(COMMON[-1]), *(self._make_line() for _ in range(count))]

    def _make_tensors(self) -> dict[str, bytes]:
        return {f"layer.{number}.weight": self.random.randbytes(64) for number in range(4)}

    def _write(self, one: Text | Weights) -> None:
        file = self.root / one.path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(one, Text):
            file.write_text("".join(f"{line.text}\n" for line in one.lines))
            return
        ends = list(itertools.accumulate((len(data) for data in one.tensors.values()), initial=0))
        header = {
            name: {"dtype": "F32", "shape": [len(data) // 4], "data_offsets": list(ends[at : at + 2])}
            for at, (name, data) in enumerate(one.tensors.items())
        }
        head = json.dumps(header).encode()
        file.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(one.tensors.values()))

    # -- anchors ------------------------------------------------------------------------------

    def choose_use(self) -> Use:
        kind = self.random.random()
        if kind < 0.1 and self.weights:
            weights = self.random.choice(self.weights)
            part = self.random.choice(list(weights.tensors))
            return Use(f"{weights.path}#{part}", weights, part=part, value=weights.tensors[part])
        text = self.random.choice(self.texts)
        first = self.random.randrange(len(text.lines))
        last = min(first + self.random.choice((0, 2, 5, 10, 30)), len(text.lines) - 1)
        if kind < 0.25:
            return Use(text.path, text, [line for line in text.lines if not line.is_blank])
        return self.use_lines(text, first, last) or self.choose_use()

    def use_lines(self, text: Text, first: int, last: int) -> Use | None:
        passage = [line for line in text.lines[first : last + 1] if not line.is_blank]
        return Use(f"{text.path}:{first + 1}-{last + 1}", text, passage) if passage else None

    # -- edits --------------------------------------------------------------------------------

    def edit(self, uses: Sequence[Use]) -> str:
        """One edit of what one of these anchors is of, or of something else."""
        use = self.random.choice(uses)
        edits: dict[str, Callable[[Use], None]] = {
            "inside": self._edit_inside, "outside": self._edit_outside, "whitespace": self._respace,
            "rename": self._rename, "rename and edit": self._rename_and_edit, "move": self._move,
            "delete": self._delete, "copy": self._copy,
        }  # fmt: skip
        kind = self.random.choices(list(edits), (30, 30, 15, 8, 4, 10, 4, 1))[0]
        if isinstance(use.of, Weights):
            kind = self.random.choice(("inside", "outside", "rename", "delete"))
        if use.of not in self.texts and use.of not in self.weights:
            kind, use = "outside", Use("", self.random.choice(self.texts))
        edits[kind](use)
        self.did[f"tensor {kind}" if isinstance(use.of, Weights) else kind] += 1
        return kind

    def _edit_inside(self, use: Use) -> None:
        if isinstance(use.of, Weights):
            use.of.tensors[use.part] = self.random.randbytes(64)
        else:
            lines, own = use.of.lines, [line for line in use.passage if line in use.of.lines]
            at = lines.index(self.random.choice(own)) if own else self.random.randrange(len(lines))
            how = self.random.choice(("replace", "delete", "insert"))
            new = Line(f"edited = {next(self._numbers)}")
            lines[at : at + (how != "insert")] = [] if how == "delete" else [new]
            if all(line.is_blank for line in lines):
                lines.append(new)
        self._write(use.of)

    def _edit_outside(self, use: Use) -> None:
        if isinstance(use.of, Weights):
            other = self.random.choice([name for name in use.of.tensors if name != use.part])
            use.of.tensors[other] = self.random.randbytes(64)
        else:
            at = self.random.choice((0, len(use.of.lines)))
            use.of.lines[at:at] = [self._make_line() for _ in range(self.random.randint(1, 4))]
        self._write(use.of)

    def _respace(self, use: Use) -> None:
        assert isinstance(use.of, Text)
        for line in self.random.sample(use.of.lines, max(1, len(use.of.lines) // 3)):
            line.text = self.random.choice(("\t", "  ", "")) + line.text.strip().replace(" ", "  ") + " "
        use.of.lines.insert(self.random.randrange(len(use.of.lines)), Line("   "))
        self._write(use.of)

    def _rename(self, use: Use) -> None:
        old = self.root / use.of.path
        use.of.path = self._make_path(old.suffix)
        old.unlink()
        self._write(use.of)

    def _rename_and_edit(self, use: Use) -> None:
        assert isinstance(use.of, Text)
        use.of.lines.insert(0, self._make_line())
        self._rename(use)

    def _move(self, use: Use) -> None:
        """Some lines to another place of the file: a whole passage, or any."""
        assert isinstance(use.of, Text)
        lines, own = use.of.lines, [line for line in use.passage if line in use.of.lines]
        first, last = (lines.index(own[0]), lines.index(own[-1])) if own else (0, 2)
        block = lines[first : last + 1]
        del lines[first : last + 1]
        at = self.random.randint(0, len(lines))
        lines[at:at] = block
        self._write(use.of)

    def _delete(self, use: Use) -> None:
        (self.root / use.of.path).unlink()
        if isinstance(use.of, Text):
            self.texts.remove(use.of)
            self.texts.append(Text(self._make_path(".py"), self._make_lines(40)))
            self._write(self.texts[-1])
        else:
            self.weights.remove(use.of)
            self.weights.append(Weights(self._make_path(".safetensors"), self._make_tensors()))
            self._write(self.weights[-1])

    def _copy(self, use: Use) -> None:
        """Lines of the file once more at its end."""
        assert isinstance(use.of, Text)
        use.of.lines += [Line(line.text) for line in use.of.lines[:5]]
        self._write(use.of)
