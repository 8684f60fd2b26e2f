"""Copying objects out: sharing blocks with the packs on a file system that can, copying everywhere else."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import Corrupt
from memlake.objects.copy_out import copy_out

SIZE = 12 << 20


@pytest.fixture
def xfs(tmp_path: Path) -> Iterator[Path]:
    """A small XFS file system: it has reflinks."""
    if os.geteuid() != 0 or shutil.which("mkfs.xfs") is None:
        pytest.skip("needs root and mkfs.xfs to mount a file system with reflinks")
    image, mount = tmp_path / "xfs.img", tmp_path / "mount"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(400 << 20)
    subprocess.run(["mkfs.xfs", "-q", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(mount)], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a loop device")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def stored(root: Path) -> tuple[ml.Repo, bytes, str]:
    repo = ml.init(root)
    data = random.Random(5).randbytes(SIZE)
    (root / "big.bin").write_bytes(data)
    repo.add(root / "big.bin")
    commit = repo.commit("big")
    entry = repo.show(commit).changes[0].new
    assert entry is not None
    return repo, data, entry.oid


def copied(repo: ml.Repo, oid: str, target: Path) -> int:
    fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        return copy_out(repo._history.objects, oid, fd)
    finally:
        os.close(fd)


def test_checkout_shares_nearly_all_blocks_of_a_large_file_with_its_pack(xfs: Path) -> None:
    repo, data, oid = stored(xfs)
    shared = copied(repo, oid, xfs / "copy.bin")
    assert (xfs / "copy.bin").read_bytes() == data
    assert shared > SIZE * 0.9


def test_blocks_of_an_edited_file_are_shared_where_old_and_new_lie_alike(xfs: Path) -> None:
    repo, data, _ = stored(xfs)
    edited = data[: SIZE // 2] + random.Random(6).randbytes(100_000) + data[SIZE // 2 + 100_000 :]
    (xfs / "big.bin").write_bytes(edited)
    repo.commit("edited", all=True)
    repo.switch("main", force=True)
    entry = dict(repo.ls())["files/big.bin"]
    assert copied(repo, entry.oid, xfs / "copy.bin") > SIZE * 0.8
    assert (xfs / "copy.bin").read_bytes() == edited


def test_a_damaged_chunk_is_not_shared_out_either(xfs: Path) -> None:
    repo, _, oid = stored(xfs)
    pack = next((xfs / ".memlake" / "packs").iterdir())
    with pack.open("r+b") as file:
        file.seek(SIZE // 2)
        byte = file.read(1)[0]
        file.seek(SIZE // 2)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(Corrupt):
        copied(repo, oid, xfs / "copy.bin")


def test_where_blocks_cannot_be_shared_they_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.ioctl", refuse)
    repo, data, oid = stored(tmp_path)
    assert copied(repo, oid, tmp_path / "copy.bin") == 0
    assert (tmp_path / "copy.bin").read_bytes() == data
