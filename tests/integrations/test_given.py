"""What is given to be read stays within bounds, whatever it was made to do."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from memlake.errors import InvalidInput
from memlake.integrations import given as given_module
from memlake.integrations.given import Given, list_keys
from memlake.integrations.read_memories import read_memories


def zipped(path: Path, files: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_an_archive_that_unpacks_to_a_thousand_times_its_size_is_refused_unread(tmp_path: Path) -> None:
    bomb = zipped(tmp_path / "export.zip", {"conversations.json": b" " * (20 << 20)})
    with pytest.raises(InvalidInput, match=r"in 'conversations\.json', [\d,]+ bytes would unpack to 20,971,520"):
        read_memories(bomb)


@pytest.mark.parametrize("name", ["../conversations.json", "/etc/conversations.json", "a/../../b.json", "C:\\x.json"])
def test_an_archive_whose_files_lead_out_of_it_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="leads out of it"):
        read_memories(zipped(tmp_path / "export.zip", {name: "[]"}))


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    whole = zipped(tmp_path / "export.zip", {"conversations.json": json.dumps([{"mapping": {}}] * 500)}).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInput, match=r"cut\.zip is a damaged archive"):
        read_memories(tmp_path / "cut.zip")
    (tmp_path / "bad.zip").write_bytes(whole[:60] + b"\0\0\0\0" + whole[64:])
    with pytest.raises(InvalidInput, match=r"bad\.zip is a damaged archive"):
        list(read_memories(tmp_path / "bad.zip", format="chatgpt"))


def test_links_and_pipes_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("the secret")
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "note.md").write_text("a note")
    os.symlink(tmp_path / "secret.md", folder / "link.md")
    os.symlink(tmp_path, folder / "up")
    os.mkfifo(folder / "pipe.md")
    assert Given(folder).names == ("note.md",)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match="neither a file nor a folder"):
        Given(tmp_path / "pipe")


def test_a_line_without_an_end_is_a_problem_of_that_line_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("formats.LONGEST", "given.LONGEST"):
        monkeypatch.setattr(f"memlake.integrations.{name}", 1 << 20)
    source = tmp_path / "a.jsonl"
    long = b'{"content": "' + b"x" * (5 << 20) + b'"}\n'
    source.write_bytes(b'{"content": "first"}\n' + long + b'{"content": "last"}\n')
    reading = read_memories(source, skip_bad=True)
    assert [item.memory.content for item in reading] == ["first", "last"]
    assert reading.problems == [f"{source}, line 2: it has more than 1 MiB."]
    assert max(map(len, Given(source).lines())) == (1 << 20) + 1


def test_a_list_of_json_is_read_member_by_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_module, "_CHUNK", 7)
    members = [{"a": "x" * 50, "b": [1, {"c": "]}, {"}]}, "text", {"ü": "é" * 9}]
    source = tmp_path / "a.json"
    source.write_text("\ufeff \n" + json.dumps(members, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    assert list(Given(source).list_json()) == members
    assert Given(source).read_json() == members
    assert list(Given(io.StringIO('{"a": 1}')).list_json()) == [{"a": 1}]
    assert list(Given(io.BytesIO(b" [ ] ")).list_json()) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b'[{"a": 1}, {"a": ', "at character 1"),
        (b'[{"a": 1} {"a": 2}]', "goes on without a comma"),
        (b'[{"a": 1}] x', "more follows at character 12"),
        (b'[{"a": "\xff"}]', "is not UTF-8"),
        (b"[" * 200_000, "JSON"),
    ],
)
def test_what_is_no_json_is_said_with_its_place(tmp_path: Path, text: bytes, what: str) -> None:
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(InvalidInput, match=what):
        list(Given(tmp_path / "a.json").list_json())


def test_a_member_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_module, "LONGEST", 1 << 20)
    (tmp_path / "a.json").write_text(json.dumps(["x", "y" * (4 << 20)]))
    with pytest.raises(InvalidInput, match="one entry has more than 1 MiB"):
        list(Given(tmp_path / "a.json").list_json())


def test_the_keys_of_a_document_are_those_of_its_first_object_alone() -> None:
    assert list_keys(b'  [{"a": {"b": "c"}, "d": ["e", {"f": 1}], "g": "h: {"}, {"i": 1}]') == ("[", {"a", "d", "g"})
    assert list_keys(b'{"text": "\\"mapping\\": {", "cut') == ("{", {"text"})
    assert list_keys(b"hello") == ("h", frozenset())
