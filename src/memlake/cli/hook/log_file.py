"""`hooks.log`: a line for whoever wonders why a hook told or kept nothing."""

from __future__ import annotations

import importlib
import os
import time
from contextlib import suppress
from pathlib import Path

from memlake import config, nofollow, projects
from memlake.errors import Error

_LOG = 256 << 10


def log(event: str, problem: str) -> None:
    """A line for whoever wonders why nothing was remembered; in the personal repo where this one takes none."""
    mask = importlib.import_module("memlake.secrets").mask  # 8 ms that only a failure should cost
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {event}: {mask(' '.join(problem.split()))}\n"
    for find in (projects.find_memory_repo, config.personal_folder):
        with suppress(Error, OSError):
            if root := find():
                _append(config.repo_folder(root) / "hooks.log", line)
                return


def _append(file: Path, line: str) -> None:
    if file.exists() and file.stat().st_size > _LOG:
        os.replace(file, file.with_suffix(".log.1"))
    fd = nofollow.open_file(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with open(fd, "a", encoding="utf-8", errors="backslashreplace") as out:
        out.write(line)
