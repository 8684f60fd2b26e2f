"""The program that is running, as text: a script, a module, `-c`, stdin, a prompt, a notebook, a test. Knows no chain.

What is typed is kept by nobody for us: each way of starting Python leaves its text in another place, or nowhere. Where
it is nowhere the caller tells what it knows of the work instead, so that nothing is ever saved without its making.
"""

from __future__ import annotations

import functools
import linecache
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

from memlake import config, secrets
from memlake.dataset.memo import code_origin
from memlake.named_tuple import NamedTuple

LONGEST = 200_000  # characters of a text that is kept
_PATIENCE = 2.0  # seconds git has to answer
_LATELY = 1.0  # seconds
# Not what changed inside submodules: git would ask one of its own there, without our options.
_STATUS = ("--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",  # looking must not write the index
    "GIT_NO_LAZY_FETCH": "1",  # nor fetch what is missing, which runs ssh or a program of the remote;
    "GIT_ALLOW_PROTOCOL": "none",  # git before 2.44 knows only this
}
_VALUED = {"-W", "-X", "--check-hash-based-pycs"}  # options of Python that take a value


class Text(NamedTuple):
    kind: str  # script, module, command, stdin, prompt, notebook, test
    name: str
    text: str
    folder: str


def read_program(otherwise: Callable[[], str]) -> Text:
    """The program, its secrets masked; what `otherwise` tells where Python has kept no text."""
    found = _read_notebook() or _read_script() or _read_command() or _read_typed()
    text = found.text.strip() and found.text
    return found._replace(
        text=prepare_text(text or f"# {found.name}: Python kept no text of it. Its steps:\n{otherwise()}")
    )


@functools.lru_cache(maxsize=64)
def prepare_text(text: str) -> str:
    """A text as it is stored: without secrets, and not endless."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}\n# ... and {len(text) - LONGEST:,} more characters\n"
    return secrets.mask(cut)


# -- notebooks -------------------------------------------------------------------------------------


def _read_notebook() -> Text | None:
    """Every cell that ran, in the order it did."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return None
    space = getattr(shell, "user_ns", {})
    cells = [(number, str(cell)) for number, cell in enumerate(space.get("In", ())) if str(cell).strip()]
    path = str(space.get("__vsc_ipynb_file__") or config.outside("JPY_SESSION_NAME"))
    kind = "notebook" if path or "ipykernel" in sys.modules else "prompt"
    text = "\n\n".join(f"# In [{number}]\n{cell.rstrip()}" for number, cell in cells)
    return Text(kind, Path(path).name or "IPython", text, os.getcwd())


# -- files -----------------------------------------------------------------------------------------


def _read_script() -> Text | None:
    """The file that was started; where a program of others was (pytest, a server), the file that called us."""
    if config.outside("PYTEST_CURRENT_TEST") and (called := next(_callers(), None)):
        return _read_file("test", called)
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file and os.path.isfile(file) and _is_own(file):
        return _read_file("module" if getattr(main, "__spec__", None) else "script", file)
    called = next(_callers(), None) if file else None
    if called is None:
        return _read_file("script", file) if file and os.path.isfile(file) else None
    return _read_file("module", called)


def _read_file(kind: str, file: str) -> Text:
    path = Path(os.path.abspath(file))
    here = Path.cwd()
    name = path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name
    return Text(kind, name, path.read_text(encoding="utf-8", errors="replace"), str(path.parent))


def _is_own(file: str) -> bool:
    return code_origin.library_of_file("", os.path.abspath(file)) is None


def _callers() -> Iterator[str]:
    """Files of the user's own that lead here, the nearest first."""
    frame: Any = sys._getframe()
    ours = str(Path(__file__).parent.parent) + os.sep
    while frame is not None:
        file = frame.f_code.co_filename
        if os.path.isfile(file) and not os.path.abspath(file).startswith(ours) and _is_own(file):
            yield file
        frame = frame.f_back


# -- what was never a file -------------------------------------------------------------------------


def _read_command() -> Text | None:
    text = _text_after_c(sys.orig_argv[1:])
    return Text("command", "python -c", text, os.getcwd()) if text is not None else None


def _text_after_c(words: Sequence[str]) -> str | None:
    """The text after -c among the words of a command line; options may be written together, as in -Bc."""
    left = iter(words)
    for word in left:
        if word in _VALUED:
            next(left, None)
        elif not word.startswith("-") or word == "-" or word.startswith("--"):
            return None
        elif "c" in word and word[1] not in "WX":
            return word.partition("c")[2] or next(left, "")
    return None


