"""What this process saved, and the params and metrics it told: each belongs to every version it saved or will save.

Each is written at once, so that an exception afterwards loses nothing.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memlake import config
from memlake.dataset import feedback, save
from memlake.dataset.context import DatasetContext
from memlake.dataset.memo.results import Memo
from memlake.dataset.parts.version_record import Version
from memlake.dataset.save import Saved, Wanted
from memlake.errors import Error
from memlake.named_tuple import NamedTuple
from memlake.objects.forks import Mutex


class Noted(NamedTuple):
    context: DatasetContext
    version: Version
    process: int  # a forked child has these too, but not the connections to write through
    wanted: Wanted
    told: Mapping[str, Any] | None  # how its rows were made this time, where the version is of an older run


_SAVED: dict[tuple[str, str, str], Noted] = {}
_CLOSED: dict[str, None] = {}  # versions saved through a repo that is closed now, by spec; the first of them
_NAMED = 1000  # of those, so that a process that opens and closes repos for years does not grow
_PARAMS: dict[str, dict[str, Any]] = {}  # name -> value, type, from
_METRICS: dict[str, Any] = {}
_ASKED: dict[str, None] = {}  # in order
_OFFERED: dict[str, list[str]] = {}  # file -> names of the params in it
_LOCK = Mutex()


def note(context: DatasetContext, saved: Saved, wanted: Wanted, told: Mapping[str, Any]) -> None:
    """Remember a version that was saved, or found to be the same already."""
    version = saved.version
    feedback.report({"saved": version.spec, "rows": version.rows, "new": saved.new})
    with _LOCK:
        on = replace(context, named_branch=context.branch)  # a switch elsewhere does not redirect what is told later
        key = _key(on, version)
        is_ours = saved.new or (key in _SAVED and _SAVED[key].told is None)
        _SAVED[key] = Noted(on, version, os.getpid(), wanted, None if is_ours else told)


def let_go(recall: Memo) -> None:
    """A repo was closed, by its own recall: nothing can be told to what it saved, and what it held in memory goes."""
    with _LOCK:
        for key, noted in list(_SAVED.items()):
            if noted.context.recall is recall:
                del _SAVED[key]
                if len(_CLOSED) < _NAMED:
                    _CLOSED[noted.version.spec] = None


def _key(context: DatasetContext, version: Version) -> tuple[str, str, str]:
    return str(context.folder), context.branch, version.spec


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
    feedback.report({"param": name})


def offer(file: str, values: Mapping[str, Any]) -> None:
    """That a file gives these params."""
    if file not in _OFFERED:
        _OFFERED[file] = [name for name, value in values.items() if not isinstance(value, dict)]
        feedback.report({"offered": file, "names": _OFFERED[file]})


@functools.cache
def tell_at_end() -> None:
    """Say what nothing asked for when this program ends; `memlake run` does so itself, for all it started."""
    if not config.variable("RUN_REPORT"):
        atexit.register(_say_unasked)


def _say_unasked() -> None:
    is_failed = hasattr(sys, "last_value")  # it may have ended before it asked
    for file, names in () if is_failed else _OFFERED.items():
        for line in feedback.warn_unused(file, names, list(_ASKED)):
            sys.stderr.write(f"{line}\n")


def tell_param(name: str, told: Mapping[str, Any]) -> None:
    with _LOCK:
        if name not in _PARAMS:
            asked_for(name)
        if _PARAMS.get(name) != told:
            _PARAMS[name] = dict(told)
            feedback.report({"param": name, "value": told["value"]})
            _tell("params", {name: told["value"]}, {name: dict(told)})


def tell_metric(name: str, value: Any) -> None:
    with _LOCK:
        _METRICS[name] = value
        feedback.report({"metric": name, "value": value})
        _tell("metrics", {name: value})


def _tell(field: str, values: Mapping[str, Any], details: Mapping[str, Any] | None = None) -> None:
    if _CLOSED:
        first, *more = _CLOSED
        least = "at least " if len(_CLOSED) == _NAMED else ""
        others = f" and {least}{len(more):,} more" if more else ""
        warnings.warn(f"{field} could not be written to {first}{others}: the repo was closed before", stacklevel=5)
    for noted in list(_SAVED.values()):
        if noted.process != os.getpid():
            continue
        try:
            if details and _is_of_other_params(noted, values):
                # A version of this run's own, which shares the rows: what an older run recorded stays
                assert noted.told is not None
                params = {**noted.told["provenance"]["params"], **_PARAMS}
                told = {
                    "provenance": {**noted.told["provenance"], "params": params},
                    "params": {name: one["value"] for name, one in params.items()},
                    "metrics": dict(_METRICS),
                }
                saved = save.save(noted.context, noted.wanted, noted.context.frame(noted.version), told)
                del _SAVED[_key(noted.context, noted.version)]
                feedback.report({"left": noted.version.spec})
                note(noted.context, saved, noted.wanted, told)
            else:
                save.merge_into(noted.context, noted.version, field, values, details)
        except Error as error:  # the script goes on: it is what is measured that matters to it
            warnings.warn(f"{field} could not be written to {noted.version.spec}: {error}", stacklevel=5)


def _is_of_other_params(noted: Noted, values: Mapping[str, Any]) -> bool:
    """Whether an older run made this version with other values than these."""
    return noted.told is not None and save.is_other_config(
        save.read_current(noted.context, noted.version).params, values
    )


def forget() -> None:
    """Begin anew: a process that runs several programs in turn, as tests do."""
    with _LOCK:
        for known in (_SAVED, _CLOSED, _PARAMS, _METRICS, _ASKED, _OFFERED):
            known.clear()
