"""A memory and an agent's state value as records: fields, bytes, what the index is told, what became of one. Pure.

A record is JSON with sorted keys. It carries a random salt, so that the hash that stays in history after a purge
cannot be guessed from the content; what counts as equal leaves the salt out.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence, ValuesView
from datetime import datetime, timedelta, timezone
from typing import Any

from memlake.errors import Corrupt, InvalidInput
from memlake.index.rows import Doc
from memlake.index.terms import mark
from memlake.memories.anchors.anchor import Anchor, decode_anchors, encode_anchors
from memlake.named_tuple import NamedTuple
from memlake.projects import OWN, Place
from memlake.versions.history.times import parse_end

SUMMARY = "summary"  # what was done in a session, in one memory that grows with it
TYPES = ("fact", "episode", "preference", "context", SUMMARY)
CATEGORIES = ("preferences", "conventions", "decisions", "project-notes", "contacts", "learnings")
SOURCES = ("person", "agent", "tool", "web", "import")  # what a memory comes from; more may follow a colon
RUNS = ("shell:", "run:")  # sessions that are a terminal or a run of a program, not a conversation
SCOPES = ("project", "own")  # whose memories a search sees: everybody's of the project, or the asker's own
LONGEST = 1 << 20  # characters of content
DEEPEST = 100  # levels of a JSON value
LATEST = 253_402_300_800_000_000  # the year 10000, in microseconds: no time is so far, before or after
# Rules of a memory that is kept beside another agent's.
AGENT_CONFLICT, AGENT_SAME = "agent-conflict", "agent-same"
IMPORTED = "import-conflict"  # an import brought another text of a memory that had changed here
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


_FOR_ALL = re.compile(
    r"\b(?:all|every|each|any) (?:of )?(?:the |our )?"
    r"(?:packages?|services?|apps?|applications?|modules?|crates?|workspaces?)\b"
    r"|\beverywhere\b|\b(?:whole|entire) (?:repo|repository|monorepo|project|workspace|codebase)\b"
    "|所有(?:的)?(?:包|服务|模块|应用|子项目)|每个(?:包|服务|模块|应用)|整个(?:仓库|项目|代码库)",
    re.IGNORECASE,
)


class Caller(NamedTuple):
    """Who writes, beside the agent: the program it comes through, the session, and what kind of source that is."""

    client: str = ""
    session: str = ""
    source: str = ""


NOBODY = Caller()


class Past(NamedTuple):
    """An earlier value of a memory: the object that holds it, and until when it stood."""

    oid: str
    until: int


class Memory(NamedTuple):
    """One fact an agent stored. Times are microseconds; `expires_at` is 0 for never."""

    memory_id: str
    content: str
    agent_id: str = ""
    session_id: str = ""
    org_id: str = "local"
    memory_type: str = "fact"
    category: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    importance: float = 0.5
    source: str = ""
    created_at: int = 0
    updated_at: int = 0
    expires_at: int = 0
    history: tuple[Past, ...] = ()
    related: tuple[str, ...] = ()
    review: str = ""
    project: str = ""  # what it was said about, by the name of then; empty for what belongs to no project
    area: str = ""  # the folder of the project it was said in
    package: str = ""  # the package of a monorepo it holds for, if not for all
    own: bool = False  # it is about the project whose repo holds it, whatever that is called elsewhere
    user_id: str = ""  # whom it is about, where an agent serves many people
    client: str = ""  # the program it came through
    uses: tuple[Anchor, ...] = ()  # what it rests on, as that was when it was said
    author: str = ""  # who wrote this value in the repo it was imported from; here the commit says it

    @property
    def key(self) -> bytes:
        return uuid.UUID(self.memory_id).bytes

    def __repr__(self) -> str:
        return f"Memory({self.memory_id} {self.content[:60]!r})"


def disown(memory: Memory) -> Memory:
    """A memory as it is written anew here: its author is that of the commit."""
    return memory._replace(author="") if memory.author else memory


def encode(memory: Memory, salt: bytes | None = None) -> bytes:
    fields = memory._asdict()
    fields["history"] = [[past.oid, past.until] for past in memory.history]
    fields["uses"] = encode_anchors(memory.uses)
    usual = {**Memory._field_defaults, "history": [], "uses": []}
    kept = {name: value for name, value in fields.items() if name not in usual or value != usual[name]}
    return _dump({**kept, "salt": (salt or os.urandom(12)).hex()})


def decode(data: bytes) -> Memory:
    try:
        fields = json.loads(data)
        fields.pop("salt")
        fields["tags"], fields["related"] = tuple(fields.get("tags", ())), tuple(fields.get("related", ()))
        fields["history"] = tuple(Past(*past) for past in fields.get("history", ()))
        fields["uses"] = decode_anchors(fields["uses"]) if "uses" in fields else ()
        return Memory(**fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Corrupt(f"a memory record cannot be read: {error}.", hint="Run memlake fsck.") from error


def decode_content(data: bytes) -> str:
    """The content alone of a record: a search looks at many texts of which it shows few."""
    try:
        return str(json.loads(data)["content"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Corrupt(f"a memory record cannot be read: {error}.", hint="Run memlake fsck.") from error


def _dump(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


# -- state ------------------------------------------------------------------------------------


class State(NamedTuple):
    """One value of an agent's state."""

    agent_id: str
    key: str
    value: Any
    updated_at: int
    org_id: str = "local"