def _read_typed() -> Text:
    """A prompt, or a program that came through stdin."""
    is_prompt = bool(sys.flags.interactive or hasattr(sys, "ps1"))
    if is_prompt:
        return Text("prompt", "the Python prompt", _read_prompt(), os.getcwd())
    return Text("stdin", "stdin", _read_stdin(), os.getcwd())


def _read_prompt() -> str:
    """What was typed: since Python 3.13 it is in linecache, before that readline has it behind earlier sessions."""
    inputs = [name for name in linecache.cache if name.startswith("<python-input-")]
    if inputs:
        return "".join("".join(linecache.getlines(name)) for name in inputs)
    readline: Any = sys.modules.get("readline")
    if readline is None:
        return ""
    earlier = _count_lines(os.path.expanduser("~/.python_history"))
    items = range(earlier + 1, readline.get_current_history_length() + 1)
    return "\n".join(readline.get_history_item(number) or "" for number in items)


def _count_lines(path: str) -> int:
    try:
        return len(Path(path).read_bytes().splitlines())
    except OSError:
        return 0


def _read_stdin() -> str:
    """A file that is our stdin can be read again; what came through a pipe is gone."""
    try:
        told = os.fstat(0)
        return os.pread(0, LONGEST, 0).decode("utf-8", "replace") if stat.S_ISREG(told.st_mode) else ""
    except OSError:
        return ""


def text_of(function: Any) -> str:
    """The lines of a function that is in no file: of the program, if that is at hand; else its name and parameters."""
    code = getattr(function, "__code__", None) or getattr(getattr(function, "func", None), "__code__", None)
    if not isinstance(code, CodeType):
        return f"# {function!r:.200}"
    found = code_origin.text_in(code, _text_of_program(code.co_filename))
    named = f"{code.co_name}({', '.join(code.co_varnames[: code.co_argcount])})"
    return found.text if found else f"# {named}: Python kept no text of it"


def _text_of_program(file: str) -> str:
    """The program whose functions say that they are from `<string>` or `<stdin>`."""
    if file == "<string>":
        return _text_after_c(sys.orig_argv[1:]) or ""
    return _read_typed().text if file == "<stdin>" and _read_typed().kind == "stdin" else ""


# -- git -------------------------------------------------------------------------------------------


def git(folder: str) -> dict[str, Any]:
    """The commit a folder is at and whether tracked files differ from it; `why` where there is none."""
    here = Path(folder)
    if not any((one / ".git").exists() for one in (here, *here.parents)):
        return _no_git(f"{here.name or folder} is in no git repository")
    try:
        done = _ask_git(here, *_blank_filters(here), "status", *_STATUS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _no_git(f"git did not answer: {type(error).__name__}")
    except ValueError as error:
        return _no_git(str(error))
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid")), "")
    if not commit or commit == "(initial)":
        return _no_git(done.stderr.decode("utf-8", "replace").strip()[:200] or "the git repository has no commit yet")
    return {"commit": commit, "dirty": any(not line.startswith("#") for line in lines)}


def _ask_git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """A folder somebody sent may have git run programs of its own: each way to name one in its settings is closed."""
    ask = ["git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", *words]
    settings = {**config.environment(), **_QUIET}
    return subprocess.run(ask, cwd=folder, env=settings, capture_output=True, timeout=_PATIENCE, check=False)


def _blank_filters(folder: Path) -> list[str]:
    """Options that empty each filter git knows of here, which it would run on files whose times changed.

    Those of the user as well: git-lfs is told by the folder which programs to run. So a file that is stored by a filter
    and was only touched counts as changed.
    """
    done = _ask_git(folder, "config", "--null", "--name-only", "--get-regexp", r"^filter\.")
    if done.returncode > 1:  # 1: there are none
        raise ValueError(done.stderr.decode("utf-8", "replace").strip()[:200])
    names = sorted({os.fsdecode(name) for name in done.stdout.split(b"\0") if name})
    if odd := [name for name in names if "=" in name]:  # -c would end the name there, and the filter would run
        raise ValueError(f"git was not asked, because memlake cannot switch off {odd[0][:100]!r} in its settings")
    return [word for name in names for word in ("-c", f"{name}=")]


_git_answers: dict[str, tuple[float, dict[str, Any]]] = {}  # by folder: when it was asked, and the answer


def git_lately(folder: str) -> dict[str, Any]:
    """The same as of a second ago at most: many answers in a row need no process each."""
    when, state = _git_answers.get(folder, (-_LATELY, {}))
    if time.monotonic() - when >= _LATELY:
        state = git(folder)
        _git_answers[folder] = time.monotonic(), state
    return state


def _no_git(why: str) -> dict[str, Any]:
    return {"commit": None, "dirty": None, "why": why}
