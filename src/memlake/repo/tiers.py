"""Tiers: by which rule packs and parts of a repo move to a colder place, what lies where, and moving them."""

from __future__ import annotations

import functools
import json
import os
import re
import time
from pathlib import Path
from typing import Any, cast

from memlake import config, nofollow
from memlake.calls import check_methods
from memlake.errors import Conflict, Denied, InvalidInput, NotFound, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects import disk, layout
from memlake.objects.db import Database
from memlake.objects.leases import Lease
from memlake.objects.object_store import check_endpoint
from memlake.objects.owner_mark import OwnedPlace
from memlake.objects.places import Folder, Place, Refused
from memlake.objects.tiered import DAY, LastReads, TieredPlace
from memlake.repo.open import AnyPath
from memlake.repo.part import Part
from memlake.repo.remotes import RemoteSettings, check_url, open_remote_place, type_server

FILE, READS = "tier.json", "reads.json"
_WHEN = re.compile(r"\s*unread\s*>\s*(\d{1,5})\s*d(?:ays?)?\s*")
_LARGEST = 1 << 16


class Tier(NamedTuple):
    """The colder place, and after how many days unread a file goes there."""

    url: str
    days: int
    endpoint: str = ""
    region: str = ""

    @property
    def address(self) -> str:
        """What must have been given by this user to count."""
        return json.dumps(["tier", self.url, self.endpoint, self.region])


class TierStatus(NamedTuple):
    """What lies where: numbers of packs and parts, and bytes; `due` would move now."""

    tier: Tier | None
    here: int
    here_bytes: int
    there: int = 0
    there_bytes: int = 0
    due: int = 0
    due_bytes: int = 0


class Moved(NamedTuple):
    """What moved to the colder place, or would."""

    files: int
    bytes: int
    dry_run: bool


@check_methods
class Tiers(Part):
    """What `repo.upkeep.tiers` gives: `set`, `status`, `move` and `unset`."""

    def set(self, url: AnyPath, when: str = "unread > 90d", *, endpoint: str = "", region: str = "") -> Tier:
        """Let packs and parts that were not read for so long move to a place of their own at the next gc."""
        tier = Tier(check_url(os.fspath(url)), parse_when(when), check_endpoint(endpoint), region)
        before = read_tier(self._repo.dir)
        if before is not None and before.address != tier.address and self.status().there:
            raise Conflict(
                f"files of this repo lie in {before.url}. Nothing was changed.",
                hint="Bring them back first: memlake tier unset",
            )
        config.note_address(self._repo.dir, self._repo._id, tier.address)
        cold = _open_cold(self._repo.dir, tier, self._repo._history.db)
        cold.claim(take=before is not None and before.url == tier.url)  # who says it again means it
        path = self._repo.dir / FILE
        new = path.with_name(f"{FILE}.{os.urandom(4).hex()}")
        disk.write_file(new, json.dumps(tier._asdict(), indent=1).encode())
        disk.rename(new, path)
        with self._opened() as places:
            _count_from_today(places)
        return tier

    def unset(self) -> int:
        """Bring everything back and forget the colder place; returns how many files came."""
        count = 0
        if read_tier(self._repo.dir) is not None:
            with self._opened() as places:
                for place in places.list():
                    for name in place.list_there():
                        place.local_path(name)
                        count += 1
            (self._repo.dir / FILE).unlink(missing_ok=True)
        return count

    def status(self) -> TierStatus:
        tier = read_tier(self._repo.dir)
        if tier is None:
            folders = [Folder(self._repo.dir / name) for name in ("packs", "parts")]
            sizes = [size for folder in folders for _, size, _ in folder.list()]
            return TierStatus(None, len(sizes), sum(sizes))
        with self._opened() as places:
            here = [size for place in places.list() for size in place.list_here().values()]
            there = [size for place in places.list() for size in place.list_there().values()]
            due = [size for _, _, size in _list_due(places, tier)]
        return TierStatus(tier, len(here), sum(here), len(there), sum(there), len(due), sum(due))

    def move(self, *, dry_run: bool = False) -> Moved:
        """Move what the rule names to the colder place. It is read as before, and comes back when it is."""
        tier = read_tier(self._repo.dir)
        if tier is None:
            raise NotFound(
                "this repo has no colder tier. Nothing was moved.", hint="Name one: memlake tier set cold s3://ARCHIVE"
            )
        with self._opened() as places:
            due = _list_due(places, tier)
            lease = None if dry_run else Lease(self._repo._history.db, "tier")
            try:
                for place, name, _ in due if lease else ():
                    place.move_out(name)
            finally:
                if lease is not None:
                    lease.close()
            _count_from_today(places)
        return Moved(len(due), sum(size for _, _, size in due), dry_run)

    def _opened(self) -> _Opened:
        tier = read_tier(self._repo.dir)
        assert tier is not None
        packs = Folder(self._repo.dir / "packs")
        return _Opened(self._repo.dir, tier, self._repo._history.db, packs)


