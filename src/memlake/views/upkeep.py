"""What gc, fsck, doctor, du, rescue and purge report, as lines. Knows no command."""

from __future__ import annotations

from collections.abc import Iterator

from memlake.errors import pasted
from memlake.repo.tiers import TierStatus
from memlake.reports import Check, FsckReport, GcReport, PurgeReport, Rescued, Usage
from memlake.views import paths, words
from memlake.views.style import Style

_SHOWN = 100  # objects that rescue lists


def fsck_lines(style: Style, report: FsckReport) -> Iterator[str]:
    """Each problem by id and path; what was erased on purpose apart from what is missing."""
    for problem in report.problems:
        where = f" {paths.display(problem.path)}" if problem.path else ""
        name = f" {problem.oid}" if problem.oid else ""
        yield f"{style.paint(problem.kind, 'removed')}{name}{where}: {style.clean(problem.detail)}"
    yield from (f"purged {oid} (erased on purpose; no fault)" for oid in report.purged)
    checked = ", ".join(f"{number:,} {name}" for name, number in report.checked.items())
    verdict = "no problem" if report.ok else words.count(len(report.problems), "problem")
    yield f"checked {checked or 'nothing'}: {verdict}"


def doctor_lines(style: Style, found: list[Check]) -> Iterator[str]:
    width = max((len(check.name) for check in found), default=0)
    for check in found:
        mark = style.paint("ok  ", "added") if check.ok else style.paint("bad ", "removed")
        yield f"{mark} {check.name:<{width}}  {style.clean(check.detail)}".rstrip()
        if not check.ok and check.cure:
            yield from (f"     {'':<{width}}  cure: {line}" for line in style.clean(check.cure).splitlines())


def gc_lines(report: GcReport) -> list[str]:
    """What went, by kind and with its bytes. Repacked packs free the bytes of the objects they held."""
    kinds = ("object", "node", "commit", "file")
    parts = [_count_freed(report, kind) for kind in kinds if getattr(report, f"{kind}s")]
    removed, stored, repacked = (
        ("Would remove", "Would store", "Would repack") if report.dry_run else ("Removed", "Stored", "Repacked")
    )
    lines = [f"{removed} {', '.join(parts)}: {words.size(report.bytes)} in all."] if parts else ["Nothing to remove."]
    if report.deltas:
        lines.append(f"{stored} {words.count(report.deltas, 'older version')} as differences from newer ones.")
    if report.packs:
        lines.append(f"{repacked} {words.count(report.packs, 'pack')}.")
    lines += [f"  {name}" for name in report.names if report.dry_run]
    if report.condemned:
        lines.append(f"{words.count(report.condemned, 'object')} not reached; gone after the grace period.")
    if report.revived:
        lines.append(f"{words.count(report.revived, 'object')} came back into use.")
    return [*lines, *report.notes]


def _count_freed(report: GcReport, kind: str) -> str:
    return f"{words.count(getattr(report, f'{kind}s'), kind)} ({words.size(report.freed.get(f'{kind}s', 0))})"


def tier_lines(status: TierStatus) -> Iterator[str]:
    """What lies here and what in the colder place."""
    yield f"here  {words.count(status.here, 'file')}, {words.size(status.here_bytes)}"
    if status.tier is None:
        yield "This repo has no colder tier."
        return
    yield f"cold  {words.count(status.there, 'file')}, {words.size(status.there_bytes)}, in {status.tier.url}"
    rule = f"not read for more than {words.count(status.tier.days, 'day')}"
    yield f"{words.count(status.due, 'file')}, {words.size(status.due_bytes)}, {rule}: the next gc moves them."


def usage_lines(usage: Usage) -> Iterator[str]:
    for room, size in sorted(usage.rooms.items(), key=lambda item: -item[1]):
        yield f"{words.size(size):>10}  {room}"
    yield f"{words.size(usage.total):>10}  in all, for {words.size(usage.logical)} of content"
    away = usage.details.get("away", {"count": 0, "bytes": 0})
    if away["count"]:
        yield f"{words.size(away['bytes']):>10}  in {words.count(away['count'], 'object')} at a remote only"
    if usage.largest:
        yield from ("", "Largest at HEAD:")
        yield from (f"{words.size(size):>10}  {paths.display(path)}" for path, size in usage.largest)


def rescue_lines(style: Style, rescued: Rescued, into: str) -> Iterator[str]:
    """What came back from the packs, what no commit names, and what is missing."""
    commits, objects = words.count(rescued.commits, "commit"), words.count(rescued.objects, "object")
    refs = words.count(rescued.refs, "branch or tag", "branches and tags")
    yield f"Made {commits}, {objects} and {refs} again in {style.clean(into)}."
    unnamed = rescued.unnamed
    if unnamed:
        number = words.count(len(unnamed), "object")
        yield f"No commit names {number} in the packs, stored after the last gc or by a write that was taken back:"
        for one in unnamed[:_SHOWN]:
            yield f"  {one.oid}  {words.size(one.size):>10}  {one.media or 'cannot be read'}"
        if len(unnamed) > _SHOWN:
            yield f"  and {len(unnamed) - _SHOWN} more, which --json lists"
        yield f"Get one out, before gc removes it, with: memlake -C {pasted(into)} cat {unnamed[0].oid} > FILE"
    yield from (f"Not there: {style.clean(what)}" for what in rescued.lost)


def purge_lines(style: Style, report: PurgeReport) -> Iterator[str]:
    yield f"Erased {words.count(len(report.purged), 'object')}, {words.size(report.bytes)}."
    yield from (f"  {oid}" for oid in report.purged)
    if report.paths:
        yield "Paths that held them:"
        yield from (f"  {paths.display(path)}" for path in report.paths)
    yield from (style.clean(note) for note in report.notes)
