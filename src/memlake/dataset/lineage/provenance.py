"""Provenance: everything known of how rows came to be, gathered when they are saved. Reads; keeps nothing itself."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from memlake import config
from memlake.dataset import params, show_rows
from memlake.dataset.expressions.columns import SHOWN, SHOWN_WHOLE, Column, Expression, Form, Literal, walk
from memlake.dataset.lineage import opened_files, process_facts
from memlake.dataset.lineage import program as running_program
from memlake.dataset.memo import code_origin
from memlake.dataset.memo.fingerprint import Fingerprint
from memlake.dataset.plan import column_sources
from memlake.dataset.plan.nodes import Call, Filter, Group, Mutate, Plan, Select, Source
from memlake.dataset.run.engine import Engine, Ran
from memlake.dataset.run.plan_keys import RunServices
from memlake.records import Author
from memlake.rows.values import bound
from memlake.versions.checkout.local import Local

_FILES = 1000  # files of a source that are named one by one
_HASHED = 256 << 20  # bytes of files that a save hashes
Printed = Sequence[tuple[Call, Fingerprint]]


def gather(plan: Plan, run: RunServices, author: Author, seconds: float) -> dict[str, Any]:
    """What a version records of its making. `git` asks another process, so it is the caller's to add."""
    nodes = column_sources.walk(plan)
    printed = [(node, run.fingerprint(node)) for node in nodes if isinstance(node, Call)]
    functions = [_function(call, print_) for call, print_ in printed]
    # Constants of expressions that are secrets, by the name they are given for or the column that is beside
    # them
    for node in nodes:
        for name, expression in _expressions(node):
            forms = [one for one in walk(expression) if isinstance(one, Form)]
            if not forms:
                _hide_literals(name, walk(expression), by_name=True)
            for form in forms:
                for beside in (name, *(repr(one).rpartition(".")[2] for one in form.args if isinstance(one, Column))):
                    _hide_literals(beside, form.args, by_name=False)
    explained = show_rows.explain_plan(plan)
    steps = [*(one["source"] for one in functions), *(f"# {line}" for line in explained.splitlines())]
    program = running_program.read_program(lambda: "\n".join(steps))
    facts = {
        "source": program.text,
        "source_kind": program.kind,
        "source_name": program.name,
        "folder": program.folder,
        "functions": functions,
        **_sources([node for node in nodes if isinstance(node, Source)]),
        "packages": _packages(print_ for _, print_ in printed),
        "params": _params(printed),  # before anything is hidden: it says which values are secret
        "author": str(author),
        "agent": config.variable("AGENT_ID") or None,
        "session": config.variable("SESSION_ID") or None,
        "seconds": round(seconds, 6),
        "plan": running_program.prepare_text(explained).splitlines(),
    }
    hidden: dict[str, Any] = params.without_secrets(facts)
    return {**hidden, "columns": column_sources.made_of(plan)}


def add_git_state(told: dict[str, Any], git: Callable[[str], dict[str, Any]] = running_program.git) -> dict[str, Any]:
    """With what git says of the program's folder; where a machine keeps that folder is not recorded."""
    state = git(told["folder"])
    return {**{key: value for key, value in told.items() if key != "folder"}, "git": state}


def add_file_oids(told: dict[str, Any], plan: Plan, root: str, local: Local) -> dict[str, Any]:
    """With the hash of each file that was read, and for one inside the repo its path there: what it was is known then.

    A large file would take longer to hash than to read, so beyond a limit files keep their size and time alone. One
    that is tracked and unchanged is not read again.
    """
    left, inside = _HASHED, os.path.realpath(root) + os.sep
    also = _list_opened(plan, inside)
    files = [*(file for origin in told["origins"] for file in origin.get("files", ())), *also]
    for file in files:
        full = os.path.realpath(file["path"])
        if full.startswith(inside):
            file["file"] = full.removeprefix(inside).replace(os.sep, "/")
    known = _find_tracked(files, local)
    for file in files:
        size, oid = file.get("size"), known.get(file.get("file", ""))
        if oid is not None:
            file["oid"] = oid
        elif size is not None and size <= left:
            left -= size
            with contextlib.suppress(OSError):
                full = os.path.realpath(file["path"])
                file["oid"] = _hash_file(full, size, os.stat(full).st_mtime_ns)
    return {**told, "opened": also} if also else told


def _find_tracked(files: Sequence[Mapping[str, Any]], local: Local) -> dict[str, str]:
    """The oids of those that are tracked and unchanged since they were read, by their paths in the repo."""
    stats = {}
    for file in files:
        with contextlib.suppress(OSError):
            if "file" in file:
                stats[file["file"]] = os.stat(file["path"])
    return local.find_unchanged(stats)


