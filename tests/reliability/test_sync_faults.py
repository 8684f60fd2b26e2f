"""Push, pull, fetch and gc of a remote over a network that drops, loses, cuts, delays, repeats and answers 500.

Three people share one bucket. What they made is kept in a plain list beside them: what a push acknowledged is in the
bucket, and in the end each has all that anybody made, once.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import Conflict, Unavailable
from memlake.repo import Repo
from memlake.versions.sync.root import decode_root
from tests.reliability.ground import TORTURE, assert_sound, fast_folder, put
from tests.servers import FAULTS, S3, Bucket, FaultProxy

RUNS = 50  # of one team
TEAMS = range(100 if TORTURE else 10)


class Network:
    """Faults by chance: some requests fail, or all from one on."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._share = rng, rng.choice((0.1, 0.2, 0.4))
        self._gone = rng.randrange(1, 12) if rng.random() < 0.25 else 0

    def __call__(self, number: int, method: str, path: str) -> str:
        if self._gone and number >= self._gone:
            return "drop"
        return self._rng.choice(FAULTS) if self._rng.random() < self._share else ""


class Team:
    """Three people with a bucket, and what is known of it without asking them."""

    def __init__(self, folder: Path, proxy: FaultProxy, bucket: Bucket, rng: random.Random) -> None:
        self._folder, self._proxy, self._bucket, self._rng = folder, proxy, bucket, rng
        self.url = f"s3://{bucket.name}/pets"
        self.made: dict[str, tuple[bytes, int]] = {}  # path -> content and who made it
        self.acknowledged: set[str] = set()
        self.failed = Counter[str]()
        first = ml.init(folder / "0")
        put(folder / "0", "base.txt", "base")
        first.add(all=True)
        first.commit("base")
        first.remotes.add("origin", self.url, endpoint=proxy.endpoint)
        first.push()
        others = (ml.clone(self.url, folder / str(n), endpoint=proxy.endpoint) for n in (1, 2))
        self.people = [first, *others]

    def run(self) -> None:
        """One person does one thing over a bad network."""
        who = self._rng.randrange(3)
        repo, verb = self.people[who], self._rng.choices(("push", "pull", "fetch", "gc"), (5, 3, 1, 1))[0]
        if verb == "push":
            self._make(repo, who)
        repo.config.set("remote.retries", str(self._rng.choice((0, 0, 0, 1))))
        self._proxy.seen = []
        self._proxy.fault = Network(self._rng)
        try:
            self._do(repo, verb)
            self._proxy.fault = None
            if verb == "push":
                self.acknowledged |= {path for path, (_, maker) in self.made.items() if maker == who}
        except (Unavailable, Conflict) as error:  # Conflict: somebody else pushed first
            self.failed[type(error).__name__] += 1
        finally:
            self._proxy.forget()

    def _do(self, repo: Repo, verb: str) -> None:
        if verb == "gc":
            repo.remotes.gc(prune=True)
        else:
            getattr(repo, verb)()

    def _make(self, repo: Repo, who: int) -> None:
        name, content = f"{len(self.made)}", self._rng.randbytes(self._rng.choice((10, 3000, 40_000)))
        if self._rng.random() < 0.3:
            repo.write({f"memories/bot/{name}": content}, f"memory {name}")
            self.made[f"memories/bot/{name}"] = content, who
        else:
            put(repo.root, f"{name}.bin", content)
            repo.add(all=True)
            repo.commit(f"made {name}")
            self.made[f"files/{name}.bin"] = content, who

    # -- what must hold

    def check_bucket(self) -> None:
        """Whatever happened, the root names nothing twice and only files that are there, whole."""
        files = {path.removeprefix("pets/"): data for path, data in self._bucket.files().items()}
        root = decode_root(files["root"], self.url)
        listed = [f"log/{one.name}" for one in root.log] + [f"packs/{one.name}" for one in root.packs]
        assert len(listed) == len(set(listed))
        for path, size in [(f"log/{one.name}", one.size) for one in root.log]:
            assert len(files[path]) == size and hashlib.sha256(files[path]).hexdigest() == path[4:]
        assert all(len(files[f"packs/{one.name}"]) == one.size for one in root.packs)

    def check_acknowledged(self) -> None:
        """A clone of the bucket has all that a push said it sent."""
        with ml.clone(self.url, self._folder / f"look-{len(self.made)}", endpoint=self._proxy.endpoint) as look:
            held = dict(look.ls())
            for path in self.acknowledged:
                assert look.objects.read(held[path].oid) == self.made[path][0], path
            assert_sound(look)

    def meet(self) -> None:
        """Over a good network all come to have all of it, once, and the same."""
        for repo in (*self.people, *self.people):
            repo.pull()
            repo.push()
        self.people[0].pull()
        self.people[1].pull()
        for repo in self.people:
            assert_sound(repo)
            held = {path: entry.oid for path, entry in repo.ls()}
            wanted = {path: hashlib.sha256(data).hexdigest() for path, (data, _) in self.made.items()}
            assert {path: oid for path, oid in held.items() if path != "files/base.txt"} == wanted
            for lane, start in (("work", "made "), ("memory", "memory ")):
                told = Counter(commit.message for commit in repo.log(lane=lane) if commit.message.startswith(start))
                assert set(told.values()) <= {1}, told
        heads = {(branch.work, branch.memory) for repo in self.people for branch in repo.branches}
        assert len(heads) == 1


@pytest.fixture
def team(s3: S3, bucket: Bucket) -> Iterator[Callable[[int], Team]]:
    with fast_folder() as folder:
        made: list[Team] = []

        def meet(seed: int) -> Team:
            made.append(Team(folder, s3.proxy, bucket, random.Random(seed)))
            return made[-1]

        yield meet
        s3.proxy.forget()
        for one in made:
            for repo in one.people:
                repo.close()


@pytest.mark.parametrize("seed", TEAMS)
def test_over_a_bad_network_nothing_is_lost_and_nothing_doubled(
    seed: int, team: Callable[[int], Team], tally: Callable[..., None]
) -> None:
    met = team(seed)
    for number in range(RUNS):
        met.run()
        met.check_bucket()
        if number % 25 == 24:
            met.check_acknowledged()
    met.meet()
    tally(runs=RUNS, failed=sum(met.failed.values()))
    assert met.failed["Unavailable"] > 3
