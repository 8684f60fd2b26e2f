"""Links inside .memlake, one for every name that lies there: no verb reads, changes or makes anything behind them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import memlake as ml
from memlake import config, nofollow
from memlake.cli.main import main
from memlake.errors import Corrupt, Denied
from tests.reliability.ground import TORTURE, forged

CANARY = os.urandom(20).hex()  # no word of this page: the programs that are run are recorded
OLD = 1_600_000_000
SHARE = 4  # of the verbs, one in so many meets each link outside of `make torture`
VERBS = [
    line.strip()
    for line in """
    status | add -A | commit -a -m all | diff | log | cat a.txt | restore a.txt | mv a.txt b.txt | rm big.bin
    switch -c side | merge main | reset --hard | stash | undo | du | gc | gc --prune | fsck --full | doctor
    backup ../copy.tar | config --list | config user.name Eve | purge --yes --reason x a.txt
    dataset ls | dataset export pets out.csv | runs | remember Rex | recall Rex | memory ls | state set k 1
    hook prompt | init""".replace("\n", "|").split("|")
    if line.strip()
]
BY_SCRIPT = ("tmp", "runs", "parts")  # written by programs that save datasets; a process of its own, so few of them


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repo in which every kind of file that memlake writes has been written."""
    root = tmp_path_factory.mktemp("rich") / "repo"
    root.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(root.parent))
        patch.setenv("MEMLAKE_AUTHOR_NAME", "Ada")
        patch.setenv("MEMLAKE_AUTHOR_EMAIL", "ada@example.org")
        with ml.init(root) as repo:
            repo.config.set("embedding.provider", "test")
            (root / "a.txt").write_text("hello\n")
            (root / "big.bin").write_bytes(os.urandom(1_200_000))
            (root / "script.py").write_text("import memlake as ml\nml.read_values(a=[1, 2]).save('made')\n")
            repo.add(root / "a.txt", root / "big.bin")
            repo.commit("one")
            agent = ml.Agent(str(root), "bot")
            agent.remember("Rex is a dog")
            agent.search_memory("Rex")
            agent.close()
        patch.chdir(root)
        ml.read_values(name=["Rex"], age=[3]).save("pets")
        ml.read_values(name=["Rex"]).to_records()
        run("hook", "session-end")
        (root / ".memlake" / "cache" / "ab").mkdir(parents=True)
        (root / ".memlake" / "cache" / "ab" / ("ab" * 32)).write_bytes(b"kept")
    (root / "new.txt").write_text("new\n")
    return root


def run(*words: str) -> str:
    """One verb in this process; everything it says."""
    said = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"prompt": "is Rex a dog"}')))
        main(list(words))
    return said.buffer.getvalue().decode()


def names(repo: Path) -> Iterator[str]:
    """One of each kind of name below .memlake, as the repo has them, and those that come and go."""
    seen = set()
    found = sorted(str(path.relative_to(repo / ".memlake")) for path in (repo / ".memlake").rglob("*"))
    passing = [f"{name}{end}" for name in found if name.endswith(".db") for end in ("-wal", "-shm", "-journal")]
    for name in [*found, *passing, "hooks.log", "hooks.log.1", "runs/2.new", "tmp/duckdb_temp_storage-0.tmp"]:
        kind = re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{32}\b|\b[0-9a-f]{2}\b|\d+", "N", name)
        if kind not in seen:
            seen.add(kind)
            yield name


def plant(repo: Path, name: str, target: Path) -> None:
    place = repo / ".memlake" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(target)


def make_victim(at: Path, repo: Path, name: str) -> Path:
    """A folder of old files, among them one of each name that a verb could look for in the folder that is replaced."""
    at.mkdir()
    place = repo / ".memlake" / name
    beside = [inner.relative_to(place) for inner in place.rglob("*") if inner.is_file()] if place.is_dir() else []
    for inner in [Path("letter.txt"), Path("0" * 64), *beside]:
        (at / inner).parent.mkdir(parents=True, exist_ok=True)
        (at / inner).write_text(CANARY)
        os.utime(at / inner, (OLD, OLD))
    return at if place.is_dir() else at / "letter.txt"


def listed(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mtime_ns, path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }  # fmt: skip


def test_no_verb_follows_a_link_of_any_name_in_memlake(
    rich: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Callable[..., None]
) -> None:
    checked = 0
    monkeypatch.setenv("MEMLAKE_AUTHOR_NAME", "Ada")
    for number, name in enumerate(names(rich)):
        here = tmp_path / str(number)
        repo = shutil.copytree(rich, here / "repo")
        target = make_victim(here / "victim", repo, name)
        plant(repo, name, target)
        before = listed(here / "victim")
        monkeypatch.chdir(repo)
        verbs = VERBS if TORTURE else VERBS[number % SHARE :: SHARE]
        for verb in (*verbs, "run script.py") if name in BY_SCRIPT else verbs:
            said = run(*verb.split())
            assert CANARY not in said, (name, verb)
            assert "fatal: unexpected" not in said, (name, verb, said)
            assert listed(here / "victim") == before, (name, verb)
            checked += 1
        assert [
            path for path in repo.rglob("*") if nofollow.is_file(path) and CANARY.encode() in path.read_bytes()
        ] == [], name
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(here)
    tally(hostile_inputs=checked)
    assert checked > 40 * 30 // (1 if TORTURE else SHARE)


