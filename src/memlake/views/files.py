"""Files as `blame` and `ls -l` list them. Knows no command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memlake.records import Entry, short
from memlake.reports import BlameLine
from memlake.views import words
from memlake.views.style import Style

if TYPE_CHECKING:
    pass


def blame_shape(line: BlameLine) -> dict[str, Any]:
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


def blame_lines(style: Style, lines: list[BlameLine]) -> Iterator[str]:
    """`1a2b3c4d5e (Ada 2026-11-16 07:24:00 +0100 12) text`."""
    who = max((len(line.commit.author.name) for line in lines), default=0)
    digits = len(str(max((line.line for line in lines), default=0)))
    for line in lines:
        author = style.clean(line.commit.author.name).ljust(who)
        head = f"({author} {words.stamp(line.commit.time)} {line.line:>{digits}})"
        yield f"{style.paint(short(line.commit.oid), 'id')} {head} {style.clean(line.text.rstrip(chr(10)))}".rstrip()


def entry_columns(entry: Entry) -> str:
    kind = f"{entry.kind}{'*' if entry.mode else ''}"
    return f"{short(entry.oid)} {kind:<7} {words.size(entry.size):>10}"
