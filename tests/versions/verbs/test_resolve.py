"""Conflicts place by place: what waits, choosing, answers met again; nothing that a verb does is lost to undo."""

from __future__ import annotations

import io
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlake as ml
from memlake.errors import InvalidInput
from memlake.memories.memories import Draft
from memlake.reports import Place
from tests.versions.conftest import Keep

BASE = {"lr": 0.1, "size": 8, "seed": 1, "tags": ["a"]}
OURS = {"lr": 0.2, "size": 8, "seed": 2, "tags": ["b"]}
THEIRS = {"lr": 0.3, "size": 9, "seed": 1, "tags": ["c"]}
JOINED = {"lr": 0.2, "size": 9, "seed": 2, "tags": ["b"]}  # ours where both changed it
LINES = "a\nb\nc\nd\ne\nf\ng\nh\n"


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"


def lines(**edits: str) -> str:
    return "".join(f"{edits.get(line, line)}\n" for line in LINES.split())


@pytest.fixture
def fork(repo: ml.Repo, keep: Keep) -> ml.Repo:
    """On main; `p.json` and `t.txt` were changed on dev, too, some of it at the same places."""
    keep("base", {"p.json": as_json(BASE), "t.txt": LINES, "other": "1\n"})
    repo.switch("dev", create=True)
    keep("theirs", {"p.json": as_json(THEIRS), "t.txt": lines(b="B2", h="H2"), "other": "2\n"})
    repo.switch("main")
    keep("ours", {"p.json": as_json(OURS), "t.txt": lines(b="B1", h="H1")})
    return repo


@pytest.fixture
def waiting(fork: ml.Repo) -> ml.Repo:
    assert fork.merge("dev").conflicts
    return fork


def read(here: Path, name: str = "p.json") -> Any:
    return json.loads((here / name).read_text())


def names(places: tuple[Place, ...]) -> list[str]:
    return [f"{one.path.removeprefix('files/')} {one.place}" for one in places]


def test_a_file_in_conflict_holds_all_that_is_sure_and_ours_where_it_is_not(waiting: ml.Repo, here: Path) -> None:
    assert read(here) == JOINED and waiting.pending_merge.text("p.json") is None
    assert names(waiting.pending_merge.places()) == ["p.json lr", "p.json tags", "t.txt line 2", "t.txt line 8"]
    lr, *_ = waiting.pending_merge.places("p.json")
    assert lr == Place("files/p.json", "file", "lr", 0.1, 0.2, 0.3, {"path": "lr"})


