"""grep: lines that match, in the working files or in any commit."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import click

from memlake.cli.arguments import JSON, SplitCommand, complete_with, is_whole_kind, one_rev, split, verb
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggest_revs
from memlake.errors import Usage
from memlake.repo import Repo
from memlake.reports import Match
from memlake.views import json_shapes, paths


@verb(cls=SplitCommand, shared=[JSON])
@click.argument("given", nargs=-1, metavar="PATTERN [REV] [--] [PATH]...", shell_complete=complete_with("rev", "path"))
@click.option("-e", "pattern", metavar="PATTERN", help="The pattern, where it begins with a dash.")
@click.option("-i", "--ignore-case", is_flag=True, help="Upper and lower case are the same.")
@click.option("-w", "--word-regexp", "word", is_flag=True, help="Match whole words only.")
@click.option("-F", "--fixed-strings", "fixed", is_flag=True, help="PATTERN is plain text.")
@click.option("-E", "--extended-regexp", is_flag=True, help="PATTERN is a regular expression; the default.")
@click.option("-n", "--line-number", "numbers", is_flag=True, help="Show the number of each line.")
@click.option("-l", "--files-with-matches", "show", flag_value="names", help="Show only the paths.")
@click.option("-c", "--count", "show", flag_value="counts", help="Show only how many lines match in each path.")
@click.option("-q", "--quiet", is_flag=True, help="Show nothing; the exit code tells.")
@click.option("-z", "--null", "zero", is_flag=True, help="End paths with a NUL byte, as they are.")
@click.option("--memory", "lane", flag_value="memory", help="Search memories and state.")
@click.option("--all", "lane", flag_value="all", help="Search everything: files, datasets, memories and state.")
def grep(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], pattern: str | None, **how: Any) -> int:
    """Find lines in the tracked working files, or in all that a commit has.

    \b
    memlake grep PATTERN                 tracked working files
    memlake grep PATTERN REV             files as a commit has them
    memlake grep PATTERN --memory        what is remembered
    memlake grep PATTERN REV -- prompts/ memories/

    PATTERN is a regular expression of Python; some take very long, which -F never does. The exit code is 1 if nothing
    matches.
    """
    given = given if pattern is None else (pattern, *given)
    if not given:
        raise Usage("name what to look for.", hint="For example: memlake grep TODO")
    revs, wanted = split(repo, given[1:])
    rev = one_rev(revs) if revs else None
    wanted = [word.rstrip("/") + "/" if is_whole_kind(word) else word for word in wanted]
    with suggest_revs(repo, rev or "HEAD"):
        found = repo.grep(
            given[0], rev, paths=wanted, lane=how["lane"], ignore_case=how["ignore_case"], word=how["word"],
            fixed=how["fixed"],
        )  # fmt: skip
        first = next(found, None)
    matches = itertools.chain([first] if first else [], found)
    if screen.as_json:
        screen.lines(json_shapes.stream("matches", matches))
    elif not how["quiet"]:
        with screen.pages():
            for line in _lines(screen, matches, f"{rev}:" if rev else "", paths.here(repo.root), how):
                screen.write(line)
    return int(first is None)


def _lines(screen: Screen, matches: Iterable[Match], rev: str, base: str, how: dict[str, Any]) -> Iterator[str]:
    """Whole lines with their ends; each path is named as `cat` takes it."""
    for path, lines in itertools.groupby(matches, key=lambda match: match.path):
        bare = rev + paths.bare(path, "" if rev else base)
        name = f"{bare}\0" if how["zero"] else screen.paint(f"{rev}{paths.display(path, '' if rev else base)}", "hunk")
        if how["show"] == "names":
            yield name if how["zero"] else f"{name}\n"
        elif how["show"] == "counts":
            yield f"{name}{'' if how['zero'] else ':'}{sum(1 for _ in lines)}\n"
        else:
            for match in lines:
                number = f"{match.line}:" if how["numbers"] else ""
                text = f"{'' if how['zero'] else ':'}{number}{screen.clean(match.text)}"
                yield f"{name}{text}\n" if match.line else f"Binary file {screen.clean(bare)} matches\n"
