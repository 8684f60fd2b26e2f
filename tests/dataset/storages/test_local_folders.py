"""Local folders: which files are listed, in what order, and what a listing does when the folder is not as it should."""

from __future__ import annotations

import os
import subprocess
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memlake.dataset import storages
from memlake.dataset.storages.local_folders import etag_of
from memlake.dataset.storages.patterns import expand
from memlake.errors import Denied, InvalidInput, NotFound
from tests.dataset.storages.conftest import paths, rows


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def test_a_folder_lists_every_file_with_its_facts(here: Path) -> None:
    make(here, "pets/cat.jpg", "pets/dogs/rex.jpg")
    os.utime(here / "pets/cat.jpg", ns=(0, 1_700_000_000_123_456_789))
    found = rows("pets")
    assert [row["path"] for row in found] == ["pets/cat.jpg", "pets/dogs/rex.jpg"]
    cat, facts = found[0], os.stat("pets/cat.jpg")
    assert cat["source"] == here.as_uri() and cat["size"] == 12 and cat["is_latest"] is True and cat["version"] == ""
    assert cat["last_modified"] == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert cat["etag"] == etag_of(facts)


def test_batches_have_the_schema_of_a_file(here: Path) -> None:
    make(here, "a/x")
    assert [batch.schema for batch in storages.list_files("a/")] == [storages.SCHEMA]


def test_paths_come_in_order_even_where_a_folder_sorts_between_files(here: Path) -> None:
    make(here, "a/b/x", "a/b.txt", "a/b-1", "a/b0", "a/bb/y", "a/ü", "a/😀", "a/\uffee")
    assert paths("a") == sorted(paths("a")) and len(paths("a")) == 8


def test_an_etag_changes_when_a_file_is_written_or_replaced(here: Path) -> None:
    make(here, "a/x")
    seen = {rows("a")[0]["etag"]}
    os.utime("a/x", ns=(5, 5))
    seen.add(rows("a")[0]["etag"])
    (here / "new").write_bytes(b"a/x")
    os.utime("new", ns=(5, 5))
    os.replace("new", "a/x")
    seen.add(rows("a")[0]["etag"])
    assert len(seen) == 3


@pytest.mark.parametrize("uri", ["a", "a/x"])
def test_an_etag_changes_when_a_file_is_written_and_its_time_set_back(here: Path, uri: str) -> None:
    make(here, "a/x")
    (before,), facts = rows(uri), os.stat("a/x")
    assert rows(uri) == [before]
    time.sleep(0.02)  # a file system's clock ticks some hundred times a second
    (here / "a/x").write_bytes(b"b/y")
    os.utime("a/x", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    (after,) = rows(uri)
    assert after["etag"] != before["etag"] and {**after, "etag": ""} == {**before, "etag": ""}


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("data/*.jpg", ["data/1.jpg"]),
        ("data/**/*.jpg", ["data/1.jpg", "data/a/2.jpg", "data/a/b/3.jpg"]),
        ("data/*/*.jpg", ["data/a/2.jpg"]),
        ("data/**", ["data/1.jpg", "data/a/2.jpg", "data/a/b/3.jpg", "data/a/b/3.png", "data/c/4.gif"]),
        ("data/{a,c}/*.{jpg,gif}", ["data/a/2.jpg", "data/c/4.gif"]),
        ("data/[ac]/?.*", ["data/a/2.jpg", "data/c/4.gif"]),
        ("data/[!a]/*", ["data/c/4.gif"]),
        ("data/{a/b,c}/", ["data/a/b/3.jpg", "data/a/b/3.png", "data/c/4.gif"]),
        ("data/a/b/*", ["b/3.jpg", "b/3.png"]),
        ("data/*.nothing", []),
        ("data/{a..c}/{1..4}.{jpg,gif}", ["data/a/2.jpg", "data/c/4.gif"]),
    ],
)
def test_wildcards_choose_files(here: Path, uri: str, expected: list[str]) -> None:
    make(here, "data/1.jpg", "data/a/2.jpg", "data/a/b/3.jpg", "data/a/b/3.png", "data/c/4.gif")
    assert paths(uri) == expected


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("f{1..3}", ["f1", "f2", "f3"]),
        ("f{3..1}", ["f3", "f2", "f1"]),
        ("f{08..10}", ["f08", "f09", "f10"]),
        ("f{1..03}", ["f01", "f02", "f03"]),
        ("f{-1..1}", ["f-1", "f0", "f1"]),
        ("f{-01..1}", ["f-01", "f000", "f001"]),
        ("f{0..10..5}", ["f0", "f5", "f10"]),
        ("f{10..0..-5}", ["f10", "f5", "f0"]),
        ("f{c..a}", ["fc", "fb", "fa"]),
        ("{a,f{1..2}}", ["a", "f1", "f2"]),
        ("{1..2}{a..b}", ["1a", "1b", "2a", "2b"]),
        ("f{1..a}", ["f{1..a}"]),
        ("f{1..}{x}", ["f{1..}{x}"]),
    ],
)
def test_braces_mean_what_they_mean_to_bash(pattern: str, names: list[str]) -> None:
    assert expand(pattern) == names
    told = subprocess.run(["bash", "-c", f"echo {pattern}"], capture_output=True, text=True, check=True).stdout
    assert told.split() == names


