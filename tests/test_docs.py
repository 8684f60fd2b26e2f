"""The documents: every link leads somewhere, every make target and path they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/design.md")
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


def test_readme_names_the_two_commands_everything_starts_with() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text and "make test" in text


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
