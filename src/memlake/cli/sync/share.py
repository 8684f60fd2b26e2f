"""clone, fetch, pull, push: commits, files and memories between this repo and others."""

from __future__ import annotations

from typing import Any

import click

from memlake.cli.arguments import JSON, QUIET, complete_with, open_screen_only, verb
from memlake.cli.branches.merge_rev import show_merged
from memlake.cli.screen import Screen, show_progress
from memlake.errors import Error, Unavailable, Usage
from memlake.objects.object_store import check_endpoint
from memlake.repo import Repo, make_clone
from memlake.repo.remotes import RemoteSettings, check_depth, check_name, check_url, parse_filter
from memlake.versions.sync.fetch import Fetched
from memlake.views import words
from memlake.views.sync import dropped_lines, fetched_lines, pushed_lines

_DRY = click.option("-n", "--dry-run", is_flag=True, help="Say what would go over the wire, and change nothing.")


@verb(opens=open_screen_only, shared=[JSON, QUIET])
@click.argument("url")
@click.argument("folder", required=False)
@click.option("-b", "--branch", help="Stand on this branch; on the remote's own unless given.")
@click.option("-o", "--origin", default="origin", show_default=True, help="What the remote is called.")
@click.option("--bare", is_flag=True, help="History without a working folder.")
@click.option("--filter", "only", metavar="'size<1MB'", help="Leave larger content there until it is read.")
@click.option("--depth", type=int, metavar="N", help="Leave content there that only commits before the last N hold.")
@click.option("--no-memories", is_flag=True, help="Leave memories, state and conversations there.")
@click.option("--results", is_flag=True, help="Trust and share what functions answered elsewhere.")
@click.option("--endpoint", default="", metavar="URL", help="Where a bucket is, if not at its cloud.")
@click.option("--region", default="", help="The region of a bucket.")
def clone(screen: Screen, /, *, url: str, folder: str | None, quiet: bool, **how: Any) -> None:
    """Make a repo with the history of another: a folder, a bucket or a bundle."""
    settings = RemoteSettings(
        check_name(how["origin"]),
        check_url(url),
        check_endpoint(how["endpoint"]),
        how["region"],
        parse_filter(how["only"]),
        not how["no_memories"],
        check_depth(how["depth"]),
        how["results"],
    )
    with show_progress("cloning", screen) as progress:
        repo, fetched = make_clone(settings, folder, branch=how["branch"], bare=how["bare"], progress=progress)
    with repo:
        lines = [*fetched_lines(screen, fetched), f"Cloned into {words.quote(str(repo.root))}"]
        if not repo.head:
            lines.append(
                f"Branch {screen.clean(repo.branches.current or '')} has no commits there, so there are no files."
            )
        lines = [] if quiet else lines
        screen.show({"fetched": fetched, "root": str(repo.root), "branch": repo.branches.current}, lines, pages=False)


@verb(shared=[JSON, QUIET])
@click.argument("remote", required=False)
@click.option("--all", "every", is_flag=True, help="Ask all remotes.")
@_DRY
def fetch(repo: Repo, screen: Screen, /, *, remote: str | None, every: bool, dry_run: bool, quiet: bool) -> None:
    """Bring what a remote has; your branches and files stay as they are."""
    if every and remote:
        raise Usage("--all asks every remote, so name none.")
    names = [one.name for one in repo.remotes] if every else [remote]
    found, failed = list[Fetched](), dict[str, Error]()
    for name in names:
        try:
            with show_progress("fetching", screen) as progress:
                found.append(repo.fetch(name, progress=progress, dry_run=dry_run))
        except Error as error:
            if name is None or len(names) == 1:
                raise
            failed[name] = error  # the others are asked all the same
    lines = () if quiet else [line for one in found for line in fetched_lines(screen, one, dry_run=dry_run)]
    screen.show({"fetched": found}, lines, pages=False)
    if failed:
        told = "\n".join(f"  {name}: {error.message}" for name, error in failed.items())
        raise Unavailable(
            f"{words.count(len(failed), 'remote')} of {len(names)} could not be fetched:\n{told}",
            hint=next(iter(failed.values())).hint,
        )


@verb(shared=[JSON, QUIET])
@click.argument("remote", required=False)
@click.argument("branch", required=False, shell_complete=complete_with("branch"))
@click.option("--ff-only", "only_ff", is_flag=True, help="Refuse to make a merge commit of files.")
@click.option("--no-ff", "no_ff", is_flag=True, help="Make a merge commit in any case.")
def pull(
    repo: Repo, screen: Screen, /, *, remote: str | None, branch: str | None, only_ff: bool, no_ff: bool, quiet: bool
) -> None:
    """Fetch, and join what came to this branch. Memories of both sides are merged by themselves."""
    before = repo.head
    with show_progress("fetching", screen) as progress:
        pulled = repo.pull(remote, branch, ff=not no_ff, only_ff=only_ff, progress=progress)
    if screen.as_json:
        screen.json({"fetched": pulled.fetched, "merged": pulled.merged})
    elif not quiet and not (pulled.merged and pulled.fetched.up_to_date):
        screen.lines(fetched_lines(screen, pulled.fetched))
    if pulled.merged is not None:
        show_merged(repo, screen, pulled.merged, before, quiet=quiet or screen.as_json)


@verb(shared=[JSON, QUIET])
@click.argument("remote", required=False)
@click.argument("refs", nargs=-1, shell_complete=complete_with("branch"))
@click.option("--tags", is_flag=True, help="Send all tags, too.")
@click.option("-d", "--delete", is_flag=True, help="Delete these refs there.")
@click.option("-f", "--force", is_flag=True, help="Replace commits of files that yours does not include.")
@click.option(
    "--force-with-lease",
    "lease",
    is_flag=True,
    help="As --force, but only if nobody has pushed since your last fetch.",
)
@click.option("--no-memories", is_flag=True, help="Send files alone.")
@_DRY
def push(
    repo: Repo, screen: Screen, /, *, remote: str | None, refs: tuple[str, ...], lease: bool, no_memories: bool,
    dry_run: bool, quiet: bool, **how: bool,
) -> None:  # fmt: skip
    """Send this branch, or the branches and tags named, to a remote with all they need."""
    if how["delete"] and not refs:
        raise Usage("name the remote and the branches or tags to delete there.")
    with show_progress("pushing", screen) as progress:
        pushed = repo.push(
            remote, *refs, force_with_lease=lease, memories=not no_memories, dry_run=dry_run, progress=progress, **how
        )
    lines = () if quiet else pushed_lines(screen, pushed, dry_run=dry_run)
    screen.show({"pushed": pushed, "dry_run": dry_run}, lines, pages=False)


@verb(shared=[JSON, QUIET])
@click.argument("paths", nargs=-1, required=True, shell_complete=complete_with("path"))
@click.option("-n", "--dry-run", is_flag=True, help="Say what would leave, and change nothing.")
def drop(repo: Repo, screen: Screen, /, *, paths: tuple[str, ...], dry_run: bool, quiet: bool) -> None:
    """Let the content of files be at a remote only, in all versions; restore brings it again."""
    dropped = repo.remotes.drop(*paths, dry_run=dry_run)
    screen.show({"dropped": dropped}, () if quiet else dropped_lines(dropped, dry_run=dry_run), pages=False)
