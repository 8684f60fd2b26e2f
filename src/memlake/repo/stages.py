"""Stages: what a script read and wrote when it last ran, and whether any of that has changed since.

The records stand in local.db: without them every stage runs again, and a commit does not know what made its files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

from memlake import dataset, secrets, versions
from memlake.dataset import feedback
from memlake.dataset.kind import DATASET
from memlake.dataset.lineage.opened_files import Opened
from memlake.errors import Error
from memlake.named_tuple import NamedTuple
from memlake.versions.checkout.local import as_written
from memlake.versions.paths import FILES, file_path, file_problem

if TYPE_CHECKING:
    from memlake.repo.repo import Repo

_HASHED = 256 << 20  # bytes of files that a run hashes
_FILES = 1000  # files that a run read which a commit names
_NAMES = 10_000  # of a folder beyond which their hash is kept
Stamp = tuple[int, int, str]  # size, mtime in ns, SHA-256 or ""


class Stage(NamedTuple):
    """A script with all that it is told."""

    script: str
    arguments: tuple[str, ...] = ()
    params: Mapping[str, str] = {}
    params_file: str | None = None


class Seen(NamedTuple):
    """What a run touched: files it read and wrote, folders it listed, datasets it asked for and saved."""

    read: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    saved: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()  # names of params
    versions: tuple[str, ...] = ()  # the specs that those datasets were then
    tables: tuple[str, ...] = ()  # of the files it read, those that memlake read for it
    params: Mapping[str, Any] = {}
    metrics: Mapping[str, Any] = {}
    libraries: tuple[str, ...] = ()
    offered: Mapping[str, Sequence[str]] = {}  # names of params by the file that gives them


def parse_seen(stage: Stage, opened: Opened, report: Iterable[Mapping[str, Any]]) -> Seen:
    """What the hook and memlake's own report tell of a run."""
    lines = list(report)
    tables = {os.path.abspath(path): None for one in lines for path in one.get("read", ())}
    always = [stage.script, *([stage.params_file] if stage.params_file else [])]
    read = dict.fromkeys(opened.read) | tables | {os.path.abspath(path): None for path in always}

    def list_told(key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one[key] for one in lines if key in one))

    return Seen(
        tuple(path for path in read if os.path.isfile(path)),
        tuple(path for path in opened.wrote if os.path.isfile(path)),
        tuple(path for path in opened.listed if os.path.isdir(path)),
        list_told("dataset"), list_told("saved"), list_told("param"), list_told("spec"), tuple(tables),
        {one["param"]: one["value"] for one in lines if "value" in one and "param" in one},
        {one["metric"]: one["value"] for one in lines if "metric" in one},
        opened.libraries, {one["offered"]: one["names"] for one in lines if "offered" in one},
    )  # fmt: skip


# -- what is kept of a run ----------------------------------------------------------------------------


def find_change(repo: Repo, stage: Stage, later: Sequence[Stage] = ()) -> str | None:
    """Why a stage has to run: what has changed since it last did; None if nothing has.

    What stages that run after it wrote last time is no change, because it was not there yet when this one ran.
    """
    known = repo._local.json_state(_key(repo, stage))
    if known is None:
        return "it was not run before"
    with as_written("stage"):
        if known["python"] != sys.version:
            return "Python changed"
        if known["params"] != _choose_asked(stage, known["asked"]) or known["params_file"] != stage.params_file:
            return "its params changed"
        records = [record for one in later if (record := repo._local.json_state(_key(repo, one))) is not None]
        rewritten = {(path, stamp[2]) for record in records for path, stamp in record["wrote"].items()}
        for word, files in (("read", known["read"]), ("wrote", known["wrote"])):
            for path, stamp in files.items():
                digest = _stamp_file(path, stamp)
                if digest != stamp[2] and (word == "read" or (path, digest) not in rewritten):
                    return f"{_shorten(repo, path)}, which it {word}, changed"
        own = {*known["wrote"], *(path for path, _ in rewritten)}
        for folder, names in known["listed"].items():
            if _is_other_listing(folder, names, own):
                return f"the files in {_shorten(repo, folder)} changed"
        for name, spec in known["datasets"].items():
            if _find_spec(repo, name) != spec:
                return f"dataset {name}, which it read, changed"
        lost = next((spec for spec in known["saved"] if _find_spec(repo, spec) is None), None)
        return f"{lost}, which it saved, is gone" if lost else None


