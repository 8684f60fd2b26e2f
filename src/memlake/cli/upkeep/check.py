"""fsck and doctor: whether the stored bytes, the machine and the repo are sound."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from memlake.cli.arguments import JSON, verb
from memlake.cli.arguments import screen as screen_of
from memlake.cli.screen import Screen
from memlake.repo import Repo, open_damaged
from memlake.views.upkeep import doctor_lines, fsck_lines

_QUICK = "packs and parts were checked by their size only; to check their bytes too: memlake fsck --full"


@verb(shared=[JSON])
@click.option(
    "--full", is_flag=True, help="Also read every byte of packs and parts, and compare rows with every index."
)
def fsck(repo: Repo, screen: Screen, /, *, full: bool) -> int:
    """Check what is stored against its hashes: all of history and small objects, and the sizes of packs and parts.

    With --full, every stored byte is checked, including large files and the rows of datasets. The exit code is 1 if
    something is damaged or missing.
    """
    report = repo.upkeep.fsck(full=full)
    lines = (*fsck_lines(screen, report), *(() if full else (_QUICK,)))
    screen.show({"ok": report.ok, "report": report}, lines, pages=False)
    return int(not report.ok)


@contextmanager
def _open_damaged(_given: dict[str, Any]) -> Iterator[tuple[Repo, Screen]]:
    with open_damaged() as repo:
        yield repo, screen_of(repo.config.in_force)


@verb(opens=_open_damaged, shared=[JSON])
def doctor(repo: Repo, screen: Screen, /) -> int:
    """Check this machine and this repo, and name a cure for each fault. The exit code is 1 if there is one."""
    checks = repo.upkeep.doctor()
    ok = all(check.ok for check in checks)
    screen.show({"ok": ok, "checks": checks}, doctor_lines(screen, checks), pages=False)
    return int(not ok)
