"""Remotes: where a repo is shared, as this copy of it knows them. Settings and the mirror of each lie in a folder.

A remote's settings are this machine's: they are not versioned. They name an address to which data goes, and a repo may
have come from a stranger, so they count only if this user gave them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from memlake import config, nofollow, versions
from memlake import repo as later
from memlake.calls import check_methods
from memlake.defaults import Settings
from memlake.errors import AlreadyExists, Conflict, Denied, InvalidInput, NotFound, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects.bucket import Bucket, open_place
from memlake.objects.object_store import check_endpoint
from memlake.objects.one_file import OneFile
from memlake.objects.places import Folder, Place
from memlake.records import Branch, count
from memlake.repo.open import AnyPath
from memlake.repo.part import Part
from memlake.reports import PurgeReport
from memlake.versions import tables
from memlake.versions.history import archive
from memlake.versions.history.times import parse_time

if TYPE_CHECKING:
    from memlake.versions.sync.archive import Archived
    from memlake.versions.sync.bundle import Bundled
    from memlake.versions.sync.drop import Dropped
    from memlake.versions.sync.fetch import Fetched, Link
    from memlake.versions.sync.remote_gc import RemoteGc

FOLDER = "remotes"
KNOWN = "results"  # of a remote's folder: for each file of results there the keys in it, which are not sent again
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FILTER = re.compile(r"size<(\d+(?:\.\d+)?)([KMGT]?)i?B?", re.IGNORECASE)
_MACHINE = re.compile(r"[^/:]+:")  # host:path, user@host:path, s3:bucket
_DEFAULT = "origin"  # the remote that is meant where none is named
_FILE = "remote.json"
_LARGEST = 1 << 16


class RemoteSettings(NamedTuple):
    """What is noted of a remote. `endpoint` and `region` are of a bucket; the rest says what of it is wanted here."""

    name: str
    url: str
    endpoint: str = ""
    region: str = ""
    below: int | None = None  # only objects with fewer bytes come by themselves
    memories: bool = True
    depth: int | None = None
    results: bool = False  # whether what functions answered elsewhere is believed and sent

    @property
    def address(self) -> str:
        """What must have been given by this user to count."""
        return json.dumps([self.name, self.url, self.endpoint, self.region, self.results])


class Apart(NamedTuple):
    """A branch and the one of its name at a remote: commits of files that only one of them has."""

    branch: str
    remote: str
    ahead: int
    behind: int
    memories: bool  # whether they differ


@check_methods
class Remotes(Part):
    """What `repo.remotes` gives: `add`, `remove`, `rename`, `set_url`, `gc`, and the remotes by iteration."""

    def __iter__(self) -> Iterator[RemoteSettings]:
        return iter(list_remotes(self._repo.dir))

    def add(
        self, name: str, url: AnyPath, *, endpoint: str = "", region: str = "", results: bool = False
    ) -> RemoteSettings:
        """Know a place by a name: a folder, file://, s3://, gs:// or az://. Nothing is asked of it yet."""
        check_name(name)
        if find_settings(self._repo.dir, name) is not None:
            raise AlreadyExists(
                f"there is a remote {name!r} already. Nothing was changed.",
                hint=f"Give it another address: memlake remote set-url {pasted(name)} {pasted(url)}",
            )
        place = self._check_outside("add", name, check_url(os.fspath(url)))
        settings = RemoteSettings(name, place, check_endpoint(endpoint), region, results=results)
        with contextlib.suppress(Denied):  # an account may be named later: `login` needs the remote
            open_remote_place(settings, self._repo._settings)  # options that cannot be right are refused here
        return self._write(settings)

    def set_url(
        self, name: str, url: AnyPath, *, endpoint: str | None = None, region: str | None = None
    ) -> RemoteSettings:
        """Give a remote another address. What is known of the old one is forgotten; its endpoint and region stay unless
        others are given."""
        before = self.get(name, trusted=False)
        # The rest may be the word of whoever made this folder: it counts only if this user gave it.
        if not config.is_own_address(self._repo._id, before.address):
            before = before._replace(endpoint="", region="", results=False)
        settings = before._replace(
            url=self._check_outside("set-url", name, check_url(os.fspath(url))),
            endpoint=before.endpoint if endpoint is None else check_endpoint(endpoint),
            region=before.region if region is None else region,
        )
        self.refresh(name)
        return self._write(settings)

    def _check_outside(self, how: str, name: str, url: str) -> str:
        """Refuse a folder among our own files: what is stored there would be added, and shared again."""
        place = open_place(url) if is_local(url) else None
        mine = self._repo.dir if self._repo._is_bare else self._repo.root
        if isinstance(place, Folder) and (place.root == Path(mine) or Path(mine) in place.root.parents):
            beside = Path(mine).parent / f"{Path(mine).name}-shared"
            raise InvalidInput(
                f"{place.root} lies inside this repo, and a remote is a folder of its own. It was not kept.",
                hint=f"Use one beside it: memlake remote {how} {pasted(name)} {pasted(beside)}",
            )
        return url

    def trust_results(self, name: str, trusted: bool) -> RemoteSettings:
        """Whether what functions answered elsewhere is taken from this remote, and sent there. Nobody can check it."""
        return self._write(self.get(name)._replace(results=trusted))

    def login(self, name: str, key: str, secret: str) -> None:
        """Keep a key and its secret for the address of a remote in the keyring of this system, and nowhere else."""
        settings = self.get(name)
        later.credentials.keep(settings.url, settings.endpoint, key, secret)

    def logout(self, name: str) -> None:
        """Remove from the keyring what `login` put there."""
        settings = self.get(name, trusted=False)
        later.credentials.remove(settings.url, settings.endpoint)

    def refresh(self, name: str) -> None:
        """Forget what is known of a remote: the next fetch asks for all of it again."""
        folder = self._repo.dir / FOLDER / self.get(name, trusted=False).name
        for file in ("mirror.db", "mirror.db-wal", "mirror.db-shm"):
            (folder / file).unlink(missing_ok=True)
        disk.remove_tree(folder / KNOWN)

    def rename(self, old: str, new: str) -> None:
        settings = self.get(old)
        check_name(new)
        if find_settings(self._repo.dir, new) is not None:
            raise AlreadyExists(f"there is a remote {new!r} already. Nothing was changed.")
        with disk.named_errors(f"renaming remote {old}"):
            os.rename(self._repo.dir / FOLDER / old, self._repo.dir / FOLDER / new)
        self._write(settings._replace(name=new))
        versions.fetch.rename_tracked(self._repo._history, old, new)

    def remove(self, name: str) -> None:
        """Forget a remote, and the refs that follow it, or those of a bundle. Nothing there is touched."""
        if find_settings(self._repo.dir, check_name(name)) or not versions.fetch.list_tracked(
            self._repo._history, name
        ):
            self.get(name, trusted=False)
        self._refuse_last_archive(name)
        versions.fetch.rename_tracked(self._repo._history, name, None)
        disk.remove_tree(self._repo.dir / FOLDER / name)

    def _refuse_last_archive(self, name: str) -> None:
        """Refuse to forget the only remote where the data of old commits may lie."""
        db, known = self._repo._history.db, list_remotes(self._repo.dir)
        away = [file for file in archive.list_archives(db) if not archive.copy_of(db, file).exists()]
        if away and [one.name for one in known] == [name]:
            raise Conflict(
                f"the data of {count(sum(file.commits for file in away), 'old commit')} lies in an archive at "
                f"{known[0].url} alone. Nothing was changed.",
                hint=f"Have it here again first: memlake archive --back && memlake remote remove {pasted(name)}",
            )

    def get(self, name: str | None = None, *, trusted: bool = True) -> RemoteSettings:
        """A remote by its name; without one "origin", or the only one there is."""
        known = list_remotes(self._repo.dir)
        if name is None:
            name = _DEFAULT if len(known) != 1 else known[0].name
        settings = next((one for one in known if one.name == name), None)
        if settings is None:
            names = ", ".join(one.name for one in known)
            raise NotFound(
                f"there is no remote {name!r}. Nothing was changed.",
                hint=f"The remotes are: {names}"
                if known
                else "Add one, a folder or a bucket: memlake remote add origin s3://BUCKET/PREFIX",
            )
        if trusted and not config.is_own_address(self._repo._id, settings.address):
            raise Denied(
                f"the address of remote {name!r} ({settings.url}) came with this repo, and you have not given it. "
                "Nothing was sent or asked for.",
                hint=f"If you trust it: memlake remote set-url {pasted(name)} {pasted(settings.url)}"
                f"{type_server(settings)}",
            )
        return settings

    def bundle(self, file: AnyPath, *revs: str) -> Bundled:
        """Write branches, tags or ranges (`v1..main`) with all they need into one file; all branches unless named."""
        return later.sync.create_bundle(self._repo, file, revs)

    def unbundle(self, file: AnyPath) -> Fetched:
        """Take in a bundle as a fetch would; its branches are then revisions, `pets/main` of pets.bundle."""
        return later.sync.unbundle(self._repo, file)

    def branches(self) -> list[Branch]:
        """The branches of remotes, as they were when last asked: `origin/main`."""
        rows = tables.list_refs(self._repo._history.db, versions.refs.REMOTE)
        return [Branch(name, work and work.hex(), memory and memory.hex()) for name, work, memory, _ in rows]

    def compare(self) -> list[Apart]:
        """How far each of our branches is from the one of its name at a remote: origin, else the first that has one."""
        history = self._repo._history
        found: dict[str, Apart] = {}
        for settings in sorted(self, key=lambda one: one.name != _DEFAULT):
            for branch, target in versions.fetch.list_tracked(history, settings.name).items():
                heads = versions.refs.find(history.db, branch)
                if heads is not None and branch not in found:
                    ours, theirs = (versions.refs.commit_of(history, oid) for oid in (heads["work"], target.work))
                    ahead, behind = (
                        sum(1 for _ in versions.log.walk(history, [a], [b] if b else [])) if a else 0
                        for a, b in ((ours, theirs), (theirs, ours))
                    )
                    differs = settings.memories and heads["memory"] != target.memory
                    found[branch] = Apart(branch, settings.name, ahead, behind, differs)
        return list(found.values())

    def gc(self, name: str | None = None, *, dry_run: bool = False, prune: bool = False) -> RemoteGc:
        """Remove from a remote what none of its branches and tags needs: first condemned, and deleted by a gc that runs
        a grace period later; `prune` does not wait, so who is fetching right then must begin again.
        """
        repo = self._repo
        policy = versions.remote_gc.Policy(dry_run, 0.0 if prune else repo._settings.gc_grace_hours)
        with self.link(name) as link:
            return versions.remote_gc.collect(repo._history, link, policy, lambda record: later.sync.obey(repo, record))

    def list_holding(self, oids: Sequence[str]) -> list[str]:
        """Names of the remotes that have some of these objects, as far as is known here. Asks none of them."""
        names, wanted = [], [bytes.fromhex(oid) for oid in oids]
        for settings in self:
            mirror = versions.mirror.Mirror(self._repo.dir / FOLDER / settings.name)
            if mirror.find(wanted):
                names.append(settings.name)
            mirror.close()
        return names

    def note_holders(self, report: PurgeReport) -> PurgeReport:
        """The same report, with a note for each remote that still has what was erased, and how it is erased there."""
        notes = [self._note_holder(name) for name in self.list_holding(report.purged)]
        return report._replace(notes=(*report.notes, *notes))

    def _note_holder(self, name: str) -> str:
        url = self.get(name, trusted=False).url
        if os.path.isfile(url):
            return f"{name} is the bundle {url}, which still has it. Delete that file, and its copies."
        return f"{name} still has it, until you push there: memlake push {pasted(name)}"

    def drop(self, *paths: AnyPath, dry_run: bool = False) -> Dropped:
        """Let the content of files, in all versions, be at a remote only. Refused if none has it, or one was edited."""
        with self._repo._verb() as here:
            links = open_links(self._repo.dir, self._repo._id)
            return versions.drop.drop(here, links, self._repo._resolve_patterns(*paths), dry_run=dry_run)

    def archive(self, older_than: str, to: str | None = None, *, dry_run: bool = False, keep: bool = False) -> Archived:
        """Move the data of commits from before "365d" or "2025-01-31", that a remote has, into one file there.

        Whatever reads them has the file brought, and says so. `keep`: a copy stays here, smaller than the data was.
        """
        with self.link(to) as link:
            return versions.archive.archive_commits(
                self._repo._history, link, parse_time(older_than), dry_run=dry_run, keep=keep
            )

    def unarchive(self) -> Archived:
        """Have the data of all archived commits in repo.db again."""
        return versions.archive.bring_back(self._repo._history, self._repo._archives)

    def drop_archives(self) -> Archived:
        """Remove the copies of archives that lie here since they were read."""
        links = open_links(self._repo.dir, self._repo._id)
        return versions.archive.drop_copies(self._repo._history, self._repo._archives, links)

    def keep(self, settings: RemoteSettings) -> RemoteSettings:
        """Note other settings of a remote."""
        return self._write(settings)

    def _write(self, settings: RemoteSettings) -> RemoteSettings:
        folder = self._repo.dir / FOLDER / settings.name
        with disk.named_errors(f"noting remote {settings.name}"):
            nofollow.make_folder(folder)
            new = folder / f"{_FILE}.{os.urandom(4).hex()}"
            disk.write_file(new, json.dumps(settings._asdict(), indent=1).encode())
            disk.rename(new, folder / _FILE)
        config.note_address(self._repo.dir, self._repo._id, settings.address)
        return settings

    @contextlib.contextmanager
    def link(self, name: str | None) -> Iterator[Link]:
        """A remote opened, with what is known of it."""
        settings = self.get(name)
        with open_link(self._repo.dir, settings) as link:
            yield link


