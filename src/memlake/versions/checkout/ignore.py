"""Which working files `add` and `status` leave out: `.memlakeignore` files, in gitignore's syntax and meaning.

Knows names of files and nothing of the stage: what is tracked already stays tracked, whatever these rules say.

A walk makes one `Ignore` for the root and asks `enter(name)` for each folder it goes into, `ignores(name, ...)`
for each entry. It never enters an ignored folder, which is why nothing inside one can be re-included.

The patterns are translated here and not by the pathspec package, because importing that costs 40 ms, a third of a whole
`status`, and its answer for one path mixes in the rules for its parents, which a walk has already settled.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from memlake.errors import Unavailable
from memlake.named_tuple import NamedTuple

FILE = ".memlakeignore"
ALWAYS = frozenset((".memlake", ".git"))
BY_DEFAULT = frozenset((".venv", "node_modules", "__pycache__"))
_BUILT_IN = ALWAYS | BY_DEFAULT


class Ignore:
    """The rules in force in one folder of the working files."""

    __slots__ = ("_folder", "_known", "_lists", "_rel")

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._folder = os.fspath(root)
        self._rel = ""
        self._known: dict[str, Ignore] = {}
        self._lists: tuple[tuple[str, _Rules], ...] = ()  # (this folder seen from the list's, list), deepest first
        self._load()

    def enter(self, name: str) -> Ignore:
        """The rules in force in the folder `name` of this one."""
        inner = Ignore.__new__(Ignore)
        inner._folder = f"{self._folder}/{name}"
        inner._rel = f"{self._rel}{name}/"
        inner._known = {}
        inner._lists = tuple((f"{prefix}{name}/", rules) for prefix, rules in self._lists)
        inner._load()
        return inner

    def ignores(self, name: str, is_dir: bool) -> bool:
        """Whether the entry `name` of this folder is left out. A symlink is not a folder, wherever it leads."""
        if name in _BUILT_IN:
            return self._reason(name, is_dir) is not None
        if not self._lists:
            return False
        rule = self._last_match(name, is_dir)
        return rule is not None and not rule.negated

    def why(self, path: str, is_dir: bool) -> str | None:
        """The rule that leaves out `path` (posix, from this folder) or a folder above it, as `file:line: pattern`.

        None if no rule does.
        """
        above, _, name = path.rpartition("/")
        if not above:
            return self._reason(name, is_dir)
        return self.why(above, True) or self._inner(above)._reason(name, is_dir)

    def _inner(self, folder: str) -> Ignore:
        """The rules of a folder named by its path, remembered for the next path in it."""
        if folder not in self._known:
            above, _, name = folder.rpartition("/")
            self._known[folder] = (self._inner(above) if above else self).enter(name)
        return self._known[folder]

    def _load(self) -> None:
        text = _read(f"{self._folder}/{FILE}")
        if not text:
            return
        lines = (line.removesuffix("\r") for line in text.split("\n"))
        parsed = (_parse_rule(line, f"{self._rel}{FILE}:{number}") for number, line in enumerate(lines, 1))
        if rules := tuple(rule for rule in parsed if rule):
            self._lists = (("", _Rules(rules)), *self._lists)

    def _last_match(self, name: str, is_dir: bool) -> _Rule | None:
        for prefix, rules in self._lists:
            rule = rules.last_match(prefix, name, is_dir)
            if rule is not None:
                return rule
        return None

    def _reason(self, name: str, is_dir: bool) -> str | None:
        rule = self._last_match(name, is_dir)
        if name in ALWAYS or (name in BY_DEFAULT and not (rule and rule.takes_back(name))):
            return f"built in: {name}"
        return str(rule) if rule and not rule.negated else None


class NoRules(Ignore):
    """No rules at all, for `add -f`; the repo itself and git's stay out."""

    def __init__(self) -> None:
        pass

    def enter(self, name: str) -> NoRules:  # noqa: ARG002  as a walk asks
        return self

    def ignores(self, name: str, is_dir: bool) -> bool:  # noqa: ARG002
        return name in ALWAYS


class _Rule(NamedTuple):
    """One line of an ignore file. `glob` is a regex for the whole name, or for the path when `anchored`."""

    source: str
    text: str
    glob: str
    negated: bool
    only_dirs: bool
    anchored: bool

    def __str__(self) -> str:
        return f"{self.source}: {self.text}"

    def takes_back(self, name: str) -> bool:
        """Whether this line re-includes `name` by that very name: a sweeping `!*/` does not mean node_modules."""
        return self.negated and self.text.removeprefix("!").rstrip("/ ").rpartition("/")[2] == name

    def regex(self, number: int) -> str:
        # Each name we match starts with a letter that says what it is. A trailing slash on folders would be more
        # natural, but then `a/**/*` would match the folder `a/` itself.
        return f"(?P<r{number}>{'d' if self.only_dirs else '.'}{self.glob})"


class _Rules:
    """The rules of one file; the last that matches decides. Two searches answer for all of them."""

    __slots__ = ("_names", "_paths", "rules")

    def __init__(self, rules: tuple[_Rule, ...]) -> None:
        self.rules = rules
        self._names = _compile_rules(rules, anchored=False)
        self._paths = _compile_rules(rules, anchored=True)

    def last_match(self, prefix: str, name: str, is_dir: bool) -> _Rule | None:
        letter = "d" if is_dir else "f"
        by_name = self._names and self._names.fullmatch(letter + name)
        by_path = self._paths and self._paths.fullmatch(letter + prefix + name)
        number = max(_number(by_name), _number(by_path))
        return self.rules[number] if number >= 0 else None


