"""The root of a remote: the one file that changes, as JSON. Says which files there are and what the refs name. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memlake.errors import Corrupt, InvalidInput
from memlake.named_tuple import NamedTuple
from memlake.versions.history.archive import ArchiveFile
from memlake.versions.paths import name_problem

NAME = "root"
FORMAT = 1
_OID = re.compile(r"[0-9a-f]{64}")
_MARK = re.compile(r"[0-9a-f]{16}")
_PATH = re.compile(r"(log|packs|results|archives|parts/[0-9a-f]{2})/[0-9a-f]{64}(\.[1-9][0-9]{0,15})?")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST = 1_000_000  # files that a root may list
_MOST_LISTS = 1_000_000  # lists in a root: an empty one takes three bytes there and a hundred in memory
_HUGE = 1 << 53
RefKey = tuple[int, str]


class Target(NamedTuple):
    """What a branch (kind 0) or tag (kind 1) names, by lane, and the note of a tag."""

    work: str | None
    memory: str | None
    note: str | None = None  # hex


class LogFile(NamedTuple):
    """A batch: what it unpacks to, how many rows it has, and of which batches it is joined, by `mark_of`."""

    name: str
    size: int
    lane: int
    commits: int
    unpacked: int
    rows: int
    joined: tuple[str, ...] = ()


class PackFile(NamedTuple):
    """A pack. One that is joined has the records of others, by `mark_of`, each so many bytes further behind."""

    name: str
    size: int
    lane: int
    joined: tuple[tuple[str, int], ...] = ()


class ResultFile(NamedTuple):
    """Answers of functions. It begins with a head of so many bytes, whose hash is the name; parts follow."""

    name: str
    size: int
    head: int


class Root(NamedTuple):
    """A state of a remote. `token` is of whoever wrote it; `needs` are commits that a bundle takes for granted.

    `condemned` are files that are not listed any more, with the time since when; who began to read earlier may still
    want them. `doomed` are being deleted, so nobody may list them; `sweeps` counts how often files were doomed.
    """

    repo: str
    salt: str
    generation: int
    token: str
    head: str
    refs: Mapping[RefKey, Target]
    log: tuple[LogFile, ...] = ()
    packs: tuple[PackFile, ...] = ()
    purges: tuple[str, ...] = ()
    condemned: Mapping[str, int] = {}
    needs: tuple[str, ...] = ()
    doomed: tuple[str, ...] = ()
    sweeps: int = 0
    results: tuple[ResultFile, ...] = ()
    archives: tuple[ArchiveFile, ...] = ()  # the data of old commits, which clones may have there alone

    def paths(self) -> set[str]:
        """The files that it lists, by path. Parts are not among them: batches tell of those."""
        lists = (("log", self.log), ("packs", self.packs), ("results", self.results), ("archives", self.archives))
        return {f"{folder}/{file.name}" for folder, files in lists for file in files}

    def default_branch(self) -> str:
        """The branch that a clone stands on: the one that was pushed first, or one that is left if it was deleted."""
        left = sorted((name != "main", name) for kind, name in self.refs if kind == 0)
        return self.head if (0, self.head) in self.refs or not left else left[0][1]


def mark_of(name: str) -> str:
    """By what a joined file tells of a file that it replaces: enough to know it again, and short."""
    return name[:16]


def encode_root(root: Root) -> bytes:
    fields = {"format": FORMAT, **root._asdict()}
    fields["refs"] = {f"{kind}/{name}": list(target) for (kind, name), target in sorted(root.refs.items())}
    return json.dumps(fields, separators=(",", ":")).encode()


def doom(root: Root, paths: Iterable[str]) -> Root:
    """The root that says of these files that they are being deleted. It must not list them."""
    fresh = set(paths) - set(root.doomed)
    condemned = {path: time for path, time in root.condemned.items() if path not in fresh}
    doomed = tuple(sorted({*root.doomed, *fresh}))
    return root._replace(doomed=doomed, condemned=condemned, sweeps=root.sweeps + bool(fresh))


def decode_root(data: bytes, where: str) -> Root:
    """A root that somebody wrote, every value of it checked, or an error that says what is wrong."""
    try:
        if (lists := data.count(b"[") + data.count(b"{")) > _MOST_LISTS:
            raise ValueError(f"it has {lists:,} lists; at most {_MOST_LISTS:,} are read")
        fields = json.loads(data)
        if type(fields) is not dict or type(fields.get("format")) is not int:
            raise ValueError("it is not a JSON object with a format")
        if fields["format"] > FORMAT:
            raise InvalidInput(
                f"{where} has format {fields['format']}; this memlake reads up to {FORMAT}. Nothing was changed.",
                hint="Install a newer memlake: pip install -U memlake",
            )
        root = _read(fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Corrupt(
            f"{where} has a root that cannot be read: {error}. Nothing was changed.",
            hint="If this is a remote of ours that was damaged, copy the newest file of its folder roots/ over root.",
        ) from error
    return root


def _read(fields: dict[str, Any]) -> Root:
    refs: dict[RefKey, Target] = {}
    for text, target in fields["refs"].items():
        kind, _, name = text.partition("/")
        if kind not in ("0", "1") or name_problem(name):
            raise ValueError(f"{text!r} cannot be the name of a ref")
        work, memory, note = target
        refs[int(kind), name] = Target(_oid(work), _oid(memory), None if note is None else bytes.fromhex(note).hex())
    log = tuple(_read_log(*row) for row in _list(fields, "log"))
    packs = tuple(_read_pack(*row) for row in _list(fields, "packs"))
    results = tuple(ResultFile(_name(name), *map(_number, rest)) for name, *rest in _list(fields, "results", ()))
    archives = tuple(ArchiveFile(_name(name), *map(_number, rest)) for name, *rest in _list(fields, "archives", ()))
    if any(file.lane > 1 for file in log) or any(file.lane > 1 for file in packs):
        raise ValueError("a file of it is of no lane")
    if not _UUID.fullmatch(fields["repo"]) or len(bytes.fromhex(fields["salt"])) != 16:
        raise ValueError("its repo id or salt is not one")
    if type(fields["token"]) is not str or name_problem(fields["head"]):
        raise ValueError("its token or head is not one")
    return Root(
        fields["repo"], fields["salt"], _number(fields["generation"]), fields["token"], fields["head"], refs, log,
        packs, tuple(map(_name, _list(fields, "purges"))),
        {_path(path): _number(time) for path, time in fields["condemned"].items()},
        tuple(map(_name, _list(fields, "needs"))), tuple(map(_path, _list(fields, "doomed"))),
        _number(fields["sweeps"]), results, archives,
    )  # fmt: skip


def _read_log(name: object, size: object, lane: object, commits: object, *rest: Any) -> LogFile:
    unpacked, rows, joined = rest
    numbers = _number(size), _number(lane), _number(commits), _number(unpacked), _number(rows)
    return LogFile(_name(name), *numbers, joined=tuple(map(_mark, joined)))


def _read_pack(name: object, size: object, lane: object, joined: Any) -> PackFile:
    return PackFile(_name(name), _number(size), _number(lane), tuple((_mark(mark), _number(by)) for mark, by in joined))


def _list(fields: dict[str, Any], key: str, default: Sequence[Any] | None = None) -> Sequence[Any]:
    if default is not None and key not in fields:
        return default
    found: list[Any] = fields[key]
    if type(found) is not list or len(found) > _MOST:
        raise ValueError(f"{key} is not a list of at most {_MOST:,}")
    return found


def _oid(value: object) -> str | None:
    return None if value is None else _name(value)


def _name(value: object) -> str:
    if type(value) is not str or not _OID.fullmatch(value):
        raise ValueError(f"{value!r:.80} is not a hash")
    return value


def _mark(value: object) -> str:
    if type(value) is not str or not _MARK.fullmatch(value):
        raise ValueError(f"{value!r:.80} is not the beginning of a hash")
    return value


def is_path(value: str) -> bool:
    """Whether this is the path of a file that a remote of ours has beside its root."""
    return _PATH.fullmatch(value) is not None


def _path(value: object) -> str:
    if type(value) is not str or not is_path(value):
        raise ValueError(f"{value!r:.80} is not a file of a remote")
    return value


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < _HUGE:
        raise ValueError(f"{value!r:.80} is not a number")
    return value
