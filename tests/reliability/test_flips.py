"""Flipped bits, cut and missing files: all that changes what a person can read is found by fsck and never served."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

import memlake as ml
from memlake.errors import Corrupt, Error, InvalidInput
from memlake.objects import audit, db, store
from memlake.repo import Repo
from memlake.versions.verbs import undo
from tests.reliability.ground import TORTURE, fast_folder, init, noise, put, snapshot_of

FLIPS = 4000 if TORTURE else 20  # of each kind of file
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
            assert repo.upkeep.fsck(full=True).ok
        yield Subject(root, oids, dump)


def _build(repo: Repo, root: Path) -> dict[str, bytes]:
    for name, content in FILES.items():
        put(root, name, content)
    repo.add(all=True)
    repo.commit("first", metrics={"accuracy": 1})
    repo.branches.create("side")
    repo.tags.create("v1", message="the first")
    for number in range(40):
        put(root, f"folder/{number}.txt", f"text {number}\n")
    repo.add(all=True)
    repo.commit("second")
    for number in range(30):
        repo.write({f"memories/bot/{number}": b"memory %d" % number}, "m")
    part = put(root, ".memlake/tmp/part", noise(9000, "part"))
    oid = repo._history.objects.write_part(part)
    repo._history.objects.write(b"links to " + oid.encode(), links=[oid])
    put(root, "folder/0.txt", "stashed\n")
    repo.stash.push()
    repo.write({"memories/bot/secret": b"to be purged"}, "m")
    (change,) = repo.show(lane="memory").changes
    assert change.new is not None
    repo.upkeep.purge(change.new.oid, reason="asked to")
    _merge_that_waits(repo, root)
    repo._local.db.run_many("INSERT INTO access VALUES(?, ?, ?)", [(b"key %d" % n, n, n * 1000) for n in range(1, 9)])
    put(root, "staged.txt", "staged\n")
    repo.add(root / "staged.txt")
    repo.upkeep.checkpoint()
    contents = {e.oid: repo.objects.read(e.oid) for p, e in repo.ls() if p.startswith("files/")}
    return {**contents, oid: noise(9000, "part")}


def _merge_that_waits(repo: Repo, root: Path) -> None:
    for branch in ("side", "main"):
        repo.switch(branch)
        put(root, "both.txt", f"of {branch}")
        repo.add(root / "both.txt")
        repo.commit(f"of {branch}")
    assert repo.merge("side").conflicts
    for number in range(12):  # enough to be compressed
        put(root, f"undone{number}.txt", f"undone {number}\n")
    repo.add(*(root / f"undone{number}.txt" for number in range(12)))
    repo.undo()


TABLES = {
    "history": "SELECT seq, oid, lane, p1, p2, other, generation, data FROM history ORDER BY seq",
    "node": "SELECT key, keep, data FROM node ORDER BY id",
    "ref": "SELECT kind, name, work, memory, note FROM ref ORDER BY kind, name",
    "reflog": "SELECT kind, ref, lane, old, new, time, action, who FROM reflog ORDER BY id",
    "object": "SELECT oid, size, form, pack, links, role & 1 FROM object ORDER BY oid",
    "pack": "SELECT id, name, size FROM pack ORDER BY id",
    "tombstone": "SELECT oid, seq, time, size, reason, who, purge FROM tombstone ORDER BY oid",
    "purge": "SELECT oid, seq, data FROM purge ORDER BY seq",
    "meta": "SELECT key, value FROM meta WHERE key IN ('format', 'checkout', 'id', 'salt') ORDER BY key",
}
LOCAL_TABLES = {
    "state": "SELECT key, value FROM state ORDER BY key",
    "file": "SELECT path, entry, staged, old, about FROM file ORDER BY path",
    "conflict": "SELECT path, base, ours, theirs, choice, chosen FROM conflict ORDER BY path",
    "headlog": "SELECT old, new, branch, time, action, who FROM headlog ORDER BY id",
    "operation": "SELECT time, verb, detail, undone FROM operation ORDER BY id",
    "access": "SELECT key, count, last FROM access ORDER BY key",
}


def dump_of(repo: Repo, oids: dict[str, bytes]) -> dict[str, object]:
    """All a person can learn from a repo, and all that decides what is done next.

    Left out because any value is right: the ids of log rows (their order counts), when gc last saw an object (touched,
    condemned: it marks again before it deletes), the clock and the next seq (pushed forward by the time and by what is
    there), whether an object is a chunk as well, and the stat cache (where it is wrong the file is read; status, which
    stands on it, is in here).
    """
    db, local = repo._history.db, repo._local.db
    dump: dict[str, object] = {name: _value(lambda sql=sql: db.rows(sql)) for name, sql in TABLES.items()}
    dump |= {name: _value(lambda sql=sql: local.rows(sql)) for name, sql in LOCAL_TABLES.items()}
    dump["head"] = _value(lambda: (repo.branches.current, repo._local.base, repo._local.state("doing")))
    dump["status"] = _value(repo.status)
    before = "SELECT before FROM operation ORDER BY id"
    dump["undo"] = _value(lambda: [undo._unpack_before(row[0]) for row in local.rows(before)])
    for branch in ("main", "side"):
        dump[f"tree {branch}"] = _value(lambda branch=branch: list(repo.ls(branch)))
        dump[f"memories {branch}"] = _value(lambda branch=branch: list(repo.log(branch, lane="memory")))
    for oid in oids:
        dump[oid] = _value(lambda oid=oid: repo.objects.read(oid))
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
            report = repo.upkeep.fsck(full=True)
            problems = report.problems
        except Error as error:
            problems = (error,)  # type: ignore[assignment]
        for oid, content in subject.oids.items():
            served = _value(lambda oid=oid: repo.objects.read(oid))
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


def _flip_live(target: Path, chance: random.Random) -> str:
    """A bit of a page that is in use, outside of the space between its cells."""
    at, size = chance.choice(live_bytes(target.read_bytes()))
    offset, bit = at + chance.randrange(size), chance.randrange(8)
    flip(target, offset, bit)
    return f"bit {bit} of byte {offset} (page {offset // 4096 + 1})"


def live_bytes(data: bytes) -> list[tuple[int, int]]:
    """(place, length) of what a SQLite file uses: of a b-tree page its header and its cells, of others all."""
    free, trunk = set[int](), int.from_bytes(data[32:36], "big")
    while trunk and trunk not in free:
        at = (trunk - 1) * 4096
        leaves = int.from_bytes(data[at + 4 : at + 8], "big")
        free |= {trunk, *(int.from_bytes(data[at + 8 + 4 * n :][:4], "big") for n in range(leaves))}
        trunk = int.from_bytes(data[at : at + 4], "big")
    found = []
    for page in range(1, len(data) // 4096 + 1):
        at, skip = (page - 1) * 4096, 100 if page == 1 else 0
        kind, cells, start = data[at + skip], *(int.from_bytes(data[at + skip + n :][:2], "big") for n in (3, 5))
        if page in free:
            continue
        if kind in (2, 5, 10, 13):
            found += [(at, skip + (12 if kind < 8 else 8) + 2 * cells), (at + start, 4096 - start)]
        else:
            found.append((at, 4096))
    return [(at, size) for at, size in found if size > 0]


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


def test_a_flipped_bit_in_repo_db_is_found_or_changes_nothing(subject: Subject, tally: Callable[..., None]) -> None:
    outcome = damage_many(subject, "repo.db", FLIPS * 5, _flip_anywhere)
    tally(flips=sum(outcome.values()))
    assert outcome["found"] > FLIPS


def test_a_flipped_bit_in_local_db_is_found_or_changes_nothing(subject: Subject, tally: Callable[..., None]) -> None:
    outcome = damage_many(subject, "local.db", FLIPS * 2, _flip_anywhere)
    tally(flips=sum(outcome.values()))
    assert outcome["found"] + outcome["refused"] > 3


@pytest.mark.parametrize("name", ["repo.db", "local.db"])
def test_a_flipped_bit_in_a_live_page_is_found_or_changes_nothing(
    subject: Subject, name: str, tally: Callable[..., None]
) -> None:
    outcome = damage_many(subject, name, FLIPS * 5, _flip_live)
    tally(flips=sum(outcome.values()))
    assert outcome["found"] + outcome["refused"] > FLIPS


UNHASHED = {  # text that no hash covers, and where it stands
    "the note of a tag": ("repo.db", b"the first"),
    "HEAD": ("local.db", b"headmain"),
    "what waits": ("local.db", b'"verb": "merge"'),
    "the log of HEAD": ("local.db", b"switch: moving to side"),
    "the list of operations": ("local.db", b"commitof side"),
    "a staged path": ("local.db", b"staged.txt"),
    "the note of a staged file": ("local.db", b"text/plain\t"),
}


def damage_everywhere(subject: Subject, name: str, text: bytes) -> Counter[str]:
    """Flip one bit of each byte of a text, wherever it stands in a file."""
    data = (subject.root / ".memlake" / name).read_bytes()
    places = [at + n for at in range(len(data)) if data.startswith(text, at) for n in range(len(text))]
    assert places, f"{text!r} is not in {name}"
    left = iter(places)

    def damage(target: Path, chance: random.Random) -> str:
        offset = next(left)
        flip(target, offset, chance.randrange(7))
        return f"byte {offset}"

    return damage_many(subject, name, len(places), damage)


@pytest.mark.parametrize("what", UNHASHED)
def test_a_flip_in_what_no_hash_covers_is_always_found(subject: Subject, what: str) -> None:
    assert set(damage_everywhere(subject, *UNHASHED[what])) <= {"found", "refused"}


def test_a_flip_in_the_marks_of_gc_thinning_and_purge_is_found(subject: Subject) -> None:
    for damage in (
        "UPDATE object SET role = 3 WHERE role = 2",
        "UPDATE object SET role = 1 WHERE role = 2",
        "UPDATE object SET links = NULL WHERE links IS NOT NULL",
        "UPDATE ref SET note = NULL WHERE note IS NOT NULL",
        "UPDATE ref SET memory = NULL WHERE name = 'main'",
        "UPDATE node SET keep = 0",
        "UPDATE pack SET size = size + 1",
    ):
        with fast_folder() as folder:
            root = snapshot_of(subject.root, folder / "copy")
            _behind_the_checksums(root, damage)
            assert _is_noticed(root), damage


def _is_noticed(root: Path) -> bool:
    try:
        with ml.open(root) as repo:
            return not repo.upkeep.fsck(full=True).ok
    except Corrupt:
        return True


def _behind_the_checksums(root: Path, sql: str) -> None:
    """Change rows and leave the checksums of their pages as they are, as a flipped bit would."""
    db = apsw.Connection(str(root / ".memlake/repo.db"), vfs="unix")
    db.execute(sql)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def test_a_flipped_bit_in_a_pack_is_found_or_changes_nothing(subject: Subject, tally: Callable[..., None]) -> None:
    outcome = sum((damage_many(subject, name, FLIPS, _flip_anywhere) for name in _packs(subject)), Counter[str]())
    tally(flips=sum(outcome.values()))
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


def test_a_flipped_bit_in_the_log_is_found_or_changes_nothing(logged: Subject, tally: Callable[..., None]) -> None:
    outcome = damage_many(logged, "repo.db-wal", FLIPS * 2, _flip_anywhere)
    tally(flips=sum(outcome.values()))
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
        repo.upkeep.checkpoint()
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
            named = {(problem.path, problem.kind) for problem in repo.upkeep.fsck(full=True).problems}
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
            assert repo.objects.read(next(iter(subject.oids))) == next(iter(subject.oids.values()))
        with ml.init(root) as repo:
            assert [commit.subject for commit in repo.log("main")] == ["of main", "second", "first"]


# -- the safeguard switched off --------------------------------------------------------------------------------


def test_without_the_hash_check_damaged_content_is_served(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_check_hash", lambda _digest, data: data)
    with pytest.raises(AssertionError, match="was served"):
        damage_many(subject, _parts(subject)[0], 5, _flip_anywhere)


def test_without_the_object_pass_fsck_misses_damage(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    from memlake.versions.upkeep import fsck

    assert fsck.check_objects is audit.check_objects
    monkeypatch.setattr(fsck, "check_objects", lambda *_, **__: (0, []))
    with pytest.raises(AssertionError, match="fsck did not notice"):
        damage_many(subject, _packs(subject)[0], 200, _flip_anywhere)


@pytest.mark.parametrize("what", ["the note of a tag", "the log of HEAD"])
def test_without_the_checksums_of_pages_a_flip_goes_unnoticed(
    subject: Subject, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "with_checksums", lambda: "unix")
    with pytest.raises(AssertionError, match="fsck did not notice"):
        damage_everywhere(subject, *UNHASHED[what])


def test_without_the_checksums_of_pages_what_waits_is_misread(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "with_checksums", lambda: "unix")
    with pytest.raises(AssertionError, match=r"fsck did not notice that .*state"):
        damage_everywhere(subject, "local.db", b"Merge branch 'side'")


@pytest.mark.torture
def test_tens_of_thousands_of_flips_are_found(subject: Subject, tally: Callable[..., None]) -> None:
    total = Counter[str]()
    for name in ("repo.db", "repo.db", "local.db", *_packs(subject)):
        total += damage_many(subject, name, 10_000, _flip_anywhere)
    for name in ("repo.db", "local.db"):
        total += damage_many(subject, name, 10_000, _flip_live)
    tally(flips=sum(total.values()))


def test_the_tables_are_all_in_the_sample(subject: Subject) -> None:
    """Every table has rows, so that a flip can hit it."""
    empty = set()
    for file in ("repo.db", "local.db"):
        db = apsw.Connection(str(subject.root / ".memlake" / file), flags=apsw.SQLITE_OPEN_READONLY)
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        empty |= {name for name in names if db.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)}
        db.close()
    assert empty == {"lease", "stray"}
