"""What `test_advice.py` tries: for each hint of the source a situation that raises it, or the reason there is none."""

# A row a line, however long: it is a table.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import memlake as ml
from memlake.memories.memories import Draft
from memlake.memories.search import Query
from memlake.versions.checkout import update
from tests.dataset.telling import put

Step = str | Callable[[Path], object]


@dataclass(frozen=True)
class Situation:
    """A set-up, a command that gives advice, and what is true once the advice is followed.

    Steps are parted by semicolons: `a=1` writes a file (`|` ends a line, `+` is a space in its name), `keep one`
    commits everything, and the rest are command lines of memlake.
    """

    name: str
    setup: Step | tuple[Step, ...]
    command: str  # what the user types; it fails unless `works`
    line: str  # the advice as the source has it, each value as {}
    advised: str = ""  # the command in that line, where it names several
    first: Step = ""  # what the line asks for before it
    again: bool = False  # the user's command works now
    shows: str = ""  # what the advised command prints
    then: str = ""  # steps that work now
    fill: dict[str, str] = field(default_factory=dict)  # what only the user knows
    works: bool = False
    code: int = 0  # of the advised command
    repo: bool = True
    env: dict[str, str] = field(default_factory=dict)


ONE = "a=1; keep one"
DOUBT = ("config embedding.provider none; a=1; keep one; remember tea --uses a", "a=2")
SHARED = f"{ONE}; remote add origin $SHARED; push"
TWO = f"{ONE}; a=2; keep two"
DEV = f"{ONE}; switch -c dev; b=2; keep two; switch main"  # dev is one commit ahead
APART = f"{ONE}; switch -c dev; a=2; keep two; switch main; a=3; keep three"  # a differs on both
WAITS = (APART, "!merge dev")
INSIDE = ('p.json={"a": 1, "b": 1}; keep one; switch -c dev; p.json={"a": 2, "b": 2}; keep two; switch main; p.json={"a": 3, "b": 1}; keep three', "!merge dev")  # one value of a file
AGAIN = (*WAITS, "resolve --ours; merge --continue; undo; undo; undo")  # a merge that was settled once
MERGED = f"{ONE}; switch -c dev; b=2; keep two; switch main; c=3; keep three; merge dev"
PICKING = (f"{APART}; d=1; keep four", "!cherry-pick dev")
NO_MODEL = "config embedding.provider none"


def _move_on(root: Path) -> None:
    with ml.open(root) as repo:
        repo.write({"files/by-another": b"1"}, "meanwhile", branch="main")


def _pets(_root: Path) -> None:
    ml.read_values(x=[1, 2]).save("pets")


def _more_pets(_root: Path) -> None:
    ml.read_values(x=[1, 2, 3]).save("pets")


def _cells(*values: int) -> Callable[[Path], object]:
    """pets with an id and these values; rows of one value have no key."""
    ids = list(range(len(values)))
    return lambda _root: ml.read_values(**({"v": list(values)} if len(values) > 2 else {"id": ids, "v": list(values)})).save("pets")


def _without_code(root: Path) -> None:
    _pets(root)
    with ml.open(root) as repo:
        put(repo.datasets(), "pets", provenance={})


def _scripted(root: Path) -> None:
    """pets, as if a script had saved it."""
    _pets(root)
    source = "import memlake as ml\nml.read_values(x=[1, 2]).save('pets')\n"
    with ml.open(root) as repo:
        told = {**repo.datasets().get("pets").provenance, "source_kind": "script", "source_name": "p.py"}
        put(repo.datasets(), "pets", provenance={**told, "source": source})


def _commit_bare(folder: Path) -> None:
    with ml.open(folder) as repo:
        repo.write({"files/a": "1"}, "one")


def _move_packs(root: Path) -> None:
    shutil.move(root / ".memlake/packs", root / "disk")
    with ml.open(root) as repo:
        repo.config.set("core.packs", str(root / "disk"))


def _fill(root: Path) -> None:
    (root / "full").mkdir()
    (root / "full" / "x").write_text("1")


def _fill_shared(root: Path) -> None:
    _fill(root)
    (root / "full").rename(f"{root}.shared")


def _empty_shared(root: Path) -> None:
    shutil.rmtree(f"{root}.shared")


def _bundle(root: Path) -> None:
    with ml.open(root) as repo:
        repo.remotes.bundle(f"{root}.bundle")


def _late(root: Path) -> None:
    """A clone, and a bundle that begins after a commit which the clone does not have."""
    with ml.open(root) as repo:
        repo.remotes.bundle(root / "all.bundle")
        ml.clone(root / "all.bundle", root / "d").close()
        repo.write({"files/b": b"1"}, "three", branch="main")
        repo.switch("base", create=True)
        repo.write({"files/b": b"2"}, "four", branch="main")
        repo.remotes.bundle(root / "late.bundle", "base..main")


def _others(root: Path) -> None:
    """Somebody else clones what is shared, and pushes a commit of their own."""
    with ml.clone(f"{root}.shared", root / "theirs") as repo:
        repo.write({"files/by-another": b"1"}, "theirs", branch="main")
        repo.push()


def _strangers(root: Path) -> None:
    with ml.init(root / "stranger") as repo:
        repo.write({"files/x": b"1"}, "other", branch="main")
        repo.remotes.add("origin", f"{root}.shared")
        repo.push()


def _untrust(root: Path) -> None:
    """The repo as it would be, had somebody else sent it."""
    file = root / ".memlake" / "remotes" / "origin" / "remote.json"
    file.write_text(file.read_text().replace(f'{root}.shared"', f'{root}.shared2"'))


def _unmark(root: Path) -> None:
    (root / "a").write_text("both\n")


def _damage(name: str, at: int = 8192) -> Callable[[Path], object]:
    def damage(root: Path) -> None:
        with next((root / ".memlake").glob(name)).open("r+b") as file:
            file.seek(at)
            file.write(b"\xa5" * 4096)

    return damage


def _other_writer(root: Path) -> None:
    """Another checkout of the branch commits, as an agent does through the library."""
    with ml.open(root) as repo:
        repo.write({"files/other": b"theirs\n"}, message="theirs")


def _big(root: Path) -> None:
    (root / "big").write_bytes(os.urandom(3 << 20))


def _many(text: str) -> Callable[[Path], object]:
    return lambda root: [(root / f"f{number}").write_text(text) for number in range(61)]


def _flip(folder: str) -> Callable[[Path], object]:
    """Changes a byte in the middle of the first file of a folder."""

    def flip(root: Path) -> None:
        path = next(path for path in (root / ".memlake" / folder).rglob("*") if path.is_file())
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 255
        path.chmod(0o644)
        path.write_bytes(data)

    return flip


def _other_change(root: Path) -> None:
    with ml.open(root) as repo:
        repo.write({"files/a": b"theirs\n"}, message="theirs")


def _update(root: Path) -> None:
    """An agent changes the first memory through the library, which is no operation of this checkout."""
    with ml.open(root) as repo:
        memories = repo.memories()
        memory = memories.list_memories(Query())[0]
        memories.update(memory.memory_id, Draft("water"), changed=["content"])


def _expire(root: Path) -> None:
    with ml.open(root) as repo:
        repo.memories().create_branch("short", ttl_seconds=1e-6)


def _other_memory(root: Path) -> None:
    with ml.open(root) as repo:
        repo.memories().store(Draft("Boats are blue"))


def _answer(_root: Path) -> None:
    ml.read_values(x=[1, 2]).mutate(y=ml.C("x") * 2).show()


