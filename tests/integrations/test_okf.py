"""Folders of the Open Knowledge Format, as version 0.2 has them."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml
from memlake.integrations.read_memories import read_memories
from memlake.memories.search import iso
from memlake.memories.transfer import Report, load_items

from .test_given import zipped

METRIC = """---
type: Metric
title: Gross margin
description: Revenue less cost, for a period.
tags: [finance, margin]
generated: { by: agent/3, at: 2026-06-30T14:00:00Z }
verified:
  - { by: human:ada, at: 2026-07-01T09:00:00Z }
stale_after: 2026-12-31T00:00:00Z
sources:
  - id: standard
    resource: policies/margin.md
---

# Definition

Revenue minus cost. [^standard]
"""
POLICY = (
    "---\ntype: Policy\nstatus: deprecated\ngenerated: { by: human:ada, at: 2024-01-15T10:00:00Z }\n---\nOld rules.\n"
)
FILES = {
    "index.md": "---\nokf_version: '0.2'\n---\n# Groups\n* [metrics](metrics/)\n", "log.md": "# Log\n## 2026-05-22\n",
    "metrics/index.md": "# Metrics\n", "metrics/margin.md": METRIC, "policies/margin.md": POLICY,
}  # fmt: skip


def bundle(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("shape", ["folder", "zip", "without a version"])
def test_a_concept_is_one_memory_with_its_author_and_its_sources(tmp_path: Path, shape: str) -> None:
    files = {name: text for name, text in FILES.items() if name != "index.md" or shape != "without a version"}
    reading = read_memories(
        zipped(tmp_path / "acme.zip", dict(files)) if shape == "zip" else bundle(tmp_path / "acme", files)
    )
    metric, policy = (item.memory for item in reading)
    assert reading.format == "okf"
    assert (
        metric.content
        == "Gross margin: Revenue less cost, for a period.\n\n# Definition\n\nRevenue minus cost. [^standard]"
    )
    assert (metric.category, metric.tags, metric.agent_id) == ("Metric", ("finance", "margin"), "agent/3")
    assert metric.metadata["sources"] == [{"id": "standard", "resource": "policies/margin.md"}]
    assert metric.metadata["verified"] == [{"by": "human:ada", "at": "2026-07-01T09:00:00Z"}]
    assert iso(metric.updated_at) == "2026-06-30T14:00:00Z" and metric.expires_at == 0
    assert (policy.content, policy.agent_id, policy.importance) == ("margin\n\nOld rules.", "", 0.2)


def test_a_concept_that_was_edited_is_the_next_value_of_the_same_memory(repo: ml.Repo, tmp_path: Path) -> None:
    folder = bundle(tmp_path / "acme", FILES)
    assert load_items(repo.memories(), read_memories(folder)) == Report(stored=2)
    (folder / "metrics/margin.md").write_text(
        METRIC.replace("minus cost", "minus full cost").replace("2026-06", "2026-08")
    )
    assert load_items(repo.memories(), read_memories(folder)) == Report(known=1, updated=1)


def test_a_file_without_a_type_is_named(tmp_path: Path) -> None:
    folder = bundle(tmp_path, {**FILES, "metrics/x.md": "no frontmatter"})
    reading = read_memories(folder)
    assert len(list(reading)) == 2
    (problem,) = reading.problems
    assert problem.endswith('metrics/x.md: its frontmatter has no "type", which every concept of the format has.')


@pytest.mark.parametrize(
    "front",
    ["a: " + "[" * 5000, "- " * 6000, "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", "? " * 6000, "a: {b", "x" * 20_000],
)
def test_frontmatter_that_was_made_to_harm_is_read_line_by_line(tmp_path: Path, front: str) -> None:
    folder = bundle(tmp_path, {**FILES, "bad.md": f"---\n{front}\ntype: Metric\n---\nStill read"})
    assert any("Still read" in item.memory.content for item in read_memories(folder))
