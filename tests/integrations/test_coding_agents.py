"""Claude Code's memory folders and the instruction files of a project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import memlake as ml
from memlake.integrations import coding_agents
from memlake.integrations.read_memories import read_memories
from memlake.memories.search import Query, iso
from memlake.memories.transfer import Report, load_items

NEW = """---
name: formatter-first
description: "Run the formatter, see #12"
metadata:
  node_type: memory
  type: feedback
  originSessionId: 7f0c
  modified: 2026-03-02T10:00:00.000Z
---

Run the formatter before the tests.

**Why:** CI fails on it.
"""
OLD = """---
name: Who I am
description: Data engineer
type: user
---
The user is a data engineer.
"""
INDEX = """# Memory

- [Formatter](feedback_formatter.md) — run it first
- [Who](user_role.md) — who I am

## Build
- The build takes 9 minutes
  on the small runner
- Never use make -j

The cache is at /var/cache/build.
"""


def memory_folder(root: Path, slug: str = "-home-ada-shop") -> Path:
    folder = root / "projects" / slug / "memory"
    folder.mkdir(parents=True)
    for name, text in (("MEMORY.md", INDEX), ("feedback_formatter.md", NEW), ("user_role.md", OLD)):
        (folder / name).write_text(text)
        os.utime(folder / name, (1_772_000_000, 1_772_000_000))
    (folder.parent / "0b8a.jsonl").write_text("a transcript")
    return folder


WANTED = {
    "Run the formatter before the tests.\n\n**Why:** CI fails on it.": ("preference", "conventions"),
    "The user is a data engineer.": ("preference", "preferences"),
    "The build takes 9 minutes\n  on the small runner": ("fact", ""),
    "Build: Never use make -j": ("fact", ""),
    "The cache is at /var/cache/build.": ("fact", ""),
}


@pytest.mark.parametrize("above", [0, 1, 2])
def test_a_memory_folder_is_read_from_any_folder_above_it_into_the_same_memories(tmp_path: Path, above: int) -> None:
    folder = memory_folder(tmp_path)
    reading = read_memories([folder, *folder.parents][above])
    found = [item.memory for item in reading]
    assert reading.format == "claude-code"
    assert {memory.content: (memory.memory_type, memory.category) for memory in found} == WANTED
    assert {memory.agent_id for memory in found} == {"claude-code"} and {memory.project for memory in found} == {""}
    assert sorted(memory.memory_id for memory in found) == sorted(
        item.memory.memory_id for item in read_memories(folder)
    )


def test_what_says_nothing_is_no_memory_and_a_title_that_names_the_file_no_subject(tmp_path: Path) -> None:
    folder = memory_folder(tmp_path)
    (folder / "empty.md").write_text("---\nname: empty\n---\n\n")
    (folder / "MEMORY.md").write_text("# Memory\n\n- Backups run at two\n-\n- \n- ---\n\n# Deploys\n- On Mondays\n")
    (tmp_path / "CLAUDE.md").write_text("# CLAUDE.md\n\n- Use tabs\n")
    found = [item.memory.content for item in read_memories(folder) if "MEMORY" in item.where or "empty" in item.where]
    assert found == ["Backups run at two", "Deploys: On Mondays"]
    assert [item.memory.content for item in read_memories(tmp_path / "CLAUDE.md")] == ["Use tabs"]


def test_a_note_keeps_its_session_its_time_and_what_is_known_of_it(tmp_path: Path) -> None:
    (note,) = (i for i in read_memories(memory_folder(tmp_path)) if i.where == "feedback_formatter.md")
    assert (note.memory.session_id, iso(note.memory.updated_at)) == ("7f0c", "2026-03-02T10:00:00Z")
    assert note.memory.metadata == {
        "name": "formatter-first", "description": "Run the formatter, see #12", "file": "feedback_formatter.md",
    }  # fmt: skip
    assert note.memory.source == "import:claude-code:feedback_formatter.md"


def test_a_note_that_claude_code_rewrote_is_the_next_value_of_the_same_memory(repo: ml.Repo, tmp_path: Path) -> None:
    folder = memory_folder(tmp_path)
    assert load_items(repo.memories(), read_memories(folder)) == Report(stored=5)
    for minute, said in enumerate(("formatter and linter", "formatter, linter and mypy"), 1):
        text = NEW.replace("formatter before", f"{said} before").replace("10:00:00", f"10:0{minute}:00")
        (folder / "feedback_formatter.md").write_text(text)
        assert load_items(repo.memories(), read_memories(folder)) == Report(known=4, updated=1)
    (hit,) = (one for one in repo.memories().list_memories(Query("")) if "mypy" in one.content)
    assert len(hit.history) == 2


def test_memories_of_several_projects_stay_apart(tmp_path: Path) -> None:
    shop = tmp_path / "code" / "my.shop"
    shop.mkdir(parents=True)
    slug = str(shop).replace("/", "-").replace(".", "-").replace("_", "-")
    memory_folder(tmp_path, slug)
    memory_folder(tmp_path, "-gone-from-here")
    found = {item.memory.project for item in read_memories(tmp_path / "projects")}
    assert found == {str(shop), "claude-code/-gone-from-here"}


def test_a_folder_of_claude_code_is_looked_for_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    assert coding_agents._find_path(str(tmp_path), "real") == str(tmp_path / "real")
    assert coding_agents._find_path(str(tmp_path), "link") == ""


CLAUDE = """# Shop

<!-- - a comment -->
@docs/more.md
Money is in cents.

## Tests
1. Run `make check`
   - with two workers
2. Never mock the database

```
- not a point
```
"""


def test_instruction_files_are_read_point_by_point_and_hold_for_their_folder(repo: ml.Repo, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "api").mkdir(parents=True)
    (project / ".github").mkdir()
    (project / "node_modules" / "x").mkdir(parents=True)
    (project / "CLAUDE.md").write_text(CLAUDE)
    (project / "api" / "AGENTS.md").write_text("- Errors are problem+json")
    (project / ".github" / "copilot-instructions.md").write_text("Use tabs.")
    (project / "node_modules" / "x" / "AGENTS.md").write_text("- not ours")
    (project / "README.md").write_text("no instructions")
    reading = read_memories(project)
    assert reading.format == "instructions"
    found = {item.memory.content: (item.where, item.memory.area) for item in reading}
    assert found == {
        "Shop: Money is in cents.": ("CLAUDE.md, line 5", ""),
        "Tests: Run `make check`\n   - with two workers": ("CLAUDE.md, line 8", ""),
        "Tests: Never mock the database\n\n```\n- not a point\n```": ("CLAUDE.md, line 10", ""),
        "Errors are problem+json": ("api/AGENTS.md, line 1", "api"),
        "Use tabs.": (".github/copilot-instructions.md, line 1", ""),
    }
    assert load_items(repo.memories(), read_memories(project)) == Report(stored=5)
    (project / "CLAUDE.md").touch()
    assert load_items(repo.memories(), read_memories(project)) == Report(known=5)
    assert [item.memory.content for item in read_memories(project / "api" / "AGENTS.md")] == ["Errors are problem+json"]
