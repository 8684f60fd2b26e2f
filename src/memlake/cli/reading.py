"""cat, ls, blame: what a commit holds. Bytes pass through untouched."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import click

from memlake.cli import paths, shapes, words
from memlake.cli.arguments import (
    SplitCommand,
    after_dashes,
    completing,
    is_rev,
    json_option,
    pass_repo,
    split,
    tree_path,
)
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggesting
from memlake.errors import Usage
from memlake.records import Entry, short
from memlake.repo import Repo
from memlake.reports import BlameLine

_PIECE = 1 << 20


# -- cat


@click.command()
@click.argument("given", metavar="PATH | REV:PATH", shell_complete=completing("path"))
@click.argument("rev", required=False, shell_complete=completing("rev"))
@pass_repo
def cat(repo: Repo, _screen: Screen, /, *, given: str, rev: str | None) -> None:
    """Print a file as HEAD, or REV, has it; byte for byte, whatever it holds."""
    if rev is None and ":" in given and not os.path.lexists(given):
        print_file(repo, given, sys.stdout.buffer)
    else:
        copy_file(repo, given, rev or "HEAD", sys.stdout.buffer)


def print_file(repo: Repo, word: str, out: IO[bytes]) -> None:
    """`REV:PATH` to `out`."""
    rev, _, path = word.partition(":")
    copy_file(repo, paths.at_root(repo.root, path), rev or ":", out)


def copy_file(repo: Repo, path: str, rev: str, out: IO[bytes]) -> None:
    sys.stdout.flush()
    with suggesting(repo, rev), repo.open(path, rev) as source:
        shutil.copyfileobj(source, out, _PIECE)
    out.flush()


# -- ls


@click.command(cls=SplitCommand)
@click.argument("given", nargs=-1, metavar="[REV] [PATH]... | REV:PATH", shell_complete=completing("rev", "path"))
@click.option("-l", "--long", "long_form", is_flag=True, help="Size, kind, id and media type too.")
@json_option
@pass_repo
def ls(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], long_form: bool, as_json: bool) -> None:
    """List the paths of HEAD or REV, in this folder or under PATH."""
    rev, roots = _rev_and_roots(repo, given)
    base = paths.here(repo.root)
    found = _entries(repo, rev, roots) if repo.head or rev != "HEAD" else iter(())
    items = dict(found).items() if long_form else found
    media = _media(repo, rev, dict(items)) if long_form else None
    if as_json:
        screen.lines(shapes.stream("entries", (_shape(path, entry, media) for path, entry in items)))
        return
    with screen.pages():
        for path, entry in items:
            name = paths.shown(path, base)
            screen.line(f"{_columns(entry, media.get(path))}  {name}" if media is not None else name)


def _rev_and_roots(repo: Repo, given: Sequence[str]) -> tuple[str, list[str]]:
    """The commit to list, and the tree paths to list under: this folder's when none is named."""
    if len(given) == 1 and ":" in given[0] and not os.path.lexists(given[0]):
        rev, _, path = given[0].partition(":")
        return rev or "HEAD", [repo.path(paths.at_root(repo.root, path))]
    revs, given_paths = split(repo, given)
    if len(revs) > 1:
        raise Usage("ls takes one revision.")
    base = paths.here(repo.root)
    roots = [tree_path(repo, path) for path in given_paths] or [f"{paths.FILES}{base}" if base else ""]
    return revs[0] if revs else "HEAD", roots


def _entries(repo: Repo, rev: str, roots: list[str]) -> Iterator[tuple[str, Entry]]:
    for root in roots:
        for path, entry in repo.ls(rev, root):
            if not root or paths.within(path, root):
                yield path, entry


def _media(repo: Repo, rev: str, entries: Mapping[str, Entry]) -> dict[str, str]:
    """The media type of each file, all in one walk over history."""
    files = {path: entry for path, entry in entries.items() if path.startswith(paths.FILES)}
    return {path: about.media for path, about in repo.abouts(rev, files).items()} if files else {}


def _shape(path: str, entry: Entry, media: Mapping[str, str] | None) -> dict[str, Any]:
    shape = {"path": path, **shapes.plain(entry)}
    return shape if media is None else {**shape, "media": media.get(path)}


def _columns(entry: Entry, media: str | None) -> str:
    kind = f"{entry.kind}{'*' if entry.mode else ''}"
    return f"{short(entry.oid)} {kind:<7} {words.size(entry.size):>10}  {media or '-':<24}"


# -- blame


@click.command(cls=SplitCommand)
@click.argument("given", nargs=-1, metavar="[REV] PATH", shell_complete=completing("rev", "path"))
@json_option
@pass_repo
def blame(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], as_json: bool) -> None:
    """Show which commit wrote each line of a file."""
    rev, path = _rev_and_path(repo, (*given, *(after_dashes() or ())))
    with suggesting(repo, rev):
        lines = repo.blame(path, rev)
    if as_json:
        screen.json({"path": repo.path(path), "lines": [_blame_shape(line) for line in lines]})
        return
    with screen.pages():
        screen.lines(blame_lines(screen, lines))


def _rev_and_path(repo: Repo, given: tuple[str, ...]) -> tuple[str, str]:
    """`PATH`, `REV PATH` as git has it, or `PATH REV`."""
    if len(given) == 1:
        return "HEAD", given[0]
    if len(given) != 2:
        raise Usage("blame takes one path, and at most one revision before it.")
    first, second = given
    return (second, first) if is_rev(repo, second) and not is_rev(repo, first) else (first, second)


def _blame_shape(line: BlameLine) -> dict[str, Any]:
    commit = line.commit
    return {
        "line": line.line,
        "text": line.text,
        "commit": commit.oid,
        "author": commit.author,
        "time": commit.time,
        "date": words.iso(commit.time),
        "subject": commit.subject,
    }


def blame_lines(screen: Screen, lines: list[BlameLine]) -> Iterator[str]:
    """`1a2b3c4d5e (Ada 2026-11-16 07:24:00 +0100 12) text`."""
    who = max((len(line.commit.author.name) for line in lines), default=0)
    digits = len(str(len(lines)))
    for line in lines:
        author = screen.clean(line.commit.author.name).ljust(who)
        head = f"({author} {words.stamp(line.commit.time)} {line.line:>{digits}})"
        yield f"{screen.paint(short(line.commit.oid), 'id')} {head} {screen.clean(line.text.rstrip(chr(10)))}".rstrip()
