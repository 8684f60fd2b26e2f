"""status: how stage and working files differ from HEAD, for a person, a script or a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from memlake.cli import changes, paths, words
from memlake.cli.arguments import SplitCommand, after_dashes, completing, json_option, pass_repo
from memlake.cli.screen import Screen
from memlake.records import Conflict, Status, short
from memlake.repo import Repo

_LABELS = {"A": "new file:", "M": "modified:", "D": "deleted:", "R": "renamed:", "T": "typechange:"}
_MEMORIES = "memories/"
_KINDS = {
    "UU": "both modified", "AA": "both added", "DD": "both deleted", "DU": "deleted by us", "UD": "deleted by them",
    "AU": "added by us", "UA": "added by them",
}  # fmt: skip


@click.command(cls=SplitCommand)
@click.argument("given", nargs=-1, metavar="[--] [PATH]...", shell_complete=completing("path"))
@click.option("-s", "--short", "brief", is_flag=True, help="One line a path.")
@click.option("-b", "--branch", "with_branch", is_flag=True, help="With --short: the branch too.")
@click.option("--porcelain", is_flag=True, help="As --short, stable for scripts: no colour, paths from the root.")
@click.option("--ignored", is_flag=True, help="What .memlakeignore leaves out, too.")
@json_option
@pass_repo
def status(
    repo: Repo,
    screen: Screen,
    /,
    *,
    given: tuple[str, ...],
    brief: bool,
    with_branch: bool,
    porcelain: bool,
    **how: bool,
) -> None:
    """Show what is staged, changed and untracked, in all or at PATHs."""
    found = repo.status(*given, *(after_dashes() or ()), ignored=how["ignored"])
    if how["as_json"]:
        screen.json(shape(found))
        return
    if porcelain:
        screen = Screen()
    base = "" if porcelain else paths.here(repo.root)
    if brief or porcelain:
        if with_branch:
            screen.line(f"## {found.branch or 'HEAD (no branch)'}")
        screen.lines(short_lines(found, screen, base))
    else:
        screen.lines(long_lines(found, screen, base))


def untracked(found: Status) -> list[str]:
    """Untracked files and folders (`files/data/`) as tree paths."""
    return [path if path.startswith(paths.FILES) else paths.FILES + path for path in found.untracked]


def shape(found: Status) -> dict[str, object]:
    return {
        "branch": found.branch,
        "head": found.head,
        "doing": found.doing,
        "clean": found.clean,
        "behind": found.behind,
        "merged": found.merged,
        "staged": [row.shape() for row in changes.rows(found.staged)],
        "unstaged": [row.shape() for row in changes.rows(found.unstaged)],
        "untracked": untracked(found),
        "conflicts": list(found.conflicts),
        "purged": [paths.FILES + path for path in found.purged],
        **({"ignored": [paths.FILES + path for path in found.ignored]} if found.ignored else {}),
    }


def short_lines(found: Status, screen: Screen, base: str = "") -> Iterator[str]:
    """`XY path`: X is the stage against HEAD, Y the working file against the stage."""
    marks: dict[str, tuple[str, str]] = {row.path: (row.status, " ") for row in changes.rows(found.staged)}
    sources = {row.path: row.source for row in changes.rows(found.staged)}
    for change in found.unstaged:
        marks[change.path] = (marks.get(change.path, (" ", ""))[0], change.status)
    for conflict in found.conflicts:
        if conflict.choice is None:
            marks[conflict.path] = (conflict.status[0], conflict.status[1])
    for path in sorted(marks):
        x, y = marks[path]
        source = sources.get(path)
        name = f"{_spaced(source, base)} -> {_spaced(path, base)}" if source else _spaced(path, base)
        yield f"{screen.paint(x, 'added')}{screen.paint(y, 'removed')} {name}"
    for path in untracked(found):
        yield f"{screen.paint('??', 'removed')} {_spaced(path, base)}"
    for path in found.ignored:
        yield f"{screen.paint('!!', 'removed')} {_spaced(paths.FILES + path, base)}"


def _spaced(path: str, base: str) -> str:
    """A path of a short line, in quotes also when it holds a space: ` -> ` must be told from a name."""
    name = paths.shown(path, base)
    return f'"{name}"' if " " in name and not name.startswith('"') else name


def long_lines(found: Status, screen: Screen, base: str = "") -> Iterator[str]:
    """The groups with their hints."""
    yield from _head_lines(found, screen)
    yield from _doing_lines(found)
    staged = [(_LABELS[row.status], _row_name(row, base)) for row in changes.rows(found.staged)]
    yield from _group(
        "Changes to be committed:",
        [
            'use "memlake restore --staged <file>..." to unstage'
            if found.head
            else 'use "memlake rm --cached <file>..." to unstage'
        ],
        [screen.paint(f"{label:<12}{name}", "added") for label, name in staged],
    )
    yield from _conflict_lines(found, screen, base)
    unstaged = [(_LABELS[change.status], paths.shown(change.path, base)) for change in found.unstaged]
    yield from _group(
        "Changes not staged for commit:",
        [
            'use "memlake add <file>..." to update what will be committed',
            'use "memlake restore <file>..." to discard changes in the working folder',
        ],
        [screen.paint(f"{label:<12}{name}", "removed") for label, name in unstaged],
    )
    yield from _group(
        "Untracked files:",
        ['use "memlake add <file>..." to include in what will be committed'],
        [screen.paint(paths.shown(path, base), "removed") for path in untracked(found)],
    )
    yield from _group(
        "Ignored files:",
        ['use "memlake add -f <file>..." to include in what will be committed'],
        [screen.paint(paths.shown(paths.FILES + path, base), "removed") for path in found.ignored],
    )
    yield from _group(
        "Purged, so not in the working folder:",
        ['use "memlake rm <file>..." to drop from the next commit'],
        [paths.shown(paths.FILES + path, base) for path in found.purged],
    )
    yield from _last_line(found)


def _head_lines(found: Status, screen: Screen) -> Iterator[str]:
    if found.branch is not None:
        yield f"On branch {screen.clean(found.branch)}"
    else:
        yield f"{screen.paint('HEAD detached at', 'removed')} {short(found.head)}"
    if found.behind:
        yield f"The branch has {words.count(found.behind, 'newer commit')} than these files."
        yield '  (use "memlake switch <branch>" to bring the files up to date)'
    if found.head is None:
        yield from ("", "No commits yet")


def _doing_lines(found: Status) -> Iterator[str]:
    if found.doing is None:
        return
    open_paths = sum(conflict.choice is None for conflict in found.conflicts)
    yield ""
    if open_paths:
        yield f"You have a {found.doing} in progress with {words.count(open_paths, 'conflict')}."
    else:
        yield f"You have a {found.doing} in progress; every conflict has a choice."
        yield f'  (use "memlake {found.doing} --continue" to finish it)'
    yield f'  (use "memlake {found.doing} --abort" to give it up)'
    if found.merged:
        yield f"{words.count(found.merged, 'path')} beside files merged cleanly; --continue takes what they bring, too."


def _conflict_lines(found: Status, screen: Screen, base: str) -> Iterator[str]:
    lines = []
    for conflict in found.conflicts:
        name = _conflict_name(conflict.path, base)
        if conflict.choice is None:
            lines.append(screen.paint(f"{conflict_kind(conflict):<17}{name}", "removed"))
        else:
            lines.append(screen.paint(f"{'chosen ' + conflict.choice + ':':<17}{name}", "added"))
    hints = [
        'edit the file and use "memlake add <file>" to mark it resolved',
        'use "memlake merge --ours <path>" or "--theirs <path>" to take one side whole',
    ]
    if any(conflict.path.startswith(_MEMORIES) for conflict in found.conflicts):
        hints.append('use "memlake memory conflicts" to see what both sides of a memory say')
    yield from _group("Conflicts:", hints, lines)


def _conflict_name(path: str, base: str) -> str:
    return f"memory {path.rsplit('/', 1)[1]}" if path.startswith(_MEMORIES) else paths.shown(path, base)


def conflict_kind(conflict: Conflict) -> str:
    """Who did what to the path."""
    return f"{_KINDS[conflict.status]}:"


def _row_name(row: changes.Row, base: str) -> str:
    name = paths.shown(row.path, base)
    return f"{paths.shown(row.source, base)} -> {name}" if row.source else name


def _group(title: str, hints: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from ("", title)
        yield from (f"  ({hint})" for hint in hints)
        yield from (f"\t{line}" for line in lines)


def _last_line(found: Status) -> Iterator[str]:
    if found.staged or found.conflicts or found.doing:
        return
    if found.unstaged:
        yield from ("", 'no changes added to commit (use "memlake add" and/or "memlake commit -a")')
    elif found.untracked:
        yield from ("", 'nothing added to commit but untracked files present (use "memlake add" to track)')
    elif found.head is None:
        yield from ("", 'nothing to commit (make files and use "memlake add" to track them)')
    else:
        yield "nothing to commit, working tree clean"
