"""Names of datasets and their versions: `pets`, `team.pets`, `pets@1.2.0`, `pets@>=1,<2`. Knows no repo."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from memlake.dataset.kind import DATASET
from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple
from memlake.versions import paths

_NAME = re.compile(r"[^\W.\-][\w\-]*(\.[^\W.\-][\w\-]*)*")
_VERSION = re.compile(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?")
_BOUND = re.compile(r"(==|>=|<=|!=|>|<|~=|\^|~)?\s*(\d+(?:\.\d+){0,2})")
ROOM = DATASET.folder


class Semver(NamedTuple):
    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    def bump(self, part: str) -> Semver:
        if part == "major":
            return Semver(self.major + 1, 0, 0)
        if part == "minor":
            return Semver(self.major, self.minor + 1, 0)
        if part == "patch":
            return Semver(self.major, self.minor, self.patch + 1)
        raise InvalidInput(f"update_version is {part!r}; it takes 'patch', 'minor' or 'major'.")


FIRST = Semver(1, 0, 0)


def check_name(name: str, namespace: str = "") -> str:
    _check_text(name)
    full = f"{namespace}.{name}" if namespace and "." not in name else name
    if not _NAME.fullmatch(full) or len(full) > 200:
        raise InvalidInput(
            f"{name!r} cannot be the name of a dataset.",
            hint="Letters, digits, _ and - with dots between namespaces: pets, team.pets",
        )
    if problem := paths.file_problem(full):
        raise InvalidInput(f"{name!r} cannot be the name of a dataset: {problem}.", hint="Choose another name.")
    return full


def _check_text(name: Any) -> None:
    if not isinstance(name, str):
        raise InvalidInput(f"a dataset is named by text, not {name!r}. Nothing was run.", hint="Like: 'pets'")


def split_spec(text: str) -> tuple[str, str | None]:
    """`name@what` as its two parts."""
    _check_text(text)
    name, at, spec = text.partition("@")
    if at and not spec.strip():
        raise InvalidInput(
            f"{text!r} does not name a version after the @.", hint="Like: pets@1.2.0, pets@main, pets@>=1,<2"
        )
    return name.strip(), spec.strip() or None


def parse_version(text: str) -> Semver:
    match = _VERSION.fullmatch(text.removeprefix("v"))
    if match is None:
        raise InvalidInput(f"{text!r} is not a version.", hint="Versions look like 1.2.0.")
    return Semver(*(int(part or 0) for part in match.groups()))


def is_version(text: str) -> bool:
    """Whether a spec speaks of version numbers, not of a branch or commit."""
    return all(_BOUND.fullmatch(part.strip().removeprefix("v")) for part in text.split(","))


def match_versions(spec: str, versions: Iterable[Semver]) -> list[Semver]:
    """Versions a spec admits, oldest first. `1` and `1.2` mean the newest of those; `1.2.0` just that one."""
    bounds = [_BOUND.fullmatch(part.strip().removeprefix("v")) for part in spec.split(",")]
    tests = [(bound[1], bound[2]) for bound in bounds if bound]
    return sorted(v for v in versions if all(_admits(op, text, v) for op, text in tests))


def _admits(operator: str | None, text: str, version: Semver) -> bool:
    given, bound = text.count(".") + 1, parse_version(text)
    if operator in (None, "=="):
        return version[:given] == bound[:given]
    if operator == "!=":
        return version[:given] != bound[:given]
    if operator == "^":
        return version >= bound and version.major == bound.major
    if operator in ("~=", "~"):
        kept = max(given - 1, 1)
        return version >= bound and version[:kept] == bound[:kept]
    return {
        ">=": version >= bound, "<=": version <= bound, ">": version > bound, "<": version < bound,
    }[operator or ">="]  # fmt: skip


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name a typo probably meant."""
    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    return close[0] if close else None
