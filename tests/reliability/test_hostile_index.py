"""An index that a stranger made: its names lead nowhere else, its sizes claim nothing that is not there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

import memlake as ml
from memlake.index import generations, vector_file
from memlake.memories.memories import Draft
from tests.reliability.ground import forged
from tests.reliability.test_hostile_links import run

CANARY = os.urandom(20).hex()


@pytest.fixture(autouse=True)
def _nobody_waits() -> Iterator[None]:
    signal.alarm(60)  # opening a pipe would wait for ever: then the run ends here
    yield
    signal.alarm(0)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repo of 50 memories whose index has a segment and vectors."""
    root = tmp_path_factory.mktemp("known") / "repo"
    with ml.init(root) as repo:
        repo.config.set("embedding.provider", "test")
        repo.config.set("embedding.flush_seconds", "0")
        memories = repo.memories()
        memories.store_many([Draft(f"Rex number {n} is a dog", "bot") for n in range(50)])
        memories.wait(30)
        assert repo._shared is not None
        assert repo._shared.index.fold()
    return root


def generation(repo: Path) -> Path:
    return repo / ".memlake" / "index" / (repo / ".memlake" / "index" / "CURRENT").read_text()


def name_segment(repo: Path, name: str) -> None:
    """Let a row name another file; where the victim lies, a good segment, so that nothing else keeps a verb away."""
    shutil.copy(next(generation(repo).glob("*.seg")), repo.parent / "victim.txt")
    with forged(generation(repo) / "index.db") as database:
        database.execute("UPDATE segment SET name = ?", (name,))
        assert database.changes() == 1


def rewrite_head(repo: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A segment with another head, and the sums that fit it."""
    file = next(generation(repo).glob("*.seg"))
    data = file.read_bytes()
    at = len(generations.SEGMENT_MAGIC) + 18
    length = int(data[len(generations.SEGMENT_MAGIC) :][:8], 16)
    head, body = json.loads(data[at : at + length]), data[-(-(at + length) // 64) * 64 :]
    change(head)
    text = json.dumps(head).encode()
    start = generations.SEGMENT_MAGIC + b"%08x %08x\n" % (len(text), zlib.crc32(text)) + text
    file.write_bytes(start + b" " * (-len(start) % 64) + body)


def rewrite_vectors(repo: Path, **fields: object) -> None:
    folder = next((generation(repo) / "vectors").iterdir())
    content = (folder / vector_file._NAME).read_bytes()
    _, serial, _, _ = vector_file._STAMP.unpack_from(content)
    body = msgpack.packb({**msgpack.unpackb(content[vector_file._STAMP.size :]), **fields})
    stamp = vector_file._STAMP.pack(vector_file._MAGIC, serial, len(body), vector_file._checksum(serial, body))
    (folder / vector_file._NAME).write_bytes(stamp + body)
    for kind in ("rows", "vectors", "bits"):
        (folder / f"{kind}.x").mkdir(exist_ok=True)


def arrays(name: str, value: list[Any]) -> Callable[[Path], None]:
    return lambda repo: rewrite_head(repo, lambda head: head["arrays"].update({name: value}))


HOSTILE: dict[str, Callable[[Path], None]] = {
    "a segment elsewhere": lambda repo: name_segment(repo, "../../../../victim.txt"),
    "a segment by its whole path": lambda repo: name_segment(repo, str(repo.parent / "victim.txt")),
    "a segment that is a pipe": lambda repo: name_segment(repo, "../../../../pipe"),
    "vectors elsewhere": lambda repo: rewrite_vectors(repo, data="x/../../../../../../../victim.txt"),
    "bits elsewhere": lambda repo: rewrite_vectors(repo, bits="x/../../../../../../../victim.txt"),
    "vectors without end": lambda repo: rewrite_vectors(repo, count=1 << 39),
    "vectors of no block": lambda repo: rewrite_vectors(repo, block=0),
    "vectors less than none": lambda repo: rewrite_vectors(repo, count=-5),
    "words without end": arrays("hashes", ["<i8", 0, 1 << 50]),
    "words before the file": arrays("starts", ["<i8", -(1 << 40), 10]),
    "objects": arrays("docs", ["O", 0, 10]),
    "no array": arrays("scores", []),
    "a head without arrays": lambda repo: rewrite_head(repo, lambda head: head.pop("arrays")),
    "a head of another size": lambda repo: rewrite_head(repo, lambda head: head.update(size=1 << 50)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_verb_goes_where_a_hostile_index_leads(
    known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Callable[..., None], name: str
) -> None:
    monkeypatch.setenv("MEMLAKE_AUTHOR_NAME", "Ada")
    repo = shutil.copytree(known, tmp_path / "repo")
    (tmp_path / "victim.txt").write_text(CANARY)
    os.mkfifo(tmp_path / "pipe")
    HOSTILE[name](repo)
    before = (tmp_path / "victim.txt").stat(), (tmp_path / "victim.txt").read_bytes()
    monkeypatch.chdir(repo)
    for verb in ("hook prompt", "recall Rex", "remember Rex", "memory ls", "fsck", "gc"):
        said = run(*verb.split())
        assert "fatal: unexpected" not in said, (verb, said)
        assert CANARY not in said
    assert "Rex" in run("recall", "Rex")  # it was made again
    with ml.open(repo) as opened:
        memories = [path.rsplit("/", 1)[1] for path, _ in opened.ls() if path.startswith("memories/")]
        opened.memories().purge(memories[0], "asked for")
    after = (tmp_path / "victim.txt").stat(), (tmp_path / "victim.txt").read_bytes()
    assert (after[0].st_mtime_ns, after[0].st_ino, after[1]) == (before[0].st_mtime_ns, before[0].st_ino, before[1])
    assert sorted(os.listdir(tmp_path)) == ["pipe", "repo", "victim.txt"]
    tally(hostile_inputs=1)


def test_a_purge_first_does_not_remove_what_a_segment_names_elsewhere(known: Path, tmp_path: Path) -> None:
    repo = shutil.copytree(known, tmp_path / "repo")
    name_segment(repo, "../../../../victim.txt")
    with ml.open(repo) as opened:
        memories = [path.rsplit("/", 1)[1] for path, _ in opened.ls() if path.startswith("memories/")]
        opened.memories().purge(memories[0], "asked for")
    assert (tmp_path / "victim.txt").exists()
