"""How a failed command ends: the words on stderr and the exit code. Knows no verb, and nothing of click."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from contextlib import suppress

from memlake import config
from memlake.errors import Error, Nothing
from memlake.views.words import clean

_FAILED_WRITES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def say(label: str, message: str, hint: str = "") -> None:
    """One message on stderr, after what was printed before it; each line of the hint is marked as one."""
    text = f"{label}: {message}" if label else message
    lines = [text, *(f"hint: {line}" for line in hint.splitlines())]
    with suppress(OSError):  # what was printed comes first; what cannot be, is lost
        sys.stdout.flush()
    with suppress(OSError):
        sys.stderr.write(clean("\n".join(lines)) + "\n")
        sys.stderr.flush()


def show_traceback() -> bool:
    """With MEMLAKE_DEBUG, where the error that is being handled came from; returns whether it was shown."""
    if config.debug():
        import traceback

        traceback.print_exc()
    return config.debug()


def report_error(error: Error) -> int:
    """An error of ours, by its own words and exit code."""
    label = "fatal" if error.exit_code == 128 else "" if isinstance(error, Nothing) else "error"
    say(label, _mask(error.message), _mask(error.hint))
    return error.exit_code


def report_system(error: OSError) -> int:
    """What the system refused and no part below gave a name to: a file, or, where none is named, our output."""
    if error.filename is None and error.errno in _FAILED_WRITES:
        return lose_output(error)
    where = f"{error.filename}: " if error.filename else ""
    say("fatal", f"{where}{error.strerror or error}.", "Check that it exists and may be read and written.")
    return 128


def report_unexpected(error: Exception) -> int:
    """Anything else is our fault, and a person still gets one line."""
    say(
        "fatal",
        _mask(f"unexpected {type(error).__name__}: {error}"),
        "To see where it happened, run the command again with MEMLAKE_DEBUG=1.",
    )
    return 128


def lose_output(error: OSError) -> int:
    """Output that cannot be written: quietly when the reader has gone (`| head`), else said, as for a full disk."""
    # The interpreter's last flush must not fail once more.
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 141
    say("fatal", f"the output could not be written: {error.strerror}.")
    return 128


def _mask(text: str) -> str:
    """An error without secrets, because people paste it, and agents and CI keep it."""
    return importlib.import_module("memlake.secrets").mask(text)  # type: ignore[no-any-return]