def test_braces_that_mean_too_many_names_are_refused_before_they_are_made() -> None:
    with pytest.raises(InvalidInput, match=r"more than 10,000 names"):
        expand("f{1..1000000000}{1..1000000000}")


def test_a_folder_whose_name_has_wildcards_is_meant_itself(here: Path) -> None:
    make(here, "data[1]/x", "data1/y")
    assert paths("data[1]") == ["data[1]/x"]
    assert storages.split("data[1]/") == (here.as_uri(), "data[1]/")
    assert paths("data[1]/*") == ["data[1]/x"]
    os.chdir("data[1]")
    assert paths("x") == ["x"] and paths("../data?/*") == [f"{here.name}/data1/y"]


def test_a_pattern_without_stars_over_folders_does_not_walk_deeper(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(here, "data/a.jpg", "data/deep/b.jpg")
    seen: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (seen.append(str(path)), scandir(path))[1])
    assert paths("data/*.jpg") == paths("data", recursive=False) == ["data/a.jpg"]
    assert not [path for path in seen if "deep" in path]


@pytest.mark.parametrize(
    ("uri", "prefix"), [("pets", "pets/"), ("pets/", "pets/"), ("./pets", "pets/"), ("pets/*.jpg", "pets/*.jpg")]
)
def test_a_local_uri_is_split_into_its_parent_and_the_rest(here: Path, uri: str, prefix: str) -> None:
    (here / "pets").mkdir()
    assert storages.split(uri) == (here.as_uri(), prefix)


def test_the_current_folder_and_the_root_can_be_split(here: Path) -> None:
    assert storages.split(".") == (here.parent.as_uri(), f"{here.name}/")
    assert storages.split("/") == ("file:///", "")


def test_a_file_url_with_odd_letters_lists_and_its_source_is_a_url(here: Path) -> None:
    make(here, "a b%/c d/x")
    assert storages.split((here / "a b%/c d").as_uri()) == ((here / "a b%").as_uri(), "c d/")
    assert paths((here / "a b%/c d").as_uri()) == paths("a b%/c d") == ["c d/x"]


def test_one_file_is_a_listing_of_one(here: Path) -> None:
    make(here, "pets/cat.jpg")
    assert storages.split("pets/cat.jpg") == ((here / "pets").as_uri(), "cat.jpg")
    assert paths("pets/cat.jpg") == ["cat.jpg"]


def test_an_empty_folder_lists_nothing(here: Path) -> None:
    (here / "empty").mkdir()
    assert list(storages.list_files("empty")) == []


def test_everything_is_listed_but_what_memlake_keeps(here: Path) -> None:
    make(here, "a/.memlake/repo.db", "a/b/.memlake/x", "a/.git/HEAD", "a/.hidden", "a/.memlakeignore")
    assert paths("a") == ["a/.git/HEAD", "a/.hidden", "a/.memlakeignore"]


def test_links_are_followed_and_loops_are_not(here: Path) -> None:
    make(here, "a/x", "other/y")
    os.symlink("x", "a/link")
    os.symlink("../other", "a/folder")
    os.symlink("../a", "other/back")
    os.symlink("self", "a/self")
    with pytest.warns(UserWarning, match="not listed in") as told:
        assert paths("a") == ["a/folder/y", "a/link", "a/x"]
    assert "1 linked back to a folder above ('a/folder/back/')" in str(told[0].message)
    assert "'a/self'" in str(told[1].message)


