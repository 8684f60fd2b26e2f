"""merge, revert and cherry-pick: one shape, `edits on top of ours`, with conflicts that wait until chosen.

Nothing in the working files changes until there is nothing left to choose. Then one transaction moves both lanes
of the branch, and a journaled checkout follows.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from memlake.errors import Conflict as ConflictError
from memlake.errors import InvalidInput, NotFound, Nothing
from memlake.objects.layout import now
from memlake.objects.leases import Keeping
from memlake.records import Author, Change, Commit, Conflict, Entry, Lane, short
from memlake.reports import Merged
from memlake.versions import checkout, journal, landing, merge, refs, rev, stage
from memlake.versions.bases import is_ancestor, merge_bases
from memlake.versions.branching import heads_at, refuse_waiting
from memlake.versions.codec import LANES, lane_of
from memlake.versions.here import Here
from memlake.versions.history import Draft, History
from memlake.versions.journal import Goal, Plan
from memlake.versions.merge import Outcome
from memlake.versions.operations import operation
from memlake.versions.paths import FILES, file_path, matches, plain
from memlake.versions.textmerge import as_text, merge_text

_TRAILER = re.compile(r"[A-Za-z0-9-]+: |\(cherry picked from commit ")
_TO = {"revert": "take back", "cherry-pick": "repeat"}
_TRIES = 5
Doing = dict[str, Any]  # a merge, revert or cherry-pick as local.db keeps it while it waits


class _Moved(ConflictError):
    """Another wrote to the branch since it was compared."""


class How(NamedTuple):
    ff: bool = True
    only_ff: bool = False
    message: str | None = None


class Conclusion(NamedTuple):
    """What is said when something that waited is concluded."""

    message: str | None = None
    author: Author | None = None
    meta: Mapping[str, str] = MappingProxyType({})


def merge_rev(here: Here, name: str, how: How) -> Merged:
    """Join another branch (both its lanes) into the one we are on."""
    refuse_waiting(here, "merge")
    theirs = _theirs(here, name)
    # A detached HEAD has no memory lane to move.
    lanes = {lane: _relation(here, lane, theirs[lane]) for lane in (LANES if here.local.branch else LANES[:1])}
    if all(state == "same" for state in lanes.values()):
        return Merged(here.local.base, up_to_date=True)
    _refuse_staged(here, "merge")
    _refuse_unrelated(here, name, theirs["work"])
    if not how.ff and theirs["work"] and here.head() is None:
        raise InvalidInput(
            f"branch {here.local.branch!r} has no commits yet: a merge commit needs two sides. Nothing was changed.",
            hint=f"Begin it where {name!r} is: memlake merge {name}",
        )
    if how.only_ff and "diverged" in lanes.values():
        raise ConflictError(
            f"{name!r} cannot be fast-forwarded: both sides have commits of their own. Nothing was changed.",
            hint=f"Merge it with: memlake merge {name}",
        )
    doing = {
        "verb": "merge", "name": name, "theirs": theirs["work"], "theirs_memory": theirs["memory"],
        "ff": how.ff, "message": how.message or f"Merge {_what(here, name)}{_into(here)}",
    }  # fmt: skip
    return _try(here, doing)


def _refuse_unrelated(here: Here, name: str, oid: str | None) -> None:
    """Two beginnings of files have nothing to compare. Memories may begin anew on each branch."""
    ours, theirs = here.head(), refs.commit_of(here.history, oid)
    if ours is not None and theirs is not None and not merge_bases(here.history, ours, theirs):
        raise InvalidInput(
            f"{name!r} and HEAD have no commit in common: they are unrelated histories. Nothing was changed.",
            hint=f"Take single commits over with: memlake cherry-pick {name}",
        )


def _theirs(here: Here, name: str) -> refs.Heads:
    rev.resolve(here, name) if refs.find(here.history.db, name) is None else None
    heads = heads_at(here, name)
    if not any(heads.values()):
        raise NotFound(
            f"branch {name!r} has no commits yet, so there is nothing to merge. Nothing was changed.",
            hint="See what the branches have: memlake branch -v",
        )
    return heads


def _relation(here: Here, lane: Lane, oid: str | None) -> str:
    """same (nothing to take), ahead (fast-forward) or diverged."""
    theirs, ours = refs.commit_of(here.history, oid), here.head(lane)
    if theirs is None or (ours is not None and is_ancestor(here.history, theirs, ours)):
        return "same"
    if ours is None or is_ancestor(here.history, ours, theirs):
        return "ahead"
    return "diverged"


def _what(here: Here, name: str) -> str:
    return f"branch '{name}'" if refs.find(here.history.db, name) else f"commit '{name}'"


def _into(here: Here) -> str:
    branch = here.local.branch
    return "" if branch in (None, "main") else f" into {branch}"


class Picking(NamedTuple):
    """How a commit is repeated or taken back: committed or only staged, against which parent, naming its source."""

    commit: bool = True
    mainline: int | None = None
    cite: bool = False


def revert(here: Here, name: str, how: Picking) -> Merged:
    """A new commit that undoes what a commit changed against its parent."""
    target, parent = _single(here, name, "revert", how)
    what = f"This reverts commit {target.oid}"
    against = f", reversing\nchanges made to {parent}" if len(target.parents) > 1 else ""
    message = f'Revert "{target.subject}"\n\n{what}{against}.'
    return _try(here, _picking("revert", name, how, (target, parent)) | {"message": message})


def cherry_pick(here: Here, name: str, how: Picking) -> Merged:
    """A new commit that does here what a commit did there."""
    target, parent = _single(here, name, "cherry-pick", how)
    message = _cited(target) if how.cite else target.message
    return _try(here, _picking("cherry-pick", name, how, (target, parent)) | {"message": message})


def _picking(verb: str, name: str, how: Picking, between: tuple[Commit, str | None]) -> Doing:
    target, parent = between
    said = verb if how.commit else f"{verb} --no-commit"
    return {"verb": verb, "said": said, "name": name, "target": target.oid, "parent": parent, "commit": how.commit}


def _cited(target: Commit) -> str:
    """The message with where it came from, in the paragraph of its trailers if it has one."""
    above, _, last = target.message.rstrip().rpartition("\n\n")
    trailers = above and all(_TRAILER.match(line) for line in last.splitlines())
    return f"{target.message.rstrip()}\n{'' if trailers else chr(10)}(cherry picked from commit {target.oid})"


def _single(here: Here, name: str, verb: str, how: Picking) -> tuple[Commit, str | None]:
    """The commit meant, and the parent its changes are counted from."""
    refuse_waiting(here, verb)
    if how.commit:
        _refuse_staged(here, verb)
    target = rev.resolve(here, name)
    if target.lane != "work":
        raise InvalidInput(
            f"{name!r} is a commit of the memory lane; {verb} works on files.",
            hint="Name a commit that memlake log shows.",
        )
    parent = _parent(target, verb, how.mainline)
    if not how.commit:
        _refuse_records(verb, name, here.history.diff(refs.commit_of(here.history, parent), target))
    return target, parent


def _refuse_records(verb: str, name: str, changes: tuple[Change, ...]) -> None:
    others = [change.path for change in changes if not change.path.startswith(FILES)]
    if others:
        raise InvalidInput(
            f"{verb} --no-commit of {name} would stage {others[0]!r}, and the stage holds files alone. "
            "Nothing was changed.",
            hint=f"Make a commit of it: memlake {verb} {name}",
        )


def _parent(target: Commit, verb: str, mainline: int | None) -> str | None:
    parents = target.parents
    if len(parents) > 1 and mainline is None:
        listed = "\n".join(f"  -m {number}  against {short(oid)}" for number, oid in enumerate(parents, 1))
        raise InvalidInput(
            f"commit {short(target.oid)} is a merge: say against which parent, with -m. Nothing was changed.\n{listed}",
            hint=f"To {_TO[verb]} what the merge brought: memlake {verb} -m 1 {short(target.oid)}",
        )
    if mainline is not None and not 1 <= mainline <= len(parents):
        raise InvalidInput(
            f"commit {short(target.oid)} has no parent {mainline}; it has {len(parents)}. Nothing was changed.",
            hint="See them with: memlake log --graph --oneline",
        )
    return parents[(mainline or 1) - 1] if parents else None


def apply_stash(here: Here, target: Commit, asked: Mapping[str, Any]) -> Merged:
    """Join what a stash holds with the stage as it is; `asked` says its name, `index`, and the ref to `drop`."""
    doing = {"verb": "stash apply", "target": target.oid, "parent": target.parents[0], "commit": False, **asked}
    return _try(here, doing)


def _refuse_staged(here: Here, verb: str) -> None:
    staged = here.local.staged()
    if staged:
        raise ConflictError(
            f"{verb} needs an empty stage; {len(staged)} path(s) are staged. Nothing was changed.",
            hint="Commit them (memlake commit), or put them aside (memlake stash).",
        )


# -- one attempt, from the beginning or after choices ---------------------------------------------


def _try(here: Here, doing: Doing, chosen: tuple[Conflict, ...] = ()) -> Merged:
    with Keeping(here.history.db, str(doing["verb"])) as keeping:
        keeping.take()  # joined texts are stored before they are named
        for _ in range(_TRIES):
            with contextlib.suppress(_Moved):
                return _attempt(here, doing, chosen)
        return _attempt(here, doing, chosen)


def _attempt(here: Here, doing: Doing, chosen: tuple[Conflict, ...]) -> Merged:
    head = here.head()
    outcome = _outcome(here, doing, chosen)
    choices = {conflict.path: conflict for conflict in chosen}
    conflicts = tuple(
        _with_choice(conflict, choices) for conflict in outcome["work"].conflicts + outcome["memory"].conflicts
    )
    if any(conflict.choice is None for conflict in conflicts):
        if not chosen:
            _refuse_dirty(here, doing, outcome["work"])
        open_paths = {conflict.path for conflict in conflicts}
        doing["merged"] = sum(len(outcome[lane].edits.keys() - open_paths) for lane in LANES)
        doing.pop("drop", None)  # a stash that met other changes is kept
        with operation(here, str(doing["verb"]), f"{doing['name']} (waiting)"), here.local.db.write():
            here.local.clear_doing()
            here.local.put_conflicts(conflicts)
            here.local.set_state(doing=json.dumps(doing))
        return Merged(None, conflicts=conflicts)
    done = _conclude(here, doing | {"on": head and head.oid}, outcome, merge.decided(here.history, conflicts))
    return done._replace(moved=outcome["work"].moved, name=_what(here, str(doing["name"])).replace("'", ""))


def _refuse_dirty(here: Here, doing: Doing, outcome: Outcome) -> None:
    """Waiting begins over files as they were kept: work in them would be taken for somebody's choice later."""
    touched = {**outcome.edits, **dict.fromkeys(conflict.path for conflict in outcome.conflicts)}
    changes = [Change(path, None, touched[path]) for path in sorted(touched) if path.startswith(FILES)]
    checkout.check_over_stage(here.local, here.root, changes, str(doing["verb"]))