class _Opened:
    """The places of a repo with a tier."""

    def __init__(self, folder: Path, tier: Tier, db: Database, packs: Place) -> None:
        cold, tmp = _open_cold(folder, tier, db), folder / "tmp"
        self.reads = LastReads(folder / READS)
        self.packs = TieredPlace(packs, cold, "packs/", self.reads, tmp)
        self.parts = TieredPlace(Folder(folder / "parts"), cold, "parts/", self.reads, tmp)

    def list(self) -> tuple[TieredPlace, TieredPlace]:
        return self.packs, self.parts

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.reads.flush()


def wrap(folder: Path, db: Database, packs: Place) -> _Opened | None:
    """The places of a repo in front of its colder ones; None where it has none."""
    tier = read_tier(folder)
    return None if tier is None else _Opened(folder, tier, db, packs)


def read_tier(folder: Path) -> Tier | None:
    """What a `.memlake` says of its colder place."""
    path = folder / FILE
    try:
        with open(nofollow.open_file(path), "rb") as file:
            fields = json.loads(file.read(_LARGEST))
        tier = Tier(**{key: fields[key] for key in Tier._fields if key in fields})
        if type(tier.url) is not str or type(tier.days) is not int:
            raise ValueError("its values have the wrong types")
        return tier._replace(url=check_url(tier.url))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.", hint=f"Remove it: rm {pasted(path)}") from error


def parse_when(text: str) -> int:
    match = _WHEN.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{text!r} is not a rule. Nothing was changed.", hint="Write it as 'unread > 90d'.")
    return int(match[1])


def _open_cold(folder: Path, tier: Tier, db: Database) -> OwnedPlace | Refused:
    settings = RemoteSettings("cold", tier.url, tier.endpoint, tier.region)
    if not config.is_own_address(layout.read_id(db), tier.address):
        return Refused(
            Denied(
                f"files of this repo lie in {tier.url}, and you have not given that address. They were not read.",
                hint=f"If you trust it: memlake tier set cold {pasted(tier.url)}{type_server(settings)}",
            )
        )
    place = cast(Place, _OpenedLater(tier, folder))
    return OwnedPlace(
        place, folder, lambda: layout.read_id(db), advise=lambda url: f"memlake tier set cold {pasted(url)}"
    )


class _OpenedLater:
    """A place that is opened when it is asked for something: `status` neither loads obstore nor asks a keyring."""

    def __init__(self, tier: Tier, folder: Path) -> None:
        self._tier, self._folder = tier, folder

    @functools.cached_property
    def _place(self) -> Place:
        settings = RemoteSettings("cold", self._tier.url, self._tier.endpoint, self._tier.region)
        return open_remote_place(settings, config.read_settings(self._folder))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)

    def __str__(self) -> str:
        return self._tier.url


def _list_due(places: _Opened, tier: Tier) -> list[tuple[TieredPlace, str, int]]:
    """What was not read for so many days."""
    days, last = places.reads.days(), int(time.time()) // DAY - tier.days
    return [
        (place, name, size)
        for place, prefix in zip(places.list(), ("packs/", "parts/"), strict=True)
        for name, size in sorted(place.list_here().items())
        if days.get(prefix + name, last) < last
    ]


def _count_from_today(places: _Opened) -> None:
    """Files of which nothing is known count as read today; those that are gone are forgotten."""
    places.reads.flush()
    names = {
        prefix + name
        for place, prefix in zip(places.list(), ("packs/", "parts/"), strict=True)
        for name in (*place.list_here(), *place.list_there())
    }
    places.reads.keep(names)
