"""Random runs of scripts, edits by hand, ignored files and commits: lineage is exactly what a plain tracer says."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

import memlake as ml
from memlake import versions

Content = tuple[str, str]  # path and oid
FILES = [f"f{n}" for n in range(5)] + ["ignored0", "ignored1"]


class Story:
    """A repo, and beside it what was made of what."""

    def __init__(self, repo: ml.Repo, seed: int) -> None:
        self.repo, self.draw, self.number = repo, random.Random(seed), 0
        self.held: dict[str, str] = {}
        self.made_of: dict[Content, set[Content]] = {}
        (repo.root / ".memlakeignore").write_text("ignored*\n")
        self.write("script.py")

    def write(self, path: str) -> Content:
        self.number += 1
        data = f"content {self.number}".encode()
        (self.repo.root / path).write_bytes(data)
        self.held[path] = hashlib.sha256(data).hexdigest()
        return path, self.held[path]

    def edit(self) -> None:
        self.write(self.draw.choice(FILES))

    def run(self) -> None:
        """Some files are read and others are written, as `memlake run` notes it."""
        names = self.draw.sample(FILES, 4)
        read = [(path, self.held[path]) for path in names[:2] if path in self.held]
        wrote = [self.write(path) for path in names[2 : self.draw.randint(3, 4)]]
        script = ("script.py", self.held["script.py"])
        for one in wrote:
            self.made_of[one] = {script, *read}
        uses = [{"path": f"files/{path}", "commit": None, "oid": oid} for path, oid in [script, *read]]
        versions.run_notes.note_run(self.repo._local, {
            "program": uses[0], "reads": uses[1:], "arguments": [], "params": {}, "metrics": {}, "packages": {},
            "more": 0, "saved": [], "wrote": {f"files/{path}": (1, 1, oid) for path, oid in wrote},
        })  # fmt: skip

    def commit(self) -> None:
        self.repo.add(all=True)
        self.repo.commit("x", allow_empty=True)

    def trace(self, content: Content) -> set[tuple[Content, Content]]:
        """Edges that lead to a content, by plain recursion."""
        edges = {(source, content) for source in self.made_of.get(content, ())}
        return edges.union(*(self.trace(source) for source, _ in edges))


@pytest.mark.parametrize("seed", range(12))
def test_every_file_leads_back_to_exactly_what_it_was_made_of(tmp_path: Path, seed: int) -> None:
    with ml.init(tmp_path) as repo:
        story = Story(repo, seed)
        story.commit()
        for _ in range(25):
            story.draw.choice([story.edit, story.run, story.run, story.commit])()
        story.commit()
        for path in [path for path in story.held if not path.startswith("ignored")]:
            found = repo.lineage(path, down=False)
            expected = {(short(a), short(b)) for a, b in story.trace((path, story.held[path]))}
            edges = {(edge.source, edge.target) for edge in found.edges}
            assert {(a.removeprefix("file:files/"), b.removeprefix("file:files/")) for a, b in edges} == expected


def short(content: Content) -> str:
    return f"{content[0]}@{content[1][:10]}"