def _with_choice(conflict: Conflict, choices: dict[str, Conflict]) -> Conflict:
    made = choices.get(conflict.path)
    same = made is not None and (made.ours, made.theirs) == (conflict.ours, conflict.theirs)
    return conflict._replace(choice=made.choice, chosen=made.chosen) if made is not None and same else conflict


def _outcome(here: Here, doing: Doing, chosen: tuple[Conflict, ...]) -> dict[Lane, Outcome]:
    history, nothing = here.history, Outcome({}, ())
    if doing["verb"] == "merge":
        theirs = _heads_of(here, doing)
        return {
            lane: merge.merge_commits(history, here.head(lane), theirs[lane]) if theirs[lane] else nothing
            for lane in LANES
        }
    then = history.root(history.get(str(doing["target"])))
    parent = history.root(refs.commit_of(history, doing["parent"]))
    by_hand = {conflict.path: conflict.ours for conflict in chosen if conflict.choice == "file"}
    ours = history.root(here.head()) if doing["commit"] else landing.stage_root(here, by_hand)
    base, theirs_root = (then, parent) if doing["verb"] == "revert" else (parent, then)
    found = merge.merge_roots(history, base, ours, theirs_root)
    return {"work": merge.joined(history, found, ours, theirs_root), "memory": nothing}


