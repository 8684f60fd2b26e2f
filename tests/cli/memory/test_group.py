"""remember, recall, memory and state as a person types them, on real repos without a model."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import SOURCE, Run, stored
from tests.conftest import SetClock

Process = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def repo(memory_repo: Path) -> Path:
    return memory_repo


def hits(run: Run, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run("recall", *words, "--json").json["hits"]
    return found


def contents(run: Run, *words: str) -> list[str]:
    return [hit["content"] for hit in hits(run, *words)]


# -- json


def test_what_is_no_text_is_told_as_json_that_every_reader_takes(process: Process, repo: Path) -> None:
    assert process("remember", "-q", input=b"the caf\xe9 menu is on the wall").returncode == 0
    told = process("recall", "menu", "--json").stdout
    assert json.loads(told.decode())["hits"][0]["content"] == "the caf\udce9 menu is on the wall"


# -- which repo


def test_the_repo_is_named_when_one_does_not_stand_in_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    personal = tmp_path / "data" / "memlake"
    for line in (("remember", "User prefers tabs"), ("recall", "tabs")):
        assert f"(in your personal repo {personal}, for project {tmp_path})" in run(*line).err
        assert run(*line, "--json").json["repo"] == str(personal)
    run("init", "project")
    monkeypatch.setenv("MEMLAKE_REPO", str(tmp_path / "project"))
    assert f"(in the repo {tmp_path / 'project'})" in run("recall", "tabs").err
    (tmp_path / "project" / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "project" / "deep")
    assert "(in " not in run("recall", "tabs").err
    assert run("recall", "tabs", "--json").json["repo"] == str(tmp_path / "project")


# -- remember


def test_a_secret_is_warned_of_wherever_it_is_put(run: Run, repo: Path) -> None:
    key = "npm_" + "aB3dE5gH7j" * 3 + "kL9mN1"
    full = stored(run, "Tea is hot")
    for line in (
        ("remember", "Coffee is cold", "--metadata", f"k={key}"), ("remember", "Milk is white", "--tag", key),
        ("memory", "update", full, "--metadata", f"k={key}"), ("state", "set", "login", key),
    ):  # fmt: skip
        done = run(*line)
        assert "holds an npm token" in done.err and key not in done.err


def test_an_end_is_typed_as_people_say_it_and_taken_away_again(run: Run, repo: Path) -> None:
    full = stored(run, "The wifi password is on the fridge", "--expires", "in 3 days")
    assert run("memory", "show", full, "--json").json["memory"]["expires_at"]
    run("memory", "update", full, "--expires", "never")
    assert run("memory", "show", full, "--json").json["memory"]["expires_at"] is None
    refused = run("remember", "The wifi is new", "--expires", "2001-01-01", code=128)
    assert "that is over. Nothing was stored." in refused.err and "tomorrow" in refused.err


def test_remember_says_what_became_of_it_and_why_in_one_line(run: Run, repo: Path) -> None:
    lines = run("remember", "User prefers commit messages in Chinese", "--category", "preferences").lines
    assert len(lines) == 1 and lines[0].startswith("Remembered (add: ")
    again = run("remember", "User prefers commit messages in Chinese").lines
    assert again[0].startswith("Known already (skip: ") and again[0].split()[-1] == lines[0].split()[-1]


def test_remember_stores_every_field_it_was_given(run: Run, repo: Path) -> None:
    full = stored(
        run, "The API runs on port 8080", "--category", "project-notes", "--tag", "api", "--tag", "net",
        "--type", "context", "--importance", "0.9", "--metadata", "env=prod", "--metadata", "ports=[8080]",
        "--agent", "ada", "--session", "s1", "--expires", "2099-01-01",
    )  # fmt: skip
    found = run("memory", "show", full, "--json").json["memory"]
    assert (found["category"], found["tags"], found["memory_type"]) == ("project-notes", ["api", "net"], "context")
    assert found["metadata"] == {"env": "prod", "ports": [8080]} and found["importance"] == 0.9
    assert (found["agent_id"], found["session_id"]) == ("ada", "s1") and found["expires_at"].startswith("2099")
    table = {"memory_id", "org_id", "agent_id", "session_id", "memory_type", "content", "metadata", "importance"}
    table |= {"has_embedding", "access_count", "last_accessed", "created_at", "updated_at"}
    assert table <= found.keys()


def test_remember_reads_standard_input(process: Process, run: Run, repo: Path) -> None:
    for args in (["remember"], ["remember", "-"]):
        done = process(*args, input=b"Ada works from Lisbon\n")
        assert done.returncode == 0, done.stderr
    assert contents(run, "Lisbon") == ["Ada works from Lisbon"]


def test_a_dry_run_stores_nothing(run: Run, repo: Path) -> None:
    assert run("remember", "-n", "Ada works from Lisbon").out.startswith("Would be: remembered (add: ")
    assert run("memory", "ls", "--json").json["memories"] == []


def test_vague_content_is_stored_with_a_warning(run: Run, repo: Path) -> None:
    done = run("remember", "stuff")
    assert done.err.startswith("warning: ") and done.out.startswith("Remembered")


def test_a_correction_keeps_what_was_said_before(run: Run, repo: Path) -> None:
    full = stored(run, "The API runs on port 8080")
    done = run("remember", "The API now runs on port 9090")
    assert done.out.startswith("Corrected an old one") and full in done.out
    said = [version["content"] for version in run("memory", "history", full, "--json").json["versions"]]
    assert said == ["The API runs on port 8080", "The API now runs on port 9090"]


def test_what_is_to_be_asked_is_kept_beside_and_settled_by_resolve(run: Run, repo: Path) -> None:
    old = stored(run, "The API runs on port 8080")
    new = stored(run, "The API now runs on port 9090", "--on-conflict", "ask")
    assert old != new
    shown = run("memory", "conflicts")
    assert new in shown.out and "old: The API runs on port 8080" in shown.out and "resolve" in shown.err
    assert run("memory", "conflicts", "--json").json["conflicts"][0]["old"]["memory_id"] == old
    assert run("memory", "resolve", new, "--keep", "old").out.startswith("Kept old")
    assert contents(run, "API") == ["The API runs on port 8080"]
    assert run("memory", "conflicts").err == "No memories contradict each other.\n"


def test_a_replacement_made_alone_is_listed_with_the_line_that_takes_it_back(run: Run, repo: Path) -> None:
    assert run("memory", "conflicts", "--decided").err == "New memories changed nothing.\n"
    stored(run, "The API runs on port 8080")
    run("remember", "The API now runs on port 9090")
    shown = run("memory", "conflicts", "--decided").out.splitlines()
    assert shown[0].endswith("conflict (correction, not certain)")
    assert shown[1:3] == ["    new: The API now runs on port 9090", "    old: The API runs on port 8080"]
    run(*shown[3].split()[1:])
    assert contents(run, "API") == ["The API runs on port 8080"]
    told = run("memory", "conflicts", "--decided", "--json").json["decided"]
    assert (told[0]["rule"], told[0]["unsure"]) == ("correction", True)


@pytest.mark.parametrize("bad", [["--metadata", "novalue"], ["--importance", "2"], ["--on-conflict", "maybe"]])
def test_a_bad_option_is_a_usage_error_and_stores_nothing(run: Run, repo: Path, bad: list[str]) -> None:
    run("remember", "Ada works from Lisbon", *bad, code=2)
    assert run("memory", "ls", "--json").json["memories"] == []


def test_empty_content_is_refused(run: Run, repo: Path) -> None:
    assert "content is empty" in run("remember", "  ", code=128).err


# -- recall


def test_recall_shows_date_agent_content_and_tags(run: Run, repo: Path) -> None:
    full = stored(run, "Revenue grew in the fourth quarter", "--agent", "ada", "--tag", "q4")
    lines = run("recall", "revenue").lines
    assert lines[0].split()[:2] == ["1.", full] and lines[0].split()[3] == "ada"
    assert lines[1] == "      Revenue grew in the fourth quarter"
    assert lines[2] == "      fact  #q4"


def test_recall_numbers_its_hits_and_leaves_out_what_is_not_near(run: Run, repo: Path) -> None:
    for text in ("Ada plays the cello in an orchestra", "Ada lives in Lisbon"):
        stored(run, text)
    every = ("recall", "Ada plays the cello", "--min-score", "0")
    heads = [line.split()[0] for line in run(*every).lines if not line.startswith("      ") and line]
    assert heads == ["1.", "2."]
    assert run(*every, "--offset", "1").lines[0].split()[0] == "2."
    near = run("recall", "Ada plays the cello", "--min-score", "0.6").out
    assert "Lisbon" not in near and "  score 1.00" in near
    assert run("recall", "who painted the mona lisa").out == ""


def test_recall_of_nothing_is_no_failure_and_says_so_on_stderr(run: Run, repo: Path) -> None:
    done = run("recall", "zzz")
    assert (done.code, done.out, done.err) == (0, "", "Nothing found.\n")


def test_recall_filters_by_everything_it_takes(run: Run, repo: Path) -> None:
    stored(
        run,
        "The build takes long on Mondays",
        "--agent",
        "ada",
        "--tag",
        "ci",
        "--metadata",
        "n=1",
        "--importance",
        "0.9",
    )
    stored(run, "The build breaks often on Fridays", "--agent", "bob", "--category", "learnings", "--session", "s2")
    assert len(contents(run, "build")) == 2
    first, second = "The build takes long on Mondays", "The build breaks often on Fridays"
    for options in (["--agent", "ada"], ["--tag", "ci"], ["--metadata", "n=1"], ["--min-importance", "0.8"]):
        assert contents(run, "build", *options) == [first], options
    for options in (["--agent", "bob"], ["--category", "learnings"], ["--session", "s2"]):
        assert contents(run, "build", *options) == [second], options
    assert len(contents(run, "build", "--agent", "ada", "--agent", "bob")) == 2
    assert contents(run, "build", "--until", "yesterday") == contents(run, "build", "--metadata", "n=2") == []
    assert len(contents(run, "build", "-n", "1")) == len(contents(run, "build", "--offset", "1")) == 1


def test_recall_without_a_query_gives_the_newest_first(run: Run, repo: Path) -> None:
    stored(run, "Ada works from Lisbon")
    stored(run, "Bob plays the cello")
    assert contents(run) == ["Bob plays the cello", "Ada works from Lisbon"]


def test_recall_on_a_branch_and_in_the_past(run: Run, repo: Path) -> None:
    stored(run, "Ada works from Lisbon")
    run("branch", "draft")
    stored(run, "Ada moved her desk to the window", "--branch", "draft")
    assert contents(run, "Ada") == ["Ada works from Lisbon"]
    assert len(contents(run, "Ada", "--branch", "draft")) == 2
    assert contents(run, "Ada", "--branch", "draft", "--sees", "branch-only") == ["Ada moved her desk to the window"]
    assert contents(run, "Ada", "--branch", "draft", "--sees", "main") == ["Ada works from Lisbon"]
    stored(run, "Ada likes tea")
    assert contents(run, "Ada", "--as-of", "main~1") == ["Ada works from Lisbon"]


def test_explain_says_what_each_arm_gave_and_how_it_was_searched(run: Run, repo: Path) -> None:
    stored(run, "Ada works from Lisbon")
    done = run("recall", "Lisbon", "--explain")
    assert "why: words " in done.lines[-1] and "boost " in done.lines[-1]
    assert done.err.startswith("searched: keyword on main")


def test_a_budget_of_tokens_leaves_out_the_rest_and_says_so(run: Run, repo: Path) -> None:
    for name in ("Ada", "Bob", "Cleo"):
        stored(run, f"{name} likes long walks on the beach at sunset")
    none = run("recall", "walks", "--max-tokens", "1")
    assert none.out == "" and none.err == "3 left out by --max-tokens.\n"
    done = run("recall", "walks", "--max-tokens", "40")
    assert done.out.count("walks") == 1 and done.err == "2 left out by --max-tokens.\n"
    assert run("recall", "walks", "--max-tokens", "40", "--json").json["left_out"] == 2


def test_recall_helps_what_waits_for_a_vector_along_after_it_has_printed(
    process: Process, run: Run, repo: Path
) -> None:
    run("config", "embedding.provider", "test")
    run("config", "embedding.flush_seconds", "30")  # the worker would wait longer than any command here lives
    full = stored(run, "Ada works from Lisbon", "--on-conflict", "add")
    waiting = run("memory", "stats", "--json").json["stats"]
    assert waiting["waiting"] == 1 and not run("memory", "show", full, "--json").json["memory"]["has_embedding"]
    assert process("recall", "--mode", "keyword", "Lisbon").returncode == 0  # no model was opened: none is
    assert run("memory", "stats", "--json").json["stats"]["waiting"] == 1
    assert process("recall", "Lisbon").returncode == 0
    assert run("memory", "show", full, "--json").json["memory"]["has_embedding"]


def test_the_first_recall_after_a_remember_finds_by_meaning(run: Run, repo: Path) -> None:
    run("config", "embedding.provider", "test")
    run("config", "embedding.flush_seconds", "30")  # the worker would wait longer than any command here lives
    stored(run, "Ada works from Lisbon", "--on-conflict", "add")
    # The vectors of this provider are by chance, and the date is in the text, so what is near differs from day to day.
    found = run("recall", "--mode", "semantic", "Ada worked in Lisbon", "--min-score", "0", "--json").json
    assert (found["mode"], found["notes"]) == ("semantic", [])
    assert found["hits"][0]["why"]["vectors"] > 0


def test_recall_does_not_wait_for_a_service_that_accepts_and_never_answers(
    run: Run, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(run, "Ada works from Lisbon")
    monkeypatch.setattr("memlake.memories.resources.PATIENCE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        run("config", "embedding.provider", "ollama")
        run("config", "embedding.url", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "did not answer within 0.3 s" in run("recall", "Lisbon").err


def test_recall_leaves_a_service_that_answers_the_query_and_nothing_after_it(
    run: Run, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("config", "embedding.provider", "test")
    run("config", "embedding.flush_seconds", "30")
    stored(run, "Ada works from Lisbon", "--on-conflict", "add")
    goes_on = threading.Event()
    monkeypatch.setattr("memlake.memories.memories.Memories.catch_up", lambda _memories: None)  # as of a service
    monkeypatch.setattr("memlake.memories.memories.Memories.embed_pending", lambda *_: goes_on.wait(250) and 0)
    monkeypatch.setattr("memlake.cli.memory.recall._LONGEST", 0.3)
    assert "Lisbon" in run("recall", "Lisbon").out
    goes_on.set()


def test_config_refuses_an_embedder_that_is_not_there_and_an_address_that_is_none(run: Run, repo: Path) -> None:
    said = run("config", "embedding.provider", "bogus", code=None).err
    assert "bogus" in said and "local" in said and run("config", "embedding.provider").out == "none\n"
    assert "embedding.url" in run("config", "embedding.url", "not a url", code=None).err
    assert "embedding.url=\n" in run("config", "--list").out


EVIL = "evil \x1b[31mred\x1b]0;title\x07 \u202etxt\nsecond line\r\x9b2J"


def test_what_a_memory_says_cannot_reach_the_terminal(run: Run, repo: Path) -> None:
    full = stored(run, EVIL, "--agent", "x\x1b[1m", "--tag", "t\x1b[2m")
    verbs = (["recall", "evil"], ["memory", "ls"], ["memory", "stats"], ["memory", "show", full])
    for args in (*verbs, ["memory", "history", full], ["memory", "forget", full]):
        assert [char for char in run(*args).out if char != "\n" and not char.isprintable()] == [], args
    run("memory", "restore", full)
    coloured = run("--color=always", "recall", "evil").out
    assert set(re.findall("\x1b.[^m]*m", coloured)) == {"\x1b[1m", "\x1b[33m", "\x1b[2m", "\x1b[0m"}
    assert not {"\x07", "\r", "\x9b", "\u202e"} & set(coloured)
    assert "\\x1b[31mred" in run("recall", "evil").out
    assert run("recall", "evil", "--json").json["hits"][0]["content"] == EVIL


def test_a_line_of_a_memory_cannot_pass_for_another_hit(run: Run, repo: Path) -> None:
    stored(run, "evil\n1.00  01a1e419-3973-7051-962b-4bf4805c50c4  2026-11-16  admin\n      forged")
    assert [line for line in run("recall", "evil").lines if not line.startswith(" ")][1:] == []


def test_recall_outside_a_repo_uses_the_personal_one(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = {"XDG_DATA_HOME": str(tmp_path / "data")}
    first = process("remember", "Ada works from Lisbon", "-q", env=env)
    assert first.returncode == 0 and b"personal" in first.stderr and (tmp_path / "data/memlake/.memlake").is_dir()
    second = process("recall", "Lisbon", "--mode", "keyword", env=env)
    assert b"Ada works from Lisbon" in second.stdout and b"no repo here" not in second.stderr


def test_a_repo_named_by_option_or_environment_is_used(process: Process, run: Run, repo: Path, tmp_path: Path) -> None:
    stored(run, "Ada works from Lisbon")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    for args, env in ((["-C", str(repo)], {}), ([], {"MEMLAKE_REPO": str(repo)})):
        done = process(*args, "recall", "Lisbon", cwd=elsewhere, env=env)
        assert b"Ada works from Lisbon" in done.stdout, done.stderr


# -- memory


def test_an_id_may_be_given_by_its_beginning(run: Run, repo: Path) -> None:
    full = stored(run, "Ada works from Lisbon")
    for beginning in (full, full[:30], full[:8], full.replace("-", "")[:7], full.upper()[:13]):
        assert full in run("memory", "show", beginning).out
    assert "not a memory id" in run("memory", "show", full[:5], code=128).err
    assert "begins with" in run("memory", "show", "ffffff", code=128).err
    assert "there is no memory" in run("memory", "show", "01a1e419-3973-7051-962b-4bf4805c50c4", code=128).err


def test_a_beginning_of_several_ids_names_them(run: Run, repo: Path) -> None:
    ids = {stored(run, "Ada works from Lisbon"), stored(run, "Bob plays the cello")}
    err = run("memory", "show", next(iter(ids))[:6], code=128).err
    assert all(full in err for full in ids)


def test_a_forgotten_memory_gives_its_beginning_to_the_one_that_is_there(run: Run, repo: Path) -> None:
    gone, kept = stored(run, "Ada works from Lisbon"), stored(run, "Bob plays the cello")
    run("memory", "forget", gone)
    assert kept in run("memory", "show", kept[:6]).out


def test_forget_and_restore(run: Run, repo: Path) -> None:
    full = stored(run, "Ada works from Lisbon")
    assert run("memory", "forget", full[:20]).out == f"Forgot {full}: Ada works from Lisbon\n"
    assert contents(run, "Lisbon") == [] and run("memory", "show", full, code=128).err
    assert run("memory", "restore", full[:20]).out == f"Restored {full}: Ada works from Lisbon\n"
    assert contents(run, "Lisbon") == ["Ada works from Lisbon"]


def test_forget_of_many_forgets_none_when_one_is_unknown(run: Run, repo: Path) -> None:
    full = stored(run, "Ada works from Lisbon")
    for unknown in ("ffffff", "01a1e419-3973-7051-962b-4bf4805c50c4"):
        run("memory", "forget", full, unknown, code=128)
    assert contents(run, "Lisbon") == ["Ada works from Lisbon"]


def test_update_changes_what_is_named_and_nothing_else(run: Run, repo: Path) -> None:
    full = stored(run, "Ada works from Lisbon", "--tag", "people", "--importance", "0.8")
    run("memory", "update", full, "Ada works from Porto", "--category", "contacts")
    found = run("memory", "show", full, "--json").json["memory"]
    assert (found["content"], found["category"], found["tags"]) == ("Ada works from Porto", "contacts", ["people"])
    assert found["importance"] == 0.8 and found["metadata"]["history"][0]["value"] == "Ada works from Lisbon"
    assert "say what to change" in run("memory", "update", full, code=2).err
    assert run("memory", "restore", full).out.endswith("Ada works from Lisbon\n")


def test_purge_needs_a_reason_and_a_yes_and_leaves_nothing(run: Run, repo: Path) -> None:
    full = stored(run, "Ada's code word is xylophone")
    assert "--reason" in run("memory", "purge", full, code=2).err
    assert "--yes" in run("memory", "purge", full, "--reason", "asked", code=2).err
    assert contents(run, "xylophone")
    assert run("memory", "purge", full, "--reason", "asked", "--yes").out.startswith(f"Erased memory {full}: ")
    held = [file for file in (repo / ".memlake").rglob("*") if file.is_file() and b"xylophone" in file.read_bytes()]
    assert held == [] and contents(run, "xylophone") == []


def test_stale_memories_are_listed_and_evicted(run: Run, repo: Path) -> None:
    full = stored(run, "Ada works from Lisbon", "--importance", "0.2")
    stored(run, "Bob plays the cello", "--importance", "0.9")
    assert run("memory", "stale").err == "Nothing is stale.\n"
    old = ("--days", "0")
    assert [line.split()[0] for line in run("memory", "stale", *old).lines] == [full]
    assert "Would forget 1 memory." in run("memory", "evict", *old, "--dry-run").err
    assert len(contents(run)) == 2
    assert "Forgot 1 memory." in run("memory", "evict", *old, "--max-importance", "0.5", "--max-sessions", "9").err
    assert contents(run) == ["Bob plays the cello"]
    assert run("memory", "evict", "--json").json["memories"] == []


def test_stats_count_by_agent_type_and_category(run: Run, repo: Path) -> None:
    stored(run, "Ada works from Lisbon", "--agent", "ada", "--category", "contacts")
    stored(run, "Bob plays the cello", "--type", "preference")
    found = run("memory", "stats", "--json").json["stats"]
    assert found["memories"] == 2 and found["agents"] == {"ada": 1, "": 1} and found["model"] == "none"
    assert found["types"] == {"fact": 1, "preference": 1} and found["categories"] == {"contacts": 1, "": 1}
    text = run("memory", "stats").out
    assert text.startswith("2 memories on main\n") and "none: found by words alone" in text


def test_diff_and_log_show_what_changed(run: Run, repo: Path) -> None:
    stored(run, "Ada works from Lisbon")
    full = stored(run, "Bob plays the cello")
    run("memory", "update", full, "Bob plays the viola")
    assert run("memory", "diff", "main~1").lines == [f"~ {full}", "  - Bob plays the cello", "  + Bob plays the viola"]
    assert [one["status"] for one in run("memory", "diff", "main~2", "main~1", "--json").json["differences"]] == ["A"]
    assert [line.partition(": ")[2].split()[0] for line in run("memory", "log").lines] == ["update", "add", "add"]


def test_what_is_exported_can_be_imported_once(run: Run, repo: Path, tmp_path: Path) -> None:
    full = stored(run, "Ada works from Lisbon", "--tag", "people")
    run("memory", "update", full, "Ada works from Porto")
    assert run("memory", "export", "out.jsonl").err == "Wrote 1 memory to out.jsonl.\n"
    assert "exists" in run("memory", "export", "out.jsonl", code=128).err
    run("init", "other")
    for said in ("Stored 1 memory.", "Stored 0 memories, 1 known already."):
        assert run("-C", "other", "memory", "import", str(tmp_path / "out.jsonl")).out == f"{said}\n"
    versions = run("-C", "other", "memory", "show", full, "--json").json["memory"]["metadata"]["history"]
    assert [past["value"] for past in versions] == ["Ada works from Lisbon"]


def test_an_import_that_cannot_be_read_names_the_place(run: Run, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"content": "Ada works from Lisbon"}\nnot json\n')
    assert "bad.jsonl" in run("memory", "import", "bad.jsonl", code=128).err
    done = run("memory", "import", "bad.jsonl", "--skip-bad")
    assert "1 left out" in done.out and "warning: bad.jsonl" in done.err


def test_export_goes_into_a_pipe(process: Process, run: Run, repo: Path) -> None:
    stored(run, "Ada works from Lisbon")
    done = process("memory", "export")
    assert json.loads(done.stdout)["content"] == "Ada works from Lisbon" and done.stderr == b"Wrote 1 memory.\n"


# -- state


def test_state_is_kept_by_agent_and_key(run: Run, repo: Path) -> None:
    run("state", "set", "task", "write the report", "--agent", "ada")
    run("state", "set", "step", '{"n": 3}', "--agent", "ada")
    assert run("state", "get", "task", "--agent", "ada").out == "write the report\n"
    assert run("state", "get", "step", "--agent", "ada", "--json").json["state"]["value"] == {"n": 3}
    assert [line.split("  (")[0] for line in run("state", "ls").lines] == [
        'ada  step = {"n": 3}',
        'ada  task = "write the report"',
    ]
    run("state", "rm", "task", "--agent", "ada")
    assert "nothing is kept under 'task' by ada." in run("state", "get", "task", "--agent", "ada", code=128).err
    assert "nothing is kept under 'task'. Nothing was" in run("state", "rm", "task", code=128).err
    run("state", "rm", "task", "--agent", "ada", code=128)
    assert "not JSON" in run("state", "set", "x", "{broken", "--json", code=128).err


# -- the door


def completed(process: Process, line: str, folder: Path) -> list[str]:
    words = line.split(" ")
    env = {"MEMLAKE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = process(env=env, cwd=folder)
    return [row.split(b",", 1)[1].decode() for row in done.stdout.splitlines()]


def test_categories_agents_ids_and_branches_are_completed(process: Process, run: Run, repo: Path) -> None:
    full = stored(run, "Ada works from Lisbon", "--agent", "ada", "--category", "contacts-of-mine", "--tag", "people")
    run("branch", "draft")
    assert completed(process, "memlake recall --category con", repo) == ["contacts", "contacts-of-mine", "conventions"]
    assert completed(process, "memlake recall --agent a", repo) == ["ada"]
    assert completed(process, "memlake recall --tag p", repo) == ["people"]
    assert completed(process, "memlake memory show 0", repo) == [full]
    assert completed(process, "memlake recall --branch d", repo) == ["draft"]


def loaded(*args: str, cwd: Path) -> set[str]:
    """Modules a command has loaded when it ends, and the threads that numpy was told to start."""
    script = (
        "import os, sys; from memlake.cli.main import main; main(sys.argv[1:]);"
        "print(*sys.modules, 'threads=' + os.environ.get('OPENBLAS_NUM_THREADS', ''), file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, *args]
    done = subprocess.run(command, cwd=cwd, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("verb", ["remember", "recall", "memory", "state", "mcp", "hook"])
def test_help_of_a_memory_verb_loads_no_numpy_and_no_sdk(verb: str, tmp_path: Path) -> None:
    found = loaded(verb, "--help", cwd=tmp_path)
    assert not {"numpy", "mcp", "anyio", "tomlkit"} & found and "memlake.cli.main" in found


def test_recall_loads_no_rules_of_remembering_and_starts_no_threads_of_algebra(run: Run, repo: Path) -> None:
    found = loaded("recall", "x", cwd=repo)
    assert "numpy" in found and not {"memlake.memories.rules.decision", "memlake.memories.remember"} & found
    assert "threads=1" in found


def test_status_loads_nothing_of_memories(run: Run, repo: Path) -> None:
    found = loaded("status", cwd=repo)
    quick = {"memlake.memories.kind"}  # what status must know of them
    assert not {name for name in found if name.startswith(("memlake.memories.", "memlake.index", "numpy"))} - quick


def test_history_shows_forgetting_and_purging_as_events(run: Run, repo: Path) -> None:
    memory = stored(run, "The sky is blue")
    run("memory", "forget", memory)
    shown = run("memory", "history", memory).lines
    assert (
        shown[-2].startswith("forgot     ") and shown[-2].endswith("  Ada") and shown[-1].strip().startswith("forget")
    )
    run("memory", "restore", memory)
    assert f"restore memory {memory}" in run("memory", "history", memory).out
    run("memory", "purge", memory, "--reason", "asked to", "--yes")
    shown = run("memory", "history", memory).lines
    assert shown[-2].startswith("purged     ") and shown[-2].endswith("  Ada") and shown[-1].strip() == "asked to"
    assert "(purged)" in "\n".join(shown) and "blue" not in "\n".join(shown)


def test_the_last_six_characters_of_an_id_name_a_memory(run: Run, repo: Path) -> None:
    ids = [stored(run, f"Fact number {n} is about {word}") for n, word in enumerate(("tea", "rain", "steel"))]
    assert len({one[:6] for one in ids}) == 1  # made in the same hours
    for one in ids:
        assert run("memory", "show", one[-6:], "--json").json["memory"]["memory_id"] == one
        assert run("memory", "show", one[-7:].upper(), "--json").json["memory"]["memory_id"] == one
    told = run("memory", "show", ids[0][:6], code=None)
    assert told.code and "last characters" in told.err and ids[2] in told.err
    run("memory", "forget", ids[1][-6:])
    assert run("memory", "restore", ids[1][-6:]).out.startswith(f"Restored {ids[1]}")


# -- who, how long, and gone for good


def test_blame_names_who_gave_each_field_its_value(run: Run, repo: Path) -> None:
    memory = stored(run, "The sky is blue", "--agent", "bot", "--category", "learnings")
    run("memory", "update", memory, "The sky is grey")
    told = {one["field"]: one for one in run("memory", "blame", memory, "--json").json["fields"]}
    assert told["category"]["author"] == "bot" and told["content"]["author"] != "bot"
    assert told["content"]["value"] == "The sky is grey" and told["content"]["commit"] != told["category"]["commit"]
    assert re.search(r"^[0-9a-f]+ .* bot\n    category: learnings$", run("memory", "blame", memory[-6:]).out, re.M)


def test_a_branch_with_a_time_to_live_is_gone_once_it_is_over(run: Run, repo: Path, set_clock: SetClock) -> None:
    stored(run, "The sky is blue")
    assert "will be discarded at" in run("branch", "t1", "--ttl", "2h").err
    run("branch", "t2", "--ttl", "1h")
    assert {"t1", "t2"} <= set(run("branch").out.split())
    set_clock(3700)
    assert "t2" not in run("branch").out.split() and "t1" in run("branch").out.split()
    for wrong in ("soon", "yesterday", "99999 years"):
        run("branch", "t3", "--ttl", wrong, code=128)
    assert "t3" not in run("branch").out


def test_a_state_value_is_erased_for_good(run: Run, repo: Path) -> None:
    run("state", "set", "phase", "one-4711")
    run("state", "set", "phase", "two-4712")
    run("state", "rm", "phase", "--purge", "--yes", code=2)
    run("state", "rm", "phase", "--purge", "--reason", "asked to", code=2)  # nobody is there to be asked
    assert run("state", "get", "phase").out == "two-4712\n"
    assert "2 objects" in run("state", "rm", "phase", "--purge", "--reason", "asked to", "--yes").out
    run("state", "get", "phase", code=128)
    kept = b"".join(path.read_bytes() for path in (repo / ".memlake").rglob("*") if path.is_file())
    assert b"4711" not in kept and b"4712" not in kept
    run("state", "rm", "phase", "--purge", "--reason", "again", "--yes", code=128)


def test_the_end_that_was_understood_is_told(run: Run, repo: Path) -> None:
    assert re.search(r"It ends \d{4}-\d\d-\d\d 09:00", run("remember", "x is y", "--expires", "tomorrow 9am").err)
    assert "ends" not in run("remember", "The sky is blue").err
    run("remember", "a is b", "--expires", "0s", code=128)


def test_a_past_that_lies_ahead_is_said_so(run: Run, repo: Path) -> None:
    stored(run, "The sky is blue")
    for line in (("recall", "sky", "--as-of", "tomorrow"), ("memory", "ls", "--since", "tomorrow")):
        assert "lies ahead" in run(*line, code=128).err
    assert "no time either" in (told := run("recall", "sky", "--as-of", "2020", code=128).err) and "2026-01-31" in told


def test_a_branch_of_memories_alone_is_made_and_named_when_it_goes(run: Run, repo: Path) -> None:
    assert "Commit or remember something first" in run("branch", "draft", code=128).err
    stored(run, "The sky is blue")
    run("branch", "draft")
    assert re.search(r"\(was [0-9a-f]{10}\)", run("branch", "-d", "draft").out)


@pytest.mark.parametrize("days", ["nan", "inf", "1e300"])
@pytest.mark.parametrize("verb", ["stale", "evict"])
def test_a_number_of_days_that_is_none_is_refused(run: Run, repo: Path, verb: str, days: str) -> None:
    stored(run, "The sky is blue")
    told = run("memory", verb, "--days", days, code=128).err
    assert told.startswith(f"fatal: days is a number from 0 to 2,932,897, not {float(days)!r}. Nothing was changed.")
    run("memory", verb, "--days", "2932897")


def test_what_is_no_id_is_told_that_six_characters_are_enough(run: Run, repo: Path) -> None:
    told = run("memory", "show", "nope", code=128).err.splitlines()
    assert told == [
        "fatal: 'nope' is not a memory id: an id is a UUID of 36 characters.",
        "hint: The last six characters of an id are enough.",
        "hint: See the ids with: memlake memory ls",
    ]


def test_what_is_neither_a_rev_nor_a_time_gets_a_hint_for_each(run: Run, repo: Path) -> None:
    stored(run, "The sky is blue")
    hints = run("recall", "sky", "--as-of", "garbage", code=128).err.splitlines()[1:]
    assert [hint.split()[1] for hint in hints] == ["See:", "Write"]
