"""Names of tables and columns: which there can be, and how SQL writes them. Only here a name becomes text of SQL."""

from __future__ import annotations

from collections.abc import Iterable

from memlake.errors import InvalidInput


def check_name(name: str, what: str = "column") -> str:
    """The name, if engines, files and terminals can hold it."""
    if name.isascii() and "\0" not in name:  # nearly all
        return name
    half = any("\ud800" <= sign <= "\udfff" for sign in name)
    if half or "\0" in name:
        raise InvalidInput(
            f"{name[:60]!r} cannot be the name of a {what}: it holds {'half a character' if half else 'a NUL'}. "
            "Nothing was read or changed.",
            hint="Rename it where it comes from.",
        )
    return name


def fold(name: str) -> str:
    """A name as DuckDB looks for it: case counts beyond ASCII."""
    return name.lower() if name.isascii() else "".join(sign.lower() if sign.isascii() else sign for sign in name)


def find_twins(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that DuckDB cannot tell apart."""
    known: dict[str, str] = {}
    for name in names:
        if (other := known.setdefault(fold(name), name)) != name:
            return other, name
    return None


def quote(name: str, mark: str = '"') -> str:
    """A name in the quotes of a dialect, or (of FTS5 and of fields) a text: to the parser it says nothing."""
    return mark + name.replace(mark, mark + mark) + mark
