"""A database of the index: damage to it is said apart from damage to the history, because it can be made again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import apsw

from memlake.errors import Corrupt, Damaged
from memlake.objects.db import Database


class Derived(Database):
    @contextlib.contextmanager
    def named_errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            named = self._translate_error(error)
            raise (Damaged(named.message) if isinstance(named, Corrupt) else named) from error
        except UnicodeDecodeError as error:
            raise Damaged(f"{self.path.name} is damaged: {error}.") from error


@contextlib.contextmanager
def sound(what: str) -> Iterator[None]:
    """Arrays that do not fit together were not written so: they are damaged."""
    try:
        yield
    except (IndexError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise Damaged(f"{what} does not fit together: {error}.") from error
