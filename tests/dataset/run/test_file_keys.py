"""Answers over local files are known by the bytes of these, and by no less than what the function looked at."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.dataset import storages
from memlake.dataset.datasets import Datasets
from memlake.dataset.run import file_keys
from memlake.dataset.run.call_work import Work
from memlake.dataset.run_settings import Settings
from memlake.dataset.types import arrow
from memlake.errors import Error

LOG = Path("calls")


@pytest.fixture
def ds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Datasets]:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    for i in range(6):
        Path(f"data/{i}.txt").write_text(f"text {i}")
    with ml.init(tmp_path) as repo:
        yield repo.datasets()


def calls() -> int:
    count = LOG.stat().st_size if LOG.exists() else 0
    LOG.unlink(missing_ok=True)
    return count


def dear() -> None:
    with LOG.open("a") as file:
        file.write("x")
    time.sleep(0.002)


def read(file: ml.TextFile) -> str:
    dear()
    return file.read()


def read_with_name(file: ml.TextFile) -> str:
    dear()
    return file.stem + file.read()


def failing(file: ml.TextFile) -> str:
    dear()
    if file.read() == "text 4" and Path("fail").exists():
        raise ValueError("not now")
    return file.read()


def rewrite(file: ml.TextFile) -> str:
    dear()
    text = file.read()
    Path("data/0.txt").write_text("TEXT 0")  # as another program would, unseen
    return text


def caught(file: ml.File) -> str:
    try:
        return file.read_text("ascii")
    except Error as error:
        return str(error)


def move(file: ml.File) -> int:
    file.path, file.etag = "1.txt", ""
    return len(file.read())


def unwatched(ds: Datasets, function: Callable[..., Any], data: str = "data", kind: str = "text") -> list[str]:
    """The answers of a chain that is not saved, so that no plan answers for it."""
    chain: Any = ds.read_storage(data, type=kind).map(text=function)
    return sorted(chain.to_values("text"))


LOOKS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "read": (file_keys.BYTES, lambda file: file.read()),
    "read_bytes": (file_keys.BYTES, lambda file: file.read_bytes()),
    "open": (file_keys.BYTES, lambda file: file.open().read()),
    "the name of a stream": (file_keys.BYTES, lambda file: isinstance(file.open().name, int)),
    "as_text": (file_keys.BYTES, lambda file: file.as_text().open().read()),
    "size": (file_keys.BYTES, lambda file: file.size),
    "nothing": (file_keys.BYTES, lambda file: 1),
    "path": (file_keys.PATH, lambda file: file.path),
    "name": (file_keys.PATH, lambda file: file.name),
    "ext of another kind": (file_keys.PATH, lambda file: file.as_image().ext),
    "parent": (file_keys.PATH, lambda file: file.parent),
    "uri": (file_keys.PLACE, lambda file: file.uri),
    "source": (file_keys.PLACE, lambda file: file.source),
    "etag": (file_keys.PLACE, lambda file: file.etag),
    "last_modified": (file_keys.PLACE, lambda file: str(file.as_text().last_modified)),
    "local path": (file_keys.PLACE, lambda file: file.get_local_path()),
    "repr": (file_keys.PLACE, lambda file: f"{file!r}"),
    "hash": (file_keys.PLACE, lambda file: len({file})),
    "==": (file_keys.PLACE, lambda file: file == ml.File("", "")),
    "pickle": (file_keys.PLACE, lambda file: len(pickle.dumps(file))),
    "copy": (file_keys.PLACE, lambda file: copy.copy(file).path),
    "get_info": (file_keys.PLACE, lambda file: str(file.get_info())),
    "exists": (file_keys.PLACE, lambda file: file.exists()),
    "save": (file_keys.PLACE, lambda file: file.save("copy")),
    "the text of an error": (file_keys.PLACE, caught),
    "another file": (file_keys.PLACE, move),
}


@pytest.mark.parametrize("name", LOOKS)
def test_what_a_function_looks_at_is_noticed(ds: Datasets, name: str) -> None:
    level, function = LOOKS[name]
    Path("data/0.txt").write_text("täxt")
    table = ds.read_storage("data/0.txt").to_arrow()
    made = (arrow.infer_field("y", [function(ds.read_storage("data/0.txt").to_values("file")[0])]),)
    work = Work("map", function, {"file": "file"}, {}, table.schema, made, True, Settings())
    assert file_keys.level_of(work(table).looked) == level


def as_dict(file: dict[str, Any]) -> int:
    return len(file)


def itself(file: ml.File) -> ml.File:
    return file


@pytest.mark.parametrize("function", [as_dict, itself])
def test_a_file_that_is_taken_or_given_as_all_that_is_known_of_it_is_looked_at_whole(
    ds: Datasets, function: Callable[..., Any]
) -> None:
    chain = ds.read_storage("data/0.txt").map(y=function)
    with chain._session.run(chain.plan, chain._settings) as engine:
        step: Any = chain.plan
        table = engine.frame(step.inputs[0]) and ds.read_storage("data/0.txt").to_arrow()
        work = Work("map", function, step.binds, step.wanted, table.schema, step.made, step.single, Settings())
        assert file_keys.level_of(work(table).looked) == file_keys.PLACE


def test_a_file_that_is_touched_moved_or_copied_is_not_read_by_a_function_again(ds: Datasets) -> None:
    texts = [f"text {i}" for i in range(6)]
    assert (unwatched(ds, read), calls()) == (texts, 6)
    for i in range(6):
        os.utime(f"data/{i}.txt")
    assert (unwatched(ds, read), calls()) == (texts, 0)
    os.rename("data", "other")
    os.rename("other/5.txt", "other/five.txt")
    assert (unwatched(ds, read, "other"), calls()) == (texts, 0)
    Path("other/3.txt").write_text("TEXT 3")
    assert (unwatched(ds, read, "other"), calls()) == (sorted([*texts[:3], "TEXT 3", *texts[4:]]), 1)


def test_who_looks_at_names_is_called_for_another_name_and_not_for_another_time(ds: Datasets) -> None:
    answers = unwatched(ds, read_with_name)
    assert (answers[0], calls()) == ("0text 0", 6)
    os.utime("data/0.txt")
    assert (unwatched(ds, read_with_name), calls()) == (answers, 0)
    os.rename("data/0.txt", "data/00.txt")
    assert (unwatched(ds, read_with_name), calls()) == (["00text 0", *answers[1:]], 1)


def test_a_file_that_changes_while_a_function_reads_it_is_not_taken_for_what_it_is_afterwards(ds: Datasets) -> None:
    assert (unwatched(ds, rewrite, "data/0.txt"), calls()) == (["text 0"], 1)
    assert (unwatched(ds, rewrite, "data/0.txt"), calls()) == (["TEXT 0"], 1)


def test_a_run_that_was_interrupted_leaves_answers_that_are_known_by_bytes_too(ds: Datasets) -> None:
    Path("fail").touch()
    with pytest.raises(ml.errors.RowFailed):
        unwatched(ds, failing)
    assert calls() == 5
    Path("fail").unlink()
    assert len(unwatched(ds, failing)) == 6
    assert calls() == 2
    os.rename("data", "other")
    assert (len(unwatched(ds, failing, "other")), calls()) == (6, 0)


def test_files_that_are_tracked_and_unchanged_are_known_without_being_read(ds: Datasets, tmp_path: Path) -> None:
    large = os.urandom(3 << 20)
    Path("data/large.bin").write_bytes(large)
    with ml.open(tmp_path) as repo:
        time.sleep(0.03)  # what was written just now might change unseen, so that it would be read again
        repo.add("data")
        repo.commit("texts")
    Path("data/0.txt").write_text("other")
    stats = {str(tmp_path / "data" / name): os.stat(f"data/{name}") for name in ("0.txt", "1.txt", "large.bin")}
    assert ds.context.find_tracked({**stats, "/etc/hostname": os.stat("/etc/hostname")}) == {
        str(tmp_path / "data/1.txt"): hashlib.sha256(b"text 1").hexdigest(),
        str(tmp_path / "data/large.bin"): hashlib.sha256(large).hexdigest(),
    }


def test_the_bytes_of_a_file_are_hashed_only_as_long_as_it_is_the_one_that_was_listed(ds: Datasets) -> None:
    (file,) = ds.read_storage("data/0.txt").to_values("file")
    oid, _ = storages.hash_unchanged(file) or ("", False)
    assert oid == hashlib.sha256(b"text 0").hexdigest()
    state = os.stat("data/0.txt")
    Path("data/0.txt").write_text("TEXT 0")
    os.utime("data/0.txt", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert storages.hash_unchanged(file) is None
