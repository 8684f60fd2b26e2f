"""Clocks that are wrong: set back, set forward, or of another machine. Nothing is lost, and no wait is endless."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import memlake as ml
from memlake.index import rows
from memlake.memories.memories import Draft
from memlake.memories.search import Query
from memlake.objects import layout, leases
from tests.conftest import SetClock
from tests.versions.conftest import Keep

HOUR = 3600
YEAR = 365 * 24 * HOUR


@pytest.mark.filterwarnings("ignore:the clock was set forward")
@pytest.mark.parametrize(
    "shifts",
    [(0, -HOUR), (0, YEAR), (YEAR, 0), (0, YEAR, -HOUR), (-YEAR, YEAR, 0)],
    ids=["back an hour", "ahead a year", "a year back", "ahead and back", "from the past"],
)
def test_every_verb_works_and_nothing_is_lost_whatever_the_clock_does(
    repo: ml.Repo, here: Path, keep: Keep, set_clock: SetClock, shifts: tuple[int, ...]
) -> None:
    repo.config.set("embedding.provider", "none")
    for n, shift in enumerate(shifts):
        set_clock(shift)
        keep(f"on main {n}", {"a": f"{n}\n", f"new{n}": "new\n"})
        repo.switch(f"side{n}", create=True)
        keep(f"on side {n}", {"b": f"{n}\n"})
        repo.memories().store(Draft(f"the number is {n}", "bot"))
        repo.switch("main")
        repo.merge(f"side{n}")
        (here / "a").write_text("edited\n")
        repo.stash.push()
        repo.upkeep.gc()
        repo.stash.pop()
        repo.restore("a")
        (here / "a").write_text("undone\n")
        repo.add("a")
        repo.commit("to be undone")
        repo.undo()
        repo.restore("a", staged=True, worktree=True)
        repo.upkeep.gc()
    found = [commit.message for commit in repo.log()]
    assert [message for message in found if message.startswith("on main")] == [
        f"on main {n}" for n in reversed(range(len(shifts)))
    ], "in the order they were made"
    assert (here / "a").read_text() == f"{len(shifts) - 1}\n" and (here / "b").exists()
    assert {path for path, _ in repo.ls()} >= {f"files/new{n}" for n in range(len(shifts))}
    assert repo.upkeep.fsck(full=True).ok


def test_gc_after_the_clock_was_set_forward_takes_no_grace_period_for_over(
    repo: ml.Repo, keep: Keep, set_clock: SetClock
) -> None:
    repo.config.set("gc.reflog_expire", "30")
    keep("one", {"a": "1\n"})
    keep("two", {"a": "2\n"})
    repo.close()
    with ml.open(repo.root) as opened:
        opened._history.objects.write(b"nobody names it")  # what a writer has stored, and names in a moment
        with opened._history.db.write():
            opened._history.db.run("UPDATE object SET touched = 1 WHERE data = ?", (b"nobody names it",))
        opened.reset("HEAD~1", "hard")
        assert opened.upkeep.gc().condemned == 1
        set_clock(YEAR)
        with pytest.warns(UserWarning, match="set forward by 87[56]. h"):
            report = opened.upkeep.gc()
        assert report.objects == 0 and report.commits == 0
        assert opened.show("main@{1}").commit.subject == "two"
        assert opened.upkeep.gc(prune=True).objects == 1, "who asks for it gets it"


def test_a_lease_of_a_clock_that_was_ahead_ends_a_lease_after_it_was_seen(repo: ml.Repo, set_clock: SetClock) -> None:
    db = repo._history.db
    with db.write():
        db.run(
            "INSERT INTO lease(host, pid, born, tick, expires, what) VALUES('elsewhere', 1, '', 1, ?, 'add')",
            (layout.now() + YEAR * 1_000_000,),
        )
        leases.drop_dead(db)
    assert leases.oldest(db) == 1, "it may be at work"
    set_clock(db.lease_seconds + 1)
    with db.write():
        leases.drop_dead(db)
    assert leases.oldest(db) == leases.NEVER


def test_a_writer_renews_its_lease_also_when_the_clock_was_set_back(
    repo: ml.Repo, set_clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = repo._history.db
    lease = leases.Lease(db, "add")
    set_clock(-2 * HOUR)
    passed, true = db.lease_seconds / 2, time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: true() + passed)
    lease.renew()
    row = db.row("SELECT expires FROM lease")
    assert row is not None and abs(row[0] - layout.now() - db.lease_seconds * 1_000_000) < 60_000_000


def test_a_row_claimed_by_a_clock_that_was_ahead_is_embedded_all_the_same(repo: ml.Repo, set_clock: SetClock) -> None:
    repo.config.set("embedding.provider", "none")
    memories = repo.memories()
    memories.store(Draft("Rex is a dog", "bot"))
    memories.search(Query("dog"))
    db = memories.shared.index.db
    with db.write():
        rows.requeue_all(db)
    set_clock(YEAR)
    taken = rows.claim_pending(db, 10)
    assert len(taken) == 1 and rows.claim_pending(db, 10) == [], "claimed, and nobody else gets it"
    set_clock(0)
    assert rows.claim_pending(db, 10) == taken