def _interrupt(root: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, ml.open(root) as repo, suppress(KeyboardInterrupt):
        patch.setattr(update, "finish", stop)
        repo.switch("dev")


def _format(number: int | None) -> Callable[[Path], object]:
    def write(root: Path) -> None:
        with ml.open(root) as repo, repo._history.db.write():
            repo._history.db.run("DELETE FROM meta WHERE key = 'format'")
            if number is not None:
                repo._history.db.run("INSERT INTO meta VALUES('format', ?)", (number,))

    return write


SPLIT = (NO_MODEL, "remember 'User phone: 1111'; branch draft; memory update $MEMORY 'User phone: 2222'; memory update $MEMORY 'User phone: 3333' --branch draft")
STATUS = "status --ignored"

FILES = [
    Situation("add alone", "a=1", "add", "hint: To add everything here, run: memlake add .", works=True, then="commit -m x"),
    Situation("rm of a folder", "my+d/a=1; keep one", "rm 'my d'", "To remove it with everything in it: memlake rm -r {}", then="commit -m x"),
    Situation("restore nothing", f"{ONE}; a=2", "restore", "To restore everything in this folder: memlake restore .", then="diff --exit-code"),
    Situation("ignored", ".memlakeignore=*.log; my+x.log=1", "add 'my x.log'", "Stage it all the same with: memlake add -f {}", then="commit -m x"),
    Situation("ignored, from a folder", "d/.memlakeignore=*.log; d/x.log=1", "-C d add x.log", "Stage it all the same with: memlake add -f {}", then="commit -m x"),
    Situation("a new file to commit", f"{ONE}; my+b=1", "commit -m x 'my b'", "Stage a new file first: memlake add {}", again=True),
    Situation("no such file to commit", ONE, "commit -m x nosuch", "See what is tracked with: memlake ls", shows="a"),
    Situation("rm of nothing", ONE, "rm nosuch", "See what is tracked with: memlake ls", shows="a"),
    Situation("restore of nothing", ONE, "restore nosuch", "See what is there with: memlake ls", shows="a"),
    Situation("nothing staged", "a=1", "commit -m x", "Stage what changed with: memlake add -A", again=True),
    Situation("ls of no such path", ONE, "ls HEAD:nosuch", "See what is there with: memlake ls {}", shows="a"),
    Situation("cat of no such path", ONE, "show HEAD:nosuch", "See what is there with: memlake ls {}", shows="a"),
    Situation("lineage of what", ONE, "lineage nosuch", "See what there is: memlake ls", shows="a"),
    Situation("lineage of a dataset", ONE, "lineage nosuch", "Or: memlake dataset ls"),
    Situation("lineage of a commit", ONE, "lineage nosuch", "Or: memlake log", shows="one"),
    Situation("a secret", "my+d/.env=TOKEN", "add .", "{} looks like {}. If it should not be kept for ever, unstage it with `memlake restore --staged {}` and keep it out with `echo {} >> .memlakeignore`.", works=True),
    Situation("blame of a picture", ("a=1; keep one", lambda root: (root / "p").write_bytes(b"\0" * 99), "keep two"), "blame p", "See the commits that changed it: memlake log -- {}", shows="two"),
    Situation("a file that is a folder", "a=1; keep one; rm a; a/b=1; add a/b", "commit -m x a/b", "Commit both together: memlake commit -m MESSAGE {}"),
]

STATUSES = [
    Situation("staged", f"{ONE}; a=2; add a", "status", 'use "memlake restore --staged <file>..." to unstage', works=True, fill={"<file>...": "a"}, then="restore a"),
    Situation("staged at first", "a=2; add a", "status", 'use "memlake rm --cached <file>..." to unstage', works=True, fill={"<file>...": "a"}),
    Situation("changed", f"{ONE}; a=2", "status", 'use "memlake add <file>..." to update what will be committed', works=True, fill={"<file>...": "a"}, then="commit -m x"),
    Situation("changed, to drop", f"{ONE}; a=2", "status", 'use "memlake restore <file>..." to discard changes in the working folder', works=True, fill={"<file>...": "a"}, then="diff --exit-code"),
    Situation("changed, to commit", f"{ONE}; a=2", "status", 'no changes added to commit (use "memlake add" and/or "memlake commit -a")', "memlake commit -a", works=True, fill={"-a": "-am x"}),
    Situation("untracked", f"{ONE}; b=2", "status", 'use "memlake add <file>..." to include in what will be committed', works=True, fill={"<file>...": "b"}, then="commit -m x"),
    Situation("ignored files", ".memlakeignore=b; b=2", STATUS, 'use "memlake add -f <file>..." to include in what will be committed', works=True, fill={"<file>...": "b"}, then="commit -m x"),
    Situation("behind", (ONE, _other_writer), "status", '(use "memlake switch <branch>" to bring the files up to date)', works=True, fill={"<branch>": "main"}, then="cat other"),
    Situation("merging", WAITS, "status", '(use "memlake {} --abort" to give it up)', works=True, then="diff --exit-code"),
    Situation("purged and away", (f"{ONE}; purge a --reason test -y", lambda root: (root / "a").unlink(), "reset --hard"), "status", 'use "memlake rm <file>..." to drop from the next commit', works=True, fill={"<file>...": "a"}, then="commit -m x"),
    Situation("a stash of purged content", f"{ONE}; a=2; stash; purge stash@{{0}}:a --reason test -y", "stash pop", "Forget it with: memlake stash drop {}", then="status"),
    Situation("content at a remote", (_big, "keep one; remote add origin $SHARED; push; drop big"), "status", '(use "memlake restore <file>..." to bring them)', works=True, fill={"<file>...": "big"}, then="diff --exit-code"),
    Situation("content that was dropped", (_big, "keep one; remote add origin $SHARED; push"), "drop big", "The disk has the room back after: memlake gc", works=True, then="restore big"),
    Situation("a drop of what was not sent", (_big, "keep one; remote add origin $SHARED"), "drop big", "Send them first: memlake push", again=True),
    Situation("a drop of edits", f"{SHARED}; a=2", "drop a", "Keep the changes: memlake commit -a -m MESSAGE && memlake push", "memlake commit -a -m MESSAGE", fill={"MESSAGE": "m"}, again=True),
    Situation("a drop of edits, then", f"{SHARED}; a=2", "drop a", "Keep the changes: memlake commit -a -m MESSAGE && memlake push", "memlake push", first="commit -a -m m"),
    Situation("a drop of edits, to lose them", f"{SHARED}; a=2", "drop a", "Or drop them: memlake restore {}", again=True),
    Situation("a branch of a remote", SHARED, "branch -d origin/main", "Forget all that came from there: memlake remote remove {}"),
    Situation("a branch at a remote", f"{ONE}; branch side; remote add origin $SHARED; push origin main side", "branch -d origin/side", "Or, at a remote, delete it there: memlake push {} --delete {}"),
    Situation("no remote yet", ONE, "push", "Add one, a folder or a bucket: memlake remote add origin s3://BUCKET/PREFIX", fill={"s3://BUCKET/PREFIX": "$SHARED"}, again=True),
    Situation("a remote of that name", SHARED, "remote add origin $SHARED2", "Give it another address: memlake remote set-url {} {}", then="push"),
    Situation("nobody pushed yet", f"{ONE}; remote add origin $SHARED", "fetch", "Check the address, or be the first: memlake push {}", again=True),
    Situation("a remote of another repo", (ONE, _strangers, "remote add origin $SHARED"), "fetch", "Clone it into a folder of its own: memlake clone {} FOLDER", fill={"FOLDER": "mine"}),
    Situation("an address that somebody sent", (SHARED, _untrust), "fetch", "If you trust it: memlake remote set-url {} {}{}", code=0, then="push"),
    Situation("somebody pushed before", (SHARED, _others, "b=2; add b; commit -m mine"), "push", "Join them first: memlake pull {} && memlake push {}", "memlake pull {}", again=True),
    Situation("somebody pushed before, then", (SHARED, _others, "b=2; add b; commit -m mine"), "push", "Join them first: memlake pull {} && memlake push {}", "memlake push {}", first="pull"),
    Situation("a lease that ended", (SHARED, _others, "commit --amend -m again"), "push --force-with-lease", "See what came with: memlake fetch"),
    Situation("a folder with things in it", (SHARED, _fill), "clone $SHARED full", "Name a new folder: memlake clone {} FOLDER", fill={"FOLDER": "mine"}),
    Situation("a push of no branch", f"{SHARED}; switch -d HEAD", "push", "Name one: memlake push origin BRANCH", fill={"BRANCH": "main"}),
    Situation("a pull of what is not there", f"{SHARED}; switch -c dev", "pull", "See its branches: memlake branch -r", shows="origin/main"),
    Situation("a pull of what was not shared", f"{SHARED}; switch -c dev", "pull", "To share yours: memlake push {}", again=True),
    Situation("a tag that is elsewhere there", f"{SHARED}; tag v1; push origin v1; b=1; add b; commit -m two; tag -f v1", "push origin v1", "To replace it there: memlake push --force {} {}", again=False),
    Situation("a tier that nobody named", ONE, "tier move", "Name one: memlake tier set cold s3://ARCHIVE", fill={"s3://ARCHIVE": "cold"}, again=True),
    Situation("a branch of two remotes", f"{ONE}; branch dev; remote add a $SHARED/1; remote add b $SHARED/2; push a main dev; push b main dev; branch -D dev", "switch dev", "Say which: memlake switch -c {} {}", then="status"),
    Situation("the last remote with an archive", f"{TWO}; remote add origin $SHARED; push; archive --older-than 0d", "remote remove origin", "Have it here again first: memlake archive --back && memlake remote remove {}", "memlake archive --back", again=True),
    Situation("the last remote with an archive, then", f"{TWO}; remote add origin $SHARED; push; archive --older-than 0d", "remote remove origin", "Have it here again first: memlake archive --back && memlake remote remove {}", "memlake remote remove {}", first="archive --back"),
    Situation("a purge by a part of an id", ONE, "purge abcdef12 --reason r -y", "An id is given with all of its 64 digits: memlake ls --json", shows="oid"),
    Situation("a bundle of a commit", TWO, "bundle create b.bundle HEAD~1", "Give the commit a name first: memlake tag NAME REV", fill={"NAME": "v1", "REV": "HEAD~1"}, then="bundle create b.bundle v1"),
    Situation("a bundle that begins elsewhere", (TWO, _late), "-C d bundle unbundle ../late.bundle", "Ask for one of the whole history: memlake bundle create {}"),
    Situation("a remote with other things in it", (ONE, _fill_shared, "remote add origin $SHARED"), "push", "Use a folder or prefix of its own: memlake remote set-url {} {}", again=True),
    Situation("a remote inside the repo", ONE, "remote add origin r", "Use one beside it: memlake remote {} {} {}", then="push"),
    Situation("a clone of a working folder", ONE, "clone . d", "Let it push to a folder, and clone that: memlake -C {} remote add origin FOLDER && memlake -C {} push", "memlake -C {} remote add origin FOLDER", fill={"FOLDER": "$SHARED"}, then="push; clone $SHARED d"),
    Situation("a clone of a working folder, pushed", ONE, "clone . d", "Let it push to a folder, and clone that: memlake -C {} remote add origin FOLDER && memlake -C {} push", "memlake -C {} push", first="remote add origin $SHARED", then="clone $SHARED d"),
    Situation("a clone of a working folder, by a file", ONE, "clone . d", "Or clone a file: memlake -C {} bundle create {} && memlake clone {} FOLDER", "memlake -C {} bundle create {}"),
    Situation("a clone of a working folder, from a file", ONE, "clone . d", "Or clone a file: memlake -C {} bundle create {} && memlake clone {} FOLDER", "memlake clone {} FOLDER", first=_bundle, fill={"FOLDER": "d"}),
    Situation("a remote that moved", (f"{SHARED}; a=2; keep two", _empty_shared), "push", "If it moved: memlake remote set-url {} URL", fill={"URL": "$SHARED2"}, again=True),
    Situation("a remote that is gone", (f"{SHARED}; a=2; keep two", _empty_shared), "push", "If it is gone, send all of it again: memlake remote refresh {} && memlake push {}", "memlake remote refresh {}", again=True),
    Situation("a remote that is gone, sent", (f"{SHARED}; a=2; keep two", _empty_shared), "push", "If it is gone, send all of it again: memlake remote refresh {} && memlake push {}", "memlake push {}", first="remote refresh origin"),
    Situation("a tier in a folder in use", (ONE, _fill), "tier set cold full", "memlake tier set cold {}", fill={"NEW": "new"}),
    Situation("writing that was reverted", "remember Paris", "memory revert --source person", "{} in all. To bring them back: memlake undo", works=True, then="memory show $MEMORY"),
    Situation("a bisect goes on", f"{TWO}; c=1; keep three; d=1; keep four; bisect start HEAD HEAD~3", "status", '(use "memlake bisect good" or "memlake bisect bad" to say what this one is)', "memlake bisect good", works=True),
    Situation("a bisect goes on, bad", f"{TWO}; c=1; keep three; d=1; keep four; bisect start HEAD HEAD~3", "status", '(use "memlake bisect good" or "memlake bisect bad" to say what this one is)', "memlake bisect bad", works=True),
    Situation("a bisect is left", f"{TWO}; c=1; keep three; d=1; keep four; bisect start HEAD HEAD~3", "status", '(use "memlake bisect reset" to go back to where you were)', works=True),
    Situation("a rebase that waits, in status", (APART, "!rebase dev"), "status", '(use "memlake rebase --skip" to leave this commit out)', works=True, shows="Left out"),
    Situation("a file that is away", (_big, "keep one; remote add origin $SHARED; push; clone --filter none $SHARED d"), "-C d status", '(use "memlake restore <file>..." to bring them)', fill={"<file>...": "big"}, works=True),
    Situation("a purge that a remote has not heard of", SHARED, "purge a --reason x --yes", "{} still has it, until you push there: memlake push {}", works=True),
    Situation("merged by hand", (*WAITS, _unmark), "status", 'edit the file and use "memlake add <file>" to mark it resolved', works=True, fill={"<file>": "a"}, then="merge --continue"),
    Situation("to see each place", WAITS, "status", 'use "memlake conflicts" to see each place, and "memlake resolve <path> --ours" or "--theirs" to settle it', advised="memlake conflicts", works=True, shows="line 1"),
    Situation("to settle a place", WAITS, "status", 'use "memlake conflicts" to see each place, and "memlake resolve <path> --ours" or "--theirs" to settle it', advised="memlake resolve <path> --ours", works=True, fill={"<path>": "a"}, then="merge --continue"),
    Situation("to take a side", WAITS, "status", 'use "memlake merge --ours <path>" or "--theirs <path>" to take one side whole', works=True, fill={"<path>": "a"}, then="merge --continue"),
    Situation("places inside a file", INSIDE, "merge --continue", "See the places with `memlake conflicts`, and settle them with `memlake resolve {} --ours`.", advised="memlake conflicts", shows="p.json (changed on both sides, 1 of 1 place open)"),
    Situation("places inside a file, settled", INSIDE, "merge --continue", "See the places with `memlake conflicts`, and settle them with `memlake resolve {} --ours`.", advised="memlake resolve {} --ours", again=True),
    Situation("conflicts", INSIDE, "conflicts", "Settle one with: memlake resolve {} --ours (or --theirs, --union, --latest, --edit)", works=True, then="merge --continue"),
    Situation("conflicts that are settled", (*INSIDE, "resolve p.json --theirs"), "conflicts", "Every conflict is resolved. Finish with: memlake {} --continue", works=True, then="diff --exit-code"),
    Situation("nobody to ask", WAITS, "resolve", "Name a side: memlake resolve {} --ours", then="merge --continue"),
    Situation("a condition without a side", INSIDE, "resolve --where path=a", "For example: memlake resolve --ours --where {}", then="merge --continue"),
    Situation("a condition for a whole file", (f"{ONE}; switch -c dev; rm a; keep two; switch main; a=3; keep three", "!merge dev"), "resolve --ours --where id=1", "See what waits: memlake conflicts", shows="deleted by them"),
    Situation("resolve what was edited", (*INSIDE, "p.json=mine"), "resolve p.json --ours", "Or drop the edit first: memlake restore --merge {}", again=True),
    Situation("settled as before", AGAIN, "merge dev", "Finish it with `memlake {} --continue`, or give up with `memlake {} --abort`.", advised="memlake {} --continue", then="diff --exit-code"),
    Situation("settled as before, given up", AGAIN, "merge dev", "Finish it with `memlake {} --continue`, or give up with `memlake {} --abort`.", advised="memlake {} --abort", then="diff --exit-code"),
    Situation("edit without a terminal", WAITS, "resolve a --edit", "Edit the file, then: memlake add {}", first=_unmark, then="merge --continue"),
    Situation("every conflict has a choice", (*WAITS, "merge --theirs a"), "status", '(use "memlake {} --continue" to finish it)', works=True, then="diff --exit-code"),
]

MERGES = [
    Situation("a merge stops, by hand", (APART,), "merge dev", "Edit the lines between the markers, then `memlake add {}`.", first=_unmark, then="merge --continue"),
    Situation("a merge stops, a side", (APART,), "merge dev", "{}To take one side as it is: `memlake merge --ours {}` or `--theirs {}`.", then="merge --continue"),
    Situation("a merge stops, finished", (APART,), "merge dev", "Then finish with `memlake {} --continue`, or give up with `memlake {} --abort`.", "memlake {} --continue", first="merge --theirs a", then="diff --exit-code"),
    Situation("a merge stops, given up", (APART,), "merge dev", "Then finish with `memlake {} --continue`, or give up with `memlake {} --abort`.", "memlake {} --abort", then="diff --exit-code"),
    Situation("the last choice", WAITS, "merge --theirs a", "Every conflict is resolved. Finish with `memlake {} --continue`.", works=True, then="diff --exit-code"),
    Situation("picks to come", f"{APART}; switch dev; e=1; keep five; switch main", "cherry-pick dev~1 dev", "When it is finished, do the rest with `memlake {} {}`.", first="merge --theirs a; cherry-pick --continue", then="cat e"),
    Situation("commit too early, by hand", WAITS, "commit -m x", "Edit it, then: memlake add {}", first=_unmark, again=True),
    Situation("commit too early, a side", WAITS, "commit -m x", "{}: memlake merge --ours {}, or --theirs {}", again=True),
    Situation("switch while it waits", (*WAITS, "merge --ours a"), "switch dev", "Finish it with: memlake {} --continue", again=True),
    Situation("switch while it waits, given up", WAITS, "switch dev", "Or give it up with: memlake {} --abort", again=True),
    Situation("stash while a pick waits", PICKING, "stash", "Or give it up with: memlake {} --abort", then="diff --exit-code"),
    Situation("markers left, taken", WAITS, "add a", "If the line belongs there: memlake add -f {}", then="merge --continue"),
    Situation("markers left, a side", WAITS, "add a", "Or take one side whole: memlake merge --ours {}, or --theirs {}", then="merge --continue"),
    Situation("markers left, edited", WAITS, "add a", "Edit it until the markers are gone, then: memlake add {}", first=_unmark, then="merge --continue"),
    Situation("merge of what", DEV, "merge", "See the branches with: memlake branch", shows="dev"),
    Situation("revert what", TWO, "revert", "For example: memlake revert HEAD", then="cat a"),
    Situation("pick what", DEV, "cherry-pick", "See what another branch has: memlake log BRANCH --oneline", fill={"BRANCH": "dev"}, shows="two"),
    Situation("ours of what", WAITS, "merge --ours", "See the conflicts with: memlake status", shows="both modified"),
    Situation("an empty range", DEV, "cherry-pick dev..dev", "A..B is what B has and A does not have. See it with: memlake log {} --oneline"),
    Situation("not in conflict", WAITS, "restore --merge nosuch", "See what is in conflict with: memlake status", shows="both modified"),
    Situation("nothing waits", ONE, "merge --abort", "See where you are: memlake status", shows="On branch main"),
    Situation("no pick waits", ONE, "cherry-pick --continue", "See where you are: memlake status", shows="On branch main"),
    Situation("a pick that was declined", (*PICKING, "merge --ours a"), "cherry-pick --continue", "To choose again: memlake undo", then="merge --theirs a; cherry-pick --continue"),
    Situation("picked already", f"{DEV}; cherry-pick dev", "cherry-pick dev", "See: memlake log --oneline", shows="two"),
    Situation("staged already", f"{DEV}; cherry-pick -n dev", "cherry-pick -n dev", "See: memlake diff --cached", shows="b"),
    Situation("merge over a stage", f"{DEV}; c=1; add c", "merge dev", "Put them aside: memlake stash", again=True),
    Situation("merge over a stage, committed", f"{DEV}; c=1; add c", "merge dev", "Or commit them: memlake commit -m MESSAGE", again=True),
    Situation("only fast-forward", APART.replace("a=3", "c=3"), "merge --ff-only dev", "Merge it with: memlake merge {}"),
    Situation("merge of nothing", "branch -m other; a=1", "merge other", "See what the branches have: memlake branch -v"),
    Situation("revert of a merge", MERGED, "revert HEAD", "To {} what the merge brought: memlake {} -m 1 {}", then="diff --exit-code"),
    Situation("no such parent", MERGED, "revert -m 7 HEAD", "See them with: memlake log --graph --oneline", shows="Merge"),
    Situation("no side of it", ONE, "show :2:a", "See what is: memlake status", shows="On branch main"),
]

BRANCHES = [
    Situation("detached, to keep", TWO, "checkout HEAD~1", "memlake switch -c <new-branch-name>", works=True, fill={"<new-branch-name>": "new"}, then="log new"),
    Situation("detached, to go back", TWO, "checkout HEAD~1", "To go back: memlake switch -", works=True, then="show main"),
    Situation("move the branch one is on", TWO, "branch -f main HEAD~1", "Move it with its files: memlake reset --hard {}", then="diff --exit-code HEAD"),
    Situation("delete the branch one is on", f"{ONE}; branch other", "branch -d main", "Switch to another one first: memlake switch {}", again=True),
    Situation("delete the only branch", ONE, "branch -d main", "Switch to another one first: memlake switch {}", fill={"NAME": "new"}, again=True),
    Situation("unmerged, merge", DEV, "branch -d dev", "Merge it first: memlake merge {}", again=True),
    Situation("unmerged, delete", DEV, "branch -d dev", "Or delete it all the same (the reflog keeps its commits): memlake branch -D {}"),
    Situation("a commit to look at", TWO, "switch HEAD~1", "Look at it with: memlake switch --detach {}", then="switch main"),
    Situation("a commit to begin at", TWO, "switch HEAD~1", "Start a branch there: memlake switch -c NAME {}", fill={"NAME": "new"}, then="switch main"),
    Situation("a branch of nothing", "", "branch dev", "Commit or remember something first, or start with: memlake switch -c {}", then="a=1; keep one; log dev"),
    Situation("untracked in the way", f"{ONE}; switch -c dev; f=theirs; keep two; switch main; f=mine", "switch dev", "Put it aside: memlake stash -u", again=True),
    Situation("untracked in the way, committed", f"{ONE}; switch -c dev; f=theirs; keep two; switch main; f=mine", "switch dev", "Or commit it: memlake add -A && memlake commit -m MESSAGE", "memlake add -A", then="commit -m x; switch dev"),
    Situation("untracked in the way, added", (f"{ONE}; switch -c dev; f=theirs; keep two; switch main; f=mine; g=1"), "switch dev", "Or commit it: memlake add -A && memlake commit -m MESSAGE", "memlake commit -m MESSAGE", first="add -A", again=True),
    Situation("edited in the way", f"{ONE}; switch -c dev; a=2; keep two; switch main; a=mine", "switch dev", "Put it aside: memlake stash", again=True),
    Situation("edited in the way, committed", f"{ONE}; switch -c dev; a=2; keep two; switch main; a=mine", "switch dev", "Or commit it: memlake commit -a -m MESSAGE", again=True),
    Situation("no earlier branch", ONE, "switch -", "See the branches with: memlake branch", shows="main"),
    Situation("no such branch", ONE, "branch -d nosuch", "See them with: memlake {}", shows="main"),
    Situation("no such tag", f"{ONE}; tag v1", "tag -d nosuch", "See them with: memlake {}", shows="v1"),
    Situation("a name that is taken", ONE, "branch main", "Choose another name, or see it with: memlake show {}", shows="one"),
    Situation("no such rev, branches", f"{ONE}; branch zz", "show nosuch", "See: memlake branch, memlake tag, memlake log --oneline", "memlake branch", shows="zz"),
    Situation("no such rev, tags", f"{ONE}; tag zz", "show nosuch", "See: memlake branch, memlake tag, memlake log --oneline", "memlake tag", shows="zz"),
    Situation("no such rev, commits", ONE, "show nosuch", "See: memlake branch, memlake tag, memlake log --oneline", "memlake log --oneline", shows="one"),
    Situation("rebase on nothing", f"{DEV}; switch dev", "rebase", "For example: memlake rebase main", shows="up to date"),
    Situation("no rebase waits", ONE, "rebase --abort", "See where you are: memlake status", shows="On branch main"),
    Situation("a moved branch under a rebase", (APART, "!rebase dev", _move_on, "merge --ours a"), "rebase --continue", "Give the rebase up with: memlake rebase --abort", shows="given up"),
    Situation("a rebase that stops", APART, "rebase dev", "Or leave this commit out with `memlake rebase --skip`.", shows="Left out"),
    Situation("no bisect", TWO, "bisect good", "Begin one with: memlake bisect start BAD GOOD", fill={"BAD": "HEAD", "GOOD": "HEAD~1"}, shows="first bad commit"),
    Situation("a second bisect", f"{TWO}; bisect start", "bisect start", "End it with: memlake bisect reset", again=True),
    Situation("good after bad", f"{TWO}; a=3; keep three; bisect start HEAD~1 HEAD~2", "bisect good main", "See what was said: memlake bisect log", shows="bisect bad"),
    Situation("a search over nothing", TWO, "bisect start --run true --good HEAD", "See how they lie: memlake log --graph --oneline", shows="two"),
    Situation("marks that are missing, good", TWO, "bisect start", "Name a good and a bad commit: `memlake bisect good REV`, `memlake bisect bad REV`.", "memlake bisect good REV", fill={"REV": "HEAD~1"}, works=True),
    Situation("marks that are missing, bad", TWO, "bisect start", "Name a good and a bad commit: `memlake bisect good REV`, `memlake bisect bad REV`.", "memlake bisect bad REV", fill={"REV": "HEAD"}, works=True),
    Situation("a bisect that is done", TWO, "bisect start HEAD HEAD~1", "To go back to where you were: memlake bisect reset", works=True, shows="on main again"),
    Situation("a grid over work", "t.py=1; keep one; t.py=2", "run t.py --grid n=1 --branch hp/{n}", "Commit it: memlake commit -a -m MESSAGE", again=True),
    Situation("a grid over work, put aside", "t.py=1; keep one; t.py=2", "run t.py --grid n=1 --branch hp/{n}", "Or put it aside: memlake stash", again=True),
    Situation("a grid over untracked files", "t.py=1; keep one; log=mine", "run t.py --grid n=1 --branch hp/{n}", "Put it aside: memlake stash -u", again=True),
    Situation("a grid over untracked files, committed", "t.py=1; keep one; log=mine", "run t.py --grid n=1 --branch hp/{n}", "Or commit it: memlake add -A && memlake commit -m MESSAGE", "memlake add -A", then="commit -m x; run t.py --grid n=1 --branch hp/{n}"),
    Situation("no tag before it", ONE, "describe", "Name one with: memlake tag v1.0 {}", again=True),
    Situation("no tag before it, by id", ONE, "describe", "Or show the id alone: memlake describe --always"),
    Situation("no tag right there", f"{ONE}; tag v1; a=2; keep two", "describe --exact-match", "Name the nearest: memlake describe", shows="v1-1-"),
    Situation("grep for nothing", "a=TODO; keep one", "grep", "For example: memlake grep TODO", shows="a:TODO"),
    Situation("clean without a word", f"{ONE}; b=2", "clean", "See what would go: memlake clean -n -d", shows="Would remove b"),
    Situation("promoted already", f"{DEV}; branch prod dev", "promote b --from dev --to prod", "See what runs there: memlake promote --list --to {}"),
    Situation("memories are not promoted", f"{DEV}", "promote memories/a/b --from dev --to main", "Memories of a branch come with a merge: memlake merge {}"),
    Situation("nothing there to promote", DEV, "promote nosuch --from dev --to main", "See what it has: memlake ls {}", shows="b"),
    Situation("promote what", f"{ONE}; models/m=1; keep two; branch production; switch -c staging; models/m=2; keep three", "promote", "For example: memlake promote models/ --from staging --to production"),
    Situation("changed since it was promoted", f"{DEV}; promote b --from dev --to main; b=3; keep three", "promote --undo", "See how: memlake log {} --oneline", shows="three"),
    Situation("a rule says no", f"policy/merge.toml=[[rule]]|id='a'|require='metrics.f1 > 0.5'; {DEV}", "merge dev", "See what is recorded: memlake metrics {}"),
    Situation("a rule is wrong", f"policy/merge.toml=[[rule]]|name='a'; {DEV}", "merge dev", "Correct the file on the branch and commit it. See it with: memlake cat {}", shows="name='a'"),
    Situation("nothing measured", ONE, "metrics", "Record one with: memlake commit --allow-empty -m MESSAGE --metric accuracy=0.9", works=True, then="metrics --sort accuracy"),
    Situation("beyond the first", ONE, "show HEAD~7", "See: memlake log --oneline", shows="one"),
    Situation("no second parent", ONE, "show HEAD^2", "See: memlake log --graph --oneline", shows="one"),
    Situation("beyond the reflog", ONE, "show main@{9}", "See them with: memlake reflog {}", shows="one"),
    Situation("not a stash", f"{ONE}; a=2; stash", "stash show x", "Write stash@{0} or 0. See them with: memlake stash list", shows="stash@{0}"),
    Situation("no stash", f"{ONE}; a=2; stash", "stash show 7", "See them with: memlake stash list", shows="stash@{0}"),
    Situation("no commit yet, add", "a=1", "show", 'Make the first one with: memlake add . && memlake commit -m "first"', "memlake add .", then="commit -m x; show"),
    Situation("no commit yet", "a=1; add .", "log", 'Make the first one with: memlake add . && memlake commit -m "first"', 'memlake commit -m "first"', again=True),
    Situation("a commit of memories to switch to", (NO_MODEL, "remember tea", ONE), "switch --detach $COMMIT", "See the commits that hold files with: memlake log", shows="one"),
]

KEEPING = [
    Situation("amend to nothing, kept", f"{TWO}; a=1; add a", "commit --amend -m none", "Keep it all the same with: memlake commit --amend --allow-empty"),
    Situation("amend to nothing, taken back", f"{TWO}; a=1; add a", "commit --amend -m none", "Or take the commit back: memlake reset --soft HEAD~1", then="diff --exit-code"),
    Situation("amend of a commit not seen", (ONE, _other_writer), "commit --amend -m x", "Catch up first: memlake switch {}", again=True),
    Situation("uses what is not there", f"{ONE}; b=1; add b", "commit -m x --uses nosuch@HEAD", "Check the path; see what is there with: memlake ls {}", shows="a"),
    Situation("nothing to undo", "", "undo", "See what was done with: memlake ops"),
    Situation("nothing to redo", ONE, "redo", "See what was done with: memlake ops", shows="commit"),
    Situation("undo after a purge", (NO_MODEL, f"remember tea; {ONE}; purge a --reason test -y"), "undo", "What was done before it stands. Find a memory to forget or restore with: memlake memory log", shows="add memory"),
    Situation("purge of no such path", ONE, "purge nosuch --reason test -y", "See what it has with: memlake ls -l", shows="a"),
    Situation("purge of no such object", ONE, f"purge {'0' * 64} --reason test -y", "Check the id with: memlake ls -l", shows="a"),
    Situation("leftovers", (ONE, lambda root: [(path := root / f".memlake/tmp/{'0' * 32}.pack").write_text(""), os.utime(path, (1, 1))]), "doctor", "Remove them now with: memlake gc --prune", again=True),
    Situation("a pack that is gone", (lambda root: (root / "big").write_bytes(os.urandom(3 << 20)), "keep one", lambda root: next((root / ".memlake/packs").iterdir()).unlink()), "doctor", "See which paths need them with: memlake fsck. Then put them back from a backup or another copy of the repo.", code=1, shows="big"),
    Situation("a file in a pack that is gone", (lambda root: (root / "big").write_bytes(os.urandom(3 << 20)), "keep one", lambda root: next((root / ".memlake/packs").iterdir()).unlink(), lambda root: (root / "big").unlink()), "restore big", "See every path that needs it with: memlake fsck", code=1, shows="big"),
    Situation("a purge from a pack that is gone", (_big, "keep one", lambda root: next((root / ".memlake/packs").iterdir()).unlink()), "purge big --reason test -y", "Bring it back (mount the disk, or restore a backup), then run this again. To see what is missing: memlake doctor", code=1, shows="packs"),
    Situation("a disk of packs that is not mounted", (_big, "keep one", _move_packs, lambda root: (root / "disk").rename(root / "away")), "purge big --reason test -y", "If it is on another disk, mount it. To see what is missing: memlake doctor", code=1, shows="packs"),
    Situation("packs that were not copied back", (_big, "keep one", _move_packs), "config --unset core.packs", "memlake config --unset core.packs", first=lambda root: shutil.copytree(root / "disk", root / ".memlake/packs"), then="fsck --full"),
    Situation("packs named inside the repo", "config core.packs disk", "config core.packs .memlake/packs", "To keep them there: memlake config --unset core.packs", then=ONE),
    Situation("rescued without a name", (f"{ONE}; gc --prune", lambda root: (root / "b").write_text("".join(f"line {n} of a text\n" for n in range(2000))), "add b"), "rescue .memlake --into 'res cued'", "Get one out, before gc removes it, with: memlake -C {} cat {} > FILE", works=True, shows="line 7 of a text"),
    Situation("fsck", ONE, "fsck", "packs and parts were checked by their size only; to check their bytes too: memlake fsck --full", works=True, shows="no problem"),
    Situation("a damaged index", (NO_MODEL, "remember tea", _damage("index/*/index.db")), "doctor", "It is made again from the history, and nothing is lost: memlake fsck", code=1, again=True),
    Situation("a damaged repo.db", (TWO, _damage("repo.db")), "doctor", "See what is affected with: memlake fsck", code=1, shows="does not match its checksum"),
    Situation("a damaged repo.db that cannot be opened", (f"{ONE}; gc", _damage("repo.db", 5000)), "doctor", "memlake rescue {} --into rescued", then="-C rescued show main:a"),
    Situation("a repo without repo.db", (ONE, lambda root: [path.unlink() for path in (root / ".memlake").glob("repo.db*")]), "status", "If it never had one: memlake init", then="status"),
    Situation("a repo that lost its repo.db", (f"{ONE}; gc", lambda root: [path.unlink() for path in (root / ".memlake").glob("repo.db*")]), "status", "memlake rescue {} --into rescued", then="-C rescued show main:a"),
]

SETTINGS = [
    Situation("a repo in a bare repo", ("init --bare b", lambda root: _commit_bare(root / "b")), "init b", "Use it as it is: memlake -C {} log", repo=False, shows="one"),
    Situation("a repo in a bare repo, elsewhere", "init --bare b", "init b", "Or name another folder: memlake init FOLDER", fill={"FOLDER": "other"}, repo=False),
    Situation("a bare repo in a repo", "", "init --bare .", "Name a new folder: memlake init --bare FOLDER", fill={"FOLDER": "other"}),
    Situation("a bare repo among files", "x/a=1", "init --bare x", "Name a new folder: memlake init --bare FOLDER", fill={"FOLDER": "other"}, repo=False),
    Situation("status of a bare repo", ("init --bare b", lambda root: _commit_bare(root / "b")), "-C b status", "Name a rev to read from it: memlake -C {} show HEAD", repo=False, shows="one"),
    Situation("no repo", "", "status", "Make one with `memlake init`, or name one with `memlake -C FOLDER ...` or MEMLAKE_REPO.{}", again=True, repo=False),
    Situation("hooks without a repo", "", "hook install --client claude --scope project", "There is no repo here, so memories go to your personal one, {}. `memlake init` makes one here.", works=True, then="status", repo=False),
    Situation("no repo to set in", "", "config user.name 'Ada L'", "For your own settings: memlake config --user {}", then="config --user --unset user.name", repo=False),
    Situation("no such setting", "", "config zzz", "See all settings with `memlake config --list`.", shows="user.name"),
    Situation("a name that cannot be", "", "config user.name 'A<b'", 'For example: memlake config user.name "Ada Lovelace"', then="config user.name"),
    Situation("a setting of the user", "", "config safe.directory '/x y'", "Run: memlake config --user {} {}", then="config --user --unset safe.directory"),
    Situation("memories switched off", "config memory.enabled false", "remember tea", "Switch them on with: memlake config memory.enabled true", then=f"{NO_MODEL}; remember tea"),
    Situation("a secret to remember", (NO_MODEL, "config memory.secrets block"), "remember 'the token is ghp_8sK2mQ9xVb4LtR7nWc3ZyP6dHf1JgA5uEoTi'", "Store where the secret is kept instead of it, or allow secrets: memlake config memory.secrets warn", again=True),
    Situation("settings nobody trusted", lambda root: (root / ".memlake/config.toml").write_text('[core]\npager = "less -R"\n'), "config --list", "ignored: {}  (from the repo, which you do not trust: memlake trust)", works=True, fill={"trust": "trust --yes"}),
    Situation("trusted", lambda root: (root / ".memlake/config.toml").write_text('[core]\npager = "less -R"\n'), "trust --yes", "Trusted {}. To take it back: memlake trust --revoke", works=True),
]

def _link_worktree(root: Path) -> None:
    """A git working tree `d` with a file, and a linked worktree `t` of it, as git notes them."""
    noted = root / "d/.git/worktrees/t"
    noted.mkdir(parents=True)
    (root / "t").mkdir()
    (root / "d/f").write_text("one")
    (root / "t/.git").write_text(f"gitdir: {noted}\n")
    (noted / "gitdir").write_text(f"{root}/t/.git\n")
    (noted / "commondir").write_text("../..\n")


MEMORIES = [
    Situation("no such key", "state set phase one", "state get nosuch", "See the keys with: memlake state ls", shows="phase"),
    Situation("no such memory", (NO_MODEL, "remember tea"), "memory show 999999", "See the ids with: memlake memory ls", shows="tea"),
    Situation("a rule of no number of days", NO_MODEL, "memory evict --days nan", "Like: memlake memory stale --days 90 --max-importance 0.5", shows="Nothing is stale"),
    Situation("another project's memory", (lambda root: [(root / name / ".git").mkdir(parents=True) for name in "de"], "config --user embedding.provider none; -C e remember 'The port is 1313'"), "-C d undo", "Take it back all the same with: memlake undo --project '*'", shows="Took back: remember", repo=False),
    Situation("another project's undo", (lambda root: [(root / name / ".git").mkdir(parents=True) for name in "de"], "config --user embedding.provider none; -C e remember 'The port is 1313'; -C e undo"), "-C d redo", "Do it again all the same with: memlake redo --project '*'", shows="Did again: remember", repo=False),
    Situation("files of the main tree", (_link_worktree, "-C d init; -C d add f; -C d commit -m one"), "-C t undo", "Take it back there: memlake -C {} undo", shows="Took back: commit one", repo=False),
    Situation("files of the main tree, taken back", (_link_worktree, "-C d init; -C d add f; -C d commit -m one; -C d undo"), "-C t redo", "Do it again there: memlake -C {} redo", shows="Did again: commit one", repo=False),
    Situation("in no conflict", (NO_MODEL, "remember tea"), "memory resolve $MEMORY --keep new", "See what is in conflict with: memlake memory conflicts"),
    Situation("agents that disagree", (NO_MODEL, "remember 'User lives in Oslo' --agent cursor; remember 'User lives in Lisbon' --agent claude"), "memory conflicts", "Settle it with: memlake memory resolve {} --keep {} (or {})", works=True),
    Situation("memories that disagree", (NO_MODEL, "remember 'User lives in Oslo' --agent cursor; remember 'User lives in Lisbon' --agent claude"), "memory stats", "(memlake memory conflicts)", works=True, shows="Lisbon"),
    Situation("memories in doubt", DOUBT, "memory stats", "(memlake doubt)", works=True, shows="a changed"),
    Situation("what changed", DOUBT, "doubt", "To see what changed: memlake doubt --diff", works=True, shows="+2"),
    Situation("true all the same", DOUBT, "doubt", "If one is true all the same: memlake doubt --settle {}", works=True, shows="tea", then="!doubt --settle $MEMORY"),
    Situation("settle nothing", DOUBT, "doubt --settle", "Like: memlake doubt --settle ID", fill={"ID": "$MEMORY"}, shows="tea"),
    Situation("not in doubt", (NO_MODEL, "remember tea"), "doubt --settle $MEMORY", "See what is with: memlake doubt"),
    Situation("beside another agent's", (NO_MODEL, "remember 'User lives in Oslo' --agent cursor"), "remember 'User lives in Lisbon' --agent claude", "Not certain: `memlake memory conflicts` lists both.", works=True, shows="Lisbon"),
    Situation("a correction that is not certain", (NO_MODEL, "remember 'The API runs on port 8080'"), "remember 'The API now runs on port 9090'", "Not certain: `memlake memory restore {}` takes it back.", works=True, then="recall 8080"),
    Situation("changed by a new memory", (NO_MODEL, "remember 'The db is Postgres'; remember 'The db is now MySQL'"), "memory conflicts --decided", "memlake memory restore {} --at {}", works=True, then="recall Postgres"),
    Situation("a memory that was forgotten", (NO_MODEL, "remember tea; memory forget $MEMORY"), "memory update $MEMORY coffee", "If it was deleted, see what it was with: memlake memory history {}", shows="tea"),
    Situation("a memory before it was", (NO_MODEL, "remember tea"), "memory restore $MEMORY --at '2020-01-31 14:00'", "See when it was there with: memlake memory history {}", shows="tea"),
    Situation("memories on both sides", SPLIT, "merge draft", "For a memory: `memlake memory resolve {} --keep ours` (or theirs, or both).", then="merge --continue"),
    Situation("memories on both sides, status", (*SPLIT, "!merge draft"), "status", 'use "memlake memory conflicts" to see what both sides of a memory say', works=True, shows="3333"),
    Situation("memories on both sides, settled", (*SPLIT, "!merge draft"), "memory conflicts", "Settle it with: memlake memory resolve {} --keep {} (or {})", works=True, then="merge --continue"),
    Situation("the last memory settled", (*SPLIT, "!merge draft"), "memory resolve $MEMORY --keep ours", "Every memory is resolved. Finish with: memlake merge --continue", works=True),
    Situation("one memory of two settled", (NO_MODEL, "remember 'User phone: 1111'; remember tea; branch draft; memory update $MEMORY 'User phone: 2222'; memory update $OTHER water; memory update $MEMORY 'User phone: 3333' --branch draft; memory update $OTHER coffee --branch draft; !merge draft"), "memory resolve $MEMORY --keep ours", "{} left to resolve; see: memlake memory conflicts", works=True),
    Situation("state on both sides", "state set k one; branch dev; state set k two; state set k three --branch dev; !merge dev", "memory conflicts", "State of {}: choose with `memlake merge --ours {}` or `--theirs`.", works=True, then="merge --continue"),
    Situation("undo of a memory that changed again", (NO_MODEL, "remember tea; memory update $MEMORY coffee", _update), "undo", "See its values with: memlake memory history {}", shows="coffee"),
    Situation("undo of a memory that changed again, restored", (NO_MODEL, "remember tea; memory update $MEMORY coffee", _update), "undo", "Bring back the one before with: memlake memory restore {}", then="recall coffee"),
    Situation("a recall that is not recorded", (NO_MODEL, "remember tea; recall tea"), "recalls 7", "List them with: memlake recalls", shows="tea"),
    Situation("no golden questions", NO_MODEL, "recall-test", "What such a file holds: memlake help recall-test", shows="golden questions"),
    Situation("nothing was asked yet", (NO_MODEL, "remember tea; branch draft"), "recall-diff main..draft", "Ask something with `memlake recall`, or write questions into {}.", advised="memlake recall", shows="tea"),
    Situation("a memory that was never told", (NO_MODEL, "remember tea"), "why $MEMORY", "To see what keeps it back: memlake why-not {} QUESTION", works=True, fill={"QUESTION": "tea"}, shows="Nothing keeps it back"),
    Situation("a search in one session", (NO_MODEL, "remember 'Ann likes tea'"), "recall 'likes tea' --session s1", "memlake recall {}", works=True, shows="Ann"),
    Situation("an expired branch", (NO_MODEL, "remember tea", _expire), "recall tea --branch short", "Bring it back with `memlake branch {} {}`, or make another.", again=True),
    Situation("an import that differs", (NO_MODEL, "remember tea; memory export m.jsonl; memory update $MEMORY coffee", lambda root: (root / "m.jsonl").write_text((root / "m.jsonl").read_text().replace('"tea"', '"water"'))), "memory import m.jsonl", "Where both the file and this repo changed a memory, both texts are kept: memlake memory conflicts", works=True, shows="water"),
    Situation("undo of memories that were merged", (NO_MODEL, "remember tea; branch draft; remember 'Bikes are red' --branch draft; merge draft", _other_memory), "undo", "Memories were written there since: memlake memory log --branch {}", shows="add memory"),
    Situation("memories nobody needs", (NO_MODEL, lambda root: (root / "old.jsonl").write_text('{"content": "tea", "created_at": "2020-01-31T14:00:00Z", "importance": 0.1}\n'), "memory import old.jsonl"), "memory stats", "(memlake memory stale)", works=True, shows="tea"),
    Situation("memories of somebody", (NO_MODEL, lambda root: (root / "m.json").write_text('{"results": [{"memory": "Prefers tea", "user_id": "bob b"}]}')), "memory import m.json", "Search the memories of one user with: memlake recall QUERY --user {}", works=True, fill={"QUERY": "tea"}, shows="tea"),
]

DATASETS = [
    Situation("a program nobody allowed, looked at", _scripted, "rebuild pets", "See what it needs with: memlake rebuild {} --check", shows="can be rebuilt"),
    Situation("a program nobody allowed", _scripted, "rebuild pets", "To read the program and allow it: memlake trust --program {}", shows="pets@1.0.0 was made by p.py", code=2),
    Situation("nobody to ask about a program", _scripted, "trust --program pets", "If you do, run: memlake trust --program {} --yes", shows="Trusted."),
    Situation("a program that was allowed", _scripted, "trust --program pets --yes", "Trusted. Run it with: memlake rebuild {}", shows="is the same", works=True),
    Situation("a file of no program", f"{ONE}; train.py=1", "rebuild a", "Or name the program when you commit: memlake commit -m MESSAGE --uses train.py", first="add train.py", shows="1 file changed"),
    Situation("a file of no program, noted", f"{ONE}; train.py=print(1)", "rebuild a", "Let memlake note it before you commit: memlake run train.py"),
    Situation("code that was not recorded", _without_code, "dataset source pets", "See what was recorded: memlake dataset show {}", shows="pets"),
    Situation("rm of one of two versions", (_pets, _more_pets), "dataset rm pets", "Delete one with: memlake dataset rm {}"),
    Situation("rm of both versions", (_pets, _more_pets), "dataset rm pets", "Delete all with: memlake dataset rm {} --all"),
    Situation("diff of what", _pets, "dataset diff pets 1 2 3", "For example: memlake dataset diff pets 1.0.0 1.0.1", code=128),
    Situation("versions that both changed a cell", ("a=1; keep one", _cells(1, 1), "switch -c dev", _cells(2, 1), "switch main", _cells(3, 1)), "dataset merge pets pets@dev", "Choose a side for all of them: memlake dataset merge {} {} -X theirs", shows="Saved as pets@1.0.2"),
    Situation("versions that cannot be joined", ("a=1; keep one", _cells(1, 1, 2, 2), "switch -c dev", _cells(1, 1, 2, 3), "switch main", _cells(1, 1, 2, 4)), "dataset merge pets pets@dev", "See what differs with: memlake dataset diff {} {}"),
    Situation("no such run", "", "runs show 99", "See those that are remembered with: memlake runs"),
    Situation("an answer not saved", _answer, "runs show 1", "yes: memlake runs promote {} NAME", works=True, fill={"NAME": "kept"}, then="dataset show kept"),
    Situation("a dataset only staged", ("a=1; keep one; switch -c dev", _pets, "switch main"), "cherry-pick -n dev", "Make a commit of it: memlake {} {}", then="dataset show pets"),
    Situation("a dataset off every branch", (_pets, "a=1; keep one; switch --detach main"), "dataset rm pets", "memlake switch {}", again=True),
    Situation("a damaged part", (_pets, _flip("parts")), "dataset preview pets", "See which paths are affected with: memlake fsck --full", code=1, shows="pets"),
]

DAMAGE = [
    Situation("damaged bytes", (_big, "keep one", _flip("packs"), lambda root: (root / "big").unlink()), "restore big", "Run `memlake fsck --full` to see which paths are affected; restore it from a backup or another copy.", code=1, shows="big"),
    Situation("damaged bytes, to go back", (_big, "keep one", _flip("packs"), lambda root: (root / "big").unlink()), "restore big", "To go back to before it: memlake undo", then="status"),
    Situation("repo.db that even fsck cannot open", (f"{ONE}; gc", _damage("repo.db", 4096)), "fsck", "memlake rescue {} --into rescued", then="-C rescued show main:a"),
    Situation("repo.db with noise in it", (TWO, _damage("repo.db")), "blame a", "See what is affected with: memlake fsck", code=1, shows="repo.db"),
    Situation("a link to packs", lambda root: [(root / ".memlake/packs").rename(root.parent / f"{root.name}-packs"), (root / ".memlake/packs").symlink_to(root.parent / f"{root.name}-packs")], "status", "To keep packs on another disk, remove it and use: memlake config core.packs FOLDER", first=lambda root: (root / ".memlake/packs").unlink(), fill={"FOLDER": "p"}, then=ONE),
    Situation("a lost local.db", (ONE, lambda root: [path.unlink() for path in (root / ".memlake").glob("local.db*")]), "log", "See it with: memlake status. To stand elsewhere: memlake switch BRANCH", "memlake status", works=True, shows="On branch main"),
    Situation("a lost local.db, elsewhere", (DEV, lambda root: [path.unlink() for path in (root / ".memlake").glob("local.db*")]), "log", "See it with: memlake status. To stand elsewhere: memlake switch BRANCH", "memlake switch BRANCH", works=True, fill={"BRANCH": "dev"}),
    Situation("an interrupted switch", (f"{ONE}; switch -c dev; a=2; keep two; switch main", _interrupt), "doctor", "Finish it with: memlake status", again=True),
    Situation("a repo of an older format", (ONE, _format(1)), "status", "Your files are in the working folder. With this version, in a new folder: memlake init && memlake memory import FILE && memlake add -A", "memlake init", code=128),
    Situation("a repo without a format", (f"{ONE}; gc", _format(None)), "status", "memlake rescue {} --into rescued", then="-C rescued show main:a"),
    Situation("undo of what moved", (ONE, _other_writer), "undo", "See: memlake reflog {}", shows="main"),
    Situation("others changed the same", (ONE, "a=2", _other_change), "commit -am mine", "See the other side with `memlake log -1 --stat`, then stage what you want to keep and commit again.", shows="theirs"),
    Situation("no base of it", (f"{ONE}; switch -c dev; b=2; keep two; switch main; b=3; keep three; !merge dev",), "show :1:b", "See: memlake status", shows="b"),
    Situation("both lanes compared", (NO_MODEL, "remember tea", ONE), "diff HEAD $COMMIT", "Compare two commits of one lane; see them with: memlake log --all", shows="one"),
    Situation("another repo is named", "", "status", "Make one there with `memlake init {}`, or name another folder.", again=True, env={"MEMLAKE_REPO": "an other"}),
    Situation("a backup leaves out a setting", f"{ONE}; config core.pager 'less -R'", "backup b.tar", "memlake config {} {}", works=True),
    Situation("packs in a folder in use", "p/x=1", "config core.packs p", "memlake config core.packs {}", fill={"NEW": "new"}),
    Situation("many conflicts", (_many("one"), "keep one; switch -c dev", _many("two"), "keep two; switch main", _many("three"), "keep three"), "merge dev", "and {} more; see `memlake status`", shows="f60"),
]

SITUATIONS = [*FILES, *STATUSES, *MERGES, *BRANCHES, *KEEPING, *SETTINGS, *MEMORIES, *DATASETS, *DAMAGE]

_VERB = "names the verb, as git does; what to add is the user's to say"
_DISK = "needs a full or failing disk"
_LIBRARY = "only a program that uses the library gets it; the command line checks before"
_ODD = "needs rows of repo.db that no verb writes; fsck itself is tried in tests/versions and tests/objects"
EXCUSED: dict[str | tuple[str, str], str] = {
    "What was forgotten here stays out. To bring one back: memlake memory restore ID": "needs an export of what was forgotten since; tried in tests/memories/test_forgotten.py",
    "Do what is suggested. `memlake undo` takes it back.": "tried in tests/cli/memory/test_upkeep.py",
    "Forgot {} that expired, as memory.cleanup says. Bring them back with: memlake undo": "needs the clock of days later; tried in tests/memories/test_upkeep.py",
    "{} expired. See what may go: memlake memory evict --dry-run": "needs the clock of days later; tried in tests/memories/test_upkeep.py",
    ("Change files and `memlake add` them, then: memlake rebase --continue", "memlake add"): _VERB,
    ("Change files and `memlake add` them, then: memlake rebase --continue", "memlake rebase --continue"): "needs a list of steps with `edit`; tried in tests/versions/verbs/test_rebase.py",
    "Bring them back first: memlake tier unset": "needs files that nobody read for a day; tried in tests/repo/test_tiers.py",
    "If you trust it: memlake tier set cold {}{}": "needs files that nobody read for a day; tried in tests/repo/test_tiers.py",
    "Ask the remotes what they have: memlake fetch --all": "needs a remote that lost what it had",
    "See the remotes with: memlake remote -v": "needs a remote that was removed after a partial clone",
    "If that was meant, forget what is known of it: memlake remote refresh {}": "needs a remote that was put back; tried in tests/versions/sync",
    "Name one: memlake clone {} FOLDER": "needs the root of a file system as a remote",
    "Make a new one: memlake bundle create FILE": "only what stores in a bundle gets it; tried in tests/versions/sync",
    "Run it again, which does no harm: memlake push {}": "needs an answer that was lost; tried in tests/versions/sync",
    "Or, in that folder, bring what is new: memlake pull": "the clone it is about is made by tests/versions/sync",
    "Give credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), or keep them in the keyring once the remote is there: memlake remote login NAME": "needs a keyring; tried in tests/repo/test_credentials.py",
    "Or keep it with its key in the keyring: memlake remote login NAME": "needs a keyring; tried in tests/repo/test_credentials.py",
    "Or, in a clone that has that commit: memlake bundle unbundle {}": "what to do where it fits; tried in tests/versions/sync",
    "When the remote can be reached, run it again. To have all of it here: memlake archive --back": "needs a remote that is not reached; tried in tests/versions/sync",
    "Have it brought again when it is read next: memlake archive --drop": "needs a damaged copy; tried in tests/versions/sync",
    "Keep what it holds here: memlake archive --back": "needs a remote that lost it; tried in tests/versions/sync",
    "Let go of what no branch there needs: memlake remote gc --prune {}": "needs a remote whose root is 16 MiB",
    "Run it again: memlake push {}": "needs many pushers at once; tried in tests/versions/sync",
    "Run it again: memlake remote gc {}": "needs many pushers at once; tried in tests/versions/sync",
    ('no changes added to commit (use "memlake add" and/or "memlake commit -a")', "memlake add"): _VERB,
    'nothing added to commit but untracked files present (use "memlake add" to track)': _VERB,
    'nothing to commit (make files and use "memlake add" to track them)': _VERB,
    "Store it as a file with `memlake add`, and remember where it is.": _VERB,
    "the disk is full. Free some space (`memlake du` says what takes how much), then run it again.": _DISK,
    "the disk reported an I/O error. Check it (dmesg, smartctl) and run memlake fsck.": _DISK,
    "Check the disk and its permissions, then run memlake doctor.": _DISK,
    ("Free some space: memlake gc --prune, memlake du. A full disk stops writes; it loses nothing.", "memlake gc --prune"): _DISK,
    ("Free some space: memlake gc --prune, memlake du. A full disk stops writes; it loses nothing.", "memlake du"): _DISK,
    "Remove other files from this disk, {} MB or more, because gc needs room to work. Then run: memlake gc --prune": "needs a full disk; tried in tests/reliability/test_faults.py",
    "A full disk stops writes; it loses nothing. To have a copy elsewhere: memlake backup /OTHER/DISK/repo.tar": "needs a full disk; tried in tests/reliability/test_faults.py",
    "See who wrote what with: memlake memory ls --source agent": _LIBRARY,
    'Give one with: memlake commit -m "what and why"': _LIBRARY,
    "Name files or folders, or use: memlake add -A": _LIBRARY,
    "Name objects by id; see them with: memlake ls -l": _LIBRARY,
    "See ids with: memlake ls -l": _LIBRARY,
    "Run memlake fsck.": _ODD,
    "Run memlake fsck --full.": _ODD,
    "Run `memlake fsck --full` first.": _ODD,
    "Run `memlake fsck` to see what needs it.": _ODD,
    "Run `memlake fsck --full` to see which paths are affected.": _ODD,
    "One of them is damaged or has the wrong name. To see which: memlake fsck --full": _ODD,
    "See what else is damaged with: memlake fsck": _ODD,
    "See what else is affected with: memlake fsck --full": _ODD,
    "Check it with: memlake fsck": _ODD,
    "See where it can be with: memlake branch": _ODD,
    "opens; {} MB, which only `memlake fsck` reads whole": "needs a repo.db of many megabytes",
    "A long reader keeps it from shrinking: close other programs that use the repo, then run `memlake gc`.": "needs a write-ahead log of many megabytes",
    "a reader still uses the write-ahead log, which may hold old pages: run `memlake gc` once it is done.": "needs a second process that reads meanwhile",
    "If you trust them: memlake config --user safe.directory {}": "needs another user",
    "Let a client start it: memlake mcp install --client claude": "needs a process without standard streams; the command is tried in test_mcp_install.py",
    "Its bytes: memlake cat {} > FILE": "needs a terminal: elsewhere the bytes are printed",
    "Wait longer: memlake config {} {}": "needs a service that does not answer",
    "the local embedding model is not installed (the package memlake-minilm), so search finds words, not meaning. In a clone of memlake, `make model` builds and installs it; to do without it: `memlake config embedding.provider none`.": "needs a machine without the model",
    "The next command goes on where this one stopped; to go back instead: memlake undo": "needs an interrupt half way; tried in tests/versions/checkout/test_update.py and tests/reliability/test_faults.py",
    'For example: memlake remember "The user prefers tabs."': "needs a terminal: without one the text is read from standard input",
    "Give it as: memlake run SCRIPT -p {}=VALUE": "the script's own process prints it",
    "Run it again, ended by .save(NAME); its program: memlake runs show {}": "needs an answer whose rows were not kept",
    "See: memlake log {}": "needs state written by an agent between two verbs",
    "Choose the other side for one of them, or drop it: memlake {} --abort": "needs a choice that puts a file and its folder in one tree",
    "Take the file as it is: memlake add {}": "needs a commit of somebody else while a merge waits",
    "Or drop the edit: memlake restore {}": "needs a commit of somebody else while a merge waits",
    "Begin it where {} is: memlake merge {}": "no verb leaves a branch without commits beside one that has some",
    "Take single commits over with: memlake cherry-pick {}": "no verb makes a second beginning of history",
    "Compare them directly: memlake diff {} {}": "no verb makes a second beginning of history",
    "Stand on a branch: memlake switch BRANCH": "opening a repo stands again by itself",
    "memlake switch -c NAME": "needs a repo without any branch",
    "memlake trust": "a part of other hints, which are tried",
    "memlake -C {} trust": "a part of other hints; needs a repo that is named from outside",
    ("With the version of memlake that wrote it, export the memories: memlake memory export --project '*' FILE"): "needs an older memlake",
    "And each dataset: memlake dataset export NAME FOLDER": "needs an older memlake",
    ("Your files are in the working folder. With this version, in a new folder: memlake init && memlake memory import FILE && memlake add -A", "memlake memory import FILE"): "needs an older memlake",
    ("Your files are in the working folder. With this version, in a new folder: memlake init && memlake memory import FILE && memlake add -A", "memlake add -A"): "needs an older memlake",
    ("memlake -C {} memory export --project {} | memlake -C {} memory import -", "memlake -C {} memory export --project {}"): "a pipe, tried below as a shell runs it",
    ("memlake -C {} memory export --project {} | memlake -C {} memory import -", "memlake -C {} memory import -"): "a pipe, tried below as a shell runs it",
}
