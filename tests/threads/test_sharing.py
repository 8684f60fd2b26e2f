"""Threads and tasks that share a Repo, an Agent or a Chain: nothing acknowledged to one is lost by another.

Orderings are forced: a thread is run to its end at a chosen step of another one's verb.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.objects import disk, forks
from memlake.versions.verbs import merge


@pytest.fixture
def repo(here: Path) -> ml.Repo:
    made = ml.init(here)
    (here / "a.txt").write_text("1\n", encoding="utf-8")
    made.add("a.txt")
    made.commit("one")
    made.write({"memories/bot/0000": b"first"}, "first")
    return made


def in_a_thread(work: Callable[[], Any]) -> Any:
    """What `work` returns or raises in a thread of its own, which has ended then."""
    result: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits for what the other thread holds"
    if failed:
        raise failed[0]
    return result[0]


def messages(repo: ml.Repo) -> list[str]:
    """Of the memory lane of main, newest first."""
    return [commit.message for commit in repo.log("main", lane="memory")]


def remember(repo: ml.Repo, name: str) -> ml.Commit:
    return repo.write({f"memories/bot/{name}": name.encode()}, name, branch="main")


# -- transactions -------------------------------------------------------------------------------------


def test_a_write_of_another_thread_stays_when_a_transaction_on_the_same_repo_fails(repo: ml.Repo) -> None:
    def fail() -> None:
        with repo.transaction("mine"):
            remember(repo, "mine")
            assert in_a_thread(lambda: remember(repo, "theirs")).oid, "acknowledged as a commit"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert messages(repo) == ["theirs", "first"]


def test_two_threads_have_a_transaction_open_on_one_repo_and_each_keeps_its_own(repo: ml.Repo) -> None:
    def theirs() -> None:
        with repo.transaction("theirs"):
            remember(repo, "b")

    with repo.transaction("mine"):
        remember(repo, "a")
        in_a_thread(theirs)
        remember(repo, "c")
    assert messages(repo) == ["mine", "theirs", "first"]
    assert {path for path, _ in repo.ls(prefix="memories/")} >= {f"memories/bot/{name}" for name in "abc"}


def test_agents_and_chains_of_other_threads_do_not_join_a_transaction(repo: ml.Repo) -> None:
    agent, chain = ml.Agent(agent_id="bot"), repo.datasets().read_values(x=[1, 2])

    def fail() -> None:
        with repo.transaction("mine"):
            chain.save("mine")
            in_a_thread(lambda: agent.remember("the sky is blue"))
            in_a_thread(lambda: chain.save("theirs"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [one.spec for one in repo.datasets().all()] == ["theirs@1.0.0"]
    assert [hit["content"] for hit in agent.search_memory("sky")] == ["the sky is blue"]


def test_a_task_started_inside_a_transaction_writes_for_itself(repo: ml.Repo) -> None:
    async def mine() -> None:
        with repo.transaction("mine"):
            remember(repo, "mine")
            await asyncio.create_task(theirs())
            await asyncio.to_thread(remember, repo, "in a worker thread")
            raise ZeroDivisionError

    async def theirs() -> None:
        assert remember(repo, "theirs").oid

    with pytest.raises(ZeroDivisionError):
        asyncio.run(mine())
    assert messages(repo) == ["in a worker thread", "theirs", "first"]


def test_tasks_of_one_thread_have_transactions_open_side_by_side(repo: ml.Repo) -> None:
    async def group(name: str, own: asyncio.Event, other: asyncio.Event) -> None:
        with repo.transaction(name):
            remember(repo, f"{name}-1")
            own.set()
            await other.wait()
            remember(repo, f"{name}-2")

    async def both() -> None:
        left, right = asyncio.Event(), asyncio.Event()
        await asyncio.gather(group("left", left, right), group("right", right, left))

    asyncio.run(both())
    found = {
        commit.message: {change.path[-1] for change in repo.show(commit).changes} for commit in repo.log(lane="memory")
    }
    assert found == {"left": {"1", "2"}, "right": {"1", "2"}, "first": {"0"}}


def test_a_copy_of_the_context_kept_from_a_transaction_joins_nothing_later(repo: ml.Repo) -> None:
    with repo.transaction("mine"):
        kept = contextvars.copy_context()
    assert kept.run(remember, repo, "later").oid and messages(repo) == ["later", "first"]


# -- verbs and undo -----------------------------------------------------------------------------------


def is_writing(repo: ml.Repo | None) -> bool:
    """Whether this thread is inside a transaction of the history of `repo`, or of any database: others wait for it."""
    return forks._this_thread.depth > 0 if repo is None else repo._history.db._lock._depth > 0


@contextlib.contextmanager
def meanwhile(work: Callable[[], Any], repo: ml.Repo | None = None) -> Iterator[None]:
    """Run `work` in another thread, to its end, at the first step of this one's verb at which it is not writing."""
    mine, before, done = threading.get_ident(), disk.hook, []

    def hook(_step: str) -> None:
        if threading.get_ident() == mine and not done and not is_writing(repo):
            done.append(True)
            in_a_thread(work)

    disk.hook = hook
    try:
        yield
    finally:
        disk.hook = before
    assert done, "the verb had no such step"


