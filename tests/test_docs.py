"""The documents: links and names lead somewhere, the reference is fresh, examples run and print what they say."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memlake.cli.commands import VERBS

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = (
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/design/README.md", "docs/tutorial.md",
    "docs/benchmarks.md", "docs/reference/cli.md",
)  # fmt: skip
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub names them."""
    titles = re.findall(r"^#+\s+(.+?)\s*$", FENCE.sub("", text), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in plain}


def broken_links(page: Path, text: str) -> list[str]:
    """Links to files that are not there, or to headings a page does not have."""
    broken = []
    for found in LINK.finditer(FENCE.sub("", text)):
        target = found[1] or found[2]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            broken.append(f"{page.name}: {target} is not there")
        elif anchor and anchor not in anchors(text if not path else file.read_text(encoding="utf-8")):
            broken.append(f"{page.name}: {target} has no such heading")
    return broken


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("name", REQUIRED)
def test_the_documents_a_newcomer_looks_for_are_there(name: str) -> None:
    assert (ROOT / name).is_file()
    assert (ROOT / name).read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("page", documents(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", documents(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    in_blocks = "".join(found[0] for found in FENCE.finditer(text))
    named = {*re.findall(r"`make ([a-z]+)", text), *re.findall(r"^make ([a-z]+)", in_blocks, re.MULTILINE)}
    assert named - make_targets() == set()


def test_readme_is_one_screen_and_begins_with_the_two_commands_everything_starts_with() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = FENCE.search(text)
    assert first and "make demo" in first[0] and "make test" in first[0]
    assert len(text.splitlines()) < 60


def test_the_makefile_names_only_files_that_exist() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in re.findall(r"\b(?:examples|benchmarks|requirements)/[\w.]+", text):
        assert (ROOT / name).is_file(), name


@pytest.mark.parametrize("name", ["run.txt", "test.txt", "model.txt"])
def test_pinned_requirements_have_hashes_and_no_addresses(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert not re.search(r"://|--(?:index-url|extra-index-url|find-links|trusted-host)", text)
    pins = [line for line in lines if not line.startswith(" ")]
    assert all(re.match(r"[\w.\-]+==\S+( ;.*)? \\$", line) for line in pins)
    blocks = re.split(r"\n(?=\S)", "\n".join(lines))
    assert len(blocks) == len(pins) and all("--hash=sha256:" in block for block in blocks)


def test_a_broken_link_and_a_missing_heading_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    links = "[a](gone.md) [b](#a-title-here) [c](#nowhere) [d](page.md) ![e](x.png)"
    text = f"# A Title: here\n{links}\n```\n[f](not-a-link)\n```\n"
    page.write_text(text)
    assert [line.split(": ")[1].split()[0] for line in broken_links(page, text)] == ["gone.md", "#nowhere", "x.png"]


# -- source files and rooms that a page names

PACKAGE = ROOT / "src" / "memlake"
DESIGN = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]
EXAMPLES = {"merge.py"}  # names that stand for a kind of name, not for a file
AT_THE_TOP = ("src/", "tests/", "docs/", "benchmarks/", "examples/", "packages/", "requirements/")


def is_there(name: str) -> bool:
    return (PACKAGE / name).exists() or (name.startswith(AT_THE_TOP) and (ROOT / name).exists())


def missing_sources(text: str) -> list[str]:
    """Source files, and paths from the top of the project, that a page names in backquotes and that are not there."""
    names = re.findall(r"`([\w./-]+)`", FENCE.sub("", text))
    paths = [name for name in names if name.endswith((".py", ".sql")) or name.startswith(AT_THE_TOP)]
    return [name for name in paths if name not in EXAMPLES and not is_there(name)]


def rooms(package: Path) -> set[str]:
    """The folders of the package, at both levels, as the table writes them."""
    return {f"{file.parent.relative_to(package).as_posix()}/" for file in package.glob("*/**/__init__.py")}


def room_table(text: str) -> list[str]:
    """The paths in the column `it lives in` of the table under `Which room?`."""
    rows = re.findall(r"^\|.*\|$", text.split("## Which room?")[1].split("\n## ")[0], re.MULTILINE)[2:]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[1])]


