"""What is on disk is a promise: known content has known bytes and hashes, and a newer format is refused untouched."""

from __future__ import annotations

import hashlib
import shutil
import struct
import uuid
from pathlib import Path

import apsw
import msgpack
import pytest

import memlake as ml
from memlake.errors import Corrupt, InvalidInput
from memlake.objects.chunks import decode_list, encode_list
from memlake.objects.packs import read_footer
from memlake.objects.places import Folder
from memlake.records import Author, Change, Commit, Entry
from memlake.versions.trees import codec, tree
from tests.reliability.ground import forged


def _set_format(root: Path, value: object) -> None:
    db = apsw.Connection(str(root / ".memlake/repo.db"))
    if value is None:
        db.execute("DELETE FROM meta WHERE key = 'format'")
    else:
        db.execute("UPDATE meta SET value = ? WHERE key = 'format'", (value,))
    db.close()


def test_a_repo_of_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    ml.init(tmp_path / "repo").close()
    _set_format(tmp_path / "repo", 3)
    before = (tmp_path / "repo/.memlake/repo.db").read_bytes()
    with pytest.raises(InvalidInput, match="format 3") as caught:
        ml.open(tmp_path / "repo")
    assert "pip install -U memlake" in caught.value.hint
    assert (tmp_path / "repo/.memlake/repo.db").read_bytes() == before


def test_a_repo_of_format_1_is_refused_by_every_verb_and_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    ml.init(root).close()
    _set_format(root, 1)
    with forged(root / ".memlake/repo.db") as database:
        database.execute("CREATE INDEX object_role ON object(role) WHERE role <> 1")  # as format 1 had it
    before = (root / ".memlake/repo.db").read_bytes()
    for verb in (ml.open, ml.init):
        with pytest.raises(InvalidInput, match=r"format 1.*older memlake") as caught:
            verb(root)
        assert "memlake memory export" in caught.value.hint
        assert (root / ".memlake/repo.db").read_bytes() == before


def test_an_id_is_given_by_init_and_stays_the_same_in_every_copy(tmp_path: Path) -> None:
    with ml.init(tmp_path / "a") as repo, ml.init(tmp_path / "other") as other:
        known = repo._id
        assert uuid.UUID(known).version == 7
        assert known != other._id
    ml.init(tmp_path / "a").close()  # a second init changes nothing
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with ml.open(tmp_path / "a") as one, ml.open(tmp_path / "b") as two:
        assert one._id == two._id == known


def test_two_copies_made_before_the_first_memory_give_an_agent_one_path(tmp_path: Path) -> None:
    ml.init(tmp_path / "a").close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    paths = []
    for name in "ab":
        with ml.open(tmp_path / name) as repo:
            repo.memories().set_state("bot", "goal", name)
            paths.append([path for path, _ in repo.ls("HEAD", "state/")])
    assert paths[0] == paths[1] != []


@pytest.mark.parametrize("fact", ["id", "salt"])
@pytest.mark.parametrize("value", [None, 7, "../../etc", b"short"])
def test_a_damaged_id_or_salt_is_an_error_and_never_made_anew(tmp_path: Path, fact: str, value: object) -> None:
    ml.init(tmp_path).close()
    db = apsw.Connection(str(tmp_path / ".memlake/repo.db"))
    db.execute("DELETE FROM meta WHERE key = ?", (fact,))
    if value is not None:
        db.execute("INSERT INTO meta VALUES(?, ?)", (fact, value))
    db.close()
    with ml.open(tmp_path) as repo, pytest.raises(Corrupt):
        _ = repo._id if fact == "id" else repo.memories().set_state("bot", "goal", "x")


@pytest.mark.parametrize("value", [None, "one", 0, -1])
def test_a_repo_without_a_sensible_format_is_refused(tmp_path: Path, value: object) -> None:
    ml.init(tmp_path / "repo").close()
    _set_format(tmp_path / "repo", value)
    with pytest.raises(Corrupt, match="format"):
        ml.open(tmp_path / "repo")


def test_an_entry_is_its_oid_kind_mode_and_size() -> None:
    entry = Entry("ab" * 32, "file", 1000, 1)
    assert codec.encode_entry(entry) == bytes.fromhex("ab" * 32) + b"\0\1" + b"\xe8\x03"
    assert codec.decode_entry(codec.encode_entry(entry)) == entry
    assert codec.encode_entry(Entry("cd" * 32, "memory", 0)) == bytes.fromhex("cd" * 32) + b"\4\0"


def test_a_commit_has_the_bytes_and_the_hash_it_always_had() -> None:
    commit = Commit(
        oid="", lane="work", root="11" * 32, parents=("22" * 32,), other=None, author=Author("Ann", "a@b.c"),
        time=1_700_000_000_000_000, message="say", changes=(Change("files/a", None, Entry("33" * 32, "file", 1)),),
        meta={"about": "44" * 32}, generation=2,
    )  # fmt: skip
    data = codec.encode_commit(commit)
    assert msgpack.unpackb(data) == [
        1, 0, b"\x11" * 32, [b"\x22" * 32], None, ["Ann", "a@b.c"], 1_700_000_000_000_000, "say",
        [["files/a", None, b"\x33" * 32 + b"\0\0\1"]], {"about": b"\x44" * 32}, 2,
    ]  # fmt: skip
    assert hashlib.sha256(data).hexdigest() == "4973e868340feb818efadf983ce50d7c17adb4d4e25bf4947949f7f4da607648"


def test_a_tree_has_the_root_it_always_had() -> None:
    root, _ = tree.build(sorted((b"files/%04d" % n, b"value %d" % n) for n in range(1000)))
    assert tree.EMPTY.hex() == "c394c22accdc5e6f47d906d1d10ce49b5a9c7ec7a7ade00987c77e34aa3a61ae"
    assert root.hex() == "52686ec9833cc4131df2d47f85a8eeaa736f79a3108ee166761d9abf63520e58"


def test_a_chunk_list_is_a_check_and_its_items() -> None:
    oid, chunk = b"\1" * 32, b"\2" * 32
    body = struct.pack("<32sI", chunk, 70_000)
    assert encode_list(oid, [(chunk, 70_000)]) == hashlib.sha256(oid + body).digest() + body
    assert decode_list(oid, encode_list(oid, [(chunk, 70_000)])) == [(chunk, 70_000)]


def test_a_pack_written_by_hand_from_its_description_is_read(tmp_path: Path) -> None:
    content = b"one record"
    record = [hashlib.sha256(content).digest(), 2, 8, len(content), len(content), 1, None]
    repo = uuid.UUID("0199c5b0-1111-7222-8333-444455556666")
    footer = msgpack.packb([repo.bytes, b"nonce of 16 byte", [record]])
    name = hashlib.sha256(footer).hexdigest()
    pack = b"MLPACK02" + content + footer + len(footer).to_bytes(8, "little") + b"MLPACKED"
    (tmp_path / name).write_bytes(pack)
    assert read_footer(Folder(tmp_path), name) == (str(repo), (tuple(record),))