def edited(repo: ml.Repo) -> None:
    (repo.root / "b.txt").write_text("2\n", encoding="utf-8")
    repo.add("b.txt")


def side_branch(repo: ml.Repo) -> None:
    """A branch `side` that changed a.txt, as main did."""
    repo.switch("side", create=True)
    (repo.root / "a.txt").write_text("side\n", encoding="utf-8")
    repo.commit("side", all=True)
    repo.switch("main")


def conflicting(repo: ml.Repo) -> None:
    side_branch(repo)
    (repo.root / "a.txt").write_text("main\n", encoding="utf-8")
    repo.commit("main", all=True)


def waiting(repo: ml.Repo) -> None:
    conflicting(repo)
    repo.merge("side")
    repo.pending_merge.choose("ours")


def stashed(repo: ml.Repo) -> None:
    (repo.root / "a.txt").write_text("edited\n", encoding="utf-8")
    repo.stash.push()


VERBS: dict[str, tuple[Callable[[ml.Repo], object], Callable[[ml.Repo], object]]] = {  # what comes before, the verb
    "add": (lambda repo: (repo.root / "b.txt").write_text("2\n"), lambda repo: repo.add("b.txt")),
    "commit": (edited, lambda repo: repo.commit("two")),
    "commit -a": (edited, lambda repo: repo.commit("two", all=True)),
    "switch -c": (edited, lambda repo: repo.switch("new", create=True)),
    "switch": (side_branch, lambda repo: repo.switch("side")),
    "merge": (side_branch, lambda repo: repo.merge("side", ff=False)),
    "merge that waits": (conflicting, lambda repo: repo.merge("side")),
    "merge --continue": (waiting, lambda repo: repo.pending_merge.conclude()),
    "reset --hard": (conflicting, lambda repo: repo.reset("HEAD~1", mode="hard")),
    "stash": (edited, lambda repo: repo.stash.push()),
    "stash pop": (stashed, lambda repo: repo.stash.pop()),
    "branch": (edited, lambda repo: repo.branches.create("new")),
    "tag": (edited, lambda repo: repo.tags.create("v1")),
    "rm": (lambda _repo: None, lambda repo: repo.rm("a.txt")),
}


@pytest.mark.parametrize("name", VERBS)
def test_undo_of_a_verb_leaves_what_another_thread_wrote_meanwhile(repo: ml.Repo, name: str) -> None:
    prepare, verb = VERBS[name]
    prepare(repo)
    before = (repo.head, repo.branches.current, repo.status())
    with meanwhile(lambda: remember(repo, "theirs"), repo):
        verb(repo)
    assert messages(repo)[0] == "theirs"
    repo.undo()
    assert messages(repo) == ["theirs", "first"], "undo takes back its own verb alone"
    assert (repo.head, repo.branches.current, repo.status()) == before


# -- gc beside everything -------------------------------------------------------------------------------


@contextlib.contextmanager
def at_each_step(work: Callable[[], Any], repo: ml.Repo | None = None) -> Iterator[None]:
    """Run `work` in another thread, to its end, at each kind of step of this one's verb at which it is not writing."""
    mine, before, done = threading.get_ident(), disk.hook, set[str]()

    def hook(step: str) -> None:
        if threading.get_ident() == mine and step not in done and not is_writing(repo):
            done.add(step)
            in_a_thread(work)

    disk.hook = hook
    try:
        yield
    finally:
        disk.hook = before
    assert done, "the verb had no such step"


@pytest.mark.parametrize("name", VERBS)
def test_gc_at_each_step_of_a_verb_takes_nothing_that_it_or_its_undo_needs(repo: ml.Repo, name: str) -> None:
    prepare, verb = VERBS[name]
    prepare(repo)
    before = (repo.head, repo.branches.current, repo.status())
    with at_each_step(lambda: repo.upkeep.gc(prune=True), repo):
        verb(repo)
    assert repo.upkeep.fsck(full=True).ok
    with at_each_step(lambda: repo.upkeep.gc(prune=True), repo):
        repo.undo()
    assert (repo.head, repo.branches.current, repo.status()) == before and repo.upkeep.fsck(full=True).ok


