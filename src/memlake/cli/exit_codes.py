"""Exit codes where git has another than the error alone would give. Knows no verb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memlake.errors import Error


@contextmanager
def exiting(code: int, *kinds: type[Error]) -> Iterator[None]:
    """Errors of these kinds, raised inside, end the command with `code`."""
    try:
        yield
    except kinds as error:
        error.exit_code = code
        raise
