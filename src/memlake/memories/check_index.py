"""Whether the index says what the history says: for fsck, because a flipped bit may hide a memory.

A module of its own, because it loads numpy and all of the index, and `index_sync` serves hooks without them.
"""

from __future__ import annotations

from array import array

from memlake.errors import Damaged
from memlake.index import generations, segments, terms
from memlake.index.index import DAMAGED, IndexQuery
from memlake.index.rows import Shown
from memlake.memories import index_sync, record
from memlake.memories.context import MemoryContext
from memlake.records import Change, Commit

_EVERYTHING = 1 << 40


def mend(context: MemoryContext) -> str:
    """What was wrong with the index, which is made again then; "" for nothing."""
    seen, known = context.index.edition, context.index.take_notice()  # the caller says it
    if known == DAMAGED:  # found on being opened
        return known
    try:
        head = index_sync.follow(context.here.history, context.index, context.branch)
        _check_files(context)
        if head is not None:
            _check_shown(context, head)
        _check_fresh(context)
    except Damaged as error:
        context.index.renew(seen)
        context.index.take_notice()
        index_sync.follow(context.here.history, context.index, context.branch)
        return f"{error.message} It was made again from the history."
    return ""


def _check_files(context: MemoryContext) -> None:
    db, folder = context.index.db, context.index.generation
    if db.row("PRAGMA quick_check(1)") != ("ok",):
        raise Damaged("index.db is damaged.")
    for (name,) in db.rows("SELECT name FROM segment"):
        segments.read_segment(generations.segment_file(folder, name), whole=True)


def _check_shown(context: MemoryContext, head: Commit) -> None:
    """The rows that the trunk shows now are the memories of the tree of its head."""
    history = context.here.history
    trunk = index_sync.find_trunk(history, context.index, context.branch)
    asked = IndexQuery("", shown=Shown(), most=_EVERYTHING)
    shown = {(one.key, one.oid.hex()) for one in context.index.list_rows(asked)}
    kept = {path: entry for path, entry in history.scan(head, index_sync.ROOM) if index_sync.is_memory(path)}
    there = {(record.Memory(path.rsplit("/", 1)[1], "").key, entry.oid): path for path, entry in kept.items()}
    if extra := shown - there.keys():
        raise Damaged(f"the index shows {len(extra)} memories that are not on branch {trunk!r}.")
    missing = [Change(path, None, kept[path]) for one, path in there.items() if one not in shown]
    if lost := index_sync.load_docs(history, missing):  # what was purged, or is no memory, has no row
        raise Damaged(f"the index hid {len(lost)} memories of branch {trunk!r}.")


def _check_fresh(context: MemoryContext) -> None:
    """The words of rows that no segment holds yet are those of their records."""
    db, history = context.index.db, context.here.history
    sql = "SELECT oid, terms FROM fresh JOIN row ON row.id = fresh.row WHERE fresh.row > ?"
    found = {oid.hex(): packed for oid, packed in db.rows(sql, (segments.find_last_folded(db),))}
    for oid, data in history.objects.read_many(found.keys() - set(history.objects.find_missing(list(found)))):
        doc = record.doc(record.decode(data), oid)
        if _words(terms.pack_terms(terms.count_terms(doc.text, doc.marks))) != _words(found[oid]):
            raise Damaged("the index has other words of a memory than it says.")


def _words(packed: bytes) -> list[tuple[int, int]]:
    """Terms with their counts, in an order of their own: fields of a record may have had another when it was stored."""
    hashes = array("q")
    hashes.frombytes(packed[: len(packed) // 9 * 8])
    return sorted(zip(hashes, packed[len(packed) // 9 * 8 :], strict=False))
