"""What a push, fetch or clone did, as lines. Knows no command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from memlake.records import short
from memlake.versions.kinds import ROOMS
from memlake.views import paths, words
from memlake.views.style import Style

if TYPE_CHECKING:
    from memlake.objects.purge import PurgeRecord
    from memlake.repo.remotes import RemoteSettings
    from memlake.versions.sync.archive import Archived
    from memlake.versions.sync.bundle import Bundled
    from memlake.versions.sync.drop import Dropped
    from memlake.versions.sync.fetch import Fetched, RefChange
    from memlake.versions.sync.push import Pushed
    from memlake.versions.sync.remote_gc import GarbageFile, RemoteGc
    from memlake.versions.sync.root import Target

_SHOWN = 100  # paths that a trial of a gc names


def pushed_lines(style: Style, pushed: Pushed, *, dry_run: bool = False) -> Iterator[str]:
    """What left this machine, and to where; of the first push also of which kinds it is."""
    yield from _purged_lines(style, pushed.purged)
    if pushed.up_to_date:
        yield "Everything up to date."
        return
    yield f"To {style.clean(pushed.url)}"
    yield from _erased_lines(style, pushed, dry_run=dry_run)
    yield from (f"   {line}" for line in _change_lines(style, pushed.changes, pushed.remote, sent=True))
    verb = "Would send" if dry_run else "Sent"
    counts = f"{words.count(pushed.commits, 'commit')}, {words.count(pushed.objects, 'object')}"
    files = f" in {words.count(pushed.files, 'file')}"
    files += f" and {words.count(pushed.requests, 'request')}" if pushed.requests and dry_run else ""
    if pushed.changes:
        yield f"{verb} {counts}, {words.size(pushed.size)}{files}."
    if pushed.results:
        yield f"{verb} {words.count(pushed.results, 'result')} of functions."
    if pushed.is_first and pushed.rooms:
        was, left = ("would be", "would leave") if dry_run else ("was", "left")
        yield f"This {was} the first push there. What {left} this machine:"
        yield from (f"  {line}" for line in _room_lines(pushed.rooms))


def _purged_lines(style: Style, records: tuple[PurgeRecord, ...], *, dry_run: bool = False) -> Iterator[str]:
    """What others purged and is gone here, too."""
    for record in records:
        what, reason = words.count(len(record.oids), "object"), style.clean(record.reason)
        yield f"{'Would erase' if dry_run else 'Erased'} {what} that {style.clean(record.who)} purged: {reason}"


def _erased_lines(style: Style, pushed: Pushed, *, dry_run: bool) -> Iterator[str]:
    """What was purged here and is gone there, and that copies which others have erase it themselves."""
    for record in pushed.erased.records:
        what = words.count(len(record.oids), "object")
        verb = "Would erase" if dry_run else "Erased"
        yield f"{verb} {what} there that {style.clean(record.who)} purged: {style.clean(record.reason)}"
    if pushed.erased.records and not dry_run:
        files = words.count(pushed.erased.files, "file")
        yield f"{files} there held it and went. Clones erase it when they next fetch."


def _room_lines(rooms: Mapping[str, int]) -> Iterator[str]:
    for room, number in rooms.items():
        yield words.count(number, *ROOMS[room].nouns) if room in ROOMS else f"{number:,} {room}"
    if "datasets" in rooms:
        yield "the text of the scripts that made datasets, and the paths they ran at"


def fetched_lines(style: Style, fetched: Fetched, *, dry_run: bool = False) -> Iterator[str]:
    if fetched.up_to_date:
        yield "Already up to date."
        return
    yield f"From {style.clean(fetched.url)}"
    yield from (f"   {line}" for line in _change_lines(style, fetched.changes, fetched.remote, sent=False))
    verb = "Would fetch" if dry_run else "Fetched"
    requests = f" in {words.count(fetched.requests, 'request')}" if fetched.requests and dry_run else ""
    yield f"{verb} {words.count(fetched.commits, 'commit')}, {words.size(fetched.size)}{requests}."
    if fetched.results:
        yield f"Took {words.count(fetched.results, 'result')} of functions."
    yield from _purged_lines(style, fetched.purged, dry_run=dry_run)
    for tag in fetched.kept_tags:
        yield f"Kept your tag {style.clean(tag)}, which names another commit there."


def _change_lines(style: Style, changes: tuple[RefChange, ...], remote: str, *, sent: bool) -> Iterator[str]:
    width = max((len(change.name) for change in changes), default=0)
    for change in changes:
        name, there = style.clean(change.name), style.clean(f"{remote}/{change.name}")
        arrow = f"{name:<{width}} -> {there if change.kind == 0 else name}"
        if sent:
            arrow = f"{name:<{width}} -> {name}"
        yield f"{_step(change.old, change.new):<24} {arrow}"


def _step(old: Target | None, new: Target | None) -> str:
    if new is None:
        return "deleted"
    if old is None:
        return "new"
    if old.work != new.work:
        return f"{short(old.work) if old.work else 'nothing'}..{short(new.work) if new.work else 'nothing'}"
    return "memories"


def bundle_lines(style: Style, bundled: Bundled, verb: str) -> Iterator[str]:
    counts = f"{words.count(bundled.commits, 'commit')}, {words.size(bundled.size)}"
    yield f"{verb} {words.quote(bundled.file)}: {counts}"
    yield from (f"  {style.clean(name)} {short(oid)}" for name, oid in bundled.refs.items())
    for oid in bundled.needs:
        yield f"It builds on commit {short(oid)}, which whoever takes it in must have."


def dropped_lines(dropped: Dropped, *, dry_run: bool) -> Iterator[str]:
    if not (dropped.paths or dropped.objects):
        yield "Nothing to drop: what is small lies in history itself, which stays, and the rest is at a remote only."
        return
    verb = "Would drop" if dry_run else "Dropped"
    what = f"{words.count(len(dropped.paths), 'file')} and {words.count(dropped.objects, 'object')}"
    yield f"{verb} {what}, {words.size(dropped.size)}."
    if dropped.objects and not dry_run:
        yield "The disk has the room back after: memlake gc"


def archived_lines(style: Style, done: Archived, what: str) -> Iterator[str]:
    """What went into an archive (or would, in a trial), came back from all, or which copies went."""
    commits, size = words.count(done.commits, "commit"), words.size(done.bytes)
    if what == "drop":
        yield f"Removed copies of archives with {commits}, {size}."
    elif what == "back":
        yield f"The data of {commits} is here again, {size}. Files at remotes stay, because others may read them."
    elif not done.commits:
        yield f"Nothing to archive: {style.clean(done.remote)} has no commits that old whose data is here."
    elif what == "trial" or done.file is None:
        yield f"Would move the data of {commits}, {size}, to {style.clean(done.remote)}."
    else:
        file = f"one file of {words.size(done.file.size)}"
        yield f"Moved the data of {commits}, {size}, to {style.clean(done.remote)}, into {file}."


def remote_lines(style: Style, remotes: list[RemoteSettings], *, verbose: bool) -> Iterator[str]:
    width = max((len(one.name) for one in remotes), default=0)
    for one in remotes:
        facts = [style.clean(one.endpoint)] if one.endpoint else []
        facts += [f"objects under {words.size(one.below)}"] if one.below is not None else []
        facts += [] if one.memories else ["without memories"]
        facts += ["with results of functions"] if one.results else []
        more = f"  ({', '.join(facts)})" if facts else ""
        yield f"{one.name:<{width}}  {style.clean(one.url)}{more}" if verbose else one.name


def remote_gc_lines(style: Style, done: RemoteGc) -> Iterator[str]:
    """What a gc of a remote deleted and condemned; a trial also names what the garbage was, and each file."""
    verb, url = "Would delete" if done.dry_run else "Deleted", style.clean(done.url)
    if not (done.deleted or done.condemned):
        yield f"Nothing to remove at {url}."
    if done.deleted:
        yield f"{verb} {_count_files(done.deleted)} at {url}."
    if done.condemned:
        yield f"{_count_files(done.condemned)} not needed at {url}; a gc after the grace period deletes them."
    if done.commits:
        last = f", the last of {words.stamp(done.newest)}" if done.newest else ""
        yield f"No branch or tag there has {words.count(done.commits, 'commit')} any more{last}."
    if done.branches:
        yield f"Branches that had: {', '.join(map(style.clean, done.branches))}"
    if done.dry_run:
        yield from (f"  {paths.display(path)}" for path in done.paths[:_SHOWN])
        if len(done.paths) > _SHOWN:
            yield f"  and {len(done.paths) - _SHOWN:,} more, which --json lists"
        for file in (*done.deleted, *done.condemned):
            yield f"  {words.size(file.size):>10}  {words.stamp(file.since)}  {file.path}"


def _count_files(files: tuple[GarbageFile, ...]) -> str:
    return f"{words.count(len(files), 'file')} ({words.size(sum(file.size for file in files))})"