@contextlib.contextmanager
def open_link(folder: Path, settings: RemoteSettings, place: Place | None = None) -> Iterator[Link]:
    """A remote of the `.memlake` folder opened, with what is known of it."""
    mine = folder / FOLDER / settings.name
    with disk.named_errors(f"opening remote {settings.name}"):
        nofollow.make_folder(mine)
    place = place or open_remote_place(settings, config.read_settings(folder))
    remote = versions.remote.Remote(settings.name, settings.url, place)
    mirror = versions.mirror.Mirror(mine)
    try:
        yield versions.fetch.Link(remote, mirror, versions.receive.Wanted(settings.memories, settings.below), mine)
    finally:
        mirror.close()


def open_links(folder: Path, repo_id: str) -> Iterator[contextlib.AbstractContextManager[Link]]:
    """The remotes whose address this user gave, each to be opened when it is needed."""
    for settings in list_remotes(folder):
        if config.is_own_address(repo_id, settings.address):
            yield open_link(folder, settings)


def list_remotes(folder: Path) -> list[RemoteSettings]:
    """The remotes that a `.memlake` folder notes, by name."""
    names = sorted(os.listdir(folder / FOLDER)) if (folder / FOLDER).is_dir() else []
    return [found for name in names if _NAME.fullmatch(name) and (found := find_settings(folder, name)) is not None]


