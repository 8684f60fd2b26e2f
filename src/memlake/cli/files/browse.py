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

from memlake.cli.arguments import JSON, SplitCommand, after_dashes, complete_with, is_rev, is_whole_kind, split, verb
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggest_revs
from memlake.errors import Error, InvalidInput, NotFound, Usage, pasted
from memlake.records import Entry, short
from memlake.repo import Repo, read_about, read_abouts, tree_path
from memlake.reports import BlameLine
from memlake.versions.kinds import kind_at
from memlake.versions.text.lines import find_text
from memlake.views import json_shapes, paths, words
from memlake.views.changes import blame_lines, blame_shape

_PIECE = 1 << 20
_HELD = 64 << 20  # bytes of an object that is read and checked whole before any of it is written
_OID = re.compile(r"[0-9a-f]{64}")
_SIDE = re.compile(r":([0-3]):")


# -- cat


@verb(shared=[JSON])
@click.argument("given", metavar="PATH | REV:PATH | ID", shell_complete=complete_with("path"))
@click.argument("rev", required=False, shell_complete=complete_with("rev"))
def cat(repo: Repo, screen: Screen, /, *, given: str, rev: str | None) -> None:
    """Print a file as HEAD or REV has it, byte for byte.

    For a dataset version, the facts of its record are printed, one a line; --json prints the record itself.

    For a path in conflict, :1:PATH is the base, :2:PATH is our side and :3:PATH is theirs.

    ID is the full id of an object, as `ls --json` and `rescue` list it. A path with that name comes first.
    """
    if rev is None and not screen.as_json and _is_object(repo, given):
        copy_object(repo, given, sys.stdout.buffer)
        return
    with_rev = rev is None and ":" in given and not os.path.lexists(given)
    path, at = file_at(repo, given) if with_rev else (given, rev or "HEAD")
    if screen.as_json:
        screen.json(file_shape(repo, path, at))
    else:
        copy_file(repo, path, at, sys.stdout.buffer)


def _is_object(repo: Repo, word: str) -> bool:
    if not _OID.fullmatch(word):
        return False
    try:
        repo.objects.at(word)
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
    with suggest_revs(repo, rev):
        entry = repo.objects.at(path, rev)
    data = repo.objects.read(entry.oid)
    text = find_text(data)
    content = base64.b64encode(data).decode() if text is None else text
    return {
        "path": tree_path(repo, path),
        **json_shapes.plain(entry),
        "media": read_about(repo, path, rev).media,
        "encoding": "base64" if text is None else "utf-8",
        "content": content,
    }


def copy_file(repo: Repo, path: str, rev: str, out: IO[bytes]) -> None:
    sys.stdout.flush()
    with suggest_revs(repo, rev):
        entry = repo.objects.at(path, rev)
    if text := kind_at(tree_path(repo, path)).text:
        _write_all(out, text(repo.objects.read(entry.oid)))
        out.flush()
    else:
        copy_object(repo, entry.oid, out)


def copy_object(repo: Repo, oid: str, out: IO[bytes]) -> None:
    """Writes an object to `out`. All of it is checked before the first byte, unless it is too large to be held."""
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


@verb(cls=SplitCommand, shared=[JSON])
@click.argument("given", nargs=-1, metavar="[REV] [PATH]... | REV:PATH", shell_complete=complete_with("rev", "path"))
@click.option("-l", "--long", "long_form", is_flag=True, help="Also show id, kind, size and media type.")
def ls(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], long_form: bool) -> None:
    """List the paths of HEAD or REV, in this folder or under PATH."""
    base = paths.here(repo.root)
    rev, listed = _list_entries(repo, given, base)
    items = dict(listed).items() if long_form else listed
    media = _media(repo, rev, dict(items)) if long_form else None
    if screen.as_json:
        screen.lines(json_shapes.stream("entries", (_shape(path, entry, media) for path, entry in items)))
        return
    with screen.pages():
        if media is None:
            screen.lines(paths.display(path, base) for path, _ in items)
        else:
            about = {path: media.get(path) or _brief(repo, path, entry) or "-" for path, entry in items}
            width = max(map(len, about.values()), default=0)
            for path, entry in items:
                kind = f"{entry.kind}{'*' if entry.mode else ''}"
                columns = f"{short(entry.oid)} {kind:<7} {words.size(entry.size):>10}"
                screen.line(f"{columns}  {about[path]:<{width}}  {paths.display(path, base)}")


def _list_entries(repo: Repo, given: Sequence[str], base: str) -> tuple[str, Iterator[tuple[str, Entry]]]:
    """The commit to list, and what it has at the paths that were named, or in this folder."""
    if len(given) == 1 and ":" in given[0] and not os.path.lexists(given[0]):
        return _list_at(repo, *given[0].split(":", 1))
    revs, given_paths = split(repo, given)
    if len(revs) > 1:
        raise Usage("ls takes one revision.")
    rev = revs[0] if revs else "HEAD"
    if rev == "HEAD" and not repo.head and not any(map(paths.is_kind, given_paths)):
        return rev, iter(())
    if given_paths:
        return rev, _under(repo, rev, given_paths)
    return rev, repo.ls(rev, f"{paths.FILES}{base}/" if base else "")


def _list_at(repo: Repo, rev: str, path: str) -> tuple[str, Iterator[tuple[str, Entry]]]:
    """`REV:PATH`, which must be there."""
    rev = rev or "HEAD"
    entries = iter(repo.ls(rev, paths=[paths.at_root(repo.root, path)]) if path else repo.ls(rev))
    with suggest_revs(repo, rev):
        first = next(entries, None)
    if first is None and path:
        raise NotFound(
            f"path '{path}' does not exist in '{rev}'.", hint=f"See what is there with: memlake ls {pasted(rev)}"
        )
    return rev, chain([first] if first else [], entries)


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


def _brief(repo: Repo, path: str, entry: Entry) -> str | None:
    brief = kind_at(path).brief
    return brief(repo.objects.read(entry.oid)) if brief else None


def _shape(path: str, entry: Entry, media: Mapping[str, str] | None) -> dict[str, Any]:
    shape = {"path": path, **json_shapes.plain(entry)}
    return shape if media is None else {**shape, "media": media.get(path)}


# -- blame


@verb(cls=SplitCommand, shared=[JSON])
@click.argument("given", nargs=-1, metavar="[REV] PATH", shell_complete=complete_with("rev", "path"))
@click.option("-L", "span", metavar="FROM,TO", help="Only these lines: 3,7 or 3,+5 or 3, or ,7.")
def blame(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], span: str | None) -> None:
    """Show which commit wrote each line of a file."""
    rev, path = _rev_and_path(repo, (*given, *(after_dashes() or ())))
    with suggest_revs(repo, rev):
        lines = repo.blame(path, rev)
    lines = lines if span is None else _select_lines(lines, span, path)
    body = {"path": tree_path(repo, path), "lines": [blame_shape(line) for line in lines]}
    screen.show(body, blame_lines(screen, lines))


def _select_lines(lines: list[BlameLine], span: str, path: str) -> list[BlameLine]:
    """The lines of `-L`, counted from 1, including both ends."""
    match = re.fullmatch(r"(\d*)(?:,(\+?)(\d*))?", span)
    if not match or not span.strip(","):
        raise Usage(f"'{span}' is not a range of lines.", hint="Write -L 3,7 or -L 3,+5.")
    start = int(match[1] or 1)
    end = int(match[3]) if match[3] else len(lines)
    if match[2]:
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
