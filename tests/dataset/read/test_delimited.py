"""CSV files: read as they are written, or refused by the line that is not."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.dataset.datasets import Datasets
from memlake.dataset.read import delimited
from memlake.errors import Conflict, InvalidInput
from tests.dataset.conftest import Python

MANY = 40_000  # lines, more than DuckDB looks at before it reads
LONG = "long " * 40_000


@pytest.fixture
def ds(repo: ml.Repo) -> Datasets:
    return repo.datasets()


def read(ds: Datasets, text: str, name: str = "rows.csv", **how: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
    Path(name).write_text(text, encoding="utf-8")
    chain = ds.read_csv(name, **how)
    return list(chain.schema), chain.to_list()


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("text\nhello world\nfoo; bar\n", ["text"], [("hello world",), ("foo; bar",)]),
        ("a,b\n1,2\n", ["a", "b"], [(1, 2)]),
        ("a;b\n1,5;2\n", ["a", "b"], [("1,5", 2)]),
        ("a|b\n1|2\n", ["a", "b"], [(1, 2)]),
        ("a\tb\n1\t2\n", ["a", "b"], [(1, 2)]),
        ("\n\na,b\n1,2\n", ["a", "b"], [(1, 2)]),
        ("a,b\n#1,2\n", ["a", "b"], [("#1", 2)]),
        ('a,b\n"x, ""y""\nz",2\n', ["a", "b"], [('x, "y"\nz', 2)]),
        ("\ufeffa,b\r\n1,2\r\n", ["a", "b"], [(1, 2)]),
        ('"a\nx",b\r\n1,"2\n3"\r\n', ["a\nx", "b"], [(1, "2\n3")]),
    ],
)
def test_the_first_line_names_the_columns_that_every_line_has(
    ds: Datasets, text: str, names: list[str], rows: list[tuple[Any, ...]]
) -> None:
    assert read(ds, text) == (names, rows)


def test_a_delimiter_a_suffix_and_no_header_are_taken_as_given(ds: Datasets) -> None:
    assert read(ds, "a,b;c\n1,2;3\n", delimiter=";")[0] == ["a,b", "c"]
    assert read(ds, "a,b\n1,2\n", "rows.tsv") == (["a,b"], [("1,2",)])
    assert read(ds, "1,2\n3,4\n", header=False)[1] == [(1, 2), (3, 4)]
    Path("rows.csv.gz").write_bytes(gzip.compress(b"a;b\n1;2\n"))
    assert ds.read_csv("rows.csv.gz").to_list() == [(1, 2)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,name\n1,a\n2,bb,OOPS\n3,c\n", r"rows.csv: line 3 has 3 values where the first has 2, .*'2,bb,OOPS'"),
        ("id,name\n1\n3,c\n", "line 2 has 1 values where the first has 2"),
        ("A title\nid,name\n1,a\n", "line 2 has 2 values where the first has 1"),
        ("id,name\n" + "1,a\n" * MANY + "2,bb,OOPS\n", rf"rows.csv: (?s:.*)Line: {MANY + 2}\b"),
    ],
)
def test_a_line_that_does_not_fit_is_an_error_that_names_it(ds: Datasets, text: str, said: str) -> None:
    with pytest.raises(ml.errors.InvalidInput, match=said) as error:
        read(ds, text)
    assert "delimiter=" in error.value.hint
    assert not any(word in str(error.value) for word in ("null_padding", "ignore_errors", "strict_mode", "sample_size"))


def test_a_late_value_of_another_type_is_answered_by_an_option_there_is(ds: Datasets) -> None:
    text = "id,name\n" + "1,a\n" * MANY + "x,b\n"
    with pytest.raises(ml.errors.InvalidInput, match='column "id"') as error:
        read(ds, text)
    assert "types={'id': 'VARCHAR'}" in error.value.hint and "sample_size" not in str(error.value)
    assert read(ds, text, types={"id": "VARCHAR"})[1][-1] == ("x", "b")


def test_json_that_changes_its_mind_names_no_option_that_is_not_there(ds: Datasets) -> None:
    Path("rows.jsonl").write_text('{"a":1}\n' * MANY + '{"a":"x"}\n', encoding="utf-8")
    with pytest.raises(ml.errors.InvalidInput, match=f"line {MANY + 1}") as error:
        ds.read_jsonl("rows.jsonl").to_list()
    assert "sample_size" not in str(error.value) and "ignore_errors" not in str(error.value)


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        (["a;b\r\n", "1;x\n", "2;y\r\n"], [(1, "x"), (2, "y")]),
        (["a,b\r\n", '1,"x\ny"\n', '2,"p\r\nq"\r\n'], [(1, "x\ny"), (2, "p\r\nq")]),
        (["a,b\n", '1,"say ""hi"""\r\n', f'2,"{LONG}"\n'], [(1, 'say "hi"'), (2, LONG)]),
        (["\r\n", "a,b\n", "1,\r\n", '2,""\n', '"3","z"\r\n'], [(1, None), (2, ""), (3, "z")]),
    ],
)
def test_lines_may_end_in_two_ways(ds: Datasets, lines: list[str], rows: list[tuple[Any, ...]], end: str) -> None:
    text = "".join([*lines, f"9{';' if ';' in lines[0] else ','}last{end}"])
    Path("rows.csv").write_bytes(text.encode())
    assert ds.read_csv("rows.csv").to_list() == [*rows, (9, "last")]
    Path("rows.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert ds.read_csv("rows.csv.gz").to_list() == [*rows, (9, "last")]


def test_files_that_were_joined_are_read_as_their_parts(ds: Datasets) -> None:
    lines = "".join(f"{at},x{at}\n" for at in range(MANY))
    Path("rows.csv").write_bytes(f"a,b\n{lines}".encode() + lines.replace("\n", "\r\n").encode())
    one = [(at, f"x{at}") for at in range(MANY)]
    assert ds.read_csv("rows.csv").to_list() == one + one
    Path("plain.csv").write_text("a,b\n1,y\n", encoding="utf-8")
    assert ds.read_csv(["plain.csv", "rows.csv"]).to_list() == [(1, "y"), *one, *one]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a,b\r\n1,"x"y\n2,z\r\n', "line 2 cannot be read: ',' expected after '\"'"),
        ('a,b\r\n1,x\n2,"z\r\n', "line 3 cannot be read: unexpected end of data"),
        ("a,b\r\n1,x\n2,y,OOPS\r\n", "line 3 has 3 values where the first has 2"),
        ("a,b\r\n1,x\n" + "1,x\n" * MANY + "2,y,OOPS\r\n", rf"line {MANY + 3} has 3 values where the first has 2"),
    ],
)
def test_nothing_is_dropped_where_lines_end_in_two_ways(ds: Datasets, text: str, said: str) -> None:
    Path("rows.csv").write_bytes(text.encode())
    with pytest.raises(ml.errors.InvalidInput, match=said):
        ds.read_csv("rows.csv").to_list()


