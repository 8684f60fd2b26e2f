"""Real coding agents live a session each, against a model that is a stub: what they hand over, and what is kept of it.

They come from npm (`.ci/run`). Nothing leaves the machine: the model listens on loopback and wants no key.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.memories.search import Query
from memlake.programs import PROGRAMS
from tests.cli.conftest import Run
from tests.cli.hook.stub_model import Model, serve_model

CLIENTS = Path(__file__).resolve().parents[3] / "build" / "clients" / "node_modules" / ".bin"
SAYS = "I moved the staging cluster of the shop to Frankfurt."
PROMPT = "where does our staging cluster run?"


@pytest.fixture
def model() -> Iterator[Model]:
    with serve_model(SAYS) as model:
        yield model


@pytest.fixture
def project(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repo of git and of memlake that remembers two things, and `memlake` by its name."""
    monkeypatch.setenv("MEMLAKE_HOOK_SECONDS", "100")
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), str(CLIENTS), os.environ["PATH"]]))
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    run("init")
    run("config", "embedding.provider", "none")
    run("remember", "Names are in snake case", "--category", "conventions")
    run("remember", "The staging cluster runs in Bern", "--on-conflict", "add")
    return tmp_path


def find(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; npm install --prefix build/clients brings it")
    return found


def write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def claude(_project: Path, model: Model) -> list[str]:
    os.environ.update(ANTHROPIC_BASE_URL=model.address, ANTHROPIC_API_KEY="none")
    os.environ.update(CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1")
    return [find("claude"), "-p", PROMPT]


def codex(_project: Path, model: Model) -> list[str]:
    os.environ["OPENAI_API_KEY"] = "none"
    own = f'{{name="stub",base_url="{model.address}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}}'
    settings = (f"model_providers.stub={own}", "model_provider=stub", "model=stub")
    options = [part for one in settings for part in ("-c", one)]
    return [find("codex"), "exec", "--trust", "--dangerously-bypass-hook-trust", *options, PROMPT]


def gemini(_project: Path, model: Model) -> list[str]:
    os.environ.update(GEMINI_API_KEY="none", GOOGLE_GEMINI_BASE_URL=model.address, GEMINI_CLI_TRUST_WORKSPACE="true")
    write(Path.home() / ".gemini/settings.json", {"security": {"auth": {"selectedType": "gemini-api-key"}}})
    return [find("gemini"), "-m", "gemini-2.5-flash", "-p", PROMPT]


def copilot(_project: Path, model: Model) -> list[str]:
    os.environ.update(COPILOT_OFFLINE="true", COPILOT_PROVIDER_BASE_URL=f"{model.address}/v1", COPILOT_MODEL="stub")
    return [find("copilot"), "--trust-folder", "-s", "-p", PROMPT]


def opencode(project: Path, model: Model) -> list[str]:
    os.environ.update(OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1")
    stub = {
        "npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{model.address}/v1", "apiKey": "none"},
        "models": {"stub": {"name": "stub"}},
    }  # fmt: skip
    settings = {"model": "stub/stub", "small_model": "stub/stub", "provider": {"stub": stub}, "share": "disabled"}
    write(project / "opencode.json", settings)
    return [find("opencode"), "run", "--title", "none", PROMPT]


SLOW = pytest.param(opencode, marks=pytest.mark.torture)  # it installs packages first: 12 s of processor


@pytest.mark.parametrize("start", [claude, codex, gemini, copilot, SLOW])
def test_a_session_is_told_what_is_remembered_and_is_remembered_itself(
    start: Callable[[Path, Model], list[str]], run: Run, project: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = start.__name__
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", os.environ.copy())
        command = start(project, model)
        run("hook", "install", "--client", name)
        done = subprocess.run(
            command, cwd=project, env={**os.environ, "PWD": str(project)}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
    assert done.returncode == 0 and SAYS in done.stdout, done
    asked = next(body for body in model.asked if PROMPT in body)
    for told in ("Names are in snake case", "The staging cluster runs in Bern"):
        assert asked.count(told) == 1, f"{name} was told this {asked.count(told)} times: {told}"
    with ml.open(project) as repo:
        kept = list(repo.memories().search(Query(memory_type="summary")))
    assert [(one["agent_id"], one["client"]) for one in kept] == [(PROGRAMS[name].agent, PROGRAMS[name].agent)], done
    assert SAYS.rstrip(".") in kept[0]["content"]
    assert kept[0]["session_id"]
    assert not (project / ".memlake/hooks.log").exists()
