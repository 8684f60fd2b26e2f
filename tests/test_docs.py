"""The documents: links and names lead somewhere, the reference is fresh, examples run and print what they say."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from memlake.cli.main import VERBS

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = (
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/design.md", "docs/tutorial.md",
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


@pytest.mark.parametrize("name", ["run.txt", "test.txt"])
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


# -- the reference is what the commands say


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_command_line_reference_is_fresh(generator: ModuleType) -> None:
    assert generator.CLI.read_text(encoding="utf-8") == generator.page(), "docs/reference/cli.md is stale: make docs"


def test_every_command_is_documented_in_the_reference_and_in_the_changelog() -> None:
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f"\n## memlake {verb}\n" not in reference] == []
    told = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f"`{verb}`" not in told] == []


def test_every_make_target_is_in_contributing() -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in listed if f"`make {name}`" not in told and name != "help"] == []


# -- the examples run


BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAME = (
    (re.compile(r"\b[0-9a-f]{10,64}\b"), "<id>"),
    (re.compile(r"\b\w{3} \w{3} \d+ \d\d:\d\d:\d\d \d{4} [+-]\d{4}|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"\d+ (seconds?|minutes?) ago"), "<ago>"),
    (re.compile(r"\d+(\.\d)? [KM]?i?B\b"), "<size>"),
    (re.compile(r"/\S+/pets\b"), "<folder>/pets"),
    (re.compile(r" +"), " "),
)


@dataclass(frozen=True)
class Step:
    """One command of a page, or one block of Python, and what the page says it prints."""

    command: str
    says: str | None


def steps(text: str) -> Iterator[Step]:
    for found in BLOCK.finditer(text):
        if found[1] == "python":
            yield Step(f"{shlex.quote(sys.executable)} -c {shlex.quote(found[2])}", None)
            continue
        for one in re.split(r"^\$ ", found[2], flags=re.MULTILINE)[1:]:
            command, _, says = one.partition("\n")
            yield Step(command, says.rstrip("\n"))


def run_page(text: str, folder: Path) -> list[tuple[Step, str, int]]:
    """Every step of a page, in one shell: (step, what it printed, its exit code)."""
    mark = "@@step@@"
    todo = list(steps(text))
    script = "".join(f"{{ {step.command}\n}} 2>&1; printf '\\n{mark}%d\\n' $?\n" for step in todo)
    home = folder / "home"
    home.mkdir()
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(home), "TZ": "UTC",
        "MEMLAKE_AUTHOR_NAME": "Ada", "MEMLAKE_AUTHOR_EMAIL": "ada@example.org", "LANG": "C.UTF-8",
    }  # fmt: skip
    work = folder / "work"
    work.mkdir()
    done = subprocess.run(
        ["bash", "-c", script], cwd=work, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=240
    )
    pieces = re.split(rf"\n{mark}(\d+)\n", done.stdout)
    assert len(pieces) == 2 * len(todo) + 1, done.stdout[-2000:] + done.stderr
    return [(step, pieces[2 * n].rstrip("\n"), int(pieces[2 * n + 1])) for n, step in enumerate(todo)]


def alike(text: str) -> str:
    for pattern, word in SAME:
        text = pattern.sub(word, text)
    return "\n".join(line.strip() for line in text.splitlines())


def wrong_steps(ran: list[tuple[Step, str, int]]) -> list[str]:
    wrong = []
    for step, printed, code in ran:
        may_fail = bool(step.says and re.match(r"error:|fatal:|warning:", step.says)) or step.command.startswith("grep")
        if code and not may_fail:
            wrong.append(f"$ {step.command}\nended with {code}:\n{printed}")
        elif step.says is not None and alike(step.says) != alike(printed):
            wrong.append(f"$ {step.command}\nprinted:\n{printed}\nbut the page says:\n{step.says}")
    return wrong


def test_the_tutorial_does_and_prints_what_it_says(tmp_path: Path) -> None:
    wrong = wrong_steps(run_page((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"), tmp_path))
    assert wrong == [], "\n\n".join(wrong)


def with_sample_data(text: str) -> str:
    make = "mkdir data models && printf 'x,y\\n1,0.5\\n' > data/train.csv && head -c 2000000 /dev/zero > models/resnet50.pt"
    return f"```console\n$ {make}\n```\n{text}"


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    text = with_sample_data((ROOT / "README.md").read_text(encoding="utf-8"))
    ran = run_page(text, tmp_path)
    assert len(ran) > 1
    assert wrong_steps([(step, printed, code) for step, printed, code in ran if step.says is None]) == []


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    blocks = re.findall(r"^```\n(memlake .*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 1
    lines = [re.sub(r"\s+# .*", "", line) for line in blocks[0].splitlines()]
    page = with_sample_data("```console\n" + "".join(f"$ {line}\n" for line in lines) + "```\n")
    assert [f"{step.command}: {printed}" for step, printed, code in run_page(page, tmp_path) if code] == []


def test_an_example_that_fails_or_prints_something_else_is_seen(tmp_path: Path) -> None:
    page = "```console\n$ echo a\nb\n$ false\n$ echo 0123456789ab 3 seconds ago\nba9876543210 7 seconds ago\n```\n"
    page += "```python\nraise SystemExit(3)\n```\n"
    wrong = wrong_steps(run_page(page, tmp_path))
    assert [one.splitlines()[0] for one in wrong[:2]] == ["$ echo a", "$ false"] and len(wrong) == 3


def test_the_demo_tells_its_story(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")], env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after the purge grep finds it in 0 files" in done.stdout
    assert list(tmp_path.glob("memlake-demo-*")) == []
