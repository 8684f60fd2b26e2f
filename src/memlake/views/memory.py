"""Memories as people read them: hits, versions, contradictions, doubts. What they say is data, shown harmless."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memlake import memories as parts
from memlake.memories.record import Memory
from memlake.records import short
from memlake.views import words
from memlake.views.style import Style
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.anchors.anchor import Standing
    from memlake.memories.anchors.doubt import Doubt, UseChange
    from memlake.memories.answers.recall_tests import ChangedAnswer
    from memlake.memories.answers.recalls import Recall
    from memlake.memories.answers.why import Told
    from memlake.memories.revert import Exposed, Reverted, Taken
    from memlake.memories.review import Contradiction, Decided
    from memlake.memories.stats import Stats
    from memlake.memories.timeline import Difference, Version
    from memlake.memories.upkeep import Age, Suggestion


INDENT = " " * 6
_SHORT = 6  # characters of the end of an id that may stand for it
_MARKS = {"A": "+", "D": "-"}


def hit_lines(style: Style, hit: Mapping[str, Any], lead: str = "", *, scored: bool = False) -> Iterator[str]:
    """One memory: where it comes from, what it says (indented: it cannot pass for another), how it is filed.

    The score is for whoever asks: hits are in the order of their rank, which weighs more than nearness.
    """
    who = clean(hit["agent_id"]).replace("\n", " ") or "-"
    yield f"{style.paint(lead, 'bold')}{paint_id(style, hit['memory_id'])}  {hit['created_at'][:10]}  {who}"
    yield from (f"{INDENT}{line}" for line in wrap_text(hit["content"], style.width - len(INDENT)))
    filed = [hit["memory_type"], hit["category"], *(f"#{tag}" for tag in hit["tags"])]
    filed += [f"user {hit['user_id']}"] if hit["user_id"] else []
    filed += [f"in {hit['area']}"] if hit["area"] else []
    filed += [f"of {hit['project']}"] if hit["project"] and not hit["own"] else []
    filed += [f"score {hit['similarity_score']:.2f}"] if scored and hit.get("why", {}).get("rank") else []
    yield style.paint(INDENT + clean("  ".join(part for part in filed if part)).replace("\n", " "), "dim")
    if (word := hit.get("standing")) and hit["because"]:
        color = "removed" if word in parts.anchor.IN_DOUBT else "dim"
        yield style.paint(INDENT + shorten_text("; ".join(hit["because"]), 300), color)


def paint_id(style: Style, memory_id: str) -> str:
    """An id, its end standing out: that is what it may be typed by."""
    return style.paint(memory_id[:-_SHORT], "dim") + style.paint(memory_id[-_SHORT:], "id")


def wrap_text(text: str, width: int) -> Iterator[str]:
    """Stored text in lines, harmless whoever reads them: a pipe may well end in a terminal."""
    import textwrap

    for line in clean(text).replace("\t", "    ").split("\n"):
        yield from textwrap.wrap(line, max(width, 20), break_on_hyphens=False) or [""]


def field_text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        text = ", ".join(value)
    elif isinstance(value, dict | list):
        import json

        text = json.dumps(value, ensure_ascii=False)
    else:
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return clean(text).replace("\n", " ")


def version_lines(style: Style, version: Version) -> list[str]:
    until = f" until {words.stamp(version.until)}" if version.until and version.ended == "replaced" else ""
    head = f"{style.paint(short(version.oid), 'id')} {words.stamp(version.time)}{until}  {clean(version.author)}"
    said = "(purged)" if version.content is None else version.content
    return [
        head,
        f"    {style.paint(clean(version.message), 'dim')}",
        *(f"    {line}" for line in wrap_text(said, style.width - 4)),
    ]


def end_lines(style: Style, version: Version, later: Version | None) -> Iterator[str]:
    """A memory that was forgotten or purged, as an event of its own; of a purge, once for all values."""
    word = {"forgotten": "forgot", "purged": "purged"}.get(version.ended)
    if word is None or version.until is None or (word == "purged" and later is not None):
        return
    yield f"{style.paint(f'{word:<10}', 'removed')} {words.stamp(version.until)}  {clean(version.ended_by)}"
    yield f"    {style.paint(clean(version.reason), 'dim')}"


def difference_lines(style: Style, one: Difference) -> list[str]:
    lines = [f"{_MARKS.get(one.status, '~')} {paint_id(style, one.memory_id)}"]
    sides = (("-", "removed", one.old), ("+", "added", one.new))
    for mark, color, text in sides:
        if text is not None:
            lines += [style.paint(f"  {mark} {line}", color) for line in wrap_text(text, style.width - 4)]
    return lines


def index_lines(found: Stats) -> list[str]:
    if found.model == "none":
        vectors = "none: found by words alone"
    else:
        vectors = f"by {found.model}; {found.waiting:,} wait" if found.waiting else f"by {found.model}; none waits"
    return [
        f"vectors     {vectors}",
        f"index       {words.size(found.index_bytes)}",
        f"conflicts   {found.conflicts:,}" + ("  (memlake memory conflicts)" if found.conflicts else ""),
        f"in doubt    {found.in_doubt:,}" + ("  (memlake doubt)" if found.in_doubt else ""),
        f"stale       {found.stale:,}" + ("  (memlake memory stale)" if found.stale else ""),
    ]


def shorten_memory(memory: Memory) -> str:
    return clean(parts.timeline.shorten(memory))


def shorten_text(text: str, most: int = 60) -> str:
    """A text in one line, harmless."""
    line = " ".join(text.split())
    return clean(line if len(line) <= most else f"{line[: most - 1]}…")


def told_line(style: Style, one: Told) -> Iterator[str]:
    """When a memory was told, to whom, at which place, and what each arm of the search gave it."""
    recall = one.recall
    whom = "".join(
        f"  {name} {clean(value)}" for name, value in (("session", recall.session), ("to", recall.agent)) if value
    )
    yield f"{style.paint(f'{recall.number:>6}', 'id')}  {words.stamp(recall.time)}  {recall.surface}{whom}"
    yield f"        asked: {shorten_text(recall.question, 100) or '(nothing: the newest)'}"
    arms = "  ".join(f"{arm} {value:.3f}" for arm, value in one.candidate.arms.items())
    score = f"  score {one.candidate.score:.2f}" if arms else ""
    yield style.paint(f"        place {one.place} of {one.of}{score}  {arms}".rstrip(), "dim")


def recall_lines(style: Style, recall: Recall, texts: Mapping[str, str]) -> Iterator[str]:
    """A record whole: what was told, word for word, and what was kept back by which gate."""
    yield f"{style.paint(f'recall {recall.number}', 'bold')}  {words.stamp(recall.time)}  {recall.surface}"
    facts = {"asked": recall.question, "session": recall.session, "agent": recall.agent, "project": recall.project}
    facts |= {"branch": recall.branch, "mode": recall.mode, "tokens": str(recall.tokens)}
    yield from (f"{name + ':':<9}{shorten_text(value, 200)}" for name, value in facts.items() if value)
    if recall.asked:
        yield f"narrowed: {field_text(dict(recall.asked))}"
    yield from (clean(note) for note in recall.notes)
    for at, one in enumerate(recall.candidates, 1):
        gate = "" if one.gate == "told" else f"  not told: {one.gate}"
        yield f"{at:>4}. {paint_id(style, one.memory_id)}  {one.score:.2f}{style.paint(gate, 'removed')}"
        if one.gate == "told":
            said = texts.get(one.memory_id, "(purged since)")
            yield from (f"{INDENT}{line}" for line in wrap_text(said, style.width - len(INDENT)))


def change_lines(style: Style, change: ChangedAnswer) -> Iterator[str]:
    """A question that two sides answer differently."""
    yield style.paint(clean(change.ask), "bold")
    for mark, color, answers in (("-", "removed", change.lost), ("+", "added", change.gained)):
        yield from (
            style.paint(f"  {mark} {one.memory_id[-_SHORT:]}  {shorten_text(one.content, 80)}", color)
            for one in answers
        )
    for was, now in change.changed:
        yield style.paint(f"  - {was.memory_id[-_SHORT:]}  {shorten_text(was.content, 80)}", "removed")
        yield style.paint(f"  + {now.memory_id[-_SHORT:]}  {shorten_text(now.content, 80)}", "added")
    if change.moved:
        yield style.paint("    in another order", "dim")


def contradiction_lines(style: Style, one: Contradiction) -> Iterator[str]:
    """Both sides under the id that settles it."""
    owner = one.new or one.old
    yield f"{paint_id(style, owner.memory_id if owner else '')}  ({clean(one.rule)})"
    if one.why:
        yield f"    {clean(one.why)}"
    titles, width = (("theirs", "ours"), 7) if one.merging else (("new", "old"), 4)
    for title, side in zip(titles, (one.new, one.old), strict=True):
        said = wrap_text(side.content, style.width - 12) if side else ["(forgotten)"] * one.merging
        yield from (f"    {title + ':':<{width}} {line}" for line in said)


def advise_resolve(found: Sequence[Contradiction]) -> str:
    """How to settle the first of each kind; a state value says it itself."""
    lines = []
    for is_merge, kept, others in ((False, "new", "old, or both"), (True, "ours", "theirs, or both")):
        sides = ((one.new or one.old) for one in found if one.merging == is_merge)
        first = next((side.memory_id for side in sides if side and side.memory_type != "state"), None)
        lines += [f"Settle it with: memlake memory resolve {first} --keep {kept} (or {others})"] if first else []
    return "\n".join(lines)


def contradiction_shape(one: Contradiction) -> dict[str, Any]:
    sides = {name: parts.search.fields(side) if side else None for name, side in (("new", one.new), ("old", one.old))}
    return {**sides, "rule": one.rule, "why": one.why}


def doubt_lines(style: Style, one: Doubt) -> Iterator[str]:
    """A memory in doubt, what it says and why."""
    yield f"{paint_id(style, one.memory.memory_id)}  {shorten_memory(one.memory)}"
    yield from (style.paint(f"{INDENT}in doubt because {shorten_text(cause, 300)}", "removed") for cause in one.causes)


def change_of_use_lines(style: Style, change: UseChange) -> Iterator[str]:
    """What changed of something that a memory rests on, as a diff; nothing where only the reason is known."""
    if change.note == change.standing.sentence:
        return
    yield style.paint(f"{INDENT}{shorten_text(change.note or change.standing.anchor.name, 300)}", "bold")
    colors = {"+": "added", "-": "removed", "@": "dim"}
    for line in change.lines:
        yield INDENT + style.paint(clean(line.rstrip("\n")), colors.get(line[:1], ""))


def doubt_shape(one: Doubt) -> dict[str, Any]:
    standings = [standing_shape(standing) for standing in one.standings]
    return {"memory": parts.search.fields(one.memory), "because": list(one.causes), "uses": standings}


def standing_shape(one: Standing) -> dict[str, Any]:
    return {"name": one.anchor.name, "kind": one.anchor.kind, "standing": one.word, "now": one.now, "why": one.why}


def decided_lines(style: Style, one: Decided) -> Iterator[str]:
    """What a new memory changed by itself, with the command that takes it back."""
    sure = ", not certain" if one.unsure else ""
    head = f"{paint_id(style, one.memory_id)}  {words.stamp(one.time)} {clean(one.author)}: "
    yield f"{head}{one.decision} ({clean(one.rule)}{sure})"
    for title, text in (("new", one.new), ("old", one.old)):
        yield from (f"    {title}: {line}" for line in wrap_text(text, style.width - 9))
    yield style.paint(f"    memlake memory restore {one.memory_id} --at {short(one.version)}", "dim")


def revert_lines(style: Style, one: Reverted, *, dry_run: bool) -> Iterator[str]:
    """What is taken back of one memory, and why if it was not written by whom was meant."""
    forgot, restored = ("Would forget", "Would restore") if dry_run else ("Forgot", "Restored")
    owner = one.restored or one.memory
    if owner is None:
        return
    said = f" (it said: {shorten_memory(one.memory)})" if one.restored and one.memory else ""
    yield f"{restored if one.restored else forgot} {owner.memory_id}: {shorten_memory(owner)}{said}"
    if one.memory is None:
        yield style.paint(f"{INDENT}it had been forgotten", "dim")
    elif one.derived_from and one.derived_from != owner.memory_id:
        yield style.paint(f"{INDENT}made from {one.derived_from}", "dim")


def exposed_line(style: Style, one: Exposed) -> str:
    """Who was told of what is taken back."""
    whom = f"session {clean(one.session)}" if one.session else clean(one.agent) or "somebody"
    agent = f" ({clean(one.agent)})" if one.session and one.agent else ""
    told = words.count(len(one.memory_ids), "memory", "memories")
    return style.paint(
        f"Told: {whom}{agent}, {told} by {', '.join(one.surfaces)}, last {words.stamp(one.time)}", "removed"
    )


def revert_shape(taken: Taken) -> dict[str, Any]:
    rows = [
        {
            "memory": parts.search.fields(one.memory) if one.memory else None,
            "restored": parts.search.fields(one.restored) if one.restored else None,
            "derived_from": one.derived_from or None,
        }
        for one in taken.memories
    ]
    told = [{**one._asdict(), "time": parts.search.iso(one.time)} for one in taken.told]
    return {"reverted": rows, "states": taken.states, "told": told}


def age_line(style: Style, age: Age) -> str:
    """How little is lost if a memory goes, and why: its importance, its age, who read it, and doubts."""
    memory, reads = age.memory, words.count(age.sessions, "session") if age.sessions else "nobody"
    why = f"{age.score:.2f}  importance {memory.importance:.2f}, {age.days:.0f} days, read by {reads}"
    why += ", contradicted" * age.contradicted + ", in doubt" * age.in_doubt
    return f"{paint_id(style, memory.memory_id)} {why}  {shorten_memory(memory)}"


def age_shape(age: Age) -> dict[str, Any]:
    shape = {"score": age.score, "days": round(age.days, 2), "access_count": age.access_count}
    return {
        **parts.search.fields(age.memory),
        **shape,
        "sessions": age.sessions,
        "contradicted": age.contradicted,
        "in_doubt": age.in_doubt,
    }


def suggestion_line(style: Style, one: Suggestion) -> str:
    change = f"{one.memory.importance:.2f} -> {one.importance:.2f}"
    return f"{paint_id(style, one.memory.memory_id)} {change}  {one.why}  {shorten_memory(one.memory)}"


def suggestion_shape(one: Suggestion) -> dict[str, Any]:
    return {**parts.search.fields(one.memory), "suggested": one.importance, "why": one.why}
