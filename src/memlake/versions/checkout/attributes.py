"""What `.memlakeattributes` says of files: which columns are the key of a table, how a path is merged and compared.

A line is a pattern, then names and values: `data/*.csv key=id,lang merge=union`. Patterns mean what they mean in
`.memlakeignore`; a value with spaces stands in double quotes. Of the lines that match a path the last one that names
an attribute decides, and a file in a folder decides over those above it. `key=` takes back what an earlier line said.
Knows no table, no merge and no diff: whoever reads an attribute knows what it means.

The files come with every clone, so they are hostile data: they are read up to a bound and never make a verb fail.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from memlake.named_tuple import NamedTuple
from memlake.records import Entry
from memlake.versions.checkout.ignore import translate_glob
from memlake.versions.history.commits import History
from memlake.versions.paths import FILES
from memlake.versions.trees import codec, tree

FILE = ".memlakeattributes"
STRATEGIES = ("ours", "theirs", "union", "latest", "lines")
_VALUES = {"merge": STRATEGIES, "diff": ("text",), "key": ()}  # the names, and what each may be; of a key anything
_MOST_BYTES, _MOST_LINES, _LONGEST, _MOST_CROSSING = 1 << 18, 1000, 4096, 3
_TOLD = 10  # problems of one file that are told
_WORD = re.compile(r'(?:"(?:[^"\\]|\\.)*"|\\.|[^\s"\\])+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')

Read = Callable[[str], bytes | None]  # the bytes of a file by its path below the root, or None


class _Rule(NamedTuple):
    """One line: which paths it is about, and what it says of them; an empty value takes back what was said."""

    pattern: re.Pattern[str]
    anchored: bool
    values: Mapping[str, str]


class Attributes:
    """What all the files of this name say. One is read when a path in its folder is first asked for."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._rules: dict[str, tuple[_Rule, ...]] = {}
        self.problems: list[str] = []

    def find(self, path: str) -> Mapping[str, str]:
        """What is said of a file, by its path below the root: {"key": "id,lang", "merge": "union"}."""
        parts = path.removeprefix(FILES).split("/")
        found: dict[str, str] = {}
        for depth in range(len(parts)):
            folder = "".join(f"{part}/" for part in parts[:depth])
            rest = "/".join(parts[depth:])
            for rule in self._list_rules(folder):
                if rule.pattern.fullmatch(rest if rule.anchored else parts[-1]):
                    found.update(rule.values)
        return {name: value for name, value in found.items() if value}

    def find_key(self, path: str) -> tuple[str, ...]:
        """The columns that tell apart the rows of a table, as they are declared."""
        return tuple(filter(None, (name.strip() for name in self.find(path).get("key", "").split(","))))

    def _list_rules(self, folder: str) -> tuple[_Rule, ...]:
        if folder not in self._rules:
            data = self._read(folder + FILE)
            problems: list[str] = []
            self._rules[folder] = tuple(_parse(data, folder + FILE, problems)) if data else ()
            for problem in problems[:_TOLD]:
                warnings.warn(problem, stacklevel=1)  # one place for all, so that each is told once
            self.problems += problems
        return self._rules[folder]


def read_attributes(history: History, root: bytes) -> Attributes:
    """As the tree of a commit has them."""

    def read(path: str) -> bytes | None:
        key = (FILES + path).encode()
        value = tree.get(history.nodes.get_many, root, [key]).get(key)
        entry: Entry | None = codec.decode_entry(value) if value is not None else None
        if entry is None or entry.kind != "file":
            return None
        with history.objects.open(entry.oid) as stream:
            return stream.read(_MOST_BYTES + 1)

    return Attributes(read)


def read_working_attributes(root: Path) -> Attributes:
    """As the working folder has them."""

    def read(path: str) -> bytes | None:
        try:
            fd = os.open(root / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)  # a pipe would wait
            try:
                return os.read(fd, _MOST_BYTES + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else None
            finally:
                os.close(fd)
        except OSError:
            return None

    return Attributes(read)


def _parse(data: bytes, source: str, problems: list[str]) -> Iterator[_Rule]:
    """The lines that can be used; of the others, what is wrong and what to do."""
    if len(data) > _MOST_BYTES:
        problems.append(f"{source} is longer than {_MOST_BYTES:,} bytes, so memlake ignores it. Shorten it.")
        return
    lines = data.decode("utf-8-sig", errors="replace").split("\n")
    if len(lines) > _MOST_LINES:
        problems.append(f"{source} has more than {_MOST_LINES:,} lines, so memlake ignores the others. Shorten it.")
    for number, line in enumerate(lines[:_MOST_LINES], 1):
        if not (line := line.strip()) or line.startswith("#"):
            continue
        said: list[str] = []
        rule = _parse_line(line, said)
        problems += [f"{source}, line {number}: {one}" for one in said]
        if rule is not None:
            yield rule


def _parse_line(line: str, problems: list[str]) -> _Rule | None:
    words = _WORD.findall(line) if len(line) <= _LONGEST else []
    if not words or "".join(words) != re.sub(r'("(?:[^"\\]|\\.)*"|\\.)|\s', lambda found: found[1] or "", line):
        problems.append("memlake cannot read it, so it ignores the line. Write it as: PATTERN key=COLUMN,COLUMN")
        return None
    text, *settings = words
    pattern = _unquote(text)
    glob = translate_glob(pattern.removeprefix("/")) if pattern.count("**") <= _MOST_CROSSING else None
    if glob is None or pattern.endswith("/") or pattern.startswith("!"):
        problems.append(f"{text!r} is not a pattern of files, so memlake ignores the line. Write it like: data/*.csv")
        return None
    values: dict[str, str] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        value = _unquote(value)
        allowed = _VALUES.get(name)
        if allowed is None:
            problems.append(f"{name!r} is not an attribute, so memlake ignores it. Known are {', '.join(_VALUES)}.")
        elif value and allowed and value not in allowed:
            better = " or ".join(f"{name}={one}" for one in allowed)
            problems.append(f"{name}={value} is not known, so memlake ignores it. Write {better}.")
        else:
            values[name] = value
    return _Rule(re.compile(glob, re.DOTALL), "/" in pattern, values)


def _unquote(word: str) -> str:
    """A word without its double quotes; outside of them a backslash stays, because it means something in a pattern."""
    return _QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[1]), word)
