"""Flipped bits, cut and missing files: all that changes what a person can read is found by fsck and never served."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

import memlake as ml
from memlake.errors import Corrupt, Error, InvalidInput
from memlake.objects import audit, store
from memlake.repo import Repo
from tests.reliability.ground import TORTURE, fast_folder, init, noise, put, snapshot_of

pytestmark = [pytest.mark.torture] if TORTURE else []  # under `make torture` everything here runs, longer

FLIPS = 4000 if TORTURE else 60  # of each kind of file
FILES: dict[str, bytes] = {
    "inline.txt": b"a small text",
    "squeezed.txt": b"again and again\n" * 90,
    "packed.bin": noise(30_000, "packed"),
    "packed.txt": b"packed, and it compresses\n" * 900,
    "large.bin": noise(1_200_000, "large"),
}


@dataclass(frozen=True)
class Subject:
    """A repo with something in every table and every kind of file, and all that can be read from it."""

    root: Path
    oids: dict[str, bytes]
    dump: dict[str, object]


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with fast_folder() as folder:
        root = folder / "repo"
        with init(root) as repo:
            oids = _build(repo, root)
            dump = dump_of(repo, oids)
            assert repo.fsck(full=True).ok
        yield Subject(root, oids, dump)


def _build(repo: Repo, root: Path) -> dict[str, bytes]:
    for name, content in FILES.items():
        put(root, name, content)
    repo.add(all=True)
    repo.commit("first", metrics={"accuracy": 1})
    repo.branch("side")
    repo.tag("v1", message="the first")
    for number in range(40):
        put(root, f"folder/{number}.txt", f"text {number}\n")
    repo.add(all=True)
    repo.commit("second")
    for number in range(30):
        repo.write({f"memories/bot/{number}": b"memory %d" % number}, "m")
    part = put(root, ".memlake/tmp/part", noise(9000, "part"))
    oid = repo._history.objects.write_part(part)
    put(root, "folder/0.txt", "stashed\n")
    repo.stash_push()
    repo.write({"memories/bot/secret": b"to be purged"}, "m")
    (change,) = repo.changes(repo.commit_at(lane="memory"))
    assert change.new is not None
    repo.purge(change.new.oid, reason="asked to")
    put(root, "staged.txt", "staged\n")
    repo.add(root / "staged.txt")
    repo.checkpoint()
    contents = {e.oid: repo.read_object(e.oid) for p, e in repo.ls() if p.startswith("files/")}
    return {**contents, oid: noise(9000, "part")}


def dump_of(repo: Repo, oids: dict[str, bytes]) -> dict[str, object]:
    """All a person can learn from a repo. Housekeeping of gc (touched, condemned, cursors) is not part of it."""
    db, local = repo._history.db, repo._local.db
    tables = {
        "history": "SELECT seq, oid, lane, p1, p2, other, generation, data FROM history ORDER BY seq",
        "ref": "SELECT kind, name, work, memory FROM ref ORDER BY kind, name",
        "reflog": "SELECT id, kind, ref, lane, old, new, time, action, who FROM reflog ORDER BY id",
        "object": "SELECT oid, size, CASE WHEN typeof(links) = 'blob' THEN links END FROM object ORDER BY oid",
        "tombstone": "SELECT oid FROM tombstone ORDER BY oid",
        "format": "SELECT value FROM meta WHERE key = 'format'",
    }
    dump: dict[str, object] = {name: _value(lambda sql=sql: db.rows(sql)) for name, sql in tables.items()}
    dump["head"] = _value(lambda: (repo.branch_name, repo._local.base, repo._local.state("doing")))
    # local.db is this checkout's own and has no hashes; which content is staged is checked, its mode bit is not.
    staged = "SELECT path, substr(entry, 1, 32) FROM file WHERE staged = 1 ORDER BY path"
    dump["stage"] = _value(lambda: local.rows(staged))
    for branch in ("main", "side"):
        dump[f"tree {branch}"] = _value(lambda branch=branch: list(repo.ls(branch)))
        dump[f"memories {branch}"] = _value(lambda branch=branch: list(repo.log(branch, lane="memory")))
    for oid in oids:
        dump[oid] = _value(lambda oid=oid: repo.read_object(oid))
    return dump


def _value(read: Callable[[], object]) -> object:
    try:
        return read()
    except Error as error:
        return type(error).__name__


# -- one damage -----------------------------------------------------------------------------------------


def examine(root: Path, subject: Subject) -> str:
    """'harmless', 'refused' (the repo says so on opening) or 'found'. Raises when damage goes unnoticed."""
    try:
        repo = ml.open(root)
    except Error:
        return "refused"
    with repo:
        try:
            report = repo.fsck(full=True)
            problems = report.problems
        except Error as error:
            problems = (error,)  # type: ignore[assignment]
        for oid, content in subject.oids.items():
            served = _value(lambda oid=oid: repo.read_object(oid))
            assert isinstance(served, str) or served == content, f"damaged content of {oid} was served"
        dump = dump_of(repo, subject.oids)
        changed = [name for name in dump if dump[name] != subject.dump[name]]
        assert problems or not changed, f"fsck did not notice that {changed} changed"
        return "found" if problems else "harmless"


def flip(path: Path, offset: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


def damage_many(subject: Subject, name: str, times: int, damage: Callable[[Path, random.Random], str]) -> Counter[str]:
    """Damage copies of one file in many ways; every one of them is examined."""
    outcome: Counter[str] = Counter()
    chance = random.Random(name)
    with fast_folder() as folder:
        copy = snapshot_of(subject.root, folder / "copy")
        target = copy / ".memlake" / name
        whole = {path: path.read_bytes() for path in (copy / ".memlake").rglob("*") if path.is_file()}
        for _ in range(times):
            what = damage(target, chance)
            try:
                outcome[examine(copy, subject)] += 1
            except (Exception, pytest.fail.Exception) as error:
                raise AssertionError(f"{name}, {what}: {type(error).__name__}: {error}") from error
            _put_back(copy / ".memlake", whole)
    print(f"{name}: {dict(outcome)}", file=sys.stderr)
    return outcome


def _put_back(folder: Path, whole: dict[Path, bytes]) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and path not in whole:
            path.unlink()
    for path, data in whole.items():
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)


def _flip_anywhere(target: Path, chance: random.Random) -> str:
    offset, bit = chance.randrange(target.stat().st_size), chance.randrange(8)
    flip(target, offset, bit)
    return f"bit {bit} of byte {offset} (page {offset // 4096 + 1})"


def _cut(target: Path, chance: random.Random) -> str:
    size = chance.randrange(target.stat().st_size)
    with target.open("r+b") as file:
        file.truncate(size)
    return f"cut to {size} bytes"


def _packs(subject: Subject) -> list[str]:
    return [f"packs/{path.name}" for path in sorted((subject.root / ".memlake/packs").iterdir())]


def _parts(subject: Subject) -> list[str]:
    folder = subject.root / ".memlake"
    return [str(path.relative_to(folder)) for path in sorted((folder / "parts").rglob("*")) if path.is_file()]


def test_a_flipped_bit_in_repo_db_is_found_or_changes_nothing(subject: Subject) -> None:
    outcome = damage_many(subject, "repo.db", FLIPS * 5, _flip_anywhere)
    assert outcome["found"] > FLIPS


def test_a_flipped_bit_in_local_db_is_found_or_changes_nothing(subject: Subject) -> None:
    outcome = damage_many(subject, "local.db", FLIPS * 2, _flip_anywhere)
    assert outcome["found"] + outcome["refused"] > 3


def test_a_flipped_bit_in_a_pack_is_found_or_changes_nothing(subject: Subject) -> None:
    outcome = sum((damage_many(subject, name, FLIPS, _flip_anywhere) for name in _packs(subject)), Counter[str]())
    assert outcome["found"] > FLIPS / 2  # some bytes only fill a block


def test_a_flipped_bit_in_a_part_is_always_found(subject: Subject) -> None:
    (name,) = _parts(subject)
    assert damage_many(subject, name, FLIPS, _flip_anywhere) == {"found": FLIPS}


@pytest.mark.parametrize("end", ["magic", "footer", "length", "end"])
def test_a_flip_in_the_frame_of_a_pack_is_found(subject: Subject, end: str) -> None:
    def damage(target: Path, chance: random.Random) -> str:
        size = target.stat().st_size
        length = int.from_bytes(target.read_bytes()[-16:-8], "little")
        low, high = {
            "magic": (0, 8),
            "footer": (size - 16 - length, size - 16),
            "length": (size - 16, size - 8),
            "end": (size - 8, size),
        }[end]
        offset = chance.randrange(low, high)
        flip(target, offset, chance.randrange(8))
        return f"{end}, byte {offset}"

    for name in _packs(subject):
        outcome = damage_many(subject, name, max(4, FLIPS // 10), damage)
        assert set(outcome) == {"found"}


def test_a_cut_file_is_found(subject: Subject) -> None:
    for name in ("repo.db", *_packs(subject), *_parts(subject)):
        outcome = damage_many(subject, name, max(4, FLIPS // 10), _cut)
        assert set(outcome) <= {"found", "refused"}, (name, outcome)


def test_a_missing_file_is_found(subject: Subject) -> None:
    def remove(target: Path, _chance: random.Random) -> str:
        target.unlink()
        return "removed"

    for name in ("repo.db", *_packs(subject), *_parts(subject)):
        assert set(damage_many(subject, name, 1, remove)) <= {"found", "refused"}, name


# -- the write-ahead log of a process that is still alive, or was killed ------------------------------------


@pytest.fixture(scope="module")
def logged() -> Iterator[Subject]:
    """A copy of the files while a process has them open: the last commits are only in the log."""
    with fast_folder() as folder:
        alive = folder / "alive"
        with init(alive) as repo:
            oids = _build(repo, alive)
            for number in range(6):
                repo.write({f"memories/late/{number}": b"late %d" % number}, "late")
            root = snapshot_of(alive, folder / "repo")
            dump = dump_of(repo, oids)
        (root / ".memlake/repo.db-shm").unlink()
        (root / ".memlake/local.db-shm").unlink()
        assert (root / ".memlake/repo.db-wal").stat().st_size > 20_000
        yield Subject(root, oids, dump)


def test_a_flipped_bit_in_the_log_is_found_or_changes_nothing(logged: Subject) -> None:
    outcome = damage_many(logged, "repo.db-wal", FLIPS * 2, _flip_anywhere)
    assert outcome["found"] > FLIPS


# -- what is said --------------------------------------------------------------------------------------------


def _payload_at(root: Path, oid: str) -> tuple[Path, int]:
    """The file and the place of a stored byte of an object (of its first chunk)."""
    with ml.open(root) as repo:
        objects = repo._history.objects
        digest = objects.pieces(oid)[0][0]
        row = objects.db.row("SELECT pack, start, length, data FROM object WHERE oid = ?", (digest,))
        assert row is not None
        pack, start, length, data = row
        if pack is not None:
            return root / ".memlake/packs" / objects.pack_name(pack), start + length // 2
        if data is None:
            return root / ".memlake/parts" / oid[:2] / oid, 100
        repo.checkpoint()
        return root / ".memlake/repo.db", (root / ".memlake/repo.db").read_bytes().index(data) + len(data) // 2


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_object_is_named_with_its_path_and_the_rest_still_reads(subject: Subject, name: str) -> None:
    with fast_folder() as folder:
        root = snapshot_of(subject.root, folder / "copy")
        with ml.open(root) as repo:
            entries = {p.removeprefix("files/"): e for p, e in repo.ls() if p.startswith("files/")}
        oid = entries[name].oid
        flip(*_payload_at(root, oid), bit=3)
        with ml.open(root) as repo:
            with pytest.raises(Corrupt, match="damaged"):
                repo.read(root / name)
            named = {(problem.path, problem.kind) for problem in repo.fsck(full=True).problems}
            assert named == {(f"files/{name}", "damaged")}
            for other, content in FILES.items():
                if other != name:
                    assert repo.read(root / other) == content


def test_a_damaged_settings_file_is_an_error_that_names_it(subject: Subject) -> None:
    with fast_folder() as folder:
        root = snapshot_of(subject.root, folder / "copy")
        (root / ".memlake/config.toml").write_text("core = [unclosed\n")
        with pytest.raises((InvalidInput, Corrupt), match=r"config\.toml"):
            ml.open(root)


def test_a_lost_local_db_loses_no_history(subject: Subject) -> None:
    with fast_folder() as folder:
        root = snapshot_of(subject.root, folder / "copy")
        (root / ".memlake/local.db").unlink()
        with ml.open(root) as repo:
            assert repo.read_object(next(iter(subject.oids))) == next(iter(subject.oids.values()))
        with ml.init(root) as repo:
            assert [commit.subject for commit in repo.log("main")] == ["second", "first"]


# -- the safeguard switched off --------------------------------------------------------------------------------


def test_without_the_hash_check_damaged_content_is_served(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_checked", lambda _digest, data: data)
    with pytest.raises(AssertionError, match="was served"):
        damage_many(subject, _parts(subject)[0], 5, _flip_anywhere)


def test_without_the_object_pass_fsck_misses_damage(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    from memlake.versions import fsck

    assert fsck.check_objects is audit.check_objects
    monkeypatch.setattr(fsck, "check_objects", lambda *_, **__: (0, []))
    with pytest.raises(AssertionError, match="fsck did not notice"):
        damage_many(subject, _packs(subject)[0], 200, _flip_anywhere)


@pytest.mark.torture
def test_tens_of_thousands_of_flips_are_found(subject: Subject) -> None:
    total = Counter[str]()
    for name in ("repo.db", "repo.db", "local.db", *_packs(subject)):
        total += damage_many(subject, name, 10_000, _flip_anywhere)
    print(json.dumps(total), file=sys.stderr)


def test_the_tables_are_all_in_the_sample(subject: Subject) -> None:
    """Every table of repo.db has rows, so that a flip can hit it."""
    db = apsw.Connection(str(subject.root / ".memlake/repo.db"), flags=apsw.SQLITE_OPEN_READONLY)
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    empty = {name for name in names if db.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)}
    db.close()
    assert empty == {"lease"}
