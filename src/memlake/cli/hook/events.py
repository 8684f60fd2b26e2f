"""The events of a coding agent: how one is run in time, what it is given, and who answers it.

Errors go to `.memlake/hooks.log`, because an agent must not stop for its memory.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memlake import config
from memlake.cli.hook import clients, keep, tell
from memlake.cli.hook.clients import Given
from memlake.cli.hook.log_file import log
from memlake.programs import Program

SECONDS = 1.5  # after which a hook ends, done or not, where MEMLAKE_HOOK_SECONDS does not say


def run(event: str, client: str) -> None:
    """Answer one event. Comes back in time, whatever happens."""
    seconds = config.hook_seconds(SECONDS)
    is_stored = False
    with _in_time(event, seconds):
        program = clients.find_program(client)
        given = _read_input(event, program)
        if clients.is_other(program, given):
            return
        if told := EVENTS[event](given, program.agent):
            sys.stdout.write(json.dumps(clients.shape_context(program, event, told)) + "\n")
            sys.stdout.flush()
        is_stored = True
    if event != "session-end" or not is_stored:
        return
    # All is stored by now. What a program makes of it may take longer, because nobody waits for the end of a session.
    with _in_time(event, seconds + keep.WRITING):
        keep.improve_summary(given, program.agent)


@contextmanager
def _in_time(event: str, seconds: float) -> Iterator[None]:
    """Work that ends in time, whatever happens; what goes wrong is logged, and the agent goes on without it."""
    late = threading.Timer(seconds, _give_up, (event, seconds))
    late.daemon = True
    late.start()
    try:
        yield
    except Exception as error:  # the agent goes on without its memory
        log(event, f"{type(error).__name__}: {error}")
    finally:
        late.cancel()


def _give_up(event: str, seconds: float) -> None:
    """Like a kill: what was not committed is as if never begun."""
    log(event, f"gave up after {seconds:g} s. If this machine needs longer, set MEMLAKE_HOOK_SECONDS.")
    os._exit(0)


def _read_input(event: str, program: Program) -> Given:
    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(clients.LIMIT + 1)
    given, wrong = clients.read_given(data, program)
    if wrong:
        log(event, f"left out of what {program.name} gave: {', '.join(wrong)}")
    folder = given.get("cwd")
    if folder and os.path.isdir(folder):
        os.chdir(folder)
    return given


def _answer_prompt(given: Given, agent: str) -> str | None:
    """What is stated is noted even if nothing can be told."""
    try:
        return tell.prompt(given, agent)
    finally:
        keep.note_prompt(given)


def _start_session(given: Given, agent: str) -> str | None:
    """What a session that died had stated is there for the next one."""
    keep.keep_left(agent)
    return tell.session_start(given, agent)


EVENTS: dict[str, Callable[[Given, str], str | None]] = {
    "session-start": _start_session,
    "prompt": _answer_prompt,
    "stop": keep.stop,
    "session-end": keep.session_end,
    "pre-compact": keep.session_end,
    "subagent-start": tell.subagent_start,
    "subagent-stop": keep.subagent_stop,
}
