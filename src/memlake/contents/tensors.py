"""Tensors in files: safetensors, npy, npz, torch archives, GGUF, HDF5. Where each lies, and its values when asked.

Nothing is ever unpickled: of a torch archive only the records of tensors are interpreted, and whatever else a pickle
asks for is refused by its name. Sizes are checked before anything is read.
"""

from __future__ import annotations

import ast
import io
import json
import math
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from memlake.contents.content import Content, Unreadable
from memlake.named_tuple import NamedTuple

Array = npt.NDArray[Any]
_HEADER = 100 << 20  # bytes of a header, as the safetensors library has it
_PICKLE = 64 << 20
_BLOCK = 4 << 20  # values that are in memory at once
_RATIO = 1100  # a zip's deflate cannot do more
_UNPACKED, _LARGE_RATIO = 256 << 20, 20  # bytes beyond which weights that shrink so well are a bomb
# How many bytes a value takes, and what numpy calls it; None: its bits are compared, and nothing is calculated.
_TYPES: dict[str, tuple[float, str | None]] = {
    "F64": (8, "<f8"), "F32": (4, "<f4"), "F16": (2, "<f2"), "BF16": (2, "bf16"), "I64": (8, "<i8"), "I32": (4, "<i4"),
    "I16": (2, "<i2"), "I8": (1, "|i1"), "U64": (8, "<u8"), "U32": (4, "<u4"), "U16": (2, "<u2"), "U8": (1, "|u1"),
    "BOOL": (1, "|u1"), "F8_E4M3": (1, None), "F8_E5M2": (1, None), "C64": (8, "<c8"), "C128": (16, "<c16"),
}  # fmt: skip
_TORCH = {
    "DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
    "LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8", "ByteStorage": "U8",
    "BoolStorage": "BOOL",
    "ComplexFloatStorage": "C64", "ComplexDoubleStorage": "C128",
}  # fmt: skip
_GGUF = {0: "F32", 1: "F16", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 30: "BF16"}
# Quantised types of GGUF: values in a block, and bytes of it.
_QUANTS = {2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36), 10: (256, 84), 11: (256, 110),
           12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292)}  # fmt: skip


# What readers of a file that is not what it claims run into.
_WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, SyntaxError, EOFError,
          OSError, struct.error, zipfile.BadZipFile, zlib.error, NotImplementedError)  # fmt: skip
_ITEMS = 100_000  # of a checkpoint; a pickle of a few hundred bytes can name more than any memory holds


class Tensor(NamedTuple):
    """One tensor: its type and shape, and its bytes as they lie in the file or are unpacked."""

    dtype: str
    shape: tuple[int, ...]
    size: int  # bytes
    read: Callable[[int, int], bytes]  # (start, length) within it
    start: int | None = None  # where it lies in the file as it is
    strides: tuple[int, ...] | None = None  # in values, where it is not laid out row by row

    @property
    def values(self) -> int:
        return math.prod(self.shape)

    @property
    def is_numeric(self) -> bool:
        return _TYPES.get(self.dtype, (0, None))[1] is not None

    @property
    def is_text(self) -> bool:
        return self.dtype[1:2] in ("U", "S")

    def read_array(self) -> Array:
        """All its values in its shape, as numbers; text as text."""
        data = self.read(0, self.size)
        flat = np.frombuffer(data, self.dtype) if self.is_text else decode(self.dtype, data)
        if self.strides is None:
            return flat.reshape(self.shape)
        steps = [stride * flat.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, steps, writeable=False)

    def blocks(self) -> Iterator[Array]:
        """Its values one block after the other, as numbers; bits where numpy has no such number."""
        width = int(_TYPES[self.dtype][0]) if self.dtype in _TYPES else 1
        if self.strides is not None:
            yield np.ascontiguousarray(self.read_array()).reshape(-1)
            return
        for start in range(0, self.size, _BLOCK * width):
            yield decode(self.dtype, self.read(start, min(_BLOCK * width, self.size - start)))


class Archive(NamedTuple):
    """What a file of tensors holds."""

    format: str
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, Any] = {}


def decode(dtype: str, data: bytes) -> Array:
    kind = _TYPES.get(dtype, (1, None))[1]
    if kind == "bf16":  # the upper half of a float
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, kind or "|u1")


def encode(dtype: str, values: Array) -> bytes:
    """The bytes of numbers as a file has them, rounded to its type."""
    kind = _TYPES[dtype][1]
    if kind == "bf16":  # the nearest of which the lower half is zero; of two as near, the even one
        bits = np.ascontiguousarray(values, "<f4").view("<u4")
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return np.where(np.isnan(values), bits >> 16, rounded).astype("<u2").tobytes()
    return np.ascontiguousarray(values, kind).tobytes()


