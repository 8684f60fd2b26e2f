"""Stages: what a script read and wrote when it last ran, and whether any of that has changed since.

What Python opens is seen by an audit hook, which a `sitecustomize` module in a folder of our own installs in the script
and in every process it starts. What DuckDB reads for memlake is reported by memlake itself. What other native code
reads is not seen. The records stand in local.db: without them every stage runs again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlake.dataset import feedback
from memlake.errors import Error
from memlake.named_tuple import NamedTuple
from memlake.versions.checkout.local import as_written

if TYPE_CHECKING:
    from memlake.repo.repo import Repo

HOOK = '''
"""Notes which files this process opens, for the run that started it."""
import os, sys
_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != _here]

def _install():
    file = os.environ.get("MEMLAKE_RUN_OPENED")
    if not file:
        return
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    seen = set()
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def note(kind, path):
        if isinstance(path, int) or path is None:
            return
        path = os.path.abspath(os.fsdecode(path))
        if (kind, path) not in seen:
            seen.add((kind, path))
            os.write(out, f"{kind}\\0{path}\\n".encode("utf-8", "surrogateescape"))

    library = os.path.dirname(os.__file__) + os.sep

    def is_meant(frame):
        """Whether the script itself lists a folder, not the search for a module, nor memlake on its own account."""
        while frame is not None:
            name = frame.f_code.co_filename
            parts = name.replace(os.sep, "/").split("/")
            if name.startswith("<frozen importlib"):
                return False
            if not name.startswith(("<frozen", library)) or "site-packages" in parts:
                return "memlake" not in parts or "storages" in parts
            frame = frame.f_back
        return False

    def hook(event, args):
        try:
            if event == "open":
                path, mode, flags = args
                is_write = any(c in mode for c in "wax+") if mode else bool((flags or 0) & writing)
                note("w" if is_write else "r", path)
            elif event == "os.rename":
                note("w", args[1])
            elif event in ("os.listdir", "os.scandir"):
                if is_meant(sys._getframe(1)):
                    note("l", args[0] if args[0] is not None else ".")
        except Exception:
            pass

    sys.addaudithook(hook)

_install()
_own = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # the one that ours hides, if there is one
except ImportError:
    pass
if _own is not None:
    sys.modules["sitecustomize"] = _own
'''
_NOT_INPUTS = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib/")
_OWN = ("/.memlake/", "/.git/")


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


def parse_seen(stage: Stage, opened: Path, report: Iterable[Mapping[str, Any]]) -> Seen:
    """What the hook and memlake's own report tell of a run."""
    kinds: dict[str, dict[str, None]] = {"r": {}, "w": {}, "l": {}}
    text = opened.read_bytes().decode("utf-8", "surrogateescape") if opened.exists() else ""
    for line in text.split("\n"):
        kind, _, path = line.partition("\0")
        path = _find_source(path)
        if path.startswith(f"{opened.parent}{os.sep}"):  # what this very hook and the report are written to
            continue
        if kind in kinds and _counts(path) and not (kind == "r" and path in kinds["w"]):
            kinds[kind].setdefault(path)
    lines = list(report)
    read = {os.path.abspath(path): None for one in lines for path in one.get("read", ())}
    always = [stage.script, *([stage.params_file] if stage.params_file else [])]
    reads = kinds["r"] | read | {os.path.abspath(path): None for path in always}
    return Seen(
        tuple(path for path in reads if os.path.isfile(path)),
        tuple(path for path in kinds["w"] if os.path.isfile(path)),
        tuple(path for path in kinds["l"] if os.path.isdir(path)),
        tuple(dict.fromkeys(one["dataset"] for one in lines if "dataset" in one)),
        tuple(dict.fromkeys(one["saved"] for one in lines if "saved" in one)),
        tuple(dict.fromkeys(one["param"] for one in lines if "param" in one)),
    )


def _find_source(path: str) -> str:
    """The source of a module that was read as compiled code."""
    folder, name = os.path.split(path)
    if os.path.basename(folder) == "__pycache__" and name.endswith(".pyc"):
        return os.path.join(os.path.dirname(folder), f"{name.split('.', 1)[0]}.py")
    return path


