"""What a shell offers at <tab>: names, paths and keys that fit what is typed. Loaded only then; says nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice

from click.shell_completion import BashComplete, CompletionItem

from memlake import config
from memlake import open as open_repo
from memlake.cli.commands import VERBS
from memlake.errors import Error
from memlake.repo import Repo
from memlake.versions.kinds import ROOMS
from memlake.views import paths

_MOST = 500  # a shell asks before it shows more than a few


def offers(kinds: Iterable[str], typed: str) -> list[CompletionItem]:
    """What fits: of "branch", "tag", both and HEAD ("rev"), "path", "dataset", settings ("key"), "verb"."""
    wanted = set(kinds)
    try:
        names = sorted(set(_names(wanted, typed)))
    except (Error, OSError):  # a shell's line is no place for a message
        names = []
    files = sorted(_on_disk(typed)) if "path" in wanted else []
    if "path" in wanted and not names:
        names = [] if files else sorted(_list_tracked(typed))
        # The shell completes files better than a list could; but it drops every other offer when told to.
        return [CompletionItem(name) for name in names] or [CompletionItem(typed, type="file")]
    return [CompletionItem(name) for name in (*names, *files)]


def _names(wanted: set[str], typed: str) -> Iterator[str]:
    if "key" in wanted:
        yield from _filter((value.key for value in config.list_values(None)), typed)
    if "verb" in wanted:
        yield from _filter(VERBS, typed)
    if "dataset" in wanted:
        with open_repo(config.find_repo() or config.personal_folder()) as repo:
            yield from _filter(_datasets(repo, versions="@" in typed), typed)
    if wanted & {"branch", "tag", "rev", "path"}:
        with open_repo() as repo:
            yield from _of_repo(repo, wanted, typed)


def _of_repo(repo: Repo, wanted: set[str], typed: str) -> Iterator[str]:
    if ":" in typed and wanted & {"rev", "path"}:
        rev, _, start = typed.partition(":")
        entries = repo.ls(rev or "HEAD", paths.FILES + start)
        yield from (f"{rev}:{path.removeprefix(paths.FILES)}" for path, _ in islice(entries, _MOST))
        return
    before, dots, last = typed.rpartition("..") if "rev" in wanted else ("", "", typed)
    if wanted & {"branch", "rev"}:
        yield from (before + dots + name for name in _filter((b.name for b in repo.branches), last))
    if wanted & {"tag", "rev"}:
        yield from (before + dots + name for name in _filter((tag.name for tag in repo.tags), last))
    if "rev" in wanted:
        yield from (before + dots + name for name in _filter(["HEAD"], last))


def _datasets(repo: Repo, *, versions: bool) -> Iterator[str]:
    """Names, and behind an @ their versions."""
    kind = ROOMS["datasets"]
    for path, _ in repo.ls(prefix=kind.folder) if repo.head else ():
        label = kind.label(path)
        yield label if versions else label.partition("@")[0]


def _filter(names: Iterable[str], typed: str) -> Iterator[str]:
    return (name for name in names if name.startswith(typed))


def _on_disk(typed: str) -> Iterator[str]:
    folder, name = os.path.split(typed)
    try:
        with os.scandir(folder or ".") as entries:
            for entry in islice((entry for entry in entries if entry.name.startswith(name)), _MOST):
                if entry.name != config.FOLDER:
                    yield os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")
    except OSError:
        return


def _list_tracked(typed: str) -> list[str]:
    """Paths of HEAD that are not here, to bring back."""
    try:
        with open_repo() as repo:
            base = paths.here(repo.root)
            listed = (paths.bare(path, base) for path, _ in (repo.ls(prefix=paths.FILES) if repo.head else ()))
            return list(islice(_filter(listed, typed), _MOST))
    except (Error, OSError):
        return []


class Bash(BashComplete):
    """Bash breaks words at colons: `HEAD:a` comes as three, and what is offered goes behind the last colon."""

    _cut = 0

    def get_completion_args(self) -> tuple[list[str], str]:
        args, typed = super().get_completion_args()
        if typed == ":" and args:
            typed = f"{args.pop()}:"
        elif len(args) > 1 and args[-1] == ":":
            typed = f"{args[-2]}:{typed}"
            args = args[:-2]
        else:
            return args, typed
        self._cut = typed.rindex(":") + 1
        return args, typed

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{item.value[self._cut :]}"