def note_run(repo: Repo, stage: Stage, seen: Seen, since: int, *, whole: bool) -> str | None:
    """Keep what a run that began then and ended well touched; returns the file that was edited meanwhile, if any.

    What that run read of the file is not known, so nothing is kept, and the stage runs again. Unless files are to be
    known `whole`, of many bytes size and time are kept instead of the content's hash.
    """
    if edited := [path for path in seen.read if os.stat(path).st_mtime_ns > since and path not in seen.wrote]:
        repo._local.set_state(**{_key(repo, stage): None})
        return _shorten(repo, edited[0])
    stamp = _Stamper(repo, [*seen.read, *seen.wrote], None if whole else _HASHED)
    read, wrote = ({path: stamp(path) for path in paths} for paths in (seen.read, seen.wrote))
    record = {
        "python": sys.version,
        "params": _choose_asked(stage, seen.asked),
        "asked": list(seen.asked),
        "params_file": stage.params_file,
        "read": read,
        "wrote": wrote,
        "listed": {path: _list_names(path, wrote) for path in seen.listed},
        "datasets": {name: _find_spec(repo, name) for name in seen.datasets},
        "saved": list(seen.saved),
    }
    repo._local.set_state(**{_key(repo, stage): json.dumps(record)})
    versions.run_notes.note_run(repo._local, _describe_run(repo, stage, seen, read, wrote))
    return None


@contextlib.contextmanager
def join_operations(repo: Repo, verb: str, detail: str) -> Iterator[list[str]]:
    """Make one operation of all that is done inside, which ends where it began; the names of branches it left go in."""
    since, kept = versions.undo.find_last_id(repo._look()), list[str]()
    try:
        yield kept
    finally:
        with repo._verb() as here:
            versions.undo.note_branches(here, since, (verb, detail), kept)


def list_asked(repo: Repo, stage: Stage) -> tuple[str, ...]:
    """The params that a stage which is skipped asked for when it last ran."""
    return tuple((repo._local.json_state(_key(repo, stage)) or {}).get("asked", ()))


def _choose_asked(stage: Stage, asked: Sequence[str]) -> dict[str, str]:
    """Those params that the script asks for: others make no difference to it."""
    unused = feedback.find_unused(stage.params, asked)
    return {name: value for name, value in stage.params.items() if name not in unused}


def _key(repo: Repo, stage: Stage) -> str:
    told = json.dumps([_shorten(repo, os.path.abspath(stage.script)), stage.arguments])
    return f"stage {hashlib.sha256(told.encode('utf-8', 'surrogateescape')).hexdigest()[:24]}"


def _shorten(repo: Repo, path: str) -> str:
    root = f"{os.path.realpath(repo.root)}{os.sep}"
    return path.removeprefix(root) if path != root[:-1] else "."


# -- what a commit records of a run -------------------------------------------------------------------


def _describe_run(
    repo: Repo, stage: Stage, seen: Seen, read: Mapping[str, Stamp], wrote: Mapping[str, Stamp]
) -> dict[str, Any]:
    """The program, what it read and what it wrote, as `run_notes` keeps it. Secrets are masked.

    Of what lies outside of the repo, only the program and what memlake read for it count: other files are mostly
    settings and caches of libraries.
    """
    script = os.path.abspath(stage.script)
    names = {path: _name_file(repo, path) for path in {*read, *wrote, script}}
    is_input = {path for path in read if path not in wrote and (names[path] != path or path in seen.tables)} - {script}
    files = [
        {"path": names[path], "commit": None, "oid": stamp[2] or None, "stamp": stamp[:2]}
        for path, stamp in read.items()
        if path in is_input
    ]
    given = {
        name: dataset.params.describe_param(name, value, "")["value"]
        for name, value in _choose_asked(stage, seen.asked).items()
        if name not in seen.params
    }
    return {
        "program": {"path": names[script], "commit": None, "oid": read[script][2] or None},
        "arguments": [secrets.mask(one) for one in stage.arguments],
        "params": {**given, **seen.params},
        "metrics": dict(seen.metrics),
        "packages": find_packages(seen.libraries),
        "reads": [*filter(None, (_find_record(repo, spec) for spec in seen.versions)), *files[:_FILES]],
        "more": max(0, len(files) - _FILES),
        "saved": [f"{DATASET.folder}{spec.replace('@', '/')}" for spec in seen.saved],
        "wrote": {names[path]: stamp for path, stamp in wrote.items() if names[path] != path},
    }


