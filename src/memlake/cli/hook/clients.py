"""How each coding agent speaks to a hook: what it gives, read into one form; our answer, and its transcript.

Which fields and names it uses says `programs`. Knows neither memories nor what an event does.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from memlake import config
from memlake.errors import InvalidInput
from memlake.programs import HOOKED, PROGRAMS, Hooks, Program

Given = Mapping[str, Any]
LIMIT = 8 << 20  # bytes of input that are read
_TOUCHED = 16  # files of a turn that are noted
_FILES = frozenset(("file_path", "filePath", "notebook_path", "absolute_path", "path"))
_TAIL = 512 << 10  # bytes of a transcript that are read, from its end
_FIELDS = {
    "session_id": str, "cwd": str, "prompt": str, "last_assistant_message": str, "transcript_path": str,
    "stop_hook_active": bool, "source": str, "reason": str, "trigger": str, "agent_id": str, "agent_type": str,
    "agent_transcript_path": str, "hook_event_name": str, "timestamp": str,
}  # fmt: skip
_OWN_CONTEXT = re.compile(r"\s*<hook_context>.*?</hook_context>\s*", re.S)  # Gemini puts it before the first prompt
_SPEAKERS = {"gemini": "assistant", "assistant.message": "assistant", "user.message": "user", "user": "user"}


def find_program(name: str) -> Program:
    """The program of this name; one that is not known speaks as Claude Code does and signs with its name."""
    program = PROGRAMS.get(name)
    return program if program and program.hooks else Program(name, name, None, HOOKED["claude"])


def read_given(data: bytes, program: Program) -> tuple[dict[str, Any], list[str]]:
    """What an event was given, in our words, and the fields that were left out because they are of a wrong type."""
    if len(data) > LIMIT:
        raise InvalidInput(f"the input is longer than {LIMIT:,} bytes; it was not read.")
    given = json.loads(data) if data.strip() else {}
    if not isinstance(given, dict):
        raise InvalidInput(f"the input is a JSON {type(given).__name__}, not an object; it was not read.")
    names = _hooks(program).fields
    fields = {**given, **{ours: given[its] for its, ours in names.items() if its in given}}
    known = {name: value for name in _FIELDS if (value := fields.get(name)) is not None}
    wrong = [name for name, value in known.items() if not isinstance(value, _FIELDS[name])]
    kept = {name: value for name, value in known.items() if name not in wrong}
    if program.name == "gemini" and "prompt" in kept:
        kept["prompt"] = _OWN_CONTEXT.sub("", kept["prompt"], count=1)
    return kept, [f"{name} is a {type(known[name]).__name__}" for name in wrong if name != "timestamp"]


def is_other(program: Program, given: Given) -> bool:
    """Whether another program runs the hooks of this one: Copilot runs those of Claude Code beside its own."""
    return program.name == "claude" and "timestamp" in given and bool(config.outside("COPILOT_CLI"))


def shape_context(program: Program, event: str, text: str) -> Given:
    """An answer that puts a text before the agent."""
    hooks = _hooks(program)
    if hooks.form == "groups":
        return {"hookSpecificOutput": {"hookEventName": hooks.events[event], "additionalContext": text}}
    return {"additionalContext": text}


def _hooks(program: Program) -> Hooks:
    return program.hooks or HOOKED["claude"]


# -- transcripts


def last_message(path: object) -> str | None:
    """The last text an agent wrote, by the end of its transcript; None when there is none."""
    return next((text for speaker, text in list_backwards(path) if speaker == "assistant"), None)


def list_backwards(path: object) -> Iterator[tuple[str, str]]:
    """Who said what, from the end of a transcript: lines of JSON, which each program shapes in its own way."""
    for line in _read_lines(path):
        speaker, text = _read_row(line)
        if text:
            yield speaker, text


def _read_lines(path: object) -> Iterator[bytes]:
    """The last lines of a transcript, from its end."""
    if not isinstance(path, str) or not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - _TAIL, 0))
        yield from reversed(file.read(_TAIL).splitlines())


def list_touched(path: object) -> list[str]:
    """The files that an agent's tools were given since the user said something, by the end of its transcript."""
    touched: dict[str, None] = {}
    for line in _read_lines(path):
        if _read_row(line)[0] == "user" and _read_row(line)[1]:
            break
        with suppress(ValueError, RecursionError):
            touched |= dict.fromkeys(_list_files(json.loads(line)))
    return list(touched)[:_TOUCHED]


def _list_files(value: Any) -> Iterator[str]:
    """The paths that stand anywhere in a row under a name that tools have for a file."""
    named = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in named:
        if isinstance(inner, str) and name in _FILES:
            yield inner
        elif isinstance(inner, str) and name == "arguments":  # of Codex, JSON as text
            with suppress(ValueError):
                yield from _list_files(json.loads(inner))
        else:
            yield from _list_files(inner)


def _read_row(line: bytes) -> tuple[str, str]:
    """The speaker of one line and its text parts, without tools and without what the program put in by itself."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return "", ""
    if not isinstance(row, dict) or row.get("isSidechain"):
        return "", ""
    body = next((row[name] for name in ("message", "payload", "data") if isinstance(row.get(name), dict)), row)
    kind = row.get("type")
    speaker = body.get("role") or (_SPEAKERS.get(kind) if isinstance(kind, str) else None)
    if speaker not in ("user", "assistant"):
        return "", ""
    content = body.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [
        part.get("text")
        for part in parts
        if isinstance(part, dict) and part.get("type", "text") in ("text", "output_text", "input_text")
    ]
    return speaker, "\n".join(text for text in texts if isinstance(text, str)).strip()
