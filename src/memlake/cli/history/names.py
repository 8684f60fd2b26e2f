"""rev-parse and describe: a commit by its id, and by the tag before it. For scripts."""

from __future__ import annotations

from typing import Any

import click

from memlake.cli.arguments import JSON, Number, complete_with, verb
from memlake.cli.files.browse import file_at
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggest_revs
from memlake.errors import InvalidInput, NeedsCheckout, NotFound, Usage
from memlake.repo import Repo
from memlake.views.words import clean


@verb("rev-parse")
@click.argument("revs", nargs=-1, metavar="[REV | A..B | REV:PATH]...", shell_complete=complete_with("rev"))
@click.option("--short", is_flag=True, help="Cut ids to ten digits.")
@click.option("--verify", is_flag=True, help="Take exactly one REV.")
@click.option("-q", "--quiet", is_flag=True, help="With --verify, print no error; the exit code is 1.")
@click.option("--abbrev-ref", is_flag=True, help="Print the branch that HEAD or a name stands for.")
@click.option("--memory", "lane", flag_value="memory", default="work", help="The commit of the memory lane.")
@click.option("--show-toplevel", is_flag=True, help="Print the working folder.")
@click.option("--repo-dir", is_flag=True, help="Print the folder that holds the repo.")
def rev_parse(repo: Repo, screen: Screen, /, *, revs: tuple[str, ...], **how: Any) -> int:
    """Print the full id of the commit that each REV names. A range prints its end, and its start after ^."""
    if how["show_toplevel"]:
        if repo.root == repo.dir:
            raise NeedsCheckout("this repo is bare, so it has no working folder.")
        screen.line(str(repo.root))
    if how["repo_dir"]:
        screen.line(str(repo.dir))
    if how["verify"] and len(revs) != 1:
        raise Usage("--verify takes exactly one revision.")
    try:
        for rev in revs:
            with suggest_revs(repo, rev):
                screen.lines(_parse(repo, rev, how))
    except (NotFound, InvalidInput):
        if how["quiet"] and how["verify"]:
            return 1
        raise
    return 0


def _parse(repo: Repo, rev: str, how: dict[str, Any]) -> list[str]:
    length, lane = 10 if how["short"] else None, how["lane"]
    if how["abbrev_ref"]:
        name = repo.branches.current or "HEAD" if rev in ("HEAD", "@") else rev
        if name != "HEAD":
            repo.show(name, lane)
        return [clean(name)]
    if ":" in rev and "@{" not in rev:
        path, at = file_at(repo, rev)
        return [repo.objects.at(path, at).oid[:length]]
    if ".." in rev:
        first, _, last = rev.replace("...", "..").partition("..")
        ends = [repo.show(end or "HEAD", lane).commit.oid[:length] for end in (last, first)]
        return [ends[0], f"^{ends[1]}"]
    mark = "^" if rev.startswith("^") else ""
    return [mark + repo.show(rev.removeprefix("^"), lane).commit.oid[:length]]


@verb(shared=[JSON])
@click.argument("rev", default="HEAD", shell_complete=complete_with("rev"))
@click.option("--long", "always_long", is_flag=True, help="Show the count and the id even at the tag itself.")
@click.option("--always", is_flag=True, help="Show the id where there is no tag.")
@click.option("--dirty", is_flag=True, help="Add -dirty if a tracked file has changes that are not committed.")
@click.option("--match", multiple=True, metavar="PATTERN", help="Only tags like this, such as 'v*'.")
@click.option("--abbrev", type=Number(0, 64), default=10, metavar="N", help="Cut the id to N digits; 0: only the tag.")
@click.option("--exact-match", "exact", is_flag=True, help="Only a tag at the commit itself.")
@click.option("--tags", is_flag=True, help="Does nothing, because every tag counts.")
def describe(repo: Repo, screen: Screen, /, *, rev: str, abbrev: int, match: tuple[str, ...], **how: bool) -> None:
    """Name a commit by the nearest tag: TAG-COUNT-ID, where COUNT commits came since, or TAG at the tag itself."""
    if how["dirty"] and rev != "HEAD":
        raise Usage("--dirty is about the working files, so it takes no other commit than HEAD.")
    try:
        with suggest_revs(repo, rev):
            found = repo.tags.describe(rev, match=match)
        if how["exact"] and found.ahead:
            raise NotFound(
                f"no tag is at commit {found.commit[:10]} itself.", hint="Name the nearest: memlake describe"
            )
        tag, ahead, oid = found
    except NotFound:
        if not how["always"]:
            raise
        tag, ahead, oid = "", 0, repo.show(rev).commit.oid
    state = repo.status() if how["dirty"] else None
    dirty = state is not None and bool(state.staged or state.unstaged or state.conflicts)
    if not tag:
        name = oid[: abbrev or 10]
    elif abbrev and (ahead or how["always_long"]):
        name = f"{tag}-{ahead}-{oid[: max(abbrev, 4)]}"
    else:
        name = tag
    body = {
        "name": f"{name}{'-dirty' if dirty else ''}",
        "tag": tag or None,
        "ahead": ahead,
        "commit": oid,
        "dirty": dirty,
    }
    screen.show(body, [str(body["name"])], pages=False)