@contextmanager
def refuse_wrong(content: Content) -> Iterator[None]:
    """A file that is not what it claims is said to be so, whatever reading it ran into."""
    try:
        yield
    except Unreadable:
        raise
    except _WRONG as error:
        said = " ".join(str(error).split())[:200]
        raise Unreadable(f"{content.path} cannot be read as tensors: {said or type(error).__name__}") from error


def open_archive(content: Content) -> Archive:
    """The tensors of a file; none of their values is read yet."""
    with refuse_wrong(content):
        head = content.read_head(9)
        if head.startswith(b"GGUF"):
            return _open_gguf(content)
        if head.startswith(b"\x93NUMPY"):
            return Archive("npy", {"array": _npy(content.size, lambda start, size: content.read(size, start), 0)})
        if head.startswith(b"\x89HDF\r\n\x1a"):
            return _open_hdf5(content, content.open(), content.size)
        if head.startswith(b"PK\x03\x04"):
            return _open_zip(content)
        if content.suffix == "safetensors" or head[8:] == b"{":
            return _open_safetensors(content)
    raise Unreadable(f"{content.path} is not a file of tensors that memlake knows")


def digest_part(archive: Archive, part: str) -> str:
    """The hash of a tensor, or of all below a name, by their types, shapes and bytes; empty if there is none."""
    below = tuple(f"{part}{dot}" for dot in "./")
    names = sorted(name for name in archive.tensors if name == part or name.startswith(below))
    digest = blake2b(digest_size=12)
    for name in names:
        tensor = archive.tensors[name]
        digest.update(json.dumps([name.removeprefix(part), tensor.dtype, tensor.shape]).encode())
        if tensor.strides is not None:
            digest.update(np.ascontiguousarray(tensor.read_array()).data)
            continue
        for start in range(0, tensor.size, _BLOCK):
            digest.update(tensor.read(start, min(_BLOCK, tensor.size - start)))
    return digest.hexdigest() if names else ""


def _check(dtype: str, shape: Sequence[int], size: int, name: str) -> None:
    if min(shape, default=0) < 0 or (dtype in _TYPES and math.prod(shape) * _TYPES[dtype][0] != size):
        raise ValueError(f"tensor {name!r} of shape {tuple(shape)} and type {dtype} does not take {size:,} bytes")


# -- safetensors --------------------------------------------------------------------------------


def _open_safetensors(content: Content) -> Archive:
    (length,) = struct.unpack("<Q", content.read_head(8))
    if length > min(_HEADER, content.size - 8):
        raise ValueError(f"its header claims {length:,} bytes")
    header = json.loads(content.read(length, 8))
    tensors = {}
    for name, facts in header.items():
        if name == "__metadata__":
            continue
        start, stop = facts["data_offsets"]
        if not 0 <= start <= stop <= content.size - 8 - length:
            raise ValueError(f"tensor {name!r} lies outside the file")
        _check(facts["dtype"], facts["shape"], stop - start, name)
        tensors[name] = _lying(content, str(facts["dtype"]), tuple(facts["shape"]), 8 + length + start, stop - start)
    return Archive("safetensors", tensors, header.get("__metadata__") or {})


def _lying(content: Content, dtype: str, shape: tuple[int, ...], start: int, size: int) -> Tensor:
    return Tensor(dtype, shape, size, lambda at, count: content.read(count, start + at), start)


# -- numpy --------------------------------------------------------------------------------------


def _npy(size: int, read: Callable[[int, int], bytes], start: int | None) -> Tensor:
    """An array behind its header; one of Python objects is refused."""
    head = read(0, min(size, 1 << 16))
    stream = io.BytesIO(head)
    version = np.lib.format.read_magic(stream)
    (length,) = struct.unpack("<H" if version[0] == 1 else "<I", stream.read(2 if version[0] == 1 else 4))
    facts = ast.literal_eval(stream.read(length).decode("latin-1"))
    dtype, shape, at = np.dtype(facts["descr"]), tuple(map(int, facts["shape"])), stream.tell()
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which memlake never loads")
    name = "BOOL" if dtype.kind == "b" else next((name for name, (_, kind) in _TYPES.items() if kind == dtype.str), "")
    if dtype.kind in "SU":  # texts of one width: their bits are compared
        name = dtype.str
    if not name:
        raise ValueError(f"its values are of type {dtype.str}, which memlake does not compare")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - at:
        raise ValueError(f"an array of shape {shape} and type {name} does not take {size - at:,} bytes")
    strides = None
    if facts["fortran_order"] and len(shape) > 1:
        strides = tuple(math.prod(shape[:place]) for place in range(len(shape)))
    where = None if start is None else start + at
    return Tensor(name, shape, size - at, lambda begin, count: read(at + begin, count), where, strides)


