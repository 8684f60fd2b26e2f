"""Values as tokens: bytes that are equal when the values are, in every process; of arrays, frames and weights too.

A token of a plain value is its text; of anything with parts, a hash over the tokens of the parts. Nothing here knows
functions or whose code a class is: what it cannot take apart it leaves to the caller.
"""

from __future__ import annotations

import enum
import hashlib
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

Token = Callable[[Any, str], bytes]
"""Gives the token of a part, and is told how a reader would name it."""

WHOLE = 2 << 30  # bytes of weights read in full: two seconds
EDGE = 1 << 14  # values read at both ends of each tensor beyond that
NAMES = ("name_or_path", "_name_or_path", "model_name_or_path", "model_id")
REVISIONS = ("_commit_hash", "revision", "model_revision", "base_model_revision")
CONSTANTS: dict[Any, bytes] = {each: repr(each).encode() for each in (None, True, False, ..., NotImplemented)}


# Of a class: where it was written, and what Python and pydantic work out from the rest.
WORKED_OUT = {
    *(
        "__slotnames__",
        "__module__",
        "__dict__",
        "__weakref__",
        "__doc__",
        "__qualname__",
        "__firstlineno__",
        "__signature__",
    ),
    *("__static_attributes__", "__annotations__", "__annotations_cache__", "__abstractmethods__", "_abc_impl"),
    *("_member_names_", "_member_map_", "_value2member_map_", "_unhashable_values_", "_hashable_values_"),
}


def join(tag: str, *parts: bytes) -> bytes:
    """One token of many: lengths are written, so that no two lists of parts read the same."""
    head = tag.encode()
    lengths = struct.pack(f"<{len(parts) + 1}Q", len(head), *map(len, parts))
    return hashlib.sha256(b"".join((struct.pack("<Q", len(parts)), lengths, head, *parts))).digest()


def scalar(value: Any) -> bytes | None:
    """The token of a number, text or constant of exactly Python's own type; None for anything else."""
    kind: Any = type(value)
    if kind is str:
        return b"str:" + str(value).encode("utf-8", "surrogatepass")
    if kind is int:
        return b"int:%x" % value
    if kind is float or kind is complex:
        return f"{kind.__name__}:{value!r}".encode()
    if kind is bytes:
        return b"bytes:" + bytes(value)
    if value is None or kind is bool or value is ... or value is NotImplemented:
        return CONSTANTS[value]
    return None


def buffer(tag: str, data: Any) -> bytes:
    """The token of bytes that are hashed where they lie."""
    return join(tag, hashlib.sha256(data).digest())


def data_token(value: Any, token: Token) -> bytes | None:
    """The token of an array, a frame, a table or a tensor, with its class; None when it is none."""
    found = _data(value, token)
    return found and join("data", token(type(value), ""), found)


def _data(value: Any, token: Token) -> bytes | None:
    module = type(value).__module__.partition(".")[0]
    if type(value) in (np.ndarray, np.memmap) or isinstance(value, np.generic):
        return _array(np.asarray(value), token)
    if module == "pyarrow":
        return _table(value)
    if module == "pandas":
        return _frame(value, token)
    if module == "polars" and hasattr(value, "to_arrow"):
        return _table(value.to_arrow())
    if _has(value, "detach", "cpu", "reshape"):
        return _tensor(value, whole=True)
    return None


def _has(value: Any, *methods: str) -> bool:
    return all(callable(getattr(type(value), name, None)) for name in methods)


def _array(array: np.ndarray[Any, Any], token: Token) -> bytes:
    kind = join("array", repr(array.dtype.descr).encode(), repr(array.shape).encode())
    if array.dtype.hasobject:
        return join("objects", kind, token(array.tolist(), ""))
    return join("array", kind, buffer("bytes", np.ascontiguousarray(array).reshape(-1).view(np.uint8)))


class _Hashing:
    """A file that keeps only the hash of what is written to it."""

    def __init__(self) -> None:
        self.closed = False
        self._hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return len(data)

    def writable(self) -> bool:
        return True

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def digest(self) -> bytes:
        return self._hash.digest()


def _table(value: Any) -> bytes | None:
    """Arrow data by what its stream holds, in one chunk: how it happened to be cut means nothing."""
    if isinstance(value, pa.Array | pa.ChunkedArray):
        value = pa.table({"": value})
    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    if not isinstance(value, pa.Table):
        return None
    sink = _Hashing()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), value.schema) as stream:
        stream.write_table(value.combine_chunks())
    return join("table", sink.digest())


def _frame(value: Any, token: Token) -> bytes | None:
    """A pandas frame, series or index, column by column; None for the rest of pandas."""
    if hasattr(value, "columns") and hasattr(value, "iloc"):
        columns = [value.iloc[:, at] for at in range(value.shape[1])]
        return join("frame", _frame(value.columns, token) or b"", *(_frame(column, token) or b"" for column in columns))
    if not all(hasattr(value, each) for each in ("dtype", "name", "to_numpy")):
        return None
    index = getattr(value, "index", None)
    behind = b"" if index is None or index is value else _frame(index, token) or b""
    names = token([value.name, str(value.dtype)], "")
    return join(type(value).__name__, names, behind, _array(np.asarray(value.to_numpy()), token))


