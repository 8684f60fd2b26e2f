"""undo, redo, ops, gc, du, backup, rescue: what was done here, what it costs, and a copy of it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import click

from memlake import config, projects
from memlake.cli import paths, words
from memlake.cli.arguments import Number, SplitCommand, json_option, pass_repo, project_option
from memlake.cli.arguments import screen as screen_of
from memlake.cli.screen import Screen
from memlake.errors import pasted
from memlake.repo import Repo, open_repo
from memlake.repo import rescue as rescue_repo
from memlake.reports import GcReport, Unnamed

P = ParamSpec("P")
R = TypeVar("R")
_SHOWN = 100  # objects that rescue lists


def _pass_repo(verb: Callable[Concatenate[Repo, Screen, P], R]) -> Callable[P, R]:
    """As `pass_repo`, but outside any repo with the personal one, where `remember` writes there."""

    @functools.wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        home = config.personal_folder()
        found = projects.find_memory_repo()
        outside = found is None and (home / config.FOLDER).is_dir()
        if outside:
            sys.stderr.write(f"memlake: no repo here, so this is about your personal one: {home}\n")
        elif found is not None and found != config.find_repo():
            sys.stderr.write(f"memlake: this is a linked worktree, so this is about the repo of {found}\n")
        with open_repo(home if outside else found) as repo:
            return verb(repo, screen_of(repo.settings), *args, **kwargs)

    return call


@click.command()
@project_option
@_pass_repo
def undo(repo: Repo, screen: Screen, /, *, project: str | None) -> None:
    """Take back the last operation done here by a command, whatever it was. Again takes back the one before it.

    What others wrote since stays. Settings (`config`) are no operations, nor are purge and gc, nor what agents wrote
    by themselves (`memlake memory restore ID` brings a memory back): `memlake ops` lists what can be taken back.
    """
    done = repo.undo(project=project)
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
    "-n", "--max-count", "limit", type=Number(1), default=20, help="At most N operations; -5 is short for -n 5."
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
    """What went, by kind and with its bytes. Repacked packs free the bytes of the objects they held."""
    kinds = ("object", "node", "commit", "file")
    parts = [_freed(report, kind) for kind in kinds if getattr(report, f"{kind}s")]
    removed, stored, repacked = (
        ("Would remove", "Would store", "Would repack") if report.dry_run else ("Removed", "Stored", "Repacked")
    )
    lines = [f"{removed} {', '.join(parts)}: {words.size(report.bytes)} in all."] if parts else ["Nothing to remove."]
    if report.deltas:
        lines.append(f"{stored} {words.count(report.deltas, 'older version')} as differences from newer ones.")
    if report.packs:
        lines.append(f"{repacked} {words.count(report.packs, 'pack')}.")
    lines += [f"  {name}" for name in report.names if report.dry_run]
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
@click.argument("packs", nargs=-1, required=True)
@click.option("--into", default=".", metavar="FOLDER", help="Where the repo is made: here, unless said otherwise.")
@json_option
def rescue(packs: tuple[str, ...], into: str, as_json: bool) -> None:
    """Make a repo again from its packs alone, when repo.db is lost.

    PACKS are .memlake folders, folders of packs, or URLs of buckets. What was there at the last gc comes back:
    branches, tags, commits, files, memories and datasets. What is later is lost with repo.db, but for the content of
    larger files: it is listed by id, because which path it had is not known. Then let the files be written:

    \b
      memlake reset --hard
    """
    screen = Screen()
    rescued = rescue_repo(packs, into)
    if as_json:
        screen.json({"report": rescued})
        return
    commits, refs = (
        words.count(rescued.commits, "commit"),
        words.count(rescued.refs, "branch or tag", "branches and tags"),
    )
    screen.line(f"Made {commits}, {words.count(rescued.objects, 'object')} and {refs} again in {screen.clean(into)}.")
    _list_unnamed(screen, rescued.unnamed, into)
    screen.lines(f"Not there: {screen.clean(what)}" for what in rescued.lost)


def _list_unnamed(screen: Screen, unnamed: tuple[Unnamed, ...], into: str) -> None:
    if not unnamed:
        return
    screen.line(
        f"No commit names {words.count(len(unnamed), 'object')} in the packs, "
        "stored after the last gc or by a write that was taken back:"
    )
    screen.lines(
        f"  {one.oid}  {words.size(one.size):>10}  {one.media or 'cannot be read'}" for one in unnamed[:_SHOWN]
    )
    if len(unnamed) > _SHOWN:
        screen.line(f"  and {len(unnamed) - _SHOWN} more, which --json lists")
    screen.line(f"Get one out, before gc removes it, with: memlake -C {pasted(into)} cat {unnamed[0].oid} > FILE")


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
    committed is in no backup. Settings that name a program, an address or a place are left out of it, and said.
    """
    size = repo.backup(file)
    screen.line(f"Wrote {words.size(size)} to {screen.clean(file)}")
