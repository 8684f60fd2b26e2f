"""Sharing: push, fetch, pull and clone, wired to a repo. What was purged elsewhere is erased here first."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memlake import config, dataset, nofollow, versions
from memlake import repo as later
from memlake.calls import check_types
from memlake.errors import AlreadyExists, Corrupt, Error, InvalidInput, NotFound, pasted
from memlake.index.generations import begin_generation
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects import tables as object_tables
from memlake.objects.layout import is_salt_of
from memlake.objects.object_store import check_endpoint
from memlake.objects.one_file import OneFile
from memlake.objects.places import Folder
from memlake.objects.purge import PurgeRecord
from memlake.objects.purge import obey as obey_purge
from memlake.repo.find import DIR, init
from memlake.repo.merge import Merge
from memlake.repo.open import AnyPath
from memlake.repo.remotes import (
    Remotes,
    RemoteSettings,
    check_depth,
    check_name,
    check_url,
    find_settings,
    open_link,
    open_remote_place,
    parse_filter,
    parse_refs,
)
from memlake.repo.repo import Progress, Repo
from memlake.versions import tables
from memlake.versions.checkout.journal import Goal
from memlake.versions.sync.root import RefKey, Target

if TYPE_CHECKING:
    from memlake.objects.places import Place
    from memlake.records import Commit
    from memlake.versions.sync.bundle import Bundled
    from memlake.versions.sync.fetch import Fetched, Link
    from memlake.versions.sync.push import Pushed
    from memlake.versions.sync.root import Root

_ASIDE = ".memlake-clone"  # where a clone is made, so that a folder is a repo only once all is there


class Pulled(NamedTuple):
    fetched: Fetched
    merged: Merge | None  # None where nothing was to be joined


def fetch(repo: Repo, remote: str | None, progress: Progress | None, *, dry_run: bool = False) -> Fetched:
    settings = Remotes(repo).get(remote)
    with open_link(repo.dir, settings) as link:
        return _fetch(repo, settings, link, progress, dry_run=dry_run)


def _fetch(
    repo: Repo, settings: RemoteSettings, link: Link, progress: Progress | None, *, dry_run: bool = False
) -> Fetched:
    done = versions.fetch.fetch(repo._history, link, lambda record: obey(repo, record), progress, dry_run=dry_run)
    if settings.results and not dry_run:
        done = done._replace(results=later.results.share(later.results.take, repo, link))
    return done


def push(
    repo: Repo, remote: str | None, names: Sequence[str], *, tags: bool = False, delete: bool = False,
    force: bool = False, lease: Mapping[str, str | None] | bool = False, memories: bool = True,
    progress: Progress | None = None, dry_run: bool = False,
) -> Pushed:  # fmt: skip
    """`lease`: replace what a branch is there only if it is still what we last saw, or what is named."""
    names = [_current_branch(repo) if name == "HEAD" else name for name in names]
    wanted = parse_refs(names) if names else [] if tags else [(0, _current_branch(repo))]
    wanted = [_guess_tag(repo, key) for key in wanted]
    if tags:
        wanted += [(1, tag.name) for tag in versions.refs.tags(repo._history.db)]
    settings = Remotes(repo).get(remote)
    with open_link(repo.dir, settings) as link:
        tracked = versions.fetch.list_tracked(repo._history, link.remote.name)
        seen = {name: target.work for name, target in tracked.items()}
        held = seen if lease is True else {**seen, **lease} if lease else None
        asked = versions.push.Request(
            link.remote.name, [] if delete else wanted, wanted if delete else [], memories and settings.memories,
            force, held, repo._settings.gc_grace_hours,
        )  # fmt: skip
        done = versions.push.push(
            repo._history, link, asked, lambda record: obey(repo, record), progress, dry_run=dry_run,
            who=repo._who().name,
        )  # fmt: skip
        if settings.results:
            act = later.results.count_unsent if dry_run else later.results.send
            done = done._replace(results=later.results.share(act, repo, link))
        return done


def _current_branch(repo: Repo) -> str:
    name = repo._local.branch
    if name is None:
        raise InvalidInput(
            "HEAD is detached, so there is no branch to share. Nothing was changed.",
            hint="Name one: memlake push origin BRANCH",
        )
    return name


def _guess_tag(repo: Repo, key: tuple[int, str]) -> tuple[int, str]:
    """A name that is a tag and not a branch means the tag."""
    db, (kind, name) = repo._history.db, key
    is_tag = kind == 0 and versions.refs.find(db, name) is None and versions.refs.find(db, name, 1) is not None
    return (1, name) if is_tag else key


def pull(repo: Repo, remote: str | None, branch: str | None, progress: Progress | None, **how: object) -> Pulled:
    """Fetch, and join what came to the branch we are on. Memories of both sides are merged by themselves."""
    name = branch or _current_branch(repo)
    fetched = fetch(repo, remote, progress)
    source = f"{fetched.remote}/{name}"
    if versions.refs.find(repo._history.db, source, versions.refs.REMOTE) is None:
        raise NotFound(
            f"{fetched.url} has no branch {name!r}. What it has was fetched; your branch is unchanged.",
            hint=f"See its branches: memlake branch -r\nTo share yours: memlake push {pasted(fetched.remote)}",
        )
    merged = repo.merge(source, **how)  # type: ignore[arg-type]
    return Pulled(fetched, None if merged.up_to_date else merged)


def obey(repo: Repo, record: PurgeRecord) -> None:
    """Erase here what was purged elsewhere: objects, and copies of them that lie outside the object store."""
    nofollow.check_folder(repo.dir)
    with repo._verb(files=False) as here:
        obey_purge(here.history.objects, record)
        here.local.forget_content(set(record.oids))
    dataset.erase.drop_copies(repo.dir)
    if (repo.dir / dataset.RECALL).exists():
        repo._rows().forget()
    if (repo.dir / "index").exists():
        with contextlib.suppress(Error):  # the next search erases what the index still has
            repo.memories().follow()


@check_types
def clone(
    url: AnyPath, path: AnyPath | None = None, *, branch: str | None = None, origin: str = "origin",
    filter: str | None = None, depth: int | None = None, memories: bool = True, bare: bool = False,
    endpoint: str = "", region: str = "", results: bool = False, progress: Progress | None = None,
) -> Repo:  # fmt: skip
    """A repo of its own with the history of a remote: a folder, a bucket or a bundle.

    `filter` ("size<1MB") leaves larger content there until it is read, and `depth` what only commits before the last
    so many hold. `results` trusts what functions answered elsewhere, so that the same work is not done again here.
    """
    settings = RemoteSettings(
        check_name(origin),
        check_url(os.fspath(url)),
        check_endpoint(endpoint),
        region,
        parse_filter(filter),
        memories,
        check_depth(depth),
        results,
    )
    return make_clone(settings, path, branch=branch, bare=bare, progress=progress)[0]


def make_clone(
    settings: RemoteSettings, path: AnyPath | None, *, branch: str | None = None, bare: bool = False,
    progress: Progress | None = None,
) -> tuple[Repo, Fetched]:  # fmt: skip
    """A clone, and what came. One that was interrupted goes on where it was."""
    folder = Path(os.path.realpath(config.real_name(path or _name_folder(settings.url))))
    if (folder / DIR).exists() or config.is_bare(folder):
        raise AlreadyExists(
            f"{folder} is a repo already. Nothing was changed.",
            hint=f"Name a new folder: memlake clone {pasted(settings.url)} FOLDER\n"
            "Or, in that folder, bring what is new: memlake pull",
        )
    if folder.exists() and any(name != _ASIDE for name in os.listdir(folder)):
        raise AlreadyExists(
            f"{folder} is not empty. Nothing was changed.",
            hint=f"Name a new folder: memlake clone {pasted(settings.url)} FOLDER",
        )
    place = open_remote_place(settings, config.read_settings(None))
    root = _read_root(settings, place)  # before anything is made
    name, aside = branch or root.default_branch(), folder / _ASIDE
    if branch and (0, branch) not in root.refs:
        raise NotFound(
            f"{settings.url} has no branch {branch!r}. Nothing was made.",
            hint="It has: " + (", ".join(sorted(name for kind, name in root.refs if kind == 0)) or "none"),
        )
    if not is_salt_of(root.repo, bytes.fromhex(root.salt)):
        raise Corrupt(
            f"{settings.url} has a salt that repo {root.repo} was not made with, so somebody changed its root. Nothing "
            "was made.",
            hint="If it is a remote of yours, copy the newest file of its folder roots/ over root.",
        )
    if root.needs:
        raise InvalidInput(
            f"{settings.url} begins after commit {root.needs[0][:10]}, so it is no whole repo. Nothing was made.",
            hint=f"Ask for one of the whole history: memlake bundle create {pasted(Path(settings.url).name)}\n"
            f"Or, in a clone that has that commit: memlake bundle unbundle {pasted(settings.url)}",
        )
    with init(aside, branch=name, bare=bare) as repo:
        _take_identity(repo, root.repo, bytes.fromhex(root.salt))
        Remotes(repo).keep(settings)
        with open_link(repo.dir, settings, place) as link:
            first = link if settings.depth is None else link._replace(wanted=link.wanted._replace(below=0))
            fetched = _fetch(repo, settings, first, progress)
            if settings.depth is not None:
                versions.partial.bring_recent(repo._history, link, settings.depth, settings.below)
        _begin_branch(repo, f"{settings.name}/{name}", name)
        begin_generation(repo.dir / "index")  # an empty index, which the first search fills; it was not lost
    with disk.named_errors(f"moving the clone to {folder}"):
        for inner in os.listdir(aside) if bare else [DIR]:
            os.rename(aside / inner, folder / inner)
        disk.remove_tree(aside)
    made = Repo(folder if bare else folder / DIR)
    config.note_address(made.dir, made._id, settings.address)
    if not bare:
        with made._local.verb():
            versions.update.write_first(made._look())
    return made, fetched


def _read_root(settings: RemoteSettings, place: Place) -> Root:
    state = versions.remote.Remote(settings.name, settings.url, place).load()
    if state is None:
        if isinstance(place, Folder) and (place.root / DIR).is_dir():
            raise NotFound(
                f"{settings.url} is a repo that somebody works in, and a clone comes from a remote. Nothing was made.",
                hint=f"Let it push to a folder, and clone that: memlake -C {pasted(place.root)} remote add "
                f"origin FOLDER "
                f"&& memlake -C {pasted(place.root)} push\n"
                f"Or clone a file: memlake -C {pasted(place.root)} bundle create {pasted(f'{place.root}.bundle')} "
                f"&& memlake clone {pasted(f'{place.root}.bundle')} FOLDER",
            )
        raise NotFound(
            f"{settings.url} has no memlake history, so there is nothing to clone.", hint="Check the address."
        )
    return state.root


def _name_folder(url: str) -> str:
    """The folder that a clone goes to when none is named: the last part of the address."""
    name = url.rstrip("/").rpartition("/")[2].removesuffix(".memlake").removesuffix(".bundle")
    if not name:
        raise InvalidInput(f"{url} gives no name for a folder.", hint=f"Name one: memlake clone {pasted(url)} FOLDER")
    return name


def _take_identity(repo: Repo, id: str, salt: bytes) -> None:
    """A clone is the same repo: it has its id and its salt."""
    history = repo._history
    with history.db.write():
        object_tables.write_facts(history.db, {"id": id, "salt": salt})
    vars(history.objects).pop("repo", None)  # remembered: what init had given
    vars(history).pop("salt", None)


def _begin_branch(repo: Repo, source: str, name: str) -> None:
    """The branch that a clone stands on begins where the remote's is. That its files are to be written is planned."""
    history = repo._history
    heads = versions.refs.find(history.db, source, versions.refs.REMOTE)
    mine, action, who = versions.refs.get(history.db, name), f"clone: from {source}", repo._who().name
    with history.db.write():
        for lane, head in (heads or {}).items():
            if head != mine[lane]:
                old, new = (versions.refs.commit_of(history, oid) for oid in (mine[lane], head))
                versions.refs.move(history, name, lane, old, new, action=action, who=who)
    if not repo._is_bare and heads and heads["work"]:
        versions.update.plan_first(repo._local, Goal(heads["work"], name, action, who))


