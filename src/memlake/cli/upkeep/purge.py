"""purge: erase content for good. Asks first, and finds the ids of what a person names by path."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from memlake.cli.arguments import complete_with, confirm_erase, verb
from memlake.cli.screen import Screen
from memlake.errors import NotFound
from memlake.records import short
from memlake.repo import Repo, tree_path
from memlake.views import paths, words
from memlake.views.upkeep import purge_lines

_OID = re.compile(r"[0-9a-f]{64}")


@verb()
@click.argument(
    "given",
    nargs=-1,
    required=True,
    metavar="(PATH | REV:PATH | OID | NAME@VERSION)...",
    shell_complete=complete_with("path"),
)
@click.option("--reason", required=True, help="Why. It is kept on the tombstone.")
@click.option("--all-versions", is_flag=True, help="Every version of each PATH in any commit.")
@click.option(
    "--with-others", is_flag=True, help="Also versions that were made from a dataset's version or share its rows."
)
@click.option("--leave-derived", is_flag=True, help="Leave versions made from it that are copies and share no part.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be erased, and erase nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def purge(
    repo: Repo, screen: Screen, /, *, given: tuple[str, ...], reason: str, all_versions: bool, **how: bool
) -> None:
    """Erase content for good: its bytes are removed from every file of the repo, and a tombstone stays.

    This cannot be undone. History still verifies afterwards. The working file is not touched.

    For a version of a dataset, all its rows and the cached results of work on them are erased. If other versions were
    made from it or share its rows, an option must say what happens to them.

    A purge cannot erase names, because commit ids are hashes over them: messages of commits and stashes, and the names
    of paths, branches, tags, authors and agents. To get rid of one, start a new repo from the files.
    """
    named = _find_oids(repo, given, all_versions=all_versions)
    others = {name: how[name] for name in ("with_others", "leave_derived")}
    oids = repo.objects.purged_with(*named, **others)
    if how["dry_run"]:
        screen.lines([f"Would erase {words.count(len(oids), 'object')}.", *(f"  {oid}" for oid in oids)])
        return
    if not how["yes"]:
        ids = ", ".join(short(oid) for oid in oids)
        confirm_erase(f"Erase {words.count(len(oids), 'object')} ({ids}) for good?")
    screen.lines(purge_lines(screen, repo.upkeep.purge(*named, reason=reason, **others)))


def _find_oids(repo: Repo, given: Sequence[str], *, all_versions: bool) -> list[str]:
    oids: dict[str, None] = {}
    for word in given:
        if _OID.fullmatch(word):
            oids[word] = None
        elif all_versions:  # any commit of the repo, also stashed and abandoned ones, and the stage
            versions = repo.objects.versions_of(word)
            if not versions:
                raise NotFound(f"no commit has '{word}'. Nothing was erased.")
            oids |= dict.fromkeys(versions)
        else:
            oids |= dict.fromkeys(_find_current(repo, word))
    return list(oids)


def _find_current(repo: Repo, word: str) -> list[str]:
    rev, mark, path = word.rpartition(":")
    name = tree_path(repo, paths.at_root(repo.root, path) if mark else path)
    if "@" in path and not mark and not (repo.root / path).exists():  # a dataset as its own verbs take it
        name = repo.datasets().get(path).path
    matches = [entry.oid for there, entry in repo.ls(rev or "HEAD", name) if there == name]
    if not matches:
        cure = "See what it has with: memlake ls -l"
        if re.fullmatch("[0-9a-f]{7,63}", word):
            cure = "An id is given with all of its 64 digits: memlake ls --json"
        raise NotFound(f"{rev or 'HEAD'} does not have '{path}'. Nothing was erased.", hint=cure)
    return matches
