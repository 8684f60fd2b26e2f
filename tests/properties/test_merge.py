"""Laws of three-way merge, merge bases and ancestry, against definitions short enough to be obviously right."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import memlake as ml
from memlake.records import Author, Commit, Entry
from memlake.versions.history import merge_trees
from memlake.versions.history.bases import is_ancestor, merge_bases, reachable
from memlake.versions.history.commits import Draft, History
from memlake.versions.history.log import walk
from memlake.versions.text.merge3 import Names, mark_text, merge_text
from memlake.versions.trees import codec, tree

Model = dict[str, Entry]
# Links have no merge driver, so that what is tested here is the merge itself.
VALUES = [Entry(f"{n:064x}", "link", n) for n in range(1, 5)]
PATHS = [f"files/{name}" for name in ("a", "b", "c", "d/e", "d/f", "g")]
MODEL = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(VALUES))
PER_EXAMPLE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return ml.init(tmp_path_factory.mktemp("merge"))._history


def planted(history: History, model: Model) -> bytes:
    root, made = tree.build(sorted((path.encode(), codec.encode_entry(entry)) for path, entry in model.items()))
    history.nodes.remember(made)
    return root


def merged(ours: Model, outcome: merge_trees.Outcome) -> Model:
    both = {**ours, **outcome.edits}
    return {path: entry for path, entry in both.items() if entry is not None}


# -- three trees --------------------------------------------------------------------------------


@PER_EXAMPLE
@given(MODEL, MODEL, MODEL)
def test_merge_takes_the_side_that_changed_and_asks_where_both_did(
    history: History, base: Model, ours: Model, theirs: Model
) -> None:
    outcome = merge_trees.merge_roots(history, *(planted(history, model) for model in (base, ours, theirs)))
    asked = {conflict.path for conflict in outcome.conflicts}
    result = merged(ours, outcome)
    for path in PATHS:
        b, o, t = base.get(path), ours.get(path), theirs.get(path)
        if o != b and t not in (b, o):
            assert path in asked
            assert result.get(path) == o
        else:
            assert path not in asked
            assert result.get(path) == (t if o == b else o)


@PER_EXAMPLE
@given(MODEL, MODEL, MODEL)
def test_conflicts_are_the_same_from_both_sides(history: History, base: Model, ours: Model, theirs: Model) -> None:
    b, o, t = (planted(history, model) for model in (base, ours, theirs))
    here, there = merge_trees.merge_roots(history, b, o, t), merge_trees.merge_roots(history, b, t, o)
    assert [(c.path, c.base, c.ours, c.theirs) for c in here.conflicts] == [
        (c.path, c.base, c.theirs, c.ours) for c in there.conflicts
    ]
    if not here.conflicts:
        assert merged(ours, here) == merged(theirs, there)


@PER_EXAMPLE
@given(MODEL, MODEL)
def test_the_same_change_on_both_sides_is_no_conflict_and_no_edit(history: History, base: Model, both: Model) -> None:
    b, o = planted(history, base), planted(history, both)
    assert merge_trees.merge_roots(history, b, o, o) == merge_trees.Outcome({}, ())
    assert merged(base, merge_trees.merge_roots(history, b, b, o)) == both
    assert merge_trees.merge_roots(history, b, o, b) == merge_trees.Outcome({}, ())


TEXTS = st.dictionaries(st.sampled_from(PATHS), st.sampled_from([entry._replace(kind="file") for entry in VALUES]))


@PER_EXAMPLE
@given(TEXTS, TEXTS, TEXTS)
def test_renames_are_followed_alike_from_both_sides_and_lose_no_edit(
    history: History, monkeypatch: pytest.MonkeyPatch, base: Model, ours: Model, theirs: Model
) -> None:
    monkeypatch.setitem(history.kinds, "file", history.kinds["file"]._replace(merge=None))
    b, o, t = (planted(history, model) for model in (base, ours, theirs))
    here, there = merge_trees.merge_roots(history, b, o, t), merge_trees.merge_roots(history, b, t, o)
    asked = {conflict.path for conflict in here.conflicts}
    assert asked == {conflict.path for conflict in there.conflicts}
    if not asked:
        assert merged(ours, here) == merged(theirs, there)
    for side in (ours, theirs):
        for path in side.keys() & base.keys() - asked:
            assert side[path] == base[path] or side[path] in merged(ours, here).values()


def test_a_file_on_one_side_and_a_folder_of_that_name_on_the_other_is_a_conflict(history: History) -> None:
    one, two = VALUES[:2]
    for ours, theirs in (({"files/d": one}, {"files/d/e": two}), ({"files/d/e": one}, {"files/d": two})):
        outcome = merge_trees.merge_roots(
            history, planted(history, {}), planted(history, ours), planted(history, theirs)
        )
        assert [conflict.path for conflict in outcome.conflicts] == sorted({*ours, *theirs})
        assert merged(ours, outcome) == ours


# -- random histories ---------------------------------------------------------------------------


class Line:
    """A history made commit by commit, with a model of what it should answer."""

    numbers = count()

    def __init__(self, history: History) -> None:
        self.history, self.number = history, next(self.numbers)
        self.commits: list[Commit] = []
        self.parents: list[tuple[int, ...]] = []

    def add(self, *parents: int, **edits: Entry | None) -> int:
        changes = {f"files/{name}": entry for name, entry in edits.items()}
        number = len(self.commits)
        draft = Draft("work", changes, Author("x"), f"{self.number} {number}", number, {})
        with self.history.db.write():
            self.commits.append(self.history.append(draft, tuple(self.commits[p] for p in parents), None))
        self.parents.append(parents)
        return number

    def behind(self, number: int) -> set[int]:
        """A commit and all its ancestors, by definition."""
        seen, waiting = {number}, [number]
        while waiting:
            for parent in self.parents[waiting.pop()]:
                if parent not in seen:
                    seen.add(parent)
                    waiting.append(parent)
        return seen

    def best_bases(self, a: int, b: int) -> set[int]:
        """Common ancestors that are not behind another common ancestor."""
        common = self.behind(a) & self.behind(b)
        return {one for one in common if not any(one != other and one in self.behind(other) for other in common)}


SHAPE = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.booleans()), min_size=1, max_size=14)


def grown(history: History, shape: list[tuple[int, int, bool]]) -> Line:
    """Any DAG of at most two parents a commit; a first number past 90 starts a line without parents."""
    line = Line(history)
    with history.db.write():
        for number, (one, two, joins) in enumerate(shape):
            if number == 0 or one > 90:
                line.add()
                continue
            first, second = one % number, two % number
            line.add(*((first, second) if joins and first != second else (first,)))
    return line


CRISS_CROSS = [(0, 0, False), (0, 0, False), (0, 0, False), (1, 2, True), (2, 1, True), (3, 0, False), (4, 0, False)]


@PER_EXAMPLE
@given(SHAPE)
@example(CRISS_CROSS)
def test_merge_bases_are_exactly_the_best_common_ancestors(history: History, shape: list[Any]) -> None:
    line = grown(history, shape)
    number_of = {commit.seq: number for number, commit in enumerate(line.commits)}
    for a in range(len(line.commits)):
        for b in range(len(line.commits)):
            found = merge_bases(history, line.commits[a], line.commits[b])
            assert {number_of[commit.seq] for commit in found} == line.best_bases(a, b)
            assert len(found) == len({commit.seq for commit in found})


@PER_EXAMPLE
@given(SHAPE)
def test_is_ancestor_reachable_and_walk_agree_with_their_definitions(history: History, shape: list[Any]) -> None:
    line = grown(history, shape)
    last = len(line.commits) - 1
    number_of = {commit.seq: number for number, commit in enumerate(line.commits)}
    for number, commit in enumerate(line.commits):
        assert is_ancestor(history, commit, line.commits[last]) == (number in line.behind(last))
        shown = {number_of[seq] for seq in reachable(history, [line.commits[last].seq], [commit.seq])}
        assert shown == line.behind(last) - line.behind(number)
        walked = [number_of[found.seq] for found in walk(history, [line.commits[last]], [commit])]
        assert set(walked) == shown and len(walked) == len(shown)
        assert all(walked.index(p) > walked.index(n) for n in walked for p in line.parents[n] if p in shown)


def test_the_criss_cross_example_has_two_bases(history: History) -> None:
    line = grown(history, CRISS_CROSS)
    assert line.best_bases(5, 6) == {1, 2}


@pytest.mark.parametrize("agree", [True, False])
def test_after_a_criss_cross_a_path_the_bases_disagree_on_is_never_taken_silently(
    history: History, agree: bool
) -> None:
    """Two people merged each other and each chose their own side; neither may win without being asked."""
    mine, yours, later = VALUES[0], VALUES[0] if agree else VALUES[1], VALUES[2]
    line = Line(history)
    start = line.add(p=VALUES[3])
    left, right = line.add(start, p=mine), line.add(start, p=yours)
    left2, right2 = line.add(left, right, p=mine), line.add(right, left, p=yours)
    left3, right3 = line.add(left2, q=later), line.add(right2, r=later)
    outcome = merge_trees.merge_commits(history, line.commits[left3], line.commits[right3])
    assert [c.path for c in outcome.conflicts] == ([] if agree else ["files/p"])
    assert outcome.edits == {"files/r": later}


def test_the_criss_cross_check_would_notice_a_merge_that_looks_at_one_base_only(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_trees, "merge_bases", lambda *args: merge_bases(*args)[:1])
    with pytest.raises(AssertionError):
        test_after_a_criss_cross_a_path_the_bases_disagree_on_is_never_taken_silently(history, False)


def test_a_third_base_is_folded_over_what_it_shares_with_all_the_others(history: History) -> None:
    """Of three bases only the second has what the third was built on: against the first alone they would disagree."""
    line = Line(history)
    start = line.add(p=VALUES[0])
    ground = line.add(start, p=VALUES[1])
    three, two = line.add(ground, p=VALUES[2]), line.add(ground, b=VALUES[0])
    one = line.add(start, a=VALUES[0])  # the newest is folded first
    left = line.add(line.add(one, two, p=VALUES[1], b=VALUES[0]), three, p=VALUES[2])
    right = line.add(line.add(three, two, b=VALUES[0]), one, a=VALUES[0])
    assert line.best_bases(left, right) == {one, two, three}
    theirs = line.add(right, p=VALUES[3])
    outcome = merge_trees.merge_commits(history, line.commits[left], line.commits[theirs])
    assert outcome == merge_trees.Outcome({"files/p": VALUES[3]}, ())


def test_three_bases_that_disagree_in_texts_leave_the_choice_to_a_person(history: History) -> None:
    """What the first two could not decide is no text that the third could be joined with."""
    assert history.kinds["file"].merge is not None
    with history.db.write():
        text = [Entry(history.objects.write(b"%d\n" % n), "file", 2) for n in range(6)]
    line = Line(history)
    start = line.add(p=text[0])
    bases = [line.add(start, p=text[n]) for n in (1, 2, 3)]
    left = line.add(line.add(bases[0], bases[1], p=text[4]), bases[2], p=text[4])
    right = line.add(line.add(bases[2], bases[1], p=text[5]), bases[0], p=text[5])
    outcome = merge_trees.merge_commits(history, line.commits[left], line.commits[right])
    assert [(c.path, c.status) for c in outcome.conflicts] == [("files/p", "UU")]


@PER_EXAMPLE
@given(SHAPE, st.data())
def test_a_merge_over_any_history_keeps_what_only_one_side_changed(
    history: History, shape: list[Any], data: st.DataObject
) -> None:
    """With one base, the merge of two commits is the merge of three dicts."""
    line = Line(history)
    models: list[Model] = []
    for number, (one, two, joins) in enumerate(shape):
        first, second = (one % number, two % number) if number else (0, 0)
        model = dict(models[first]) if number else {}
        edits = data.draw(st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.sampled_from(VALUES))))
        parents = () if number == 0 else (first, second) if joins and first != second else (first,)
        line.add(*parents, **edits)
        for name, entry in edits.items():
            model.pop(name, None) if entry is None else model.__setitem__(name, entry)
        models.append(model)
    a, b = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(0, len(shape) - 1))
    assert {p.removeprefix("files/"): e for p, e in history.scan(line.commits[a])} == models[a]
    bases = line.best_bases(a, b)
    if len(bases) != 1:
        return
    base = models[bases.pop()]
    outcome = merge_trees.merge_commits(history, line.commits[a], line.commits[b])
    asked = {conflict.path for conflict in outcome.conflicts}
    for name in "abc":
        o, t, old = models[a].get(name), models[b].get(name), base.get(name)
        assert (f"files/{name}" in asked) == (o != old and t != old and o != t)
        if f"files/{name}" not in asked:
            assert outcome.edits.get(f"files/{name}", o) == (t if o == old else o)


# -- texts --------------------------------------------------------------------------------------

TEXT = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n", "e\n", "f"]), max_size=9).map("".join)


@given(TEXT, TEXT)
def test_a_text_changed_on_one_side_is_that_side(base: str, other: str) -> None:
    assert merge_text(base, base, other) == other
    assert merge_text(base, other, base) == other
    assert merge_text(base, other, other) == other


@given(TEXT, TEXT, TEXT)
def test_joining_texts_does_not_depend_on_who_is_ours(base: str, ours: str, theirs: str) -> None:
    assert merge_text(base, ours, theirs) == merge_text(base, theirs, ours)


@given(st.integers(3, 12), st.data())
def test_edits_of_lines_that_do_not_touch_are_both_kept(size: int, data: st.DataObject) -> None:
    lines = [f"line {n}\n" for n in range(size)]
    one = data.draw(st.integers(0, size - 3))
    two = data.draw(st.integers(one + 2, size - 1))
    changed = data.draw(st.sampled_from(["", "changed\n", "two\nlines\n"]))

    def with_edit(*at: int) -> str:
        return "".join(changed if n in at else line for n, line in enumerate(lines))

    assert merge_text("".join(lines), with_edit(one), with_edit(two)) == with_edit(one, two)


@given(st.integers(1, 12), st.data())
def test_different_edits_of_one_line_or_its_neighbour_are_never_joined(size: int, data: st.DataObject) -> None:
    lines = [f"line {n}\n" for n in range(size)]
    one = data.draw(st.integers(0, size - 1))
    two = data.draw(st.integers(max(0, one - 1), min(size - 1, one + 1)))
    ours, theirs = (
        "".join(f"{who}\n" if n == at else line for n, line in enumerate(lines)) for who, at in (("o", one), ("t", two))
    )
    assert merge_text("".join(lines), ours, theirs) is None


def test_two_different_insertions_at_one_place_are_a_conflict() -> None:
    assert merge_text("a\nb\n", "a\nx\nb\n", "a\ny\nb\n") is None
    assert merge_text("a\nb\n", "a\nx\nb\n", "a\nx\nb\n") == "a\nx\nb\n"


# -- through the repo ---------------------------------------------------------------------------


def test_two_edits_of_one_text_that_do_not_touch_merge_without_asking(here: Path) -> None:
    repo = ml.init()
    lines = [f"{n}\n" for n in range(10)]

    def keep(text: list[str], message: str) -> None:
        (here / "notes.md").write_text("".join(text))
        repo.add("notes.md")
        repo.commit(message)

    keep(lines, "base")
    repo.switch("other", create=True)
    keep([*lines[:9], "theirs\n"], "theirs")
    repo.switch("main")
    keep(["ours\n", *lines[1:]], "ours")
    assert not repo.merge("other").conflicts
    assert (here / "notes.md").read_text() == "".join(["ours\n", *lines[1:9], "theirs\n"])


@given(TEXT, TEXT, TEXT)
def test_a_text_with_markers_is_the_joined_one_or_holds_both_sides(base: str, ours: str, theirs: str) -> None:
    joined, marked = merge_text(base, ours, theirs), mark_text(base, ours, theirs, Names("o", "t"))
    if joined is not None:
        assert marked == joined
        return
    assert marked.count("<<<<<<< o\n") == marked.count("=======\n") == marked.count(">>>>>>> t\n") > 0


def test_markers_stand_around_what_touches_and_nothing_else() -> None:
    base, ours, theirs = "1\n2\n3\n4\n5\n6\n7", "1\nours\n3\n4\n5\n6\nours", "zero\n1\ntheirs\n3\n4\n5\n6\ntheirs\n"
    assert mark_text(base, ours, theirs, Names("us", "them")) == (
        "zero\n1\n<<<<<<< us\nours\n=======\ntheirs\n>>>>>>> them\n3\n4\n5\n6\n"
        "<<<<<<< us\nours\n=======\ntheirs\n>>>>>>> them\n"
    )
