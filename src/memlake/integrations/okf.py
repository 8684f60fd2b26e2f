"""Open Knowledge Format: a folder (or a zip of one) of Markdown, each concept a file with a `type` in its frontmatter.

A concept is one memory; its id comes from its path, so that a concept that was edited is the next value of the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlake.integrations import markdown_notes
from memlake.integrations.format import Format, Raw, make_id
from memlake.integrations.formats import read_text
from memlake.integrations.given import Given

_RESERVED = ("index.md", "log.md")
_OURS = frozenset(("resource", "generated", "verified", "sources", "stale_after", "status", "runtime", "executor"))
_LOOKED = 50  # concepts by which a folder is recognised


def _list_concepts(given: Given) -> Iterator[str]:
    return (name for name in given.names if name.endswith(".md") and name.rpartition("/")[2] not in _RESERVED)


def _fits(given: Given) -> bool:
    """Its index says so, or every file has a type and some have what only this format knows."""
    index = _read_front(given, "index.md") if "index.md" in given.names else {}
    if "okf_version" in index:
        return True
    fronts = [_read_front(given, name) for _, name in zip(range(_LOOKED), _list_concepts(given), strict=False)]
    is_all = all(front.get("type") and "permalink" not in front for front in fronts)
    return bool(fronts) and is_all and any(not _OURS.isdisjoint(front) for front in fronts)


def _read_front(given: Given, name: str) -> dict[str, Any]:
    text = read_text(given, name)
    return markdown_notes.parse(text).front if isinstance(text, str) else {}


def _read(given: Given) -> Iterator[Raw]:
    bundle = given.path.name.removesuffix(".zip") if given.path is not None else ""
    for name in _list_concepts(given):
        text = read_text(given, name)
        yield text if isinstance(text, Raw) else _read_concept(given, bundle, name, text)


def _read_concept(given: Given, bundle: str, name: str, text: str) -> Raw:
    note = markdown_notes.parse(text)
    front = dict(note.front)
    kind = front.pop("type", "")
    if not isinstance(kind, str) or not kind:
        return Raw(name, problem='its frontmatter has no "type", which every concept of the format has.')
    title = str(front.pop("title", "") or name.rpartition("/")[2].removesuffix(".md"))
    body = "\n".join(line for _, line in note.lines).strip()
    said = str(front.pop("description", ""))
    content = "\n\n".join(part for part in (f"{title}: {said}" if said else title, body) if part)
    generated = front.get("generated")
    by, at = (generated.get("by"), generated.get("at")) if isinstance(generated, dict) else (None, None)
    tags = front.pop("tags", [])
    when = at or front.get("timestamp") or given.find_time(name)
    fields = {
        "memory_id": make_id("okf", bundle, name), "content": content, "memory_type": "context", "category": kind[:512],
        "tags": tags if isinstance(tags, list) else [tags], "created_at": when, "updated_at": when,
        "agent_id": by if isinstance(by, str) and not by.startswith("human:") else "",
        "source": f"okf:{name}"[:512], "metadata": {**front, "title": title, "path": name},
    }  # fmt: skip
    return Raw(name, fields | ({"importance": 0.2} if front.get("status") == "deprecated" else {}))


OKF = Format("okf", "a folder of the Open Knowledge Format", ("folder", "zip"), _fits, _read)