def _counts(path: str) -> bool:
    """Whether a file can be an input or output: not one of Python, of the system, or of the repo itself."""
    installed = (sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    below = any(path == one or path.startswith(one + os.sep) for one in installed)
    is_temporary = "__pycache__" in path or path.endswith((".pyc", ".tmp"))
    return not (below or is_temporary or path.startswith(_NOT_INPUTS) or any(part in f"{path}/" for part in _OWN))


# -- what is kept of a run ----------------------------------------------------------------------------


def find_change(repo: Repo, stage: Stage) -> str | None:
    """Why a stage has to run: what has changed since it last did; None if nothing has."""
    known = repo._local.json_state(_key(repo, stage))
    if known is None:
        return "it was not run before"
    with as_written("stage"):
        if known["python"] != sys.version:
            return "Python changed"
        if known["params"] != _choose_asked(stage, known["asked"]) or known["params_file"] != stage.params_file:
            return "its params changed"
        for word, files in (("read", known["read"]), ("wrote", known["wrote"])):
            for path, (size, mtime, digest) in files.items():
                if _stamp_file(path, (size, mtime, digest)) != digest:
                    return f"{_shorten(repo, path)}, which it {word}, changed"
        for folder, digest in known["listed"].items():
            if _stamp_folder(folder, known["wrote"]) != digest:
                return f"the files in {_shorten(repo, folder)} changed"
        for name, spec in known["datasets"].items():
            if _find_spec(repo, name) != spec:
                return f"dataset {name}, which it read, changed"
        lost = next((spec for spec in known["saved"] if _find_spec(repo, spec) is None), None)
        return f"{lost}, which it saved, is gone" if lost else None


def note_run(repo: Repo, stage: Stage, seen: Seen, since: int) -> str | None:
    """Keep what a run that began then and ended well touched; returns the file that was edited meanwhile, if any.

    What that run read of the file is not known, so nothing is kept, and the stage runs again.
    """
    if edited := [path for path in seen.read if os.stat(path).st_mtime_ns > since and path not in seen.wrote]:
        repo._local.set_state(**{_key(repo, stage): None})
        return _shorten(repo, edited[0])
    wrote = {path: _read_stamp(path) for path in seen.wrote}
    record = {
        "python": sys.version,
        "params": _choose_asked(stage, seen.asked),
        "asked": list(seen.asked),
        "params_file": stage.params_file,
        "read": {path: _read_stamp(path) for path in seen.read},
        "wrote": wrote,
        "listed": {path: _stamp_folder(path, wrote) for path in seen.listed},
        "datasets": {name: _find_spec(repo, name) for name in seen.datasets},
        "saved": list(seen.saved),
    }
    repo._local.set_state(**{_key(repo, stage): json.dumps(record)})
    return None


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


def _read_stamp(path: str) -> tuple[int, int, str]:
    facts = os.stat(path)
    with open(path, "rb") as file:
        return facts.st_size, facts.st_mtime_ns, hashlib.file_digest(file, "sha256").hexdigest()


def _stamp_file(path: str, known: Sequence[Any]) -> str | None:
    """The digest of a file, which is read only if its size is as known and its time is not; None if it is gone."""
    try:
        facts = os.stat(path)
        if facts.st_size != known[0]:
            return None
        return str(known[2]) if facts.st_mtime_ns == known[1] else _read_stamp(path)[2]
    except OSError:
        return None


def _stamp_folder(folder: str, wrote: Iterable[str]) -> str:
    """The names in a folder, without what the stage itself wrote there."""
    own = {os.path.basename(path) for path in wrote if os.path.dirname(path) == folder}
    try:
        names = sorted(
            name for name in os.listdir(folder) if name not in own and name not in ("__pycache__", ".memlake")
        )
    except OSError:
        return ""
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def _find_spec(repo: Repo, name: str) -> str | None:
    try:
        return repo.datasets().get(name).spec
    except Error:
        return None
