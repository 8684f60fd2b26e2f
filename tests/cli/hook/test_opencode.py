"""The plugin of opencode under node, as opencode drives it: what it tells, what it keeps, and that it never fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.memories.search import Query
from tests.cli.conftest import Run

PLUGIN = ".opencode/plugins/memlake.js"
DRIVER = """
import { Memlake } from "./plugin.mjs"
const hooks = await Memlake({ directory: process.argv[2] })
const event = (type, properties) => hooks.event({ event: { type, properties } })
const say = async (id, text, number) => {
  const parts = [{ id: "prt_0", type: "text", text }]
  await hooks["chat.message"]({ sessionID: id }, { message: { id: `msg_${number}` }, parts })
  return parts.slice(1)
}
const answer = async (id, text) => {
  await hooks["experimental.text.complete"]({ sessionID: id }, { text })
  await event("session.idle", { sessionID: id })
}
const out = {}
await event("server.connected", {})
await event("session.created", { sessionID: "s1", info: { id: "s1" } })
out.first = await say("s1", "where does our staging cluster run?", 1)
await answer("s1", "The staging cluster runs in Bern, says the memory.")
out.second = await say("s1", "from now on always squash before you merge", 2)
await event("session.created", { sessionID: "s2", info: { id: "s2", parentID: "s1" } })
out.child = await say("s2", "list the files, the staging cluster", 3)
await answer("s2", "A sub-agent saw three files.")
await hooks["experimental.session.compacting"]({ sessionID: "s1" })
await event("session.compacted", { sessionID: "s1" })
out.compacted = await say("s1", "go on", 4)
await answer("s1", "I moved the staging cluster to Basel.")
await hooks.dispose()
console.log(JSON.stringify(out))
"""


@pytest.fixture
def project(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMLAKE_HOOK_SECONDS", "100")
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    run("init")
    run("config", "embedding.provider", "none")
    run("remember", "Names are in snake case", "--category", "conventions")
    run("remember", "The staging cluster runs in Bern")
    run("hook", "install", "--client", "opencode")
    return tmp_path


def drive(project: Path, plugin: str) -> dict[str, Any]:
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed")
    (project / "plugin.mjs").write_text(plugin)
    (project / "driver.mjs").write_text(DRIVER)
    done = subprocess.run(
        [node, str(project / "driver.mjs"), str(project)], cwd=project, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_the_plugin_tells_and_keeps_what_other_clients_do(project: Path) -> None:
    told = drive(project, (project / PLUGIN).read_text())
    start, prompt = told["first"]
    assert "snake case" in start["text"] and "Bern" not in start["text"] and "runs in Bern" in prompt["text"]
    assert all(
        part["synthetic"] and part["messageID"] == "msg_1" and part["id"].startswith("prt_1")
        for part in (start, prompt)
    )
    assert told["second"] == []
    assert ["snake case" in part["text"] for part in told["child"]] == [True]
    assert "snake case" in told["compacted"][0]["text"]
    with ml.open(project) as repo:
        kept = list(repo.memories().search(Query(agent_id="opencode")))
    texts = [one["content"] for one in kept]
    assert {one["session_id"] for one in kept} == {"s1"} and "Basel" in "".join(texts)
    assert not any("sub-agent saw" in text for text in texts)
    assert not (project / ".memlake/hooks.log").exists()


def test_the_plugin_does_without_memlake(project: Path) -> None:
    plugin = (project / PLUGIN).read_text()
    for program in ('["/no/such/program"]', '["false"]', '["echo", "no JSON"]', "[]"):
        told = drive(project, plugin.replace('["memlake"]', program, 1))
        assert told == {"first": [], "second": [], "child": [], "compacted": []}, program
