"""One commit as text: the named formats, a format of one's own with git's placeholders, names, details."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from memlake.errors import Usage
from memlake.named_tuple import NamedTuple
from memlake.records import Commit, Move, short
from memlake.repo import Repo
from memlake.views import changes, patches, paths, stats, words
from memlake.views.style import Style

FORMATS = ("oneline", "short", "medium", "full")
FORMAT_HELP = "oneline, short, medium, full, or text with %H %h %an %ae %ad %ar %s %b %P %T %D %d %n %%."
DATE_HELP = "default, iso, iso-strict, relative, short, unix, or format:%Y-%m-%d."
_MARK = re.compile(r"%(x[0-9a-fA-F]{2}|C\([^)]*\)|C(?:red|green|blue|reset)|[ac][neditrIs]|g[dsn]|[HhTtPpsbBnDdN%])")
_NAMED = 5  # files that a run made
_COLORS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36", "bold": "1"}


class Look(NamedTuple):
    """How commits are shown. `merges`: whether merges show their changes too (against their first parent).

    `only`: the paths, as typed, whose changes are shown; all of them when there is none.
    """

    oneline: bool = False
    graph: bool = False
    detail: patches.Detail = patches.Detail(form="")
    decorate: bool = False
    merges: bool = False
    form: str = "medium"
    date: str = "default"
    only: tuple[str, ...] = ()

    @property
    def dense(self) -> bool:
        """Whether commits follow each other without an empty line."""
        return self.oneline or self.form == "oneline" or self.form not in FORMATS

    @property
    def decorated(self) -> bool:
        return self.decorate or (self.form not in FORMATS and bool({"%d", "%D"} & set(re.findall("%[dD]", self.form))))


class Beside(NamedTuple):
    """What stands beside a commit: names that are at it, and the move of a reflog it was found by."""

    names: Sequence[str] = ()
    move: Move | None = None


def read_form(text: str | None) -> str:
    """`--format`: a name, or placeholders; `format:` and `tformat:` before them may be left out."""
    if text is None:
        return "medium"
    if text in FORMATS or not text:  # an empty one shows the changes alone
        return text
    body = re.sub(r"^t?format:", "", text)
    if body == text and "%" not in text:
        raise Usage(f"there is no format '{text}'.", hint=f"Formats are {', '.join(FORMATS)}, or text with %H, %s ...")
    return body


def date_style(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if value not in words.STYLES and not value.startswith("format:"):
        raise Usage(f"there is no style of dates '{value}'.", hint=f"Styles are {', '.join(words.STYLES)}, format:...")
    return value


# -- one commit


def commit_lines(repo: Repo, style: Style, commit: Commit, look: Look, beside: Beside) -> Iterator[str]:
    """One commit's text: its head, its message, and the detail asked for."""
    if not look.form:
        pass
    elif look.form not in FORMATS:
        yield from fill_format(style, commit, look, beside).split("\n")
    elif look.oneline or look.form == "oneline":
        name = short(commit.oid) if look.oneline else commit.oid
        told = f"{_at(beside.move)}: {beside.move.action}" if beside.move else commit.subject
        yield f"{style.paint(name, 'id')}{_paint_names(style, beside.names)} {style.clean(told)}"
    else:
        yield from _head_lines(repo, style, commit, look, beside)
        yield ""
        message = commit.subject if look.form == "short" else commit.message
        yield from (f"    {style.clean(line)}".rstrip() for line in message.split("\n"))
    yield from _detail_lines(repo, style, commit, look)


def _head_lines(repo: Repo, style: Style, commit: Commit, look: Look, beside: Beside) -> Iterator[str]:
    yield f"{style.paint(f'commit {commit.oid}', 'id')}{_paint_names(style, beside.names)}"
    if beside.move:
        yield f"Reflog: {_at(beside.move)} ({style.clean(beside.move.who)})"
        yield f"Reflog message: {style.clean(beside.move.action)}"
    if len(commit.parents) > 1:
        yield f"Merge: {' '.join(short(parent) for parent in commit.parents)}"
    yield f"Author: {style.clean(str(commit.author))}"
    if look.form == "full":
        yield f"Commit: {style.clean(str(commit.author))}"
    if look.form == "medium":
        yield f"Date:   {words.format_time(commit.time, look.date)}"
        yield from _fact_lines(repo, style, commit)


def _at(move: Move) -> str:
    return f"{move.ref}@{{{move.number}}}"


def _fact_lines(repo: Repo, style: Style, commit: Commit) -> Iterator[str]:
    """What the commit says beside its content: `--metric`, `--param`, `--uses`, and what `memlake run` made of it."""
    shown = repo.show(commit)
    for name, facts in (("Metrics", shown.metrics), ("Params", shown.params)):
        if facts:
            yield style.clean(f"{name}: {'  '.join(f'{key}={_plain(value)}' for key, value in facts.items())}")
    for use in shown.uses:
        yield style.clean(f"Uses:   {paths.display(use['path'])}@{short(use['commit'] or commit.oid)}")
    for run in shown.runs:
        made, more = [paths.display(one["path"]) for one in run["wrote"]], ""
        if len(made) > _NAMED:
            made, more = made[:_NAMED], f" and {len(made) - _NAMED} more"
        yield style.clean(f"Made:   {', '.join(made)}{more} by {paths.display(run['program']['path'])}")


