"""What coding agents keep as Markdown: Claude Code's memory folders, and the instruction files of a project.

A memory folder has one note a memory and an index, MEMORY.md, of lines that point to them. An instruction file
(CLAUDE.md, AGENTS.md ...) is read point by point; one in a subfolder holds for that folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from memlake import projects
from memlake.integrations import markdown_notes
from memlake.integrations.format import Format, Raw, make_id, place
from memlake.integrations.formats import read_text
from memlake.integrations.given import Given
from memlake.memories.rot.instructions import is_instruction_file

_INDEX = "MEMORY.md"
_POINTER = re.compile(r"\s*[-*+]\s+\[[^\]]*\]\(\s*<?[^)>\s]+\.md>?\s*\).*")
_NOTE = re.compile(r"(?:(?P<folder>.*)/)?memory/(?P<file>[^/]+\.md)")
# How Claude Code files a note, and what we call it: type and category.
_FILED = {
    "user": ("preference", "preferences"), "feedback": ("preference", "conventions"),
    "project": ("fact", "project-notes"), "reference": ("fact", "references"),
}  # fmt: skip


# -- memory folders of Claude Code ------------------------------------------------------------


def _list_notes(given: Given) -> Iterator[tuple[str, str]]:
    """The notes, each with the folder that Claude Code made for its project: of one such folder, or of several."""
    is_one = _INDEX in given.names or (given.path is not None and given.path.resolve().name == "memory")
    for name in given.names:
        match = _NOTE.fullmatch(name)
        if match:
            yield (match["folder"] or _name_above(given, 0)).rpartition("/")[2], name
        elif is_one and "/" not in name and name.endswith(".md"):
            yield _name_above(given, 1), name


def _name_above(given: Given, levels: int) -> str:
    folders = given.path.resolve().parts if given.path is not None else ()
    return folders[-1 - levels] if len(folders) > levels else ""


def _fits_claude_code(given: Given) -> bool:
    return any(name.rpartition("/")[2] == _INDEX or _is_note(given, name) for _, name in _list_notes(given))


def _is_note(given: Given, name: str) -> bool:
    text = read_text(given, name)
    return isinstance(text, str) and _read_type(markdown_notes.parse(text).front) in _FILED


def _read_claude_code(given: Given) -> Iterator[Raw]:
    notes = list(_list_notes(given))
    is_alone = len({folder for folder, _ in notes}) == 1
    homes = {folder: {} if is_alone else _find_project(folder) for folder, _ in notes}
    for folder, name in notes:
        text = read_text(given, name)
        if isinstance(text, Raw):
            yield text
            continue
        note = markdown_notes.parse(text)
        file = name.rpartition("/")[2]
        when = given.find_time(name)
        known = {"agent_id": "claude-code", "source": f"claude-code:{file}"[:512], **homes[folder]}
        if file != _INDEX:
            raw = _read_note(note, folder, name, when)
            if raw.fields["content"]:  # else somebody emptied it
                yield raw._replace(fields={**raw.fields, **known})
            continue
        lines = [(number, line) for number, line in note.lines if not _POINTER.fullmatch(line)]
        for number, said in markdown_notes.list_points(lines, file):
            key = make_id("claude-code", folder, _INDEX, said)
            yield Raw(f"{name}, line {number}", {"memory_id": key, "content": said, "created_at": when, **known})


def _read_type(front: dict[str, Any]) -> str:
    """How a note is filed: at the top of its frontmatter, or in its metadata as newer versions write it."""
    more = front.get("metadata")
    found = front.get("type") or (more.get("type") if isinstance(more, dict) else "")
    return found if isinstance(found, str) else ""


def _read_note(note: markdown_notes.Note, folder: str, name: str, when: datetime) -> Raw:
    front, nested = dict(note.front), note.front.get("metadata")
    more = {**front, **(nested if isinstance(nested, dict) else {})}
    body = "\n".join(line for _, line in note.lines).strip()
    said = str(front.get("description") or "")
    kind = _read_type(front)
    memory_type, category = _FILED.get(kind, ("fact", kind))
    changed = more.get("modified") or when
    kept = {key: more[key] for key in ("name", "description") if more.get(key)}
    fields = {
        "memory_id": make_id("claude-code", folder, name.rpartition("/")[2]), "content": body or said,
        "memory_type": memory_type, "category": category[:512], "metadata": {**kept, "file": name},
        "session_id": str(more.get("originSessionId") or "")[:512], "created_at": more.get("created") or changed,
        "updated_at": changed,
    }  # fmt: skip
    return Raw(name, fields)


def _find_project(folder: str) -> dict[str, str]:
    """The project a folder of Claude Code is about. Its name is the path with a dash for every other sign, so the path
    is looked for on this machine; where it is not, the name keeps its memories apart from those of other projects.
    """
    path = _find_path("/", folder.removeprefix("-"))
    found = projects.find_place(path).project if path else ""
    return {"project": found} if found else place("claude-code", folder, alone=False)


def _find_path(here: str, rest: str) -> str:
    if not rest:
        return here
    try:
        with os.scandir(here) as entries:
            folders = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return ""
    for name in folders:
        slug = re.sub(r"[^A-Za-z0-9]", "-", name)
        if rest == slug or rest.startswith(f"{slug}-"):
            found = _find_path(os.path.join(here, name), rest.removeprefix(slug).removeprefix("-"))
            if found:
                return found
    return ""


# -- instruction files ------------------------------------------------------------------------


def _list_files(given: Given) -> Iterator[str]:
    if given.kind == "file":
        yield ""
    yield from filter(is_instruction_file, given.names)


def _fits_instructions(given: Given) -> bool:
    if given.kind == "file":
        return given.path is not None and is_instruction_file(given.path.name)
    return next(_list_files(given), None) is not None


def _read_instructions(given: Given) -> Iterator[Raw]:
    for name in _list_files(given):
        text = read_text(given, name)
        if isinstance(text, Raw):
            yield text
            continue
        when, file = given.find_time(name), name or (given.path.name if given.path is not None else "")
        area = "" if name.startswith(".") else name.rpartition("/")[0]
        for number, said in markdown_notes.list_points(markdown_notes.parse(text).lines, file.rpartition("/")[2]):
            yield Raw(
                f"{file}, line {number}",
                {
                    "memory_id": make_id("instructions", file, said), "content": said, "category": "conventions",
                    "created_at": when, "source": f"instructions:{file}"[:512], "area": area,
                    "metadata": {"file": file},
                },
            )  # fmt: skip


CLAUDE_CODE = Format(
    "claude-code", "a memory folder of Claude Code, or ~/.claude/projects", ("folder", "zip"), _fits_claude_code,
    _read_claude_code,
)  # fmt: skip
INSTRUCTIONS = Format(
    "instructions", "CLAUDE.md, AGENTS.md and the like: a file, or a folder with all in it", ("file", "folder"),
    _fits_instructions, _read_instructions,
)  # fmt: skip
