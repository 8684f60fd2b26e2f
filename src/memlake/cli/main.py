"""The entry: runs one command line and turns every error into a few words and an exit code. Knows no verb's code."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence

from memlake import config
from memlake.cli import plain
from memlake.cli.failures import lose_output, report_error, report_system, report_unexpected, say, show_traceback
from memlake.errors import Error


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code is 0, 1 (no, differs, conflict), 2 (usage), 128 (fatal) or 130 (^C)."""
    _settle_streams()
    code = _answer(list(sys.argv[1:] if argv is None else argv))
    try:
        sys.stdout.flush()
    except OSError as error:
        return lose_output(error)
    return code


def _answer(args: list[str]) -> int:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _make_show()
            completion = config.variable("COMPLETE")
            if not completion and plain.run(args):
                return 0
            # By name: loading click takes longer than many a verb.
            return importlib.import_module("memlake.cli.commands").run(args, completion)  # type: ignore[no-any-return]
    except BrokenPipeError as error:
        return lose_output(error)
    except KeyboardInterrupt as stop:
        sys.stderr.write(f"\n{stop}\n" if str(stop) else "\n")
        return 130
    except Error as error:
        show_traceback()
        return report_error(error)
    except OSError as error:
        show_traceback()
        return report_system(error)
    except Exception as error:  # the one door
        return 128 if show_traceback() else report_unexpected(error)


def _settle_streams() -> None:
    """A name that is no valid text must be printable too, and come back as the bytes it was."""
    if sys.stdout is None or sys.stderr is None:  # closed by whoever started us, as with `>&-`
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
            stream.reconfigure(errors="surrogateescape" if utf8 else "backslashreplace")


def _make_show() -> Callable[..., None]:
    """Shows each warning once, however many parts of a command come upon it."""
    told: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_where: object, **_more: object) -> None:
        if issubclass(category, UserWarning) and str(message) not in told:
            told.add(str(message))
            say("warning", str(message))

    return show
