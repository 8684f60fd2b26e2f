"""memory check and import --clean as a person meets them."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run

NOTES = """- The staging server listens on port 8080
- The staging server listens on port 9090
- Log in with password Blue7Whale!x
- Tea is at four \x1b[2J
- Tea is at four \x1b[2J
"""


def write_notes(folder: Path) -> str:
    (folder / "memory").mkdir()
    (folder / "memory/MEMORY.md").write_text(NOTES)
    return str(folder / "memory")


def test_a_check_names_each_line_and_its_reason_and_exits_with_1(run: Run, repo: Path, tmp_path: Path) -> None:
    notes = write_notes(tmp_path)
    ran = run("memory", "check", notes, code=1)
    assert ran.lines[-1] == "checked 5 memories: 1 duplicate, 1 contradiction, 1 secret"
    assert "MEMORY.md, line 5" in ran.out and "[redacted: password]" in ran.out
    assert "\x1b" not in ran.out and "Blue7Whale" not in ran.out
    found = run("memory", "check", notes, "--format", "claude-code", "--json", code=1).json
    assert found["ok"] is False
    assert [line["kind"] for line in found["rot"]["lines"]] == ["duplicate", "contradiction", "secret"]


def test_a_check_of_sound_memories_exits_with_0(run: Run, repo: Path) -> None:
    run("remember", "Tea is at four")
    assert run("memory", "check").lines[-1] == "checked 1 memory: nothing found"


def test_thanks_are_found_and_left_out_by_a_clean_import(run: Run, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/MEMORY.md").write_text("- Tea is at four\n- Thanks!\n- ok\n")
    assert run("memory", "check", str(tmp_path / "memory"), code=1).lines[-1] == "checked 3 memories: 2 empty"
    assert run("memory", "import", str(tmp_path / "memory"), "--clean").lines[-1] == "Stored 1 memory."


def test_a_clean_import_lists_what_it_leaves_out_and_is_one_step_of_undo(run: Run, repo: Path, tmp_path: Path) -> None:
    notes = write_notes(tmp_path)
    assert run("memory", "import", notes, "--clean", "--dry-run").lines[-2:] == [
        "Would leave out 3 memories, as listed above.",
        "Would store 2 memories.",
    ]
    assert run("memory", "ls", "--json").json["memories"] == []
    ran = run("memory", "import", notes, "--clean")
    assert ran.lines[-2:] == ["Left out 3 memories, as listed above.", "Stored 2 memories."]
    assert "import again without --clean" in ran.err
    again = run("memory", "import", notes, "--clean", "--json").json
    assert (again["report"]["known"], len(again["left_out"])) == (2, 3)
    assert run("memory", "import", notes).lines == ["Stored 2 memories, 3 known already."]
    run("undo")
    run("undo")
    assert run("memory", "ls", "--json").json["memories"] == []