def test_values_that_clash_on_lines_that_join_wait_without_markers(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("base", {"p.json": '{"a": {"v": 1},\n "b": 2}\n'})
    keep("base", {"p.json": as_json([{"id": 1, "v": 1}, {"id": 2, "v": 1}])})
    repo.switch("dev", create=True)
    keep("theirs", {"p.json": as_json([{"id": 2, "v": 1}, {"id": 1, "v": 3}])})  # moved and changed
    repo.switch("main")
    keep("ours", {"p.json": as_json([{"id": 1, "v": 2}, {"id": 2, "v": 1}])})
    repo.merge("dev")
    assert [one.place for one in repo.pending_merge.places()] == ["[id=1].v"]
    assert "<<<" not in (here / "p.json").read_text()


def test_values_that_clash_in_a_layout_of_ones_own_are_places_too(repo: ml.Repo, keep: Keep, here: Path) -> None:
    text = '{"items": [\n  {"id": 1,   "v": 1},\n\n\n  {"id": 2, "v": 1} ]}\n'
    keep("base", {"p.json": text})
    repo.switch("dev", create=True)
    moved = '{"items": [\n\n\n\n  {"id": 2, "v": 1},\n\n\n {"id": 1,   "v": 3} ]}\n'
    keep("theirs", {"p.json": moved})
    repo.switch("main")
    keep("ours", {"p.json": text.replace('"v": 1},', '"v": 2},')})
    repo.merge("dev")
    assert [one.place for one in repo.pending_merge.places()] == ["items[id=1].v"]
    repo.pending_merge.resolve("theirs", "p.json")
    assert read(here)["items"] == [{"id": 1, "v": 3}, {"id": 2, "v": 1}]
    assert '"id": 1,   "v": 3' in (here / "p.json").read_text()


TOML = "[model]\nlr = 0.1 # rate\nbatch = 32\n"


@pytest.mark.parametrize("base", [TOML, None])
def test_a_union_of_lines_never_makes_a_document_that_cannot_be_read(
    repo: ml.Repo, keep: Keep, here: Path, base: str | None
) -> None:
    keep("base", {"p.toml": base} if base else {"q": "1\n"})
    repo.switch("dev", create=True)
    keep("theirs", {"p.toml": TOML.replace("0.1", "0.3").replace("32", "64")})
    repo.switch("main")
    keep("ours", {"p.toml": TOML.replace("0.1", "0.2")})
    repo.merge("dev")
    with pytest.raises(InvalidInput, match=r"has no meaning for|cannot say how to make a union"):
        repo.pending_merge.resolve("union", "p.toml")
    repo.pending_merge.abort()
    repo.merge("dev", strategy="union")
    assert names(repo.pending_merge.places()) == (["p.toml model.lr"] if base else ["p.toml line 1"])
    repo.pending_merge.resolve("theirs", "p.toml")
    assert tomllib.loads((here / "p.toml").read_text()) == {"model": {"lr": 0.3, "batch": 64}}


def test_a_place_takes_a_side_and_the_last_one_resolves_the_file(waiting: ml.Repo, here: Path) -> None:
    left = waiting.pending_merge.resolve("theirs", "p.json", where="path = lr")
    assert names(left) == ["p.json tags", "t.txt line 2", "t.txt line 8"]
    assert read(here) == JOINED | {"lr": 0.3}
    waiting.pending_merge.resolve("union", "p.json")  # what is still open there
    assert read(here) == JOINED | {"lr": 0.3, "tags": ["b", "c"]}
    chosen = {one.path: one.choice for one in waiting.pending_merge.conflicts}
    assert chosen == {"files/p.json": "file", "files/t.txt": None}
    assert "files/p.json" in {change.path for change in waiting.status().staged}


def test_a_line_takes_a_side_and_the_other_keeps_its_markers(waiting: ml.Repo, here: Path) -> None:
    waiting.pending_merge.resolve("union", "t.txt", where="line = 2")
    text = (here / "t.txt").read_text()
    assert text.startswith("a\nB1\nB2\nc\n") and text.count("<<<<<<<") == 1
    assert waiting.pending_merge.resolve("theirs", "t.txt", place="line 8") == waiting.pending_merge.places("p.json")
    assert (here / "t.txt").read_text() == "a\nB1\nB2\nc\nd\ne\nf\ng\nH2\n"
    waiting.pending_merge.resolve("ours")
    waiting.pending_merge.conclude()
    assert waiting.status().clean and read(here) == JOINED


def test_choosing_ours_for_all_gives_what_the_strategy_ours_gives(fork: ml.Repo, here: Path) -> None:
    for side in ("ours", "theirs", "latest"):
        fork.merge("dev")
        assert fork.pending_merge.resolve(side) == ()
        fork.pending_merge.conclude()
        by_hand = fork.ls("HEAD")
        fork.undo()
        fork.undo()  # the choice
        fork.undo()  # the merge
        assert not fork.merge("dev", strategy=side).conflicts
        assert list(fork.ls("HEAD")) == list(by_hand)
        fork.undo()
        fork.pending_merge.forget()


def test_a_choice_is_changed_by_naming_its_place_again(waiting: ml.Repo, here: Path) -> None:
    waiting.pending_merge.resolve("ours", "p.json")
    assert waiting.pending_merge.places("p.json")[0].choice == "ours"
    waiting.pending_merge.resolve("theirs", "p.json", place="lr")
    assert read(here) == JOINED | {"lr": 0.3}
    assert {one.place: one.choice for one in waiting.pending_merge.places("p.json")} == {"lr": "theirs", "tags": "ours"}
    waiting.pending_merge.mark("p.json")
    assert read(here) == JOINED
    assert {one.choice for one in waiting.pending_merge.places("p.json")} == {None}


def test_undo_redo_and_abort_bring_every_byte_back(waiting: ml.Repo, here: Path) -> None:
    def state() -> tuple[object, ...]:
        held = {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()}
        return held, waiting.pending_merge.conflicts, waiting.status()

    states = [state()]
    for place in ("lr", "tags"):
        waiting.pending_merge.resolve("theirs", "p.json", place=place)
        states.append(state())
    waiting.undo()
    assert state() == states[1]
    waiting.redo()
    assert state() == states[2]
    waiting.undo()
    waiting.undo()
    assert state() == states[0]
    waiting.pending_merge.resolve("theirs")
    waiting.pending_merge.abort()
    assert read(here) == OURS and waiting.status().clean and waiting._local.state("places") is None


def test_a_choice_outlives_the_process_and_a_reopened_repo(waiting: ml.Repo, here: Path) -> None:
    waiting.pending_merge.resolve("theirs", "p.json", place="lr")
    waiting.close()
    with ml.open(here) as again:
        assert again.pending_merge.places("p.json")[0].choice == "theirs"
        again.pending_merge.resolve("ours")
        again.pending_merge.conclude()
        assert read(here) == JOINED | {"lr": 0.3}


def test_a_file_that_was_edited_is_not_written_over(waiting: ml.Repo, here: Path) -> None:
    (here / "p.json").write_text("mine\n")
    with pytest.raises(ml.errors.Conflict, match="was edited since"):
        waiting.pending_merge.resolve("theirs", "p.json")
    assert (here / "p.json").read_text() == "mine\n"
    waiting.add("p.json")
    assert {one.choice for one in waiting.pending_merge.places("p.json")} == {"file"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"where": "id = 17"}, "no place in conflict fits 'id = 17'. Places are picked by: line, path."),
        ({"place": "nowhere"}, "no place in conflict fits 'nowhere'"),
    ],
)
def test_a_condition_that_fits_nothing_is_said(waiting: ml.Repo, asked: dict[str, str], said: str) -> None:
    with pytest.raises(ml.errors.NotFound, match=said):
        waiting.pending_merge.resolve("ours", **asked)


