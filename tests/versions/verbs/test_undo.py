"""Undo takes back the last operation, whatever it was, and refuses rather than lose what was done since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.objects.db import Database
from tests.versions.conftest import Keep

Write = Callable[..., None]


def picture(repo: ml.Repo) -> object:
    files = {
        p.relative_to(repo.root).as_posix(): p.read_bytes()
        for p in sorted(repo.root.rglob("*"))
        if p.is_file() and ".memlake" not in p.parts
    }
    status = repo.status()
    return (
        files, repo.head, repo.branches.current, status.staged, status.unstaged, status.untracked, status.doing,
        status.conflicts, [(b.name, b.work, b.memory) for b in repo.branches], repo.tags.list(), repo.stash.entries(),
    )  # fmt: skip


VERBS: dict[str, Callable[[ml.Repo], object]] = {
    "add": lambda repo: repo.add(all=True),
    "rm": lambda repo: repo.rm("b"),
    "rm --cached": lambda repo: repo.rm("b", cached=True),
    "rm -f of edited": lambda repo: repo.rm("edited", force=True),
    "mv": lambda repo: repo.mv("b", "moved/b"),
    "mv of edited": lambda repo: repo.mv("edited", "moved"),
    "mv -f over another": lambda repo: repo.mv("b", "a", force=True),
    "commit": lambda repo: (repo.add("edited"), repo.commit("x")),
    "commit --amend": lambda repo: repo.commit("again", amend=True),
    "branch": lambda repo: repo.branches.create("new"),
    "branch -d": lambda repo: repo.branches.delete("dev", force=True),
    "branch -m": lambda repo: repo.branches.rename("main", "trunk"),
    "branch -m over another": lambda repo: repo.branches.rename("main", "dev", force=True),
    "tag": lambda repo: repo.tags.create("new"),
    "tag -d": lambda repo: repo.tags.delete("v1"),
    "tag -f": lambda repo: repo.tags.create("v1", "HEAD", "moved", force=True),
    "switch": lambda repo: repo.switch("dev"),
    "switch -c": lambda repo: repo.switch("new", create=True),
    "detach": lambda repo: repo.switch("HEAD~1", detach=True),
    "merge": lambda repo: repo.merge("dev"),
    "merge that waits": lambda repo: repo.merge("clash"),
    "revert": lambda repo: repo.revert("HEAD"),
    "revert --no-commit": lambda repo: repo.revert("HEAD", no_commit=True),
    "cherry-pick": lambda repo: repo.cherry_pick("dev"),
    "reset --soft": lambda repo: repo.reset("HEAD~1", "soft"),
    "reset --mixed": lambda repo: repo.reset("HEAD~1", "mixed"),
    "reset --hard": lambda repo: repo.reset("HEAD~1", "hard"),
    "reset paths": lambda repo: repo.restore("a", source="HEAD~1", staged=True),
    "restore": lambda repo: repo.restore("edited"),
    "restore from a rev": lambda repo: repo.restore("a", source="HEAD~1", staged=True, worktree=True),
    "stash": lambda repo: repo.stash.push(),
    "stash -u": lambda repo: repo.stash.push(include_untracked=True),
    "stash apply": lambda repo: repo.stash.apply(),
    "stash pop": lambda repo: repo.stash.pop(),
    "stash drop": lambda repo: repo.stash.drop(),
}


@pytest.fixture
def rich(repo: ml.Repo, keep: Keep, write: Write) -> ml.Repo:
    """A repo where every verb has something to do: branches, a tag, a stash, an edited and an untracked file."""
    keep("base", {"a": "1\n", "b": "1\n", "c": "1\n", "edited": "1\n", "s": "1\n"})
    repo.switch("clash", create=True)
    keep("clash", {"a": "clash\n"})
    repo.switch("main")
    repo.switch("dev", create=True)
    keep("dev", {"c": "dev\n"})
    repo.switch("main")
    repo.write({"memories/bot/1": b"m"}, "m")
    keep("main", {"a": "2\n"})
    repo.tags.create("v1", "HEAD~1", "first release")
    write({"s": "stashed\n"})
    repo.stash.push("shelf")
    write({"edited": "precious\n", "untracked": "mine\n"})
    return repo


@pytest.mark.parametrize("verb", VERBS)
def test_undo_brings_back_exactly_what_was(rich: ml.Repo, verb: str) -> None:
    before = picture(rich)
    VERBS[verb](rich)
    after = picture(rich)
    assert after != before, "the verb must have done something"
    rich.undo()
    if verb == "commit":  # two operations: the commit and the add before it
        rich.undo()
    assert picture(rich) == before
    assert rich.upkeep.fsck().ok


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "commit"])
def test_redo_takes_back_the_undo(rich: ml.Repo, verb: str) -> None:
    VERBS[verb](rich)
    after = picture(rich)
    rich.undo()
    rich.redo()
    assert picture(rich) == after


@pytest.mark.parametrize("verb", ["commit --amend", "switch", "merge", "reset --hard"])
def test_a_verb_writes_down_once_what_undo_needs(rich: ml.Repo, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    run = Database.run

    def noted(db: Database, sql: str, args: Sequence[Any] = ()) -> int:
        written.extend([sql] if "INTO operation" in sql else ())
        return run(db, sql, args)

    monkeypatch.setattr(Database, "run", noted)
    VERBS[verb](rich)
    assert len(written) == 1


def test_undo_goes_further_back_each_time(rich: ml.Repo, write: Write) -> None:
    pictures = [picture(rich)]
    for n in range(3):
        write({"a": f"{n}\n"})
        rich.add("a")
        rich.commit(f"c{n}")
        pictures.append(picture(rich))
    for before in reversed(pictures[1:-1]):
        rich.undo()
        rich.undo()
        rich.restore("a")
        rich.undo()
        assert picture(rich)[1] == before[1]  # type: ignore[index]


def test_undo_refuses_when_a_file_was_edited_since(rich: ml.Repo, write: Write) -> None:
    rich.switch("dev")
    write({"c": "edited since\n"})
    before = picture(rich)
    with pytest.raises(ml.errors.Conflict):
        rich.undo()
    assert picture(rich) == before


@pytest.mark.parametrize("verb", ["switch", "switch -c", "merge", "revert"])
@pytest.mark.parametrize("by_hand", ["changed to the target", "deleted", "made as the target has it"])
def test_undo_brings_back_what_was_done_by_hand_before_a_verb_that_agreed_with_it(
    repo: ml.Repo, keep: Keep, write: Write, verb: str, by_hand: str
) -> None:
    """The verb needed to refuse nothing; but before it the file was not as HEAD has it, and so it must be after."""
    keep("base", {"a": "old\n", "b": "1\n"})
    repo.switch("dev", create=True)
    keep("dev", {"a": "new\n", "made": "made\n"})
    repo.switch("main")
    if verb == "revert":
        repo.merge("dev")
        keep("taken back", {"a": "old\n", "made": None})
    write({"a": "new\n"} if by_hand.startswith("changed") else {"a": None} if by_hand == "deleted" else {})
    write({"made": "made\n"} if by_hand.startswith("made") else {})
    before = picture(repo)
    {
        "switch": lambda: repo.switch("dev"),
        "switch -c": lambda: repo.switch("new", create=True, at="dev"),
        "merge": lambda: repo.merge("dev", ff=False),
        "revert": lambda: repo.revert("HEAD"),
    }[verb]()
    after = picture(repo)
    for _ in range(2):
        repo.undo()
        assert picture(repo) == before
        repo.redo()
        assert picture(repo) == after


def test_redo_brings_back_what_was_done_by_hand_before_the_undo(rich: ml.Repo, write: Write) -> None:
    rich.switch("dev")
    write({"c": "1\n"})  # as main has it
    rich.undo()
    rich.redo()
    assert (rich.root / "c").read_text() == "1\n" and [c.path for c in rich.status().unstaged] == [
        "files/c",
        "files/edited",
    ]


def test_undo_refuses_when_someone_built_on_it(rich: ml.Repo, write: Write, here: Path) -> None:
    rich.commit("again", amend=True)
    ml.open(here).write({"files/theirs": b"x"}, "built on it")
    before = picture(rich)
    with pytest.raises(ml.errors.Conflict, match="moved since"):
        rich.undo()
    assert picture(rich) == before


def test_undo_leaves_memories_written_since_alone(rich: ml.Repo, keep: Keep) -> None:
    rich.stash.push()
    keep("work", {"a": "9\n"})
    made = rich.write({"memories/bot/2": b"m"}, "m")
    rich.undo()
    assert rich.branches.list()[-1].memory == made.oid and rich.show("HEAD").commit.subject == "main"


def test_undo_of_a_merge_that_was_settled_goes_back_to_the_waiting_merge(rich: ml.Repo) -> None:
    rich.merge("clash")
    waiting = picture(rich)
    rich.pending_merge.choose("theirs")
    rich.pending_merge.conclude()
    rich.undo()
    status = rich.status()
    assert status.doing == "merge" and [c.path for c in status.conflicts] == ["files/a"]
    rich.pending_merge.abort()
    rich.undo()
    assert rich.status().doing == "merge"
    rich.undo()  # the choice
    assert picture(rich) == waiting
    rich.undo()
    assert rich.status().doing is None and waiting != picture(rich)


def test_there_is_nothing_to_undo_or_redo_in_a_new_repo(repo: ml.Repo) -> None:
    for verb in (repo.undo, repo.redo):
        with pytest.raises(ml.errors.Nothing):
            verb()


def test_what_undo_needs_survives_gc(rich: ml.Repo, here: Path) -> None:
    rich.reset("HEAD~1", "hard")
    rich.upkeep.gc(prune=True)
    rich.upkeep.gc(prune=True)
    rich.undo()
    assert (here / "edited").read_text() == "precious\n"


def test_operations_are_listed_newest_first(rich: ml.Repo) -> None:
    rich.tags.create("x")
    rich.undo()
    assert [(op.verb, op.undone) for op in rich.operations(2)] == [("undo", False), ("tag", True)]


def test_undo_goes_on_further_back_after_an_undo_a_redo_and_an_undo(repo: ml.Repo, keep: Keep) -> None:
    for number in "123":
        keep(number, {"f": number})
    repo.undo(), repo.redo(), repo.undo()
    assert [commit.message for commit in repo.log()] == ["2", "1"]
    repo.undo()  # the add before the third commit
    repo.undo()
    assert [commit.message for commit in repo.log()] == ["1"]


def test_redo_takes_back_one_undo_after_the_other(repo: ml.Repo, keep: Keep) -> None:
    for name in ("one", "two", "three"):
        repo.tags.create(name, keep(name, {"f": name}).oid)
    for _ in range(6):  # the tag, the commit and the add of two of them
        repo.undo()
    assert [commit.message for commit in repo.log()] == ["one"]
    for _ in range(6):
        repo.redo()
    assert [commit.message for commit in repo.log()] == ["three", "two", "one"] and len(repo.tags.list()) == 3
    with pytest.raises(ml.errors.Nothing, match="nothing to redo"):
        repo.redo()


def test_redo_stops_where_something_else_was_done_since_the_undo(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"f": "1"})
    repo.tags.create("a")
    repo.undo()
    repo.tags.create("b")
    repo.undo()
    repo.redo()
    assert [tag.name for tag in repo.tags] == ["b"]
    with pytest.raises(ml.errors.Nothing, match="something was done since"):
        repo.redo()


@pytest.mark.parametrize("how", [{"all": True}, {"paths": ["f"]}, {"all": True, "amend": True}])
def test_a_commit_that_stages_first_is_one_operation(repo: ml.Repo, keep: Keep, write: Write, how: Any) -> None:
    keep("one", {"f": "1", "g": "1"})
    write({"g": "staged"})
    repo.add("g")
    write({"f": "22", "g": "staged and edited"})
    before, done = picture(repo), len(repo.operations())
    repo.commit("two", **how)
    after = picture(repo)
    assert len(repo.operations()) == done + 1
    repo.undo()
    assert picture(repo) == before
    repo.redo()
    assert picture(repo) == after


def test_undo_of_a_merge_concluded_by_commit_all_brings_back_its_conflicts(rich: ml.Repo, write: Write) -> None:
    rich.merge("clash")
    write({"a": "by hand\n"})
    before = picture(rich)
    rich.commit("joined", all=True)
    rich.undo()
    assert picture(rich) == before


def test_an_add_that_stages_nothing_is_no_operation(repo: ml.Repo, keep: Keep, write: Write) -> None:
    keep("one", {"f": "1", "g": "1"})
    write({"g": "2"})
    repo.add("g")
    done = repo.operations()
    for again in ({"all": True}, {"update": True}):
        write({"f": "1", "g": "2"})  # written again as they are
        repo.add(**again)
    assert repo.operations() == done
    repo.undo()
    assert not repo.status().staged


def test_an_add_that_takes_a_path_out_of_the_stage_is_an_operation(repo: ml.Repo, keep: Keep, write: Write) -> None:
    keep("one", {"f": "1"})
    write({"f": "22"})
    repo.add("f")
    write({"f": "1"})
    repo.add("f")
    assert not repo.status().staged
    repo.undo()
    assert [change.path for change in repo.status().staged] == ["files/f"]
