"""Paths in a stranger's local.db and history that lead elsewhere: no verb reads, changes or waits for what is there."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import pkgutil
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake import nofollow, versions
from memlake.errors import Corrupt
from memlake.records import Entry
from memlake.versions import paths
from memlake.versions.operation import pack_state
from memlake.versions.trees import codec
from tests.reliability.ground import forged
from tests.reliability.test_hostile_links import run

CANARY = os.urandom(20).hex()
ENTRY = codec.encode_entry(Entry(hashlib.sha256(b"other").hexdigest(), "file", len(CANARY)))
VERBS = [
    "status", "diff", "add -A", "commit -a -m all", "stash", "restore .", "rm --force a.txt", "mv c.txt b.txt",
    "switch -f -c side", "reset --hard", "undo", "merge --continue", "fsck", "gc --prune",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _nobody_waits() -> Iterator[None]:
    """A read of a pipe would wait for ever."""

    def late(*_: object) -> None:
        raise AssertionError("a verb waits for a file that is not its own")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repo of two files, one of them staged, with a victim, a pipe and a folder of secrets around it."""
    around = tmp_path_factory.mktemp("around")
    root = around / "repo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMLAKE_AUTHOR_NAME", "Ada")
        patch.setenv("MEMLAKE_AUTHOR_EMAIL", "ada@example.org")
        with ml.init(root) as repo:
            (root / "a.txt").write_text("hello\n")
            repo.add(root / "a.txt")
            repo.commit("one")
            (root / "c.txt").write_text("staged\n")
            repo.add(root / "c.txt")
    (around / "out").mkdir()
    for name in ("victim.txt", "out/secret.txt", "repo/.git/config"):
        (around / name).parent.mkdir(exist_ok=True)
        (around / name).write_text(CANARY)
    os.mkfifo(around / "pipe")
    os.mkfifo(root / "p")
    (root / "d").symlink_to("../out")
    (root / "payload").write_text("payload")
    return around


HOSTILE = ["../victim.txt", "../pipe", "d/secret.txt", ".git/config", "p", "{root}/../victim.txt"]


