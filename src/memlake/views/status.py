"""The status of a checkout: long and short lines, and its JSON shape. Knows no command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from memlake.named_tuple import NamedTuple
from memlake.records import Conflict, Status, short
from memlake.repo import Repo
from memlake.versions.kinds import kind_at
from memlake.views import changes, paths, words
from memlake.views.style import Style
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.versions.kinds import Sides


_LABELS = {"A": "new file:", "M": "modified:", "D": "deleted:", "R": "renamed:", "T": "typechange:"}
_KINDS = {
    "UU": "both modified", "AA": "both added", "DD": "both deleted", "DU": "deleted by us", "UD": "deleted by them",
    "AU": "added by us", "UA": "added by them",
}  # fmt: skip


def list_untracked(found: Status) -> list[str]:
    """Untracked files and folders (`files/data/`) as tree paths."""
    return [path if path.startswith(paths.FILES) else paths.FILES + path for path in found.untracked]


def status_shape(found: Status) -> dict[str, object]:
    return {
        "branch": found.branch,
        "head": found.head,
        "doing": found.doing,
        "step": found.step,
        "bisecting": found.bisecting,
        "clean": found.clean,
        "behind": found.behind,
        "merged": found.merged,
        "staged": [row.shape() for row in changes.rows(found.staged)],
        "unstaged": [row.shape() for row in changes.rows(found.unstaged)],
        "untracked": list_untracked(found),
        "conflicts": list(found.conflicts),
        "purged": [paths.FILES + path for path in found.purged],
        **({"away": found.away} if found.away else {}),
        **({"ignored": [paths.FILES + path for path in found.ignored]} if found.ignored else {}),
    }


def short_lines(found: Status, style: Style, base: str = "") -> Iterator[str]:
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
        name = f"{_quote_spaces(source, base)} -> {_quote_spaces(path, base)}" if source else _quote_spaces(path, base)
        yield f"{style.paint(x, 'added')}{style.paint(y, 'removed')} {name}"
    for path in list_untracked(found):
        yield f"{style.paint('??', 'removed')} {_quote_spaces(path, base)}"
    for path in found.ignored:
        yield f"{style.paint('!!', 'removed')} {_quote_spaces(paths.FILES + path, base)}"


def _quote_spaces(path: str, base: str) -> str:
    """A path of a short line, in quotes also when it holds a space: ` -> ` must be told from a name."""
    name = paths.display(path, base)
    return f'"{name}"' if " " in name and not name.startswith('"') else name


def long_lines(found: Status, style: Style, base: str = "") -> Iterator[str]:
    """The groups with their hints."""
    yield from _head_lines(found, style)
    yield from _doing_lines(found)
    staged = [(_LABELS[row.status], _name_row(row, base)) for row in changes.rows(found.staged)]
    yield from _group_lines(
        "Changes to be committed:",
        [
            'use "memlake restore --staged <file>..." to unstage'
            if found.head
            else 'use "memlake rm --cached <file>..." to unstage'
        ],
        [style.paint(f"{label:<12}{name}", "added") for label, name in staged],
    )
    yield from _conflict_lines(found, style, base)
    unstaged = [(_LABELS[change.status], paths.display(change.path, base)) for change in found.unstaged]
    yield from _group_lines(
        "Changes not staged for commit:",
        [
            'use "memlake add <file>..." to update what will be committed',
            'use "memlake restore <file>..." to discard changes in the working folder',
        ],
        [style.paint(f"{label:<12}{name}", "removed") for label, name in unstaged],
    )
    yield from _group_lines(
        "Untracked files:",
        ['use "memlake add <file>..." to include in what will be committed'],
        [style.paint(paths.display(path, base), "removed") for path in list_untracked(found)],
    )
    yield from _group_lines(
        "Ignored files:",
        ['use "memlake add -f <file>..." to include in what will be committed'],
        [style.paint(paths.display(paths.FILES + path, base), "removed") for path in found.ignored],
    )
    yield from _group_lines(
        "Purged, so not in the working folder:",
        ['use "memlake rm <file>..." to drop from the next commit'],
        [paths.display(paths.FILES + path, base) for path in found.purged],
    )
    if found.away:
        yield f"{words.count(found.away, 'file')} {'is' if found.away == 1 else 'are'} not here but at a remote."
        yield '  (use "memlake restore <file>..." to bring them)'
    yield from _end_lines(found)


def _head_lines(found: Status, style: Style) -> Iterator[str]:
    if found.branch is not None:
        yield f"On branch {style.clean(found.branch)}"
    else:
        yield f"{style.paint('HEAD detached at', 'removed')} {short(found.head)}"
    if found.behind:
        yield f"The branch has {words.count(found.behind, 'newer commit')} than these files."
        yield '  (use "memlake switch <branch>" to bring the files up to date)'
    if found.head is None:
        yield from ("", "No commits yet")


def _doing_lines(found: Status) -> Iterator[str]:
    if found.bisecting:
        yield from ("", "You are looking for a commit with bisect.")
        yield '  (use "memlake bisect good" or "memlake bisect bad" to say what this one is)'
        yield '  (use "memlake bisect reset" to go back to where you were)'
    if found.doing is None:
        return
    open_paths = sum(conflict.choice is None for conflict in found.conflicts)
    at = f", {words.clean(found.step)}" if found.step else ""
    yield ""
    if open_paths:
        yield f"You have a {found.doing} in progress with {words.count(open_paths, 'conflict')}{at}."
    else:
        choice = "; every conflict has a choice" if found.conflicts else ""
        yield f"You have a {found.doing} in progress{choice}{at}."
        yield f'  (use "memlake {found.doing} --continue" to finish it)'
    if found.doing == "rebase":
        yield '  (use "memlake rebase --skip" to leave this commit out)'
    yield f'  (use "memlake {found.doing} --abort" to give it up)'
    if found.merged:
        yield f"{words.count(found.merged, 'path')} beside files merged cleanly; --continue takes what they bring, too."


def _conflict_lines(found: Status, style: Style, base: str) -> Iterator[str]:
    lines = []
    for conflict in found.conflicts:
        name = _conflict_name(conflict.path, base)
        if conflict.choice is None:
            lines.append(style.paint(f"{conflict_kind(conflict):<17}{name}", "removed"))
        else:
            lines.append(style.paint(f"{'chosen ' + conflict.choice + ':':<17}{name}", "added"))
    hints = [
        'edit the file and use "memlake add <file>" to mark it resolved',
        'use "memlake merge --ours <path>" or "--theirs <path>" to take one side whole',
        'use "memlake conflicts" to see each place, and "memlake resolve <path> --ours" or "--theirs" to settle it',
    ]
    hints += dict.fromkeys(advice for one in found.conflicts if (advice := kind_at(one.path).to_list))
    yield from _group_lines("Conflicts:", hints, lines)


def _conflict_name(path: str, base: str) -> str:
    kind = kind_at(path)
    label = kind.label(path)
    return paths.display(path, base) if label == path else f"{kind.nouns[0]} {label}"


def conflict_kind(conflict: Conflict) -> str:
    """Who did what to the path."""
    return f"{_KINDS[conflict.status]}:"


def _name_row(row: changes.Row, base: str) -> str:
    name = paths.display(row.path, base)
    return f"{paths.display(row.source, base)} -> {name}" if row.source else name


def _group_lines(title: str, hints: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from ("", title)
        yield from (f"  ({hint})" for hint in hints)
        yield from (f"\t{line}" for line in lines)


def _end_lines(found: Status) -> Iterator[str]:
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


# -- conflicts


_LONG = 300
MANY = 50  # paths named in full; a stat of more would read more than a person does
_REASONS = {
    "DU": " (deleted by us, changed by them; the file holds their side; we may have renamed it)",
    "UD": " (changed by us, deleted by them; the file holds our side; they may have renamed it)",
    "AU": " (added by us, where they have a folder of a file's name or a file of a folder's)",
    "UA": " (added by them, where we have a folder of a file's name or a file of a folder's)",
}


class Inside(NamedTuple):
    """What the working file of a conflict was given: both sides between markers, or ours at so many places."""

    marked: bool = False
    places: int = 0
    why: str = ""  # it is decided as a whole


def look_inside(repo: Repo, conflicts: Sequence[Conflict]) -> dict[str, Inside]:
    """What was written into the files of the first conflicts, where both sides have the file."""
    found = {}
    for met in conflicts[:MANY]:
        if met.path.startswith(paths.FILES) and met.ours and met.theirs:
            marked = met.written not in (None, met.ours) and repo.pending_merge.text(met.path) is not None
            inner = () if marked else repo.pending_merge.places(met.path)
            number = sum(bool(one.place) and one.choice is None for one in inner)
            found[met.path] = Inside(marked, number, "".join(words.clean(one.why) for one in inner))
    return found


def _describe(met: Conflict, inside: Inside | None) -> str:
    if inside is None or met.status not in ("UU", "AA") or inside.marked:
        return _REASONS.get(met.status, "")
    if inside.places:
        return f" ({words.count(inside.places, 'place')} inside; the file holds our side there, and all else of both)"
    return f" ({inside.why or 'not text of a size that can be joined'}; the file holds our side)"


def list_conflicts(repo: Repo, conflicts: Sequence[Conflict], inside: Mapping[str, Inside] | None = None) -> str:
    """The paths, on one line when they are few; of memories and state, what both sides say."""
    known = [(one, repo.pending_merge.sides(one)) for one in conflicts[:MANY]]
    told = [line for _, both in known if both is not None for line in side_lines(both)]
    rest = [one for one, both in known if both is None] + list(conflicts[MANY:])
    inside = look_inside(repo, rest) if inside is None else inside
    return "\n".join((*told, *([_list_paths(rest, inside)] if rest else [])))


def side_lines(both: Sides) -> Iterator[str]:
    """Both sides of a memory or state value under its name."""
    yield f"  {clean(both.name)}"
    for title, text in (("ours:", both.ours), ("theirs:", both.theirs)):
        said = "(forgotten)" if text is None else clean(" ".join(text.split()))
        yield f"    {title:<8}{said if len(said) <= _LONG else said[: _LONG - 1] + '…'}"


def _list_paths(conflicts: Sequence[Conflict], inside: Mapping[str, Inside]) -> str:
    said = [_describe(one, inside.get(one.path)) for one in conflicts[:MANY]]
    names = [paths.display(one.path) + why for one, why in zip(conflicts, said, strict=False)]
    if len(conflicts) > MANY:
        names.append(f"and {len(conflicts) - MANY:,} more; see `memlake status`")
    line = "   ".join(names)
    return f"  {line}" if not any(said) and len(line) < 100 else "\n".join(f"  {name}" for name in names)
