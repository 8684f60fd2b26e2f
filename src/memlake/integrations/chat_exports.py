"""What ChatGPT and Claude hand out when one asks for one's data: a zip, the folder in it, or one file of that.

Of conversations only what the person said is kept, an episode a message: what a model answered is an echo. What the
model was told to remember, and the standing instructions, are memories of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memlake.integrations import markdown_notes
from memlake.integrations.format import Format, Raw, make_id
from memlake.integrations.given import Given, list_keys
from memlake.memories.small_talk import says_little

_KINDS = ("file", "stream", "folder", "zip")
_SAID = 4000  # characters of a message that are kept
_CHATGPT = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_CLAUDE = re.compile(r"(?:.*/)?(?:(?:conversations|memories|projects)(?:-\d+)?|(?:memories|projects)/[^/]+)\.json")
_CLAUDE_KEYS = (
    {"chat_messages"}, {"conversations_memory"}, {"project_memories"}, {"memory_files", "account_uuid"},
    {"prompt_template", "docs"},
)  # fmt: skip
_DATED = re.compile(r"\s*(?:\d+\.\s*)?\[(?P<day>\d{4}-\d\d-\d\d)\]\.?\s*(?P<text>\S.*)")
_HEADING = re.compile(r"\s*(?:#{1,6}\s+(?P<marks>.+?)\s*#*|\*\*(?P<bold>[^*]{1,120})\*\*:?)\s*")
_DONE = "Model set context updated."


def _list_files(given: Given, pattern: re.Pattern[str]) -> Iterator[str]:
    """The files that hold what is looked for, by their names; of a file or stream itself, which is named ""."""
    if given.kind in ("file", "stream"):
        yield ""
    yield from (name for name in given.names if pattern.fullmatch(name))


# -- ChatGPT ----------------------------------------------------------------------------------


def _fits_chatgpt(given: Given) -> bool:
    return any("mapping" in list_keys(given.head(name))[1] for name in _list_files(given, _CHATGPT))


def _read_chatgpt(given: Given) -> Iterator[Raw]:
    told = set[str]()  # the same is told in every conversation
    for name in _list_files(given, _CHATGPT):
        for number, one in enumerate(given.list_json(name), 1):
            where = f"{name}, conversation {number}" if name else f"conversation {number}"
            if not isinstance(one, dict) or not isinstance(one.get("mapping"), dict):
                yield Raw(where, problem='a conversation has a "mapping" of messages.')
                continue
            yield from _read_conversation(one, where, told)


def _read_conversation(one: Mapping[str, Any], where: str, told: set[str]) -> Iterator[Raw]:
    session = str(one.get("conversation_id") or one.get("id") or "")
    title = str(one.get("title") or "")
    for message in _list_branch(one):
        content, author = message.get("content"), message.get("author")
        content = content if isinstance(content, dict) else {}
        role = author.get("role") if isinstance(author, dict) else ""
        kind, when = content.get("content_type"), message.get("create_time") or one.get("create_time")
        kept = list[tuple[dict[str, Any], str]]()
        if kind == "user_editable_context":
            kept = [({"content": text, "memory_type": "preference", "category": "preferences"}, "instructions")
                    for key in ("user_profile", "user_instructions") if (text := _text(content.get(key)))]  # fmt: skip
        elif kind == "model_editable_context":
            kept = [(fields, "memory") for fields in _split_dated(_text(content.get("model_set_context")))]
        elif message.get("recipient") == "bio" and role == "assistant":
            text = _text(content.get("parts"))
            kept = [({"content": text}, "memory")] if text and text != _DONE else []
        elif role == "user" and not says_little(text := _text(content.get("parts"))):
            yield Raw(where, _say(text, session, title, when) | {"id": str(message.get("id") or "")})
        for fields, what in kept:
            key = make_id("chatgpt", what, fields["content"])
            if key not in told:
                told.add(key)
                yield Raw(where, {"created_at": when, **fields, "memory_id": key, "metadata": {"kept_as": what}})


def _list_branch(one: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages of the branch that is shown, oldest first: a message that was edited has brothers."""
    mapping = one["mapping"]
    at, seen, found = one.get("current_node"), set[str](), list[Mapping[str, Any]]()
    if at not in mapping:  # none is marked: all of them, in the order of the file
        return [node["message"] for node in mapping.values() if isinstance(node, dict) and _is_message(node)]
    while isinstance(at, str) and at not in seen and isinstance(node := mapping.get(at), dict):
        seen.add(at)
        if _is_message(node):
            found.append(node["message"])
        at = node.get("parent")
    return found[::-1]


def _is_message(node: Mapping[str, Any]) -> bool:
    return isinstance(node.get("message"), dict)


def _split_dated(text: str) -> Iterator[dict[str, Any]]:
    """`1. [2025-05-02]. The user likes ice cream`: each line that begins with a date is one, others go on with it."""
    found = list[dict[str, Any]]()
    for line in text.splitlines():
        match = _DATED.fullmatch(line)
        if match:
            found.append({"content": match["text"].strip(), "created_at": match["day"]})
        elif line.strip() and found:
            found[-1]["content"] += f"\n{line.strip()}"
    yield from found or ([{"content": text}] if text else [])


