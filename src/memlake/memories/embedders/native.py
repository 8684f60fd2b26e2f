"""Native: who is inside the library of a model, and that nobody is when Python ends. Knows no model.

A thread inside such a library while the interpreter is taken down ends the process by SIGABRT or SIGSEGV: on coming
back it finds no Python to return to. So at exit nobody is let in any more, and those inside come out first.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from memlake.errors import Unavailable

_LONGEST = 30.0  # seconds that exit waits for a model that is being loaded on a busy machine


class Gate:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = False

    @contextlib.contextmanager
    def enter(self) -> Iterator[None]:
        """Be inside, for one short run or for loading; refused once the program is ending."""
        with self._changed:
            if self._shut:
                raise Unavailable("this program is ending, so nothing more is embedded. What waits is embedded later.")
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def shut(self) -> None:
        """Let nobody in any more, and wait for those inside."""
        with self._changed:
            self._shut = True
            self._changed.wait_for(lambda: not self._inside, _LONGEST)


gate = Gate()
models: dict[object, Any] = {}  # loaded once in a process: each takes some 80 MB, and not all of it is given back
loading = threading.Lock()
_inherited: list[Any] = []


@atexit.register
def _leave() -> None:
    gate.shut()


def _begin_anew() -> None:
    """In a forked child: the threads of the parent's models are not here, nor those that hold its locks.

    The models are kept, unused: to let go of one would wait for its threads.
    """
    global gate, models, loading
    _inherited.append(models)
    gate, models, loading = Gate(), {}, threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)
