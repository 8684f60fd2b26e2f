"""What every test stands on: a home of its own, no settings from outside, and skips that are counted by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pathlib import Path

TORTURE = os.environ.get("MEMLAKE_TORTURE") == "1"
NO_SKIPS = os.environ.get("MEMLAKE_NO_SKIPS") == "1"
OURS_TO_KEEP = {"MEMLAKE_TORTURE", "MEMLAKE_NO_SKIPS"}
FROM_OUTSIDE = (
    "NO_COLOR", "FORCE_COLOR", "PAGER", "VISUAL", "EDITOR", "XDG_DATA_HOME", "GIT_DIR", "GIT_WORK_TREE",
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "COHERE_API_KEY", "CO_API_URL", "OLLAMA_HOST",
)  # fmt: skip

# A shared CI machine stalls now and then, so no example has a deadline; torture only asks for many more of them.
hypothesis.settings.register_profile("memlake", deadline=None, print_blob=True)
hypothesis.settings.register_profile("torture", deadline=None, print_blob=True, max_examples=2000)
hypothesis.settings.load_profile("torture" if TORTURE else "memlake")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty home folder, the same for the whole run."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _nothing_from_outside(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting, identity or colour of the person who runs the tests reaches them or their child processes."""
    for name in (*FROM_OUTSIDE, *(name for name in os.environ if name.startswith("MEMLAKE_"))):
        if name not in OURS_TO_KEEP:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Torture tests are another run, not skipped ones: leave them out unless `make torture` asks."""
    if TORTURE:
        return
    long = [item for item in items if item.get_closest_marker("torture")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("torture")]


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
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is also the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
