"""fsck and doctor: whether the stored bytes, the machine and the repo are sound."""

from __future__ import annotations

import click

from memlake.cli.arguments import json_option, pass_repo
from memlake.cli.arguments import screen as screen_of
from memlake.cli.screen import Screen
from memlake.repo import Repo, open_damaged
from memlake.views.upkeep import doctor_lines, fsck_lines

_QUICK = "packs and parts were checked by their size only; to read their bytes too: memlake fsck --full"


@click.command()
@click.option("--full", is_flag=True, help="Read every byte of packs and parts too, and hold rows against every index.")
@json_option
@pass_repo
def fsck(repo: Repo, screen: Screen, /, *, full: bool, as_json: bool) -> int:
    """Check what is stored against its hashes: history and small objects; of packs and parts only their sizes.

    With --full every stored byte is checked, of large files and of datasets' rows too. Exits with 1 when something is
    damaged or missing.
    """
    report = repo.fsck(full=full)
    if as_json:
        screen.json({"ok": report.ok, "report": report})
    else:
        screen.lines(fsck_lines(screen, report))
        screen.lines([] if full else [_QUICK])
    return int(not report.ok)


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Check this machine and this repo, with a cure for each fault. Exits with 1 when there is one."""
    with open_damaged() as repo:
        screen, found = screen_of(repo.settings), repo.doctor()
    if as_json:
        screen.json({"ok": all(check.ok for check in found), "checks": found})
    else:
        screen.lines(doctor_lines(screen, found))
    return int(not all(check.ok for check in found))
