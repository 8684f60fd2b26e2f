"""Makes the data of the benchmarks, the same bytes for the same seed. Knows no tool; keeps nothing large in memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from random import Random
from uuid import UUID

MIB = 1 << 20
FILE_SIZE = 4096
PER_FOLDER = 100


def file_path(number: int) -> str:
    return f"data/{number // PER_FOLDER:04d}/{number:07d}.bin"


def files(folder: Path, numbers: Iterable[int], salt: int) -> None:
    """Write 4 KB of random bytes for each number; another salt gives every file other bytes."""
    for number in numbers:
        path = folder / file_path(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Random(salt * 10_000_019 + number).randbytes(FILE_SIZE))


def spread(count: int, total: int, offset: int = 0) -> list[int]:
    """`count` numbers below `total`, evenly apart, so that every folder and tree node range is met."""
    step = max(total // count, 1)
    return [min(number + offset, total - 1) for number in range(0, step * count, step)]


def binary(path: Path, mebibytes: int, seed: int = 1) -> None:
    """A file nothing can compress."""
    random = Random(seed)
    with path.open("wb") as file:
        for _ in range(mebibytes):
            file.write(random.randbytes(MIB))


def edited(source: Path, target: Path, seed: int = 2) -> None:
    """The second version: 1 KB inserted near the start, then a contiguous 1 % overwritten in the middle."""
    random = Random(seed)
    size = source.stat().st_size
    with source.open("rb") as old, target.open("wb") as new:
        new.write(old.read(100_000))
        new.write(random.randbytes(1024))
        shutil.copyfileobj(old, new, MIB)
        new.seek(size // 2)
        new.write(random.randbytes(size // 100))


def sparse(path: Path, mebibytes: int, seed: int = 3) -> None:
    """Every second MiB random, the others holes: twice the length for the time and the disk."""
    random = Random(seed)
    with path.open("wb") as file:
        for _ in range(mebibytes // 2):
            file.write(random.randbytes(MIB))
            file.seek(MIB, os.SEEK_CUR)
        file.truncate(mebibytes * MIB)


def uuid7(milliseconds: int, random: Random) -> str:
    """A UUIDv7 of this time: neighbours in time are neighbours in order."""
    bits = milliseconds << 80 | 7 << 76 | random.getrandbits(12) << 64 | 2 << 62 | random.getrandbits(62)
    return str(UUID(int=bits))


def memory(random: Random) -> bytes:
    """A memory record of about 200 bytes, each one different."""
    words = " ".join(random.choices(WORDS, k=18))
    salt = random.randbytes(16).hex()
    return f'{{"content": "{words}", "importance": {random.random():.3f}, "salt": "{salt}"}}'.encode()


# fmt: off
WORDS = (
    "agent", "answer", "branch", "budget", "cache", "call", "city", "client", "code", "colour", "commit", "context",
    "customer", "data", "date", "decided", "default", "deploy", "document", "error", "fact", "file", "first", "friday",
    "goal", "home", "important", "index", "invoice", "known", "language", "last", "limit", "meeting", "memory",
    "model", "month", "name", "note", "order", "owner", "path", "plan", "prefers", "price", "project", "prompt",
    "question", "ready", "reason", "region", "release", "remember", "report", "rule", "server", "session", "short",
    "table", "team", "test", "time", "token", "tool", "train", "user", "value", "version", "week",
)
# fmt: on