def test_a_link_that_leads_nowhere_makes_nothing_there(
    rich: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(names(rich)):
        here = tmp_path / str(number)
        repo = shutil.copytree(rich, here / "repo")
        (here / "victim").mkdir()
        plant(repo, name, here / "victim" / "new")
        monkeypatch.chdir(repo)
        for verb in ("remember Rex", "hook prompt", "config user.name Eve", "gc", "init"):
            run(*verb.split())
        assert not list((here / "victim").iterdir()), name
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(here)


def test_a_pipe_in_memlake_is_refused_and_holds_nobody_up(rich: Path, tmp_path: Path) -> None:
    for name in ("repo.db", "checkout.lock", "config.toml", "index/CURRENT", "hooks.log"):
        repo = shutil.copytree(rich, tmp_path / name.replace("/", "-"))
        (repo / ".memlake" / name).unlink(missing_ok=True)
        os.mkfifo(repo / ".memlake" / name)
        with pytest.raises(Denied, match=r"neither a file nor a folder.*Nothing was read or changed"):
            ml.open(repo)


def test_the_refusal_names_the_link_and_a_cure_that_works(rich: Path, tmp_path: Path) -> None:
    repo = shutil.copytree(rich, tmp_path / "repo")
    plant(repo, "tmp", tmp_path)
    with pytest.raises(Denied) as refused:
        ml.open(repo)
    assert f"{repo}/.memlake/tmp is a link to {tmp_path}" in refused.value.message
    assert f"rm {repo}/.memlake/tmp" in refused.value.hint
    assert os.system(f"rm {repo}/.memlake/tmp") == 0
    with ml.open(repo) as opened:
        assert opened.read("a.txt") == b"hello\n"


def test_a_link_planted_while_the_repo_is_open_stops_gc(rich: Path, tmp_path: Path) -> None:
    repo = shutil.copytree(rich, tmp_path / "repo")
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "letter.txt").write_text(CANARY)
    os.utime(tmp_path / "victim" / "letter.txt", (OLD, OLD))
    with ml.open(repo) as opened:
        plant(repo, "tmp", tmp_path / "victim")
        with pytest.raises(Denied):
            opened.upkeep.gc(prune=True)
        with pytest.raises(Denied):
            opened.upkeep.purge("0" * 64, reason="x")
    assert (tmp_path / "victim" / "letter.txt").read_text() == CANARY


def test_the_memlake_folder_itself_may_be_a_link_to_a_folder_of_mine(rich: Path, tmp_path: Path) -> None:
    shutil.copytree(rich / ".memlake", tmp_path / "disk")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".memlake").symlink_to(tmp_path / "disk")
    with ml.open(tmp_path / "work") as repo:
        assert repo.read("a.txt") == b"hello\n"
        repo.restore("a.txt")
        assert repo.upkeep.gc().objects == 0
    assert (tmp_path / "work" / "a.txt").read_text() == "hello\n"


def test_init_makes_no_repo_through_a_link_into_other_files(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "letter.txt").write_text("dear")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".memlake").symlink_to(tmp_path / "documents")
    with pytest.raises(Denied, match="holds other files"):
        ml.init(tmp_path / "work")
    assert [path.name for path in (tmp_path / "documents").iterdir()] == ["letter.txt"]


def test_a_file_called_memlake_is_not_a_repo(tmp_path: Path) -> None:
    (tmp_path / ".memlake").write_text("gitdir: elsewhere")
    assert config.find_repo(tmp_path) is None


