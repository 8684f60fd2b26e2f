"""A merge, revert, cherry-pick, rebase or stash under way, and its form in local.db while it waits for choices.

A stranger may have written local.db, so what is read is checked here, field by field. Nobody else sees the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from memlake.named_tuple import NamedTuple
from memlake.records import Author
from memlake.versions.text.merge3 import Names

MERGE, REVERT, CHERRY_PICK, STASH, REBASE = "merge", "revert", "cherry-pick", "stash apply", "rebase"
STEPS = ("pick", "reword", "edit", "squash", "fixup", "drop")


class Step(NamedTuple):
    """What a rebase does with one commit; `text` is its subject, or with `reword` what it becomes."""

    command: str  # one of STEPS
    commit: str
    text: str = ""


class Rebasing(NamedTuple):
    """A rebase under way: where everything was before it, where it goes, and what is left to do."""

    name: str  # of what it goes onto, as it was typed
    head: str  # what HEAD said before it, and the commit that the files reflected
    base: str | None
    branch: str | None  # the branch that moves in the end, None for a detached HEAD; and where it was
    tip: str
    onto: str
    todo: tuple[Step, ...]  # the first is the one that waits
    since: int  # the last operation before it
    rewritten: Mapping[str, str] = MappingProxyType({})  # old commit -> new one
    dropped: tuple[str, ...] = ()  # commits that left nothing to repeat, or were to be dropped

    @property
    def commits(self) -> set[str]:
        return {self.tip, self.onto, *(step.commit for step in self.todo), *self.rewritten.values()}


STRATEGIES = ("ours", "theirs", "union", "latest", "mean")


class Pending(NamedTuple):
    """What was asked for, and how far it is. What a field says only of some verbs is empty for the others."""

    verb: str  # one of the five above
    name: str  # of what comes, as it was typed
    names: Names  # of both sides, for markers
    said: str = ""  # the verb with its options, where it has some
    message: str = ""  # of the commit it ends in
    theirs: str | None = None  # merge: the commits that come, one a lane
    theirs_memory: str | None = None
    ff: bool = False  # merge: a lane may be fast-forwarded
    target: str | None = None  # all others: the commit whose changes come,
    parent: str | None = None  # and the one they are counted from
    commit: bool = True  # False: it ends in the stage or the files
    with_stage: bool = False  # stash: what was staged then is staged again; "index" in local.db
    lost: tuple[str, ...] = ()  # stash: tree paths it cannot give back, because their content was purged
    facts: Mapping[str, Any] = MappingProxyType({})
    author: Author | None = None  # of the commit, where another was named
    merged: int = 0  # records that need no choice; the stage shows the files
    held: Mapping[str, bool] = MappingProxyType({})  # files that held already what they become: True; or were gone
    rebase: Rebasing | None = None
    reasons: Mapping[str, str] = MappingProxyType({})  # merge: by path, why a choice was made for it or was not
    strategy: str = ""  # the side to take wherever both changed the same, one of STRATEGIES
    squash: bool = False  # merge: one commit with one parent, and the memory lane stays
    drop: str | None = None  # stash: the ref to delete at the end. Never kept: one that has to wait stays

    @property
    def title(self) -> str:
        """The verb as the list of operations names it."""
        return self.said or self.verb

    @property
    def is_stash(self) -> bool:
        return self.verb == STASH


def encode(pending: Pending) -> str:
    """Its fields by name, without those that say nothing."""
    needed, usual = _NEEDED[pending.verb], Pending._field_defaults
    under_way = pending.rebase and pending.rebase._replace(rewritten=dict(pending.rebase.rewritten))
    plain = pending._replace(facts=dict(pending.facts), held=dict(pending.held), rebase=under_way)
    fields = plain._replace(reasons=dict(pending.reasons), drop=None)._asdict()
    data = {name: value for name, value in fields.items() if name not in usual or value != usual[name]}
    if data.pop("with_stage", False):
        data["index"] = True
    return json.dumps({name: fields.get(name, False) for name in needed} | data)


def decode(text: str) -> Pending:
    """What `encode` wrote; ValueError, TypeError or KeyError of anything else."""
    data = json.loads(text)
    if data["verb"] not in _NEEDED:
        raise ValueError(f"nothing called {data['verb']!r:.50} can wait")
    if lacking := [name for name in _NEEDED[data["verb"]] if name not in data]:
        raise ValueError(f"it has no {lacking[0]!r}")
    fields = {name: value for name, value in data.items() if name in _FORMS}
    for name, value in fields.items():
        if not _FORMS[name](value):
            raise ValueError(f"its {name!r} is {value!r:.50}")
    if fields.get("rebase") is not None:
        rest = Rebasing(*fields["rebase"])
        todo = tuple(Step(*step) for step in rest.todo)
        fields["rebase"] = rest._replace(todo=todo, dropped=tuple(rest.dropped))
    if "author" in fields:
        fields["author"] = Author(*fields["author"])
    fields |= {"names": Names(*fields["names"]), "lost": tuple(fields.get("lost", ()))}
    fields["with_stage"] = fields.pop("index", False)
    return Pending(data["verb"], **fields)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_oid(value: object) -> bool:
    return value is None or (isinstance(value, str) and len(value) == 64 and not value.strip("0123456789abcdef"))


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_rebase(value: Any) -> bool:
    """As `Rebasing` is written; more fields or fewer are an error where it is made of them."""
    name, head, base, branch, tip, onto, todo, since, rewritten, dropped = value
    return (
        all(map(_is_text, (name, head)))
        and (branch is None or _is_text(branch))
        and _is_oid(base)
        and all(oid is not None and _is_oid(oid) for oid in (tip, onto, *rewritten, *rewritten.values(), *dropped))
        and isinstance(since, int)
        and bool(todo)
        and all(_are_texts(step) and len(step) == 3 and step[0] in STEPS and _is_oid(step[1]) for step in todo)
    )


_FORMS: dict[str, Callable[[Any], bool]] = {
    "name": _is_text, "said": _is_text, "message": _is_text,
    "theirs": _is_oid, "theirs_memory": _is_oid, "target": _is_oid, "parent": _is_oid,
    "ff": _is_flag, "commit": _is_flag, "index": _is_flag, "squash": _is_flag,
    "strategy": lambda value: value in STRATEGIES,
    "names": lambda value: len(value) == 3 and _are_texts(value[:2]) and _is_flag(value[2]),
    "lost": _are_texts,
    "facts": lambda value: all(isinstance(value.get(name, {}), dict) for name in ("metrics", "params")),
    "author": lambda value: _are_texts(value) and len(value) == 2,
    "merged": lambda value: isinstance(value, int),
    "rebase": lambda value: value is None or _is_rebase(value),
    "reasons": lambda value: isinstance(value, dict) and _are_texts([*value.values()]),
    "held": lambda value: isinstance(value, dict) and all(map(_is_flag, value.values())),
}  # fmt: skip
_PICKED = ("name", "names", "target", "parent", "commit", "said")
_NEEDED = {
    MERGE: ("name", "names", "theirs", "theirs_memory", "ff", "message"),
    REVERT: _PICKED, CHERRY_PICK: _PICKED, STASH: (*_PICKED, "index"), REBASE: (*_PICKED, "rebase"),
}  # fmt: skip
