"""Messages between processes: a pickle, and the large buffers of what is in it beside it, uncopied, over a pipe.

A function or class of a script is sent by value (cloudpickle), a column as the buffers it has. Of a slice only its own
rows are sent: pyarrow would pickle the whole column it was cut from, for every slice again.
"""

from __future__ import annotations

import fcntl
import functools
import inspect
import io
import os
import pickle
import struct
import types
from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import cloudpickle
import pyarrow as pa

from memlake.errors import InvalidInput

HEAD = struct.Struct("<QQ")  # bytes of the pickle, number of buffers
SMALL = 4096  # a buffer below this is cheaper inside the pickle
AT_ONCE = 512  # buffers of one system call; Linux takes 1024
WIDE = 1 << 20  # bytes a pipe holds: the largest an ordinary user may ask for
DEEP = 5  # how far into a function we look for what cannot be sent
Blob = tuple[bytes, list[bytearray]]  # a pickle and the buffers beside it, which the work may write to
EMPTY: Blob = (b"", [])


def _kinds(kind: Any) -> Iterator[type]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__.startswith("pyarrow"):  # an array class of somebody else's knows best how it is sent
            yield from _kinds(below)


def _reduce_array(array: Any) -> Any:
    if array.get_total_buffer_size() <= array.nbytes * 1.25 + SMALL:
        return array.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([array], names=["array"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return _restore_array, (pickle.PickleBuffer(sink.getvalue()),)


def _restore_array(stream: Any) -> Any:
    return pa.ipc.open_stream(pa.py_buffer(stream)).read_next_batch().column(0)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar = ChainMap(
        dict.fromkeys(_kinds(pa.Array), _reduce_array), cloudpickle.Pickler.dispatch_table
    )


def pack(value: Any) -> tuple[memoryview, list[memoryview]]:
    """The pickle of a value, and the buffers that go beside it."""
    body, beside = io.BytesIO(), []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < SMALL:
            return True
        beside.append(raw)
        return False

    _Pickler(body, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=keep_inside).dump(value)
    return body.getbuffer(), beside


def unpack(body: Any, beside: Iterable[Any] = ()) -> Any:
    return pickle.loads(body, buffers=beside)


def send(pipe: int, value: Any) -> None:
    """Write one message. Nothing is written when the value cannot be pickled."""
    body, beside = pack(value)
    head = HEAD.pack(body.nbytes, len(beside)) + struct.pack(f"<{len(beside)}Q", *(one.nbytes for one in beside))
    _move(os.writev, pipe, [memoryview(head), body, *beside])


def receive(pipe: int) -> Any:
    """Read one message; EOFError when the other side is gone."""
    size, count = HEAD.unpack(_read_views(pipe, [HEAD.size])[0])
    sizes = struct.unpack(f"<{count}Q", _read_views(pipe, [8 * count])[0])
    body, *beside = _read_views(pipe, [size, *sizes])
    return unpack(body, beside)


def widen(pipe: int) -> None:
    """Let a pipe hold more, where the system can: fewer switches between the two sides."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, WIDE)
        except OSError:  # the user has used up what pipes may hold: it works as it is
            return


def _read_views(pipe: int, sizes: Sequence[int]) -> list[memoryview]:
    # Of pyarrow, not bytearray: aligned, not filled with zeros first, and arrays made on it can be written to.
    views = [memoryview(pa.allocate_buffer(size)) for size in sizes]
    _move(os.readv, pipe, views)
    return views


def _move(call: Any, pipe: int, views: Sequence[memoryview]) -> None:
    """writev or readv until every view is through; a call moves as much as it likes."""
    left = [view.cast("B") for view in views if view.nbytes]
    while left:
        moved = call(pipe, left[:AT_ONCE])
        if not moved:
            raise EOFError
        while left and moved >= left[0].nbytes:
            moved -= left.pop(0).nbytes
        if moved:
            left[0] = left[0][moved:]


# -- a function, made ready to be sent, or an error that names what in it cannot be


def blob_of(work: Any) -> Blob:
    """The pickle of work, functions of a script by value; InvalidInput names what in it cannot be sent."""
    try:
        body, beside = pack(work)
        return bytes(body), [bytearray(one) for one in beside]
    except Exception as error:  # pickling runs code of the user's class, which may raise anything
        name, value, reason = _find_culprit("the function", work, error)
        raise InvalidInput(
            f"{name} (a {type(value).__name__}) cannot be sent to a worker process: {reason}. Nothing was run.",
            hint="make it inside each worker instead: setup=lambda: ... (a model, a connection, a lock), "
            "or run it in process without parallel",
        ) from error


def _pickling_error(value: Any) -> Exception | None:
    try:
        pack(value)
    except Exception as error:  # noqa: BLE001 - pickling runs code of the user's class, which may raise anything
        return error
    return None


def _find_culprit(name: str, value: Any, error: Exception, *, deep: int = DEEP) -> tuple[str, Any, Exception]:
    """The innermost named thing in a value that cannot be sent by itself either."""
    for inner, part in _inner_values(name, value) if deep else ():
        why = _pickling_error(part)
        if why is not None:
            return _find_culprit(inner, part, why, deep=deep - 1)
    return name, value, error


def _inner_values(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, types.MethodType):
        yield name, value.__self__
    elif isinstance(value, functools.partial):
        yield from ((f"an argument of {name}", part) for part in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, types.FunctionType):
        called = value.__name__
        for inner, part in _captured_values(value):
            yield f"`{inner}`, which {called} uses,", part
    elif not isinstance(value, type | types.ModuleType):
        for inner, part in getattr(value, "__dict__", {}).items():
            yield f"`{inner}` of {name}", part


def _captured_values(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    try:
        found = inspect.getclosurevars(function)
    except ValueError:  # a cell not filled yet
        return
    yield from {**found.nonlocals, **found.globals}.items()
