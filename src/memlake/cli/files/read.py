"""cat, ls, blame: what a commit holds. Bytes pass through untouched."""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import IO, Any

import click

from memlake.cli.arguments import (
    SplitCommand,
    after_dashes,
    completing,
    is_rev,
    is_whole_kind,
    json_option,
    pass_repo,
    split,
)
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggesting
from memlake.errors import Error, InvalidInput, NotFound, Usage, pasted
from memlake.records import Entry
from memlake.repo import Repo, read_abouts
from memlake.reports import BlameLine
from memlake.versions.kinds import kind_at
from memlake.versions.text.lines import find_text
from memlake.views import json_shapes, paths, words
from memlake.views.files import blame_lines, blame_shape, entry_columns

_PIECE = 1 << 20
_HELD = 64 << 20  # bytes of an object that is read and checked whole before any of it is written
_OID = re.compile(r"[0-9a-f]{64}")
_SIDE = re.compile(r":([0-3]):")


# -- cat


@click.command()
@click.argument("given", metavar="PATH | REV:PATH | ID", shell_complete=completing("path"))
@click.argument("rev", required=False, shell_complete=completing("rev"))
@json_option
@pass_repo
def cat(repo: Repo, screen: Screen, /, *, given: str, rev: str | None, as_json: bool) -> None:
    """Print a file as HEAD, or REV, has it; byte for byte, whatever it holds.

    Of a dataset version, what its record says is printed, a fact a line; --json has the record itself.

    Of a path in conflict, :1:PATH is the base, :2:PATH ours, :3:PATH theirs.

    ID is the whole id of an object, as `ls -l` and `rescue` list it; a path of that name comes first.
    """
    if rev is None and not as_json and _is_object(repo, given):
        copy_object(repo, given, sys.stdout.buffer)
        return
    named = rev is None and ":" in given and not os.path.lexists(given)
    path, at = file_at(repo, given) if named else (given, rev or "HEAD")
    if as_json:
        screen.json(file_shape(repo, path, at))
    else:
        copy_file(repo, path, at, sys.stdout.buffer)


def _is_object(repo: Repo, word: str) -> bool:
    if not _OID.fullmatch(word):
        return False
    try:
        repo.entry(word)
    except NotFound:
        return True
    return False


def file_at(repo: Repo, word: str) -> tuple[str, str]:
    """The path and the rev of `REV:PATH`; `:PATH` is the stage's, `:1:PATH` to `:3:PATH` a conflict's sides."""
    side = _SIDE.match(word)
    rev, _, path = (f":{side[1]}", "", word[3:]) if side else word.partition(":")
    return paths.at_root(repo.root, path), ":" if rev in ("", ":0") else rev


def print_file(repo: Repo, word: str, out: IO[bytes]) -> None:
    """`REV:PATH` to `out`."""
    copy_file(repo, *file_at(repo, word), out)


def file_shape(repo: Repo, path: str, rev: str) -> dict[str, Any]:
    """A file with its content: as text when it is UTF-8, else in base64; `encoding` says which."""
    with suggesting(repo, rev):
        entry = repo.entry(path, rev)
    data = repo.objects.read(entry.oid)
    text = find_text(data)
    content = base64.b64encode(data).decode() if text is None else text
    return {
        "path": repo.path(path),
        **json_shapes.plain(entry),
        "media": repo.about(path, rev).media,
        "encoding": "base64" if text is None else "utf-8",
        "content": content,
    }


def copy_file(repo: Repo, path: str, rev: str, out: IO[bytes]) -> None:
    sys.stdout.flush()
    with suggesting(repo, rev):
        entry = repo.entry(path, rev)
    if text := kind_at(repo.path(path)).text:
        _write_all(out, text(repo.objects.read(entry.oid)))
        out.flush()
    else:
        copy_object(repo, entry.oid, out)


def copy_object(repo: Repo, oid: str, out: IO[bytes]) -> None:
    """An object to `out`: checked whole before its first byte, unless it is too large to be held."""
    with repo.objects.open(oid) as source:
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        if size <= _HELD:
            _write_all(out, repo.objects.read(oid))
        else:
            _stream(source, out)
    out.flush()


def _write_all(out: IO[bytes], data: bytes) -> None:
    """Under PYTHONUNBUFFERED a write into a pipe may take only a part, and say how much."""
    left = memoryview(data)
    while left:
        left = left[out.write(left) :]


def _stream(source: IO[bytes], out: IO[bytes]) -> None:
    written = 0
    try:
        while piece := source.read(_PIECE):
            _write_all(out, piece)
            written += len(piece)
    except Error as error:
        if not written:
            raise
        out.flush()
        cause = error.message.removesuffix(" It was not served.").removesuffix(" Nothing was written.")
        raise type(error)(f"{cause} The first {written} bytes were written.", hint=error.hint) from error


# -- ls