def _heads_of(here: Here, doing: Doing) -> dict[Lane, Commit | None]:
    commits = (refs.commit_of(here.history, doing[key]) for key in ("theirs", "theirs_memory"))
    return dict(zip(LANES, commits, strict=True))


def _conclude(here: Here, doing: Doing, outcome: dict[Lane, Outcome], decided: dict[str, Entry | None]) -> Merged:
    edits: dict[Lane, dict[str, Entry | None]] = {
        lane: {**outcome[lane].edits, **{path: entry for path, entry in decided.items() if lane_of(path) == lane}}
        for lane in LANES
    }
    noted = here.history.arriving if doing["verb"] == "merge" and here.local.branch else None
    if noted and edits["memory"] and _relation(here, "memory", str(doing["theirs_memory"])) == "diverged":
        edits["memory"] = noted(edits["memory"])
    extra = {FILES + row.path: row.entry for row in here.local.staged().values()}
    if not doing.get("commit", True):
        _refuse_clash(here, str(doing["verb"]), here.base(), {**extra, **edits["work"]})
        return landing.land(here, doing, edits["work"])
    edits["work"].update({path: entry for path, entry in extra.items() if path not in decided})
    verb, head = str(doing["verb"]), here.head()
    _refuse_clash(here, verb, head, edits["work"])
    if verb != "merge" and not here.history.plan(head, edits["work"])[0]:
        here.local.clear_doing()
        raise Nothing(
            f"{verb} of {doing['name']} changes nothing here: it is done already.", hint="See: memlake log --oneline"
        )
    changes = here.history.plan(head, edits["work"])[0]
    files = tuple(change for change in changes if change.path.startswith(FILES))
    # What came to the branch since our files were last brought up to date arrives in them now, too.
    arriving = {c.path: c for c in (*here.history.diff(here.base(), head, FILES), *files) if c.path not in extra}
    _refuse_edited(here, verb, tuple(arriving.values()))
    agreed = checkout.check_safe(here.local, here.root, tuple(arriving.values()), verb)
    ready = checkout.check_bytes(here.history.objects, tuple(arriving.values()))
    with operation(here, verb, str(doing["name"]), files=True) as before:
        before.saved |= agreed
        goal = Goal(None, here.local.branch or "@", f"{verb} {doing['name']}", here.who)
        with journal.moving(here.history, here.local, Plan(goal, journal.new_token())) as moved:
            commit, fast = _move_lanes(here, doing, edits)
            moved.commit = commit.oid if commit else None
        how = "fast-forward" if fast else "made by merge" if verb == "merge" else "applied"
        goal = goal._replace(commit=moved.commit, action=f"{goal.action}: {how}")
        here.local.put([row._replace(staged=False, old=None) for row in here.local.staged().values()])
        base = here.history.get(here.local.base) if here.local.base else None
        checkout.move_to(here.history, here.local, here.root, goal, here.history.diff(base, commit, FILES), ready=ready)
    remembered = Counter(path.split("/", 1)[0] for path in edits["memory"])
    return Merged(commit.oid if commit else None, fast_forward=fast, changes=changes, remembered=remembered)