def _compile_rules(rules: tuple[_Rule, ...], *, anchored: bool) -> re.Pattern[str] | None:
    """One regex whose first alternative is the last rule; the name of the group that matched is the rule's number."""
    numbered = [(i, rule) for i, rule in enumerate(rules) if rule.anchored == anchored]
    return re.compile("|".join(rule.regex(i) for i, rule in reversed(numbered)), re.DOTALL) if numbered else None


def _number(match: re.Match[str] | None) -> int:
    return int(match.lastgroup[1:]) if match and match.lastgroup else -1


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe must not wait for its writer
        with open(fd, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Unavailable(f"{path} is not a file.", hint=f"Remove it: rm {path}")
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""
    except OSError as error:
        # Going on without the rules would add what they keep out, secrets among it.
        raise Unavailable(
            f"{path} cannot be read: {error.strerror}.", hint="Fix its permissions or remove it."
        ) from error


def _parse_rule(line: str, source: str) -> _Rule | None:
    if line.startswith("#"):
        return None
    text = line.rstrip(" ")
    if (len(text) - len(text.rstrip("\\"))) % 2 and len(text) < len(line):
        text += " "  # a backslash protects the first of the trailing spaces
    negated = text.startswith("!")
    pattern = text.removeprefix("!")
    only_dirs = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    if not pattern:
        return None
    anchored = "/" in pattern
    glob = translate_glob(pattern.removeprefix("/"))
    return _Rule(source, text, glob, negated, only_dirs, anchored) if glob is not None else None


# -- globs


_STARS = re.compile(r"\*+")
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\x20\t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r"\x20\t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


def translate_glob(glob: str, *, crossing: bool = False) -> str | None:
    """A pattern as a regex, or None if it is malformed and so matches nothing.

    In an ignore file a wildcard stays within one part of a path; with `crossing` it matches slashes too.
    """
    out: list[str] = []
    at = 0
    while at < len(glob):
        char = glob[at]
        if char == "*":
            piece, at = (".*", _end_of_stars(glob, at)) if crossing else _stars(glob, at)
        elif char == "?":
            piece, at = "." if crossing else "[^/]", at + 1
        elif char == "[":
            bracket = _bracket(glob, at + 1)
            if bracket is None:
                return None
            piece, at = bracket
        elif char == "\\":
            if at + 1 == len(glob):
                return None
            piece, at = re.escape(glob[at + 1]), at + 2
        else:
            piece, at = re.escape(char), at + 1
        out.append(piece)
    return "".join(_commit_stars(out, ".*" if crossing else "[^/]*"))


def _commit_stars(pieces: list[str], star: str) -> Iterator[str]:
    """The same regex, but a star that another one follows takes the first place that fits, for good.

    The later star can take whatever lies between, so no match is lost. Without this the stars of a hostile pattern
    would be tried in every combination.
    """
    after: list[str] | None = None  # what follows the last star
    for piece in pieces:
        if piece == star:
            if after is not None:
                yield f"(?>{star}?{''.join(after)})"
            after = []
        elif star != ".*" and piece in ("/", "(?:.*/)?", ".+"):  # the next star is of another part of the path
            yield from (*([star, *after] if after is not None else ()), piece)
            after = None
        elif after is None:
            yield piece
        else:
            after.append(piece)
    if after is not None:
        yield from (star, *after)


def _stars(glob: str, at: int) -> tuple[str, int]:
    """One run of stars: two or more that fill a whole part of the path cross slashes, others do not."""
    end = _end_of_stars(glob, at)
    fills = end - at > 1 and (at == 0 or glob[at - 1] == "/") and (end == len(glob) or glob[end] == "/")
    if not fills:
        return "[^/]*", end
    return ("(?:.*/)?", end + 1) if end < len(glob) else (".+", end)


def _end_of_stars(glob: str, at: int) -> int:
    run = _STARS.match(glob, at)
    return run.end() if run else at


def _bracket(glob: str, at: int) -> tuple[str, int] | None:
    """The regex for a set whose `[` is at `at` - 1, and where the set ends; None if it is not closed."""
    negated = glob[at : at + 1] in ("!", "^") and at < len(glob)
    at += negated
    members: list[str] = []
    first = True
    while at < len(glob) and (first or glob[at] != "]"):
        first = False
        named = re.compile(r"\[:(\w*):\]").match(glob, at)
        if named:
            if named[1] not in _CLASSES:
                return None
            members.append(_CLASSES[named[1]])
            at = named.end()
            continue
        low, at = _member(glob, at)
        high = low
        if glob[at : at + 1] == "-" and glob[at + 1 : at + 2] not in ("", "]"):
            high, at = _member(glob, at + 1)
        if low <= high:
            members.append(f"{re.escape(low)}-{re.escape(high)}")
    if at >= len(glob):
        return None
    if negated:
        return f"[^/{''.join(members)}]", at + 1
    return f"(?!/)[{''.join(members)}]" if members else "(?!)", at + 1


def _member(glob: str, at: int) -> tuple[str, int]:
    """One character of a set, and where the next begins."""
    if glob[at] == "\\" and at + 1 < len(glob):
        return glob[at + 1], at + 2
    return glob[at], at + 1
