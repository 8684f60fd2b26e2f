"""bisect: one planted fault in a long history is found in few runs, and in none where metrics are recorded."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from math import ceil, log2
from pathlib import Path

import pytest

import memlake as ml
from memlake.memories.record import Memory, encode
from memlake.records import Entry
from memlake.versions.history.append import record, write_facts
from memlake.versions.history.commits import Draft

Keep = Callable[..., ml.Commit]
COMMITS, FAULT = 300, 187


def row(number: int) -> dict[str, bytes]:
    bad = "-1" if number >= FAULT else "7"
    return {"files/data/train.csv": f"id,label\n1,5\n2,{bad}\n3,{number}\n".encode()}


def prompt(number: int) -> dict[str, bytes]:
    line = "Invent what you do not know." if number >= FAULT else "Say so if you do not know."
    return {"files/prompts/qa.md": f"You answer questions.\n{line}\nVersion {number}.\n".encode()}


def tensor(number: int) -> dict[str, bytes]:
    import numpy as np

    weights = np.arange(12, dtype=np.float32).reshape(3, 4) + number
    weights[1, 2] = np.nan if number >= FAULT else 0
    data = io.BytesIO()
    np.save(data, weights)
    return {"files/model.npy": data.getvalue()}


def memory(number: int) -> dict[str, bytes]:
    text = "The port is 8080" if number != FAULT else "The port is 1"
    path = "memories/bot/port" if number in (0, FAULT) else f"memories/bot/other{number}"
    return {path: encode(Memory(path.rsplit("/", 1)[1], text if path.endswith("port") else f"note {number}"))}


def plant(repo: ml.Repo, make: Callable[[int], dict[str, bytes]]) -> str:
    """A history with the fault; returns the commit that brought it."""
    with repo._history.db.write():
        commits = [repo.write(make(number), f"c{number}", branch="main") for number in range(COMMITS)]
    return commits[FAULT].oid


def is_fine(repo: ml.Repo, commit: ml.Commit) -> bool:
    import numpy as np

    held = {path: repo.objects.read(entry.oid) for path, entry in repo.ls(commit.oid)}
    if "files/model.npy" in held:
        return not np.isnan(np.load(io.BytesIO(held["files/model.npy"]), allow_pickle=False)).any()
    return not any(b"2,-1" in data or b"Invent" in data or b'port is 1"' in data for data in held.values())


@pytest.mark.parametrize("make", [row, prompt, tensor, memory])
def test_a_planted_fault_is_found_in_nine_runs(repo: ml.Repo, make: Callable[[int], dict[str, bytes]]) -> None:
    fault = plant(repo, make)
    lane = repo.show(fault, "memory").commit.lane
    found = repo.bisect.search(run=lambda commit: "good" if is_fine(repo, commit) else "bad", lane=lane)
    assert (found.commit, found.suspects) == (fault, (fault,)) and found.runs <= 9


def test_a_command_is_tried_in_a_folder_of_its_own(repo: ml.Repo, here: Path, tmp_path: Path) -> None:
    fault = plant(repo, prompt)
    repo.switch("main")
    (here / "prompts/qa.md").write_text("mine, edited")
    command = (
        f'test "$PWD" != {here} && touch litter && ! grep -q Invent prompts/qa.md && test -n "$MEMLAKE_BISECT_COMMIT"'
    )
    found = repo.bisect.search(run=command)
    assert found.commit == fault and found.runs <= 9
    assert (here / "prompts/qa.md").read_text() == "mine, edited" and not (here / "litter").exists()
    assert repo.branches.current == "main"


def test_recorded_metrics_need_no_run(repo: ml.Repo) -> None:
    history, commits = repo._history, list[str]()
    with history.db.write():
        for number in range(COMMITS):
            data = b"%d" % number
            meta = write_facts(history.objects, {"metrics": {"accuracy": 0.5 if number >= FAULT else 0.95}})
            edits = {"files/a": Entry(history.objects.write(data), "file", len(data))}
            draft = Draft("work", edits, ml.Author("Ada"), f"c{number}", number, meta)
            commits.append(record(history, draft, branch="main").oid)
    found = repo.bisect.search(metric="accuracy", below=0.9, run="exit 200")  # it would stop the search
    assert (found.commit, found.runs) == (commits[FAULT], 0) and len(found.tested) <= 9


def test_metrics_and_runs_go_together(repo: ml.Repo, keep: Keep) -> None:
    for number in range(20):
        keep(f"c{number}", {"a": str(number)}, metrics={"loss": 0.1 if number < 13 else 3} if number % 4 == 0 else None)
    asked: list[str] = []

    def judge(commit: ml.Commit) -> str:
        asked.append(commit.subject)
        return "good" if int(commit.subject[1:]) < 13 else "bad"

    found = repo.bisect.search(metric="loss", above=1, run=judge)
    assert repo.show(found.commit or "").commit.subject == "c13" and set(asked) <= {"c13", "c14", "c15"}
    alone = repo.bisect.search(metric="loss", above=1)
    assert alone.commit is None and [repo.show(oid).commit.subject for oid in alone.suspects] == [
        "c13",
        "c14",
        "c15",
        "c16",
    ]


def test_commits_that_cannot_be_tested_are_suspects(repo: ml.Repo, keep: Keep) -> None:
    for number in range(9):
        keep(f"c{number}", {"a": str(number)})
    found = repo.bisect.search(
        good=["HEAD~8"], run=lambda c: "skip" if c.subject in ("c4", "c5") else "good" if c.subject < "c5" else "bad"
    )
    assert found.commit is None and [repo.show(oid).commit.subject for oid in found.suspects] == ["c4", "c5", "c6"]


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_with_merges_give_the_commit_that_brought_it(repo: ml.Repo, seed: int) -> None:
    chance, history = random.Random(seed), repo._history
    commits: list[ml.Commit] = []
    behind: dict[str, set[str]] = {}
    with history.db.write():
        for number in range(40):
            parents = tuple(chance.sample(commits[-6:], min(len(commits), chance.choice((1, 1, 2)))))
            draft = Draft("work", {}, ml.Author("A"), f"c{number}", number, {})
            commit = history.append(draft, parents, None)
            commits.append(commit)
            behind[commit.oid] = {commit.oid}.union(*(behind[parent.oid] for parent in parents))
    tip = commits[-1]
    for fault in chance.sample(sorted(behind[tip.oid]), 5):
        found = repo.bisect.search(bad=tip.oid, run=lambda c, fault=fault: "bad" if fault in behind[c.oid] else "good")
        assert found.commit == fault and found.runs <= ceil(log2(len(behind[tip.oid]))) + 3


@pytest.mark.parametrize(("command", "code"), [("memlake-has-no-such-command", 127), ("./a", 126)])
def test_a_command_that_cannot_run_blames_no_commit(repo: ml.Repo, keep: Keep, command: str, code: int) -> None:
    for number in range(3):
        keep(f"c{number}", {"a": str(number)})
    with pytest.raises(ml.errors.Unavailable, match=f"the command cannot run.*{code}.*[Nn]othing was changed"):
        repo.bisect.search(run=command)
    found = repo.bisect.search(run="exit 124")
    assert repo.show(found.commit or "").commit.subject == "c0", "every code below 125 is a verdict"


def test_wrong_questions_are_refused(repo: ml.Repo, keep: Keep) -> None:
    for number in range(3):
        keep(f"c{number}", {"a": str(number)}, metrics={"acc": 0.9})
    for how, said in (
        ({}, "a metric or a command"),
        ({"metric": "acc"}, "needs a bound"),
        ({"below": 1.0, "run": "true"}, "needs a bound"),
        ({"metric": "nope", "below": 1.0}, "records nope"),
        ({"metric": "acc", "below": 0.5}, "is not bad"),
        ({"run": "true", "good": ["HEAD"]}, "does not lie before"),
        ({"run": "exit 200"}, "ended with 200"),
    ):
        with pytest.raises(ml.Error, match=said):
            repo.bisect.search(**how)  # type: ignore[arg-type]


# -- by hand ----------------------------------------------------------------------------------------


def test_by_hand_each_commit_is_checked_out_and_reset_goes_back(repo: ml.Repo, keep: Keep, here: Path) -> None:
    for number in range(20):
        keep(f"c{number}", {"a": str(number)})
    found, tried = repo.bisect.start("HEAD", ["HEAD~19"]), 0
    while found is None and tried < 10:
        tried += 1
        with ml.open(here) as again:  # marks outlive the process
            found = again.bisect.mark("good" if int((here / "a").read_text()) < 13 else "bad")
    assert found is not None and repo.show(found.commit or "").commit.subject == "c13" and tried <= 5
    with pytest.raises(ml.errors.AlreadyExists, match="under way"):
        repo.bisect.start()
    repo.bisect.reset()
    assert repo.branches.current == "main" and (here / "a").read_text() == "19"
    with pytest.raises(ml.errors.Nothing, match="no bisect"):
        repo.bisect.mark("good")


def test_what_contradicts_is_refused_and_not_noted(repo: ml.Repo, keep: Keep, here: Path) -> None:
    for number in range(7):
        keep(f"c{number}", {"a": str(number)})
    repo.bisect.start("HEAD~1", ["HEAD~6"])
    with pytest.raises(ml.errors.InvalidInput, match="does not lie before"):
        repo.bisect.mark("good", "main")
    with pytest.raises(ml.errors.InvalidInput, match="not a verdict"):
        repo.bisect.mark("perhaps")
    (here / "a").write_text("mine")
    with pytest.raises(ml.errors.Conflict, match="uncommitted work"):
        repo.bisect.mark("skip")
    assert len(repo.bisect.marks.said) == 2 and (here / "a").read_text() == "mine"


def test_undo_takes_back_one_step_with_what_was_said_and_redo_says_it_again(
    repo: ml.Repo, keep: Keep, here: Path
) -> None:
    for number in range(20):
        keep(f"c{number}", {"a": str(number)})
    repo.bisect.start("HEAD", ["HEAD~19"])
    first = repo.head
    repo.bisect.mark("good")
    second, said = repo.head, repo.bisect.marks.said
    assert repo.undo().verb.startswith("bisect good") and repo.head == first and len(repo.bisect.marks.said) == 2
    repo.redo()
    assert repo.head == second and repo.bisect.marks.said == said
    repo.undo()
    repo.undo()
    assert repo.branches.current == "main"
    with pytest.raises(ml.errors.Nothing, match="no bisect"):
        _ = repo.bisect.marks
    repo.redo()
    assert repo.head == first and len(repo.bisect.marks.said) == 2


def test_after_a_search_undo_goes_on_with_what_was_before_it(repo: ml.Repo, keep: Keep, here: Path) -> None:
    for number in range(9):
        keep(f"c{number}", {"a": str(number)})
    tip = repo.head
    repo.bisect.start("HEAD", ["HEAD~8"])
    repo.bisect.mark("good")
    repo.bisect.reset()
    assert repo.head == tip and repo.undo().verb == "commit" and repo.show("HEAD").commit.subject == "c7"
