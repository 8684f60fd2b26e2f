"""Memory commits that came from elsewhere: a window at a time they make what one at a time makes, or are refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

import memlake as ml
from memlake.objects import tables as object_tables
from memlake.repo import Repo
from memlake.versions import tables
from memlake.versions.history import adopt, commits
from memlake.versions.trees import tree

WINDOW, COUNT = 8, 30
Fields = list[Any]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repo with a line of memory commits that adds, rewrites and removes."""
    monkeypatch.setattr(commits, "WINDOW", WINDOW)
    monkeypatch.setattr(adopt, "WINDOW", WINDOW)
    repo = ml.init(tmp_path / "source")
    for number in range(COUNT):
        repo.write({f"memories/bot/{number % 20:03d}": None if number == 25 else b"%d" % number}, "remember")
    return repo


def _list_commits(repo: Repo) -> list[bytes]:
    rows = tables.list_commit_data(repo._history.db, range(1, COUNT + 5))
    return [data for _, data in sorted(rows)]


def _open_empty(source: Repo, folder: Path) -> Repo:
    repo = ml.init(folder)
    history = repo._history
    with history.db.write():
        object_tables.write_facts(history.db, {"id": source._history.objects.repo, "salt": source._history.salt})
    return repo


def test_a_window_at_a_time_makes_what_one_at_a_time_makes(source: Repo, tmp_path: Path) -> None:
    data, named = _list_commits(source), set[bytes]()
    one, many = _open_empty(source, tmp_path / "one"), _open_empty(source, tmp_path / "many")
    with one._history.db.write():
        for commit in data:
            one._history.adopt(commit)
    with many._history.db.write():
        assert adopt.adopt_memories(many._history, data, named) == COUNT
        assert adopt.adopt_memories(many._history, data, named) == 0  # a second time nothing is new
    rows = [list(tables.scan_generations(repo._history.db)) for repo in (one, many)]
    assert rows[0] == rows[1]
    parents = [repo._history.parents(range(1, COUNT + 1)) for repo in (one, many)]
    assert parents[0] == parents[1]
    stored = many._history.nodes.find_stored(
        [bytes.fromhex(source._history.at(seq).root) for seq in range(WINDOW, COUNT, WINDOW)]
    )
    assert len(stored) == COUNT // WINDOW  # the trees that keeps_tree names
    many._history.forget()
    for seq in range(1, COUNT + 1):
        commit = many._history.at(seq)
        assert list(many._history.scan(commit)) == list(source._history.scan(source._history.at(seq)))
    assert {bytes.fromhex(entry.oid) for _, entry in source._history.scan(source._history.at(COUNT))} <= named


def test_what_is_not_plain_takes_the_way_of_one_commit(source: Repo, tmp_path: Path) -> None:
    source.branches.create("other")
    for name, agent in (("main", "a"), ("other", "b")):
        with ml.Agent(source.root, agent_id=agent, branch=name) as bot:
            for number in range(3):
                bot.store_memory(f"{agent} {number}")
    source.merge("other")
    rows = sorted(tables.list_commit_data(source._history.db, range(1, COUNT + 20)))
    data = [data for _, data in rows if data[2] == 1]
    assert any(len(msgpack.unpackb(commit)[3]) == 2 for commit in data)
    many = _open_empty(source, tmp_path / "many")
    with many._history.db.write():
        assert adopt.adopt_memories(many._history, data, set()) == len(data)
    head = source._history.get(hashlib.sha256(data[-1]).hexdigest())
    many._history.forget()
    assert list(many._history.scan(many._history.get(head.oid))) == list(source._history.scan(head))


def _edit(field: int, value: object) -> Callable[[Fields], None]:
    def edit(fields: Fields) -> None:
        fields[field] = value

    return edit


def _edit_change(cell: int, value: object) -> Callable[[Fields], None]:
    def edit(fields: Fields) -> None:
        fields[8][0][cell] = value

    return edit