def edit(repo: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    with forged(repo / ".memlake" / "local.db") as database:
        for sql, args in statements:
            database.execute(sql, args)


def in_file(repo: Path, path: str) -> None:
    row = (path, ENTRY, 0, None, None)
    edit(repo, ("INSERT OR REPLACE INTO file VALUES(?, ?, NULL, 1, ?, ?, ?)", row))


def in_stage(repo: Path, path: str) -> None:
    row = (path, ENTRY, 1, ENTRY, None)
    edit(repo, ("INSERT OR REPLACE INTO file VALUES(?, ?, NULL, 1, ?, ?, ?)", row))


def in_conflict(repo: Path, path: str) -> None:
    row = (f"files/{path}", ENTRY, ENTRY, ENTRY, None, None, ENTRY)
    edit(repo, ("INSERT OR REPLACE INTO conflict VALUES(?, ?, ?, ?, ?, ?, ?)", row))


def in_journal(change: Callable[[dict[str, Any], str, Path], None]) -> Callable[[Path, str], None]:
    def plant(repo: Path, path: str) -> None:
        with ml.open(repo) as opened:
            head = opened.head
        plan: dict[str, Any] = {
            "goal": [head, "main", "", "Eve"], "token": "", "writes": [], "rows": [], "files": True, "doing": None,
            "conflicts": [], "undone": [], "operation": None, "rename": None, "moved": False, "written": 0,
        }  # fmt: skip
        change(plan, path, repo)
        text = json.dumps(plan)
        edit(repo, ("INSERT OR REPLACE INTO state VALUES(?, ?)", ("journal", text)))

    return plant


def rename_to(plan: dict[str, Any], path: str, repo: Path) -> None:
    plan["rename"] = ["payload", path, os.lstat(repo / "payload").st_ino]


def rename_from(plan: dict[str, Any], path: str, repo: Path) -> None:
    place = repo / path
    plan["rename"] = [path, "taken", os.lstat(place).st_ino if os.path.lexists(place) else 0]


def write_there(plan: dict[str, Any], path: str, _: Path) -> None:
    plan["writes"] = [[f"files/{path}", None, ENTRY.hex()], [f"files/{path}x", ENTRY.hex(), None]]


def rows_there(plan: dict[str, Any], path: str, _: Path) -> None:
    plan["rows"] = [[path, ENTRY.hex(), True, None, None]]


def in_operation(repo: Path, path: str) -> None:
    with ml.open(repo) as opened:
        head = opened.head
    state = {
        "head": "main", "base": head, "staged": [[path, ENTRY.hex(), None, None]], "doing": None, "conflicts": [],
        "files": True, "saved": {path: None}, "left": {path: ENTRY.hex()}, "refs": [], "notes": {}, "commit": None,
        "memory": None,
    }  # fmt: skip
    data = pack_state(state)
    edit(repo, ("INSERT INTO operation(time, verb, detail, before) VALUES(1, 'add', 'x', ?)", (data,)))


def in_history(repo: Path, path: str) -> None:
    """As a stranger's own program writes it: the checks are switched off there."""
    with pytest.MonkeyPatch.context() as patch:
        for module in pkgutil.iter_modules(versions.__path__):
            found = importlib.import_module(f"memlake.versions.{module.name}")
            for name, off in (("check", str), ("check_file", str), ("check_together", lambda *_: None)):
                if hasattr(found, name):
                    patch.setattr(found, name, off)
        with ml.open(repo) as opened:
            opened.write({f"files/{path}": b"of history"}, "evil")
            opened.write({f"files/{path}": None}, "gone")
            opened.write({f"files/{path}": b"again " * 7}, "evil again")


COLUMNS = {
    "file": in_file, "stage": in_stage, "conflict": in_conflict, "operation": in_operation, "history": in_history,
    "rename to": in_journal(rename_to), "rename from": in_journal(rename_from),
    "journal writes": in_journal(write_there), "journal rows": in_journal(rows_there),
}  # fmt: skip


def around(folder: Path) -> dict[str, object]:
    """What lies around the repo, and what in it is nobody's to touch; a pipe is only looked at."""
    places = [
        folder / "victim.txt",
        folder / "out",
        folder / "out/secret.txt",
        folder / "repo/.git/config",
        folder / "pipe",
    ]
    found: dict[str, object] = {str(place): (place.lstat().st_mtime_ns, place.lstat().st_ino) for place in places}
    found |= {str(place): place.read_text() for place in places if nofollow.is_file(place)}
    return found | {"names": sorted(os.listdir(folder)), "out": os.listdir(folder / "out")}


@pytest.mark.parametrize("column", COLUMNS)
def test_no_verb_touches_or_reads_what_a_hostile_path_names(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Callable[..., None], column: str
) -> None:
    monkeypatch.setenv("MEMLAKE_AUTHOR_NAME", "Ada")
    for number, pattern in enumerate(HOSTILE):
        here = tmp_path / str(number)
        shutil.copytree(plain, here, symlinks=True, copy_function=copied, ignore=shutil.ignore_patterns("pipe", "p"))
        os.mkfifo(here / "pipe")
        os.mkfifo(here / "repo" / "p")
        repo = here / "repo"
        COLUMNS[column](repo, pattern.replace("{root}", str(repo)))
        before = around(here)
        monkeypatch.chdir(repo)
        for verb in VERBS:
            said = run(*verb.split())
            assert CANARY not in said, (pattern, verb)
            assert "fatal: unexpected" not in said, (pattern, verb, said)
            assert around(here) == before, (pattern, verb)
        for file in (file for file in (repo / ".memlake").rglob("*") if nofollow.is_file(file)):
            assert CANARY.encode() not in file.read_bytes(), (pattern, file)
        monkeypatch.chdir(tmp_path)
    tally(hostile_inputs=len(HOSTILE) * len(VERBS))


def copied(source: str, target: str) -> None:
    if not os.path.islink(source):
        shutil.copy2(source, target)


def test_a_path_of_history_that_leads_elsewhere_is_never_tracked(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    with ml.init(repo):
        pass
    (tmp_path / "victim.txt").write_text(CANARY)
    in_history(repo, "../victim.txt")
    with ml.open(repo) as opened:
        with pytest.warns(UserWarning, match="in history and was not written"):
            opened.reset("HEAD", "hard")
        assert opened._local.paths() == []
        assert opened.status().unstaged == ()
        assert opened.upkeep.fsck(full=True).ok


def test_a_row_with_such_a_path_is_named(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    ml.init(repo).close()
    in_file(repo, "../victim.txt")
    with (
        ml.open(repo) as opened,
        pytest.raises(Corrupt, match=r"names '../victim.txt', which cannot be a working file"),
    ):
        opened.status()


@pytest.mark.parametrize(
    "path", ["a", "a/b", ".a", "..a", "a..", "x.git", "a\nb", ".memlakeignore", "git~2", "a\u200db"]
)
def test_the_search_over_many_paths_finds_no_fault_in_good_ones(path: str) -> None:
    assert paths.find_unwritable(["x", path, "y/z"]) is None


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "..",
        "a/..",
        "./a",
        "A/.GIT/b",
        ".memlake",
        ".memlake~1/x",
        "a\0",
        ".git. /a",
        "b/.git:x",
        ".g\u200cit",
        "memlak~1",
        "a" * 256,
        "b/" * 2050,
    ],
)
def test_the_search_over_many_paths_finds_a_bad_one(path: str) -> None:
    assert paths.find_unwritable(["x", path, "y/z"]) == path


# -- what a verb left as JSON -------------------------------------------------------------------------

WAITING = {
    "verb": "merge", "name": "side", "names": ["main", "side", False], "theirs": None, "theirs_memory": None,
    "ff": True, "message": "m",
}  # fmt: skip
LEFT = {
    "nothing of it": {"doing": {}},
    "no name": {"doing": {key: value for key, value in WAITING.items() if key != "name"}},
    "another verb": {"doing": {**WAITING, "verb": "rebase"}},
    "a commit that is none": {"doing": {**WAITING, "theirs": "x"}},
    "a list": {"doing": []},
    "a text": {"doing": "merge"},
    "a verb that is a list": {"doing": {**WAITING, "verb": []}},
    "too few names": {"doing": {**WAITING, "names": ["main"]}},
    "lost paths that are none": {"doing": {**WAITING, "lost": [7]}},
    "held files that are none": {"doing": {**WAITING, "held": {"files/a.txt": 7}}},
    "a plan without a goal": {"journal": {}},
    "a plan that is a number": {"journal": 7},
}


@pytest.mark.parametrize("what", LEFT)
def test_what_a_verb_left_and_no_memlake_writes_is_named_with_advice_that_works(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = tmp_path / "repo"
    ml.init(repo).close()
    monkeypatch.chdir(repo)
    (repo / "a.txt").write_text("hello\n")
    run("add", "a.txt")
    run("commit", "-m", "one")
    ((key, value),) = LEFT[what].items()
    text = json.dumps(value)
    edit(repo, ("INSERT OR REPLACE INTO state VALUES(?, ?)", (key, text)))
    for verb in ("status", "commit -m x", "merge --abort", "merge --continue", "gc", "fsck", "switch main", "add -A"):
        said = run(*verb.split())
        assert f"what local.db holds as '{key}' is not what memlake writes" in said, (verb, said)
    command = next(line.partition("with: ")[2] for line in said.splitlines() if "mkdir" in line)
    assert subprocess.run(command, shell=True, check=False).returncode == 0
    assert "local.db was lost" in run("status") and "no problem" in run("fsck")
