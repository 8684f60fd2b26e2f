"""The work of one `map` where it is done: opened once, run item by item, its errors made ready to travel."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable
from typing import Any

from memlake.datasets.executors.frames import pack, unpack
from memlake.datasets.executors.sending import Blob
from memlake.errors import Error


class Job:
    """The work of one `map` in this process: unpickled and opened at the first item at the latest."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._work: Any = None
        self._opened = False

    def open(self) -> None:
        if self._work is None:
            self._work = unpack(*self._blob)
        if not self._opened:
            getattr(self._work, "open", _nothing)()
            self._opened = True

    def run(self, item: Any) -> Any:
        self.open()
        return self._work(item)

    def close(self) -> None:
        if self._opened:
            getattr(self._work, "close", _nothing)()


def attempt(function: Callable[..., Any], *given: Any) -> tuple[str, Any]:
    """("done", result), or ("failed", what it raised with the traceback of this process as a note)."""
    try:
        return "done", function(*given)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the user's code; whatever it raises is the caller's to see
        return "failed", _sendable(error)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # what was printed is seen now, as it is in process
                stream.flush()


def _sendable(error: BaseException) -> BaseException:
    told = "".join(traceback.format_exception(type(error), error, _inner(error))).rstrip()
    try:
        unpack(*pack(error))
    except Exception:  # noqa: BLE001 - pickling runs code of the user's class, which may raise anything
        error = Error(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
    error.add_note(f"In a worker process:\n{told}")
    return error


def _inner(error: BaseException) -> Any:
    """The traceback without the frames of this file, which say nothing to the user."""
    frame = error.__traceback__
    while frame and frame.tb_frame.f_code.co_filename == __file__:
        frame = frame.tb_next
    return frame


def _nothing() -> None:
    pass