def find_settings(folder: Path, name: str) -> RemoteSettings | None:
    """What is noted of a remote; None where there is none."""
    path = folder / FOLDER / name / _FILE
    try:
        with open(nofollow.open_file(path), "rb") as file:
            fields = json.loads(file.read(_LARGEST))
        known = {key: fields[key] for key in RemoteSettings._fields if key in fields}
        return _check_fields(RemoteSettings(**{**known, "name": name}))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInput(
            f"{path} cannot be read: {error}.", hint=f"Remove the remote and add it again: rm -r {pasted(path.parent)}"
        ) from error


def _check_fields(settings: RemoteSettings) -> RemoteSettings:
    texts = (settings.url, settings.endpoint, settings.region)
    numbers = (settings.below, settings.depth)
    if not all(type(text) is str for text in texts) or type(settings.memories) is not bool:
        raise ValueError("its values have the wrong types")
    if not all(number is None or (type(number) is int and number >= 0) for number in numbers):
        raise ValueError("its numbers are none")
    return settings._replace(
        url=check_url(settings.url), endpoint=check_endpoint(settings.endpoint), results=settings.results is True
    )


def type_server(settings: RemoteSettings) -> str:
    """The options of a command that name the server of a bucket, as they are typed."""
    options = (("--endpoint", settings.endpoint), ("--region", settings.region))
    return "".join(f" {option} {pasted(value)}" for option, value in options if value)


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} cannot be the name of a remote. Nothing was changed.",
            hint="Use letters, digits, dashes and underscores.",
        )
    return name


