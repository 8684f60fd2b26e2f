"""The lines of `log --graph`, on histories made by hand and on random ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memlake.views.log_graph import Graph, beside, rewrite_parents


def drawn(*commits: str) -> list[str]:
    """Each commit is "id parent parent"; children come first."""
    graph = Graph()
    lines: list[str] = []
    for commit in commits:
        oid, *parents = commit.split()
        lines += beside(graph.rows(oid, parents), [oid], graph.padding())
    return lines


def test_a_straight_history_is_one_column() -> None:
    assert drawn("c b", "b a", "a") == ["* c", "* b", "* a"]


def test_a_merge_forks_to_its_second_parent_and_joins_at_the_base() -> None:
    assert drawn("m d b", "b a", "d a", "a") == [
        "* m",
        "|\\",
        "| * b",
        "* | d",
        "|/",
        "* a",
    ]


def test_two_branches_that_never_merged_join_at_their_common_ancestor() -> None:
    assert drawn("f e", "x d", "e c", "d c", "c b", "b") == [
        "* f",
        "| * x",
        "* | e",
        "| * d",
        "|/",
        "* c",
        "* b",
    ]


def test_a_merge_beside_another_lane_moves_that_lane_over() -> None:
    assert drawn("m a b", "x a", "b r", "a r", "r") == [
        "* m",
        "|\\",
        "| | * x",
        "| |/",
        "|/|",
        "| * b",
        "* | a",
        "|/",
        "* r",
    ]
    assert drawn("t m", "x r", "m a b", "b r", "a r", "r") == [
        "* t",
        "| * x",
        "* | m",
        "|\\ \\",
        "| * | b",
        "| |/",
        "* | a",
        "|/",
        "* r",
    ]


def test_a_lane_that_joins_far_left_passes_through_the_lanes_between() -> None:
    assert drawn("x a", "y b", "z c", "w a", "a r", "b r", "c r", "r") == [
        "* x",
        "| * y",
        "| | * z",
        "| | | * w",
        "| | |/",
        "| |/|",
        "|/| |",
        "* | | a",
        "| * | b",
        "|/ /",
        "| * c",
        "|/",
        "* r",
    ]


def test_criss_cross_merges_lead_to_both_sides() -> None:
    assert drawn("m1 a b", "m2 b a", "a r", "b r", "r") == [
        "* m1",
        "|\\",
        "| | * m2",
        "| |/|",
        "|/|/",
        "* | a",
        "| * b",
        "|/",
        "* r",
    ]


def test_a_merge_of_three_opens_a_lane_for_each_parent() -> None:
    assert drawn("m a b c", "c z", "b z", "a z", "z")[:4] == ["* m", "|\\", "|\\ \\", "| | * c"]


def test_a_second_root_ends_its_lane() -> None:
    assert drawn("b a", "x", "a") == ["* b", "| * x", "* a"]
    assert drawn("x", "b a", "a") == ["* x", "* b", "* a"]


def test_a_root_left_of_an_open_lane_lets_that_lane_move_left() -> None:
    assert drawn("a z", "b y", "z", "y") == ["* a", "| * b", "* | z", " /", "* y"]


def test_lines_of_text_stand_beside_the_rows_of_the_graph() -> None:
    graph = Graph()
    rows = graph.rows("m", ["a", "b"])
    assert beside(rows, ["commit m", "Merge: a b", "", "    text"], graph.padding()) == [
        "*   commit m",
        "|\\  Merge: a b",
        "| |",
        "| |     text",
    ]


def test_hidden_commits_are_bridged_to_the_nearest_shown_ancestors() -> None:
    parents = {"e": ("d",), "d": ("b", "c"), "c": ("a",), "b": ("a",), "a": ()}
    assert rewrite_parents(parents, ["e", "b", "a"]) == {"e": ("b", "a"), "b": ("a",), "a": ()}
    assert rewrite_parents(parents, ["e", "a"]) == {"e": ("a",), "a": ()}
    assert rewrite_parents({"b": ("a",)}, ["b"]) == {"b": ()}, "a parent outside the range leads nowhere"


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, list[str]]]:
    """Commits children first, each with up to three parents among the later ones."""
    size = draw(st.integers(1, 14))
    commits = []
    for number in range(size):
        later = list(range(number + 1, size))
        picked = draw(st.lists(st.sampled_from(later), max_size=3, unique=True)) if later else []
        commits.append((str(number), [str(parent) for parent in picked]))
    return commits


def reached(rows: list[str], start: int) -> set[int]:
    """The columns at the bottom of `rows` that lines starting under column `start` at the top can lead to."""
    columns = {start}
    for row in rows:
        cells = dict(enumerate(row))
        after = {column for column in columns if cells.get(2 * column) == "|"}
        after |= {column - 1 for column in columns if cells.get(2 * column - 1) == "/"}
        after |= {column + 1 for column in columns if cells.get(2 * column + 1) == "\\"}
        columns = after
    return columns


@given(histories())
def test_every_commit_is_drawn_once_and_its_lines_lead_to_all_its_parents(history: list[tuple[str, list[str]]]) -> None:
    graph = Graph()
    for oid, parents in history:
        first, *rest = graph.rows(oid, parents)
        assert first.count("*") == 1
        assert set("".join(rest)) <= set("|/\\ ")
        column = first.index("*") // 2
        lanes = {graph.lanes.index(parent) for parent in parents}
        assert lanes <= reached(rest, column)
        assert len(set(graph.lanes)) == len(graph.lanes)
    assert graph.lanes == []