# -- zip: npz, torch, Keras ---------------------------------------------------------------------


def _open_zip(content: Content) -> Archive:
    archive = zipfile.ZipFile(content.open())
    names = {info.filename: info for info in archive.infolist()}
    for info in names.values():
        most = _RATIO if info.file_size < _UNPACKED else _LARGE_RATIO
        if info.file_size > max(info.compress_size, 1) * most:
            raise ValueError(f"{info.filename!r} claims to unpack to {info.file_size:,} bytes")
    pickles = [name for name in names if name.endswith("/data.pkl")]
    if pickles:
        return _open_torch(content, archive, pickles[0])
    if "model.weights.h5" in names:
        return _open_keras(content, archive, names["model.weights.h5"])
    if all(name.endswith(".npy") for name in names):
        arrays = {}
        for name, info in names.items():
            arrays[name.removesuffix(".npy")] = _npy(info.file_size, *_member(content, archive, info))
        return Archive("npz", arrays)
    raise ValueError("it is a zip archive without tensors")


def _member(
    content: Content, archive: zipfile.ZipFile, info: zipfile.ZipInfo
) -> tuple[Callable[[int, int], bytes], int | None]:
    """How to read a member, and where it lies if it is stored as it is."""
    if info.compress_type == zipfile.ZIP_STORED:
        head = content.read(30, info.header_offset)
        start = info.header_offset + 30 + sum(struct.unpack("<HH", head[26:30]))
        if start + info.file_size > content.size:
            raise ValueError(f"{info.filename!r} lies outside the file")
        return lambda at, count: content.read(count, start + at), start
    stream = archive.open(info)

    def read(at: int, count: int) -> bytes:
        stream.seek(at)  # forward it unpacks what lies between, backward it begins anew: nothing is kept
        return stream.read(count)

    return read, None


# -- torch --------------------------------------------------------------------------------------


class _Storage(NamedTuple):
    dtype: str
    key: str


