"""rebase: the commits of a branch repeated on top of another, as they are or as a list says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from memlake import config
from memlake.cli.arguments import complete_with, verb
from memlake.cli.branches.merge_rev import check, show_moved
from memlake.cli.history.commit import can_edit, read_text
from memlake.cli.screen import Screen
from memlake.cli.suggest import exit_with, suggest_revs
from memlake.errors import Nothing, Usage
from memlake.records import Conflict, Merged, short
from memlake.repo import Repo, list_rebase
from memlake.versions.checkout.pending import Step
from memlake.views import words

_COMMENT = """
# What becomes of each commit, the oldest first. Lines may change places.
#   pick ID SUBJECT     as it is
#   reword ID MESSAGE   with MESSAGE as its first line
#   edit ID             stop with its changes staged, to change them before it is committed
#   squash ID           joined with the commit before it, with both messages
#   fixup ID            joined with the commit before it, whose message stays
#   drop ID             left out, as is a commit whose line is gone
# An empty list stops.
"""


@verb()
@click.argument("given", nargs=-1, metavar="[UPSTREAM [BRANCH]]", shell_complete=complete_with("rev"))
@click.option(
    "--onto", metavar="REV", shell_complete=complete_with("rev"), help="Put the commits on REV, not UPSTREAM."
)
@click.option("-i", "--interactive", is_flag=True, help="Edit the list of commits first.")
@click.option("--todo", "todo", metavar="FILE", help="Take the list of commits from FILE; - is standard input.")
@click.option("--dry-run", "dry_run", is_flag=True, help="Print the list of commits, and change nothing.")
@click.option("--continue", "act", flag_value="continue", help="Go on after every conflict is resolved.")
@click.option("--skip", "act", flag_value="skip", help="Leave out the commit that waits, and go on.")
@click.option("--abort", "act", flag_value="abort", help="Give it up: everything is as it was before.")
@click.option(
    "--conflict",
    type=click.Choice(["merge", "diff3"]),
    help="How to mark conflicts in files; diff3 also shows the common base. Setting: merge.conflict.",
)
def rebase(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], act: str | None, **how: Any) -> None:
    """Repeat what this branch, or BRANCH, has beyond UPSTREAM on top of UPSTREAM. Memories stay as they are.

    \b
    memlake rebase main                  this branch on top of main
    memlake rebase --onto v2 v1 dev      what dev has beyond v1, on top of v2
    memlake rebase -i HEAD~5             join, reword, reorder or drop the last five
    memlake rebase --continue            after a conflict; --skip, --abort

    Authors, times, metrics and params stay. Merge commits are left out. `memlake undo` takes all of it back.
    """
    if act:
        if given or how["onto"] or how["interactive"] or how["todo"]:
            raise Usage(f"--{act} does not take arguments.")
        _go_on(repo, screen, act)
        return
    if not 1 <= len(given) <= 2:
        raise Usage("name the branch or revision to rebase on.", hint="For example: memlake rebase main")
    upstream, branch = given[0], given[1] if len(given) > 1 else None
    with suggest_revs(repo, given[-1]):
        steps = list_rebase(repo, upstream, branch, onto=how["onto"])
    if how["dry_run"]:
        screen.lines(_list_steps(steps))
        return
    todo = read_text(how["todo"]) if how["todo"] else _edit(repo, steps) if how["interactive"] else None
    merged = repo.rebase(upstream, branch, onto=how["onto"], todo=todo, conflict=how["conflict"])
    _show(repo, screen, merged)


def _list_steps(steps: Sequence[Step]) -> list[str]:
    return [f"{step.command} {short(step.commit)} {' '.join(words.clean(step.text).split())}" for step in steps]


def _edit(repo: Repo, steps: Sequence[Step]) -> str:
    if not can_edit(repo):
        raise Nothing(
            "there is no editor to ask in. Nothing was changed.",
            hint="Write the list with --dry-run to a file, edit it, and pass it with --todo.",
        )
    text = "\n".join([*_list_steps(steps), _COMMENT])
    written = click.edit(text, editor=config.editor(repo.config.in_force), require_save=False, extension=".todo") or ""
    if not any(line.strip() and not line.startswith("#") for line in written.splitlines()):
        raise Nothing("the list is empty. Nothing was changed.")
    return written


def _go_on(repo: Repo, screen: Screen, act: str) -> None:
    if repo.status().doing != "rebase":
        with exit_with(128, Nothing):
            raise Nothing("no rebase is waiting.", hint="See where you are: memlake status")
    if act == "abort":
        repo.pending_merge.abort()
        screen.line("The rebase was given up.")
        return
    waiting: list[Conflict] = [one for one in repo.pending_merge.conflicts if one.choice is None]
    if act == "continue":
        check(repo, Merged(None, conflicts=tuple(waiting)), "rebase", "rebase", note=_SKIP)
    _show(repo, screen, repo.pending_merge.skip() if act == "skip" else repo.pending_merge.conclude())


_SKIP = "Or leave this commit out with `memlake rebase --skip`.\n"


def _show(repo: Repo, screen: Screen, merged: Merged) -> None:
    for oid in merged.dropped:
        screen.line(f"Left out: {short(oid)} {screen.clean(repo.show(oid).commit.subject)}")
    check(repo, merged, f'rebase onto "{merged.name}"', "rebase", note=_SKIP)
    found = repo.status()
    if found.doing == "rebase":
        screen.line(f"Stopped {words.clean(found.step)}. Its changes are staged and not committed yet.")
        screen.line("Change files and `memlake add` them, then: memlake rebase --continue")
        return
    where = repo.branches.current or "HEAD"
    if merged.up_to_date:
        screen.line(f"{where} is up to date.")
    elif merged.fast_forward:
        screen.line(f"Fast-forwarded {where} to {short(merged.commit)}.")
    else:
        made = words.count(len(set(merged.rewritten.values())), "commit")
        screen.line(f"Rebased {where}: {made} rewritten, HEAD is now at {short(merged.commit)}.")
    show_moved(screen, merged)