def _refuse_edited(here: Here, verb: str, arriving: tuple[Change, ...]) -> None:
    """Work done while it waited: it cannot be stashed or committed apart now, but taken or dropped."""
    if here.local.state("doing") and (edited := checkout.unsafe_paths(here.local, here.root, arriving)):
        listed = "\n".join(f"  {path}" for path in edited[:10])
        raise ConflictError(
            f"{verb} would overwrite files edited while it waited:\n{listed}\nNothing was changed.",
            hint=f"Take the file as it is: memlake add {edited[0]}\nOr drop the edit: memlake restore {edited[0]}",
        )


def _refuse_clash(here: Here, verb: str, on: Commit | None, edits: Mapping[str, Entry | None]) -> None:
    if clash := here.history.find_clash(on, edits):
        one, other = map(plain, clash)
        raise ConflictError(
            f"{verb} cannot keep both {one!r} and {other!r}: one is the other's folder. Nothing was changed.",
            hint=f"Choose the other side for one of them, or drop it: memlake {verb} --abort",
        )


def _move_lanes(here: Here, doing: Doing, edits: dict[Lane, dict[str, Entry | None]]) -> tuple[Commit | None, bool]:
    """Both lanes in one transaction; a lane whose other side is simply ahead is fast-forwarded."""
    branch, fast_all = here.local.branch, True
    theirs = _heads_of(here, doing) if doing["verb"] == "merge" else {"work": None, "memory": None}
    result = here.head()
    with here.history.db.write():
        _refuse_moved(here, doing)
        for lane in LANES:
            head, other = here.head(lane), theirs[lane]
            if doing["verb"] == "merge" and (other is None or _relation(here, lane, other.oid) == "same"):
                continue
            if lane == "memory" and (doing["verb"] != "merge" or branch is None):
                continue
            fast = (
                doing["verb"] == "merge"
                and bool(doing["ff"])
                and _relation(here, lane, other.oid if other else None) == "ahead"
            )
            parents = tuple(commit for commit in (head, other) if commit is not None)
            new = other if fast else _commit(here, doing, lane, parents, edits[lane])
            fast_all = fast_all and fast
            if branch is not None:
                refs.move(
                    here.history, branch, lane, head, new, action=f"{doing['verb']} {doing['name']}", who=here.who
                )
            result = new if lane == "work" else result
    return result, fast_all


