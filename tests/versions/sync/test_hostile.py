"""Remotes made by somebody who means harm: each is refused in plain words, and the repo here stays as it was.

Each case takes a good remote, does one thing to it, and gives it new names wherever a clever attacker would, so that
the guard behind the names is the one that is met.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import pytest
import zstandard

import memlake as ml
from memlake.objects.packs import DELTA, END, MAGIC, PACKED, PACKED_ZSTD, squeeze_against
from memlake.objects.purge import PurgeRecord, PurgeRequest, purge
from memlake.repo import Repo
from memlake.versions.sync.batch import MAGIC as BATCH
from memlake.versions.sync.batch import decode_batch
from memlake.versions.trees import codec, tree
from tests.reliability.ground import fast_folder
from tests.versions.sync.conftest import commit, put, remember, snapshot

ELSEWHERE = "01a1f072-bf78-7667-aaf2-000000000000"
FILE = codec.encode_entry(ml.records.Entry("ab" * 32, "file", 5, 0))
Fields = list[Any]
Edit = Callable[["Evil"], None]


class World(NamedTuple):
    """A remote in its second state, a clone that knows the first, and whoever made both."""

    ours: Repo
    remote: Path
    good: Path
    clone: Path


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with fast_folder() as here, ml.init(here / "ours") as ours:
        put(ours, "deep/er/b.csv", b"id,v\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(500)))
        commit(ours, "a.txt", b"hello\n", "one")
        ours.add(all=True)
        ours.commit("two")
        remember(ours, "The dev server runs on port 8080", "Rex is a cat")
        ours.remotes.add("origin", here / "remote")
        ours.push()
        ml.clone(here / "remote", here / "clone").close()
        rng = random.Random(8)
        put(ours, "new/big.bin", rng.randbytes(1_200_000))
        put(ours, "new/packed.bin", rng.randbytes(40_000))
        put(ours, "new/words.txt", b"".join(b"%d,%s\n" % (i, rng.randbytes(9).hex().encode()) for i in range(3000)))
        put(ours, "a.txt", b"third\n")
        ours.add(all=True)
        ours.commit("three")
        commit(ours, "new/last.txt", b"last\n" * 9, "four")
        remember(ours, "Cats purr at 25 Hz")
        ours.push()
        shutil.copytree(here / "remote", here / "good")
        yield World(ours, here / "remote", here / "good", here / "clone")


@pytest.fixture
def victim(world: World) -> Iterator[Repo]:
    """A clone that stands at the first state of the remote."""
    _restore(world)
    with fast_folder() as here:
        shutil.copytree(world.clone, here / "victim")
        with ml.open(here / "victim") as repo:
            (settings,) = repo.remotes
            repo.remotes.keep(settings)  # this home never gave the address
            yield repo


def _restore(world: World) -> None:
    """The remote as it was: what is not the good file of that name goes, and what is lacking is copied."""
    good, now = _list_files(world.good), _list_files(world.remote)
    for name in now.keys() - good.keys() | {name for name in good.keys() & now.keys() if good[name] != now[name]}:
        (world.remote / name).unlink()
        now.pop(name)
    for name in good.keys() - now.keys():
        shutil.copy2(world.good / name, world.remote / name)


def _list_files(folder: Path) -> dict[str, tuple[int, int]]:
    """Files with size and time: whoever writes one changes its time, and a copy keeps it."""
    found = ((path, path.lstat()) for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (at.st_size, at.st_mtime_ns) for path, at in found}


class Evil:
    """The remote in the hands of an attacker, who can compute every hash there is."""

    def __init__(self, world: World) -> None:
        self.folder, self.history = world.remote, world.ours._history
        self.root = json.loads((self.folder / "root").read_bytes())
        self.repo = uuid.UUID(self.root["repo"]).bytes

    def save(self) -> None:
        (self.folder / "root").write_text(json.dumps(self.root))

    # -- batches

    def fields(self, at: int) -> Fields:
        data = (self.folder / "log" / self.root["log"][at][0]).read_bytes()
        return list(msgpack.unpackb(zstandard.ZstdDecompressor().decompress(data[len(BATCH) :])))

    def put_batch(self, at: int, fields: object) -> None:
        self.put_log(at, BATCH + zstandard.ZstdCompressor().compress(msgpack.packb(fields)))

    def put_log(self, at: int, data: bytes) -> None:
        name = hashlib.sha256(data).hexdigest()
        (self.folder / "log" / name).write_bytes(data)
        self.root["log"][at][:2] = [name, len(data)]
        self.save()

    def change(self, at: int, field: int, edit: Callable[[Any], Any]) -> None:
        """Change one field of the batch at this place of the log."""
        fields = self.fields(at)
        fields[field] = edit(fields[field])
        self.put_batch(at, fields)

    # -- commits

    def commits(self, at: int) -> list[bytes]:
        name = self.root["log"][at][0]
        return list(decode_batch(name, (self.folder / "log" / name).read_bytes(), self.repo).commits)

    def head(self, lane: int = 0) -> str:
        return str(self.root["refs"]["0/main"][lane])

    def add_commit(self, data: bytes, lane: int = 0) -> None:
        """A commit at the end of the lane, with the branch on it."""
        self.change(-2 + lane, 4, lambda rows: [*rows, [0, data]])
        self.root["refs"]["0/main"][lane] = hashlib.sha256(data).hexdigest()
        self.save()

    def forge(self, edits: Mapping[str, bytes | None], lane: int = 0, **changed: object) -> None:
        """A commit on the head whose tree is right for these edits, whatever they are; then some fields changed."""
        head = self.history.get(self.head(lane))
        keys = {path.encode(): value for path, value in edits.items()}
        root, _ = tree.edit(self.history.nodes.get_many, self.history.root(head), keys)
        before = tree.get(self.history.nodes.get_many, self.history.root(head), keys)
        listed = [[path, before.get(path.encode()), edits[path]] for path in sorted(edits)]
        fields = {
            "format": 1, "lane": lane, "root": root, "parents": [bytes.fromhex(head.oid)], "other": None,
            "author": ["Eve", "eve@example.org"], "time": head.time + 1, "message": "hm", "changes": listed, "meta": {},
            "generation": head.generation + 1,
        }  # fmt: skip
        self.add_commit(msgpack.packb(list({**fields, **changed}.values())), lane)

    # -- packs

    def add_pack(self, records: list[list[Any]], payload: bytes, **changed: Any) -> str:
        """A pack of these records, named in the log and in the root."""
        footer = msgpack.packb([changed.get("repo", self.repo), b"n" * 16, records])
        name = hashlib.sha256(footer).hexdigest()
        data = MAGIC + payload + changed.get("footer", footer) + len(footer).to_bytes(8, "little") + END
        (self.folder / "packs" / name).write_bytes(data)
        size = changed.get("size", len(data))
        self.root["packs"].append([name, size, 0, []])
        self.change(-3, 7, lambda packs: [*packs, [name, size, footer]])
        return name

    def add_record(self, content: bytes = b"x" * 40, **changed: object) -> None:
        """A pack of one record that is right but for what is changed."""
        fields = {
            "oid": hashlib.sha256(content).digest(), "form": PACKED, "start": len(MAGIC), "length": len(content),
            "size": len(content), "role": 1, "links": None,
        }  # fmt: skip
        self.add_pack([list({**fields, **changed}.values())], content)

    def add_object(self, content: bytes, links: bytes | None = None) -> bytes:
        self.change(-2, 5, lambda rows: [*rows, [content, 1, links]])
        return hashlib.sha256(content).digest()

    def add_purge(self, record: PurgeRecord | None = None, data: bytes = b"", name: str = "") -> None:
        data = record.encode() if record else data
        name = name or hashlib.sha256(data).hexdigest()
        (self.folder / "purges").mkdir(exist_ok=True)
        (self.folder / "purges" / name).write_bytes(data)
        self.root["purges"].append(name)
        self.save()

    def flip(self, file: Path, at: int = -1) -> None:
        data = bytearray(file.read_bytes())
        data[at] ^= 1
        file.write_bytes(data)


# -- the cases: what is done, and what is said of it

CASES: dict[str, tuple[Edit, str]] = {}


def case(says: str) -> Callable[[Edit], Edit]:
    def add(edit: Edit) -> Edit:
        CASES[edit.__name__] = edit, says
        return edit

    return add


def _root(name: str, says: str, **fields: object) -> None:
    def edit(evil: Evil) -> None:
        evil.root.update(fields)
        evil.save()

    CASES[f"root_{name}"] = edit, says


def _text(name: str, says: str, text: str) -> None:
    CASES[f"root_{name}"] = (lambda evil: _write_root(evil, text)), says


def _write_root(evil: Evil, text: str) -> None:
    (evil.folder / "root").write_text(text)


_text("that_is_not_json", "root that cannot be read", "<html>sign in</html>")
_text("that_is_deep", "root that cannot be read", "[" * 200_000)
_text("that_is_a_list", "root that cannot be read", "[1, 2]")
_text("of_more_than_16_MiB", "at most 16,777,216", '{"format": 1, "log": [' + " " * (16 << 20) + "]}")
_text("of_millions_of_lists", "5,592,000 lists", '{"format": 1, "log": [' + ",".join(["[]"] * 5_591_998) + "]}")
_text("of_millions_of_lists_in_lists", "lists; at most", "[" + ",".join([("[" * 500) + ("]" * 500)] * 16_000) + "]")
_text("without_fields", "root that cannot be read", '{"format": 1}')
_text("of_a_number_too_long", "root that cannot be read", '{"format": 1' + "0" * 5000 + "}")
_text("of_bytes_that_are_no_text", "root that cannot be read", '{"format": 1, "head": "\\ud800"')
_root("of_a_newer_format", "this memlake reads up to", format=99)
_root("of_another_repo", "holds another repo", repo=ELSEWHERE)
_root("with_an_id_of_a_path", "root that cannot be read", repo="../../../../etc/passwd")
_root("of_a_number_as_id", "root that cannot be read", repo=7)
_root("with_a_salt_too_long", "root that cannot be read", salt="00" * 1000)
_root("with_a_huge_generation", "root that cannot be read", generation=1 << 60)
_root("with_a_negative_generation", "root that cannot be read", generation=-1)
_root("with_a_fraction", "root that cannot be read", generation=2.5)
_root("with_true_for_a_number", "root that cannot be read", generation=True)
_root("with_a_head_of_a_path", "root that cannot be read", head="../x")
_root("with_a_head_called_HEAD", "root that cannot be read", head="HEAD")
_root("with_refs_as_a_list", "root that cannot be read", refs=["0/main"])
_root("with_a_token_of_a_list", "root that cannot be read", token=[])
_root("with_a_log_of_names", "root that cannot be read", log=["ab" * 32])
_root("with_a_file_of_a_path", "root that cannot be read", log=[["../../root", 10, 0, 1]])
_root("with_a_file_of_lane_7", "no lane", log=[["ab" * 32, 10, 7, 1, 9, 1, []]])
_root("with_a_huge_file", "too many", log=[["ab" * 32, 1 << 50, 0, 1, 9, 1, []]])
_root("with_a_file_that_is_not_there", "log/abab", log=[["ab" * 32, 10, 0, 1, 9, 1, []]])
_root("with_a_file_joined_of_numbers", "root that cannot be read", log=[["ab" * 32, 10, 0, 1, 9, 1, [5]]])
_root("with_a_file_joined_of_paths", "root that cannot be read", log=[["ab" * 32, 10, 0, 1, 9, 1, ["../../root"]]])
_root("with_a_pack_joined_of_a_list", "root that cannot be read", packs=[["ab" * 32, 10, 0, [[["ab" * 8], 1]]]])
_root("with_an_archive_of_a_path", "root that cannot be read", archives=[["../../root", 10, 1]])
_root("with_an_archive_of_a_negative_size", "root that cannot be read", archives=[["ab" * 32, -1, 1]])
_root("with_an_archive_of_texts", "root that cannot be read", archives="ab")
_root("with_purges_of_a_path", "root that cannot be read", purges=["../packs/x"])
_root("with_a_purge_that_is_not_there", "purges/abab", purges=["ab" * 32])
_root("with_condemned_texts", "root that cannot be read", condemned={"ab" * 32: "soon"})
_root("with_a_million_entries", "is not a list of at most", purges=["ab"] * 1_000_001)

for _name in ("../x", "HEAD", "-rf", "a..b", "x.lock", "a b", "ab" * 32, ".hidden", "a\x1b[31m", "a\u202eb", "x" * 300):
    for _kind in (0, 1):
        _root(f"with_a_ref_{_kind}/{ascii(_name)[:20]}", "name of a ref", refs={f"{_kind}/{_name}": [None, None, None]})
_root("with_a_ref_of_kind_9", "name of a ref", refs={"9/main": [None, None, None]})
_root("with_a_ref_of_kind_3", "name of a ref", refs={"3/origin/main": [None, None, None]})


@case("at most")
def root_of_ten_gigabytes(evil: Evil) -> None:
    with (evil.folder / "root").open("r+b") as file:
        file.truncate(10 << 30)


@case("names commit abab")
def ref_that_names_nothing(evil: Evil) -> None:
    evil.root["refs"]["0/main"][0] = "ab" * 32
    evil.save()


@case("names commit")
def ref_with_a_memory_commit_as_work(evil: Evil) -> None:
    evil.root["refs"]["0/main"][0] = evil.head(1)
    evil.save()


@case("names commit")
def ref_with_a_work_commit_as_memory(evil: Evil) -> None:
    evil.root["refs"]["0/main"][1] = evil.head(0)
    evil.save()


@case("names commit abab")
def tag_that_names_nothing(evil: Evil) -> None:
    evil.root["refs"]["1/v9"] = ["ab" * 32, None, None]
    evil.save()


@case("cannot be read")
def tag_with_a_note_that_is_none(evil: Evil) -> None:
    evil.root["refs"]["1/v9"] = [evil.head(), None, "00ff"]
    evil.save()


# batches


@case("does not match its name|cannot be read")
def batch_of_other_bytes(evil: Evil) -> None:
    evil.flip(evil.folder / "log" / evil.root["log"][-2][0])


@case("is shorter|missing|does not match")
def batch_cut_short(evil: Evil) -> None:
    file = evil.folder / "log" / evil.root["log"][-2][0]
    file.write_bytes(file.read_bytes()[:-20])


@case("is not a batch")
def batch_that_is_a_script(evil: Evil) -> None:
    evil.put_log(-2, b"#!/bin/sh\nrm -rf /\n")


@case("claims to unpack to")
def batch_that_claims_a_terabyte(evil: Evil) -> None:
    evil.put_log(-2, BATCH + b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00")


@case("claims to unpack to")
def batch_that_does_not_say_its_size(evil: Evil) -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    evil.put_log(-2, BATCH + stream.compress(bytes(1 << 20)) + stream.flush())


@case("cannot be read")
def batch_that_is_not_zstd(evil: Evil) -> None:
    evil.put_log(-2, BATCH + b"\x28\xb5\x2f\xfd\x20\x05garbage")


@case("at most")
def batch_of_millions_of_empty_rows(evil: Evil) -> None:
    fields = evil.fields(-2)
    head = b"\x9c" + b"".join(msgpack.packb(field) for field in fields[:5])
    rows = b"\xdd" + (40_000_000).to_bytes(4, "big") + b"\x90" * 40_000_000
    evil.put_log(-2, BATCH + zstandard.ZstdCompressor().compress(head + rows + msgpack.packb([]) * 6))


@case("cannot be read")
def batch_of_deep_lists(evil: Evil) -> None:
    evil.put_log(-2, BATCH + zstandard.ZstdCompressor().compress(b"\x91" * 100_000 + b"\xc0"))


@case("cannot be read|wrong types")
def batch_with_a_row_that_is_a_bomb(evil: Evil) -> None:
    fields = evil.fields(-2)
    head = b"\x9c" + b"".join(msgpack.packb(field) for field in fields[:5])
    row = b"\x91\x93" + b"\xdd" + (60_000_000).to_bytes(4, "big") + b"\x90" * 60_000_000 + b"\x01\xc0"
    evil.put_log(-2, BATCH + zstandard.ZstdCompressor().compress(head + row + msgpack.packb([]) * 6))


@case("cannot be read")
def batch_with_more_behind_it(evil: Evil) -> None:
    data = msgpack.packb(evil.fields(-2)) + b"\xc0"
    evil.put_log(-2, BATCH + zstandard.ZstdCompressor().compress(data))


@case("too many")
def batch_of_a_hundred_megabytes(evil: Evil) -> None:
    evil.root["log"][-2][1] = 100 << 20
    evil.save()


def _field(name: str, says: str, field: int, edit: Callable[[Any], Any], at: int = -2) -> None:
    CASES[f"batch_{name}"] = (lambda evil: evil.change(at, field, edit)), says


def _cell(row: int, cell: int, value: object) -> Callable[[Any], Any]:
    def edit(rows: Any) -> Any:
        rows[row][cell] = value
        return rows

    return edit


_WRONG = "wrong types|cannot be read"
_field("of_another_format", "format", 0, lambda _: 2)
_field("of_another_repo", "another repo", 1, lambda _: uuid.UUID(ELSEWHERE).bytes)
_field("of_a_repo_that_is_a_number", _WRONG, 1, lambda _: 5)
_field("with_a_token_of_text", _WRONG, 2, lambda _: "token")
_field("of_lane_7", _WRONG, 3, lambda _: 7)
_field("of_lane_minus_1", _WRONG, 3, lambda _: -1)
_field("of_lane_true", _WRONG, 3, lambda _: True)
_field("of_a_lane_that_the_root_does_not_say", "than the root says", 3, lambda _: 1)
for _number, _what in enumerate(["commits", "objects", "lists", "packs", "parts", "moves", "purges", "signatures"], 4):
    _field(f"with_{_what}_that_are_a_number", _WRONG, _number, lambda _: 5)
    _field(f"with_{_what}_that_are_a_map", _WRONG, _number, lambda _: {"a": 1})
    _field(f"with_{_what}_of_numbers", _WRONG, _number, lambda _: [5])
    _field(f"with_{_what}_of_empty_rows", _WRONG, _number, lambda _: [[]])
    _field(f"with_{_what}_of_nested_rows", _WRONG, _number, lambda _: [[[[]] * 3] * 8])
_field("with_a_commit_of_text", _WRONG, 4, _cell(0, 1, "text"))
_field("with_a_commit_of_garbage", "cannot be read", 4, _cell(0, 1, b"garbage"))
_field("with_a_first_commit_behind_another", "cannot be read|not here|does not|not written", 4, _cell(0, 0, 1))
_field("with_content_of_text", _WRONG, 5, _cell(0, 0, "text"))
_field("with_role_0", _WRONG, 5, _cell(0, 1, 0))
_field("with_role_99", _WRONG, 5, _cell(0, 1, 99))
_field("with_links_of_31_bytes", _WRONG, 5, _cell(0, 2, b"x" * 31))
_field("with_links_that_nothing_names", "does not name", 5, _cell(0, 2, b"x" * 32))
_field("with_a_list_of_a_short_oid", _WRONG, 6, _cell(0, 0, b"x"))
_field("with_a_list_of_2_to_the_60", "add up", 6, _cell(0, 1, 1 << 60))
_field("with_a_list_of_2_to_the_63", _WRONG, 6, _cell(0, 1, 1 << 63))
_field("with_a_list_of_negative_size", _WRONG, 6, _cell(0, 1, -5))
_field("with_a_list_of_other_bytes", "is damaged", 6, _cell(0, 4, b"x" * 68))
_field("with_a_part_of_text", _WRONG, 8, lambda _: [["ab" * 32, 5, 1, None]])
_field("with_a_part_of_2_to_the_60", "parts/", 8, lambda _: [[b"x" * 32, 1 << 60, 1, None, 0]])
_field("with_a_part_of_a_path", _WRONG, 8, lambda _: [[b"x" * 32, 100, 1, None, "/../../root"]])
_field("with_a_part_that_is_not_there", "parts/", 8, lambda _: [[b"x" * 32, 100, 1, None, 0]])
_field("with_a_move_of_kind_9", _WRONG, 9, lambda _: [[9, "main", 0, None, None, 5, "push", "eve"]])
_field("with_a_move_of_a_number", _WRONG, 9, lambda _: [[0, 5, 0, None, None, 5, "push", "eve"]])
_field("with_signatures_of_texts", _WRONG, 11, lambda _: [["a", "b"]])


@case("needed and was not sent")
def batch_without_its_objects(evil: Evil) -> None:
    evil.change(-2, 5, lambda _: [])


@case("needed and was not sent|add up|is not in this repo")
def batch_without_its_packs(evil: Evil) -> None:
    evil.change(-3, 7, lambda _: [])
    evil.root["packs"].pop()
    evil.save()


@case("link to each other|was not sent|does not name")
def objects_that_link_to_what_was_not_sent(evil: Evil) -> None:
    evil.add_object(b"see " + b"ab" * 32, bytes.fromhex("ab" * 32))


# chunk lists


def _add_list(evil: Evil, oid: bytes, size: int, items: list[tuple[bytes, int]]) -> None:
    body = b"".join(chunk + length.to_bytes(4, "little") for chunk, length in items)
    row = [oid, size, 1, None, hashlib.sha256(oid + body).digest() + body]
    evil.change(-2, 6, lambda rows: [*rows, row])


@case("add up")
def list_that_names_itself(evil: Evil) -> None:
    _add_list(evil, b"x" * 32, 100, [(b"x" * 32, 100)])


@case("add up")
def list_that_does_not_add_up(evil: Evil) -> None:
    _add_list(evil, b"x" * 32, 100, [(evil.add_object(b"y" * 40), 40)])


@case("do not make it up")
def list_of_other_chunks(evil: Evil) -> None:
    _add_list(evil, b"x" * 32, 80, [(evil.add_object(b"y" * 40), 40), (evil.add_object(b"z" * 40), 40)])


@case("not the chunk of")
def list_of_chunks_of_another_length(evil: Evil) -> None:
    _add_list(evil, b"x" * 32, 60, [(evil.add_object(b"y" * 40), 30), (evil.add_object(b"z" * 40), 30)])


@case("not in this repo")
def list_of_chunks_that_are_nowhere(evil: Evil) -> None:
    _add_list(evil, b"x" * 32, 60, [(b"y" * 32, 30), (b"z" * 32, 30)])


@case("not the chunk of|add up|do not make")
def lists_in_lists_in_lists(evil: Evil) -> None:
    names = [bytes([at]) * 32 for at in range(40)]
    for at in range(39):
        _add_list(evil, names[at], 2000 - at, [(names[at + 1], 1999 - at), (evil.add_object(b"1"), 1)])
    _add_list(evil, names[39], 1961, [(evil.add_object(b"2" * 1961), 1961)])


# packs


@case("does not match its hash")
def pack_of_other_bytes(evil: Evil) -> None:
    evil.flip(evil.folder / "packs" / evil.root["packs"][-1][0], 5000)


@case("another footer|is not complete|missing")
def pack_cut_short(evil: Evil) -> None:
    file = evil.folder / "packs" / evil.root["packs"][-1][0]
    file.write_bytes(file.read_bytes()[:-200])


@case("what cannot be|missing|is not complete")
def pack_of_another_size_than_the_root_says(evil: Evil) -> None:
    evil.root["packs"][-1][1] += 100
    evil.save()


@case("footer of pack")
def pack_with_another_name(evil: Evil) -> None:
    evil.change(-3, 7, _cell(0, 0, "ab" * 32))
    evil.root["packs"].append(["ab" * 32, evil.root["packs"][-1][1], 0, []])
    evil.save()


@case(_WRONG)
def pack_with_a_name_of_a_path(evil: Evil) -> None:
    evil.change(-3, 7, _cell(0, 0, "../../.memlake/config.toml"))


@case("belongs to another repo")
def pack_of_another_repo(evil: Evil) -> None:
    evil.add_pack([], b"", repo=uuid.UUID(ELSEWHERE).bytes)


@case("makes no sense")
def pack_of_a_repo_of_text(evil: Evil) -> None:
    evil.add_pack([], b"", repo="me")


@case("another footer")
def pack_with_a_footer_of_its_own(evil: Evil) -> None:
    content = b"x" * 4000
    row = [hashlib.sha256(content).digest(), PACKED, 8, 4000, 4000, 1, None]
    footer = msgpack.packb([evil.repo, b"n" * 16, [row]])
    evil.add_pack([row], content, footer=footer[:-1] + b"\x01")


def _record(name: str, says: str, content: bytes = b"x" * 40, **changed: object) -> None:
    CASES[f"record_{name}"] = (lambda evil: evil.add_record(content, **changed)), says


_record("with_a_negative_start", "what cannot be", start=-5)
_record("before_the_pack_begins", "what cannot be", start=0)
_record("outside_the_file", "what cannot be", start=1 << 40)
_record("that_runs_into_the_footer", "what cannot be", length=100, size=100)
_record("of_negative_length", "what cannot be", length=-1)
_record("of_negative_size", "what cannot be", size=-1)
_record("of_2_to_the_60", "what cannot be", size=1 << 60)
_record("of_form_99", "what cannot be", form=99)
_record("of_form_0", "what cannot be", form=0)
_record("that_is_away", "what cannot be", form=7)
_record("of_role_0", "what cannot be", role=0)
_record("of_role_99", "what cannot be", role=99)
_record("with_a_short_oid", "what cannot be", oid=b"x")
_record("with_odd_links", "what cannot be", links=b"x" * 33)
_record("with_links_that_nothing_names", "does not name", links=b"y" * 32)
_record("with_a_start_of_text", "makes no sense", start="8")
_record("with_another_hash", "does not match its hash", oid=b"x" * 32)
_record("that_is_longer_than_it_says", "does not match its hash", size=41)
_record("that_is_no_zstd", "cannot be unpacked", form=PACKED_ZSTD)
_record("that_claims_too_much", "claim to hold", zstandard.compress(bytes(4 << 20)), form=PACKED_ZSTD, size=4 << 20)
_record("that_holds_more_than_it_says", "size its row says", zstandard.compress(bytes(900)), form=PACKED_ZSTD, size=800)


@case("what cannot be")
def records_that_overlap(evil: Evil) -> None:
    content = bytes(range(200))
    rows = [[hashlib.sha256(content[at : at + 99]).digest(), PACKED, 8 + at, 99, 99, 1, None] for at in range(50)]
    evil.add_pack(rows, content)


@case("what cannot be")
def record_that_is_there_twice(evil: Evil) -> None:
    content = b"x" * 40
    row = [hashlib.sha256(content).digest(), PACKED, 8, 40, 40, 1, None]
    evil.add_pack([row, row], content)


def _delta(evil: Evil, base: bytes, oid: bytes, payload: bytes, size: int) -> None:
    evil.add_pack([[oid, DELTA, 8, len(payload) + 32, size, 1, None]], base + payload)


@case("not match its hash|damaged")
def delta_of_something_else(evil: Evil) -> None:
    below, content = b"base " * 50, b"base " * 49 + b"other"
    _delta(evil, evil.add_object(below), b"x" * 32, squeeze_against(content, below), len(content))


@case("too many others|rests on")
def delta_that_rests_on_itself(evil: Evil) -> None:
    _delta(evil, b"x" * 32, b"x" * 32, squeeze_against(b"a" * 99, b"b" * 99), 99)


@case("is not in this repo|was not sent")
def delta_on_what_is_nowhere(evil: Evil) -> None:
    _delta(evil, b"y" * 32, b"x" * 32, squeeze_against(b"a" * 99, b"b" * 99), 99)


@case("what cannot be")
def delta_that_is_too_short(evil: Evil) -> None:
    evil.add_pack([[b"x" * 32, DELTA, 8, 5, 99, 1, None]], b"12345")


@case("what cannot be")
def delta_that_claims_too_much(evil: Evil) -> None:
    below = b"base " * 50
    _delta(evil, evil.add_object(below), b"x" * 32, squeeze_against(bytes(4 << 20), below), 4 << 20)


@case("was purged")
def delta_whose_base_is_purged(evil: Evil) -> None:
    below, content = b"base " * 50, b"base " * 49 + b"other"
    oid = evil.add_object(below)
    evil.add_purge(PurgeRecord(evil.root["repo"], (oid.hex(),), (), 5, "leak", "eve"))
    _delta(evil, oid, hashlib.sha256(content).digest(), squeeze_against(content, below), len(content))


# commits

PATHS = {
    "files/../../x": "is refused", "files/..": "is refused", "files/./x": "is refused", "files//x": "is refused",
    "/etc/passwd": "does not start with a room", "../x": "does not start with a room", "x": "does not start",
    "files//etc/passwd": "is refused", "files/": "is refused", "files": "is refused|does not start",
    "files/.memlake/config.toml": "is refused", "files/.MEMLAKE/x": "is refused", "files/memlak~1/x": "is refused",
    "files/.git/hooks/post-checkout": "is refused", "files/a/.Git/config": "is refused", "files/git~1/x": "is refused",
    "files/.g\u200cit/config": "is refused", "files/.git./config": "is refused", "files/con.txt": "is refused",
    "files/deep/NUL": "is refused", "files/a\x00b": "is refused", "files/a\nb": "is refused",
    "files/\x1b[31m": "is refused", "files/a\\..\\x": "is refused", "files/C:x": "is refused",
    f"files/{'x' * 300}": "is refused", f"files/{'x/' * 3000}x": "is refused", "elsewhere/x": "does not start",
    "memories/eve": "other lane", "files/a.txt/inside": "inside the file", "files/deep": "inside the file",
}  # fmt: skip
for _path, _says in PATHS.items():
    CASES[f"commit_of_path_{ascii(_path)[:40]}"] = (lambda evil, path=_path: evil.forge({path: FILE})), _says


def _commit(name: str, says: str, lane: int = 0, **changed: object) -> None:
    CASES[f"commit_{name}"] = (lambda evil: evil.forge({}, lane, **changed)), says


_SHAPE = "not written as commits are|cannot be read"
_commit("of_another_format", _SHAPE, format=2)
_commit("of_another_root", "do not lead to its tree", root=b"x" * 32)
_commit("of_a_short_root", _SHAPE, root=b"x")
_commit("of_a_root_of_text", _SHAPE, root="x" * 32)
_commit("of_an_unknown_parent", "is not in this repo", parents=[b"x" * 32])
_commit("without_parents", "does not fit|do not lead", parents=[])
_commit("of_three_parents", "not written as|is not in this repo", parents=[b"x" * 32] * 3)
_commit("of_short_parents", _SHAPE, parents=[b"x"])
_commit("of_parents_of_text", _SHAPE, parents=["x" * 32])
_commit("of_generation_0", "does not fit", generation=0)
_commit("of_a_huge_generation", "does not fit", generation=1 << 60)
_commit("of_a_generation_of_text", "does not fit|" + _SHAPE, generation="5")
_commit("of_a_time_of_text", _SHAPE, time="soon")
_commit("of_a_time_that_no_calendar_has", _SHAPE, time=1 << 62)
_commit("of_a_negative_time", _SHAPE, time=-(1 << 62))
_commit("of_a_message_of_bytes", _SHAPE, message=b"\xff\xfe")
_commit("of_a_message_of_a_number", _SHAPE, message=5)
_commit("of_an_author_of_numbers", _SHAPE, author=[5, 6])
_commit("of_three_authors", _SHAPE, author=["a", "b", "c"])
_commit("of_an_other_of_text", _SHAPE, other="x" * 32)
_commit("of_a_short_other", _SHAPE, other=b"x")
_commit("of_meta_of_numbers", _SHAPE, meta={"metrics": 5})
_commit("of_meta_of_short_oids", _SHAPE, meta={"metrics": b"x"})
_commit("of_meta_with_numbers_as_names", _SHAPE, meta={5: b"x" * 32})
_commit("of_meta_that_was_not_sent", "was not sent", meta={"metrics": b"x" * 32})
_commit("of_meta_that_is_a_list", _SHAPE, meta=[])
_commit("of_changes_of_text", "list of changes|" + _SHAPE, changes="abc")
_commit("of_changes_of_numbers", "list of changes|" + _SHAPE, changes=[1, 2])
_commit("of_changes_with_a_path_of_bytes", _SHAPE, changes=[[b"files/x", None, FILE]])
_commit("of_changes_that_did_not_happen", "do not lead", changes=[["files/a.txt", FILE, None]])
_commit("of_changes_that_are_nowhere", "cannot be read|is not in this repo|" + _SHAPE, changes=None)
_commit("of_changes_that_were_not_sent", "is not in this repo", changes=None, meta={"changes": b"x" * 32})
_commit("of_a_path_twice", "do not lead", changes=[["files/x", None, FILE], ["files/x", None, FILE]])
_commit("of_an_entry_of_no_kind", "not an entry", changes=[["files/x", None, b"x" * 32 + b"\x63\x00\x05"]])
_commit("of_an_entry_cut_short", "not an entry", changes=[["files/x", None, b"x" * 10]])
_commit("of_an_entry_of_text", "not an entry|" + _SHAPE, changes=[["files/x", None, "x" * 40]])
_commit("of_entry_with_zeros", "do not lead|" + _SHAPE, changes=[["files/x", None, FILE + b"\0\0"]])


@case("was not sent")
def commit_of_content_that_was_not_sent(evil: Evil) -> None:
    evil.forge({"files/x": FILE})


@case("another lane")
def commit_in_lane_7(evil: Evil) -> None:
    evil.forge({})
    fields = msgpack.unpackb(evil.commits(-2)[-1])
    evil.add_commit(msgpack.packb([1, 7, *fields[2:]]))


@case("not written as commits are")
def commit_that_is_written_another_way(evil: Evil) -> None:
    evil.forge({})
    fields = msgpack.unpackb(evil.commits(-2)[-1])
    long = msgpack.Packer(use_single_float=False)
    rest = b"".join(long.pack(field) for field in fields)
    evil.add_commit(b"\xdc\x00\x0b" + rest)


@case("of the other lane|another lane|does not fit")
def commit_of_memories_among_those_of_work(evil: Evil) -> None:
    evil.add_commit(evil.commits(-1)[-1])


@case("other lane")
def commit_of_a_file_among_memories(evil: Evil) -> None:
    evil.forge({"files/x": FILE}, lane=1)


@case("too long|bytes, which is too many|at most")
def commit_of_ten_megabytes(evil: Evil) -> None:
    evil.forge({}, message="x" * (10 << 20))


@case("records 5|has 5|bytes")
def commit_of_an_entry_of_another_size(evil: Evil) -> None:
    oid = evil.add_object(b"content")
    evil.forge({"files/x": codec.encode_entry(ml.records.Entry(oid.hex(), "file", 1 << 60, 0))})


# purges


@case("belongs to another repo")
def purge_of_another_repo(evil: Evil) -> None:
    evil.add_purge(PurgeRecord(ELSEWHERE, ("ab" * 32,), (), 5, "leak", "eve"))


@case("does not match its name")
def purge_of_other_bytes(evil: Evil) -> None:
    evil.add_purge(data=b"garbage", name="ab" * 32)


@case("cannot be read")
def purge_of_garbage(evil: Evil) -> None:
    evil.add_purge(data=b"garbage")


@case("cannot be read")
def purge_of_wrong_types(evil: Evil) -> None:
    evil.add_purge(data=msgpack.packb([1, evil.repo, [b"x" * 32], [], "soon", 5, None]))


@case("cannot be read")
def purge_of_short_oids(evil: Evil) -> None:
    evil.add_purge(data=msgpack.packb([1, evil.repo, [b"x"], [], 5, "", ""]))


@case("too many")
def purge_of_a_gigabyte(evil: Evil) -> None:
    evil.add_purge(data=b"x")
    with (evil.folder / "purges" / evil.root["purges"][-1]).open("r+b") as file:
        file.truncate(1 << 30)


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_remote_is_refused_and_changes_nothing(name: str, world: World, victim: Repo) -> None:
    (edit, says), fresh = CASES[name], Path(victim.root).parent / "fresh"
    edit(Evil(world))
    before = snapshot(victim)
    with pytest.raises(ml.errors.Error, match=says):
        victim.fetch()
    assert snapshot(victim) == before
    with pytest.raises(ml.errors.Error):
        ml.clone(world.remote, fresh)
    assert not (fresh / ".memlake").exists()
    _restore(world)
    assert victim.fetch().commits == 3 and victim.upkeep.fsck().ok


def test_a_clone_that_met_a_damaged_remote_goes_on_when_it_is_mended(world: World, tmp_path: Path) -> None:
    _restore(world)
    batch_of_other_bytes(Evil(world))
    with pytest.raises(ml.errors.Corrupt):
        ml.clone(world.remote, tmp_path / "fresh")
    _restore(world)
    with ml.clone(world.remote, tmp_path / "fresh") as repo:
        assert repo.upkeep.fsck(full=True).ok


def test_a_remote_with_our_id_and_another_salt_is_refused(world: World, victim: Repo) -> None:
    evil = Evil(world)
    evil.root["salt"] = "00" * 16
    evil.save()
    before = snapshot(victim)
    with pytest.raises(ml.errors.Corrupt, match="another salt"):
        victim.fetch()
    assert snapshot(victim) == before


def test_a_clone_is_not_given_another_salt(world: World, tmp_path: Path) -> None:
    evil = Evil(world)
    evil.root["salt"] = "00" * 16
    evil.save()
    with pytest.raises(ml.errors.Corrupt, match="was not made with"):
        ml.clone(world.remote, tmp_path / "fresh")
    assert not (tmp_path / "fresh").exists()
    _restore(world)


def test_a_remote_that_went_back_is_refused(world: World, victim: Repo) -> None:
    victim.fetch()
    evil = Evil(world)
    evil.root["generation"] = 1
    evil.save()
    before = snapshot(victim)
    with pytest.raises(ml.errors.Corrupt, match="went back from state 2 to 1"):
        victim.fetch()
    assert snapshot(victim) == before


def test_purged_content_that_is_sent_again_stays_away(world: World, victim: Repo) -> None:
    """By an innocent clone too, which has not heard of the purge."""
    leak = b"The password is heron\n"
    with victim._history.db.write():
        oid = victim._history.objects.write(leak)
    purge(victim._history.objects, PurgeRequest([oid], "leak", "me"))
    Evil(world).add_object(leak)
    victim.fetch()
    with pytest.raises(ml.errors.Purged):
        victim._history.objects.read(oid)


@pytest.mark.parametrize("changed", [{"form": 4}, {"form": 5}, {"role": 4}])
def test_a_record_that_is_no_object_of_a_pack_is_passed_over(
    changed: dict[str, int], world: World, victim: Repo
) -> None:
    Evil(world).add_record(**changed)
    victim.fetch()
    assert victim._history.objects.find_missing([hashlib.sha256(b"x" * 40).hexdigest()]) and victim.upkeep.fsck().ok
