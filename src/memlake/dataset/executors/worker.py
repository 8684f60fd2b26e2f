"""A worker process: reads items from a pipe, runs the work on them, writes results. Knows nothing of who asks.

Started as `python -P -c "...; main(<read end>, <write end>)"`. It ends when the pipe does.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from typing import Any

from memlake.config import replace_environment
from memlake.dataset.executors.messages import EMPTY, Blob, pack, receive, send, unpack
from memlake.errors import Error, InvalidInput


def main(inward: int, outward: int) -> None:
    for pipe in (inward, outward):
        os.set_inheritable(pipe, False)  # a process the work starts must not keep the pipe open
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the parent ignores it, as nohup does
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # whole lines: those of several workers come to one place
            stream.reconfigure(line_buffering=True, write_through=False)
    threading.Thread(target=_end_with_parent, args=(inward,), daemon=True).start()
    # The parent asks us to stop by SIGINT, so that the work's `finally` runs; nobody is left to tell about it.
    with contextlib.suppress(KeyboardInterrupt, EOFError, BrokenPipeError):
        serve(inward, outward)


def serve(inward: int, outward: int) -> None:
    started, loaded, job = time.time(), _note_loads(), Job(EMPTY)
    while True:
        match receive(inward):
            case "job", (path, arguments, folder, environment), blob:
                if _is_stale(started, loaded):
                    send(outward, ("stale", None))
                    return
                # Modules, arguments, relative paths and variables are as in the parent, also when it changed since we
                # started
                sys.path[:], sys.argv[:] = path, arguments
                replace_environment(environment)
                with contextlib.suppress(OSError):  # the folder is gone for the parent, too
                    os.chdir(folder)
                job = Job(blob)
                send(outward, ("ready", None))
            case "open", _:
                _reply(outward, attempt(job.open))
            case "item", item:
                _reply(outward, attempt(job.run, item))
                del item  # it may be large, and the next is long in coming
            case "end", _:
                _reply(outward, attempt(job.close))
                job = Job(EMPTY)


def _reply(outward: int, outcome: tuple[str, Any]) -> None:
    try:
        send(outward, outcome)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 - pickling runs code of the user's class, which may raise anything
        why = f"A worker process made a {type(outcome[1]).__name__} that cannot be sent back: {error}"
        send(outward, ("failed", InvalidInput(why, hint="return values that can be pickled")))


def _note_loads() -> Mapping[str, Mapping[str, float]]:
    """The time and size of each source file as it was when its module was loaded from it."""
    loaded: dict[str, Mapping[str, float]] = {}
    read = SourceFileLoader.path_stats

    def path_stats(self: SourceFileLoader, path: str) -> Mapping[str, float]:
        loaded[path] = stats = read(self, path)
        return stats

    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]
    return loaded


def _is_stale(started: float, loaded: Mapping[str, Mapping[str, float]]) -> bool:
    """Did a module of the user change since? Old code would give old results under the new code's name.

    A file is compared with itself: the clock of the server it lies on may be behind ours. What was loaded in another
    way, such as a compiled library, is compared with our start.
    """
    installed = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and not file.startswith(installed):
            with contextlib.suppress(OSError):
                stat, known = os.stat(file), loaded.get(file)
                is_as_loaded = known == {"mtime": stat.st_mtime, "size": stat.st_size}
                if not is_as_loaded if known else stat.st_mtime > started:
                    return True
    return False


def _end_with_parent(inward: int) -> None:
    """Wait until the parent's end of the pipe is closed, then end ourselves and every process the work started."""
    poll = select.poll()
    poll.register(inward, 0)  # hang-up is told without being asked for
    poll.poll()
    os.killpg(0, signal.SIGKILL)


# -- the work of one `map`, in a worker of the pool or of Ray


class Job:
    """The work of one `map` in this process: unpickled and opened at the first item at the latest."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._work: Any = None
        self._is_open = False

    def open(self) -> None:
        if self._work is None:
            self._work = unpack(*self._blob)
        if not self._is_open and hasattr(self._work, "open"):
            self._work.open()
        self._is_open = True

    def run(self, item: Any) -> Any:
        self.open()
        return self._work(item)

    def close(self) -> None:
        if self._is_open and hasattr(self._work, "close"):
            self._work.close()


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
    # The traceback without the frames of this file, which say nothing to the user
    frame = error.__traceback__
    while frame and frame.tb_frame.f_code.co_filename == __file__:
        frame = frame.tb_next
    told = "".join(traceback.format_exception(type(error), error, frame)).rstrip()
    try:
        unpack(*pack(error))
    except Exception:  # noqa: BLE001 - pickling runs code of the user's class, which may raise anything
        error = Error(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
    error.add_note(f"In a worker process:\n{told}")
    return error