def test_a_union_of_two_numbers_has_no_meaning(waiting: ml.Repo, here: Path) -> None:
    with pytest.raises(ml.errors.InvalidInput, match=r"'union' has no meaning for 'lr' of p\.json"):
        waiting.pending_merge.resolve("union", "p.json")
    assert read(here) == JOINED
    with pytest.raises(ml.errors.InvalidInput, match="no side 'mine'"):
        waiting.pending_merge.resolve("mine")
    with pytest.raises(ml.errors.NotFound, match="'other' is not in conflict"):
        waiting.pending_merge.resolve("ours", "other")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id = 17", ["id=17: price"]), ("id == 17 && column == 'price'", ["id=17: price"]),
        ("id = '17' and column = price", ["id=17: price"]), ("id >= 17", ["id=17: price", "id=18: name"]),
        ("id < 17.5", ["id=17: price"]), ("id != 17", ["id=18: name"]), ("column != name", ["id=17: price"]),
        ("id=17: price", []), ("place = id=17: price", ["id=17: price"]), ("id > 99", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_places_are_picked_in_the_language_of_all_conditions(
    repo: ml.Repo, keep: Keep, where: str, expected: list[str], kind: str
) -> None:
    def rows(price: int, name: str) -> str:
        cells = [(17, "tea", price), (18, name, 3), (19, "milk", 1)]
        if kind == "csv":
            return "id,name,price\n" + "".join(f"{a},{b},{c}\n" for a, b, c in cells)
        return "".join(json.dumps({"id": a, "name": b, "price": c}) + "\n" for a, b, c in cells)

    keep("base", {f"t.{kind}": rows(2, "coffee")})
    repo.switch("dev", create=True)
    keep("theirs", {f"t.{kind}": rows(5, "cocoa")})
    repo.switch("main")
    keep("ours", {f"t.{kind}": rows(4, "mocha")})
    repo.merge("dev")
    everything = {"id=17: price", "id=18: name"}
    if not expected:
        with pytest.raises(ml.errors.NotFound, match="no place in conflict fits"):
            repo.pending_merge.resolve("ours", where=where)
    else:
        left = repo.pending_merge.resolve("ours", where=where)
        assert {one.place for one in left} == everything - {*expected}


def test_a_wrong_condition_for_places_is_refused_with_its_place(waiting: ml.Repo) -> None:
    with pytest.raises(ml.errors.InvalidInput, match="wrong at character"):
        waiting.pending_merge.resolve("ours", where="path = lr ||")
    with pytest.raises(ml.errors.InvalidInput, match="wrong at character"):
        waiting.pending_merge.resolve("ours", where="path =")


@pytest.mark.parametrize("places", ["[]", '{"files/p.json": 1}', '{"files/p.json": ["lr"]}', "{", '"x"'])
def test_choices_that_a_stranger_wrote_are_refused_in_words(waiting: ml.Repo, places: str) -> None:
    waiting._local.set_state(places=places)
    if places != "[]":
        with pytest.raises(ml.errors.Corrupt, match="not what memlake writes"):
            waiting.pending_merge.places()
    waiting._local.set_state(places=None, answers='[["a", "b"]]')
    with pytest.raises(ml.errors.Corrupt, match="not what memlake writes"):
        waiting.pending_merge.forget()


def test_a_side_that_a_stranger_wrote_for_a_place_settles_nothing(waiting: ml.Repo, here: Path) -> None:
    waiting._local.set_state(places='{"files/p.json": {"lr": "rm -rf", "nowhere": "ours"}}')
    waiting.pending_merge.resolve("theirs", "p.json", place="tags")
    assert read(here) == JOINED | {"tags": ["c"]} and waiting.pending_merge.conflicts[0].choice is None


def test_a_file_that_one_side_deleted_is_settled_as_a_whole(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("base", {"a": "1\n", "b": "1\n"})
    repo.switch("dev", create=True)
    keep("theirs", {"a": None, "b": "2\n"})
    repo.switch("main")
    keep("ours", {"a": "2\n", "b": None})
    repo.merge("dev")
    assert [(one.place, one.status) for one in repo.pending_merge.places()] == [("", "UD"), ("", "DU")]
    with pytest.raises(ml.errors.InvalidInput, match="cannot say how to make a union of 'a'"):
        repo.pending_merge.resolve("union", "a")
    repo.pending_merge.resolve("latest")  # ours was committed last
    repo.pending_merge.conclude()
    assert (here / "a").exists() and not (here / "b").exists()


# -- strategies --------------------------------------------------------------------------------------


def test_a_strategy_settles_files_that_cannot_be_joined_and_deletions_too(
    repo: ml.Repo, keep: Keep, here: Path
) -> None:
    keep("base", {"bin": b"\0" * 9, "gone": "1\n", "both": "x\n"})
    repo.switch("dev", create=True)
    keep("theirs", {"bin": b"\1" * 9, "gone": None, "both": "y\n", "new": "theirs\n"})
    repo.switch("main")
    keep("ours", {"bin": b"\2" * 9, "gone": "2\n", "both": "z\n", "new": "ours\n"})
    assert not repo.merge("dev", strategy="theirs").conflicts
    assert (here / "bin").read_bytes() == b"\1" * 9 and not (here / "gone").exists()
    assert (here / "new").read_text() == "theirs\n" and repo.status().clean
    repo.undo()
    merged = repo.merge("dev", strategy="union")
    assert [one.path for one in merged.conflicts] == ["files/bin", "files/gone"]
    assert (here / "both").read_text() == "z\ny\n" and (here / "new").read_text() == "ours\ntheirs\n"
    merged.choose("ours", "bin", "gone")
    repo.pending_merge.conclude()
    assert (here / "both").read_text() == "z\ny\n" and (here / "bin").read_bytes() == b"\2" * 9


def test_attributes_give_a_strategy_by_pattern_and_the_verb_decides_over_them(
    repo: ml.Repo, keep: Keep, here: Path
) -> None:
    keep("base", {".memlakeattributes": "*.log merge=union\n*.json merge=lines\n", "a.log": "1\n", "p.json": "[1]"})
    repo.switch("dev", create=True)
    keep("theirs", {"a.log": "1\n2\n", "p.json": "[1, 2]"})
    repo.switch("main")
    keep("ours", {"a.log": "1\n3\n", "p.json": "[1, 3]"})
    merged = repo.merge("dev")
    assert [one.path for one in merged.conflicts] == ["files/p.json"]
    assert (here / "a.log").read_text() == "1\n3\n2\n"
    assert [one.place for one in merged.places()] == ["line 1"]  # as text, because the attributes say so
    merged.abort()
    assert not repo.merge("dev", strategy="theirs").conflicts
    assert (here / "a.log").read_text() == "1\n2\n" and (here / "p.json").read_text() == "[1, 2]"


def test_the_latest_side_is_the_one_whose_last_commit_of_the_path_is_newer(
    repo: ml.Repo, keep: Keep, here: Path
) -> None:
    keep("base", {"a": "0\n", "b": "0\n"})
    repo.switch("dev", create=True)
    repo.switch("main")
    keep("ours a", {"a": "ours\n"})
    repo.switch("dev")
    keep("theirs", {"a": "theirs\n", "b": "theirs\n"})
    repo.switch("main")
    keep("ours b", {"b": "ours\n"})
    assert not repo.merge("dev", strategy="latest").conflicts
    assert (here / "a").read_text() == "theirs\n" and (here / "b").read_text() == "ours\n"


def test_a_pick_takes_a_strategy_and_a_revert_knows_no_latest(fork: ml.Repo, here: Path) -> None:
    assert not fork.cherry_pick("dev", strategy="theirs").conflicts
    assert read(here) == JOINED | {"lr": 0.3, "tags": ["c"]}
    with pytest.raises(ml.errors.InvalidInput, match="neither side is the latest"):
        fork.revert("HEAD~1", strategy="latest")
    assert not fork.revert("HEAD~1", strategy="theirs").conflicts
    assert read(here)["lr"] == 0.1 and read(here)["size"] == 9
    with pytest.raises(ml.errors.InvalidInput, match="no merge strategy 'mine'"):
        fork.merge("dev", strategy="mine")


# -- answers given before ----------------------------------------------------------------------------


def conclude_and_take_back(repo: ml.Repo) -> None:
    """Finish the merge, whose answers are known then, and be where it began."""
    repo.pending_merge.conclude()
    while len(repo.show().commit.parents) > 1 or repo.status().doing:
        repo.undo()


def test_the_same_conflict_met_again_is_settled_as_before(fork: ml.Repo, here: Path) -> None:
    fork.merge("dev")
    fork.pending_merge.resolve("theirs", "p.json")
    fork.pending_merge.resolve("ours", "t.txt", place="line 2")
    fork.pending_merge.resolve("union", "t.txt", place="line 8")
    conclude_and_take_back(fork)
    assert fork.pending_merge.forget("t.txt") == 2
    again = fork.merge("dev")
    assert again.recalled == (("files/p.json", "lr"), ("files/p.json", "tags"))
    assert [one.place for one in again.places() if one.choice is None] == ["line 2", "line 8"]
    assert read(here) == JOINED | {"lr": 0.3, "tags": ["c"]}
    fork.undo()  # what was recalled, and then the merge itself
    assert read(here) == JOINED and len([one for one in again.places() if one.choice is None]) == 4


def test_choices_of_a_merge_that_was_given_up_are_not_remembered(fork: ml.Repo) -> None:
    fork.merge("dev")
    fork.pending_merge.resolve("theirs", "p.json")
    fork.pending_merge.choose("ours", "t.txt")
    fork.pending_merge.abort()
    assert fork.merge("dev").recalled == () and fork.pending_merge.forget() == 0
    fork.pending_merge.resolve("theirs", "p.json")
    fork.undo()  # nor one that was taken back
    fork.pending_merge.resolve("ours", "p.json")
    fork.pending_merge.choose("theirs", "t.txt")
    conclude_and_take_back(fork)
    assert fork.merge("dev").recalled == (("files/p.json", "lr"), ("files/p.json", "tags"), ("files/t.txt", ""))
    assert {one.choice for one in fork.pending_merge.places("p.json")} == {"ours"}


def test_what_was_edited_is_not_remembered(fork: ml.Repo, keep: Keep, here: Path) -> None:
    fork.merge("dev")
    (here / "p.json").write_text("{}\n")
    fork.add("p.json")
    fork.pending_merge.resolve("theirs", "t.txt")
    conclude_and_take_back(fork)
    assert fork.merge("dev").recalled == (("files/t.txt", "line 2"), ("files/t.txt", "line 8"))


def test_a_rebase_remembers_what_it_was_told(fork: ml.Repo) -> None:
    fork.rebase("dev")
    fork.pending_merge.resolve("theirs")
    fork.pending_merge.abort()
    assert fork.rebase("dev").recalled == ()
    fork.pending_merge.resolve("theirs")
    fork.pending_merge.conclude()
    fork.undo()
    assert fork.rebase("dev").recalled


def test_nothing_is_remembered_where_the_setting_says_so(fork: ml.Repo, here: Path) -> None:
    fork.config["merge.rerere"] = "false"
    fork.close()
    with ml.open(here) as again:
        again.merge("dev")
        again.pending_merge.resolve("theirs")
        conclude_and_take_back(again)
        assert again.merge("dev").recalled == () and again.pending_merge.forget() == 0


def test_other_values_are_another_conflict(fork: ml.Repo, keep: Keep) -> None:
    fork.merge("dev")
    fork.pending_merge.resolve("theirs")
    conclude_and_take_back(fork)
    keep("slower", {"p.json": as_json(OURS | {"lr": 0.05})})
    recalled = fork.merge("dev").recalled
    assert ("files/p.json", "lr") not in recalled and ("files/p.json", "tags") in recalled


def test_a_purge_takes_the_answers_with_it(fork: ml.Repo, here: Path) -> None:
    fork.merge("dev")
    fork.pending_merge.resolve("theirs")
    conclude_and_take_back(fork)
    assert "B2" not in (fork._local.state("answers") or "B2")  # hashes alone
    fork.upkeep.purge(next(entry.oid for _, entry in fork.ls("dev", "files/t.txt")), reason="test")
    assert fork._local.read_answers() == []


def test_a_vector_is_known_again_by_all_of_its_numbers(repo: ml.Repo, keep: Keep, here: Path) -> None:
    def embed(first: float, last: float = 0.0) -> bytes:
        data = io.BytesIO()
        np.savez(data, ids=np.array(["a", "b"]), vectors=np.array([[first] * 15 + [last], [1.0] * 16], np.float32))
        return data.getvalue()

    keep("base", {"e.npz": embed(1)})
    repo.switch("dev", create=True)
    keep("theirs", {"e.npz": embed(3)})
    repo.switch("main")
    keep("ours", {"e.npz": embed(2)})
    assert [one.place for one in repo.merge("dev").places()] == ["id=a"]
    repo.pending_merge.resolve("mean")
    assert np.load(here / "e.npz")["vectors"][0, 0] == 2.5
    conclude_and_take_back(repo)
    keep("ours, the last number alone", {"e.npz": embed(2, last=7)})
    assert repo.merge("dev").recalled == ()
    repo.pending_merge.abort()
    assert not repo.merge("dev", strategy="mean").conflicts
    assert np.load(here / "e.npz")["vectors"][0, 15] == 3.5


def test_a_mean_has_no_meaning_for_a_text_and_waits(fork: ml.Repo) -> None:
    assert [one.path for one in fork.merge("dev", strategy="mean").conflicts] == ["files/p.json", "files/t.txt"]


# -- squash ------------------------------------------------------------------------------------------


def test_a_squash_is_one_commit_with_one_parent_and_leaves_memories_alone(
    fork: ml.Repo, keep: Keep, here: Path
) -> None:
    fork.switch("dev")
    fork.memories().store(Draft("a fact of dev"))
    keep("more", {"new": "1\n"})
    fork.switch("main")
    before, memory = fork.show("HEAD").commit, list(fork.ls(prefix="memories/"))
    merged = fork.merge("dev", squash=True, strategy="theirs")
    made = fork.show("HEAD").commit
    assert made.parents == (before.oid,) and merged.commit == made.oid and not merged.remembered
    assert made.message == "Squash branch 'dev'\n\n- theirs\n- more"
    assert (here / "new").exists() and read(here)["lr"] == 0.3 and list(fork.ls(prefix="memories/")) == memory
    fork.undo()
    assert fork.head == before.oid and not (here / "new").exists() and read(here) == OURS


def test_a_squash_waits_for_choices_and_concludes_with_one_parent(fork: ml.Repo, here: Path) -> None:
    before = fork.head
    fork.merge("dev", squash=True, message="all of dev")
    fork.pending_merge.resolve("theirs")
    fork.pending_merge.conclude()
    made = fork.show("HEAD").commit
    assert made.parents == (before,) and made.message == "all of dev"
    with pytest.raises(ml.errors.Nothing, match="changes nothing here"):
        fork.merge("dev", squash=True, strategy="ours")


def test_a_squash_is_a_commit_of_its_own_where_a_fast_forward_would_do(repo: ml.Repo, keep: Keep) -> None:
    first = keep("base", {"a": "1\n"})
    repo.switch("dev", create=True)
    keep("one", {"a": "2\n"})
    keep("two", {"a": "3\n"})
    repo.switch("main")
    assert not repo.merge("dev", squash=True).fast_forward
    assert repo.show("HEAD").commit.parents == (first.oid,) and repo.read("a") == b"3\n"


def test_a_rebase_settles_what_a_merge_settled_and_waits_for_the_rest(fork: ml.Repo, here: Path) -> None:
    fork.merge("dev")
    fork.pending_merge.resolve("theirs", "p.json")
    fork.pending_merge.choose("ours", "t.txt")
    conclude_and_take_back(fork)
    assert fork.pending_merge.forget("t.txt") == 1
    fork.switch("dev")
    waits = fork.rebase("main")  # the same two sides: ours is what is rebased onto
    assert waits.recalled == (("files/p.json", "lr"), ("files/p.json", "tags")) and read(here)["lr"] == 0.3
    assert [one.place for one in waits.resolve("ours", "t.txt", where="line = 2")] == ["line 8"]
    waits.resolve("ours")
    waits.conclude()
    assert fork.branches.current == "dev" and fork.status().clean and read(here)["seed"] == 2


def test_attributes_settle_the_steps_of_a_rebase(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("base", {".memlakeattributes": "*.log merge=union\n", "a.log": "1\n"})
    repo.switch("dev", create=True)
    keep("theirs", {"a.log": "1\n2\n"})
    repo.switch("main")
    keep("ours", {"a.log": "1\n3\n"})
    repo.switch("dev")
    assert not repo.rebase("main").conflicts
    assert (here / "a.log").read_text() == "1\n3\n2\n"
