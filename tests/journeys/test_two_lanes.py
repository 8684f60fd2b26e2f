"""An agent remembers all day while a person works: neither moves the other's history.

A branch has two lanes. `log`, `HEAD~1`, `--amend`, `revert` and `reset --hard` are about the person's files; what the
agent remembered between two of their commits stays where it is through all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml


class Story:
    """A person at a folder and an agent with a memory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.repo = folder, ml.init(folder)
        self.thoughts: dict[str, bytes] = {}

    def person_keeps(self, message: str, **files: str) -> ml.Commit:
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self.repo.add(all=True)
        return self.repo.commit(message)

    def agent_remembers(self, count: int = 3) -> None:
        for _ in range(count):
            path, thought = f"memories/bot/{len(self.thoughts):04d}", f"thought {len(self.thoughts)}".encode()
            self.repo.write({path: thought}, "remember", author="bot")
            self.thoughts[path] = thought

    def remembered(self) -> dict[str, bytes]:
        return {path: self.repo.objects.read(entry.oid) for path, entry in self.repo.ls(prefix="memories/")}

    def memory_head(self) -> str | None:
        return next(branch.memory for branch in self.repo.branches if branch.current)


@pytest.fixture
def story(here: Path) -> Story:
    """Three commits of a person, each with an agent writing before and after it."""
    told = Story(here)
    told.agent_remembers()
    for number in (1, 2, 3):
        told.person_keeps(f"work {number}", notes=f"version {number}\n")
        told.agent_remembers()
    return told


def subjects(repo: ml.Repo, **how: str) -> list[str]:
    return [commit.subject for commit in repo.log(**how)]  # type: ignore[arg-type]


def test_the_persons_log_is_not_drowned(story: Story) -> None:
    assert subjects(story.repo) == ["work 3", "work 2", "work 1"]
    assert subjects(story.repo, lane="memory") == ["remember"] * 12
    assert len(subjects(story.repo, lane="all")) == 15


def test_head_tilde_one_is_the_persons_last_commit_but_one(story: Story) -> None:
    assert story.repo.show("HEAD~1").commit.subject == "work 2"
    story.agent_remembers()
    assert story.repo.show("HEAD~1").commit.subject == "work 2"
    assert story.repo.read("notes", "HEAD~2") == b"version 1\n"


def amend(story: Story) -> None:
    (story.folder / "notes").write_text("version 3, corrected\n")
    story.repo.commit("work 3, corrected", amend=True, all=True)


VERBS: dict[str, tuple[Callable[[Story], object], list[str], str]] = {
    "amend": (amend, ["work 3, corrected", "work 2", "work 1"], "version 3, corrected\n"),
    "revert": (lambda s: s.repo.revert("HEAD"), ['Revert "work 3"', "work 3", "work 2", "work 1"], "version 2\n"),
    "reset --hard": (lambda s: s.repo.reset("HEAD~1", "hard"), ["work 2", "work 1"], "version 2\n"),
    "reset --soft": (lambda s: s.repo.reset("HEAD~1", "soft"), ["work 2", "work 1"], "version 3\n"),
    "reset --hard to the start": (lambda s: s.repo.reset("HEAD~2", "hard"), ["work 1"], "version 1\n"),
    "undo": (lambda s: s.repo.undo(), ["work 2", "work 1"], "version 3\n"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_the_person_takes_back_takes_nothing_from_the_agent(story: Story, verb: str) -> None:
    run, log, notes = VERBS[verb]
    head, moves = story.memory_head(), len(list(story.repo.reflog("main", "memory")))
    run(story)
    assert subjects(story.repo) == log and (story.folder / "notes").read_text() == notes
    assert story.memory_head() == head, "the memory lane did not move"
    assert len(list(story.repo.reflog("main", "memory"))) == moves
    assert story.remembered() == story.thoughts
    story.agent_remembers()
    assert story.remembered() == story.thoughts and subjects(story.repo) == log
    assert story.repo.upkeep.fsck().ok


def test_what_the_agent_forgets_takes_nothing_from_the_person(story: Story) -> None:
    head = story.repo.head
    story.repo.write(dict.fromkeys(story.thoughts), "forget everything")
    assert story.remembered() == {} and story.repo.head == head and story.repo.status().clean
    assert story.repo.read("notes") == b"version 3\n"


def test_any_commit_names_a_whole_state(story: Story) -> None:
    """Each commit notes the head of the other lane: what the agent knew when the person committed."""
    known = [len(list(story.repo.ls(story.repo.show(f"HEAD~{n}").commit.other or ""))) for n in (2, 1, 0)]
    assert known == [3, 6, 9]
    story.repo.tags.create("then", "HEAD~1")
    assert len([path for path, _ in story.repo.ls("then") if path.startswith("memories/")]) == 6


def test_branch_switch_and_merge_carry_both_lanes(story: Story) -> None:
    story.repo.switch("try", create=True)
    story.agent_remembers()
    story.person_keeps("on a branch", extra="x\n")
    on_branch = dict(story.thoughts)
    story.repo.switch("main")
    assert len(story.remembered()) == 12 and not (story.folder / "extra").exists()
    story.repo.merge("try")
    assert story.remembered() == on_branch and (story.folder / "extra").read_text() == "x\n"


def test_thousands_of_memories_cost_the_person_nothing_and_stay_readable(story: Story) -> None:
    before = story.memory_head()
    story.agent_remembers(600)  # past two thinnings
    assert subjects(story.repo) == ["work 3", "work 2", "work 1"]
    story.repo.upkeep.gc(prune=True)
    assert story.remembered() == story.thoughts
    assert len(list(story.repo.ls(before or ""))) == 12
    assert story.repo.upkeep.fsck().ok
