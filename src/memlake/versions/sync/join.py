"""Joining: many small batches of a remote as one, with the small packs they tell of. Swaps no root; a push does.

A clone makes one request for each file, so their number must not grow with the number of pushes. When a lane has more
than `MANY` batches, the last dozen becomes one, and with it those before that are not larger than all behind them
together. So the sizes in a log at least double from the newest to the oldest, and each byte is written again only as
often as its file doubles. What a joined batch replaces is named in the root, so whoever knows that does not read it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import groupby

from memlake.objects.layout import now
from memlake.objects.packs import LOG, MAGIC, PACKED, PACKED_ZSTD, Joined, join_packs
from memlake.objects.store import Objects
from memlake.versions.sync.batch import Batch, Pack, describe_file, encode_batch
from memlake.versions.sync.fetch import Link
from memlake.versions.sync.receive import check_record, read_batches
from memlake.versions.sync.remote import in_parallel
from memlake.versions.sync.root import LogFile, PackFile, Root, mark_of

MANY = 24  # batches of a lane that may be joined; when there are more, some are
_TOGETHER = 12  # the fewest that are joined, so that few pushes have to
_LARGEST = LogFile("", 8 << 20, 0, 0, 48 << 20, 1 << 18)  # what a joined batch may be; half of it is never joined
_LARGEST_PACK = 8 << 20
Run = Sequence[LogFile]


def plan(log: Sequence[LogFile], lane: int) -> list[Run]:
    """The batches of a lane to be joined, each list into one. Neighbours only, since a batch rests on those before."""
    files = [file for file in log if file.lane == lane]
    if sum(map(_is_small, files)) <= MANY:
        return []
    runs, excess = list[Run](), _TOGETHER
    for is_small, neighbours in groupby(reversed(files), _is_small):
        run = list(neighbours)
        while is_small and excess > 0 and len(run) > 1:
            count = _count_together(run)
            runs.append(run[:count][::-1])
            run = run[count:]
            excess -= count - 1
    return runs


def _count_together(run: Run) -> int:
    """How many of these, newest first, become one: a dozen, and then those that are smaller than all before."""
    total, count = run[0], 1
    for file in run[1:]:
        larger = count >= _TOGETHER and file.size > total.size
        total = total._replace(
            size=total.size + file.size, unpacked=total.unpacked + file.unpacked, rows=total.rows + file.rows
        )
        if larger or not _fits(total, _LARGEST):
            return count
        count += 1
    return count


def _is_small(file: LogFile) -> bool:
    return _fits(file._replace(size=2 * file.size, unpacked=2 * file.unpacked, rows=2 * file.rows), _LARGEST)


def _fits(file: LogFile, limit: LogFile) -> bool:
    return file.size <= limit.size and file.unpacked <= limit.unpacked and file.rows <= limit.rows


def join(objects: Objects, link: Link, root: Root, put: Callable[[str, bytes], object]) -> Root:
    """Store what is to be joined by `put`, and return the root that lists it in the places of the old."""
    mark = root.sweeps.to_bytes(8, "big") if root.sweeps else b""  # part of every name, as of all that is sent
    for run in [run for lane in (0, 1) for run in plan(root.log, lane)]:
        root, files = _join_run(objects, link, root, run, mark)
        for path, data in files.items():
            put(path, data)
    return root


def _join_run(objects: Objects, link: Link, root: Root, run: Run, mark: bytes) -> tuple[Root, dict[str, bytes]]:
    """One batch of several, and the packs of these: the root with them, and the new files by path."""
    folder = link.folder / "incoming"
    folder.mkdir(parents=True, exist_ok=True)
    batches = [batch for _, batch in read_batches(link.remote, run, root.repo, folder)]
    batch = _concatenate(batches, mark)
    listed = {pack.name: pack for pack in root.packs}
    told = {pack.name: pack for pack in batch.packs if pack.name in listed}
    small = [pack for pack in told.values() if pack.size <= _LARGEST_PACK // 2 and listed[pack.name].lane == batch.lane]
    files, new = dict[str, bytes](), dict[str, PackFile]()
    for group in _group_packs(small):
        made, pack = _join_packs(objects, link, group, batch.lane, mark)
        new |= dict.fromkeys((one.name for one in group), pack)
        told |= dict.fromkeys((one.name for one in group), Pack(pack.name, pack.size, made.footer))
        files[f"packs/{pack.name}"] = made.data
    batch = batch._replace(packs=list({pack.name: pack for pack in told.values()}.values()))
    data = encode_batch(batch)
    file = describe_file(data, batch)._replace(joined=tuple(mark_of(one.name) for one in run))
    files[f"log/{file.name}"] = data
    for one in run:
        (folder / one.name).unlink(missing_ok=True)
    return _replace_listed(root, run, file, new), files


def _concatenate(batches: Sequence[Batch], mark: bytes) -> Batch:
    """The rows of batches that stand one after another. What two of them have stays once."""
    return Batch(
        batches[0].repo, mark, batches[0].lane,
        list(dict.fromkeys(data for batch in batches for data in batch.commits)),
        list(dict.fromkeys(one for batch in batches for one in batch.objects)),
        list(dict.fromkeys(one for batch in batches for one in batch.lists)),
        list(dict.fromkeys(one for batch in batches for one in batch.packs)),
        list(dict.fromkeys(one for batch in batches for one in batch.parts)),
        [move for batch in batches for move in batch.moves],
        [purge for batch in batches for purge in batch.purges],
        [signature for batch in batches for signature in batch.signatures],
    )  # fmt: skip


def _group_packs(packs: Sequence[Pack]) -> list[list[Pack]]:
    """Packs in groups that each make one."""
    groups, size = list[list[Pack]](), _LARGEST_PACK + 1
    for pack in packs:
        if size + pack.size > _LARGEST_PACK:
            groups.append([])
            size = 0
        groups[-1].append(pack)
        size += pack.size
    return [group for group in groups if len(group) > 1]


def _join_packs(objects: Objects, link: Link, group: Sequence[Pack], lane: int, mark: bytes) -> tuple[Joined, PackFile]:
    def read(pack: Pack) -> bytes:
        start = len(MAGIC)
        payload = link.remote.place.get(f"packs/{pack.name}", start, pack.size - start - len(pack.footer) - 16)
        for record in pack.read().records:
            if record.form in (PACKED, PACKED_ZSTD) and record.role != LOG:
                # The old file will be deleted, so a bad copy must not replace it.
                check_record(record, payload[record.start - start :][: record.length])
        return payload

    payloads = dict(in_parallel(read, group))
    nonce = hashlib.sha256(mark + "".join(pack.name for pack in group).encode()).digest()[:16]
    made = join_packs(objects.repo, nonce, [(pack.read(), payloads[pack]) for pack in group])
    joined = tuple((mark_of(pack.name), shift) for pack, shift in zip(group, made.shifts, strict=True))
    return made, PackFile(made.name, len(made.data), lane, joined)


def _replace_listed(root: Root, run: Run, file: LogFile, packs: dict[str, PackFile]) -> Root:
    """The root with new files in the places of the old, which are condemned: somebody may be reading them.

    Work stands where the first was and memories where the last was, because memories rest on work and not the other way
    round. So all that a batch rests on is still before it.
    """
    out = {one.name for one in run}
    place = run[0].name if file.lane == 0 else run[-1].name
    log = [file if one.name == place else one for one in root.log if one.name == place or one.name not in out]
    kept = [pack for pack in root.packs if pack.name not in packs]
    gone = [f"log/{name}" for name in out] + [f"packs/{name}" for name in packs]
    return root._replace(
        log=tuple(log),
        packs=(*kept, *dict.fromkeys(packs.values())),
        condemned={**root.condemned, **dict.fromkeys(sorted(gone), now())},
    )
