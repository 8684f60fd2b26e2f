"""Checkpoints: every format is read without running anything, and what changed is measured tensor by tensor."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memlake.cli.screen import Screen
from memlake.contents import checkpoints
from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import How
from memlake.contents.tensors import open_archive
from memlake.views.contents import checkpoint_lines

RANDOM = np.random.default_rng(0)


def make_content(data: bytes, name: str = "model.safetensors") -> Content:
    return Content(f"files/{name}", len(data), lambda: io.BytesIO(data))


def safetensors(tensors: dict[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    body = b""
    names = {"<f4": "F32", "<f2": "F16", "<i8": "I64"}
    for name, array in tensors.items():
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": names[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def op_global(module: str, name: str) -> bytes:
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def torch_archive(tensors: dict[str, Any], *, extra: bytes = b"") -> bytes:
    """A checkpoint as torch.save writes it, its pickle assembled by hand."""
    out = io.BytesIO()
    text = b"\x80\x02}q\x00("
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for number, (name, array) in enumerate(tensors.items()):
            archive.writestr(f"archive/data/{number}", np.ascontiguousarray(array).tobytes())
            integers = b"".join(b"J" + struct.pack("<i", size) for size in array.shape)
            strides = b"".join(
                b"J" + struct.pack("<i", stride // array.itemsize) for stride in np.ascontiguousarray(array).strides
            )
            text += unicode(name) + op_global("torch._utils", "_rebuild_tensor_v2") + b"("
            text += b"(" + unicode("storage") + op_global("torch", "FloatStorage") + unicode(str(number))
            text += unicode("cpu") + b"K\x01" + b"tQ" + b"K\x00" + b"(" + integers + b"t(" + strides + b"t\x89"
            text += op_global("collections", "OrderedDict") + b")R" + b"tR"
        archive.writestr("archive/data.pkl", text + b"u" + extra + b".")
    return out.getvalue()


def unicode(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def npz(tensors: dict[str, Any], *, compressed: bool = False) -> bytes:
    out = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(out, **tensors)
    return out.getvalue()


WEIGHTS = {
    "layers.0.w": RANDOM.standard_normal((64, 48)).astype("<f4"),
    "layers.1.w": RANDOM.standard_normal((64, 48)).astype("<f4"),
    "head.b": np.arange(10, dtype="<f4"),
}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("m.safetensors", safetensors(WEIGHTS)),
        ("m.pt", torch_archive(WEIGHTS)),
        ("m.npz", npz(WEIGHTS)),
        ("m2.npz", npz(WEIGHTS, compressed=True)),
    ],
)
def test_every_format_gives_the_same_tensors(name: str, data: bytes) -> None:
    found = open_archive(make_content(data, name)).tensors
    assert {key: tensor.shape for key, tensor in found.items()} == {key: a.shape for key, a in WEIGHTS.items()}
    for key, tensor in found.items():
        assert np.array_equal(np.concatenate(list(tensor.blocks())), WEIGHTS[key].reshape(-1))
    other = checkpoints.diff(make_content(safetensors(WEIGHTS)), make_content(data, name), How())
    assert (other.identical, other.changed_count, other.added, other.removed) == (3, 0, (), ())


def test_what_changed_is_measured() -> None:
    edited = dict(WEIGHTS)
    del edited["head.b"]
    edited["head.c"] = WEIGHTS["head.b"]
    edited["layers.0.w"] = WEIGHTS["layers.0.w"].copy()
    edited["layers.0.w"][0, 0] += 1
    edited["layers.1.w"] = WEIGHTS["layers.1.w"].astype("<f2")
    found = checkpoints.diff(make_content(safetensors(WEIGHTS)), make_content(safetensors(edited)), How())
    assert (found.added, found.removed, found.identical) == (("head.c",), ("head.b",), 0)
    retyped, moved = found.changed
    assert (retyped.name, retyped.old_type, retyped.new_type, retyped.relative) == ("layers.1.w", "F32", "F16", None)
    assert (moved.changed, moved.rank) == (pytest.approx(1 / (64 * 48)), None)  # one value is of rank 1, too
    assert moved.largest == pytest.approx(1, abs=1e-6)
    assert moved.relative == pytest.approx(1 / np.linalg.norm(WEIGHTS["layers.0.w"].astype("f8")), rel=1e-6)
    assert [total.prefix for total in found.layers] == ["layers.0", "layers.1"]


def test_a_change_of_low_rank_is_said_and_of_full_rank_is_not() -> None:
    low = RANDOM.standard_normal((64, 4)) @ RANDOM.standard_normal((4, 48)) * 0.01
    full = RANDOM.standard_normal((64, 48)) * 0.01
    for change, rank in ((low, 4), (full, None)):
        edited = {**WEIGHTS, "layers.0.w": (WEIGHTS["layers.0.w"] + change).astype("<f4")}
        (moved,) = checkpoints.diff(
            make_content(safetensors(WEIGHTS)), make_content(safetensors(edited)), How()
        ).changed
        assert moved.rank == rank


def test_a_checkpoint_that_was_loaded_and_saved_again_is_bit_by_bit_the_same() -> None:
    weights = {"w": np.array([0.1, np.nan, -0.0, np.inf], "<f4")}
    found = checkpoints.diff(make_content(safetensors(weights)), make_content(safetensors(weights, {"a": "b"})), How())
    assert (found.identical, found.changed_count, found.metadata) == (1, 0, {"a": (None, "b")})


# A dict of dicts, each of which holds the one before it twice: sixty of them name 2 ** 60 values.
BOMB = b"\x80\x02}q\x00"
for _n in range(60):
    _held = b"h" + bytes([_n])
    BOMB += b"}(X\x01\x00\x00\x00a" + _held + b"X\x01\x00\x00\x00b" + _held + b"uq" + bytes([_n + 1])
BOMB += b"."


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("ran",)


def lie(header: dict[str, Any]) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * 8


def zip_with(name: str, data: bytes, *, squeeze: bool = False) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if squeeze else zipfile.ZIP_STORED) as archive:
        archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("m.pt", zip_with("archive/data.pkl", pickle.dumps(Evil(), 2)), "'__builtin__.print'"),
        ("m.pt", zip_with("archive/data.pkl", pickle.dumps(Evil())), "'builtins.print'"),
        ("m.pt", torch_archive(WEIGHTS, extra=op_global("os", "system")), "'os.system'"),
        ("m.pt", zip_with("archive/data.pkl", b"\x80\x02(((((("), "cannot be read as tensors"),
        ("m.pt", zip_with("other", b"x"), "a zip archive without tensors"),
        ("m.safetensors", struct.pack("<Q", 1 << 60) + b"{", "claims"),
        ("m.safetensors", lie({"w": {"dtype": "F32", "shape": [99], "data_offsets": [0, 8]}}), "does not take 8 bytes"),
        ("m.safetensors", lie({"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}), "outside the file"),
        ("m.pt", zip_with("archive/data.pkl", BOMB), "cannot be read as tensors|names more"),
        ("m.pt", zip_with("archive/data.pkl", b"K\x01K\x02K\x03s."), "cannot be read as tensors"),
        ("m.pt", zip_with("archive/data.pkl", b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s."), "cannot be read as tensors"),
        ("m.safetensors", struct.pack("<Q", 2) + b"[]", "cannot be read as tensors"),
        ("m.safetensors", b"", "not a file of tensors|cannot be read"),
        ("m.gguf", b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "claims"),
        (
            "m.npy",
            b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(118),
            "objects",
        ),
    ],
)
def test_a_hostile_file_runs_nothing_and_is_said_to_be_unreadable(
    name: str, data: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Unreadable, match=said):
        checkpoints.summarize(make_content(data, name))
    assert capsys.readouterr().out == ""


def test_a_zip_bomb_is_refused_before_it_is_unpacked() -> None:
    data = bytearray(zip_with("w.npy", b"\0" * 100_000, squeeze=True))
    place = data.rindex(b"PK\x01\x02")
    data[place + 24 : place + 28] = struct.pack("<I", 1 << 31)
    with pytest.raises(Unreadable, match="claims to unpack to"):
        open_archive(make_content(bytes(data), "m.npz"))


def test_gguf_tells_its_tensors_and_facts() -> None:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    data = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("general.name") + struct.pack("<I", 8) + text("tiny")
    data += text("w") + struct.pack("<IQQIQ", 2, 3, 2, 0, 0)
    data += b"\0" * (-len(data) % 32) + np.arange(6, dtype="<f4").tobytes()
    archive = open_archive(make_content(data, "m.gguf"))
    assert (archive.metadata, archive.tensors["w"].shape) == ({"general.name": "tiny"}, (2, 3))
    assert np.concatenate(list(archive.tensors["w"].blocks())).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_checkpoint_with_lists_and_numbers_beside_its_tensors_is_read() -> None:
    data = zip_with("archive/data.pkl", pickle.dumps({"params": [0, 1, 2], "lr": 0.1, "names": ("a", "b")}, 2))
    archive = open_archive(make_content(data, "m.pt"))
    assert (archive.tensors, archive.metadata["lr"], archive.metadata["params"]) == ({}, 0.1, "a list")


def test_an_array_of_truth_values_is_compared() -> None:
    sides = []
    for values in ([True, False], [True, True]):
        out = io.BytesIO()
        np.save(out, np.array(values))
        sides.append(make_content(out.getvalue(), "m.npy"))
    (change,) = checkpoints.diff(*sides, How()).changed
    assert change.changed == 0.5


def test_bits_that_differ_in_equal_numbers_are_told() -> None:
    """Whether saving changed a model is answered bit by bit."""
    old, new = {"w": np.array([0.0, 1.0, np.nan], "<f4")}, {"w": np.array([-0.0, 1.0, np.nan], "<f4")}
    found = checkpoints.diff(make_content(safetensors(old)), make_content(safetensors(new)), How())
    (change,) = found.changed
    assert (found.identical, change.relative, change.changed) == (0, 0, pytest.approx(1 / 3))
    said = list(checkpoint_lines(Screen(), found))[-1]
    assert said == "  ~ w: 33% of its values have other bits, but they are equal as numbers (-0.0, NaN)"


def hdf5(tensors: dict[str, Any]) -> bytes:
    h5py = pytest.importorskip("h5py")
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for name, tensor in tensors.items():
            file.create_dataset(name.replace(".", "/"), data=tensor)
    return out.getvalue()


@pytest.mark.parametrize("squeeze", [False, True])
def test_keras_and_hdf5_are_read_by_tensor(squeeze: bool) -> None:
    edited = {**WEIGHTS, "head.b": WEIGHTS["head.b"] + 1}
    for name in ("m.h5", "m.keras"):
        data = [hdf5(weights) for weights in (WEIGHTS, edited)]
        packed = [zip_with("model.weights.h5", one, squeeze=squeeze) for one in data] if name == "m.keras" else data
        sides = [make_content(one, name) for one in packed]
        found = checkpoints.diff(*sides, How())
        assert ([change.name for change in found.changed], found.identical) == (["head/b"], 2)
        assert found.changed[0].changed == 1
        assert checkpoints.summarize(sides[0]).parameters == 2 * 64 * 48 + 10
    big_endian = make_content(hdf5({key: value.astype(">f4") for key, value in WEIGHTS.items()}), "m.h5")
    assert checkpoints.diff(make_content(hdf5(WEIGHTS), "m.h5"), big_endian, How()).identical == 3


def test_hdf5_names_no_other_file_and_claims_no_more_than_it_has(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    (tmp_path / "secret.bin").write_bytes(b"\1" * 400)
    for said, shape, how in (
        ("lies in another file", (100,), {"external": [(str(tmp_path / "secret.bin"), 0, 400)]}),
        ("claims 4,000,000,000,000 bytes", (10**12,), {"chunks": (1000,)}),
    ):
        out = io.BytesIO()
        with h5py.File(out, "w") as file:
            file.create_dataset("w", shape=shape, dtype="<f4", **how)
        with pytest.raises(Unreadable, match=said):
            checkpoints.summarize(make_content(out.getvalue(), "m.h5"))


def test_a_packed_bomb_of_any_ratio_is_refused_and_a_broken_member_is_told() -> None:
    data = bytearray(zip_with("w.npy", b"\0" * 10_000_000, squeeze=True))
    place = data.rindex(b"PK\x01\x02")
    data[place + 20 : place + 28] = struct.pack("<II", 1_000_000, 300_000_000)  # no more than deflate could do
    with pytest.raises(Unreadable, match="claims to unpack to 300,000,000 bytes"):
        open_archive(make_content(bytes(data), "m.npz"))
    whole = npz({"w": RANDOM.standard_normal(300_000)}, compressed=True)
    broken = bytearray(whole)
    broken[len(whole) // 2 : len(whole) // 2 + 64] = b"\xff" * 64
    with pytest.raises(Unreadable, match="cannot be read as tensors"):
        checkpoints.diff(make_content(whole, "m.npz"), make_content(bytes(broken), "m.npz"), How())


def in_chunks(data: bytes) -> Content:
    """A checkpoint in chunks of which each is known by its bytes, as the store keeps it."""
    chunks = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    pieces = [(hashlib.sha256(chunk).digest(), len(chunk)) for chunk in chunks]
    return Content("m.safetensors", len(data), lambda: io.BytesIO(data), lambda: pieces)


def test_only_tensors_in_chunks_that_differ_are_read() -> None:
    weights = {f"layers.{number}.w": RANDOM.standard_normal((64, 64)).astype("<f4") for number in range(100)}
    old, new = (in_chunks(safetensors(one)) for one in (weights, {**weights, "layers.7.w": weights["layers.7.w"] + 1}))
    found = checkpoints.diff(old, new, How())
    assert (found.changed_count, found.identical) == (1, 99)
    header, tensor = 20_000, 64 * 64 * 4
    # Tensors beside the changed one may share a chunk with it, and each is read for its bits and for its values.
    assert max(old.bytes_read, new.bytes_read) < header + 6 * tensor


def test_of_a_working_file_and_a_stored_one_the_stored_one_is_read_only_where_they_differ() -> None:
    weights = {f"layers.{number}.w": RANDOM.standard_normal((64, 64)).astype("<f4") for number in range(100)}
    changed = {**weights, "layers.7.w": weights["layers.7.w"] + 1}
    for sides in ((in_chunks(safetensors(weights)), make_content(safetensors(changed), "m.safetensors")),
                  (make_content(safetensors(changed), "m.safetensors"), in_chunks(safetensors(weights)))):  # fmt: skip
        found = checkpoints.diff(*sides, How())
        assert (found.changed_count, found.identical) == (1, 99)
        stored, working = sorted(sides, key=lambda side: not side.has_pieces)
        header, tensor = 20_000, 64 * 64 * 4
        assert stored.bytes_read < header + 4 * tensor
        assert working.bytes_read < working.size + header + 4 * tensor, "once, but for what differs"


def test_bytes_before_the_tensors_may_move_them_in_a_working_file() -> None:
    weights = {f"layers.{number}.w": RANDOM.standard_normal((64, 64)).astype("<f4") for number in range(20)}
    more = {"a": np.zeros(1000, "<f4"), **weights}
    old, new = in_chunks(safetensors(weights)), make_content(safetensors(more), "m.safetensors")
    found = checkpoints.diff(old, new, How())
    assert (found.added, found.identical, found.changed_count) == (("a",), 20, 0) and old.bytes_read < 20_000


@pytest.mark.parametrize("where", [0, 5_000, 81_919])
def test_one_bit_in_a_working_file_is_seen_wherever_it_is(where: int) -> None:
    weights = {f"w{number}": RANDOM.integers(0, 250, 1024).astype("<i8") for number in range(10)}
    data = bytearray(safetensors(weights))
    data[len(data) - 81_920 + where] ^= 1
    found = checkpoints.diff(in_chunks(safetensors(weights)), make_content(bytes(data), "m.safetensors"), How())
    assert (found.changed_count, found.identical) == (1, 9)