def encode_state(state: State) -> bytes:
    fields = {name: value for name, value in state._asdict().items() if (name, value) != ("org_id", "local")}
    return _dump({**fields, "salt": os.urandom(12).hex()})


def decode_state(data: bytes) -> State:
    try:
        fields = json.loads(data)
        fields.pop("salt")
        return State(**fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Corrupt(f"a state record cannot be read: {error}.", hint="Run memlake fsck.") from error


# -- what the index is told -------------------------------------------------------------------


def doc(memory: Memory, oid: str) -> Doc:
    return Doc(
        memory.key,
        bytes.fromhex(oid),
        indexed_text(memory),
        tuple(marks(memory)),
        f"{memory.agent_id}\0{memory.session_id}" if is_conversation(memory.session_id) else "",
        memory.created_at,
        memory.importance,
        memory.expires_at,
    )


def is_conversation(session_id: str) -> bool:
    """Whether what stands before and after in a session belongs together, as in a talk."""
    return bool(session_id) and not session_id.startswith(RUNS)


def indexed_text(memory: Memory) -> str:
    """What a search may find it by. The date, who said it and how it is filed are worth more than a better model."""
    when = datetime.fromtimestamp(memory.created_at / 1e6, timezone.utc)
    day = f"{when.day} {_MONTHS[when.month - 1]} {when.year}"
    return " ".join((day, memory.agent_id, memory.category, *memory.tags, memory.content))


def marks(memory: Memory) -> list[str]:
    """The terms that filters ask for."""
    found = [
        mark("agent", memory.agent_id), mark("session", memory.session_id), mark("type", memory.memory_type),
        mark("category", memory.category), mark("org", memory.org_id), mark("project", memory.project),
        mark("user", memory.user_id),
    ]  # fmt: skip
    found += [mark("project", OWN)] * memory.own
    found += [mark("source", name) for name in name_sources(memory.source)]
    found += [mark("tag", tag) for tag in memory.tags]
    found += [meta_mark(name, value) for name, value in memory.metadata.items()]
    return found + [mark("review", "yes")] * bool(memory.review) + [mark("uses", "yes")] * bool(memory.uses)


def describe_source(given: str, kind: str) -> str:
    """A source as a record has it: its kind, and what else is known of it after a colon. `kind`: unless it says so."""
    if given.partition(":")[0] in SOURCES:
        return given
    kind = "web" if given.startswith(("http://", "https://")) else kind
    return f"{kind}:{given}" if given else kind


def name_sources(source: str) -> tuple[str, ...]:
    """What a source may be asked for by: its kind, what follows, and both; of an import also the program alone."""
    kind, _, detail = source.partition(":")
    program = [f"{kind}:{detail.partition(':')[0]}"] if kind == "import" and detail else []
    return tuple(dict.fromkeys(name for name in (kind, cut_kind(source), source, *program) if name))


def cut_kind(source: str) -> str:
    """What a source says beside its kind: a file, an address, another program."""
    kind, _, detail = source.partition(":")
    return detail if kind in SOURCES else source


def put_in_place(memory: Memory, place: Place) -> Memory:
    """A memory with where it was said. One whose text is about all packages of a monorepo holds for no single one."""
    package = "" if _FOR_ALL.search(memory.content) else place.package
    return memory._replace(project=place.project, area=place.area, package=package, own=place.own)


def is_of(memory: Memory, names: Sequence[str]) -> bool:
    """Whether a memory belongs to a project that has these names, as the marks say it."""
    return memory.project in names or (memory.own and OWN in names)


def list_own(agent_id: str) -> tuple[str, ...]:
    """Whose memories count as an agent's own: its own, and those that belong to no agent (a person's)."""
    return tuple(dict.fromkeys((agent_id, "")))


def meta_mark(name: str, value: object) -> str:
    return mark("meta", _dump({name: value}).decode("utf-8", "replace"))


# -- what became of a memory that was to be stored -------------------------------------------


class Outcome(NamedTuple):
    """What became of a new memory: the one that stands for it now, the decision and its reason."""

    memory_id: str
    decision: str
    rule: str
    why: str
    content: str
    other_id: str | None = None
    review: bool = False
    scores: Mapping[str, float] = {}
    warnings: tuple[str, ...] = ()


def describe_other_agent(rule: str, old: Memory) -> str:
    """What is to be said of a memory that another agent keeps."""
    return f"Agent {old.agent_id!r} {'already keeps this' if rule == AGENT_SAME else 'keeps what speaks against it'}."


def describe_added(memory: Memory) -> Outcome:
    """What became of a memory that was stored as it is."""
    return Outcome(memory.memory_id, "add", "asked", "It was to be added as it is.", memory.content)


class Updated(Memory):
    """A memory as it was changed, and what its author should know about it."""

    warnings: tuple[str, ...] = ()


def make_updated(memory: Memory, warnings: tuple[str, ...]) -> Updated:
    made = Updated(*memory)
    made.warnings = warnings
    return made


# -- checks -----------------------------------------------------------------------------------


def check_id(text: object) -> str:
    """A memory id as it is written, or InvalidInput."""
    try:
        return str(uuid.UUID(str(text)))
    except ValueError:
        raise InvalidInput(
            f"{str(text)[:80]!r} is not a memory id: an id is a UUID of 36 characters.",
            hint="Search for the memory to learn its id.",
        ) from None


def check_content(content: object) -> str:
    if not isinstance(content, str):
        raise InvalidInput(f"content must be text, not {type(content).__name__}. Nothing was stored.")
    if not content.strip():
        raise InvalidInput("content is empty. Nothing was stored.", hint="Say one fact in one sentence.")
    if len(content) > LONGEST:
        raise InvalidInput(
            f"content has {len(content):,} characters; a memory has at most {LONGEST:,}. Nothing was stored.",
            hint="Store it as a file with `memlake add`, and remember where it is.",
        )
    return content


def check_importance(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(f"importance is a number from 0 to 1, not {value!r}. Nothing was stored.")
    return float(value)


def check_metadata(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InvalidInput("metadata is a mapping from names to JSON values. Nothing was stored.")
    plain: dict[str, Any] = check_json(dict(value), "metadata")
    return plain


def check_json(value: object, what: str) -> Any:
    """A copy of a JSON value, or InvalidInput: so deep that not every reader of JSON could take it, or none at all."""
    level = [value]
    for _ in range(DEEPEST):
        lists = [outer.values() if isinstance(outer, dict) else outer for outer in level]
        level = [inner for one in lists if isinstance(one, list | tuple | ValuesView) for inner in one]
        if not level:
            break
    else:
        raise InvalidInput(f"{what} is nested more than {DEEPEST} levels deep. Nothing was stored.")
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must be a JSON value: {error}. Nothing was stored.") from None


def check_text(value: object, name: str, *, longest: int = 512) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > longest or "\0" in value:
        raise InvalidInput(f"{name} is text of at most {longest} characters, not {str(value)[:40]!r}.")
    return value


def check_agent(value: object) -> str:
    """The name of one agent: "*" means everybody in a search, and nobody can be that."""
    name = check_text(value, "agent_id")
    if name.strip() == "*":
        raise InvalidInput(
            'agent_id is the name of one agent; "*" stands for all of them in a search. Nothing was stored.',
            hint="Give the agent a name of its own.",
        )
    return name


def check_end(value: object, now: int) -> int:
    """When a memory ends, in microseconds since 1970; 0 for never. What is over already is refused."""
    if value is None or value == 0 or (isinstance(value, str) and value.strip().lower() == "never"):
        return 0
    if isinstance(value, bool) or not isinstance(value, str | int | datetime):
        raise InvalidInput(f'expires_at is a time or "never", not {str(value)[:40]!r}. Nothing was stored.')
    end = parse_end(value) if isinstance(value, str) else value
    end = int(end.timestamp() * 1e6) if isinstance(end, datetime) else end
    if end >= LATEST:
        raise InvalidInput(f"expires_at is {str(value)[:40]!r}, which no calendar has. Nothing was stored.")
    if end <= now:
        over = datetime.fromtimestamp(0, timezone.utc) + timedelta(microseconds=max(end, 0))
        raise InvalidInput(
            f"expires_at is {str(value)!r}, which was {over:%Y-%m-%dT%H:%M:%SZ}: that is over. Nothing was stored.",
            hint='Give a time to come, such as "tomorrow", "in 3 days", "2h" or 2030-01-31; or "never".',
        )
    return end


def whole(text: str) -> str:
    """A text with nothing that UTF-8 does not have: half a pair of UTF-16 may be stored, but names nothing."""
    return text.encode("utf-8", "replace").decode()


def check_tags(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple | set) or not all(isinstance(tag, str) for tag in listed):
        raise InvalidInput(f"tags is a list of texts, not {value!r}.")
    return tuple(dict.fromkeys(check_text(tag, "a tag").strip() for tag in listed if tag.strip()))