def _name_file(repo: Repo, path: str) -> str:
    """The tree path of a file, which is its own path if it lies outside of the repo or cannot be kept."""
    name = _shorten(repo, os.path.realpath(path)).replace(os.sep, "/")
    return FILES + name if not os.path.isabs(name) and file_problem(name) is None else path


def _find_record(repo: Repo, spec: str) -> dict[str, Any] | None:
    """A version as a commit's `uses` names it."""
    try:
        return versions.commit.resolve_use(repo._look(), f"{DATASET.folder}{spec.replace('@', '/')}")
    except Error:
        return None


def find_packages(libraries: Iterable[str]) -> dict[str, str]:
    """The versions of what Python and these imported names are now."""
    names = {*libraries} - {"sitecustomize"}
    found = {"python": sys.version.split()[0], "memlake": metadata.version("memlake")}
    for name in sorted(names):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    if names - set(found):
        owners = metadata.packages_distributions()  # slow, and few are named otherwise than what they are installed as
        found |= {one: metadata.version(one) for name in names - set(found) for one in owners.get(name, ())}
    return found


# -- files and folders as they were -------------------------------------------------------------------


class _Stamper:
    """Stamps of files. What is tracked and unchanged is not hashed again; beyond a limit nothing is."""

    def __init__(self, repo: Repo, paths: Sequence[str], limit: int | None) -> None:
        named = {path: _name_file(repo, path) for path in paths}
        stats = {file_path(name): os.stat(path) for path, name in named.items() if name != path}
        oids = repo._local.find_unchanged(stats)
        self._oids = {path: oids.get(file_path(name)) for path, name in named.items() if name != path}
        self._left = limit

    def __call__(self, path: str) -> Stamp:
        facts = os.stat(path)
        if (oid := self._oids.get(path)) is not None:
            return facts.st_size, facts.st_mtime_ns, oid
        if self._left is not None and not path.endswith(".py"):
            if facts.st_size > self._left:
                return facts.st_size, facts.st_mtime_ns, ""
            self._left -= facts.st_size
        return _read_stamp(path)


def _read_stamp(path: str) -> Stamp:
    facts = os.stat(path)
    with open(path, "rb") as file:
        return facts.st_size, facts.st_mtime_ns, hashlib.file_digest(file, "sha256").hexdigest()


def _stamp_file(path: str, known: Sequence[Any]) -> str | None:
    """The digest of a file, which is read only if its size is as known and its time is not; None if it is gone."""
    try:
        facts = os.stat(path)
        if facts.st_mtime_ns == known[1] and facts.st_size == known[0]:
            return str(known[2])
        return _read_stamp(path)[2]
    except OSError:
        return None


def _list_names(folder: str, wrote: Iterable[str]) -> list[str] | str:
    """The names in a folder; of very many their hash, without those that the stage itself wrote."""
    names = sorted(name for name in os.listdir(folder) if name not in ("__pycache__", ".memlake"))
    if len(names) <= _NAMES:
        return names
    own = _list_own(folder, wrote)
    text = "\0".join(name for name in names if name not in own)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _list_own(folder: str, wrote: Iterable[str]) -> set[str]:
    return {os.path.basename(path) for path in wrote if os.path.dirname(path) == folder}


def _is_other_listing(folder: str, known: list[str] | str, wrote: Iterable[str]) -> bool:
    """Whether names came or went, but for files that this stage and later ones wrote."""
    try:
        names = _list_names(folder, wrote)
    except OSError:
        return True
    if isinstance(names, str) or isinstance(known, str):
        return names != known
    return not {*names} ^ {*known} <= _list_own(folder, wrote)


def _find_spec(repo: Repo, name: str) -> str | None:
    try:
        return repo.datasets().get(name).spec
    except Error:
        return None