def test_what_cannot_be_listed_is_told_once_and_again_when_it_is_more(here: Path) -> None:
    make(here, "a/x")
    os.symlink("nothing", "a/link")
    with pytest.warns(UserWarning, match=r"1 gone, or linked to nothing \('a/link'\)"):
        paths("a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert paths("a") == ["a/x"]
    os.symlink("nothing", "a/other")
    with pytest.warns(UserWarning, match="2 gone"):
        paths("a")


def test_what_is_no_file_is_not_listed(here: Path) -> None:
    make(here, "a/x")
    os.mkfifo("a/pipe")
    assert paths("a") == ["a/x"]


def test_a_folder_that_may_not_be_read_is_denied(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "shut").mkdir()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root reads everything
    with pytest.raises(Denied, match="may not be read"):
        paths("shut")


def test_an_unreadable_folder_inside_is_counted_and_the_rest_is_listed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(here, "a/shut/x", "a/y")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("shut"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.warns(UserWarning, match=r"not listed in .*/a/: 1 not readable \('a/shut/'\)"):
        assert paths("a") == ["a/y"]


def test_files_that_vanish_while_listing_are_counted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(here, *(f"a/{number}" for number in range(6)))
    scandir = os.scandir

    class Vanishing:
        def __init__(self, path: str) -> None:
            self.entries = scandir(path)

        def __enter__(self) -> list[os.DirEntry[str]]:
            found = list(self.entries)
            for number in range(5):
                os.unlink(f"a/{number}")
            return found

        def __exit__(self, *_: object) -> None:
            self.entries.close()

    monkeypatch.setattr(os, "scandir", Vanishing)
    with pytest.warns(UserWarning, match=r"5 gone, or linked to nothing \('a/0', 'a/1', 'a/2', ...\)") as told:
        assert paths("a") == ["a/5"]
    assert "memlake/dataset" not in told[0].filename


def test_a_name_that_is_not_utf8_is_left_out_and_counted(here: Path) -> None:
    make(here, "a/x")
    (here / "a" / os.fsdecode(b"caf\xe9")).write_bytes(b"")
    with pytest.warns(UserWarning, match=r"1 with a name that is not UTF-8 \('a/caf\\udce9'\)"):
        assert paths("a") == ["a/x"]


def test_a_missing_folder_names_the_nearest_one(here: Path) -> None:
    make(here, "pictures/x")
    with pytest.raises(NotFound, match=r"there is no .*/picturs/cats\.\nDid you mean .*/pictures\?"):
        paths("picturs/cats")
    with pytest.raises(NotFound, match="but does not have 'zzz'"):
        paths("pictures/zzz/*.jpg")


def test_a_listing_longer_than_a_batch_comes_in_several(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlake.dataset.storages.local_folders.ROWS", 3)
    make(here, *(f"a/{number}" for number in range(7)))
    assert [batch.num_rows for batch in storages.list_files("a")] == [3, 3, 1]


def test_folders_deeper_than_python_calls_are_listed(here: Path) -> None:
    deep = "/".join(["d"] * 1200)
    for depth in range(1, 1201):
        os.mkdir(deep[: 2 * depth - 1])
    Path(deep, "x").write_bytes(b"")
    assert paths("d") == [f"{deep}/x"]
    os.unlink(f"{deep}/x")
    os.removedirs(deep)  # what clears up after tests calls itself once a folder


def test_many_uris_are_listed_in_turn(here: Path) -> None:
    make(here, "a/x", "b/y")
    found = [row["path"] for batch in storages.list_many(["b", Path("a")]) for row in batch.to_pylist()]
    assert found == ["b/y", "a/x"]


@pytest.mark.parametrize("uri", ["", "a\0b", "ftp://host/x", "s3:///x", "s3://a*/x", "file://other/x", "https://"])
def test_a_uri_that_names_no_storage_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput):
        storages.split(uri)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    for uri in ("https://me:hush@host/x", "s3://key:hush@bucket/x"):
        with pytest.raises(InvalidInput) as told:
            storages.split(uri)
        assert "hush" not in str(told.value)
