"""What `add` notes of a file: its media type, its columns, and a warning when it looks like a secret."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memlake.versions.checkout import describe

# -- media type


@pytest.mark.parametrize(
    ("path", "media"),
    [
        ("data/train.csv", "text/csv"),
        ("models/resnet50.pt", "application/x-pytorch"),
        ("m.safetensors", "application/x-safetensors"),
        ("m.onnx", "application/x-onnx"),
        ("m.gguf", "application/x-gguf"),
        ("t.parquet", "application/vnd.apache.parquet"),
        ("t.jsonl", "application/jsonl"),
        ("a.npy", "application/x-npy"),
        ("a.npz", "application/x-npz"),
        ("n.ipynb", "application/x-ipynb+json"),
        ("README.md", "text/markdown"),
        ("PHOTO.JPG", "image/jpeg"),
        ("x.tar.gz", "application/gzip"),
    ],
)
def test_a_known_suffix_decides_whatever_is_inside(path: str, media: str) -> None:
    assert describe.media_type(path, b"\0\1\2") == media


@pytest.mark.parametrize(
    ("head", "media"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"PAR1....", "application/vnd.apache.parquet"),
        (b"\x93NUMPY\x01\0", "application/x-npy"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
        (b"RIFF\x24\x08\x08\x08WEBP", "image/webp"),
        (b"\0\0\0\x20ftypisom", "video/mp4"),
        (b'\x40\0\0\0\0\0\0\0{"w":', "application/x-safetensors"),
        (b"SQLite format 3\0", "application/vnd.sqlite3"),
        (b"hello\n", "text/plain"),
        (b"", "text/plain"),
        ("café ☕".encode(), "text/plain"),
        ("café ☕".encode()[:-1], "text/plain"),
        (b"caf\xe9 au lait", "application/octet-stream"),
        (b"hello\0", "application/octet-stream"),
        (b"\xff\xff\xff\xff", "application/octet-stream"),
        (b'numbers {"a": 1}', "text/plain"),
    ],
)
@pytest.mark.parametrize("path", ["noext", "dir.csv/noext", "x.unknownsuffix", ".hidden", "odd."])
def test_without_a_known_suffix_the_first_bytes_decide(path: str, head: bytes, media: str) -> None:
    assert describe.media_type(path, head) == media


@given(st.text(), st.binary(max_size=300))
def test_any_name_and_any_bytes_have_a_media_type_and_perhaps_a_warning(path: str, head: bytes) -> None:
    assert "/" in describe.media_type(path, head)
    describe.secret_warning(path, head)


# -- columns of CSV


def csv(tmp_path: Path, text: str | bytes, media: str = describe.CSV) -> tuple[describe.Columns, int | None]:
    file = tmp_path / "t"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return describe.schema(file, media)


def test_a_csv_has_its_names_types_and_rows(tmp_path: Path) -> None:
    text = (
        "id,score,ok,day,at,name\n"
        "1,0.5,true,2024-01-31,2024-01-31T10:00:00Z,Ana\n"
        "-2,3,FALSE,2024-02-01,2024-02-01 10:00,Bob\n"
        ",,,,,\n"
        "3,1e-3,True,2024-02-02,2024-02-02,\n"
    )
    columns = (
        ("id", "int"),
        ("score", "float"),
        ("ok", "bool"),
        ("day", "date"),
        ("at", "timestamp"),
        ("name", "string"),
    )
    assert csv(tmp_path, text) == (columns, 4)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2.5"], "float"),
        (["1", "x"], "string"),
        (["007", "12"], "string"),
        (["1_000"], "string"),
        (["12345678901234567890123"], "string"),
        (["nan", "1"], "float"),
        (["NA", "4"], "int"),
        (["", ""], "null"),
        (["2024-13-01"], "string"),
        (["2024-01-01", "2024-01-01T00:00"], "timestamp"),
        (["true", "1"], "string"),
        (["\u0661"], "string"),
    ],
)
def test_a_column_has_the_narrowest_type_that_holds_all_its_cells(tmp_path: Path, cells: list[str], kind: str) -> None:
    columns, _ = csv(tmp_path, "word,name\n" + "".join(f"w,{cell}\n" for cell in cells))
    assert dict(columns)["name"] == kind


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    rows = [["city", "temp, C", "note"], ["Oslo", "1", "a;b"], ["Rome", "2", "c|d"]]
    text = "".join(delimiter.join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    assert csv(tmp_path, text) == ((("city", "string"), ("temp, C", "int"), ("note", "string")), 2)


def test_a_european_csv_with_decimal_commas_is_cut_at_semicolons(tmp_path: Path) -> None:
    columns, rows = csv(tmp_path, "city;temp\nOslo;1,5\nRome;20,25\nNice;19\n")
    assert [name for name, _ in columns] == ["city", "temp"] and rows == 3


def test_a_tsv_keeps_commas_inside_cells(tmp_path: Path) -> None:
    assert csv(tmp_path, "a,b\tc\n1,2\t3\n", describe.TSV) == ((("a,b", "string"), ("c", "int")), 1)


def test_a_quoted_cell_may_hold_lines_and_delimiters(tmp_path: Path) -> None:
    assert csv(tmp_path, 'id,text\n1,"two\nlines, one cell"\n2,x\n') == ((("id", "int"), ("text", "string")), 2)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1,2.5,Oslo\n2,3.5,Rome\n", ["column_1", "column_2", "column_3"]),
        ("name,city\nAna,Oslo\n", ["name", "city"]),
        ("country,2019,pop\nFR,1,2\n", ["country", "2019", "pop"]),
        (",a,b\n0,1,2\n", ["column_1", "a", "b"]),
        ("only\n", ["only"]),
        ("\n\na,b\n1,2\n", ["a", "b"]),
    ],
)
def test_the_header_is_told_from_the_first_row(tmp_path: Path, text: str, names: list[str]) -> None:
    columns, _ = csv(tmp_path, text)
    assert [name for name, _ in columns] == names


def test_rows_of_different_lengths_still_have_columns(tmp_path: Path) -> None:
    assert csv(tmp_path, "a,b,c\n1\n1,2\n1,2,3\n") == ((("a", "int"), ("b", "int"), ("c", "int")), 3)


def test_windows_lines_a_mark_and_utf16_are_read(tmp_path: Path) -> None:
    expected = ((("é", "int"), ("b", "string")), 1)
    assert csv(tmp_path, "\ufeffé,b\r\n1,x\r\n".encode()) == expected
    assert csv(tmp_path, "é,b\r\n1,x\r\n".encode("utf-16")) == expected
    assert csv(tmp_path, "é,b\r\n1,x\r\n".encode("latin-1")) == expected


def test_types_come_from_the_first_thousand_rows_and_the_count_is_left_open(tmp_path: Path) -> None:
    lines = "a,b\n" + "1,x\n" * describe.ROWS
    assert csv(tmp_path, lines) == ((("a", "int"), ("b", "string")), describe.ROWS)
    assert csv(tmp_path, lines + "late,x\n") == ((("a", "int"), ("b", "string")), None)


def test_a_large_csv_is_not_read_beyond_its_head(tmp_path: Path) -> None:
    file = tmp_path / "big.csv"
    with file.open("wb") as opened:
        opened.write(b"a,b\n" + b"1,2\n" * 10)
        opened.truncate(1 << 36)  # 64 GB of nothing: reading on would not fit in memory
    assert describe.schema(file, describe.CSV) == ((("a", "int"), ("b", "int")), None)
    row = b"1," + b"x" * 5000 + b"\n"
    file.write_bytes(b"a,b\n" + row * (3 * describe.HEAD // len(row)))
    assert describe.schema(file, describe.CSV) == ((("a", "int"), ("b", "string")), None)


@pytest.mark.parametrize("text", [b"", b"\n\n", b"a,b\0c\n", b"\x89PNG\r\n\x1a\n\0\0", b"x" * 200_000, b"\xff\xfe"])
def test_what_is_no_table_has_no_columns(tmp_path: Path, text: bytes) -> None:
    assert csv(tmp_path, text) == ((), None)


# -- columns of JSONL


def test_jsonl_is_the_union_of_its_lines(tmp_path: Path) -> None:
    text = '{"id": 1, "text": "a", "n": null}\n\n{"id": 2.5, "tags": ["x"], "meta": {"k": 1}, "n": true}\n'
    columns = (("id", "float"), ("text", "string"), ("n", "bool"), ("tags", "array"), ("meta", "object"))
    assert csv(tmp_path, text, describe.JSONL) == (columns, 2)


@pytest.mark.parametrize(
    ("values", "kind"),
    [(["1", '"x"'], "json"), (["null", "null"], "null"), (["true", "1"], "json"), (["[1]", "null"], "array")],
)
def test_a_field_of_jsonl_has_the_type_that_holds_all_its_values(tmp_path: Path, values: list[str], kind: str) -> None:
    text = "".join(f'{{"v": {value}}}\n' for value in values)
    assert csv(tmp_path, text, describe.JSONL)[0] == (("v", kind),)


@pytest.mark.parametrize(
    "text", ['{"a": 1}\n{"a": \n', "[1, 2]\n", "3\n", "not json\n", '{"a":' * 100_000, "{}\n\0\n", '"x"\n{"a": 1}\n']
)
def test_damaged_jsonl_has_no_columns(tmp_path: Path, text: str) -> None:
    assert csv(tmp_path, text, describe.JSONL) == ((), None)


def test_long_jsonl_has_columns_and_no_count(tmp_path: Path) -> None:
    text = '{"a": 1}\n' * (describe.ROWS + 1)
    assert csv(tmp_path, text, describe.JSONL) == ((("a", "int"),), None)
    wide = '{"a": "' + "x" * 5000 + '"}\n'
    assert csv(tmp_path, wide * (2 * describe.HEAD // len(wide)), describe.JSONL) == ((("a", "string"),), None)


# -- columns of Parquet


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "v": [[1.0], [], None]}), file)
    return file


def test_parquet_tells_its_columns_and_rows(parquet: Path) -> None:
    columns, rows = describe.schema(parquet, describe.PARQUET)
    assert columns == (("id", "int64"), ("name", "string"), ("v", "list<element: double>"))
    assert rows == 3


def test_a_parquet_file_damaged_anywhere_never_raises(parquet: Path) -> None:
    whole = parquet.read_bytes()
    for at in range(0, len(whole), 7):
        parquet.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        describe.schema(parquet, describe.PARQUET)
        parquet.write_bytes(whole[:at])
        assert describe.schema(parquet, describe.PARQUET) == ((), None)


@pytest.mark.parametrize("media", [describe.CSV, describe.JSONL, describe.PARQUET])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=400) | st.text(alphabet='ab,;"\n\t{}[]:01 -.', max_size=300).map(str.encode))
def test_no_content_makes_the_columns_raise(tmp_path: Path, media: str, content: bytes) -> None:
    columns, rows = csv(tmp_path, content, media)
    assert isinstance(columns, tuple) and (rows is None or rows >= 0)


def test_a_file_that_is_gone_has_no_columns(tmp_path: Path) -> None:
    for media in (describe.CSV, describe.JSONL, describe.PARQUET):
        assert describe.schema(tmp_path / "gone", media) == ((), None)


def test_other_media_have_no_columns(tmp_path: Path) -> None:
    assert csv(tmp_path, "a,b\n1,2\n", "text/plain") == ((), None)


def test_nothing_slow_is_imported_for_files_without_columns() -> None:
    code = (
        "import sys; from memlake.versions.checkout import describe as sniff\n"
        "sniff.media_type('x.pt', b''); sniff.secret_warning('x.pt', b''); sniff.schema('x.pt', 'image/png')\n"
        "slow = {'pyarrow', 'csv', 'json', 'shlex', 'mimetypes'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- secrets

KEY = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\n"
CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("path", "head"),
    [
        (".env", b"A=1"),
        ("app/.env.production", b""),
        ("id_rsa", b""),
        ("keys/id_ed25519", KEY),
        ("any.txt", KEY),
        ("tls.pem", CERTIFICATE + b"-----BEGIN PRIVATE KEY-----\n"),
        ("tls.pem", b"-----BEGIN RSA PRIVATE KEY-----\n"),
        ("tls.key", b"0\x82"),
        ("cert.p12", b""),
        (".npmrc", b"//registry.example/:_authToken=abc"),
        ("credentials.json", b"{}"),
        ("home/.aws/credentials", b""),
        (".aws/credentials", b""),
        ("sa.json", b'{"private_key": "-----BEGIN PRIVATE KEY-----\\n'),
        (".streamlit/secrets.toml", b""),
        ("backup.asc", b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n"),
    ],
)
def test_a_secret_is_warned_of_with_the_way_back(path: str, head: bytes) -> None:
    warning = describe.secret_warning(path, head)
    assert warning is not None
    assert path in warning and f"memlake restore --staged {path}" in warning and ".memlakeignore" in warning
    assert "\n" not in warning


@pytest.mark.parametrize(
    ("path", "head"),
    [
        (".env.example", b"A="),
        ("environment.yml", b""),
        (".envrc", b"layout python"),
        ("id_rsa.pub", b"ssh-rsa AAAA"),
        ("tls.pem", CERTIFICATE),
        ("talk.key", b"PK\x03\x04"),
        (".npmrc", b"save-exact=true"),
        ("aws/credentials", b""),
        ("x.aws/credentials", b""),
        ("docs/keys.md", b"how a -----BEGIN PRIVATE KEY----- line looks"),
        ("data.json", b'{"private_key": null}'),
        ("train.csv", b"id,key"),
    ],
)
def test_what_is_no_secret_is_not_warned_of(path: str, head: bytes) -> None:
    assert describe.secret_warning(path, head) is None


def test_the_cure_can_be_pasted_for_a_name_with_spaces() -> None:
    assert "--staged 'my keys/.env'" in str(describe.secret_warning("my keys/.env", b""))
