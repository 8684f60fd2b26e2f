"""What a script under `memlake run` opens, noted by an audit hook. Knows no repo, and loads nothing of memlake.

A `sitecustomize` module in a folder of the run's own installs the hook in the script and in every process it starts.
What DuckDB reads for memlake is reported by memlake itself. What other native code reads is not seen.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from memlake import config
from memlake.named_tuple import NamedTuple

VARIABLE = "RUN_OPENED"  # after MEMLAKE_
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
_MEMLAKE = str(Path(__file__).parents[2])


class Opened(NamedTuple):
    """Files that were read before they were written, files that were written, folders that were listed; libraries."""

    read: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()  # top-level names of what was imported from where packages are installed


def read_opened(file: Path) -> Opened:
    """What the hook noted in a file so far."""
    kinds: dict[str, dict[str, None]] = {"r": {}, "w": {}, "l": {}}
    libraries: dict[str, None] = {}
    text = file.read_bytes().decode("utf-8", "surrogateescape") if file.exists() else ""
    for line in text.split("\n"):
        kind, _, path = line.partition("\0")
        path = _find_source(path)
        if path.startswith(f"{file.parent}{os.sep}"):  # what this very hook and the report are written to
            continue
        if kind in kinds and _counts(path) and not (kind == "r" and path in kinds["w"]):
            kinds[kind].setdefault(path)
        if (name := _find_library(path)) is not None:
            libraries.setdefault(name)
    return Opened(tuple(kinds["r"]), tuple(kinds["w"]), tuple(kinds["l"]), tuple(libraries))


def read_own() -> Opened:
    """What was opened so far by the script that this process belongs to; nothing outside of `memlake run`."""
    file = config.variable(VARIABLE)
    return read_opened(Path(file)) if file else Opened()


def _find_source(path: str) -> str:
    """The source of a module that was read as compiled code."""
    folder, name = os.path.split(path)
    if os.path.basename(folder) == "__pycache__" and name.endswith(".pyc"):
        return os.path.join(os.path.dirname(folder), f"{name.split('.', 1)[0]}.py")
    return path


def _find_library(path: str) -> str | None:
    parts = path.split(f"{os.sep}site-packages{os.sep}")
    top = parts[-1].split(os.sep, 1)[0].split(".", 1)[0] if len(parts) > 1 and path.endswith((".py", ".so")) else ""
    return top if top.isidentifier() else None


def _counts(path: str) -> bool:
    """Whether a file can be an input or output: not one of Python, of the system, or of the repo itself."""
    below = any(path == one or path.startswith(one + os.sep) for one in (sys.prefix, sys.base_prefix, _MEMLAKE))
    is_temporary = "__pycache__" in path or path.endswith((".pyc", ".tmp"))
    return not (below or is_temporary or path.startswith(_NOT_INPUTS) or any(part in f"{path}/" for part in _OWN))
