"""A repo in the current folder, and short ways to write, keep and read files in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml

Files = dict[str, str | bytes | None]
Keep = Callable[..., ml.Commit]


@pytest.fixture(autouse=True)
def _ada(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLAKE_AUTHOR_NAME", "Ada")
    monkeypatch.setenv("MEMLAKE_AUTHOR_EMAIL", "ada@example.org")


@pytest.fixture
def repo(here: Path) -> ml.Repo:
    return ml.init()


@pytest.fixture
def write(here: Path) -> Callable[[Files], None]:
    """`write({"a/b": "text", "c": None})` makes and removes working files."""

    def written(files: Files) -> None:
        for name, content in files.items():
            file = here / name
            if content is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)

    return written


@pytest.fixture
def keep(repo: ml.Repo, write: Callable[[Files], None]) -> Keep:
    """Writes files, adds everything and commits."""

    def kept(message: str, files: Files, **saying: object) -> ml.Commit:
        write(files)
        repo.add(all=True)
        return repo.commit(message, **saying)  # type: ignore[arg-type]

    return kept


@pytest.fixture
def fork(repo: ml.Repo, keep: Keep) -> dict[str, ml.Commit]:
    """main and dev parted after `base`; dev has one commit, main has one, HEAD is on main."""
    base = keep("base", {"a": "1\n", "b": "1\n"})
    repo.switch("dev", create=True)
    dev = keep("on dev", {"b": "dev\n", "d": "dev\n"})
    repo.switch("main")
    return {"base": base, "dev": dev, "main": keep("on main", {"a": "main\n", "m": "main\n"})}