@click.command(cls=SplitCommand)
@click.argument("given", nargs=-1, metavar="[REV] [PATH]... | REV:PATH", shell_complete=completing("rev", "path"))
@click.option("-l", "--long", "long_form", is_flag=True, help="Size, kind, id and media type too.")
@json_option
@pass_repo
def ls(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], long_form: bool, as_json: bool) -> None:
    """List the paths of HEAD or REV, in this folder or under PATH."""
    base = paths.here(repo.root)
    rev, found = _found(repo, given, base)
    items = dict(found).items() if long_form else found
    media = _media(repo, rev, dict(items)) if long_form else None
    if as_json:
        screen.lines(json_shapes.stream("entries", (_shape(path, entry, media) for path, entry in items)))
        return
    with screen.pages():
        if media is None:
            screen.lines(paths.shown(path, base) for path, _ in items)
        else:
            said = {path: media.get(path) or _holds(repo, path, entry) or "-" for path, entry in items}
            width = max(map(len, said.values()), default=0)
            screen.lines(
                f"{entry_columns(entry)}  {said[path]:<{width}}  {paths.shown(path, base)}" for path, entry in items
            )


def _found(repo: Repo, given: Sequence[str], base: str) -> tuple[str, Iterator[tuple[str, Entry]]]:
    """The commit to list, and what it has at the paths named; in this folder when none is."""
    if len(given) == 1 and ":" in given[0] and not os.path.lexists(given[0]):
        return _found_at(repo, *given[0].split(":", 1))
    revs, given_paths = split(repo, given)
    if len(revs) > 1:
        raise Usage("ls takes one revision.")
    rev = revs[0] if revs else "HEAD"
    if rev == "HEAD" and not repo.head and not any(map(paths.is_kind, given_paths)):
        return rev, iter(())
    if given_paths:
        return rev, _under(repo, rev, given_paths)
    return rev, repo.ls(rev, f"{paths.FILES}{base}/" if base else "")


def _found_at(repo: Repo, rev: str, path: str) -> tuple[str, Iterator[tuple[str, Entry]]]:
    """`REV:PATH`, which must be there."""
    rev = rev or "HEAD"
    found = iter(repo.ls(rev, paths=[paths.at_root(repo.root, path)]) if path else repo.ls(rev))
    with suggesting(repo, rev):
        first = next(found, None)
    if first is None and path:
        raise NotFound(
            f"path '{path}' does not exist in '{rev}'.", hint=f"See what is there with: memlake ls {pasted(rev)}"
        )
    return rev, chain([first] if first else [], found)


def _under(repo: Repo, rev: str, words_: Sequence[str]) -> Iterator[tuple[str, Entry]]:
    """A kind's name alone (`memories`) is all of that kind; anything else a path or pattern."""
    kinds = [word.rstrip("/") for word in words_ if is_whole_kind(word)]
    for kind in kinds:
        yield from repo.ls(rev, f"{kind}/")
    if rest := [word for word in words_ if not is_whole_kind(word)]:
        yield from repo.ls(rev, paths=rest)


def _media(repo: Repo, rev: str, entries: Mapping[str, Entry]) -> dict[str, str]:
    """The media type of each file, all in one walk over history."""
    files = {path: entry for path, entry in entries.items() if path.startswith(paths.FILES)}
    return {path: about.media for path, about in read_abouts(repo, rev, files).items()} if files else {}


def _holds(repo: Repo, path: str, entry: Entry) -> str | None:
    brief = kind_at(path).brief
    return brief(repo.objects.read(entry.oid)) if brief else None


def _shape(path: str, entry: Entry, media: Mapping[str, str] | None) -> dict[str, Any]:
    shape = {"path": path, **json_shapes.plain(entry)}
    return shape if media is None else {**shape, "media": media.get(path)}


# -- blame


@click.command(cls=SplitCommand)
@click.argument("given", nargs=-1, metavar="[REV] PATH", shell_complete=completing("rev", "path"))
@click.option("-L", "span", metavar="FROM,TO", help="Only these lines: 3,7 or 3,+5 or 3, or ,7.")
@json_option
@pass_repo
def blame(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], span: str | None, as_json: bool) -> None:
    """Show which commit wrote each line of a file."""
    rev, path = _rev_and_path(repo, (*given, *(after_dashes() or ())))
    with suggesting(repo, rev):
        lines = repo.blame(path, rev)
    lines = lines if span is None else _spanned(lines, span, path)
    if as_json:
        screen.json({"path": repo.path(path), "lines": [blame_shape(line) for line in lines]})
        return
    with screen.pages():
        screen.lines(blame_lines(screen, lines))


def _spanned(lines: list[BlameLine], span: str, path: str) -> list[BlameLine]:
    """The lines of `-L`, counted from 1, both ends with them."""
    asked = re.fullmatch(r"(\d*)(?:,(\+?)(\d*))?", span)
    if not asked or not span.strip(","):
        raise Usage(f"'{span}' is not a range of lines.", hint="Write -L 3,7 or -L 3,+5.")
    start = int(asked[1] or 1)
    end = int(asked[3]) if asked[3] else len(lines)
    if asked[2]:
        end += start - 1
    if not 0 < start <= len(lines):
        raise InvalidInput(f"file '{path}' has only {words.count(len(lines), 'line')}.")
    return lines[start - 1 : end]


def _rev_and_path(repo: Repo, given: tuple[str, ...]) -> tuple[str, str]:
    """`PATH`, `REV PATH` as git has it, or `PATH REV`."""
    if len(given) == 1:
        return "HEAD", given[0]
    if len(given) != 2:
        raise Usage("blame takes one path, and at most one revision before it.")
    first, second = given
    return (second, first) if is_rev(repo, second) and not is_rev(repo, first) else (first, second)