def _tensor(value: Any, *, whole: bool) -> bytes:
    flat = value.detach().cpu().reshape(-1)
    pieces = [flat] if whole else [flat[:EDGE], flat[-EDGE:]]
    head = f"{value.dtype} {tuple(value.shape)}".encode()
    return join("tensor", head, *(buffer("bytes", _numbers(piece)) for piece in pieces))


def _numbers(flat: Any) -> Any:
    try:
        return np.ascontiguousarray(flat.numpy())
    except TypeError:  # bfloat16 and its like are unknown to numpy
        return flat.contiguous().view(sys.modules["torch"].uint8).numpy()


def model_token(value: Any, token: Token) -> bytes | None:
    """The token of a model by its weights, or of an onnxruntime session by its file; None when it is neither."""
    if type(value).__module__.startswith("onnxruntime") and hasattr(value, "_model_path"):
        return _session(value, token)
    if not _has(value, "state_dict", "named_modules"):
        return None
    weights = value.state_dict()
    whole = sum(getattr(each, "nbytes", 0) for each in weights.values()) <= WHOLE
    tensors = (
        join(name, _tensor(each, whole=whole) if _has(each, "detach") else token(each, f".{name}"))
        for name, each in weights.items()
    )
    layers = (
        join(str(name), token(type(layer), f".{name}"), plain_state(layer)) for name, layer in value.named_modules()
    )
    return join("model", *tensors, *layers, _model_name(value) or b"")


def plain_state(value: Any) -> bytes:
    """The attributes of an object that are numbers, texts and constants."""
    state = getattr(value, "__dict__", {})
    plain = {name: scalar(each) for name, each in state.items()}
    return join("plain", *(join(name, each) for name, each in sorted(plain.items()) if each is not None))


def _session(value: Any, token: Token) -> bytes:
    inside, path = getattr(value, "_model_bytes", None), value._model_path
    model = buffer("bytes", inside) if inside else path_token(Path(path))
    return join("session", token(type(value), ""), model, repr(value.get_providers()).encode())


def name_token(value: Any, token: Token) -> bytes | None:
    """The token of an object that says which model it is: its class, name, revision and plain attributes."""
    named = _model_name(value)
    return named and join("named", token(type(value), ""), named, plain_state(value))


def _model_name(value: Any) -> bytes | None:
    sources = [value, *(vars(value).get(each) for each in ("config", "model_card_data") if hasattr(value, "__dict__"))]
    found = [_first(sources, names) for names in (NAMES, REVISIONS)]
    if not found[0]:
        return None
    path = Path(found[0])
    return join("name", path_token(path) if path.exists() else found[0].encode(), (found[1] or "").encode())


def _first(sources: Iterable[Any], names: Iterable[str]) -> str | None:
    for source in sources:
        state: Mapping[str, Any] = getattr(source, "__dict__", {})
        for name in names:
            if isinstance(state.get(name), str) and state[name]:
                return str(state[name])
    return None


def path_token(path: Path) -> bytes:
    """A file by its bytes; of a folder, which files it holds, how large and from when."""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        stats = ((each.relative_to(path).as_posix(), each.stat()) for each in files)
        return join("folder", *(f"{name} {stat.st_size} {stat.st_mtime_ns}".encode() for name, stat in stats))
    stat = path.stat()
    return _file(path, stat.st_size, stat.st_ctime_ns)


@lru_cache(maxsize=64)
def _file(path: Path, size: int, changed: int) -> bytes:  # noqa: ARG001  they say when the answer is too old
    with path.open("rb") as stream:
        return join("file", hashlib.file_digest(stream, "sha256").digest())


def class_namespace(cls: type) -> dict[str, Any]:
    """What a class says: its methods and values by name, and the annotations its fields are made of."""
    said = {name: each for name, each in vars(cls).items() if name not in WORKED_OUT and "__pydantic_" not in name}
    if isinstance(cls, enum.EnumMeta):
        said = {name: each for name, each in said.items() if name not in cls.__members__}
        said["members"] = [(name, cls.__members__[name].value) for name in cls.__members__]
    if hasattr(cls, "__pydantic_decorators__"):
        said |= _pydantic(cls)
    said["annotations"] = dict(vars(cls).get("__annotations__", {}))
    return dict(sorted(said.items()))


def _pydantic(cls: Any) -> dict[str, Any]:
    """The fields and checks of a pydantic model, and its docstring: it is in the schema that others are shown."""
    checks = (getattr(cls.__pydantic_decorators__, each.name) for each in fields(cls.__pydantic_decorators__))
    rules = {name: check.info for kind in checks if isinstance(kind, dict) for name, check in kind.items()}
    return {"fields": dict(cls.model_fields), "rules": rules, "says": cls.__doc__}