def test_gc_at_each_step_of_agents_chains_and_transactions_takes_nothing_of_theirs(repo: ml.Repo) -> None:
    agent, chain = ml.Agent(agent_id="bot"), repo.datasets().read_values(x=list(range(1000)))
    with at_each_step(lambda: repo.upkeep.gc(prune=True)):
        agent.remember("the sky is blue")
        chain.save("numbers")
        with repo.transaction("both"):
            remember(repo, "a")
            repo.write({"files/large": b"x" * 200_000}, "large")
    assert repo.datasets().read_dataset("numbers").count() == 1000
    assert [hit["content"] for hit in agent.search_memory("sky")] == ["the sky is blue"]
    assert repo.read("files/large") == b"x" * 200_000 and repo.upkeep.fsck(full=True).ok


# -- parts are stored before the lock is taken, and looked at again inside it ----------------------------


@pytest.fixture
def part(here: Path, repo: ml.Repo) -> Callable[[], Path]:
    def make() -> Path:
        (here / "part").write_bytes(b"a part of some rows")
        return here / "part"

    return make


def test_a_part_that_gc_removes_before_it_has_a_row_is_said_to_be_gone(
    repo: ml.Repo, part: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = repo._history.objects
    put = objects.parts.put

    def stored(name: str, file: Path) -> None:
        put(name, file)
        assert in_a_thread(lambda: repo.upkeep.gc(prune=True)).files == 1

    monkeypatch.setattr(objects.parts, "put", stored)
    with pytest.raises(ml.errors.Unavailable, match="gc removed a part"):
        objects.write_part(part())
    monkeypatch.undo()
    assert repo.upkeep.fsck(full=True).ok and objects.write_part(part()), "it can be stored again"


def test_a_part_that_is_purged_while_it_is_stored_again_does_not_come_back(
    repo: ml.Repo, part: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = repo._history.objects
    oid = objects.write_part(part())
    put = objects.parts.put

    def stored(name: str, file: Path) -> None:
        in_a_thread(lambda: repo.upkeep.purge(oid, reason="a secret"))
        put(name, file)

    monkeypatch.setattr(objects.parts, "put", stored)
    with pytest.raises(ml.errors.Purged):
        objects.write_part(part())
    assert not list((repo.dir / "parts").rglob(oid)) and repo.upkeep.fsck(full=True).ok


# -- agents and chains beside a merge that waits --------------------------------------------------------


ENDS: dict[str, Callable[[ml.Repo], object]] = {
    "abort": lambda repo: repo.pending_merge.abort(),
    "continue": lambda repo: repo.pending_merge.conclude(),
    "undo": lambda repo: repo.undo(),
    "commit": lambda repo: repo.commit("merged"),
}


CHOSEN = {"continue": "theirs", "commit": "ours"}


@contextlib.contextmanager
def after_planning(work: Callable[[], Any]) -> Iterator[None]:
    """Run `work` in another thread once a merge was planned on the head there is, before it takes the lock."""
    plan, done = merge._files_to_write, []

    def planned(*args: Any) -> Any:
        found = plan(*args)
        if not done:
            done.append(in_a_thread(work))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "_files_to_write", planned)
        yield
    assert done


@pytest.mark.parametrize(
    ("end", "when"),
    # An undo after them would take back the last of them, and not the merge.
    [
        (end, when)
        for end in ENDS
        for when in ("while it waits", "while it ends")
        if (end, when) != ("undo", "while it waits")
    ],
)
def test_what_agents_and_chains_store_beside_a_merge_that_waits_stays_however_it_ends(
    repo: ml.Repo, end: str, when: str
) -> None:
    agent, chain = ml.Agent(agent_id="bot"), repo.datasets().read_values(x=[1, 2])
    conflicting(repo)
    repo.merge("side")
    assert repo.status().conflicts
    if end in CHOSEN:
        repo.pending_merge.choose(CHOSEN[end])

    def theirs() -> None:
        agent.remember("the sky is blue")
        chain.save("theirs")

    if when == "while it waits":
        in_a_thread(theirs)
        ENDS[end](repo)
    else:
        with after_planning(theirs) if end in CHOSEN else at_each_step(theirs):
            ENDS[end](repo)
    assert [one.spec for one in repo.datasets().all()] == ["theirs@1.0.0"]
    assert [hit["content"] for hit in agent.search_memory("sky")] == ["the sky is blue"]
    assert not repo.status().conflicts and repo.upkeep.fsck(full=True).ok
    assert (repo.root / "a.txt").read_text() == ("side\n" if end == "continue" else "main\n")
    assert (len(repo.show("main").commit.parents) == 2) == (end in ("continue", "commit"))
