"""What gc copies into packs for a rescue: noticed when it is gone, and written again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from memlake.repo import rescue
from tests.versions.conftest import Keep


@pytest.fixture
def packs(repo: ml.Repo, keep: Keep) -> Callable[[int], list[Path]]:
    """The packs of a repo after a gc: of copies of small files (0), or of the log (1)."""
    keep("one", {"a": "hello\n"})
    keep("two", {"a": "hello again\n"})
    repo.upkeep.gc()

    def list_packs(log: int) -> list[Path]:
        names = repo._history.db.rows("SELECT name FROM pack WHERE log = ?", (log,))
        return [repo.dir / "packs" / row[0] for row in names]

    return list_packs


@pytest.mark.parametrize("log", [0, 1], ids=["copies", "log"])
def test_a_pack_that_only_a_rescue_needs_is_missed_by_fsck_and_written_again_by_gc(
    repo: ml.Repo, packs: Callable[[int], list[Path]], tmp_path: Path, log: int
) -> None:
    for pack in packs(log):
        pack.unlink()
    for full in (False, True):
        assert [(one.kind, one.path) for one in repo.upkeep.fsck(full=full).problems] == [("missing", "")]
    assert repo.read("a") == b"hello again\n"
    repo.upkeep.gc()
    assert repo.upkeep.fsck(full=True).ok
    assert rescue([repo.dir], tmp_path / "rescued").commits == 2
    with ml.open(tmp_path / "rescued") as rescued:
        assert rescued.upkeep.fsck(full=True).ok and rescued.read("a", "HEAD~1") == b"hello\n"


def test_a_log_that_is_gone_hides_no_other_damage(
    repo: ml.Repo, packs: Callable[[int], list[Path]], keep: Keep
) -> None:
    keep("big", {"big": "x" * 3_000_000 + "y"})
    repo.upkeep.gc()
    (log, *_), copies = packs(1), packs(0)
    log.unlink()
    for pack in copies:
        data = bytearray(pack.read_bytes())
        data[20] ^= 1
        pack.write_bytes(data)
    assert {one.kind for one in repo.upkeep.fsck(full=True).problems} == {"missing", "damaged"}
