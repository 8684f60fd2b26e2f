"""Versions of datasets, their differences and runs as people read them. Knows no command."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memlake.views import words
from memlake.views.contents import table_brief, table_lines
from memlake.views.embeddings import embedding_lines
from memlake.views.style import Style
from memlake.views.words import clean, count, cut

if TYPE_CHECKING:
    from memlake.dataset.compare import Differences, Pair
    from memlake.dataset.join_rows import JoinedRows
    from memlake.dataset.lineage.runs import Run
    from memlake.dataset.parts.version_record import Version


_STEPS = 12  # of a plan, so that `show` stays on a screen
_ID = 10


def value_text(found: Any) -> str:
    """A metric or a param on one line; a param may be told with its type and where it came from."""
    if isinstance(found, Mapping) and "value" in found:
        found = found["value"]
    if found is None:
        return "-"
    if isinstance(found, float):
        return f"{found:.6g}"
    return clean(found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str))


def version_table(style: Style, found: Sequence[Version], first: str, key: Any) -> list[str]:
    if not found:
        return []
    rows = [(first, "version", "rows", "size", "when", "description")]
    for one in found:
        said = "(deleted) " if one.deleted else ""
        about = clean(said + (" ".join(one.description.split()) or ", ".join(one.tags)))
        size = words.size(one.bytes)
        rows.append((clean(key(one)), one.version, f"{one.rows:,}", size, words.ago(one.created), about))
    head, *lines = align(rows, right={2, 3})
    return [
        style.paint(head, "dim"),
        *(line if len(line) <= style.width else _fit_line(style, line) for line in lines),
    ]


def _fit_line(style: Style, line: str) -> str:
    return f"{line[: style.width - 1]}…" if style.on_terminal else line


def version_shape(one: Version) -> dict[str, Any]:
    """A version as JSON, without what only `show` and `source` tell."""
    told = one.to_dict()
    del told["provenance"]
    return {**told, "date": words.iso(one.created)}


def version_lines(style: Style, one: Version, versions: Sequence[str]) -> Iterator[str]:
    """All that is known of a version; `versions` are the numbers of its dataset."""
    yield style.paint(f"dataset {one.spec}", "id")
    yield from (f"{title + ':':<13}{text}" for title, text in _version_facts(one, versions))
    steps = one.provenance.get("plan") or ()
    plan = [cut(str(step), 96) for step in steps[:_STEPS]]
    plan += [f"... and {len(steps) - _STEPS} more"] if len(steps) > _STEPS else []
    columns = [f"{column}: {kind}" for column, kind in one.to_dict()["schema"].items()]
    for title, block in (("Columns", columns), ("Plan", plan)):
        if block:
            yield f"{title}:"
            yield from (f"    {clean(line)}" for line in block)


def _version_facts(one: Version, versions: Sequence[str]) -> Iterator[tuple[str, str]]:
    told = one.provenance
    yield "Created", f"{words.stamp(one.created)} ({words.ago(one.created)})"
    yield "Author", _one_line(told.get("author"))
    if told.get("agent") or told.get("session"):
        yield "Agent", f"{_one_line(told.get('agent'))}, session {_one_line(told.get('session'))}"
    yield "Rows", f"{one.rows:,} in {words.size(one.bytes)}"
    yield "Content", one.content
    yield "Description", _one_line(one.description)
    yield "Attrs, tags", ", ".join(map(clean, (*one.attrs, *one.tags))) or "-"
    yield "Params", _join_numbers(one.params)
    yield "Metrics", _join_numbers(one.metrics)
    yield "Made from", ", ".join(made_from(told)) or "-"
    yield "Code", _describe_code(told)
    yield "Work", "; ".join(map(_describe_work, told.get("ran") or ())) or "-"
    yield "Packages", _join_numbers(told.get("packages") or {}, " ")
    yield "Took", f"{told['seconds']:.1f} s" if "seconds" in told else "-"
    others = [version for version in versions if version != one.version]
    yield "Versions", f"{', '.join(others[-8:])} beside this one" if others else "this one alone"


def made_from(told: Mapping[str, Any]) -> Iterator[str]:
    """Parents, storages and other origins of a version."""
    for parent in told.get("parents") or ():
        yield clean(str(parent.get("spec") if isinstance(parent, Mapping) else parent))
    for storage in told.get("storages") or ():
        files = storage.get("files") if isinstance(storage, Mapping) else None
        count = len(files) if isinstance(files, list) else files
        uri = storage.get("uri") if isinstance(storage, Mapping) else storage
        yield clean(f"{uri} ({words.count(count, 'file')})" if isinstance(count, int) else str(uri))
    for origin in told.get("origins") or ():
        name = (
            " ".join(str(origin[key]) for key in ("kind", "path", "name") if origin.get(key))
            if isinstance(origin, Mapping)
            else str(origin)
        )
        yield clean(name)


def _describe_code(told: Mapping[str, Any]) -> str:
    git = told.get("git") if isinstance(told.get("git"), Mapping) else {}
    names = [str(one.get("name")) for one in told.get("functions") or () if isinstance(one, Mapping)]
    said = [
        _one_line(told.get("source_name") or told.get("source_kind")),
        f"functions {', '.join(names)}" if names else "",
        f"git {str(git['commit'])[:_ID]}{' and changes since' if git.get('dirty') else ''}"
        if git and git.get("commit")
        else "",
    ]
    return clean("; ".join(text for text in said if text))


def _describe_work(ran: Mapping[str, Any]) -> str:
    """What a function step did: `embed(): 3 computed, 7 recalled, 1 failed (some rows are new or changed)`."""
    failed = f", {ran['failed']:,} failed" if ran["failed"] else ""
    why = f" ({ran['why']})" if ran["why"] else ""
    return clean(f"{ran['name']}(): {ran['called']:,} computed, {ran['recalled']:,} recalled{failed}{why}")


def _one_line(found: Any) -> str:
    return clean(" ".join(str(found).split())) if found else "-"


def _join_numbers(found: Mapping[str, Any], equals: str = "=") -> str:
    return "  ".join(f"{clean(name)}{equals}{value_text(one)}" for name, one in found.items()) or "-"


def metric_table(style: Style, found: Sequence[Version]) -> list[str]:
    columns = [
        (field, key)
        for field in ("metrics", "params")
        for key in dict.fromkeys(k for v in found for k in getattr(v, field))
    ]
    head = (
        "version",
        "when",
        *(clean(key) if field == "metrics" else f"{clean(key)} (param)" for field, key in columns),
    )
    rows = [
        (one.version, words.ago(one.created), *(value_text(getattr(one, field).get(key)) for field, key in columns))
        for one in found
    ]
    first, *lines = align([head, *rows], right=set(range(2, len(head))))
    return [style.paint(first, "dim"), *lines]


# -- runs


def run_line(style: Style, run: Run) -> str:
    rows = "first rows" if run.rows is None else words.count(run.rows, "row")
    number = style.paint(f"{run.number:>5}", "id")
    last = style.clean(run.provenance["plan"][-1].split(None, 1)[-1])
    program = style.clean(run.provenance["source_name"])
    line = f"{number} {words.stamp(run.time)} {run.action:<10} {rows:>12} {run.seconds:7.2f} s  {program}: {last}"
    return line if len(line) <= style.width or not style.on_terminal else line[: style.width - 1] + "…"


def run_lines(run: Run) -> Iterator[str]:
    told = run.provenance
    yield f"run {run.number}: {run.action}, {words.date(run.time)}, {run.seconds:.2f} s, by {told['author']}"
    yield f"rows    {'only the first' if run.rows is None else f'{run.rows:,}'}"
    yield f"kept    {f'no: {run.kept}' if run.kept else f'yes: memlake runs promote {run.number} NAME'}"
    git = told["git"]
    yield f"git     {git['commit'][:12] + (' and changes' if git['dirty'] else '') if git['commit'] else git['why']}"
    yield from (f"param   {name} = {one['value']} ({one['from']})" for name, one in told["params"].items())
    yield from ("", *(f"    {step}" for step in told["plan"]), "", f"{told['source_kind']} {told['source_name']}:", "")
    yield from (f"    {line}" for line in told["source"].splitlines())


# -- differences


def diff_shape(found: Differences) -> dict[str, Any]:
    """Both versions, and what differs inside: the same record as `diff` shows of a table file."""
    inside = {"type": "table", "record": found.table, "note": "", "more": found.vectors}
    facts = {"metrics": found.metrics, "params": found.params}
    return {"old": found.old.spec, "new": found.new.spec, "inside": inside, **facts}


def diff_lines(style: Style, found: Differences) -> Iterator[str]:
    """Columns and rows as those of a table file, then how far vectors moved, then metrics and params."""
    yield style.paint(_name_sides(found), "bold")
    yield from table_lines(style, found.table)
    for vectors in found.vectors:
        yield from embedding_lines(style, vectors)
    for title, pairs in (("metrics", found.metrics), ("params", found.params)):
        if pairs:
            yield from _value_table(style, title, found, pairs)


def stat_line(found: Differences) -> str:
    return f"{_name_sides(found)} | {table_brief(found.table)}"


def _name_sides(found: Differences) -> str:
    return f"{clean(found.old.spec)} -> {clean(found.new.spec)}"


def join_shape(joined: JoinedRows) -> dict[str, Any]:
    specs = {
        name: getattr(joined, name) and getattr(joined, name).spec for name in ("version", "ours", "theirs", "base")
    }
    return {**specs, "rows": joined.version.rows, "key": joined.key, "reused": joined.reused, "notes": joined.notes}


def join_lines(joined: JoinedRows) -> Iterator[str]:
    """What was made of which versions."""
    over = f" over {clean(joined.base.spec)}" if joined.base else ""
    matched = f", matched by {', '.join(map(clean, joined.key))}" if joined.key else ", matched as whole rows"
    rows = count(joined.version.rows, "row")
    yield f"Merged {clean(joined.ours.spec)} and {clean(joined.theirs.spec)}{over}{matched}."
    yield f"{'Unchanged' if joined.reused else 'Saved'} as {clean(joined.version.spec)}: {rows}."
    yield from (f"note: {clean(note)}" for note in joined.notes)


def _value_table(style: Style, title: str, found: Differences, pairs: Sequence[Pair]) -> list[str]:
    rows = [(title, found.old.version, found.new.version)]
    rows += [(f"  {clean(one.name)}", value_text(one.old), value_text(one.new)) for one in pairs]
    head, *lines = align(rows, right={1, 2})
    return [style.paint(head, "dim"), *lines]


# -- texts in columns


def align(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Each row as a line, its cells as wide as the widest of their column. Columns in `right` are right-aligned."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        padded = (text.rjust(n) if place in right else text.ljust(n) for place, (text, n) in enumerate(cells))
        lines.append("  ".join(padded).rstrip())
    return lines
