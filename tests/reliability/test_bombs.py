"""Small repos that claim to hold much: every verb answers with words that name what is wrong, in little memory."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import memlake as ml
from memlake.dataset.parts import parquet
from memlake.errors import Corrupt, InvalidInput
from memlake.memories.memories import Draft
from memlake.objects import packs
from memlake.objects.chunks import encode_list
from memlake.records import Entry
from memlake.versions.trees import codec, nodes, tree
from tests.reliability.ground import forged

MOST = 300  # megabytes
GIGABYTE = 1 << 30
VERBS = ["recall Rex", "memory ls", "state ls", "log", "tag", "ops", "cat a.txt", "ls", "undo", "fsck", "fsck --full"]
CHILD = """
import contextlib, io, json, os, re, sys
from memlake.cli.main import main
for line in sys.stdin:
    folder, verbs = json.loads(line)
    os.chdir(folder)
    said = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        for verb in verbs:
            main(verb.split())
    # Not ru_maxrss: it counts what the parent had when it started us.
    most = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10
    print(json.dumps([said.buffer.getvalue().decode(errors="replace"), most]), flush=True)
"""


class Bomb(NamedTuple):
    name: str
    plant: Callable[[Path], str]  # returns what the answer has to name


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("small") / "repo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMLAKE_AUTHOR_NAME", "Ada")
        patch.setenv("MEMLAKE_AUTHOR_EMAIL", "ada@example.org")
        with ml.init(root) as repo:
            repo.config.set("embedding.provider", "none")
            (root / "a.txt").write_text("hello\n")
            (root / "big.bin").write_bytes(os.urandom(1_100_000))
            repo.add(all=True)
            repo.commit("one")
            repo.tags.create("v1", message="first")
            repo.memories().store(Draft("Rex is a dog", "bot"))
            repo.memories().set_state("bot", "k", {"a": 1})
    return root


@functools.cache
def bomb() -> bytes:
    """A frame of 100 KB that holds a gigabyte."""
    packer = zstandard.ZstdCompressor(level=1).compressobj(size=GIGABYTE)
    piece = bytes(1 << 24)
    return b"".join(packer.compress(piece) for _ in range(GIGABYTE // len(piece))) + packer.flush()


def edit(repo: Path, sql: str, *args: object, file: str = "repo.db") -> None:
    with forged(repo / ".memlake" / file) as database:
        database.execute(sql, args)
        assert database.changes() > 0, sql


def oid_of(repo: Path, room: str) -> str:
    with ml.open(repo) as opened:
        return next(entry.oid for path, entry in opened.ls() if path.startswith(room))


def objects() -> Iterator[Bomb]:
    """Rows of objects that say more than they hold, for each kind of object that a verb reads whole."""
    many, times = encode_list, GIGABYTE >> 16
    forms: dict[str, Callable[[bytes], tuple[int, int, bytes]]] = {
        "a frame of a gigabyte": lambda _: (packs.INLINE_ZSTD, GIGABYTE, bomb()),
        "a frame of a gigabyte with a row that hides it": lambda _: (packs.INLINE_ZSTD, 5000, bomb()),
        "a size without a frame": lambda _: (packs.INLINE_ZSTD, 1 << 40, b"x"),
        "a frame without a size": lambda _: (packs.INLINE_ZSTD, 300, zstandard.ZstdCompressor(write_content_size=False)
                                            .compress(b"a" * 300)),
        "a negative size": lambda _: (packs.INLINE_ZSTD, -1, bomb()),
        "a chunk named many times": lambda oid: (packs.CHUNKED, GIGABYTE, many(oid, [(oid, 1 << 16)] * times)),
        "chunks that do not add up": lambda oid: (packs.CHUNKED, 6, many(oid, [(oid, 4_000_000_000)] * 9)),
        "a chunk list of itself": lambda oid: (packs.CHUNKED, 6, many(oid, [(oid, 6)])),
        "other bytes": lambda _: (packs.INLINE, 9, b"\xff" * 9),
    }  # fmt: skip
    for room in ("memories/", "state/", "files/a.txt"):
        for name, make in forms.items():

            def plant(repo: Path, room: str = room, make: Callable[[bytes], tuple[int, int, bytes]] = make) -> str:
                oid = bytes.fromhex(oid_of(repo, room))
                form, size, data = make(oid)
                edit(repo, "UPDATE object SET form = ?, size = ?, data = ? WHERE oid = ?", form, size, data, oid)
                return oid.hex()[:10]

            yield Bomb(f"{room} as {name}", plant)


DEEP = b"\x91" * 100_000 + b"\xc0"  # msgpack: a list in a list in a list ...
WIDE = b"\xdd\xff\xff\xff\xff" * 1000  # lists that claim four billion items each
RECORDS = {
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "long number": b'{"salt":' + b"9" * 100_000 + b"}",
    "no record": b"[]",
}


def records() -> Iterator[Bomb]:
    """Records whose bytes are what their hash says, and that no reader of JSON takes."""
    for room in ("memories/", "state/"):
        for name, content in RECORDS.items():

            def plant(repo: Path, room: str = room, content: bytes = content) -> str:
                with ml.open(repo) as opened:
                    path = next(path for path, _ in opened.ls() if path.startswith(room))
                    opened.write({path: content}, "evil")
                return ""

            yield Bomb(f"{room} is {name}", plant)


def rows() -> Iterator[Bomb]:
    for name, data in {"deep": DEEP, "wide": WIDE, "short": b"\x9b\x01"}.items():
        for table in ("history", "node"):
            yield Bomb(
                f"{table} is {name}", lambda repo, t=table, d=data: edit(repo, f"UPDATE {t} SET data = ?", d) or ""
            )
        yield Bomb(
            f"note is {name}", lambda repo, d=data: edit(repo, "UPDATE ref SET note = ? WHERE kind = 1", d) or ""
        )
        yield Bomb(f"footer is {name}", lambda repo, d=data: footer(repo, d))
    for name, data in {"a gigabyte": bomb(), "no frame": b"x", "deep": zstandard.compress(DEEP)}.items():
        sql = "INSERT INTO operation(time, verb, detail, before) VALUES(1, 'add', 'x', ?)"
        yield Bomb(f"operation is {name}", lambda repo, d=data, s=sql: edit(repo, s, d, file="local.db") or "operation")
    for levels in (2, 7, 300):
        yield Bomb(f"a tree of {levels} levels that repeats itself", lambda repo, n=levels: repeating(repo, n))
    yield Bomb("settings of two megabytes", settings)
    yield Bomb("settings whose one key has 20,000 parts", dotted_settings)
    yield Bomb("settings that open 50,000 lists", nested_settings)


def footer(repo: Path, data: bytes) -> str:
    pack = next(file for file in (repo / ".memlake" / "packs").iterdir() if len(file.name) == 64)
    content, name = pack.read_bytes(), hashlib.sha256(data).hexdigest()
    pack.unlink()
    (pack.parent / name).write_bytes(content + data + len(data).to_bytes(8, "little") + packs.END)
    edit(repo, "UPDATE pack SET name = ?, size = ?", name, (pack.parent / name).stat().st_size)
    return name[:10]


def repeating(repo: Path, levels: int) -> str:
    """A few nodes that stand for 200 to the power of `levels` paths, in a commit that a branch names."""
    entry = codec.encode_entry(next(e for e in _entries(repo)))
    data = tree.encode(0, [f"memories/bot/{n:03}".encode() for n in range(200)], [entry] * 200)
    with forged(repo / ".memlake" / "repo.db") as database:
        for level in range(1, levels + 1):
            oid = tree.oid_of(data)
            database.execute("INSERT INTO node(key, keep, data) VALUES(?, 1, ?)", (nodes.key_of(oid), data))
            data = tree.encode(level, [f"memories/bot/{n:03}".encode() for n in range(200)], [oid] * 200)
        root = tree.oid_of(data)
        database.execute("INSERT INTO node(key, keep, data) VALUES(?, 1, ?)", (nodes.key_of(root), data))
        seq, old = database.execute("SELECT seq, data FROM history WHERE lane = 1 ORDER BY seq DESC LIMIT 1").fetchone()
        fields = msgpack.unpackb(old)
        fields[2] = root
        new = msgpack.packb(fields)
        database.execute("UPDATE history SET data = ?, oid = ? WHERE seq = ?", (new, hashlib.sha256(new).digest(), seq))
        database.execute("UPDATE ref SET memory = ?", (hashlib.sha256(new).digest(),))
    shutil.rmtree(repo / ".memlake" / "index", ignore_errors=True)
    return ""


def _entries(repo: Path) -> Iterator[Entry]:
    with ml.open(repo) as opened:
        yield from [entry for path, entry in opened.ls() if path.startswith("memories/")]


def dotted_settings(repo: Path) -> str:
    (repo / ".memlake" / "config.toml").write_text("a" + ".a" * 20_000 + " = 1\n")
    return "a line with more than 100 dots"


def nested_settings(repo: Path) -> str:
    (repo / ".memlake" / "config.toml").write_text("a = " + "[" * 50_000)
    return "nested deeper than any setting"


def settings(repo: Path) -> str:
    (repo / ".memlake" / "config.toml").write_bytes(b"#" * (2 << 20))
    return "config.toml is larger than"


def test_no_bomb_takes_more_memory_than_a_small_machine_has(
    small: Path, tmp_path: Path, tally: Callable[..., None]
) -> None:
    bombs = [*objects(), *records(), *rows()]
    assert len(bombs) >= 40
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MEMLAKE_PAGER": "cat"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", CHILD], env=env, text=True, **pipes) as child:  # type: ignore[call-overload]
        assert child.stdin is not None
        assert child.stdout is not None
        for number, one in enumerate(bombs):
            repo = shutil.copytree(small, tmp_path / str(number))
            named = one.plant(repo)
            child.stdin.write(json.dumps([str(repo), VERBS]) + "\n")
            child.stdin.flush()
            answer = child.stdout.readline()
            assert answer, (one.name, child.stderr.read() if child.stderr else "")
            said, most = json.loads(answer)
            assert "fatal: unexpected" not in said, (one.name, said)
            assert named in said, (one.name, said)
            assert most < MOST, (one.name, most)
            shutil.rmtree(repo)
        child.stdin.close()
    tally(hostile_inputs=len(bombs) * len(VERBS))


def test_a_dictionary_of_one_long_text_takes_no_more_memory_either(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of 300 bytes: one text of a megabyte, and 2,000 rows that name it."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * (1 << 20)]))

    def write(_: pa.Table, file: Path) -> None:
        pq.write_table(pa.table({"x": text}), file, compression="zstd", write_page_checksum=True, store_schema=False)

    with ml.open(shutil.copytree(small, tmp_path / "repo")) as repo:
        monkeypatch.setattr(parquet, "_write", write)
        repo.datasets().read_arrow(pa.table({"x": ["a"] * 2000})).save("bomb")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MEMLAKE_PAGER": "cat"}
    verbs = ["dataset preview bomb", "dataset export bomb out.csv"]
    given = json.dumps([str(tmp_path / "repo"), verbs]) + "\n"
    child = subprocess.run(
        [sys.executable, "-c", CHILD], input=given, env=env, capture_output=True, text=True, check=True
    )
    said, most = json.loads(child.stdout)
    assert said.count("more than a part has") == len(verbs), said
    assert most < MOST, most


def test_what_shrinks_enormously_is_padded_and_comes_back(tmp_path: Path) -> None:
    data = bytes(5_000_000)
    packed = packs.squeeze(data)
    assert packed is not None
    assert len(packed) == len(data) // packs.RATIO
    assert packs.expand(packed, len(data)) == data
    with pytest.raises(Corrupt, match="200 to one at most"):
        packs.expand(packed[:-1], len(data))
    with ml.init(tmp_path) as repo:
        repo.write({"files/zeros": data}, "zeros")
        assert repo.read("zeros") == data


def test_a_large_object_is_read_whole_only_where_it_was_asked_for(small: Path, tmp_path: Path) -> None:
    with ml.open(shutil.copytree(small, tmp_path / "repo")) as repo:
        oid = repo.objects.at("big.bin").oid
        with pytest.raises(Corrupt, match="a record has at most 1,000"):
            repo._history.objects.read(oid, most=1000)
        assert len(repo.read("big.bin")) == 1_100_000


def test_a_value_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    deep: list[object] = []
    for _ in range(2000):
        deep = [deep]
    with ml.init(tmp_path) as repo:
        for store in (
            lambda: repo.memories().set_state("bot", "k", deep),
            lambda: repo.memories().set_state("bot", "k", {"a": (deep,)}),
        ):
            with pytest.raises(InvalidInput, match="nested more than 100 levels deep"):
                store()


# -- trees that no edit makes -------------------------------------------------------------------------


def _forged_trees() -> dict[str, tuple[bytes, dict[bytes, bytes]]]:
    """By what is wrong with it: the root of a tree, and its nodes."""
    leaf = tree.encode(0, [b"a", b"b"], [b"1", b"2"])
    other = tree.encode(0, [b"c", b"d"], [b"1", b"2"])
    above = tree.encode(1, [b"b", b"d"], [tree.oid_of(leaf), tree.oid_of(other)])
    early = tree.encode(0, [b"a", b"d"], [b"1", b"2"])
    tail = tree.encode(0, [b"c", b"f"], [b"1", b"2"])
    over_tail = tree.encode(1, [b"f"], [tree.oid_of(tail)])
    tops = {
        "a child that begins before its place": tree.encode(1, [b"b", b"d"], [tree.oid_of(leaf), tree.oid_of(early)]),
        "a grandchild that begins before its place": tree.encode(
            2, [b"d", b"f"], [tree.oid_of(above), tree.oid_of(over_tail)]
        ),
        "a child that hangs there twice": tree.encode(1, [b"b", b"d"], [tree.oid_of(leaf)] * 2),
        "children that end elsewhere": tree.encode(1, [b"c", b"e"], [tree.oid_of(leaf), tree.oid_of(other)]),
        "children of another level": tree.encode(2, [b"b", b"d"], [tree.oid_of(leaf), tree.oid_of(other)]),
        "keys out of order": msgpack.packb([1, b"", [b"d", b"b"], [tree.oid_of(other), tree.oid_of(leaf)]]),
        "a key that is no bytes": msgpack.packb([0, b"", [7], [b"1"]]),
        "a child that is no oid": tree.encode(1, [b"b"], [b"short"]),
        "an inner node without children": tree.encode(1, [], []),
        "grandchildren under two parents": tree.encode(
            2, [b"d", b"f"], [tree.oid_of(above), tree.oid_of(tree.encode(1, [b"b", b"f"], [tree.oid_of(leaf)] * 2))]
        ),
    }
    twice = tree.encode(1, [b"b", b"f"], [tree.oid_of(leaf)] * 2)
    return {
        name: (
            tree.oid_of(top),
            {tree.oid_of(data): data for data in (leaf, other, above, twice, early, tail, over_tail, top)},
        )
        for name, top in tops.items()
    }


FORGED = _forged_trees()
WAYS: dict[str, Callable[[tree.GetMany, bytes], object]] = {
    "get": lambda nodes, root: tree.get(nodes, root, [b"a", b"d", b"f"]),
    "following": lambda nodes, root: tree.find_next_keys(nodes, root, [b"a", b"d", b"f"]),
    "scan": lambda nodes, root: list(tree.scan(nodes, root)),
    "edit": lambda nodes, root: tree.edit(nodes, root, {b"a": b"3", b"d": b"3", b"e": None}),
    "diff": lambda nodes, root: tree.diff(nodes, tree.EMPTY, root),
    "diff from it": lambda nodes, root: tree.diff(nodes, root, tree.EMPTY),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", FORGED)
def test_a_tree_that_no_edit_makes_is_refused_however_it_is_read(fault: str, way: str) -> None:
    root, stored = FORGED[fault]
    stored = {**stored, tree.EMPTY: tree.EMPTY_DATA}
    with pytest.raises(Corrupt):
        WAYS[way](lambda oids: {oid: tree.decode(stored[oid]) for oid in oids}, root)


def test_a_node_that_fits_into_one_of_two_trees_is_refused_in_the_other() -> None:
    leaf, shared = tree.encode(0, [b"a", b"b"], [b"1", b"2"]), tree.encode(0, [b"a", b"d"], [b"1", b"2"])
    sound = tree.encode(1, [b"d"], [tree.oid_of(shared)])
    forged = tree.encode(1, [b"b", b"d"], [tree.oid_of(leaf), tree.oid_of(shared)])
    stored = {tree.oid_of(data): tree.decode(data) for data in (leaf, shared, sound, forged)}
    for pair in ((sound, forged), (forged, sound)):
        with pytest.raises(Corrupt, match="is not what its parent says"):
            tree.diff(lambda oids: {oid: stored[oid] for oid in oids}, *map(tree.oid_of, pair))
