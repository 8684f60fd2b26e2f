"""Scripts as stages: skipped if nothing changed, and run over a grid of params, each combination on its own branch."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memlake.cli.history.commit import parse_value
from memlake.cli.screen import Screen
from memlake.dataset import feedback
from memlake.errors import AlreadyExists, Conflict, Error, InvalidInput, Nothing, Usage
from memlake.records import short
from memlake.repo import Repo
from memlake.repo.stages import Seen, Stage, find_change, join_operations, list_asked, note_run
from memlake.views import words

Run = Callable[[Screen, Stage, bool], tuple[int, Seen]]  # whether to watch it; its exit code and what it touched
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
    """Runs stages one after the other. Without a repo, what they touch is not noted."""

    def __init__(self, repo: Repo | None, screen: Screen, run: Run, *, if_changed: bool) -> None:
        self._repo, self._screen, self._run, self._if_changed = repo, screen, run, if_changed
        self.wrote: list[str] = []
        self.metrics: dict[str, Any] = {}

    def run(self, stages: Sequence[Stage]) -> int:
        """Run these stages until one fails; returns its exit code."""
        self.wrote, self.metrics = [], {}
        asked: list[str] = []
        offered: dict[str, Sequence[str]] = {}
        for number, stage in enumerate(stages, 1):
            repo, name = self._repo, words.clean(stage.script)
            if self._if_changed and repo is not None:
                why = find_change(repo, stage, stages[number:])
                if why is None:
                    self._screen.note(f"skipped {name}: nothing that it read or wrote has changed")
                    asked += list_asked(repo, stage)
                    continue
                self._screen.note(f"running {name}: {words.clean(why)}")
            since = time.time_ns()
            code, seen = self._run(self._screen, stage, repo is not None)
            if code:
                return code
            if repo is not None:
                self._note(repo, stage, seen, since)
            self.wrote += seen.wrote
            self.metrics |= seen.metrics
            asked += seen.asked
            offered |= seen.offered
        for line in _warn_unused(stages[0], list(dict.fromkeys(asked)), offered):
            self._screen.note(words.clean(line))
        return 0

    def _note(self, repo: Repo, stage: Stage, seen: Seen, since: int) -> None:
        """Keep what a run touched; that it cannot be kept is no reason to fail what ran well."""
        name = words.clean(stage.script)
        try:
            edited = note_run(repo, stage, seen, since, whole=self._if_changed)
        except Error as error:
            self._screen.note(f"what {name} read is not recorded: {words.clean(str(error))}")
            return
        if edited:
            then = "it will run again next time" if self._if_changed else "what it read is not recorded"
            self._screen.note(f"{words.clean(edited)} changed while {name} ran, so {then}")

    # -- a branch for each combination ------------------------------------------------------------

    def run_on_branches(
        self, rows: Sequence[Sequence[Stage]], combinations: Sequence[Mapping[str, str]], pattern: str
    ) -> int:
        """Run each combination on a branch that begins here; at the end we are back. The first that failed is told.

        One `undo` takes all of it back.
        """
        repo, names = self._repo, _name_branches(combinations, pattern)
        assert repo is not None
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
        known = {branch.name for branch in repo.branches}
        if taken := [name for name in names if name in known]:
            raise AlreadyExists(
                f"branch {taken[0]!r} exists already. Nothing was run.",
                hint="Choose another pattern, or remove the old branches.",
            )
        start, begin, failed = repo.branches.current, repo.head, 0
        with join_operations(repo, "run", f"--branch {pattern}") as kept:
            for name, stages in zip(names, rows, strict=True):
                repo.switch(name, create=True, at=begin)
                code = self._run_combination(name, stages)
                failed = failed or code
                repo.switch(start or begin, detach=start is None)
                if code:
                    repo.branches.delete(name, force=True)
                else:
                    kept.append(name)
                if code >= 128:  # it was interrupted, and so are we
                    break
        return failed

    def _run_combination(self, name: str, stages: Sequence[Stage]) -> int:
        """Run and commit one combination; what a failed one left in tracked files is thrown away, for undo to find."""
        repo, told = self._repo, ", ".join(f"{key}={value}" for key, value in stages[0].params.items())
        assert repo is not None
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


def _warn_unused(stage: Stage, asked: Sequence[str], offered: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Warnings about params that no script asked for, because most of them are misspelled."""
    for name in feedback.find_unused(stage.params, asked):
        near = feedback.find_nearest(name, asked)
        yield f"warning: the script never asked for param {name}, so it had no effect." + (
            f" Did you mean {near}?" if near else ""
        )
    for path, names in offered.items():
        yield from feedback.warn_unused(path, names, asked)
    if stage.params_file and not asked:
        yield f"warning: the script never asked for a param, so {stage.params_file} had no effect."


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
