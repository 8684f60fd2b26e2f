"""What a format is: its name, what it is called, how it is recognised and read. And what a reader yields."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlake import projects
from memlake.integrations.given import Given
from memlake.named_tuple import NamedTuple

_SPACE = uuid.UUID("6f0c1d0a-7a4e-5b5e-9a63-6d656d6c616b")


class Raw(NamedTuple):
    """The fields of one memory, where they stood, or the problem there."""

    where: str
    fields: Mapping[str, Any] = {}
    problem: str = ""


class Format(NamedTuple):
    """How memories of one program are recognised and read. `kinds`: of what it can be read (`Given.kind`)."""

    name: str
    title: str
    kinds: tuple[str, ...]
    fits: Callable[[Given], bool]
    read: Callable[[Given], Iterator[Raw]]


def make_id(*parts: object) -> str:
    """The id of a memory that has none of its own: the same for the same parts, whenever and wherever it is read."""
    return str(uuid.uuid5(_SPACE, "\0".join(map(str, parts)).encode("utf-8", "replace").decode()))


def place(form: str, name: str, *, alone: bool) -> dict[str, str]:
    """The project of a memory as another program calls it. Where all that is read is of one, it is the one we are in;
    else that of the same name is, and the others stay apart under a name that says where they come from.
    """
    root = projects.find_place().root.rpartition("/")[2]
    return {} if alone or not name or name == root else {"project": f"{form}/{name}"}
