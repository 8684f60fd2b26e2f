"""Params of a script: typed values that may be set from outside, and are kept on every version the script saves.

    rate = ml.param("learning_rate", 0.001)

From the command line (`memlake run -p learning_rate=0.01`), else the environment (MEMLAKE_PARAM_LEARNING_RATE), else a
file (`memlake run --params FILE`, MEMLAKE_PARAMS_FILE), else the default.
"""

from __future__ import annotations

import builtins
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from memlake import config, secrets
from memlake.dataset.lineage import process_facts
from memlake.errors import InvalidInput, NotFound
from memlake.named_tuple import NamedTuple

VALUES, FILE, PREFIX = "RUN_PARAMS", "PARAMS_FILE", "PARAM_"  # after MEMLAKE_
_WORDS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)
_TAKES = {bool: "true or false", int: "a whole number", float: "a number", list: "a JSON list", dict: "a JSON object"}
_SECRET = re.compile(
    r"(password|passwd|passphrase|secret|token|credentials?|(api|access|private|auth)[-_.]?key)$", re.I
)
_MASK = "[redacted: secret]"
_LONG = 8  # characters: a shorter secret may be a word, so only the whole literal is hidden
_SECRETS: set[str] = set()  # in memory alone, to be hidden in what is recorded
_NOTHING: Mapping[str, Any] = {}
# What each was asked with and gave; the default is kept, so its id stays its own.
_LAST: dict[str, tuple[Any, ...]] = {}


class Given(NamedTuple):
    """A value from outside, and where it was found."""

    value: Any
    origin: str


def param(name: str, /, default: Any = None, type: Callable[[Any], Any] | None = None) -> Any:
    """The value of a param: as it was set from outside, in the type of `default` or the one named, else `default`."""
    state = config.variable(VALUES), config.variable(PREFIX + _variable_name(name)), config.variable(FILE)
    last = _LAST.get(name)
    if last and last[:3] == (state, id(default), type) and not state[2] and process_facts.has_param(name):
        return last[3]  # asked again, as a function does for each row
    if not str(name).strip():
        raise InvalidInput(f"a param needs a name, and {name!r} is empty.")
    kind = type or (builtins.type(default) if default is not None else None)
    given = find(name) or Given(default, "default")
    value = given.value
    if kind is not None and value is not None and (type is not None or given.origin != "default"):
        value = _convert(name, given, kind)
    _mask_secret(name, default)  # what is never used stands in the program all the same
    process_facts.tell_param(name, describe_param(name, value, given.origin))
    _LAST[name] = (state, id(default), type, value, default)
    return value


def find(name: str) -> Given | None:
    """What was set from outside, as it was written."""
    typed, kept = _read_words(), _read_offered(config.variable(FILE))
    if name in typed:
        return Given(typed[name], "command line")
    variable = PREFIX + _variable_name(name)
    if text := config.variable(variable):
        return Given(text, f"environment MEMLAKE_{variable}")
    return Given(kept[name], f"file {Path(config.variable(FILE)).name}") if name in kept else None


def read_given(names: Iterable[str] | None) -> dict[str, Any]:
    """What was set from outside for these names; for any, when it is not known which are asked for."""
    if names is None:
        start = f"MEMLAKE_{PREFIX}"
        variables = {name.removeprefix(start) for name in config.environment() if name.startswith(start)} - {""}
        names = {*_read_words(), *_read_offered(config.variable(FILE)), *variables}
    values = {name: find(name) for name in names}
    return {name: given.value for name, given in values.items() if given is not None}


def describe_param(name: str, value: Any, origin: str) -> dict[str, Any]:
    """A param as it is recorded; one that looks like a secret is not."""
    return {"value": _mask_secret(name, value), "type": builtins.type(value).__name__, "from": origin}


# -- where values come from ------------------------------------------------------------------------


def _read_words() -> Mapping[str, Any]:
    text = config.variable(VALUES)
    return _parse_words(text) if text else _NOTHING


@lru_cache(maxsize=4)
def _parse_words(text: str) -> Mapping[str, Any]:
    words: Mapping[str, Any] = json.loads(text)
    return words


@lru_cache(maxsize=256)
def _variable_name(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()


def _read_offered(path: str) -> Mapping[str, Any]:
    if not path:
        return _NOTHING
    values = read_file(path, Path(path).stat().st_mtime_ns if Path(path).is_file() else 0)
    process_facts.offer(Path(path).name, values)
    return values


@lru_cache(maxsize=4)
def read_file(path: str, _: int = 0) -> Mapping[str, Any]:
    """The params of a TOML or JSON file; those of a section are `section.name`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise NotFound(
            f"the params file {path} cannot be read: {error.strerror}.", hint="Name a file that is there."
        ) from error
    except ValueError as error:
        raise InvalidInput(f"the params file {path} is neither TOML nor JSON: {error}.") from error
    if not isinstance(values, dict):
        raise InvalidInput(f"the params file {path} holds a {builtins.type(values).__name__}, not names with values.")
    return dict(_flatten(values, ""))


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    for name, value in table.items():
        yield prefix + name, value
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")


# -- types -----------------------------------------------------------------------------------------


def _convert(name: str, given: Given, kind: Callable[[Any], Any]) -> Any:
    try:
        return _READERS.get(kind, kind)(given.value)
    except (ValueError, TypeError, KeyError, ArithmeticError):
        takes = _TAKES.get(kind) or f"what {getattr(kind, '__name__', kind)} takes"  # type: ignore[call-overload]
        raise InvalidInput(
            f"param {name!r} is {_mask_secret(name, given.value)!r} ({given.origin}); it takes {takes}. Nothing ran.",
            hint=f"Give it as: memlake run SCRIPT -p {name}=VALUE",
        ) from None


def _bool(value: Any) -> bool:
    return value if isinstance(value, bool) else _WORDS[str(value).strip().lower()]


def _int(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
        raise ValueError(value)
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(value)
    return float(value)


def _json(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        parsed = json.loads(value) if isinstance(value, str) else value
        if not isinstance(parsed, list if kind is tuple else kind):
            raise TypeError(value)
        return kind(parsed)

    return read


_READERS: dict[Any, Callable[[Any], Any]] = {
    bool: _bool,
    int: _int,
    float: _float,
    **{kind: _json(kind) for kind in (list, tuple, dict)},
}


# -- secrets ---------------------------------------------------------------------------------------


def without_secrets(record: Any) -> Any:
    """What is to be recorded, without the values of params that are secret, wherever they stand in it."""
    if isinstance(record, Mapping):
        return {key: without_secrets(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [without_secrets(one) for one in record]
    if not isinstance(record, str):
        return record
    for secret in sorted(_SECRETS, key=len, reverse=True):
        written = {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]}
        is_long = len(secret) >= _LONG
        for form in written if is_long else {f"{quote}{one}{quote}" for one in written for quote in "\"'"}:
            record = record.replace(form, _MASK if is_long else f'"{_MASK}"')
    return record


def hide_constants(name: str, texts: Iterable[str], *, by_name: bool) -> None:
    """Keep constants out of what is recorded: given for a name of secrets, or looking like one beside this name."""
    for text in filter(None, texts):
        if (by_name and _SECRET.search(name)) or secrets.find(f'{name}="{text}"'):
            _SECRETS.add(text)


def _mask_secret(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if text and text != _MASK and (_SECRET.search(name) or secrets.find(f'{name}="{text}"')):
        _SECRETS.add(text)
        return _MASK
    return value if isinstance(value, list | dict) else text
