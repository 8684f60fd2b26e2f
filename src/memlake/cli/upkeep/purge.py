"""purge: erasing content for good. Asks first; finds the ids of what a person names by path."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

import click

from memlake.cli.arguments import completing, pass_repo
from memlake.cli.screen import Screen
from memlake.errors import NotFound, Nothing, Usage
from memlake.records import short
from memlake.repo import Repo
from memlake.views import paths, words
from memlake.views.upkeep import purge_lines

_OID = re.compile(r"[0-9a-f]{64}")


@click.command()
@click.argument(
    "given",
    nargs=-1,
    required=True,
    metavar="(PATH | REV:PATH | OID | NAME@VERSION)...",
    shell_complete=completing("path"),
)
@click.option("--reason", required=True, help="Why; kept on the tombstone.")
@click.option("--all-versions", is_flag=True, help="Every version of each PATH that any commit has.")
@click.option("--with-others", is_flag=True, help="Also versions made from a dataset's version, or sharing its rows.")
@click.option("--leave-derived", is_flag=True, help="Leave versions made from it that are copies: they share no part.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be erased, and erase nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_repo
def purge(
    repo: Repo, screen: Screen, /, *, given: tuple[str, ...], reason: str, all_versions: bool, **how: bool
) -> None:
    """Erase content for good: its bytes go from every file of the repo, a tombstone stays, history still verifies.

    Of a dataset's version all rows go, and what is remembered of work over them. Where versions were made from it, or
    share its rows, say what is to happen with them. This cannot be undone. The working file is not touched.

    Names stay, because commit ids are hashes over them: messages of commits and stashes, names of paths, branches,
    tags, authors and agents. To be rid of one, start a new repo from the files: a purge does not reach it.
    """
    named = _find_oids(repo, given, all_versions=all_versions)
    others = {name: how[name] for name in ("with_others", "leave_derived")}
    oids = repo.objects.purged_with(*named, **others)
    if how["dry_run"]:
        screen.lines([f"Would erase {words.count(len(oids), 'object')}.", *(f"  {oid}" for oid in oids)])
        return
    if not how["yes"]:
        _ask(oids)
    screen.lines(purge_lines(screen, repo.purge(*named, reason=reason, **others)))


def _find_oids(repo: Repo, given: Sequence[str], *, all_versions: bool) -> list[str]:
    found: dict[str, str] = {}
    for word in given:
        if _OID.fullmatch(word):
            found[word] = word
            continue
        for oid in _versions(repo, word) if all_versions else _current(repo, word):
            found[oid] = word
    return list(found)


def _current(repo: Repo, word: str) -> Iterator[str]:
    rev, mark, path = word.rpartition(":")
    name = repo.path(paths.at_root(repo.root, path) if mark else path)
    if "@" in path and not mark and not (repo.root / path).exists():  # a dataset as its own verbs take it
        name = repo.datasets().get(path).path
    matches = [entry.oid for there, entry in repo.ls(rev or "HEAD", name) if there == name]
    if not matches:
        raise NotFound(
            f"{rev or 'HEAD'} has no '{path}'; nothing was erased.", hint="`memlake ls -l` lists paths and ids."
        )
    yield from matches


def _versions(repo: Repo, word: str) -> Iterator[str]:
    """The ids a path ever had in any commit of the repo, stashed and abandoned ones too, or has in the stage."""
    oids = repo.objects.versions_of(word)
    if not oids:
        raise NotFound(f"no commit has '{word}'; nothing was erased.")
    yield from oids


def _ask(oids: Sequence[str]) -> None:
    ids = ", ".join(short(oid) for oid in oids)
    confirm(f"Erase {words.count(len(oids), 'object')} ({ids}) for good?")


def confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise Usage("purge cannot ask here, and it cannot be undone.", hint="Say --yes if you mean it.")
    if not click.confirm(question, err=True):
        raise Nothing("nothing was erased.")
