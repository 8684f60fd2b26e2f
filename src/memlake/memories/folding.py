"""What a memory takes over from a new one that says nothing new: how it is filed, never what it says. Pure.

A skipped write loses nothing silently: what fits is folded in, and what the old memory says otherwise is told.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlake.memories.record import Memory


def fold(old: Memory, new: Memory) -> Memory:
    """The old memory with what the new one adds: tags, metadata, a category it lacked, more weight, a longer life."""
    return old._replace(
        category=old.category or new.category,
        tags=tuple(dict.fromkeys((*old.tags, *new.tags))),
        metadata={**new.metadata, **old.metadata},
        importance=max(old.importance, new.importance),
        source=old.source or new.source,
        expires_at=max(old.expires_at, new.expires_at) if old.expires_at and new.expires_at else 0,
    )


def gained(old: Memory, folded: Memory) -> str:
    """What was folded in, in words; empty when nothing was."""
    tags = [tag for tag in folded.tags if tag not in old.tags]
    names = [name for name in folded.metadata if name not in old.metadata]
    parts = (
        (tags, f"tags: {', '.join(tags)}"),
        (names, f"metadata: {', '.join(names)}"),
        (folded.category != old.category, f"category: {folded.category}"),
        (folded.importance != old.importance, f"importance: {folded.importance:g}"),
        (folded.source != old.source, f"source: {folded.source}"),
        (folded.expires_at != old.expires_at, "a later end" if folded.expires_at else "no end"),
    )
    return "; ".join(text for has, text in parts if has)


def not_kept(new: Memory, folded: Memory) -> str:
    """What the new memory was given and the old one says otherwise, in words; empty when there is nothing."""
    return "; ".join(_lost(new, folded))


def _lost(new: Memory, folded: Memory) -> Iterator[str]:
    usual = Memory._field_defaults
    for name in ("category", "memory_type", "importance"):
        given, has = getattr(new, name), getattr(folded, name)
        if given not in (usual[name], has):
            yield f"{name} {given} (it has {has})"
    if new.expires_at and new.expires_at != folded.expires_at:
        yield f"its end (it has {'a later one' if folded.expires_at else 'none'})"
    for name, value in new.metadata.items():
        if folded.metadata[name] != value:
            yield f"metadata {name} (it has another)"