def _text(value: Any) -> str:
    """The text of a message: its parts without pictures and files."""
    if isinstance(value, str):
        return value.strip()
    parts = value if isinstance(value, list) else []
    texts = (one if isinstance(one, str) else one.get("text") for one in parts if isinstance(one, str | dict))
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def _say(text: str, session: str, title: str, when: Any) -> dict[str, Any]:
    """What a person said in a conversation, as an episode of it."""
    return {
        "content": text if len(text) <= _SAID else f"{text[:_SAID]}…",
        "memory_type": "episode", "importance": 0.3, "session_id": session[:512], "created_at": when,
        "metadata": {"title": title} if title else {},
    }  # fmt: skip


# -- Claude -----------------------------------------------------------------------------------


def _fits_claude(given: Given) -> bool:
    found = (list_keys(given.head(name))[1] for name in _list_files(given, _CLAUDE))
    return any(one <= keys for keys in found for one in _CLAUDE_KEYS)


def _read_claude(given: Given) -> Iterator[Raw]:
    names = {name: title for file in _list_files(given, _CLAUDE) if "project" in file
             for one in given.list_json(file) if isinstance(one, dict)
             if (name := str(one.get("uuid") or "")) and (title := str(one.get("name") or ""))}  # fmt: skip
    for file in _list_files(given, _CLAUDE):
        for number, one in enumerate(given.list_json(file), 1):
            where = f"{file}, item {number}" if file else f"item {number}"
            if not isinstance(one, dict):
                yield Raw(where, problem=f"it must be a JSON object, not {type(one).__name__}.")
            elif "chat_messages" in one:
                yield from _read_chat(one, where)
            elif "prompt_template" in one or "docs" in one:
                yield from _read_project(one, where)
            elif any(name in one for name in ("conversations_memory", "project_memories", "memory_files")):
                yield from _read_account(one, where, names, given.find_time(file))
            else:
                yield Raw(where, problem="it is neither a conversation, a project nor memories of an account.")


def _read_chat(one: Mapping[str, Any], where: str) -> Iterator[Raw]:
    messages = one["chat_messages"] if isinstance(one["chat_messages"], list) else []
    for message in (message for message in messages if isinstance(message, dict) and message.get("sender") == "human"):
        text = _text(message.get("text")) or _text(message.get("content"))
        if not says_little(text):
            said = _say(text, str(one.get("uuid") or ""), str(one.get("name") or ""), message.get("created_at"))
            yield Raw(where, said | {"id": str(message.get("uuid") or "")})


def _read_project(one: Mapping[str, Any], where: str) -> Iterator[Raw]:
    """What a project is for and how Claude is to work in it. Its documents are files: `memlake add` keeps such."""
    title, said = str(one.get("name") or ""), _text(one.get("description"))
    prompt = _text(one.get("prompt_template"))
    content = "\n\n".join(part for part in (said, prompt) if part)
    if content:
        when = one.get("created_at")
        yield Raw(
            where,
            {
                "memory_id": make_id("claude", "project", one.get("uuid") or title), "memory_type": "context",
                "content": markdown_notes.describe_entity(title, content), "category": "project-notes",
                "created_at": when, "updated_at": one.get("updated_at") or when, "metadata": {"claude_project": title},
            },
        )  # fmt: skip


def _read_account(one: Mapping[str, Any], where: str, names: Mapping[str, str], when: Any) -> Iterator[Raw]:
    """What Claude remembers of a person: a text by sections, one for each project, and files by topic."""
    account = str(one.get("account_uuid") or "")
    for heading, text in _split_sections(_text(one.get("conversations_memory"))):
        yield _remember(where, (account, "memory", heading), heading, text, when)
    projects = one.get("project_memories")
    for project, text in (projects if isinstance(projects, dict) else {}).items():
        title = names.get(project, project)
        for heading, part in _split_sections(_text(text)):
            raw = _remember(where, (account, project, heading), heading, part, when)
            content = markdown_notes.describe_entity(title, raw.fields["content"]) if title != project else part
            yield raw._replace(fields={**raw.fields, "content": content, "metadata": {"claude_project": title}})
    files = one.get("memory_files")
    for file in (file for file in (files if isinstance(files, list) else []) if isinstance(file, dict)):
        path, text = str(file.get("path") or ""), _text(file.get("content"))
        if text:
            raw = _remember(where, (account, "file", path), "", text, file.get("updated_at") or when)
            yield raw._replace(fields={**raw.fields, "metadata": {"path": path}})


def _remember(where: str, key: Iterable[str], heading: str, text: str, when: Any) -> Raw:
    content = markdown_notes.describe_entity(heading, text) if heading else text
    more = {"metadata": {"section": heading}} if heading else {}
    fields = {"memory_id": make_id("claude", *key), "content": content, "memory_type": "context", **more}
    return Raw(where, {**fields, "created_at": when, "updated_at": when})


def _split_sections(text: str) -> Iterator[tuple[str, str]]:
    """The sections of a text, each with its heading; what stands before the first has none."""
    sections = list[tuple[str, list[str]]]([("", [])])
    for line in text.splitlines():
        match = _HEADING.fullmatch(line)
        if match:
            sections.append((match["marks"] or match["bold"], []))
        else:
            sections[-1][1].append(line)
    for heading, lines in sections:
        if part := "\n".join(lines).strip():
            yield heading, part


CHATGPT = Format("chatgpt", "an export of ChatGPT: its zip, the folder or conversations.json", _KINDS, _fits_chatgpt,
                 _read_chatgpt)  # fmt: skip
CLAUDE = Format(
    "claude", "an export of Claude: its zip, the folder or a file of it", _KINDS, _fits_claude, _read_claude
)
