"""undo, redo, ops, gc, du, backup: what was done here, what it costs, and a copy of it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import click

from memlake import config
from memlake.cli import paths, words
from memlake.cli.arguments import SplitCommand, json_option, pass_repo
from memlake.cli.arguments import screen as screen_of
from memlake.cli.screen import Screen
from memlake.repo import Repo, open_repo
from memlake.reports import GcReport

P = ParamSpec("P")
R = TypeVar("R")


def _pass_repo(verb: Callable[Concatenate[Repo, Screen, P], R]) -> Callable[P, R]:
    """As `pass_repo`, but outside any repo with the personal one, where `remember` writes there."""

    @functools.wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        home = config.personal_folder()
        outside = config.find_repo() is None and (home / ".memlake").is_dir()
        if outside:
            sys.stderr.write(f"memlake: no repo here, so this is about your personal one: {home}\n")
        with open_repo(home if outside else None) as repo:
            return verb(repo, screen_of(config.read_settings(repo.dir)), *args, **kwargs)

    return call


@click.command()
@_pass_repo
def undo(repo: Repo, screen: Screen, /) -> None:
    """Take back the last operation done here by a command, whatever it was. Again takes back the one before it.

    What others wrote since stays. Settings (`config`) are no operations, nor are purge and gc, nor what agents wrote
    by themselves (`memlake memory restore ID` brings a memory back): `memlake ops` lists what can be taken back.
    """
    done = repo.undo()
    what = f"{done.verb} {screen.clean(done.detail)}".rstrip()
    screen.line(f"Took back: {what} ({words.ago(done.time)})")


@click.command()
@_pass_repo
def redo(repo: Repo, screen: Screen, /) -> None:
    """Do again what the last `undo` took back. Again does what the `undo` before it took back."""
    done = repo.redo()
    what = done.detail.partition(" ")[2]  # an undo notes "#7 commit one": the number, then what it took back
    screen.line(f"Did again: {screen.clean(what)}".rstrip())


@click.command(cls=SplitCommand)
@click.option(
    "-n", "--max-count", "limit", type=click.IntRange(1), default=20, help="At most N operations; -5 is short for -n 5."
)
@json_option
@_pass_repo
def ops(repo: Repo, screen: Screen, /, *, limit: int, as_json: bool) -> None:
    """List the operations done in this checkout, newest first, as `undo` takes them back."""
    found = repo.operations(limit)
    if as_json:
        screen.json({"operations": found})
        return
    with screen.pages():
        for done in found:
            mark = screen.paint(" (taken back)", "dim") if done.undone else ""
            number = screen.paint(f"{done.id:>5}", "id")
            screen.line(f"{number} {words.stamp(done.time)} {done.verb} {screen.clean(done.detail)}".rstrip() + mark)


@click.command()
@click.option("-n", "--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@click.option("--prune", is_flag=True, help="At once, without the grace period.")
@json_option
@pass_repo
def gc(repo: Repo, screen: Screen, /, *, dry_run: bool, prune: bool, as_json: bool) -> None:
    """Remove what no branch, tag, reflog, stash or running writer reaches."""
    report = repo.gc(dry_run=dry_run, prune=prune)
    if as_json:
        screen.json({"report": report})
    else:
        screen.lines(gc_lines(report))


def gc_lines(report: GcReport) -> list[str]:
    """What went, by kind and with its bytes. Joined packs free the bytes of the objects they held."""
    kinds = ("object", "node", "commit", "file")
    parts = [_freed(report, kind) for kind in kinds if getattr(report, f"{kind}s")]
    parts += [f"joined {words.count(report.packs, 'pack')}"] if report.packs else []
    verb = "Would remove" if report.dry_run else "Removed"
    lines = [f"{verb} {', '.join(parts) or 'nothing'}: {words.size(report.bytes)} in all."]
    if report.condemned:
        lines.append(f"{words.count(report.condemned, 'object')} not reached; gone after the grace period.")
    if report.revived:
        lines.append(f"{words.count(report.revived, 'object')} came back into use.")
    return lines


def _freed(report: GcReport, kind: str) -> str:
    return f"{words.count(getattr(report, f'{kind}s'), kind)} ({words.size(report.freed.get(f'{kind}s', 0))})"


@click.command()
@json_option
@pass_repo
def du(repo: Repo, screen: Screen, /, *, as_json: bool) -> None:
    """Show what costs how many bytes: by room of the repo, and the largest paths of HEAD."""
    usage = repo.du()
    if as_json:
        screen.json({"usage": usage})
        return
    for room, size in sorted(usage.rooms.items(), key=lambda item: -item[1]):
        screen.line(f"{words.size(size):>10}  {room}")
    screen.line(f"{words.size(usage.total):>10}  in all, for {words.size(usage.logical)} of content")
    if usage.largest:
        screen.lines(["", "Largest at HEAD:"])
        screen.lines(f"{words.size(size):>10}  {paths.shown(path)}" for path, size in usage.largest)


@click.command()
@click.argument("file")
@pass_repo
def backup(repo: Repo, screen: Screen, /, *, file: str) -> None:
    """Copy the live repo, as it is at this moment, into FILE, which is a tar file.

    To restore it, unpack it in an empty folder and let the files be written:

    \b
      mkdir restored && tar -xf FILE -C restored
      memlake -C restored reset --hard

    To keep what was staged, too: `memlake -C restored restore .` in place of the reset. Other work that was not
    committed is in no backup.
    """
    size = repo.backup(file)
    screen.line(f"Wrote {words.size(size)} to {screen.clean(file)}")
