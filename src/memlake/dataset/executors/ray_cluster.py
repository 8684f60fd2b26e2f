"""On a Ray cluster: tasks, or actors when the work has `open()`. Ray is imported where it is used: it is an extra."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import uuid4

import numpy as np

from memlake.dataset.executors.map_loop import Failure, Lost, Work, flow
from memlake.dataset.executors.messages import Blob, blob_of, pack, unpack
from memlake.dataset.executors.worker import Job, attempt
from memlake.errors import Unavailable
from memlake.named_tuple import NamedTuple

TRIES = 4  # of an item whose node or process is lost
COLD_SECONDS, WARM_SECONDS = 6.0, 0.05
_jobs: dict[str, Job] = {}  # in a Ray worker: the work of the map it serves


def ray(address: str | None = None, *, workers: int | None = None, **options: Any) -> Ray:
    """`address` as `ray.init` takes it; `options` are what one worker needs: num_cpus, num_gpus, memory, resources.

    Ray is started or connected to at the first `map`, unless the program did so before: then that is used as it is.
    We give Ray's workers our `sys.path`, which is right for nodes that share this machine or its file system. Nodes
    elsewhere need memlake and the user's modules installed, in their image or by `ray.init(runtime_env=...)`.
    What functions print stays in Ray's logs.
    """
    return Ray(address, workers, options)


class Ray:
    def __init__(self, address: str | None, workers: int | None, options: dict[str, Any]) -> None:
        _library()
        self._address, self._workers, self._options = address, workers, options

    @property
    def workers(self) -> int:
        return self._workers or _count_workers(self._connect().cluster_resources(), self._options)

    def start_seconds(self) -> float:
        return WARM_SECONDS if _library().is_initialized() else COLD_SECONDS

    def warm(self) -> bool:
        self._connect()
        return True

    def map(self, work: Work, items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        blob, library = blob_of(work), self._connect()
        channel = _Actors if hasattr(work, "open") else _Tasks
        flowing = channel(library, blob, self.workers, self._options)
        flowing.bears_loss = getattr(work, "bears_loss", False)
        return flow(flowing, items)

    def _connect(self) -> Any:
        library = _library()
        if not library.is_initialized():
            variables = {"PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in map(str, sys.path))}
            library.init(
                address=self._address,
                runtime_env={"env_vars": variables},
                log_to_driver=False,
                logging_level="ERROR",
            )
        return library


def _library() -> Any:
    try:
        import ray  # an extra of 200 MB
    except ImportError as error:
        hint = f"{sys.executable} -m pip install 'memlake[ray]'"
        raise Unavailable("Ray is not installed. Nothing was run.", hint=hint) from error
    return ray


def _count_workers(resources: dict[str, float], options: dict[str, Any]) -> int:
    """How many workers with these needs the cluster has room for."""
    needs = {"CPU": options.get("num_cpus", 1), "GPU": options.get("num_gpus", 0), **options.get("resources", {})}
    return max(1, int(min((resources.get(name, 0) / need for name, need in needs.items() if need), default=1)))


# -- what is sent: as in the pool, so that functions of a script and slices of tables go the same way

Shipped = tuple[bytes, list[Any]]


def _ship(value: Any) -> Shipped:
    body, beside = pack(value)
    return bytes(body), [np.frombuffer(one, np.uint8) for one in beside]  # which Ray keeps out of its pickle


def _unship(shipped: Shipped) -> Any:
    body, beside = shipped
    return unpack(body, [bytearray(one) for one in beside])  # what lies in Ray's store cannot be written to


def _run_task(name: str, blob: list[Any], item: Shipped) -> Shipped:
    """In a Ray worker. The blob is in a list, or Ray would fetch it for every item: it is needed once for each map."""
    if name not in _jobs:
        _jobs.clear()
        _jobs[name] = Job(_library().get(blob[0]))
    return _ship(attempt(_jobs[name].run, _unship(item)))


class _Actor:
    """In a Ray actor: work that was opened, and stays so until the end of the map."""

    def __init__(self, blob: Blob) -> None:
        self._job = Job(blob)

    def ready(self) -> None:
        pass

    def run(self, item: Shipped) -> Shipped:
        return _ship(attempt(self._job.run, _unship(item)))

    def close(self) -> Shipped:
        return _ship(attempt(self._job.close))


def _read_outcome(shipped: Shipped) -> Any:
    answer, result = _unship(shipped)
    return result if answer == "done" else Failure(result)


def _describe_loss(library: Any, index: int, error: Exception, *, bears_loss: bool) -> Failure | Lost:
    kept = "The results of the other items were kept."
    if isinstance(error, library.exceptions.RayTaskError):  # the work's own errors are answers: this one is of us there
        return Failure(
            Unavailable(
                f"Ray could not run item {index}: {str(error).splitlines()[-1]}\n{kept}",
                hint="memlake and your modules must be on every node: installed, or by ray.init(runtime_env=...)",
            )
        )
    how = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if bears_loss:
        return Lost(f"was lost by Ray ({how})")
    return Failure(
        Unavailable(
            f"Ray lost item {index}, {TRIES} times: {how}\n{kept}",
            hint="nodes or their memory are short: give each worker more (memory=, num_cpus=) or use smaller batches",
        )
    )


class _Tasks:
    """A Ray task for each item. Ray itself runs one again when its node or process is lost."""

    bears_loss = False

    def __init__(self, library: Any, blob: Blob, workers: int, options: dict[str, Any]) -> None:
        self.limit = 2 * workers
        self._ray, self._name = library, uuid4().hex
        self._blob = [library.put(blob)]
        self._task = library.remote(_run_task).options(max_retries=TRIES - 1, **options)
        self._indexes: dict[Any, int] = {}

    def start(self, index: int, item: Any) -> None:
        self._indexes[self._task.remote(self._name, self._blob, _ship(item))] = index

    def collect(self) -> list[tuple[int, Any]]:
        (done, *_), _ = self._ray.wait(list(self._indexes), num_returns=1)
        index = self._indexes.pop(done)
        try:
            return [(index, _read_outcome(self._ray.get(done)))]
        except self._ray.exceptions.RayError as error:
            return [(index, _describe_loss(self._ray, index, error, bears_loss=self.bears_loss))]

    def drop(self) -> int:
        return 0  # which of them have begun only Ray knows: they are few

    def close(self, *, cancelled: bool) -> None:
        if cancelled:
            for reference in self._indexes:
                with contextlib.suppress(self._ray.exceptions.RayError):
                    self._ray.cancel(reference, force=True)


class _Sent(NamedTuple):
    actor: Any
    number: int = -1  # of the item; none: the actor is asked whether it is there
    item: Any = None
    tries: int = 0


class _Actors:
    """An actor for each worker. When one is lost, the others do its items, and another is started in its place.

    Not left to Ray's restarts: an actor for which there is no room any more would keep the items it was given for ever.
    """

    bears_loss = False

    def __init__(self, library: Any, blob: Blob, workers: int, options: dict[str, Any]) -> None:
        self.limit = 2 * workers
        self._ray, self._blob = library, library.put(blob)
        self._actor = library.remote(_Actor).options(**options)
        self._load: dict[Any, list[int]] = {}  # actors that answered, and the items each has, in turn
        self._unbegun: set[int] = set()  # items that waited for an actor when it was lost
        self._waiting: deque[_Sent] = deque()
        self._sent: dict[Any, _Sent] = {}
        for _ in range(workers):
            self._start_actor()

    def start(self, index: int, item: Any) -> None:
        self._waiting.append(_Sent(None, index, self._ray.put(_ship(item))))
        self._hand_out()

    def collect(self) -> list[tuple[int, Any]]:
        while True:
            (done, *_), _ = self._ray.wait(list(self._sent), num_returns=1)
            sent = self._sent.pop(done)
            outcome = self._answer(done, sent)
            self._hand_out()
            if outcome is not None:
                return [(sent.number, outcome[0])]

    def drop(self) -> int:
        dropped = len(self._waiting)
        self._waiting.clear()
        return dropped

    def close(self, *, cancelled: bool) -> None:
        actors = {*self._load, *(sent.actor for sent in self._sent.values())}
        outcomes = [] if cancelled else [_read_outcome(self._ray.get(actor.close.remote())) for actor in self._load]
        for actor in actors:
            self._ray.kill(actor)
        for outcome in outcomes:
            if isinstance(outcome, Failure):
                raise outcome.error

    def _start_actor(self) -> None:
        actor = self._actor.remote(self._blob)
        self._sent[actor.ready.remote()] = _Sent(actor)

    def _hand_out(self) -> None:
        while self._waiting and self._load:
            actor = min(self._load, key=lambda one: len(self._load[one]))
            if len(self._load[actor]) == 2:  # one under way and one waiting
                return
            sent = self._waiting.popleft()
            self._load[actor].append(sent.number)
            self._sent[actor.run.remote(sent.item)] = sent._replace(actor=actor, tries=sent.tries + 1)

    def _answer(self, done: Any, sent: _Sent) -> tuple[Any] | None:
        """What came of one item, in a tuple; None when it will be done by another actor."""
        try:
            shipped = self._ray.get(done)
        except self._ray.exceptions.RayError as error:
            had = self._load.pop(sent.actor, None)
            self._unbegun.update((had or ())[1:])
            if had is not None or sent.number < 0:
                self._start_actor()
            if sent.number < 0:
                return None
            if sent.number in self._unbegun:  # not its fault
                self._unbegun.remove(sent.number)
                sent = sent._replace(tries=sent.tries - 1)
            if sent.tries < TRIES:
                self._waiting.appendleft(sent)
                return None
            return (_describe_loss(self._ray, sent.number, error, bears_loss=self.bears_loss),)
        if sent.number < 0:
            self._load[sent.actor] = []
            return None
        if sent.actor in self._load:
            self._load[sent.actor].remove(sent.number)
        return (_read_outcome(shipped),)
