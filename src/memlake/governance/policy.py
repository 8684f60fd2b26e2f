"""Policy files: rules about merges and promotions, read from the tree of the branch that they protect.

`policy/merge.toml` and `policy/promote.toml` are plain files of the work lane, so they are edited, reviewed, merged and
blamed as all files are. A file that cannot be understood refuses what it was to judge: a rule that is silently skipped
would protect nothing. Knows what a rule says, not what it is applied to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memlake.errors import InvalidInput, pasted
from memlake.named_tuple import NamedTuple
from memlake.records import Commit
from memlake.versions import conditions
from memlake.versions.checkout.ignore import translate_glob
from memlake.versions.conditions import Condition, Fact
from memlake.versions.history.commits import History
from memlake.versions.paths import plain, tree_path

VERBS = ("merge", "promote")
_KEYS = ("id", "on", "branches", "paths", "require", "prefer", "margin", "message")
_MOST_BYTES, _MOST_RULES, _MOST_STARS, _LONGEST = 1 << 18, 1000, 4, 1000
_HEAD = re.compile(r"^\s*\[\[\s*rule\s*\]\]")


class Preference(NamedTuple):
    """Which of two sides is better: the larger or the lower value of a fact, by more than the margin."""

    fact: Fact
    margin: float = 0.0
    lower: bool = False


class Rule(NamedTuple):
    """One rule. Without `branches` or `paths` it is about all of them."""

    id: str
    source: str  # the file it stands in
    branches: tuple[re.Pattern[str], ...] = ()
    paths: tuple[re.Pattern[str], ...] = ()
    require: Condition | None = None
    prefer: Preference | None = None
    message: str = ""

    def is_about_branch(self, name: str | None) -> bool:
        return not self.branches or (name is not None and any(one.fullmatch(name) for one in self.branches))

    def is_about_path(self, path: str) -> bool:
        return not self.paths or any(one.fullmatch(plain(path)) for one in self.paths)


def parse_preference(text: str, *, margin: float = 0.0, lower: bool = False) -> Preference:
    """`metrics.accuracy`, or `-metrics.loss` where the lower value is better."""
    if not (margin >= 0 and margin < float("inf")):
        raise InvalidInput(f"a margin is a number of 0 or more, not {margin}. Nothing was changed.")
    name = text.strip()
    fact = conditions.parse_fact(name.removeprefix("-"))
    return Preference(fact, margin, lower or name.startswith("-"))


def read_rules(history: History, commit: Commit | None, verb: str, branch: str | None) -> tuple[Rule, ...]:
    """The rules that a branch has for a verb; none if it has no such file."""
    name = f"policy/{verb}.toml"
    entry = history.entries(commit, [tree_path(name)]).get(tree_path(name))
    if entry is None:
        return ()
    file = _File(name, verb, f"{branch}:{name}" if branch else name)
    if entry.kind != "file" or entry.size > _MOST_BYTES:
        raise file.refuse(0, f"it is not a file of at most {_MOST_BYTES >> 10} KiB")
    rules = file.parse(history.objects.read(entry.oid))
    return tuple(rule for rule in rules if rule.is_about_branch(branch))


class _File:
    """One policy file as it is read."""

    def __init__(self, name: str, verb: str, place: str) -> None:
        self.name, self.verb, self.place, self.text = name, verb, place, ""

    def parse(self, data: bytes) -> list[Rule]:
        import tomllib  # most branches have no such file

        try:
            self.text = data.decode()
            table = tomllib.loads(self.text)
        except (ValueError, RecursionError) as error:  # also what is not UTF-8; TOML names line and column
            raise self.refuse(0, f"it is not TOML: {error}") from error
        for key in table:
            if key != "rule" or not isinstance(table[key], list):
                raise self.refuse(self._find_line(key, -1), f"{key!r} is not known; a file holds [[rule]] tables alone")
        tables = table.get("rule", [])
        if len(tables) > _MOST_RULES:
            raise self.refuse(0, f"it has {len(tables):,} rules; {_MOST_RULES:,} is the limit")
        rules = [self._read_rule(number, one) for number, one in enumerate(tables)]
        for number, rule in enumerate(rules):
            if rule.id in {other.id for other in rules[:number]}:
                raise self.refuse(self._find_line("id", number), f"two rules are called {rule.id!r}")
        return rules

    def _read_rule(self, number: int, table: Any) -> Rule:
        def wrong(key: str, why: str) -> InvalidInput:
            return self.refuse(self._find_line(key, number), why)

        if not isinstance(table, Mapping):
            raise wrong("", "a rule is a table: begin it with [[rule]]")
        for key in table:
            if key not in _KEYS:
                raise wrong(key, f"{key!r} is not known; a rule has {', '.join(_KEYS)}")
        for key in ("id", "on", "message", "require", "prefer"):
            if key in table and not (isinstance(table[key], str) and 0 < len(table[key]) <= _LONGEST):
                raise wrong(key, f"{key} takes a text of up to {_LONGEST:,} characters")
        if "id" not in table:
            raise wrong("", 'a rule needs a name: id = "good-enough"')
        if not re.fullmatch(r"[\w.-]{1,100}", table["id"]):  # it stands in messages of commits
            raise wrong("id", "an id has letters, digits, dots and dashes, at most 100")
        if table.get("on", self.verb) != self.verb:
            raise wrong("on", f"rules of this file are on {self.verb!r}, and this one is on {table['on']!r}")
        if ("require" in table) == ("prefer" in table):
            raise wrong("require", "a rule has either require or prefer")
        if "prefer" in table and self.verb != "merge":
            raise wrong("prefer", "only a merge has two sides of which one can be preferred; use require")
        if "margin" in table and "prefer" not in table:
            raise wrong("margin", "a margin belongs to prefer")
        globs = {key: tuple(self._read_globs(key, table.get(key), number)) for key in ("branches", "paths")}
        try:
            require = conditions.parse(table["require"]) if "require" in table else None
            prefer = self._read_preference(table) if "prefer" in table else None
        except InvalidInput as error:
            raise wrong("require" if "require" in table else "prefer", error.message) from error
        return Rule(
            table["id"], self.name, globs["branches"], globs["paths"], require, prefer, table.get("message", "")
        )

    def _read_preference(self, table: Mapping[str, Any]) -> Preference:
        margin = table.get("margin", 0)
        if not conditions.is_number(margin):
            raise InvalidInput("margin takes a number")
        return parse_preference(table["prefer"], margin=float(margin))

    def _read_globs(self, key: str, given: Any, number: int) -> Iterator[re.Pattern[str]]:
        """Branches by their names. Paths as `.memlakeignore` means them: `*.pt` anywhere, `models/` all inside it."""
        patterns = [given] if isinstance(given, str) else given if given is not None else []
        at = self._find_line(key, number)
        if not isinstance(patterns, list) or (given is not None and not patterns):
            raise self.refuse(at, f"{key} takes a pattern or a list of them")
        for pattern in patterns:
            if not (isinstance(pattern, str) and 0 < len(pattern.strip("/")) <= _LONGEST):
                raise self.refuse(
                    at, f"{key} takes patterns, such as {'production' if key == 'branches' else 'models/'!r}"
                )
            if len(re.findall(r"\*+", pattern)) > _MOST_STARS:
                raise self.refuse(at, f"{pattern!r} has more than {_MOST_STARS} stars")
            body = translate_glob(pattern.strip("/"), crossing=key == "branches")
            if body is None:
                raise self.refuse(at, f"{pattern!r} is not a pattern; a [ or a backslash is left open")
            if key == "paths":
                start = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
                body = f"{start}{body}(?:/.*)?"
            yield re.compile(body, re.DOTALL)

    def _find_line(self, key: str, number: int) -> int:
        """The line where a key of a rule stands, or where the rule begins; -1 as the number means the whole file."""
        begun, head = -1, 0
        for at, line in enumerate(self.text.splitlines(), 1):
            if _HEAD.match(line):
                begun, head = begun + 1, at if begun + 1 == number else head
            if key and begun == number and re.match(rf"\s*[\"'\[]*{re.escape(key)}[\"'\]]*(\s*=|\s*$|\.)", line):
                return at
        return head

    def refuse(self, line: int, why: str) -> InvalidInput:
        where = f" is wrong in line {line}" if line else " cannot be used"
        return InvalidInput(
            f"{self.name}{where}: {why.rstrip('.')}.\nThe {self.verb} was refused, and nothing was changed.",
            hint=f"Correct the file on the branch and commit it. See it with: memlake cat {pasted(self.place)}",
        )
