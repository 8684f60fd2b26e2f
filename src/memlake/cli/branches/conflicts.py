"""conflicts and resolve: what a waiting merge has to decide, and deciding it, place by place."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from memlake import config
from memlake.cli.arguments import JSON, complete_with, verb
from memlake.cli.history.commit import can_edit
from memlake.cli.screen import Screen
from memlake.errors import InvalidInput, Nothing, Usage, pasted
from memlake.records import Conflict
from memlake.repo import Repo
from memlake.reports import Place
from memlake.versions.kinds import kind_at
from memlake.views import conflicts as view
from memlake.views import paths, words

_KEYS = {"o": "ours", "t": "theirs", "u": "union", "l": "latest", "e": "edit", "s": "skip", "q": "quit"}
_ASK = "[o]urs, [t]heirs, [u]nion, [l]atest, [e]dit, [s]kip, [q]uit"


@verb(shared=[JSON])
@click.argument("given", nargs=-1, metavar="[PATH]...", shell_complete=complete_with("path"))
@click.option("--forget", is_flag=True, help="Forget how conflicts of PATH... were resolved before; without PATH, all.")
def conflicts(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], forget: bool) -> None:
    """List what a waiting merge has to decide, down to the value, the row or the cell."""
    if forget:
        number = repo.pending_merge.forget(*given)
        screen.line(f"Forgot {words.count(number, 'answer')}.")
        return
    places = _list_places(repo, given)
    screen.show({"conflicts": places}, view.place_lines(places, screen, paths.here(repo.root)))
    if not places and not screen.as_json:
        screen.note("Nothing is in conflict.")
    elif not screen.as_json:
        left = [one for one in places if one.choice is None]
        _say_next(repo, screen, left or _list_open(repo, ()))


@verb()
@click.argument("given", nargs=-1, metavar="[PATH]...", shell_complete=complete_with("path"))
@click.option("--ours", is_flag=True, help="Take our side.")
@click.option("--theirs", is_flag=True, help="Take their side.")
@click.option("--union", is_flag=True, help="Take both: all lines, all items, both memories.")
@click.option("--latest", is_flag=True, help="Take the side that was committed last.")
@click.option("--mean", is_flag=True, help="Take the mean of two vectors.")
@click.option("--edit", is_flag=True, help="Open the file in your editor, and take what you save.")
@click.option("--where", default="", metavar="CONDITION", help="Only the places that fit, as in 'id = 17'.")
def resolve(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], where: str, **sides: bool) -> None:
    """Settle conflicts. Only the places that both sides changed take the side; other edits of both are kept.

    \b
    memlake resolve                        ask for each place, at a terminal
    memlake resolve PATH --ours            settle what is open in PATH
    memlake resolve PATH --theirs --where 'id = 17'
    """
    named = [f"--{name}" for name, is_named in sides.items() if is_named]
    if len(named) > 1:
        raise Usage(f"{' and '.join(named)} say different things of the same places. Nothing was changed.")
    side = named[0].removeprefix("--") if named else None
    meant = [find_path(repo, one) for one in given]
    if side not in (None, "edit"):
        say_left(repo, screen, repo.pending_merge.resolve(side, *meant, where=where))
        return
    if side is None:
        _ask(repo, screen, meant, where)
    else:
        for path in dict.fromkeys(one.path for one in repo.pending_merge.places(*meant) if meant or not one.choice):
            edit(repo, screen, path)
    say_left(repo, screen, _list_open(repo, ()))


def say_left(repo: Repo, screen: Screen, left: Sequence[Place]) -> None:
    """What is still open, or how to finish."""
    if left:
        screen.line(f"{words.count(len(left), 'place')} left:")
        screen.lines(view.place_lines(left, screen, paths.here(repo.root)))
    else:
        verb = repo.status().doing or "merge"
        screen.line(f"Every conflict is resolved. Finish with `memlake {verb} --continue`.")


def _list_places(repo: Repo, given: Sequence[str]) -> tuple[Place, ...]:
    if repo.status().doing is None:
        return ()
    return repo.pending_merge.places(*(find_path(repo, one) for one in given))


def _list_open(repo: Repo, given: Sequence[str]) -> list[Place]:
    return [one for one in repo.pending_merge.places(*given) if one.choice is None]


def _say_next(repo: Repo, screen: Screen, left: Sequence[Place]) -> None:
    doing = repo.status().doing
    if left:
        name = _as_typed(repo, left[0].path)
        screen.note(f"Settle one with: memlake resolve {name} --ours (or --theirs, --union, --latest, --edit)")
    else:
        screen.note(f"Every conflict is resolved. Finish with: memlake {doing} --continue")


# -- one place after the other


def _ask(repo: Repo, screen: Screen, meant: Sequence[str], where: str) -> None:
    """Ask for every open place. Without a terminal there is nobody to ask, so they are listed instead."""
    places = _list_open(repo, meant)
    if where:
        raise Usage(
            "--where needs a side to take.", hint=f"For example: memlake resolve --ours --where {pasted(where)}"
        )
    if not places:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        screen.lines(view.place_lines(places, screen, paths.here(repo.root)))
        name = _as_typed(repo, places[0].path)
        raise Nothing(
            f"{words.count(len(places), 'place')} without a choice, and no terminal to ask at. Nothing was changed.",
            hint=f"Name a side: memlake resolve {name} --ours",
        )
    done: set[str] = set()
    for number, place in enumerate(places, 1):
        if place.path in done:
            continue
        screen.line(f"\n({number}/{len(places)})")
        screen.lines(view.place_lines([place], screen, paths.here(repo.root)))
        answer = _ask_one(repo, screen, place)
        if answer == "quit":
            return
        if answer == "edit":
            done.add(place.path)


def _ask_one(repo: Repo, screen: Screen, place: Place) -> str:
    """Until the answer can be carried out. Returns it."""
    while True:
        try:
            typed = click.prompt(_ASK, default="s", show_default=False).strip().lower()
        except click.Abort:  # the end of input
            return "quit"
        answer = _KEYS.get(typed[:1], "") if typed in _KEYS or typed in _KEYS.values() else ""
        try:
            if answer == "edit":
                edit(repo, screen, place.path)
            elif answer in ("ours", "theirs", "union", "latest"):
                repo.pending_merge.resolve(answer, place.path, place=place.place)
            elif not answer:
                screen.note(f"{words.clean(typed)!r} is not an answer.")
                continue
        except InvalidInput as error:
            screen.note(error.message)
            continue
        return answer


def edit(repo: Repo, screen: Screen, path: str) -> None:
    """Let the person write the file, and take what was saved; unchanged, it stays open."""
    kind, name = kind_at(path), view.name_path(path, paths.here(repo.root))
    if kind.name != "file":
        raise InvalidInput(f"{name} is not a file, so it cannot be edited. Nothing was changed.", hint="Take a side.")
    if not can_edit(repo):
        raise Nothing(
            "there is no terminal to edit at. Nothing was changed.",
            hint=f"Edit the file, then: memlake add {_as_typed(repo, path)}",
        )
    file = repo.root / paths.bare(path)
    before = file.read_bytes() if file.is_file() else None
    click.edit(filename=str(file), editor=config.editor(repo.config.in_force))
    after = file.read_bytes() if file.is_file() else None
    if after == before:
        screen.note(f"{name} was not changed, so it stays open.")
    elif after is None:
        repo.rm(file)
    else:
        repo.add(file)


# -- names


def find_path(repo: Repo, given: str) -> str:
    """The path of a conflict by its label, by the beginning or the end of an id, or of a state value by its key.

    Anything else is a path, and a file in conflict comes before a key of its name.
    """
    found = repo.pending_merge.conflicts
    if any(one.path == f"files/{given}" for one in found):
        return given
    matches = [one.path for one in found if _is_called(repo, one, given)]
    return matches[0] if len(matches) == 1 else given


def _is_called(repo: Repo, met: Conflict, given: str) -> bool:
    kind = kind_at(met.path)
    label, part = kind.label(met.path), given.lower()
    if label == given or (kind.typed_in_part and len(part) >= 6 and (label.startswith(part) or label.endswith(part))):
        return True
    sides = repo.pending_merge.sides(met)
    return sides is not None and sides.key == given


def _as_typed(repo: Repo, path: str) -> str:
    """What names a conflict in a command: a path from here, the id of a memory, the key of a state value."""
    met = next((one for one in repo.pending_merge.conflicts if one.path == path), None)
    sides = repo.pending_merge.sides(met) if met else None
    if sides is not None:
        return pasted(sides.key or kind_at(path).label(path))
    return pasted(paths.bare(path, paths.here(repo.root)))