def _list_opened(plan: Plan, inside: str) -> list[dict[str, Any]]:
    """Files of the repo that the script under `memlake run` opened until now, if it made rows or columns itself."""
    nodes = column_sources.walk(plan)
    sources = [node.origin for node in nodes if isinstance(node, Source)]
    is_read = all(one.detail.get("paths") or one.kind in ("dataset", "storage", "persisted") for one in sources)
    if is_read and not any(isinstance(node, Call) for node in nodes):
        return []
    own = {os.path.realpath(path) for one in sources for path in one.detail.get("paths", ())}
    full = {path: os.path.realpath(path) for path in opened_files.read_own().read if not path.endswith(".py")}
    paths = [path for path, real in full.items() if real.startswith(inside) and real not in own]
    return [one for one in map(_file, paths[:_FILES]) if one["size"] is not None]


def hash_file(path: str) -> str:
    state = os.stat(path)
    return _hash_file(path, state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=1000)
def _hash_file(path: str, _size: int, _time: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fields(told: dict[str, Any]) -> dict[str, Any]:
    """The fields of a version that this fills."""
    values = {name: one["value"] for name, one in told["params"].items()}
    return {"provenance": told, "params": values, "metrics": process_facts.metrics()}


def _function(call: Call, print_: Fingerprint) -> dict[str, Any]:
    told = {"name": call.name, "fingerprint": print_.key}
    opaque = {"opaque": [one.name for one in print_.opaque]} if print_.opaque else {}
    return {
        **told,
        "source": running_program.prepare_text(print_.source or running_program.text_of(call.function)),
        **opaque,
    }


def steps(plan: Plan, engine: Engine, rows: int) -> tuple[Ran, ...]:
    """What each function step did; where all was remembered none was asked."""
    calls = [node for node in plan.walk() if isinstance(node, Call)]
    return tuple(engine.ran) or tuple(Ran(call.name, 0, rows, 0, 0.0) for call in calls)


def _hide_literals(name: str, expressions: Iterable[Expression], *, by_name: bool) -> None:
    for one in expressions:
        if isinstance(one, Literal):
            params.hide_constants(name, _texts(one), by_name=by_name)


def _texts(literal: Literal) -> list[str]:
    """The texts a constant holds, and what of them is shown where they are long."""
    values = literal.value if isinstance(literal.value, list) else [literal.value]
    held = [one for one in values if isinstance(one, str)]
    text = repr(bound(literal.value)) if held else ""
    return [*held, text[1:SHOWN]] if len(text) > SHOWN_WHOLE else held


def _expressions(node: Plan) -> list[tuple[str, Expression]]:
    if isinstance(node, Filter):
        return [("", node.condition)]
    if isinstance(node, Group):
        return [*node.by.items(), *node.made.items()]
    named = node.new if isinstance(node, Mutate) else node.parts if isinstance(node, Select) else {}
    return list(named.items())


# -- where rows came from --------------------------------------------------------------------------


def _sources(found: Sequence[Source]) -> dict[str, list[dict[str, Any]]]:
    kinds: dict[str, list[dict[str, Any]]] = {"parents": [], "storages": [], "origins": []}
    for node in found:
        if node.origin.kind == "dataset":
            kinds["parents"].append({"spec": node.origin.name, **node.origin.detail})
        elif node.origin.kind == "storage":
            assert node.frame is not None
            content, files = node.mark(), node.frame().rows
            uris = node.origin.detail["uris"]
            kinds["storages"] += [{"uri": uri, "content": content, "files": files} for uri in uris]
        elif node.origin.kind != "persisted":
            paths = node.origin.detail.get("paths", ())
            told: dict[str, Any] = {"kind": node.origin.kind, "name": node.origin.name, "content": node.mark()}
            if paths:
                told |= {"files": [_file(path) for path in paths[:_FILES]], "count": len(paths)}
            kinds["origins"].append(told)
    return {kind: _drop_twins(each) for kind, each in kinds.items()}


def _file(path: str) -> dict[str, Any]:
    try:
        state = os.stat(path)
    except OSError as error:  # it was there when the rows were read
        return {"path": path, "size": None, "mtime": None, "why": error.strerror}
    return {"path": path, "size": state.st_size, "mtime": state.st_mtime_ns // 1000}


def _drop_twins(told: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for one in told:
        found += [one] if one not in found else []
    return found


# -- what it was made with -------------------------------------------------------------------------


def _packages(printed: Iterable[Fingerprint]) -> dict[str, str]:
    own = code_origin.library_of(__name__)
    known = {
        "memlake": (own.version if own else "") or "unknown",
        "python": platform.python_version(),
        "duckdb": duckdb.__version__,
        "pyarrow": pa.__version__,
    }
    reached = {name: version for one in printed for name, version in one.libraries.items()}
    return dict(sorted({**reached, **known}.items()))


def _params(printed: Printed) -> dict[str, dict[str, Any]]:
    """Those this process resolved, and those its functions ask for: workers, or a run of another day, resolved them."""
    process_facts.tell_at_end()
    asked: dict[str, dict[str, Any]] = {}
    for _, print_ in printed:
        for name, value in print_.params.items():
            process_facts.asked_for(name)  # also where what it returns is remembered, and nothing runs
            found = params.find(name)
            asked[name] = params.describe_param(name, value, found.origin if found else "default")
    return {**asked, **process_facts.params()}