def parse_filter(text: str | None) -> int | None:
    """The size under which content comes by itself: of "size<1MB", in bytes; 0 for "none" (no content at all)."""
    if text is None or text == "none":
        return None if text is None else 0
    match = _FILTER.fullmatch(text.replace(" ", ""))
    if match is None:
        raise InvalidInput(
            f"{text!r} is not a filter. Nothing was changed.", hint="Write one as 'size<1MB', or none for no content."
        )
    return int(float(match[1]) * 1024 ** ["", "K", "M", "G", "T"].index(match[2].upper()))


def check_depth(depth: int | None) -> int | None:
    if depth is not None and depth < 1:
        raise InvalidInput(f"a depth counts commits, and {depth} is none. Nothing was made.", hint="Use 1 or more.")
    return depth


def check_url(url: str) -> str:
    """The address, with a folder as its absolute path. One with a password in it is refused and not shown."""
    try:
        url.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("the address is not valid UTF-8. Nothing was changed.") from error
    if "://" not in url:
        if _MACHINE.match(url) and not os.path.lexists(url):
            raise InvalidInput(
                f"{url!r} looks like an address on another machine, which memlake cannot share with. It was not kept.",
                hint="Use a folder, perhaps a mounted one, or a bucket, such as s3://BUCKET/PREFIX\n"
                f"If it is a folder here, say so: {pasted(f'./{url}')}",
            )
        return os.path.abspath(os.path.expanduser(os.fspath(config.real_name(url))))
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidInput("the address cannot be read: its host is not one. It was not kept.") from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidInput(
            f"the address of a remote may not hold a user, a password or a query ({parts.scheme}://...). It was not "
            "kept.",
            hint="Give credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), or keep them "
            "in the keyring once the remote is there: memlake remote login NAME",
        )
    if parts.scheme not in ("s3", "gs", "az", "file"):
        raise InvalidInput(
            f"{parts.scheme}:// is not an address that memlake can share with.",
            hint="Use a folder, file://, s3://, gs:// or az://, such as s3://BUCKET/PREFIX",
        )
    if parts.scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path.startswith("/")):
        raise InvalidInput(
            f"{url!r} does not name a folder: after file:// comes a path from the root. It was not kept.",
            hint=f"Write it without file://, or as {pasted(Path(os.path.abspath(parts.netloc + parts.path)).as_uri())}",
        )
    if parts.scheme != "file" and not parts.netloc:
        raise InvalidInput(f"{url!r} names no bucket. It was not kept.", hint=f"Write {parts.scheme}://BUCKET/PREFIX")
    return f"{parts.scheme}://{url.partition('://')[2]}"


def is_local(url: str) -> bool:
    return "://" not in url or url.startswith("file://")


def open_remote_place(settings: RemoteSettings, limits: Settings) -> Place:
    """The files of a remote. Credentials come from the environment, the keyring or the cloud's own files."""
    if is_local(settings.url):
        place = open_place(settings.url)
        is_file = isinstance(place, Folder) and place.root.is_file()
        return OneFile(place.root) if is_file and isinstance(place, Folder) else place
    options = later.credentials.open_options(settings.url, settings.endpoint, settings.region)
    retry, timeout = {"max_retries": limits.remote_retries}, f"{round(limits.remote_timeout * 1000)}ms"
    return Bucket(settings.url, **options, retry_config=retry, timeout=timeout)


def parse_refs(names: Sequence[str]) -> list[tuple[int, str]]:
    """Branches and tags as they are typed: `main`, `refs/tags/v1`, `tag:v1`."""
    found = []
    for name in names:
        for start, kind in (("refs/heads/", 0), ("refs/tags/", 1), ("tag:", 1)):
            if name.startswith(start):
                found.append((kind, name.removeprefix(start)))
                break
        else:
            found.append((0, name))
    return found
