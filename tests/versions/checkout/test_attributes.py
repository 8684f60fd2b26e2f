"""`.memlakeattributes`: the last line that matches decides, and no content of it makes a verb fail."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlake as ml
from memlake.versions.checkout.attributes import FILE, Attributes, read_working_attributes


def attributes(**files: str) -> Attributes:
    """Attributes of these files; the keyword is the folder, "top" the root."""
    stored = {("" if folder == "top" else f"{folder}/") + FILE: text.encode() for folder, text in files.items()}
    return Attributes(stored.get)


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        ("*.csv key=id", "a.csv", {"key": "id"}),
        ("*.csv key=id", "deep/er/a.csv", {"key": "id"}),
        ("*.csv key=id", "files/deep/a.csv", {"key": "id"}),
        ("data/*.csv key=id,lang merge=union", "data/a.csv", {"key": "id,lang", "merge": "union"}),
        ("data/*.csv key=id", "data/deep/a.csv", {}),
        ("data/**/a.csv key=id", "data/x/y/a.csv", {"key": "id"}),
        ("/a.csv key=id", "x/a.csv", {}),
        ("* key=a merge=ours\n*.csv key=b", "x.csv", {"key": "b", "merge": "ours"}),
        ("*.csv key=b\n* key=", "x.csv", {}),
        ("# *.csv key=id\n\n  \r\n", "a.csv", {}),
        ('"my file.csv" key="first name,last name"', "my file.csv", {"key": "first name,last name"}),
        (r"my\ file.csv diff=text", "my file.csv", {"diff": "text"}),
        ("\ufeff*.csv key=Zoë\r\n", "a.csv", {"key": "Zoë"}),
    ],
)
def test_a_line_says_something_of_the_paths_it_matches(lines: str, path: str, expected: dict[str, str]) -> None:
    assert attributes(top=lines).find(path) == expected


def test_a_file_in_a_folder_decides_over_those_above_it() -> None:
    found = attributes(top="*.csv key=id merge=ours\nsub/a.csv key=top", sub="a.csv key=inner")
    assert found.find("sub/a.csv") == {"key": "inner", "merge": "ours"}
    assert found.find("a.csv") == {"key": "id", "merge": "ours"}
    assert found.find_key("sub/a.csv") == ("inner",)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("*.csv keys=id", "line 1: 'keys' is not an attribute, so memlake ignores it. Known are merge, diff, key."),
        ("\n*.csv diff=words", "line 2: diff=words is not known, so memlake ignores it. Write diff=text."),
        ("data/ key=id", "line 1: 'data/' is not a pattern of files"),
        ("[ key=id", "line 1: '[' is not a pattern of files"),
        ('*.csv key="id', "line 1: memlake cannot read it"),
        ("**/" * 9 + "x key=id", "is not a pattern of files"),
        ("x" * 300_000, "is longer than 262,144 bytes"),
        ("a key=x\n" * 2000, "has more than 1,000 lines"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_line_and_its_cure(lines: str, said: str) -> None:
    found = attributes(top=lines)
    with pytest.warns(UserWarning, match=FILE):
        assert found.find("other.csv") == {}
    assert len(found.problems) == 1
    assert said in found.problems[0]


@given(st.text(alphabet='ab*?[]!/\\"=, \n\t#\x00key', max_size=80))
def test_no_text_makes_it_fail(lines: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attributes(top=lines).find("a/b/key.csv")


def test_a_pattern_of_many_stars_is_quick() -> None:
    assert attributes(top="*a" * 60 + "b key=id").find("a" * 200) == {}  # would take longer than the world is old


def test_a_link_a_folder_or_a_pipe_in_its_place_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("* key=id")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / FILE).symlink_to(tmp_path / "outside")
    (tmp_path / "folder" / FILE).mkdir(parents=True)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / FILE)
    found = read_working_attributes(tmp_path)
    assert [found.find(f"{name}/a.csv") for name in ("link", "folder", "pipe")] == [{}, {}, {}]


def test_diff_matches_rows_by_the_declared_key(tmp_path: Path) -> None:
    repo = ml.init(tmp_path)
    (tmp_path / "a.csv").write_text("id,code\n1,x\n2,y\n")
    repo.add(["a.csv"])
    first = repo.commit("one").oid
    (tmp_path / "a.csv").write_text("id,code\n5,x\n6,y\n")
    (tmp_path / FILE).write_text("*.csv key=code\n")
    found = repo.diff().explain("a.csv")
    assert found is not None
    assert found.record.key == (("code",), "declared")
    repo.add(["."])
    repo.commit("two")
    (tmp_path / FILE).write_text("*.csv diff=text\n")
    (tmp_path / "a.csv").write_text("id,code\n5,x\n7,y\n")
    assert repo.diff(first).explain("a.csv") is None, "the newer side is here, and so are its attributes"
    found = repo.diff(first, "HEAD", paths=["a.csv"]).explain("a.csv")
    assert found is not None
    assert found.record.key.origin == "declared"
    found = repo.diff("HEAD", first).explain("a.csv")
    assert found is not None
    assert found.record.key.origin != "declared"
    with pytest.raises(ml.errors.NotFound, match="does not differ"):
        repo.diff(first, "HEAD").explain("b.csv")


def test_a_problem_is_told_once_by_a_command_that_meets_it_often(tmp_path: Path) -> None:
    repo = ml.init(tmp_path)
    (tmp_path / FILE).write_text("*.csv colour=red\n")
    for number in range(3):
        (tmp_path / "a.csv").write_text(f"id\n{number}\n")
        repo.add(["."])
        repo.commit(str(number))
    repo.close()
    done = subprocess.run(
        [sys.executable, "-m", "memlake.cli", "log", "-p"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("+2") + done.stdout.count("id=") and done.stderr.count("'colour'") == 1