ENTRY = b"x" * 32 + b"\x05\x00\x05"


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (_edit(2, b"x" * 32), "do not lead to its tree"),
        (_edit(2, tree.EMPTY), "do not lead to its tree"),
        (_edit(10, 99), "does not fit its parents"),
        (_edit(6, "soon"), "not written as commits are"),
        (_edit(6, 1 << 60), "not written as commits are"),
        (_edit(7, 5), "not written as commits are"),
        (_edit(5, ["a"]), "cannot be read|not written as"),
        (_edit(4, b"x"), "not written as commits are"),
        (_edit(9, {"b": b"x" * 32, "a": b"x" * 32}), "not written as commits are"),
        (_edit(9, {"a": b"x"}), "not written as commits are"),
        (_edit(3, [b"x" * 32]), "is not in this repo"),
        (_edit(8, "abc"), "cannot be read"),
        (_edit_change(0, "files/x"), "other lane"),
        (_edit_change(0, "memories/../../x"), "is refused"),
        (_edit_change(0, "elsewhere"), "does not start with a room"),
        (_edit_change(0, 5), "not written as commits are|cannot be read"),
        (_edit_change(1, ENTRY), "do not lead to its tree"),
        (_edit_change(2, ENTRY), "do not lead to its tree"),
        (_edit_change(2, b"x"), "not an entry"),
        (_edit_change(2, None), "do not lead to its tree"),
        (lambda fields: fields[8].append(fields[8][0]), "do not lead to its tree"),
        (lambda fields: fields.append(5), "cannot be read"),
        (lambda fields: fields.__setitem__(1, 0), "does not fit its parents"),
    ],
)
@pytest.mark.parametrize("at", [COUNT - 1, WINDOW - 1, 3])
def test_a_commit_that_is_not_right_is_refused_wherever_it_stands(
    source: Repo, tmp_path: Path, edit: Callable[[Fields], None], says: str, at: int
) -> None:
    data = _list_commits(source)[: at + 1]
    fields = msgpack.unpackb(data[at])
    edit(fields)
    data[at] = msgpack.packb(fields)
    many = _open_empty(source, tmp_path / "many")
    with pytest.raises(ml.errors.Error, match=says), many._history.db.write():
        adopt.adopt_memories(many._history, data, set())
    assert tables.count_commits(many._history.db)[0] == 0


def _write_generation_longer(fields: Fields) -> bytes:
    data: bytes = msgpack.packb(fields)
    return data[:-1] + b"\xcc" + data[-1:]


def _begin_from_another_value(fields: Fields) -> bytes:
    """The path was written a moment ago in the same window, so only the step from old to new is wrong."""
    path, _, new = fields[8][0]
    fields[8] = [["memories/bot/008", ENTRY, new]] if path == "memories/bot/009" else fields[8]
    data: bytes = msgpack.packb(fields)
    return data


def _change_nothing(fields: Fields) -> bytes:
    fields[8] = [["memories/bot/zzz", None, None], *fields[8]]
    fields[8].sort(key=lambda change: change[0])
    data: bytes = msgpack.packb(fields)
    return data


@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (_write_generation_longer, "not written as commits are"),
        (_begin_from_another_value, "do not lead"),
        (_change_nothing, "do not lead"),
    ],
)
def test_a_commit_whose_tree_is_right_and_whose_bytes_are_not_is_refused(
    source: Repo, tmp_path: Path, forge: Callable[[Fields], bytes], says: str
) -> None:
    data = _list_commits(source)[:10]  # the last is the second of its window
    fields = msgpack.unpackb(data[9])
    if forge is _begin_from_another_value:  # its tree made right for what it does
        head = source._history.at(9)
        keys = {b"memories/bot/008": fields[8][0][2]}
        fields[2], _ = tree.edit(source._history.nodes.get_many, source._history.root(head), keys)
    data[9] = forge(fields)
    many = _open_empty(source, tmp_path / "many")
    with pytest.raises(ml.errors.Corrupt, match=says), many._history.db.write():
        adopt.adopt_memories(many._history, data, set())


def test_a_commit_that_is_sent_twice_is_taken_in_once(source: Repo, tmp_path: Path) -> None:
    data = _list_commits(source)
    many = _open_empty(source, tmp_path / "many")
    with many._history.db.write():
        adopt.adopt_memories(many._history, [*data, *data[3:7]], set())
    assert tables.count_commits(many._history.db)[0] == COUNT


def test_a_tree_inside_a_window_that_was_forged_is_found_when_it_is_asked_for(source: Repo, tmp_path: Path) -> None:
    data = _list_commits(source)[:5]
    fields = msgpack.unpackb(data[3])
    fields[2] = b"x" * 32
    data[3] = msgpack.packb(fields)
    last = msgpack.unpackb(data[4])
    last[3] = [hashlib.sha256(data[3]).digest()]
    data[4] = msgpack.packb(last)
    many = _open_empty(source, tmp_path / "many")
    with many._history.db.write():
        adopt.adopt_memories(many._history, data, set())
    many._history.forget()
    with pytest.raises(ml.errors.Corrupt, match="do not lead to its tree"):
        many._history.root(many._history.at(4))
    assert many._history.root(many._history.at(5))