def _refuse_moved(here: Here, doing: Doing) -> None:
    """What was merged is the branch as it was then: a save since may hold a number that was free."""
    head = here.head()
    if doing["on"] != (head and head.oid):
        raise _Moved(f"the branch moved while {doing['verb']} was at work. Nothing was changed.", hint="Run it again.")


def _commit(
    here: Here, doing: Doing, lane: Lane, parents: tuple[Commit, ...], edits: dict[str, Entry | None]
) -> Commit:
    author = Author(*doing["author"]) if "author" in doing else here.author
    draft = Draft(lane, edits, author, str(doing["message"]), now(), doing.get("meta", {}) if lane == "work" else {})
    return here.history.append(draft, parents, here.head("memory" if lane == "work" else "work"))


# -- choosing -------------------------------------------------------------------------------------


def choose(here: Here, side: str, paths: tuple[str, ...]) -> tuple[Conflict, ...]:
    """Settle conflicts with one side; returns what is still open."""
    _waiting(here)
    conflicts = here.local.conflicts()
    _check_side(here, side, [conflict for conflict in conflicts if not paths or matches(conflict.path, paths)])
    known = {conflict.path for conflict in conflicts}
    for path in paths:
        if not any(matches(other, (path,)) for other in known):
            listed = "  ".join(plain(other) for other in sorted(known)[:5])
            raise NotFound(f"{plain(path)!r} is not in conflict. Nothing was changed.", hint=f"In conflict: {listed}")
    # A folder or pattern means what is still open there; a choice already made is changed by its own name.
    meant = [c for c in conflicts if not paths or c.path in paths or (c.choice is None and matches(c.path, paths))]
    chosen = [conflict._replace(choice=side, chosen=None) for conflict in meant]
    by_hand = {c.path for c in conflicts if c.choice == "file"} & {c.path for c in chosen}
    with operation(here, f"merge --{side}", " ".join(path.removeprefix(FILES) for path in paths)):
        # What was staged for it by hand would go into the commit all the same.
        stage.unstage(here.local, here.local.tracked(path.removeprefix(FILES) for path in by_hand).values())
        here.local.put_conflicts(chosen)
    return tuple(conflict for conflict in here.local.conflicts() if conflict.choice is None)