@pytest.mark.parametrize("page", DESIGN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_source_file_a_design_page_names_exists(page: Path) -> None:
    assert missing_sources(page.read_text(encoding="utf-8")) == []


def test_which_room_names_every_room_and_only_paths_that_exist() -> None:
    told = room_table(read("CONTRIBUTING.md"))
    assert len(told) > 40, "the table was read"
    assert [name for name in told if not is_there(name)] == []
    assert rooms(PACKAGE) - set(told) == set()


def test_a_missing_source_file_and_a_missing_room_are_seen(tmp_path: Path) -> None:
    assert missing_sources("`gone.py` `errors.py` `tests/gone/` `packs/`\n```\n`not_looked_at.py`\n```\n") == [
        "gone.py",
        "tests/gone/",
    ]
    for room in ("a", "a/b"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").touch()
    table = "## Which room?\n\n| what | it lives in | not |\n|---|---|---|\n| x | `a/`, `c.py` | `y` |\n\n## Habits\n"
    assert rooms(tmp_path) - set(room_table(table)) == {"a/b/"}
    assert room_table(table) == ["a/", "c.py"]


# -- the reference is what the commands say


@pytest.fixture(scope="module", autouse=True)
def docs_folder_can_be_imported() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_command_line_reference_is_fresh() -> None:
    generate = importlib.import_module("generate")
    assert read("docs/reference/cli.md") == generate.page(), "docs/reference/cli.md is stale: make docs"


@pytest.mark.timeout(600)
def test_the_picture_shows_what_its_commands_print(tmp_path: Path) -> None:
    picture = importlib.import_module("picture")
    assert read("docs/picture.svg") == picture.svg(picture.screen(tmp_path)), "docs/picture.svg is stale: make docs"


def test_ids_and_dates_are_the_same_in_every_picture() -> None:
    picture = importlib.import_module("picture")
    one = picture.pin("[main 0123456789] on 2026-11-18, 3 seconds ago\n0123456789 and fedcba9876")
    two = picture.pin("[main aaaaaaaaaa] on 2027-01-02, 9 seconds ago\naaaaaaaaaa and bbbbbbbbbb")
    assert one == two != picture.pin("[main aaaaaaaaaa] on 2027-01-02, 9 seconds ago\nbbbbbbbbbb and aaaaaaaaaa")


def test_every_command_is_documented_in_the_reference_and_in_the_changelog() -> None:
    reference, told = read("docs/reference/cli.md"), read("CHANGELOG.md")
    assert [verb for verb in VERBS if f"\n## memlake {verb}\n" not in reference] == []
    assert [verb for verb in VERBS if f"`{verb}`" not in told] == []


def test_every_make_target_is_in_contributing() -> None:
    told = read("CONTRIBUTING.md")
    listed = re.findall(r"^([a-z]+):.*##", read("Makefile"), re.MULTILINE)
    assert [name for name in listed if f"`make {name}`" not in told and name != "help"] == []


# -- the examples run

SAMPLE = """```console
$ mkdir data models
$ printf 'x,y\\n1,0.5\\n' > data/train.csv
$ head -c 2000000 /dev/zero > models/resnet50.pt
```
"""


def problems(page: str, folder: Path) -> list[str]:
    pages = importlib.import_module("pages")
    return [one.problem for one in pages.run(page, folder) if one.problem]


@pytest.mark.timeout(1000)  # a page runs up to seventy commands, and a busy machine takes long for each
@pytest.mark.parametrize(
    "name",
    ["docs/tutorial.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs/how-to").glob("*.md"))],
)
def test_a_page_does_and_prints_what_it_says(tmp_path: Path, name: str) -> None:
    found = problems(read(name), tmp_path)
    assert found == [], "\n\n".join([f"{name} is stale; `make docs` writes what is printed now.", *found])


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    assert "```python" in read("README.md")
    assert problems(SAMPLE + read("README.md"), tmp_path) == []


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    block = re.findall(r"^```\n(memlake .*?)^```$", read("README.md"), re.MULTILINE | re.DOTALL)
    assert len(block) == 1
    pages = importlib.import_module("pages")
    lines = [re.sub(r"\s+# .*", "", line) for line in block[0].splitlines()]
    page = SAMPLE + "```console\n" + "".join(f"$ {line}\n" for line in lines) + "```\n"
    assert [f"{one.step.command}: {one.printed}" for one in pages.run(page, tmp_path) if one.code] == []


def test_an_example_that_fails_or_prints_something_else_is_seen(tmp_path: Path) -> None:
    page = "```console\n$ echo a\nb\n$ false\n$ echo 0123456789ab 3 seconds ago\nba9876543210 7 seconds ago\n```\n"
    page += "```python\nraise SystemExit(3)\n```\n"
    found = problems(page, tmp_path)
    assert [one.splitlines()[0] for one in found[:2]] == ["$ echo a", "$ false"]
    assert len(found) == 3


def test_a_page_is_filled_with_what_was_printed_where_that_differs(tmp_path: Path) -> None:
    pages = importlib.import_module("pages")
    page = "```console\n$ echo a\nb\n$ echo 5 seconds ago\n9 seconds ago\n$ true\n```\n"
    assert pages.filled(page, pages.run(page, tmp_path)) == page.replace("\nb\n", "\na\n")


def test_the_demo_tells_its_story_and_leaves_nothing_behind(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    demo = [sys.executable, str(ROOT / "examples" / "demo.py")]
    done = subprocess.run(demo, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after the purge grep finds it in 0 files" in done.stdout
    assert [f"60 rows, loss_of() called {times} times" in done.stdout for times in (60, 0, 1)] == [True] * 3
    assert list(tmp_path.glob("memlake-demo-*")) == []