class _View(NamedTuple):
    """A tensor as a pickle describes it: which storage, from where, of what shape."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


_ALLOWED: dict[str, Callable[..., Any]] = {
    "collections OrderedDict": dict,
    "torch._utils _rebuild_tensor_v2": lambda *facts: _View(*facts[:4]),
    "torch._utils _rebuild_parameter": lambda data, *_: data,
    "torch Size": tuple,
    "torch device": lambda *names: ":".join(map(str, names)),
}


def _open_torch(content: Content, archive: zipfile.ZipFile, pickle: str) -> Archive:
    info = archive.getinfo(pickle)
    if info.file_size > _PICKLE:
        raise ValueError(f"its list of tensors takes {info.file_size:,} bytes")
    value = _Machine(content.path).run(archive.read(info))
    folder, tensors, rest = pickle.removesuffix("data.pkl"), {}, {}
    for name, item in _flatten(value):
        if not isinstance(item, _View):
            rest[name] = item if isinstance(item, str | int | float | bool | None) else f"a {type(item).__name__}"
            continue
        member = archive.getinfo(f"{folder}data/{item.storage.key}")
        width = int(_TYPES[item.storage.dtype][0])
        last = item.offset + sum((n - 1) * s for n, s in zip(item.shape, item.strides, strict=True)) + 1
        count = math.prod(item.shape)
        if min((item.offset, *item.shape, *item.strides)) < 0 or (count and last * width > member.file_size):
            raise ValueError(f"tensor {name!r} lies outside its storage")
        read, start = _member(content, archive, member)
        plain = tuple(math.prod(item.shape[place + 1 :]) for place in range(len(item.shape)))
        at, strided = item.offset * width, item.strides != plain and count > 1
        size = (last - item.offset) * width if strided else count * width
        tensors[name] = Tensor(
            item.storage.dtype, item.shape, size, _shift(read, at),
            None if strided or start is None else start + at, item.strides if strided else None,
        )  # fmt: skip
    return Archive("torch", tensors, rest)


def _shift(read: Callable[[int, int], bytes], start: int) -> Callable[[int, int], bytes]:
    return lambda at, count: read(start + at, count)


def _flatten(value: Any) -> Iterator[tuple[str, Any]]:
    """The values inside a value, each with the path to it; bounded by what is looked at, not by what is found."""
    left: list[tuple[str, Any]] = [("", value)]
    for _ in range(_ITEMS):
        if not left:
            return
        name, item = left.pop()
        is_list = isinstance(item, list | tuple) and not isinstance(item, _View)
        if isinstance(item, dict) or (is_list and any(isinstance(one, _View | dict) for one in item)):
            inner = item.items() if isinstance(item, dict) else enumerate(item)
            left += [(f"{name}.{key}" if name else str(key), one) for key, one in reversed(list(inner))]
        else:
            yield name or "value", item
    raise ValueError(f"it names more than {_ITEMS:,} values")


class _Machine:
    """Interprets the few opcodes that describe tensors. A name is kept as text, and none of theirs is ever called."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in ("PROTO", "FRAME"):
                continue
            if opcode.name == "STOP":
                return self.stack.pop()
            if opcode.name in _MAKERS:
                self.stack.append(_MAKERS[opcode.name]())
            elif opcode.name in _STEPS:
                _STEPS[opcode.name](self, argument)
            elif isinstance(argument, str | int | float | bytes):
                self.stack.append(argument)
            else:
                raise Unreadable(f"{self.path} holds {opcode.name}, which memlake does not interpret")
        raise ValueError("its list of tensors has no end")

    def pop_marked(self) -> list[Any]:
        at = self.marks.pop()
        items = self.stack[at:]
        del self.stack[at:]
        return items

    def pop(self, count: int) -> list[Any]:
        if count > len(self.stack):
            raise ValueError("its list of tensors takes more than it gave")
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def name(self, module: str, thing: str) -> None:
        _refuse_unknown(self.path, f"{module} {thing}")
        self.stack.append(f"{module} {thing}")

    def set_items(self, items: list[Any]) -> None:
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def extend(self, items: list[Any]) -> None:
        self.stack[-1].extend(items)

    def find_storage(self) -> None:
        kind, storage, key = self.stack.pop()[:3]
        if kind != "storage":
            raise Unreadable(f"{self.path} asks for {str(kind)[:60]!r}, which memlake does not load from a checkpoint")
        self.stack.append(_Storage(_TORCH[str(storage).rsplit(" ", 1)[-1]], str(key)))

    def reduce(self) -> None:
        function, arguments = self.pop(2)
        self.stack.append(_ALLOWED[function](*arguments))


_MAKERS: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple,
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
}  # fmt: skip
_STEPS: dict[str, Callable[[_Machine, Any], Any]] = {
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "PUT": lambda machine, place: machine.memo.update({int(place): machine.stack[-1]}),
    "MEMOIZE": lambda machine, _: machine.memo.update({len(machine.memo): machine.stack[-1]}),
    "GET": lambda machine, place: machine.stack.append(machine.memo[int(place)]),
    "GLOBAL": lambda machine, name: machine.name(*name.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.name(*map(str, machine.pop(2))),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.pop_marked())),
    "TUPLE1": lambda machine, _: machine.stack.append(tuple(machine.pop(1))),
    "TUPLE2": lambda machine, _: machine.stack.append(tuple(machine.pop(2))),
    "TUPLE3": lambda machine, _: machine.stack.append(tuple(machine.pop(3))),
    "LIST": lambda machine, _: machine.stack.append(machine.pop_marked()),
    "SETITEM": lambda machine, _: machine.set_items(machine.pop(2)),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_marked()),
    "APPEND": lambda machine, _: machine.extend(machine.pop(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.pop_marked()),
    "BINPERSID": lambda machine, _: machine.find_storage(),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BUILD": lambda machine, _: machine.pop(1),  # attributes of a dict of weights, of which none is a tensor
}
_STEPS |= {"BINPUT": _STEPS["PUT"], "LONG_BINPUT": _STEPS["PUT"], "BINGET": _STEPS["GET"], "LONG_BINGET": _STEPS["GET"]}


def _refuse_unknown(path: str, name: str) -> None:
    module, _, thing = name.partition(" ")
    if name not in _ALLOWED and not (module in ("torch", "torch.storage") and thing in _TORCH):
        raise Unreadable(f"{path} asks for {f'{module}.{thing}'[:80]!r}, which memlake does not load from a checkpoint")


# -- GGUF and HDF5 ------------------------------------------------------------------------------


