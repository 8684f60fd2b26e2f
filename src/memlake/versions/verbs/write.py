"""Writing records at any path: one commit a lane and branch, alone or with others in a transaction."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping

from memlake.config import check_author
from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple
from memlake.objects import layout
from memlake.objects.writer import Writer, is_large
from memlake.records import Author, Commit, Entry, Lane
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import refs
from memlake.versions.history.append import prepare, record
from memlake.versions.history.commits import Draft, Planned
from memlake.versions.kinds import kind_at
from memlake.versions.paths import FILES, check, check_together, file_path

INLINE = 64 << 10


class Request(NamedTuple):
    changes: Mapping[str, bytes | Entry | None]
    message: str
    branch: str | None
    author: Author
    expects: Mapping[str, Entry | None] | None = None


class Group:
    """Writes of a transaction, waiting."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.requests: list[Request] = []


def write(here: Checkout, request: Request, group: Group | None) -> Commit:
    """One commit of one lane. Inside a transaction it only joins the group."""
    lanes = {kind_at(check(path)).lane for path in request.changes}
    if len(lanes) != 1:
        raise InvalidInput(
            "one write is one commit of one lane; these paths belong to both (or there are none).",
            hint="Write them apart, or use: with repo.transaction(...)",
        )
    if group is not None:
        group.requests.append(request)
        return Commit("", lanes.pop(), "", (), None, request.author, layout.now(), request.message, None)
    with _store_large_first(here, [request]) as ready:
        return _write(here, request, lanes.pop(), ready[0])


def encode_texts(changes: Mapping[str, bytes | str | Entry | None]) -> dict[str, bytes | Entry | None]:
    """Text as the bytes that are kept."""
    try:
        return {path: content.encode() if isinstance(content, str) else content for path, content in changes.items()}
    except UnicodeEncodeError as error:
        raise InvalidInput(f"a text cannot be kept as UTF-8: {error}. Nothing was changed.") from error


def write_group(here: Checkout, group: Group) -> None:
    """All writes of a transaction: one commit a lane and branch, all of them or none."""
    merged: dict[tuple[str, Lane], Request] = {}
    for request in group.requests:
        branch = request.branch or _get_branch(here)
        lane = kind_at(next(iter(request.changes))).lane
        old = merged.get((branch, lane), Request({}, group.message, branch, request.author))
        changes = {**old.changes, **request.changes}
        expects = {**(old.expects or {}), **(request.expects or {})} or None
        merged[branch, lane] = Request(changes, group.message, branch, request.author, expects)
    with _store_large_first(here, merged.values()) as ready, here.history.db.write():
        for ((_, lane), request), planned in zip(merged.items(), ready, strict=True):
            _write(here, request, lane, planned)


@contextlib.contextmanager
def _store_large_first(here: Checkout, requests: Iterable[Request]) -> Iterator[list[Planned | None]]:
    """Large files are stored, and large trees planned, before the lock is taken. Yields the plan of each request.

    Records of other kinds may have to be erased one day: they are never packed or chunked, whatever their size.
    """
    requests = list(requests)
    contents = {
        content
        for request in requests
        for path, content in request.changes.items()
        if isinstance(content, bytes) and len(content) > INLINE and path.startswith(FILES)
    }
    with Writer(here.history.objects, "write") if contents else contextlib.nullcontext() as writer:
        if writer is not None:
            for content in contents:
                if is_large(len(content)):
                    writer.add_stream(io.BytesIO(content), len(content))
                else:
                    writer.add(content)
            writer.finish()
        yield [_plan_entries(here, request) for request in requests]


def _plan_entries(here: Checkout, request: Request) -> Planned | None:
    given = {path: entry for path, entry in request.changes.items() if not isinstance(entry, bytes)}
    if len(given) < len(request.changes):
        return None
    return prepare(here.history, request.branch or _get_branch(here), kind_at(next(iter(given))).lane, given)


def _write(here: Checkout, request: Request, lane: Lane, ready: Planned | None) -> Commit:
    branch = request.branch or _get_branch(here)
    with here.history.db.write():
        here.history.objects.adopt(c.oid for c in request.changes.values() if isinstance(c, Entry))
        store = here.history.objects.write
        edits = {
            path: Entry(store(content), kind_at(path).name, len(content)) if isinstance(content, bytes) else content
            for path, content in request.changes.items()
        }
        if lane == "work":
            check_beside(here, edits, branch)
        draft = Draft(lane, edits, request.author, request.message, layout.now(), {})
        # Exactly what the caller read: also when another has written the very same, his was not built upon.
        expects = None if request.expects is None else {path: (entry,) for path, entry in request.expects.items()}
        return record(here.history, draft, branch=branch, expects=expects, ready=ready)


def check_beside(here: Checkout, edits: Mapping[str, Entry | None], branch: str) -> None:
    """Refuse what cannot be checked out together with what the branch keeps, as `add` does."""
    head = refs.commit_of(here.history, refs.get(here.history.db, branch)["work"])
    clash = here.history.find_clash(head, edits)
    if clash:
        raise InvalidInput(
            f"{clash[0]!r} and {clash[1]!r} cannot both exist: one is a folder of the other. Nothing was changed.",
            hint="Remove one of them in the same write.",
        )
    added = [path for path, entry in edits.items() if entry is not None and path.startswith(FILES)]
    held = here.history.entries(head, added)
    new = [file_path(path) for path in added if path not in held]
    if new:
        kept = (path for path, _ in here.history.scan(head, FILES) if edits.get(path, True) is not None)
        check_together(new, map(file_path, kept))


def _get_branch(here: Checkout) -> str:
    branch = here.local.branch
    if branch is None:
        raise InvalidInput(
            "HEAD is detached, so there is no branch to write to.",
            hint=f"Name one with branch=..., or switch to one: {refs.advise_switch(here.history.db)}",
        )
    return branch


def author_of(given: Author | str | None) -> Author | None:
    """`Name <email>` or an Author."""
    if given is None or isinstance(given, Author):
        return check_author(given) if given else None
    name, bracket, rest = given.partition("<")
    email = rest.strip().removesuffix(">").strip() if bracket else ""
    return check_author(Author(name.strip() or email, email))
