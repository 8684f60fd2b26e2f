"""Scripts as stages: skipped if nothing changed, and run over a grid of params, each combination on its own branch."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memlake.cli.history.commit import parse_value
from memlake.cli.screen import Screen
from memlake.errors import AlreadyExists, Conflict, InvalidInput, Nothing, Usage
from memlake.records import short
from memlake.repo import Repo
from memlake.repo.stages import Seen, Stage, find_change, note_run
from memlake.views import words

Run = Callable[..., tuple[int, Seen, list[dict[str, Any]]]]
_MOST = 10_000  # combinations


def expand_grid(grid: Sequence[str]) -> list[dict[str, str]]:
    """Every combination of the values of `NAME=V1,V2`, the last name changing fastest; one without a grid."""
    axes: dict[str, list[str]] = {}
    for one in grid:
        name, sign, values = one.partition("=")
        axes[name] = [value.strip() for value in values.split(",") if value.strip()]
        if not name or not sign or not axes[name]:
            raise Usage(
                f"--grid takes NAME=V1,V2, not {words.clean(one)!r}. Nothing was run.",
                hint="For example: --grid lr=0.1,0.01",
            )
    rows = list(itertools.islice(itertools.product(*axes.values()), _MOST + 1))
    if len(rows) > _MOST:
        raise Usage(f"the grid has more than {_MOST:,} combinations. Nothing was run.")
    return [dict(zip(axes, row, strict=True)) for row in rows]


class Runner:
    """Runs stages of a repo one after the other."""

    def __init__(self, repo: Repo, screen: Screen, run: Run, *, if_changed: bool) -> None:
        self._repo, self._screen, self._run, self._if_changed = repo, screen, run, if_changed
        self.wrote: list[str] = []
        self.metrics: dict[str, Any] = {}

    def run(self, stages: Sequence[Stage]) -> int:
        """Run these stages until one fails; returns its exit code."""
        self.wrote, self.metrics = [], {}
        for stage in stages:
            name = words.clean(stage.script)
            why = find_change(self._repo, stage) if self._if_changed else None
            if self._if_changed and why is None:
                self._screen.note(f"skipped {name}: nothing that it read or wrote has changed")
                continue
            if self._if_changed:
                self._screen.note(f"running {name}: {words.clean(str(why))}")
            since = time.time_ns()
            code, seen, lines = self._run(self._screen, stage, watch=True)
            if code:
                return code
            if edited := note_run(self._repo, stage, seen, since):
                self._screen.note(f"{words.clean(edited)} changed while {name} ran, so it will run again next time")
            self.wrote += seen.wrote
            self.metrics |= {one["metric"]: one["value"] for one in lines if "metric" in one}
        return 0

    # -- a branch for each combination ------------------------------------------------------------

    def run_on_branches(
        self, rows: Sequence[Sequence[Stage]], combinations: Sequence[Mapping[str, str]], pattern: str
    ) -> int:
        """Run each combination on a branch that begins here; at the end we are back. The first that failed is told."""
        repo, names = self._repo, _name_branches(combinations, pattern)
        state = repo.status()
        if repo.head is None or state.staged or state.unstaged or state.doing:
            raise Conflict(
                "each combination begins with the files of the last commit, and there is work that is not committed. "
                "Nothing was run.",
                hint="Commit it: memlake commit -a -m MESSAGE\nOr put it aside: memlake stash",
            )
        if state.untracked:  # what the first one writes to would go into its commit, and be gone for the others
            raise Conflict(
                f"each combination begins with the files of the last commit, and {_name_some(state.untracked)} not "
                "tracked. Nothing was run.",
                hint="Put it aside: memlake stash -u\nOr commit it: memlake add -A && memlake commit -m MESSAGE\n"
                "Or list it in .memlakeignore, and commit that.",
            )
        known = {branch.name for branch in repo.branches()}
        if taken := [name for name in names if name in known]:
            raise AlreadyExists(
                f"branch {taken[0]!r} exists already. Nothing was run.",
                hint="Choose another pattern, or remove the old branches.",
            )
        start, failed = repo.branch_name, 0
        begin = repo.head
        for name, stages in zip(names, rows, strict=True):
            repo.switch(name, create=True, at=begin)
            code = self._run_combination(name, stages)
            failed = failed or code
            repo.switch(start or begin, detach=start is None)
            if code:
                repo.delete_branch(name, force=True)
            if code >= 128:  # it was interrupted, and so are we
                break
        return failed

    def _run_combination(self, name: str, stages: Sequence[Stage]) -> int:
        """Run and commit one combination; what a failed one left in tracked files is thrown away, for undo to find."""
        repo, told = self._repo, ", ".join(f"{key}={value}" for key, value in stages[0].params.items())
        self._screen.note(f"on {words.clean(name)}: {words.clean(told)}")
        code = self.run(stages)
        if code:
            self._screen.note(f"failed with {code}; {words.clean(name)} was not kept")
            repo.reset("HEAD", "hard")
            return code
        inside = f"{repo.root}/"
        repo.add(update=True)
        for path in self.wrote:
            if path.startswith(inside):
                try:
                    repo.add(path)
                except InvalidInput:  # ignored, or not a file that can be kept
                    continue
        params = {key: parse_value(value) for key, value in stages[0].params.items()}
        message = f"run {' '.join(stage.script for stage in stages)}\n\n{told}".strip()
        try:
            made = repo.commit(message, allow_empty=True, metrics=self.metrics, params=params)
        except Nothing:
            return 0
        self._screen.line(f"{words.clean(name)} {short(made.oid)} {told}".rstrip())
        return 0


def _name_some(paths: Sequence[str]) -> str:
    first = words.clean(paths[0])
    return f"{first} is" if len(paths) == 1 else f"{first} and {words.count(len(paths) - 1, 'other')} are"


def _name_branches(combinations: Sequence[Mapping[str, str]], pattern: str) -> list[str]:
    names = []
    for number, one in enumerate(combinations, 1):
        name = pattern
        for key, value in {**one, "n": str(number)}.items():
            name = name.replace(f"{{{key}}}", value)
        names.append(name)
    if len(set(names)) < len(names):
        raise Usage(
            f"--branch {words.clean(pattern)!r} gives two combinations one name. Nothing was run.",
            hint="Put {n} into it, the number of the combination: --branch 'hp/{n}'",
        )
    return names
