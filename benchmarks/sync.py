"""Figures of push, fetch and clone over a folder and a bucket: CPU, memory, requests and bytes; git and DVC beside us.

    .venv/bin/python benchmarks/sync.py [--rows small,large,killed,pushers,memories,paths] [--mib 1024]
        [--files 100000] [--commits 50000] [--paths 1000000 --gib 20] [--peers FOLDER] [--work FOLDER]

Each verb runs in a child of its own. Over a folder, a request is one call of the place that a remote lies in, and a
group of ranges less than 1 MiB apart counts as one, as a bucket is asked. Over a bucket (`s3_server.py`, whose CPU does
not count) requests and bytes are those that the server saw. A missed target is printed, not raised.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import peers
from generate import WORDS, uuid7
from measure import NOTHING, CommandFailed, Cost, Place, allocated, run
from sync_driver import HERE, PUSHERS, PUSHES, Answer, bucket_server, counts, measured, say

import memlake as ml
from memlake.errors import NotFound
from memlake.memories.kind import memory_path
from memlake.memories.record import Memory, encode
from memlake.records import Author, Entry
from memlake.versions.history import refs, thin
from memlake.versions.history.commits import WINDOW, Draft

Row = list[str]
Commands = tuple[list[str], list[str], str, str]  # that begin a repo, record what is in it, push it and bring it back
DVC_FILES = 10_000  # DVC takes very long for more

# -- rows


def make_large(work: Path, mib: int, remote: Path | str, server: str) -> Path:
    """A repo with one large file, committed and not pushed."""
    random, repo = Random(3), work / f"large{len(os.listdir(work))}"
    with ml.init(repo) as lake:
        with (repo / "big.bin").open("wb") as file:
            for _ in range(mib):
                file.write(random.randbytes(1 << 20))
        lake.add("big.bin")
        lake.commit("first")
        lake.remotes.add("origin", remote, endpoint=server)
    return repo


def row_of_a_large_file(work: Path, place: Place, mib: int, remote: Path | str, server: str) -> list[Row]:
    """1 % of a file, one contiguous piece of it, is overwritten; then a row is; then nothing changed."""
    random, repo = Random(5), make_large(work, mib, remote, server)
    first = measured("push", repo, remote, place, server)
    new, where = (mib << 20) // 100, where_of(server)
    with ml.open(repo) as lake:
        with (repo / "big.bin").open("r+b") as file:
            file.seek((mib << 20) // 3)
            file.write(random.randbytes(new))
        lake.add("big.bin")
        lake.commit("second")
    again = measured("push", repo, remote, place, server)
    nothing = measured("fetch", repo, remote, place, server)
    return [
        line(f"{where}: first push of a file of {mib:,} MiB", first, "<= 300 MB", first["peak"] <= 300 << 20),
        line(
            f"{where}: push 1 % of it ({new / 2**20:.1f} MB)", again, "<= 1.2 times the new bytes, <= 8 requests",
            again["sent"] <= 1.2 * new and again["requests"] <= 8,
        ),
        line(f"{where}: fetch when nothing changed", nothing, "1 request", nothing["requests"] == 1),
    ]  # fmt: skip


def row_of_a_killed_push(work: Path, place: Place, mib: int, remote: Path | str, server: str) -> list[Row]:
    """A push is killed when 99 % of a file is stored, and run again."""
    repo = make_large(work, mib, remote, server)
    try:
        measured("kill", repo, remote, place, server)
    except CommandFailed as died:
        say(f"  killed: {died}")
    again = measured("push", repo, remote, place, server)
    pack = max(file.stat().st_size for file in (repo / ".memlake/packs").iterdir())
    good = again["sent"] <= pack + (1 << 20)
    target = f"<= 1 pack ({pack / 2**20:.0f} MB) sent again"
    return [line(f"{where_of(server)}: push of {mib:,} MiB again, after a kill at 99 %", again, target, good)]


def row_of_small_files(work: Path, place: Place, count: int, remote: Path | str, server: str) -> list[Row]:
    repo = work / f"small{len(os.listdir(work))}"
    with ml.init(repo) as lake:
        write_small(repo, count)
        lake.add(all=True)
        lake.commit("all")
        lake.remotes.add("origin", remote, endpoint=server)
    rows = []
    for verb, target in (("push", repo), ("clone", work / f"{repo.name}.clone")):
        cost = measured(verb, target, remote, place, server)
        good = cost["requests"] <= 40 and cost["cpu"] <= 6 and cost["peak"] <= 300 << 20
        work_done = f"{where_of(server)}: {verb} {count:,} files of 300 bytes"
        rows.append(line(work_done, cost, "<= 40 requests, <= 6 CPU s, <= 300 MB", good))
    return rows


def write_small(folder: Path, count: int) -> None:
    random = Random(4)
    for number in range(count):
        file = folder / f"data/{number // 1000:03d}/{number:06d}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(random.randbytes(300))


def rows_of_peers(work: Path, place: Place, count: int, mib: int, cache: Path | None) -> Iterable[Row]:
    """The same small files, and the same change of a large one, with git and DVC and a folder as the remote."""
    keep = ["git add -A", "git commit -qm all"]
    if shutil.which("git"):
        begin = ["git init -q --bare -b main {folder}", "git init -q -b main"]
        git = begin, keep, "git push -q {remote} main", "git clone -q {remote} {clone}"
        yield from _peer("git", work, place, count, git)
        yield _peer_large("git", work, place, mib, git)
    if cache is not None and (dvc := peers.dvc(cache)) is not None:
        place = replace(place, env={**place.env, "PATH": f"{cache / 'dvc/bin'}:{place.env['PATH']}"})
        begin = [*dvc.verbs["init"], "mkdir {folder}", "dvc remote add -q -d origin {folder}"]
        commands = begin, ["dvc add -q {what}", *keep], "dvc push -q", "dvc pull -q -f"
        yield from _peer(f"DVC {dvc.version}", work, place, min(count, DVC_FILES), commands)
        yield _peer_large(f"DVC {dvc.version}", work, place, mib, commands)


def _peer(name: str, work: Path, place: Place, count: int, commands: Commands) -> Iterable[Row]:
    begin, record, put, get = commands
    folder, bare = work / f"{name[:3]}", work / f"{name[:3]}.remote"
    words = {"remote": f"file://{bare}", "folder": bare, "clone": f"{folder}.clone", "what": "data"}
    at = place.at(folder)
    _run_all(begin, at, words)
    write_small(folder, count)
    _run_all(record, at, words)
    yield _peer_line(f"{name}, folder: push {count:,} files of 300 bytes", _run_all([put], at, words), bare)
    if name != "git":
        shutil.rmtree(folder / ".dvc/cache")
        shutil.rmtree(folder / "data")
    yield _peer_line(f"{name}, folder: bring them back", _run_all([get], at, words), bare)


def _peer_large(name: str, work: Path, place: Place, mib: int, commands: Commands) -> Row:
    """1 % of a large file is overwritten and pushed."""
    begin, record, put, _ = commands
    random, folder, bare = Random(3), work / f"{name[:3]}.large", work / f"{name[:3]}.large.remote"
    at, words = place.at(folder), {"remote": f"file://{bare}", "folder": bare, "what": "big.bin"}
    _run_all(begin, at, words)
    with (folder / "big.bin").open("wb") as file:
        for _ in range(mib):
            file.write(random.randbytes(1 << 20))
    _run_all([*record, put], at, words)
    before = allocated(bare)
    with (folder / "big.bin").open("r+b") as file:
        file.seek((mib << 20) // 3)
        file.write(random.randbytes((mib << 20) // 100))
    _run_all(record, at, words)
    cost = _run_all([put], at, words)
    sent = allocated(bare) - before
    figures = f"{cost.cpu:.1f} s, {cost.rss / 2**20:.0f} MB, {sent / 2**20:.1f} MB more there"
    return [f"{name}, folder: push 1 % of a file of {mib:,} MiB", figures, "-", "-"]


def _run_all(commands: Iterable[str], place: Place, words: dict[str, object]) -> Cost:
    """Run commands one after another; returns what the last one cost."""
    cost = NOTHING
    for command in commands:
        cost = run(shlex.split(command.format(**words)), place)
    return cost


def _peer_line(work: str, cost: Cost, remote: Path) -> Row:
    files = sum(len(names) for _, _, names in os.walk(remote))
    return [work, f"{cost.cpu:.1f} s, {cost.rss / 2**20:.0f} MB, {files:,} files there", "-", "-"]


def row_of_pushers(work: Path, place: Place, remote: str, server: str) -> list[Row]:
    """Eight processes push to one bucket at once, each to a branch of its own."""
    first = work / "pushers"
    with ml.init(first) as lake:
        lake.write({"files/first.txt": b"first\n"}, message="first")
        lake.remotes.add("origin", remote, endpoint=server)
        lake.push()
    clones = [work / f"pusher{number}" for number in range(PUSHERS)]
    for number, folder in enumerate(clones):
        with ml.clone(remote, folder, endpoint=server) as lake:
            lake.switch(f"team-{number}", create=True)
    with ThreadPoolExecutor(PUSHERS) as pool:
        done = list(pool.map(lambda folder: _push_often(folder, remote, place), clones))
    counts(server)
    errors = [error for _, error in done if error]
    with ml.clone(remote, work / "pushers.clone", endpoint=server) as lake:
        kept = sum(_count_pushed(lake, f"team-{number}") for number in range(PUSHERS))
    for error in errors[:3]:
        say(f"  a pusher failed: {error}")
    figures = f"{sum(cpu for cpu, _ in done):.1f} s in all, {kept} of {PUSHERS * PUSHES} there, {len(errors)} errors"
    good = kept == PUSHERS * PUSHES and not errors
    return [
        [f"bucket: {PUSHERS} pushers, {PUSHES} pushes each", figures, "none lost, no error", "yes" if good else "no"]
    ]


def _count_pushed(lake: ml.Repo, branch: str) -> int:
    try:
        return sum(path.startswith(f"files/{branch}-") for path, _ in lake.ls(f"origin/{branch}"))
    except NotFound:
        return 0


def _push_often(folder: Path, remote: str, place: Place) -> tuple[float, str]:
    try:
        return measured("often", folder, remote, place)["cpu"], ""
    except CommandFailed as error:
        return 0.0, str(error)


def row_of_paths(work: Path, place: Place, paths: int, gib: int) -> list[Row]:
    """A clone without content, what one looks at first, and one file more, pushed. One GiB is pushed with all paths at
    once, each other one alone."""
    repo, remote, copy = work / "paths", work / "paths.remote", work / "paths.clone"
    driver = [sys.executable, str(HERE / "sync_driver.py")]
    run([*driver, "make", str(repo), str(remote), str(paths), "51"], place)
    pushed = measured("push", repo, remote, place)
    run([*driver, "large", str(repo), str(remote), str(gib - 1), "1024"], place)
    shutil.rmtree(repo)
    stored = sum(file.stat().st_size for file in remote.rglob("*") if file.is_file())
    cloned, looked, added = (measured(verb, copy, remote, place) for verb in ("clone-none", "look", "add"))
    share, name = cloned["got"] / stored, f"{paths:,} paths over {stored / 2**30:.1f} GiB"
    return [
        line(f"push {paths:,} paths and 1 GiB", pushed, "<= 300 MB", pushed["peak"] <= 300 << 20),
        line(
            f"clone {name}, no content ({100 * share:.2f} % of it read)", cloned, "<= 50 requests, <= 1 %, <= 300 MB",
            cloned["requests"] <= 50 and share <= 0.01 and cloned["peak"] <= 300 << 20,
        ),
        line("ls, log, status, diff there", looked, "no request", looked["requests"] == 0),
        line("add, commit and push one file there", added, "no content comes", added["got"] <= 1 << 20),
    ]  # fmt: skip


def write_memories(lake: ml.Repo, count: int) -> None:
    """Memories of eight agents as agents store them, each in a commit of its own, without the rules that decide."""
    random, history, head, moved = Random(5), lake._history, None, None
    for start in range(0, count, WINDOW):
        with history.db.write():
            for number in range(start, min(start + WINDOW, count)):
                agent, time = f"agent-{number % 8}", 1_700_000_000_000_000 + 1000 * number
                text = f"{' '.join(random.choices(WORDS, k=18))} ticket-{number // 100}"
                memory = Memory(uuid7(time // 1000, random), text, agent, created_at=time, updated_at=time)
                data = encode(memory, random.randbytes(12))
                path = memory_path(history, agent, memory.memory_id)
                entry = Entry(history.objects.write(data), "memory", len(data))
                draft = Draft("memory", {path: entry}, Author(agent, ""), f"store memory {memory.memory_id}", time, {})
                head = history.append(draft, (head,) if head else (), None)
            refs.move(history, "main", "memory", moved, head, action="bench", who="bench")
            thin.thin(history)
            moved = head


def row_of_memories(work: Path, place: Place, count: int) -> list[Row]:
    repo, remote = work / "memories", work / "memories.remote"
    with ml.init(repo) as lake:
        write_memories(lake, count)
        lake.remotes.add("origin", remote)
    pushed = measured("push", repo, remote, place)
    cloned = measured("clone", work / "memories.clone", remote, place)
    searched = measured("search", work / "memories.clone", remote, place)
    share = count / 1e6
    good = cloned["cpu"] <= 60 * share and cloned["got"] <= (250 << 20) * share and cloned["peak"] <= 300 << 20
    return [
        line(f"push {count:,} memory commits", pushed, "<= 300 MB", pushed["peak"] <= 300 << 20),
        line(f"clone {count:,} memory commits", cloned, "a millionth of 60 CPU s and 250 MB for each", good),
        line("the first search there", searched, "finds what is there, <= 300 MB", searched["peak"] <= 300 << 20),
    ]


def where_of(server: str) -> str:
    return "bucket" if server else "folder"


def line(work: str, cost: Answer, target: str, good: bool | None) -> Row:
    peak, moved = cost["peak"] / 2**20, (cost["sent"] + cost["got"]) / 2**20
    figures = f"{cost['cpu']:.1f} s, {peak:.0f} MB, {cost['requests']} requests, {moved:.1f} MB"
    return [work, figures, target, "-" if good is None else "yes" if good else "no"]


def list_rows(work: Path, options: argparse.Namespace) -> Iterable[Iterable[Row]]:
    place, wanted = Place(work, dict(os.environ), timeout=3600, shown=True), set(options.rows.split(","))
    if "memories" in wanted:
        yield row_of_memories(work, place, options.commits)
    if "paths" in wanted:
        yield row_of_paths(work, place, options.paths, options.gib)
    if "small" in wanted:
        yield row_of_small_files(work, place, options.files, work / "small.remote", "")
    if "large" in wanted:
        yield row_of_a_large_file(work, place, options.mib, work / "large.remote", "")
    if "killed" in wanted:
        yield row_of_a_killed_push(work, place, options.mib, work / "killed.remote", "")
    if "peers" in wanted:
        yield rows_of_peers(work, place, options.files, options.mib, options.peers)
    if wanted & {"small", "large", "killed", "pushers"}:
        with bucket_server() as server:
            at = replace(place, env=dict(os.environ))
            if "small" in wanted:
                yield row_of_small_files(work, at, options.files, "s3://bench/small", server)
            if "large" in wanted:
                yield row_of_a_large_file(work, at, options.mib, "s3://bench/large", server)
            if "killed" in wanted:
                yield row_of_a_killed_push(work, at, options.mib, "s3://bench/killed", server)
            if "pushers" in wanted:
                yield row_of_pushers(work, at, "s3://bench/pushers", server)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="memories,small,large,killed,pushers,peers")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=50_000)
    parser.add_argument("--paths", type=int, default=1_000_000)
    parser.add_argument("--gib", type=int, default=20)
    parser.add_argument("--peers", type=Path, help="where DVC is installed; without it DVC is left out")
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        who = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in peers.AUTHOR.items()}
        os.environ.update(who, HOME=folder, XDG_CONFIG_HOME=f"{folder}/.config", DVC_NO_ANALYTICS="1")
        print("| work | CPU, peak memory, requests, on the wire | target | reached? |")
        print("|---|---|---|---|")
        for rows in list_rows(Path(folder), options):
            for cells in rows:
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