def _check_side(here: Here, side: str, meant: list[Conflict]) -> None:
    """Both can be kept only of a kind that somebody knows how to keep twice."""
    kinds = {entry.kind for one in meant for entry in (one.ours, one.theirs) if entry is not None}
    if side not in ("ours", "theirs") and not (side == "both" and kinds <= here.history.settlers.keys()):
        raise InvalidInput(f"a conflict has no side {side!r}.", hint="Choose ours or theirs.")


def decided(here: Here) -> dict[str, Entry | None]:
    """Files on which nothing is open in what waits: a side was chosen, or only the other side changed them."""
    doing, conflicts = here.local.json_state("doing"), here.local.conflicts()
    if doing is None:
        return {}
    edits = dict(_outcome(here, doing, conflicts)["work"].edits)
    for conflict in conflicts:
        edits.pop(conflict.path, None)
        if conflict.choice in ("ours", "theirs"):
            edits[conflict.path] = conflict.ours if conflict.choice == "ours" else conflict.theirs
    return {file_path(path): entry for path, entry in edits.items() if path.startswith(FILES)}


def proceed(here: Here, said: Conclusion) -> Merged:
    """Conclude what waits, once every conflict has a choice."""
    doing = _waiting(here)
    conflicts = here.local.conflicts()
    still_open = [conflict.path.removeprefix(FILES) for conflict in conflicts if conflict.choice is None]
    if still_open:
        raise ConflictError(
            f"{doing['verb']} is still waiting: {len(still_open)} path(s) without a choice:\n  "
            + "\n  ".join(map(plain, still_open[:10])),
            hint="Choose with `memlake merge --ours PATH` or `--theirs PATH`, or edit it and `memlake add` it.",
        )
    author = said.author or here.author
    doing |= {
        "message": said.message or doing.get("message", ""),
        "author": [author.name, author.email],
        "meta": dict(said.meta),
    }
    return _try(here, doing, conflicts)


def abort(here: Here) -> None:
    """Forget what waits. The working files were never touched, so nothing else is to do."""
    doing = _waiting(here)
    with operation(here, f"{doing['verb']} --abort", str(doing["name"])):
        here.local.clear_doing()


def _waiting(here: Here) -> Doing:
    doing = here.local.json_state("doing")
    if doing is None:
        raise Nothing("no merge, revert, cherry-pick or stash is waiting.", hint="Start one with: memlake merge BRANCH")
    return doing  # type: ignore[no-any-return]


def _join_files(history: History, old: Entry | None, ours: Entry, theirs: Entry) -> Entry | None:
    """The merge driver of files: small texts whose edits do not touch are joined line by line."""
    if old is None or max(old.size, ours.size, theirs.size) > 1 << 20:
        return None
    texts = [as_text(history.objects.read(entry.oid)) for entry in (old, ours, theirs)]
    if None in texts:
        return None
    joined = merge_text(*texts)  # type: ignore[arg-type]
    if joined is None:
        return None
    data = joined.encode()
    mode = theirs.mode if ours.mode == old.mode else ours.mode
    return Entry(history.objects.write(data), "file", len(data), mode)


merge.DRIVERS["file"] = _join_files
