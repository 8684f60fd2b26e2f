"""Settings of a chain: how its functions run. None of them changes what a result is, so none enters its identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple

ON_ERROR = ("raise", "skip", "column")


class Settings(NamedTuple):
    parallel: int = 1
    cache: bool = False  # keep the bytes of remote files by etag
    prefetch: int = 2  # files read ahead of a function that takes one
    batch_size: int = 4096  # rows of a batch_map
    concurrency: int = 64  # rows of an async function under way at once
    threads: int = 1  # rows of a function that waits for others under way at once
    engine: str = "local"  # or "ray", or the address of a Ray cluster
    recompute: bool = False
    on_error: Literal["raise", "skip", "column"] = "raise"
    namespace: str = ""
    progress: bool | None = None  # None: on a terminal

    def update(self, given: Mapping[str, Any]) -> Settings:
        unknown = sorted(set(given) - set(self._fields))
        if unknown:
            raise InvalidInput(f"there is no setting {unknown[0]!r}.", hint=f"There are: {', '.join(self._fields)}.")
        new = self._replace(**{key: value for key, value in given.items() if value is not None})
        if new.parallel is True or new.parallel == -1:
            new = new._replace(parallel=0)  # one worker a core
        for key in ("parallel", "prefetch", "batch_size", "concurrency", "threads"):
            least = 0 if key in ("parallel", "prefetch") else 1
            if not isinstance(getattr(new, key), int) or getattr(new, key) < least:
                raise InvalidInput(f"{key} is {getattr(new, key)!r}; it takes a whole number, {least} or more.")
        if new.on_error not in ON_ERROR:
            raise InvalidInput(f"on_error is {new.on_error!r}; it takes one of {', '.join(ON_ERROR)}.")
        if new.engine not in ("local", "ray") and not str(new.engine).startswith("ray://"):
            raise InvalidInput(f"engine is {new.engine!r}; it takes 'local', 'ray' or 'ray://host:port'.")
        return new
