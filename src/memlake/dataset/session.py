"""Session: runs plans over one repo, in answer to a chain. Knows no verb of a chain and nothing of doors."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from memlake.config import repo_root
from memlake.dataset import save as save_rows
from memlake.dataset.context import DatasetContext
from memlake.dataset.feedback import Progress
from memlake.dataset.lineage import process_facts, provenance, runs
from memlake.dataset.memo import listings
from memlake.dataset.parts.frames import Frame
from memlake.dataset.plan.nodes import Limit, Plan
from memlake.dataset.run import aligned, broken_inputs, call_step, notices, plan_keys
from memlake.dataset.run import trace as trace_rows
from memlake.dataset.run.engine import Engine, Ran
from memlake.dataset.run_settings import Settings
from memlake.dataset.save import Saved, Wanted
from memlake.errors import Conflict, InvalidInput, Purged, RowFailed
from memlake.records import count

T = TypeVar("T")
_STOPPED = "stopped before it was done. Finished rows of slow functions are remembered: run it again to go on."
_USUAL = Settings()


class Session:
    def __init__(self, open_context: Callable[[], DatasetContext]) -> None:
        self._open_context = open_context

    @property
    def context(self) -> DatasetContext:
        """Asked for when something runs: a chain that is only written down makes no repo."""
        return self._open_context()

    @contextlib.contextmanager
    def run(self, plan: Plan, settings: Settings = _USUAL) -> Iterator[Engine]:
        """An engine for one plan."""
        context = self.context
        listings.reach(context)
        services = plan_keys.RunServices(Progress(settings.progress), context.cache, context.find_tracked)
        engine = Engine(
            context.parts, context.recall, context.folder, lambda on, call: call_step.Calling(on, call, services).run()
        )
        engine.shared = services
        try:
            with context.parts.hold():
                yield engine
        except KeyboardInterrupt:  # the frames of the engine say nothing to who stopped it
            raise KeyboardInterrupt(_STOPPED) from None
        except broken_inputs.SIGNS as error:
            raise self._find_cause(plan, error)  # noqa: B904  the cause is in it, if it is another
        finally:
            engine.close()

    def _find_cause(self, plan: Plan, error: Exception) -> Exception:
        """What a failure comes from, where its own words do not tell that."""
        if isinstance(error, Purged | RowFailed):
            return error
        changed = broken_inputs.find_changed_file(plan) if isinstance(error, InvalidInput) else None
        cause = changed or broken_inputs.find_damage(self.context.parts, self.context.recall, plan)
        if cause is not None:
            cause.__cause__ = error
        return cause or error

    def _retry_on_damage(self, plan: Plan, settings: Settings, do: Callable[[Engine], T]) -> T:
        """What was remembered may turn out to be damaged: then it is forgotten, and done again."""
        try:
            with self.run(plan, settings) as engine:
                return do(engine)
        except broken_inputs.Forgotten:
            with self.run(plan, settings) as engine:
                return do(engine)

    # -- answers: those with an `action` are recorded as runs ----------------------------------

    def table(self, plan: Plan, settings: Settings = _USUAL, action: str = "") -> pa.Table:
        begun = time.time()
        table, engine = self._retry_on_damage(plan, settings, lambda engine: (engine.table(plan), engine))
        if action:
            limit = plan if action == "show" and isinstance(plan, Limit) else None
            result = runs.of_table(
                table, limit.count if limit else None
            )  # the limit is one above what is shown, to see if there are more
            self._note_run(limit.inputs[0] if limit else plan, engine, action, begun, result)
        return table

    def batches(self, plan: Plan, settings: Settings = _USUAL, action: str = "") -> Iterator[pa.RecordBatch]:
        seen = False
        try:
            for batch in self._batches(plan, settings, action):
                seen = True
                yield batch
        except broken_inputs.Forgotten:
            if seen:
                raise
            yield from self._batches(plan, settings, action)

    def _batches(self, plan: Plan, settings: Settings, action: str) -> Iterator[pa.RecordBatch]:
        begun = time.time()
        with self.run(plan, settings) as engine:
            reader = engine.reader(plan)
            result = runs.Result(reader.schema)
            try:
                for batch in reader:
                    result.add(batch)
                    yield batch
                result.is_whole = True
            finally:
                if action and (result.is_whole or result.rows):  # else it failed at once
                    self._note_run(plan, engine, action, begun, result)

    def _note_run(self, plan: Plan, engine: Engine, action: str, begun: float, result: runs.Result) -> None:
        with contextlib.suppress(Exception):  # whatever may be wrong with a note, the answer is there
            runs.record(self.context, action, self._gather_facts(plan, engine, begun), result)

    def _gather_facts(self, plan: Plan, engine: Engine, begun: float, ran: Sequence[Ran] = ()) -> dict[str, Any]:
        facts = provenance.gather(plan, engine.shared, self.context.here.author, time.time() - begun)
        return {**facts, "ran": [one._asdict() for one in ran or engine.ran]}

    def count(self, plan: Plan, settings: Settings = _USUAL) -> int:
        return int(self._retry_on_damage(plan, settings, lambda engine: engine.count(plan)))

    # -- rows that are kept --------------------------------------------------------------------

    def frame(self, plan: Plan, settings: Settings = _USUAL) -> tuple[Frame, Engine]:
        """The rows of a plan as a frame, all of it in parts; from memory when the same was done before."""

        def seal(engine: Engine) -> tuple[Frame, Engine]:
            engine.need(plan)
            engine.sealing = True
            context = self.context
            key = plan_keys.plan_key(plan, engine.shared)
            frame = context.recall.frame(key) if key and not settings.recompute else None
            if frame is None:
                before = plan_keys.files_read(plan)
                made = aligned.compact(engine, engine.frame(plan).settle_types())
                frame = context.parts.seal(made._replace(trace=trace_rows.trace(engine, plan, made)))
                for (file, old), (_, new) in zip(before, plan_keys.files_read(plan), strict=True):
                    if old != new:
                        raise Conflict(f"{file} changed while it was read. Nothing was saved.", hint="Run it again.")
                if key and not any(ran.failed for ran in engine.ran):
                    context.recall.keep_frame(key, frame)
            return frame, engine

        return self._retry_on_damage(plan, settings, seal)

    def save(self, plan: Plan, wanted: Wanted, settings: Settings = _USUAL) -> tuple[Saved, tuple[Ran, ...]]:
        """Run a plan and commit its rows as a version; also what each function step did."""
        save_rows.check_wanted(wanted)
        try:
            return self._save_once(plan, wanted, settings)
        except save_rows.Collected:  # what is gone is not recalled a second time
            return self._save_once(plan, wanted, settings)

    def _save_once(self, plan: Plan, wanted: Wanted, settings: Settings) -> tuple[Saved, tuple[Ran, ...]]:
        begun = time.time()
        with self.context.parts.hold():
            frame, engine = self.frame(plan, settings)
            ran = provenance.steps(plan, engine, frame.rows)
            told = provenance.add_git_state(self._gather_facts(plan, engine, begun, ran))
            root, local = str(repo_root(self.context.folder)), self.context.here.local
            facts = provenance.fields(provenance.add_file_oids(told, plan, root, local))
            saved = save_rows.save(self.context, wanted, frame, facts)
        process_facts.note(self.context, saved, wanted, facts)
        engine.shared.progress.say(_describe_save(saved, ran))
        if not engine.shared.progress.is_shown:
            notices.warn_failures(ran)
        return saved, ran


def _describe_save(saved: Saved, ran: Sequence[Ran]) -> str:
    """One line for a person: what came of a save."""
    version = saved.version
    failed = sum(one.failed for one in ran)
    failures = f", {failed:,} failed" if failed else ""
    if not saved.new:
        return f"{version.spec} holds the same {count(version.rows, 'row')} already{failures}"
    called = max((one.called for one in ran), default=0)
    recalled = min((one.recalled for one in ran), default=version.rows)
    counts = f" ({called:,} computed, {recalled:,} recalled{failures})" if ran else ""
    return f"saved {version.spec}: {count(version.rows, 'row')}{counts}"
