"""What every test stands on: a home of its own, no settings from outside, and skips that are counted by name."""

from __future__ import annotations

import gc
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests import torture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import S3, Azurite, Bucket, Google

SetClock = Callable[[float], None]
TESTS = Path(__file__).resolve().parent
PYTHONPATH = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS / "startup")])  # of every Python that a test starts
TORTURE = os.environ.get("MEMLAKE_TORTURE")  # the part of `make torture` that runs
NO_SKIPS = os.environ.get("MEMLAKE_NO_SKIPS") == "1"
OURS_TO_KEEP = {"MEMLAKE_TORTURE", "MEMLAKE_NO_SKIPS", "MEMLAKE_CUTS"}
FROM_OUTSIDE = (
    "NO_COLOR", "FORCE_COLOR", "PAGER", "VISUAL", "EDITOR", "XDG_DATA_HOME", "GIT_DIR", "GIT_WORK_TREE",
    "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID",
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "COHERE_API_KEY", "CO_API_URL", "OLLAMA_HOST",
)  # fmt: skip

# Under nohup, or behind an `&`, these are ignored, and by every child too: then no test could interrupt one.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler)

# A shared CI machine stalls now and then, so no example has a deadline; torture only asks for many more of them.
hypothesis.settings.register_profile("memlake", deadline=None, print_blob=True, max_examples=50)
hypothesis.settings.register_profile("torture", deadline=None, print_blob=True, max_examples=2000)
hypothesis.settings.load_profile("torture" if TORTURE else "memlake")


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Home folders that nobody has used yet. (`mktemp` looks through all folders of the run each time.)"""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True, scope="session")
def _home_of_shared_fixtures(homes: Iterator[Path]) -> Iterator[None]:
    """Fixtures of a whole module run before those of a test: they must not use the person's own home either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder := next(homes)))
        patch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
        folder.mkdir()
        yield


@pytest.fixture
def home(homes: Iterator[Path]) -> Path:
    """An empty home folder, of this test alone: what one writes into its settings must not reach the next."""
    folder = next(homes)
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _nothing_from_outside(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting, identity or colour of the person who runs the tests reaches them or their child processes."""
    for name in (*FROM_OUTSIDE, *(name for name in os.environ if name.startswith("MEMLAKE_"))):
        if name not in OURS_TO_KEEP:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Torture tests are another run, not skipped ones: leave them out unless `make torture` asks.

    There, those that passed before it was stopped are left out.
    """
    done = set(json.loads(torture.done_file(TORTURE).read_text())) if TORTURE else set()
    out = [item for item in items if (item.nodeid in done if TORTURE else item.get_closest_marker("torture"))]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


def pytest_collection_finish() -> None:
    """Leave what all tests share out of garbage collection: in a forked child each look at it would copy it, 0.4 s."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    if TORTURE and not hasattr(config, "workerinput"):
        config.pluginmanager.register(torture.Recorder(TORTURE))


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Says how much was tried: `tally(kills=40)`. `make torture` adds the counts of all tests up."""

    def count(**counts: int) -> None:
        for name, number in counts.items():
            record_property(name, number)
        print(", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items()), file=sys.stderr)

    return count


def skipped(config: pytest.Config) -> list[tuple[str, str]]:
    """(test, reason) of everything this run skipped; under xdist the controller has heard of all of them."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    reports = terminal.stats.get("skipped", []) if terminal else []
    return [(report.nodeid, _reason(report)) for report in reports]


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return told.removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where every tool is installed a skip hides a check, so there it fails the run."""
    if NO_SKIPS and exitstatus == pytest.ExitCode.OK and skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    missed = skipped(config)
    counts = {kind: len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error")}
    terminalreporter.write_sep("-", ", ".join(f"{n} {kind}" for kind, n in counts.items()) + f", {len(missed)} skipped")
    for name, reason in sorted(missed):
        terminalreporter.write_line(f"skipped: {name}: {reason}")
    if NO_SKIPS and missed:
        terminalreporter.write_line("MEMLAKE_NO_SKIPS is set: a skipped test fails this run.", red=True)


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[SetClock]:
    """Set the clock by so many seconds ahead of the true time. What counts since the machine started goes on."""
    true, true_ns = time.time, time.time_ns

    def shift(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: true() + seconds)
        monkeypatch.setattr(time, "time_ns", lambda: true_ns() + int(seconds * 1e9))

    yield shift
    monkeypatch.undo()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is also the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A server of buckets with a proxy before it that makes faults. It is imported where it is used: it is slow to."""
    from tests import servers

    server = servers.S3()
    yield server
    server.close()


@pytest.fixture
def bucket(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket, the keys to it, and the proxy without faults."""
    from tests import servers

    for name, value in servers.KEYS.items():
        monkeypatch.setenv(name, value)
    s3.proxy.forget()
    return s3.make_bucket()


@pytest.fixture(scope="session")
def google(s3: S3) -> Iterator[Google]:
    from tests import servers

    server = servers.Google(s3.port)
    yield server
    server.close()


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    from tests import servers

    server = servers.Azurite(tmp_path_factory.mktemp("azurite"))
    yield server
    server.close()