def test_a_journal_that_goes_while_it_is_looked_at_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that makes a database in WAL mode has a journal for a moment."""
    journal, open_file = tmp_path / "index.db-journal", nofollow.open_file

    def opened(path: Path) -> int:
        journal.unlink()
        return open_file(path)

    journal.write_bytes(b"short")
    monkeypatch.setattr(nofollow, "open_file", opened)
    assert nofollow.check_database(tmp_path / "index.db") == tmp_path / "index.db"
    assert not journal.exists()


def test_a_journal_that_names_a_victim_does_not_make_sqlite_remove_it(rich: Path, tmp_path: Path) -> None:
    repo = shutil.copytree(rich, tmp_path / "repo")
    victim = tmp_path / "letter.txt"
    victim.write_text(CANARY)
    journal = journal_naming(victim)
    for name in ("repo.db", "local.db", "datasets.db", "vectors.db"):
        (repo / ".memlake" / f"{name}-journal").write_bytes(journal)
    # The control: SQLite, asked for the same database without our check, removes the victim.
    copy = shutil.copytree(repo / ".memlake", tmp_path / "control")
    other = tmp_path / "other.txt"
    other.write_text(CANARY)
    (copy / "repo.db-journal").write_bytes(journal_naming(other))
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(copy / "repo.db")) as control:
        control.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    assert not other.exists()
    with pytest.raises(Denied, match="would make SQLite remove another file"):
        ml.open(repo)
    assert victim.read_text() == CANARY


@pytest.mark.parametrize(
    "program",
    [
        "DROP TABLE ref; CREATE VIEW ref AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS name, 0 AS kind, NULL AS work, NULL AS memory, NULL AS note FROM n",
        "CREATE TRIGGER bad AFTER UPDATE ON meta BEGIN DELETE FROM object; END",
        "ALTER TABLE meta ADD COLUMN much AS(zeroblob(900000000))",
        "CREATE VIRTUAL TABLE other USING rtree(id, low, high)",
        "CREATE INDEX other ON object(length(hex(zeroblob(400000000))))",
        "CREATE TABLE other(x)",
    ],
)
def test_a_database_that_computes_its_answers_is_refused(rich: Path, tmp_path: Path, program: str) -> None:
    repo = shutil.copytree(rich, tmp_path / "repo")
    with forged(repo / ".memlake" / "repo.db") as database:
        database.execute("DELETE FROM object")  # else the control of an index takes a while
        database.execute(program)
    with pytest.raises(Corrupt, match="that this version of memlake does not make"):
        ml.open(repo)


@pytest.mark.parametrize(
    ("name", "table", "old", "new"),
    [
        ("repo.db", "object", "UNIQUE", "UNIQUE, x INTEGER NOT NULL ON CONFLICT IGNORE DEFAULT NULL"),
        ("repo.db", "object", "size INTEGER NOT NULL", "size INTEGER NOT NULL CHECK(hex(zeroblob(400000000)) <> '')"),
        ("repo.db", "node", "data BLOB NOT NULL", "data BLOB NOT NULL ON CONFLICT IGNORE CHECK(key > 0)"),
        ("repo.db", "object_pack", "object(pack)", "object(pack, length(hex(zeroblob(400000000))))"),
        ("local.db", "file", "PRIMARY KEY", "PRIMARY KEY ON CONFLICT IGNORE"),
        ("local.db", "state", "value TEXT", "value TEXT COLLATE NOCASE DEFAULT 'x'"),
    ],
)
def test_a_table_of_ours_in_another_form_is_refused(
    rich: Path, tmp_path: Path, name: str, table: str, old: str, new: str
) -> None:
    """By its text alone: a constraint may make writes vanish that were acknowledged, or cost a gigabyte each."""
    repo = shutil.copytree(rich, tmp_path / "repo")
    replace_in_schema(repo / ".memlake" / name, table, old, new)
    with pytest.raises(Corrupt, match=f"{name} is damaged: it has '{table}' in a form that"), ml.open(repo) as opened:
        opened.status()


def test_a_database_that_memlake_made_is_opened_whatever_the_layout_of_its_statements(
    rich: Path, tmp_path: Path
) -> None:
    repo = shutil.copytree(rich, tmp_path / "repo")
    databases = [file for file in (repo / ".memlake").rglob("*.db") if file.stat().st_size]
    assert {file.name for file in databases} >= {"repo.db", "local.db", "index.db", "datasets.db"}
    for file in databases:
        replace_in_schema(file, "%", ", ", ",\n   ")
    with ml.open(repo) as opened:
        assert [
            check for check in opened.upkeep.doctor() if check.name.endswith((".db", "index")) and not check.ok
        ] == []
        assert opened.upkeep.fsck(full=True).ok


def replace_in_schema(file: Path, table: str, old: str, new: str) -> None:
    with forged(file) as database:
        database.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        database.execute("PRAGMA writable_schema=ON")
        database.execute("UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name LIKE ?", (old, new, table))
        assert database.changes() > 0
        database.execute("PRAGMA writable_schema=RESET")


def test_folders_without_end_are_refused_by_name(rich: Path, tmp_path: Path) -> None:
    repo = shutil.copytree(rich, tmp_path / "repo")
    # Not so many that a test which fails could not be tidied up: at 1,000, Python's own recursion ends.
    (repo / ".memlake" / Path(*["d"] * 30)).mkdir(parents=True)
    with pytest.raises(Denied, match="lies more than 20 folders deep"):
        ml.open(repo)


def journal_naming(file: Path) -> bytes:
    """A rollback journal of no pages that ends with the name of a file, as SQLite writes it for several databases."""
    name = str(file).encode()
    head = bytes.fromhex("d9d505f920a163d7") + bytes(4) + b"salt" + (1).to_bytes(4, "big")
    head += (512).to_bytes(4, "big") + (4096).to_bytes(4, "big")
    page = (4096 // 4096 + (1 << 30) // 4096).to_bytes(4, "big")
    sum_of = sum(name).to_bytes(4, "big")
    return head.ljust(512, b"\0") + page + name + len(name).to_bytes(4, "big") + sum_of + nofollow._JOURNAL_END
