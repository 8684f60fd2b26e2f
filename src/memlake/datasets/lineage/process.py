"""What this process saved, and the params and metrics it told: each belongs to every version it saved or will save.

Each is written at once, so that an exception afterwards loses nothing.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from memlake import config
from memlake.datasets import asking, saving
from memlake.datasets.ground import Ground
from memlake.datasets.parts.record import Version
from memlake.errors import Error


class Noted(NamedTuple):
    ground: Ground
    version: Version
    process: int  # a forked child has these too, but not the connections to write through


_SAVED: dict[tuple[str, str, str], Noted] = {}
_PARAMS: dict[str, dict[str, Any]] = {}  # name -> value, type, from
_METRICS: dict[str, Any] = {}
_ASKED: dict[str, None] = {}  # in order
_OFFERED: dict[str, list[str]] = {}  # file -> names of the params in it
_LOCK = threading.RLock()


def note(ground: Ground, version: Version, *, is_new: bool) -> None:
    """Remember a version that was saved, or found to be the same already."""
    _report({"saved": version.spec, "rows": version.rows, "new": is_new})
    with _LOCK:
        on = replace(ground, named_branch=ground.branch)  # a switch elsewhere does not redirect what is told later
        _SAVED[str(on.folder), on.branch, version.spec] = Noted(on, version, os.getpid())


def params() -> dict[str, dict[str, Any]]:
    with _LOCK:
        return dict(_PARAMS)


def has_param(name: str) -> bool:
    return name in _PARAMS


def metrics() -> dict[str, Any]:
    with _LOCK:
        return dict(_METRICS)


def asked_for(name: str) -> None:
    """That something asks for a param: at the end is said which ones nothing asked for."""
    _ASKED.setdefault(name)
    _report({"param": name})


def offer(file: str, values: Mapping[str, Any]) -> None:
    """That a file gives these params."""
    if file not in _OFFERED:
        _OFFERED[file] = [name for name, value in values.items() if not isinstance(value, dict)]
        _report({"offered": file, "names": _OFFERED[file]})


@functools.cache
def tell_at_end() -> None:
    """Say what nothing asked for when this program ends; `memlake run` does so itself, for all it started."""
    if not config.variable("RUN_REPORT"):
        atexit.register(_say_unasked)


def _say_unasked() -> None:
    is_failed = hasattr(sys, "last_value")  # it may have ended before it asked
    for file, names in () if is_failed else _OFFERED.items():
        for line in asking.of_file(file, names, list(_ASKED)):
            sys.stderr.write(f"{line}\n")


def tell_param(name: str, told: Mapping[str, Any]) -> None:
    with _LOCK:
        if name not in _PARAMS:
            asked_for(name)
        if _PARAMS.get(name) != told:
            _PARAMS[name] = dict(told)
            _tell("params", {name: told["value"]}, {name: dict(told)})


def tell_metric(name: str, value: Any) -> None:
    with _LOCK:
        _METRICS[name] = value
        _report({"metric": name, "value": value})
        _tell("metrics", {name: value})


def _tell(field: str, values: Mapping[str, Any], details: Mapping[str, Any] | None = None) -> None:
    for noted in list(_SAVED.values()):
        if noted.process != os.getpid():
            continue
        try:
            saving.merge_into(noted.ground, noted.version, field, values, details)
        except Error as error:  # the script goes on: it is what is measured that matters to it
            warnings.warn(f"{field} could not be written to {noted.version.spec}: {error}", stacklevel=5)


def _report(told: Mapping[str, Any]) -> None:
    """For `memlake run`, which tells at the end what its script did."""
    if path := config.variable("RUN_REPORT"):
        with suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")


def forget() -> None:
    """Begin anew: a process that runs several programs in turn, as tests do."""
    with _LOCK:
        for known in (_SAVED, _PARAMS, _METRICS, _ASKED, _OFFERED):
            known.clear()