def _plain(value: object) -> object:
    """A fact as JSON, as it was given; a text without its quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _detail_lines(repo: Repo, style: Style, commit: Commit, look: Look) -> Iterator[str]:
    rows = _rows(repo, commit, look)
    if rows and not look.oneline and look.form:
        yield ""
    yield from stats.detail_lines(_open_view(repo, style, commit, look), rows, look.detail)


def _open_view(repo: Repo, style: Style, commit: Commit, look: Look) -> patches.View:
    sides = commit.parents[0] if commit.parents else "", commit.oid
    return patches.open_view(repo, style, look.detail._replace(sides=sides))


def _rows(repo: Repo, commit: Commit, look: Look) -> list[changes.Row]:
    """The changes of a commit, where they are wanted."""
    if not look.detail.form or (len(commit.parents) > 1 and not look.merges):
        return []
    return changes.rows(repo.show(commit, paths=look.only).changes)


def detail_items(repo: Repo, style: Style, commit: Commit, look: Look) -> Iterator[str]:
    """For -z: the text of the commit as one item, unless it is empty, and then its changes."""
    head = "\n".join(commit_lines(repo, style, commit, look._replace(detail=patches.Detail(form="")), Beside()))
    view = _open_view(repo, style, commit, look)
    items = list(stats.detail_lines(view, _rows(repo, commit, look), look.detail))
    yield from [head] if head else []
    if items:
        yield from (f"\n{items[0]}" if head else items[0], *items[1:])


def change_shapes(repo: Repo, style: Style, commit: Commit, look: Look) -> list[dict[str, Any]]:
    """The changes of a commit for programs, each path by itself: names, counts of lines, or what differs inside."""
    view = _open_view(repo, style, commit, look)
    listed = repo.show(commit, paths=look.only).changes
    return [stats.row_shape(view, changes.Row(one.status, *one), look.detail) for one in listed]


# -- a format of one's own


def fill_format(style: Style, commit: Commit, look: Look, beside: Beside) -> str:
    """The format with its placeholders replaced; one that is unknown stays, as git leaves it."""
    values = _values(commit, look, beside)

    def fill(mark: re.Match[str]) -> str:
        name = mark[1]
        if name.startswith("x"):
            return chr(int(name[1:], 16))
        if name.startswith("C"):
            return _color(name[1:].strip("()")) if style.color else ""
        return style.clean(values[name]()) if name in values else mark[0]

    return _MARK.sub(fill, look.form)


def _values(commit: Commit, look: Look, beside: Beside) -> Mapping[str, Callable[[], str]]:
    names, move = ", ".join(beside.names), beside.move
    body = commit.message.partition("\n")[2].strip("\n")
    found: dict[str, Callable[[], str]] = {
        "H": lambda: commit.oid,
        "h": lambda: short(commit.oid),
        "T": lambda: commit.root,
        "t": lambda: short(commit.root),
        "P": lambda: " ".join(commit.parents),
        "p": lambda: " ".join(map(short, commit.parents)),
        "s": lambda: commit.subject,
        "b": lambda: f"{body}\n" if body else "",
        "B": lambda: f"{commit.message}\n",
        "D": lambda: names,
        "d": lambda: f" ({names})" if names else "",
        "n": lambda: "\n",
        "%": lambda: "%",
        "gd": lambda: _at(move) if move else "",
        "gs": lambda: move.action if move else "",
        "gn": lambda: move.who if move else "",
    }
    return found | _people(commit, look)


def _people(commit: Commit, look: Look) -> dict[str, Callable[[], str]]:
    """Who and when. A commit has one author and one time, so `%cn` and its kin say the same as `%an`."""
    styles = {"d": look.date, "r": "relative", "I": "iso-strict", "i": "iso", "s": "short", "t": "unix"}
    found: dict[str, Callable[[], str]] = {}
    for who in "ac":
        found[f"{who}n"] = lambda: commit.author.name
        found[f"{who}e"] = lambda: commit.author.email
        for letter, style in styles.items():
            found[who + letter] = lambda style=style: words.format_time(commit.time, style)  # type: ignore[misc]
    return found


def _color(name: str) -> str:
    codes = [_COLORS[word] for word in name.replace(",", " ").split() if word in _COLORS]
    return f"\x1b[{';'.join(codes)}m" if codes else "\x1b[0m"


# -- names


def decorations(repo: Repo) -> dict[str, list[str]]:
    """The names that stand at each commit: `HEAD -> main`, `dev`, `tag: v1`."""
    found: dict[str, list[str]] = {}
    if repo.head and repo.branches.current is None:
        found.setdefault(repo.head, []).append("HEAD")
    for branch in sorted(repo.branches, key=lambda branch: (not branch.current, branch.name)):
        for oid in {branch.work, branch.memory} - {None}:
            found.setdefault(str(oid), []).append(f"HEAD -> {branch.name}" if branch.current else branch.name)
    for tag in repo.tags:
        for oid in {tag.work, tag.memory} - {None}:
            found.setdefault(str(oid), []).append(f"tag: {tag.name}")
    return found


def _paint_names(style: Style, names: Iterable[str]) -> str:
    painted = [_paint_name(style, style.clean(name)) for name in names]
    return f" {style.paint('(', 'id')}{', '.join(painted)}{style.paint(')', 'id')}" if painted else ""


def _paint_name(style: Style, name: str) -> str:
    return style.paint(name, "tag" if name.startswith("tag: ") else "here" if name.startswith("HEAD") else "branch")