def _open_gguf(content: Content) -> Archive:
    stream = io.BufferedReader(content.open())

    def take(form: str) -> Any:
        size = struct.calcsize(form)
        return struct.unpack(form, stream.read(size))[0]

    def take_text() -> str:
        length = take("<Q")
        if length > 1 << 24:
            raise ValueError(f"a name claims {length:,} bytes")
        return stream.read(length).decode("utf-8", "replace")

    def take_value(kind: int, depth: int = 0) -> Any:
        if kind == 8:
            return take_text()
        if kind == 9:
            inner, number = take("<I"), take("<Q")
            if depth > 4 or number > content.size:
                raise ValueError(f"a list claims {number:,} values")
            return [take_value(inner, depth + 1) for _ in range(number)]
        return take(("<B", "<b", "<H", "<h", "<I", "<i", "<f", "<?", "", "", "<Q", "<q", "<d")[kind])

    stream.seek(4)
    version, tensors, pairs = take("<I"), take("<Q"), take("<Q")
    if version not in (2, 3) or max(tensors, pairs) > content.size:
        raise ValueError(f"its header claims version {version}, {tensors:,} tensors and {pairs:,} facts")
    metadata = {take_text(): take_value(take("<I")) for _ in range(pairs)}
    listed = []
    for _ in range(tensors):
        name, dimensions = take_text(), take("<I")
        if dimensions > 8:
            raise ValueError(f"tensor {name!r} claims {dimensions} dimensions")
        shape = tuple(take("<Q") for _ in range(dimensions))[::-1]
        listed.append((name, shape, take("<I"), take("<Q")))
    step = int(metadata.get("general.alignment", 32)) or 32
    start = -(-stream.tell() // step) * step
    found = {}
    for name, shape, kind, offset in listed:
        dtype = _GGUF.get(kind, f"GGML_{kind}")
        per, width = _QUANTS.get(kind, (1, _TYPES.get(dtype, (0, None))[0]))
        size = int(-(-math.prod(shape) // per) * width)
        if start + offset + size > content.size:
            raise ValueError(f"tensor {name!r} lies outside the file")
        found[name] = _lying(content, dtype, shape, start + offset, size)
    return Archive("gguf", found, {key: value for key, value in metadata.items() if not isinstance(value, list)})


def _open_keras(content: Content, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Archive:
    """The weights inside a Keras archive: read in place where they are stored as they are, as Keras does."""
    if info.compress_type == zipfile.ZIP_STORED:
        return _open_hdf5(content, archive.open(info), info.file_size)
    if info.file_size > _UNPACKED:
        raise ValueError(f"{info.filename!r} is packed and claims to unpack to {info.file_size:,} bytes")
    return _open_hdf5(content, io.BytesIO(archive.read(info)), info.file_size)


def _open_hdf5(content: Content, stream: Any, size: int) -> Archive:
    try:
        import h5py  # an extra of its own
    except ImportError:
        raise Unreadable(f"{content.path} is HDF5; to look inside: pip install 'memlake[hdf5]'") from None
    found: dict[str, Tensor] = {}

    def visit(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset) or item.dtype.kind not in "fiub":
            return
        # Both could name any file of this machine, and a dataset of which nothing is stored can claim any size.
        if item.external or item.is_virtual:
            raise ValueError(f"dataset {name!r} lies in another file, which memlake does not open")
        if item.nbytes > max(size, 1) * _LARGE_RATIO:
            raise ValueError(f"dataset {name!r} claims {item.nbytes:,} bytes")
        kind = item.dtype.newbyteorder("<").str.replace("|b1", "|u1")
        dtype = next((key for key, (_, text) in _TYPES.items() if text == kind), None)
        if dtype is None:
            raise ValueError(f"dataset {name!r} is of type {item.dtype}, which memlake does not compare")
        found[name] = Tensor(dtype, item.shape, item.nbytes, _read_dataset(item))

    h5py.File(stream, "r").visititems(visit)  # soft and external links are not followed
    return Archive("hdf5", found)


def _read_dataset(item: Any) -> Callable[[int, int], bytes]:
    """Reads a dataset when it is asked for, and keeps it while it is read from its start to its end."""
    kept: list[bytes] = []

    def read(at: int, count: int) -> bytes:
        if not kept:
            raw = np.ascontiguousarray(item[()])
            kept.append(raw.astype(item.dtype.newbyteorder("<"), copy=False).tobytes())
        data = kept[0][at : at + count]
        if at + count >= len(kept[0]):
            kept.clear()
        return data

    return read