def create_bundle(repo: Repo, file: AnyPath, revs: Sequence[str]) -> Bundled:
    here, refs = repo._look(), dict[RefKey, Target]()
    known: list[Commit] = []
    db = repo._history.db
    names = [branch.name for branch in versions.refs.branches(db, None)]
    for text in revs or sorted(names, key=lambda name: name != repo._local.branch):  # a clone stands on the first
        left, _, right = text.rpartition("..")
        name = _current_branch(repo) if right in ("", "HEAD") else right
        key = _guess_tag(repo, parse_refs([name])[0])
        heads = versions.refs.find(db, key[1], key[0])
        if heads is None:
            versions.rev.resolve(here, name)  # raises for what is no rev at all
            raise InvalidInput(
                f"{name!r} is neither a branch nor a tag, and a bundle holds those. Nothing was written.",
                hint="Give the commit a name first: memlake tag NAME REV",
            )
        note = tables.find_ref(db, *key)
        refs[key] = Target(heads["work"], heads["memory"], note[2].hex() if key[0] == 1 and note and note[2] else None)
        if left:
            known += [repo._history.get(oid) for oid in versions.branch.heads_at(here, left).values() if oid]
    return versions.bundle.create(repo._history, Path(os.path.abspath(config.real_name(file))), refs, known)


def unbundle(repo: Repo, file: AnyPath) -> Fetched:
    path = Path(os.path.abspath(config.real_name(file)))
    name = _name_of_bundle(path)
    if find_settings(repo.dir, name) is not None:  # what follows a remote says what that has
        name = f"{name[:57]}-bundle"
    settings = RemoteSettings(name, str(path))
    with (
        tempfile.TemporaryDirectory(prefix="backup-", dir=repo.dir / "tmp") as scratch,
        open_link(Path(scratch), settings, OneFile(path)) as link,
    ):
        return versions.fetch.fetch(repo._history, link, lambda record: obey(repo, record))


def verify_bundle(file: AnyPath, repo: Repo | None) -> Bundled:
    """Whether a bundle is whole; with a repo also whether it fits there."""
    path = Path(os.path.abspath(config.real_name(file)))
    remote = versions.remote.Remote("bundle", str(path), OneFile(path))
    return versions.bundle.verify(repo._history if repo else None, remote)


def _name_of_bundle(path: Path) -> str:
    """The name under which the branches of a bundle are known: that of its file."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.name.split(".")[0]).strip("-")
    return name[:64] or "bundle"
