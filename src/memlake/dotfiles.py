"""Settings files of other programs: one entry of JSON or TOML changed at a time, the rest kept, never left broken.

`apply_change` is pure: text in, text out. `write` keeps a copy of what it replaces. Knows no program and no entry.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memlake.errors import Denied, InvalidInput, Unavailable
from memlake.named_tuple import NamedTuple

Change = Callable[[Any], None]  # given the whole document, changes it in place


class Plan(NamedTuple):
    """What a file has now (None: it is not there), what it is to have, and where."""

    path: Path
    old: str | None
    new: str

    @property
    def changes(self) -> bool:
        return self.old != self.new


def plan(path: Path, change: Change) -> Plan:
    """What a change would make of a file. A file that cannot be read is an error, and stays as it is."""
    old = _read(path)
    return Plan(path, old, apply_change(old or "", path, change))


def plan_text(path: Path, text: str) -> Plan:
    """The plan for a file that holds nothing but ours."""
    return Plan(path, _read(path), text)


def apply_change(text: str, path: Path, change: Change) -> str:
    """The text of a file with a change made; the same text when the change changes nothing."""
    return (_toml if path.suffix == ".toml" else _json)(text, path, change)


def section(document: Any, name: str, path: Path) -> Any:
    """A table of a document by its name, made when it is not there."""
    table = document.setdefault(name, {})
    if not isinstance(table, Mapping):
        raise InvalidInput(f"{path} has `{name}`, which is not a table. It was not changed.")
    return table


def warn_if_missing(program: str) -> None:
    """Warn when a file names a program that this machine does not find by that name."""
    if not shutil.which(program):
        folder = os.path.dirname(sys.executable)
        warnings.warn(
            f"`{program}` is not on your PATH, so it cannot be started by this name. Add its folder: "
            f'export PATH="{folder}:$PATH"',
            stacklevel=2,
        )


def write(plan: Plan) -> Path | None:
    """Put a plan into its file, whole or not at all; returns the copy of what was there before."""
    path = Path(os.path.realpath(plan.path))  # a linked file stays a link
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    kept = _free_name(path) if plan.old is not None else None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kept is not None:
            shutil.copy2(path, kept)
            shutil.copy2(path, new)  # for its mode: such files may hold keys
        with open(new, "w", encoding="utf-8", newline="") as file:
            file.write(plan.new)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise Unavailable(f"{plan.path} could not be written: {error.strerror}. It was not changed.") from error
    return kept


def remove(path: Path) -> None:
    """Delete a file in which nothing is left that is not ours."""
    try:
        path.unlink()
    except OSError as error:
        raise Unavailable(f"{path} could not be removed: {error.strerror}. It was not changed.") from error


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.memlake-backup{number or ''}") for number in range(10_000))
    return next(name for name in names if not name.exists())


def _read(path: Path) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text. It was not changed.") from error
    except PermissionError as error:
        raise Denied(f"{path} cannot be read: {error.strerror}. It was not changed.") from error
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}. It was not changed.") from error


def _json(text: str, path: Path, change: Change) -> str:
    try:
        document = json.loads(text.removeprefix("\ufeff")) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path} is not plain JSON: {error}. It was not changed.",
            hint="Correct it (comments are not plain JSON), or add the entry by hand: --dry-run prints it.",
        ) from error
    if not isinstance(document, dict):
        raise InvalidInput(f"{path} does not hold a JSON object. It was not changed.")
    before = json.dumps(document)
    change(document)
    if text.strip() and json.dumps(document) == before:
        return text
    return json.dumps(document, indent=_indent(text), ensure_ascii=False) + "\n"


def _indent(text: str) -> int | str:
    """How a file is indented, by its first indented line."""
    for line in text.splitlines():
        blank = line[: len(line) - len(line.lstrip())]
        if blank and line.strip():
            return "\t" if blank[0] == "\t" else len(blank)
    return 2


def _toml(text: str, path: Path, change: Change) -> str:
    import tomlkit  # slow, and only writing needs it
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        before = document.unwrap()
        change(document)
        return text if document.unwrap() == before else tomlkit.dumps(document)
    except TOMLKitError as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}. It was not changed.") from error
