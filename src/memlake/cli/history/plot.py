"""Which files a plot may be written over: pictures that no repo tracks and that are not compared."""

from __future__ import annotations

import os
from collections.abc import Iterable

from memlake.errors import InvalidInput, NotFound
from memlake.repo import Repo, tree_path
from memlake.views.paths import display

_PICTURES = (".svg", ".png")


def check_plot_target(repo: Repo, file: str, *, compared: Iterable[str] = ()) -> None:
    """Refuse a file that is there and is tracked, one of the `compared` tree paths, or not a picture."""
    if not os.path.lexists(file):
        return
    folder, name = os.path.split(os.path.abspath(file))
    # A link is replaced by one command and written through by the other, so both ends of it count.
    places = {os.path.join(os.path.realpath(folder), name), os.path.realpath(file)}
    known = set(compared)
    for place in sorted(places):
        try:
            path = tree_path(repo, place)
        except InvalidInput:  # outside of the repo
            continue
        if _is_tracked(repo, place):
            raise _refuse(file, "is tracked in this repo")
        if path in known:
            raise _refuse(file, "is compared here")
    if os.path.isfile(file) and not all(place.lower().endswith(_PICTURES) for place in places):
        raise _refuse(file, "exists and is not a picture")


def _is_tracked(repo: Repo, place: str) -> bool:
    try:
        repo.objects.at(place, ":")
    except NotFound:
        return False
    return True


def _refuse(file: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{display(file)} {why}, and the plot would replace it. Nothing was written.", hint="Name another file."
    )
