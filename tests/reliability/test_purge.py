"""After a purge the content is in no byte of the repo, plain or as it was stored; history still verifies."""

from __future__ import annotations

import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import Purged
from memlake.objects import purge
from memlake.objects.db import Database
from memlake.objects.packs import CHUNKED
from memlake.objects.writer import Writer
from memlake.repo import Repo
from tests.reliability.ground import (
    KILLED,
    assert_sound,
    die_at,
    fast_folder,
    hooked,
    in_child,
    init,
    noise,
    put,
    snapshot_of,
    steps_of,
)

MARKER = b"the-secret-of-4711"


def unsqueezable(size: int, seed: str) -> bytes:
    """The marker in bytes that do not compress, so that it stands in a pack as it is."""
    return b"".join(noise(3000, f"{seed}{n}") + MARKER for n in range(size // 3000))


@dataclass
class Planted:
    """One secret: its content, its object, every byte string by which it could be found again."""

    oid: str
    content: bytes
    traces: list[bytes]


class Field:
    """A repo with secrets planted wherever content can lie."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = init(root)
        self.planted: dict[str, Planted] = {}
        self.harmless: dict[str, bytes] = {}

    def plant(self, name: str, oid: str, content: bytes) -> None:
        self.planted[name] = Planted(oid, content, [MARKER, *self._payloads(oid)])

    def _payloads(self, oid: str) -> Iterator[bytes]:
        """The stored bytes of an object and of its chunks, as they lie on disk."""
        objects = self.repo._history.objects
        for digest, _ in objects.pieces(oid):
            row = objects.db.row("SELECT form, pack, start, length, data FROM object WHERE oid = ?", (digest,))
            assert row is not None
            form, pack, start, length, data = row
            stored = data if pack is None else objects.packs.get(objects.pack_name(pack), start, length)
            if stored and form != CHUNKED:
                yield stored[10:74] if len(stored) > 100 else stored

    def build(self) -> None:
        repo, root = self.repo, self.root
        files = {
            "inline.txt": MARKER + b" in a small file",
            "squeezed.txt": (MARKER + b" again and again\n") * 60,
            "bulk/secret.bin": unsqueezable(20_000, "bulk"),
            "large.bin": unsqueezable(2_000_000, "large"),
            "shared/secret.bin": unsqueezable(40_000, "shared"),
            "table.csv": b"name,size\n" + MARKER + b",1\n",
        }
        for n in range(30):
            self.harmless[f"bulk/{n}.bin"] = noise(18_000, n)
            self.harmless[f"shared/{n}.bin"] = noise(18_000, f"s{n}")
        for name, content in {**files, **self.harmless}.items():
            put(root, name, content)
        repo.add(all=True)
        repo.commit("everything")
        entries = dict(repo.ls())
        for name, content in files.items():
            self.plant(name, entries[f"files/{name}"].oid, content)
        repo.write({"memories/bot/1": b"remember " + MARKER}, "m")
        (entry,) = repo.show(lane="memory").changes
        assert entry.new is not None
        self.plant("memory", entry.new.oid, b"remember " + MARKER)
        part = unsqueezable(9000, "part")
        self.plant("part", repo._history.objects.write_part(put(root, ".memlake/tmp/p", part)), part)

    def orphan(self) -> None:
        """A writer that stored one of the secrets once more and died before it named it."""
        content = self.planted["bulk/secret.bin"].content

        def work() -> None:
            with ml.open(self.root) as repo:
                writer = Writer(repo._history.objects, "test").__enter__()
                writer._known = lambda _digests: set()  # type: ignore[method-assign]
                writer.add_stream(io.BytesIO(unsqueezable(300_000, "orphan chunks")), 300_000)
                writer.add(content)
                with hooked(lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == "sql" else None):
                    writer.finish()

        assert in_child(work) == KILLED
        known = {row[0] for row in self.repo._history.db.rows("SELECT name FROM pack")}
        assert {path.name for path in (self.repo.dir / "packs").iterdir()} - known, "there is no orphan pack"
        put(self.root, f".memlake/tmp/{'0' * 32}.pack", content)

    def purge(self) -> None:
        self.repo.upkeep.purge(*(secret.oid for secret in self.planted.values()), reason="asked to")
        self.repo.close()

    def hits(self) -> list[str]:
        """Every file of the repo that holds a trace of a secret."""
        traces = {trace for secret in self.planted.values() for trace in secret.traces}
        found = []
        for path in sorted((self.root / ".memlake").rglob("*")):
            if path.is_file():
                data = path.read_bytes()
                found += [f"{path.name}: {trace[:20]!r}" for trace in traces if trace in data]
        return found


@pytest.fixture(scope="module")
def template() -> Iterator[Field]:
    with fast_folder() as folder:
        field = Field(folder / "template")
        field.build()
        field.orphan()
        field.repo.close()
        yield field


@pytest.fixture
def field(template: Field) -> Iterator[Field]:
    with fast_folder() as folder:
        yield _copy(template, folder / "copy")


def _copy(template: Field, at: Path) -> Field:
    copy = Field.__new__(Field)
    copy.root, copy.planted, copy.harmless = snapshot_of(template.root, at), dict(template.planted), template.harmless
    copy.repo = ml.open(copy.root)
    return copy


def test_the_search_finds_the_secrets_before_the_purge(field: Field) -> None:
    field.repo.upkeep.checkpoint()
    files = {hit.split(":")[0] for hit in field.hits()}
    assert "repo.db" in files
    assert len(files) >= 4  # repo.db, packs, the part, the temporary file


def test_a_purged_secret_is_in_no_byte_of_the_repo(field: Field) -> None:
    field.purge()
    assert field.hits() == []


def test_history_verifies_after_a_purge_and_tells_purged_from_missing(field: Field) -> None:
    field.purge()
    with ml.open(field.root) as repo:
        report = repo.upkeep.fsck(full=True)
        assert report.ok, report.problems
        assert {secret.oid for secret in field.planted.values()} <= set(report.purged)
        assert [commit.subject for commit in repo.log()] == ["everything"]


def test_reading_a_purged_object_says_that_it_was_purged_and_why(field: Field) -> None:
    field.purge()
    with ml.open(field.root) as repo:
        for name, secret in field.planted.items():
            with pytest.raises(Purged, match="asked to"):
                repo.objects.read(secret.oid)
            if name.endswith(("txt", "bin", "csv")):
                with pytest.raises(Purged):
                    repo.read(field.root / name)


def test_what_shared_a_pack_with_a_purged_object_still_reads(field: Field) -> None:
    field.purge()
    with ml.open(field.root) as repo:
        for name, content in field.harmless.items():
            assert repo.read(field.root / name) == content


def test_adding_purged_content_again_is_refused_whole(field: Field) -> None:
    field.purge()
    with ml.open(field.root) as repo:
        for number, (name, secret) in enumerate(field.planted.items()):
            put(field.root, f"again/{number}", secret.content)
            put(field.root, "again/harmless", b"harmless")
            before = repo._history.db.rows("SELECT oid FROM object")
            with pytest.raises(Purged):
                repo.add(field.root / "again")
            assert repo._history.db.rows("SELECT oid FROM object") == before, name
            assert repo.status().staged == ()
            if len(secret.content) < 1 << 20:
                with pytest.raises(Purged):
                    repo.write({"memories/bot/again": secret.content}, "again")
            shutil.rmtree(field.root / "again")
    assert field.hits() == []


def test_a_purge_of_staged_content_leaves_the_stage_as_the_commit_has_it(field: Field) -> None:
    put(field.root, "bulk/0.bin", MARKER + b" staged")
    put(field.root, "fresh.txt", MARKER + b" staged too")
    field.repo.add(field.root / "bulk/0.bin", field.root / "fresh.txt")
    for change in field.repo.status().staged:
        assert change.new is not None
        field.plant(change.path, change.new.oid, b"")
    field.purge()
    assert field.hits() == []
    with ml.open(field.root) as repo:
        assert_sound(repo)
        assert repo.status().staged == ()


def test_column_names_noted_of_a_purged_table_go_with_it() -> None:
    with fast_folder() as folder:
        field = Field(folder / "repo")
        put(field.root, "t.csv", MARKER.decode() + ",b\n1,2\n")
        field.repo.add(field.root / "t.csv")
        field.repo.commit("table")
        (change,) = field.repo.show().changes
        assert change.new is not None
        field.plant("t.csv", change.new.oid, b"")
        field.purge()
        assert field.hits() == []
        with ml.open(field.root) as repo:
            assert_sound(repo)


def test_a_purge_that_died_anywhere_is_finished_by_purging_again(template: Field) -> None:
    with fast_folder() as folder:
        ready = _copy(template, folder / "ready")
        oids = [secret.oid for secret in ready.planted.values()]
        count = len(steps_of(lambda: ready.repo.upkeep.purge(*oids, reason="asked to")))
        ready.repo.close()
        for number in range(1, count + 1):
            field = _copy(template, folder / str(number))
            field.repo.close()

            die_at(field.root, number, lambda repo: repo.upkeep.purge(*oids, reason="asked to"))
            with ml.open(field.root) as repo:
                assert_sound(repo)
                repo.upkeep.purge(*oids, reason="asked to")
                assert_sound(repo)
            assert field.hits() == [], f"killed before step {number} of {count}"
            shutil.rmtree(field.root)


# -- each safeguard switched off ----------------------------------------------------------------------


def _no_secure_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Database._open

    def opened(self: Database) -> object:
        connection = original(self)
        connection.execute("PRAGMA secure_delete=OFF")
        return connection

    monkeypatch.setattr(Database, "_open", opened)


def _no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Database, "checkpoint", lambda _self: True)


def _no_rewrite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "_rewrite_packs", lambda *_: [])


def _no_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "_sweep_files", lambda *_: ())


@pytest.mark.parametrize("switch_off", [_no_secure_delete, _no_checkpoint, _no_rewrite, _no_sweep])
def test_without_a_safeguard_the_secret_is_found_again(
    template: Field, monkeypatch: pytest.MonkeyPatch, switch_off: Callable[[pytest.MonkeyPatch], None]
) -> None:
    with fast_folder() as folder:
        switch_off(monkeypatch)
        field = _copy(template, folder / "copy")
        field.repo.objects.read(field.planted["memory"].oid)
        reader = _hold_open(field.repo) if switch_off is _no_checkpoint else None
        try:
            field.repo.upkeep.purge(*(secret.oid for secret in field.planted.values()), reason="asked to")
            assert field.hits() != []
        finally:
            field.repo.close()
            if reader is not None:
                reader.close()


def _hold_open(repo: Repo) -> Repo:
    """Another process has the repo open, so closing ours does not checkpoint; what is written first is in the log."""
    repo.write({"memories/bot/2": MARKER + b" in the log"}, "m")
    return ml.open(repo.root)