def test_a_quoted_break_is_no_end_of_a_line(ds: Datasets) -> None:
    Path("rows.csv").write_bytes(b'a,b\r\n1,"x\ny"\r\n2,"z"w\r\n')
    with pytest.raises(ml.errors.InvalidInput, match="sniffing"):
        ds.read_csv("rows.csv")


def test_an_open_quote_is_told_without_what_the_engine_tried(ds: Datasets) -> None:
    Path("rows.csv").write_text('a,b\n1,"open\n2,3\n4,5\n', encoding="utf-8")
    with pytest.raises(ml.errors.InvalidInput, match=r'Error when sniffing file ".*rows\.csv"\.') as error:
        ds.read_csv("rows.csv")
    assert "\n" not in error.value.message
    assert error.value.hint.startswith("Close a quote that was left open, or say how the file is written: read_csv(")


def test_another_line_end_far_behind_is_named(ds: Datasets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_LOOKED", 1000)
    Path("rows.csv").write_bytes(b"a,b\n" + b'1,"x\r\ny"\n' * MANY + b"2,z\r\n")
    with pytest.raises(
        ml.errors.InvalidInput, match=rf"line {2 * MANY + 2} ends in '\\r\\n', those before it in '\\n'"
    ) as error:
        ds.read_csv("rows.csv").to_list()
    assert "sed" in error.value.hint


def test_a_file_that_changed_since_the_chain_was_built_is_named(ds: Datasets) -> None:
    Path("c.csv").write_text("a\n1\n2\n")
    chain = ds.read_csv("c.csv")
    Path("c.csv").write_text("a\n1\n2\n3\n")
    assert chain.to_values("a") == [1, 2, 3]
    for text in ("a\none\ntwo\n", "b\n1\n2\n"):
        Path("c.csv").write_text(text)
        for end in (chain.to_records, lambda: chain.save("made")):
            with pytest.raises(Conflict, match=r"c\.csv changed since the chain was built") as raised:
                end()
            assert raised.value.__cause__ is not None
    assert ds.all() == []


def test_a_file_in_another_encoding_is_refused_with_what_to_do(ds: Datasets) -> None:
    Path("c.csv").write_bytes("a,b\né,2\n".encode("latin-1"))
    with pytest.raises(InvalidInput, match="not utf-8 encoded") as raised:
        ds.read_csv("c.csv").to_list()
    assert raised.value.hint == "Write it anew as UTF-8, like: iconv -f LATIN1 -t UTF-8 FILE > NEW"


def test_what_fails_over_files_as_they_were_is_told_as_it_is(ds: Datasets) -> None:
    Path("c.csv").write_text("a\n1\n2\n")
    with pytest.raises(InvalidInput, match="Could not convert"):
        ds.read_csv("c.csv").mutate(b=ml.C("a").cast(str) + "x").mutate(c=ml.C("b").cast(int)).to_records()


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("file.write_text('a\\nx\\n'); chain.to_records()", "Conflict"),
        ("rows = chain.to_iter('a'); next(rows); 1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_program_that_fails_while_it_reads_ends_with_its_error_alone(python: Python, end: str, error: str) -> None:
    Path("c.csv").write_text("a\n1\n2\n")
    text = "import memlake as ml, pathlib\nfile = pathlib.Path('c.csv')\nchain = ml.read_csv('c.csv')\n"
    Path("s.py").write_text(f"{text}def f():\n    {end}\nf()\n")
    said = python("s.py", check=False).stderr
    assert error in said and "leaked" not in said
