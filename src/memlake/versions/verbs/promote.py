"""promote: one commit on a branch that takes some paths exactly as another branch has them; and what runs there since.

The commit says where its paths came from ("promoted") and what was measured of them. Whether it is allowed, whoever
hands in `judge` knows. A branch that is checked out takes its files along; any other only moves its ref.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlake.errors import Conflict, InvalidInput, NotFound, Nothing, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects.layout import now
from memlake.objects.leases import Keeping
from memlake.records import Change, Commit, Entry, count, short
from memlake.reports import Other, Promoted, Running
from memlake.versions import tables
from memlake.versions.checkout import rev
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.pending import Pending
from memlake.versions.conditions import Facts
from memlake.versions.history import refs
from memlake.versions.history.append import record, write_facts
from memlake.versions.history.commits import Draft
from memlake.versions.history.facts import read_path_facts, scan_path
from memlake.versions.kinds import kind_at
from memlake.versions.paths import FILES, matches, plain, scope
from memlake.versions.text.merge3 import Names
from memlake.versions.trees.codec import decode_commit
from memlake.versions.verbs.branch import refuse_waiting
from memlake.versions.verbs.merge import commit_edits, refuse_staged
from memlake.versions.verbs.show import fact
from memlake.versions.verbs.undo import operation
from memlake.versions.verbs.write import check_beside

PROMOTE, FACT = "promote", "promoted"
Edits = dict[str, Entry | None]
# (head of the target, what counts for each path that comes) -> nothing; raises if the target does not allow it
Judge = Callable[[Commit | None, Mapping[str, Facts]], None]


class Asked(NamedTuple):
    """Which paths, from where to where, and why."""

    paths: tuple[str, ...]
    source: str
    target: str
    why: str = ""


def promote(here: Checkout, asked: Asked, judge: Judge) -> Promoted:
    """Take the paths over, in one commit on the target."""
    source, head = rev.resolve(here, asked.source), _get_head(here, asked.target)
    edits = _find_edits(here, asked, source, head)
    planned = here.history.plan(head, edits)
    edits = {change.path: change.new for change in planned.changes}
    if not edits:
        raise Nothing(
            f"{asked.target} already has {_name_paths(asked.paths)} as {asked.source} has it.",
            hint=f"See what runs there: memlake promote --list --to {pasted(asked.target)}",
        )
    check_beside(here, edits, asked.target)
    coming = [path for path, entry in edits.items() if entry is not None]
    measured = {path: _read_values(here, source, path) for path in coming}
    judge(head, measured)
    told = [_tell_path(path, measured[path]) if path in measured else f"{plain(path)}: removed" for path in edits]
    title = f"Promote {_name_paths(tuple(edits))} from {asked.source}"
    message = "\n\n".join(filter(None, (title, asked.why.strip(), "\n".join(told))))
    facts: dict[str, Any] = {
        **{room: _join_values(values[room] for values in measured.values()) for room in ("metrics", "params")},
        "uses": [{"path": path, "commit": source.oid, "oid": edits[path].oid} for path in coming],  # type: ignore[union-attr]
        FACT: {"from": asked.source, "commit": source.oid},
    }
    commit = _write(here, asked.target, _Draft(head, edits, message, facts, _name_paths(tuple(edits))))
    return Promoted(commit.oid, asked.source, asked.target, planned.changes, facts["metrics"])


def _get_head(here: Checkout, target: str) -> Commit | None:
    return refs.commit_of(here.history, refs.get(here.history.db, target)["work"])


def _find_edits(here: Checkout, asked: Asked, source: Commit, head: Commit | None) -> Edits:
    """What the source has at the paths, and None for files in a folder or pattern that only the target has."""
    edits: Edits = {}
    for path in asked.paths:
        if path.partition("/")[0] and kind_at(path).lane != "work":
            raise InvalidInput(
                f"{path!r} is of the memory lane; promote takes files and datasets. Nothing was changed.",
                hint=f"Memories of a branch come with a merge: memlake merge {pasted(asked.source)}",
            )
        there = {name: entry for name, entry in here.history.scan(source, scope(path)) if matches(name, (path,))}
        if not there:
            import difflib  # only for a mistake

            names = [plain(name) for name, _ in here.history.scan(source, FILES)]
            near = difflib.get_close_matches(plain(path), names, 1)
            raise NotFound(
                f"{asked.source} does not have {plain(path)!r}. Nothing was changed.",
                hint=f"Did you mean {near[0]!r}?" if near else f"See what it has: memlake ls {pasted(asked.source)}",
            )
        if path.startswith(FILES):  # versions of datasets are only added: each number is a thing of its own
            edits |= {name: None for name, _ in here.history.scan(head, scope(path)) if matches(name, (path,))}
        edits |= there
    return edits


def _name_paths(paths: tuple[str, ...]) -> str:
    return plain(paths[0]) if len(paths) == 1 else count(len(paths), "path")


def _read_values(here: Checkout, head: Commit, path: str) -> dict[str, dict[str, Any]]:
    found = read_path_facts(here.history, head, path)
    return {room: {name: one.value for name, one in values.items()} for room, values in found.items()}


def _tell_path(path: str, values: Facts) -> str:
    told = ", ".join(f"{name}={value!s:.80}" for name, value in sorted(values["metrics"].items()))
    return f"{plain(path)}: {' '.join(told.split()) or 'not measured'}"  # one line, whatever a metric is called


def _join_values(all_values: Iterator[Mapping[str, Any]]) -> dict[str, Any]:
    """Values on which all paths that have one agree: a commit says each name once."""
    joined: dict[str, Any] = {}
    apart: set[str] = set()
    for values in all_values:
        apart |= {name for name, value in values.items() if joined.setdefault(name, value) != value}
    return {name: value for name, value in joined.items() if name not in apart}


# -- writing ------------------------------------------------------------------------------------


class _Draft(NamedTuple):
    """A commit to be made on top of the head that was looked at."""

    head: Commit | None
    edits: Edits
    message: str
    facts: Mapping[str, Any]
    name: str  # for the list of operations


def _write(here: Checkout, target: str, draft: _Draft) -> Commit:
    history = here.history
    if target == here.local.checked_out:
        refuse_waiting(here, PROMOTE)
        refuse_staged(here, PROMOTE)
        names = Names(target, draft.name, False)
        pending = Pending(PROMOTE, draft.name, names, message=draft.message, facts=draft.facts)
        return history.get(commit_edits(here, pending, draft.edits, draft.head).commit or "")
    expects = {path: (history.entries(draft.head, [path]).get(path),) for path in draft.edits}
    with Keeping(history.db, PROMOTE) as keeping, operation(here, PROMOTE, f"{draft.name} to {target}") as verb:
        keeping.take()
        with history.db.write():
            history.objects.adopt(entry.oid for entry in draft.edits.values() if entry is not None)
            meta = write_facts(history.objects, draft.facts)
            made = Draft("work", draft.edits, here.author, draft.message, now(), meta)
            return record(history, made, branch=target, expects=expects, moved=verb.moved)


# -- what runs there, and taking it back --------------------------------------------------------


class _Past(NamedTuple):
    """A commit of a promotion, and what it says of itself."""

    commit: Commit
    says: Mapping[str, Any]


def _scan_promotions(here: Checkout, head: Commit) -> Iterator[_Past]:
    """Promotions on the line of a branch, newest first; those that took one back, too."""
    for seq, _, _, data in tables.scan_first_parents(here.history.db, head.seq, holding=FACT.encode()):
        if FACT in (commit := decode_commit(data, seq)).meta:
            says = fact(here, FACT, commit.meta[FACT])
            yield _Past(commit, says if isinstance(says, dict) else {})


def list_running(here: Checkout, target: str | None = None, source: str | None = None) -> list[Running]:
    """What was promoted to a branch, or to any of them, as it is there now; and what the source has newer."""
    if source is not None:
        rev.resolve(here, source)
    if target is not None:
        refs.get(here.history.db, target)
    return [
        running
        for branch in refs.branches(here.history.db, None)
        if target in (None, branch.name) and (head := refs.commit_of(here.history, branch.work)) is not None
        for running in _list_on(here, branch.name, head, source)
    ]


def _list_on(here: Checkout, target: str, head: Commit, source: str | None) -> Iterator[Running]:
    known: dict[str, str] = {}  # by path, the branch it last came from
    promotions: dict[str, Mapping[str, Any]] = {}
    for past in _scan_promotions(here, head):
        promotions[past.commit.oid] = past.says
        for change in here.history.changes(past.commit):
            if not known.get(change.path):
                known[change.path] = str(past.says.get("from", ""))
    for path, entry in sorted(here.history.entries(head, known).items()):
        *_, last = scan_path(here.history, head, path)
        came_from = str(promotions.get(last.oid, {}).get("from", ""))
        metrics = _read_values(here, head, path)["metrics"]
        running = Running(target, path, last.oid, last.time, last.author, last.subject, came_from, metrics)
        yield running._replace(other=_find_other(here, path, entry, source or known[path]))


def _find_other(here: Checkout, path: str, entry: Entry, source: str) -> Other | None:
    """What the source has at a path now, if that is something else; the source may be gone."""
    there = rev.find(here, source) if source else None
    if there is None or here.history.entries(there, [path]).get(path) in (None, entry):
        return None
    *_, last = scan_path(here.history, there, path)
    return Other(source, last.oid, last.time, last.subject, _read_values(here, there, path)["metrics"])


def take_back(here: Checkout, target: str | None, why: str = "") -> Promoted:
    """A commit that puts the paths of the last promotion back to what they were before it."""
    names = [target] if target else [one.name for one in refs.branches(here.history.db, None)]
    found = [(past, name) for name in names if (past := _find_last(here, name)) is not None]
    if not found:
        raise Nothing(f"nothing was promoted to {target or 'any branch'} that could be taken back.")
    past, branch = max(found, key=lambda one: one[0].commit.seq)
    head, changes = _get_head(here, branch), here.history.changes(past.commit)
    held = here.history.entries(head, [change.path for change in changes])
    if others := [change.path for change in changes if held.get(change.path) != change.new]:
        raise Conflict(
            f"{plain(others[0])!r} changed on {branch} since it was promoted. Nothing was changed.",
            hint=f"See how: memlake log {pasted(branch)} --oneline",
        )
    edits = {change.path: change.old for change in changes}
    message = "\n\n".join(
        filter(None, (f'Take back "{past.commit.subject}"', why.strip(), f"This takes back commit {past.commit.oid}."))
    )
    before = refs.commit_of(here.history, next(iter(past.commit.parents), None))
    measured = [_read_values(here, before, path) for path, entry in edits.items() if before and entry is not None]
    metrics = _join_values(values["metrics"] for values in measured)
    facts = {"metrics": metrics, FACT: {"back": past.commit.oid}}
    commit = _write(here, branch, _Draft(head, edits, message, facts, f"--undo {short(past.commit.oid)}"))
    reverted = tuple(Change(change.path, change.new, change.old) for change in changes)
    return Promoted(commit.oid, str(past.says.get("from", "")), branch, reverted, metrics, back=past.commit.oid)


def _find_last(here: Checkout, name: str) -> _Past | None:
    """The last promotion to a branch that was not taken back."""
    head, back = _get_head(here, name), set[str]()
    for past in _scan_promotions(here, head) if head is not None else ():
        if "back" in past.says:
            back.add(str(past.says["back"]))
        elif past.commit.oid not in back:
            return past
    return None
