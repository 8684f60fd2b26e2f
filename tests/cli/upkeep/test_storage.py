"""undo, ops, gc, fsck, purge, du, backup, doctor, config, completion, help on real repos."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from memlake.reports import GcReport
from memlake.views.upkeep import gc_lines
from tests.cli.conftest import Run, Write

Keep = Callable[..., str]


def test_undo_takes_back_the_last_operation(run: Run, story: dict[str, str]) -> None:
    assert run("undo").out.startswith("Took back: commit")
    assert run("log", "--oneline").lines == [f"{story['one'][:10]} first"]
    assert run("redo").out.startswith("Did again: commit")
    assert run("log", "-1", "--oneline").lines == [f"{story['two'][:10]} second"]


def test_operations_are_listed_newest_first(run: Run, story: dict[str, str]) -> None:
    run("branch", "dev")
    lines = run("ops").lines
    assert " branch" in lines[0] and " commit" in lines[1]
    found = run("ops", "-n", "1", "--json").json
    assert found["schema_version"] == 1 and [done["verb"] for done in found["operations"]] == ["branch"]


def test_gc_says_what_it_would_remove_and_removes_it(run: Run, story: dict[str, str], repo: Path) -> None:
    (repo / ".memlake" / "tmp" / ("1" * 32 + ".pack")).write_bytes(b"what a writer that died left")
    assert run("gc", "--dry-run", "--prune").out.startswith("Would remove 1 file (28 B): 28 B in all.")
    assert run("gc", "--prune").out.startswith("Removed 1 file (28 B)")
    assert run("gc", "--prune").lines == ["Nothing to remove."]
    assert run("gc", "--json").json["report"]["dry_run"] is False
    assert run("log", "--oneline").lines[0].endswith("second")


def test_gc_counts_what_each_kind_freed(run: Run, story: dict[str, str], repo: Path, write: Write) -> None:
    write("a", "left behind\n")
    run("commit", "-am", "left behind")
    run("reset", "--hard", "-q", "HEAD~1")
    with ml.open(repo) as opened:  # nothing remembers the commit any more
        opened._history.db.run("DELETE FROM reflog WHERE max(ifnull(old, 0), ifnull(new, 0)) = 3")
        opened._local.db.run("DELETE FROM headlog")
        opened._local.db.run("DELETE FROM operation")
        stored = opened._history.db.rows("SELECT sum(length(data)) FROM node")[0][0]
    dry = run("gc", "--prune", "--dry-run", "--json").json["report"]
    report = run("gc", "--prune", "--json").json["report"]
    assert report["freed"] == {**dry["freed"], "files": report["freed"]["files"]}
    with ml.open(repo) as opened:
        left = opened._history.db.rows("SELECT sum(length(data)) FROM node")[0][0]
    assert report["nodes"] > 0 and report["freed"]["nodes"] == stored - left > 0
    assert report["commits"] == 1 and report["freed"]["commits"] > 0 and report["freed"]["objects"] > 0
    assert report["bytes"] == sum(report["freed"].values())


def test_gc_names_each_kind_with_its_bytes() -> None:
    report = GcReport(False, 0, 0, 2, 1, 0, 3, 0, 2148, {"objects": 2048, "nodes": 100, "commits": 0, "files": 0})
    assert gc_lines(report) == [
        "Removed 2 objects (2.0 KiB), 1 node (100 B): 2.1 KiB in all.",
        "Repacked 3 packs.",
    ]
    assert gc_lines(GcReport(True, 0, 0, 0, 0, 0, 1, 0, 0, names=("packs/ab",))) == [
        "Nothing to remove.",
        "Would repack 1 pack.",
        "  packs/ab",
    ]
    assert gc_lines(GcReport(True, 0, 0, 0, 0, 0, 0, 0, 0)) == ["Nothing to remove."]


def test_fsck_of_a_sound_repo_succeeds(run: Run, story: dict[str, str]) -> None:
    assert run("fsck").lines[-2].endswith(": no problem")
    assert run("fsck", "--full").lines[-1].endswith(": no problem")
    assert run("fsck", "--full", "--json").json["ok"] is True


def test_fsck_says_what_it_did_not_read(run: Run, repo: Path) -> None:
    with ml.open(repo) as found:
        found.datasets().read_values(x=range(9)).save("pets")
    (part,) = (file for file in (repo / ".memlake" / "parts").rglob("*") if file.is_file())
    part.chmod(0o644)
    part.write_bytes(part.read_bytes()[:-20] + bytes(20))
    quick = run("fsck")
    assert "no problem" in quick.out and "to check their bytes too: memlake fsck --full" in quick.lines[-1]
    full = run("fsck", "--full", code=1).out
    assert "damaged" in full and "--full" not in full


def test_fsck_of_a_damaged_repo_names_the_object_and_fails(run: Run, repo: Path, write: Write) -> None:
    write("big.bin", bytes(range(256)) * 40_000)
    run("add", "big.bin")
    run("commit", "-m", "big")
    oid = run("ls", "--json").json["entries"][0]["oid"]
    pack = max((repo / ".memlake" / "packs").rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 0xFF
    pack.chmod(0o644)
    pack.write_bytes(content)
    ran = run("fsck", "--full", code=1)
    assert oid in ran.out and "big.bin" in ran.out and "problem" in ran.lines[-1]
    assert run("fsck", "--full", "--json", code=1).json["ok"] is False


def test_purge_asks_first_and_needs_a_reason(run: Run, story: dict[str, str]) -> None:
    assert "--reason" in run("purge", "a", code=2).err
    ran = run("purge", "a", "--reason", "a key", code=2)
    assert "--yes" in ran.err and run("cat", "a").out == "one\ntwo\n"


def test_purge_erases_by_path_and_fsck_tells_it_from_missing(run: Run, story: dict[str, str]) -> None:
    oid = next(entry["oid"] for entry in run("ls", "--json").json["entries"] if entry["path"] == "files/a")
    ran = run("purge", "a", "--reason", "a key", "--yes")
    assert ran.out.startswith("Erased 1 object") and oid in ran.out
    gone = run("cat", "a", code=128)
    assert gone.err.startswith("fatal: ") and gone.out == ""
    checked = run("fsck", "--full")
    assert f"purged {oid}" in checked.out and checked.lines[-1].endswith(": no problem")
    assert run("cat", "a", "HEAD~1").out == "one\n"
    assert run("log", "--oneline").lines[0].endswith("second")


def test_purge_takes_ids_revisions_and_all_versions(run: Run, story: dict[str, str], keep: Keep) -> None:
    oid = run("ls", "--json").json["entries"][0]["oid"]
    assert oid in run("purge", oid, "--reason", "r", "--yes").out
    run("purge", "HEAD~1:a", "--reason", "r", "--yes")
    run("cat", "a", "HEAD~1", code=128)
    keep("third", a="three\n")
    keep("fourth", a="four\n")
    run("purge", "a", "--all-versions", "--reason", "r", "--yes")
    run("cat", "a", "HEAD~1", code=128)
    run("cat", "a", code=128)
    assert run("purge", "missing", "--reason", "r", "--yes", code=128).err.startswith("fatal: ")


def test_du_says_what_costs_what(run: Run, story: dict[str, str]) -> None:
    out = run("du").out
    assert "in all" in out and "Largest at HEAD:" in out and "data/b" in out
    assert run("du", "--json").json["usage"]["total"] > 0


def test_backup_writes_a_file(run: Run, story: dict[str, str], tmp_path: Path) -> None:
    target = tmp_path / "copy.backup"
    assert run("backup", str(target)).out.startswith("Wrote ")
    assert target.exists()


def test_a_backup_leaves_the_unfinished_file_of_another_alone(run: Run, story: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "out.tar.partial").write_text("of another")
    run("backup", str(tmp_path / "out.tar"))
    assert (tmp_path / "out.tar.partial").read_text() == "of another" and len(list(tmp_path.glob("out.tar*"))) == 2


def test_a_backup_is_restored_as_its_help_says(run: Run, story: dict[str, str], repo: Path, tmp_path: Path) -> None:
    commands = [line.split() for line in run("backup", "--help").lines if line.startswith("    ")]
    assert commands[0][:1] == ["mkdir"] and commands[1] == ["memlake", "-C", "restored", "reset", "--hard"]
    files = {name: (repo / name).read_bytes() for name in run("ls").lines}
    run("backup", str(tmp_path / "FILE"))
    subprocess.run(" ".join(commands[0]), shell=True, cwd=tmp_path, check=True)
    run("-C", str(tmp_path / "restored"), *commands[1][3:])
    assert files and {name: (tmp_path / "restored" / name).read_bytes() for name in files} == files
    assert run("-C", str(tmp_path / "restored"), "status", "-s").out == ""


def test_undo_says_that_settings_are_no_operations(run: Run) -> None:
    assert "Changed settings, purge and gc" in run("undo", "--help").out


def test_doctor_checks_the_machine(run: Run, story: dict[str, str]) -> None:
    ran = run("doctor", code=None)
    assert ran.code in (0, 1) and all(line.startswith(("ok ", "bad ", "     ")) for line in ran.lines)
    found = run("doctor", "--json", code=None).json
    assert found["ok"] is (ran.code == 0) and found["checks"][0]["name"]


# -- config


def test_settings_are_read_written_listed_and_unset(run: Run, repo: Path) -> None:
    assert run("config", "user.name", code=1).out == ""
    run("config", "user.name", "Grace")
    assert run("config", "user.name").out == "Grace\n"
    assert "user.name=Grace  (repo)" in run("config", "--list").lines
    found = run("config", "--list", "--json").json["settings"]
    assert {"key": "user.name", "text": "Grace", "origin": "repo"}.items() <= found[-1].items() or any(
        setting["key"] == "user.name" and setting["text"] == "Grace" for setting in found
    )
    assert run("config", "user.name", "--json").json["value"] == "Grace"
    run("config", "--unset", "user.name")
    run("config", "user.name", code=1)
    assert "Did you mean" in run("config", "user.nam", code=1).err
    assert run("config", code=2).err.startswith("error: ")


def test_settings_of_the_user_need_no_repo(run: Run) -> None:
    run("config", "--user", "init.branch", "trunk")
    assert run("config", "--user", "init.branch").out == "trunk\n"
    run("init", "elsewhere")
    assert run("-C", "elsewhere", "status").lines[0] == "On branch trunk"
    run("config", "--user", "--unset", "init.branch")
    assert run("config", "init.branch", "x", code=128).err.startswith("fatal: ")


# -- completion and help


def completed(process: Callable[..., subprocess.CompletedProcess[bytes]], *line: str) -> list[str]:
    env = {"MEMLAKE_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(line) - 1)}
    out = process(env=env).stdout.decode()
    return [row.split(",", 1)[1] for row in out.splitlines() if row.startswith("plain,")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_each_shell_is_printed(run: Run, shell: str) -> None:
    assert "MEMLAKE_COMPLETE" in run("completion", shell).out
    run("completion", "tcsh", code=2)


def test_verbs_branches_tags_and_paths_are_completed(
    run: Run, story: dict[str, str], process: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    run("branch", "experiment-1")
    run("tag", "v1")
    assert completed(process, "memlake", "che") == ["checkout", "cherry-pick"]
    assert completed(process, "memlake", "switch", "exp") == ["experiment-1"]
    assert completed(process, "memlake", "log", "v") == ["v1"]
    assert completed(process, "memlake", "tag", "-d", "") == ["v1"]
    assert completed(process, "memlake", "merge", "") == ["HEAD", "experiment-1", "main", "v1"]
    assert completed(process, "memlake", "checkout", "m") == ["main"], "the shell drops names when files are offered"
    assert completed(process, "memlake", "checkout", "")[-2:] == ["a", "data/"]
    assert completed(process, "memlake", "diff", "main..e") == ["main..experiment-1"]
    assert completed(process, "memlake", "branch", "new", "v") == ["v1"]
    assert completed(process, "memlake", "config", "user.") == ["user.email", "user.name"]
    assert "--oneline" in completed(process, "memlake", "log", "--on")


def test_files_are_left_to_the_shell_and_those_that_are_gone_are_named(
    run: Run, story: dict[str, str], repo: Path, process: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    assert completed(process, "memlake", "restore", "da") == []
    assert completed(process, "memlake", "checkout", "--", "ma") == []
    (repo / "data/b").unlink()
    assert completed(process, "memlake", "restore", "data/") == ["data/b"]


def test_paths_of_a_commit_are_completed_behind_its_colon(
    run: Run, story: dict[str, str], process: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    assert completed(process, "memlake", "cat", "HEAD:d") == ["HEAD:data/b"]
    assert completed(process, "memlake", "cat", "HEAD", ":") == ["a", "data/b"], "bash breaks words at colons"
    assert completed(process, "memlake", "show", "HEAD", ":", "d") == ["data/b"]


def test_completion_outside_a_repo_is_silent(
    run: Run, process: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    assert completed(process, "memlake", "switch", "x") == []
    assert completed(process, "memlake", "-C", "nowhere", "switch", "x") == []


def test_help_explains_each_verb(run: Run) -> None:
    assert run("help", "commit").out.startswith("Usage: memlake commit")
    assert run("commit", "--help").out == run("help", "commit").out == run("commit", "-h").out
    assert "memlake keeps" in run("help").out
    assert "Did you mean 'commit'?" in run("help", "comit", code=1).err


# -- the two lanes


def test_memories_stay_out_of_the_log_of_files_and_are_shown_when_asked(run: Run, story: dict[str, str]) -> None:
    with ml.open() as repo:
        repo.write({"memories/bot/1": b"likes tea"}, "bot: remember")
        repo.write({"memories/bot/2": b"likes cake"}, "bot: remember more")
    assert [line.split(" ", 1)[1] for line in run("log", "--oneline").lines] == ["second", "first"]
    assert run("log", "--memory", "--oneline").lines[0].endswith("bot: remember more")
    assert run("log", "--memory", "--json").json["commits"][0]["lane"] == "memory"
    assert len(run("log", "--lane", "all", "--oneline").lines) == 4
    assert run("cat", "memories/bot/1").out == "likes tea"
    assert run("ls", "memories/bot").lines == ["memories/bot/1", "memories/bot/2"]
    run("reset", "--hard", "HEAD~1")
    assert run("cat", "memories/bot/2").out == "likes cake"


def test_a_diff_of_branches_shows_the_memory_lane_when_asked(run: Run, story: dict[str, str]) -> None:
    run("branch", "side")
    with ml.open() as repo:
        repo.write({"memories/bot/1": b"likes tea"}, "bot: remember")
    assert run("diff", "--name-status", "side..main").out == ""
    assert run("diff", "--memory", "--name-status", "side..main").lines == ["A\tmemories/bot/1"]
    assert run("diff", "--all", "--name-status", "side..main").lines == ["A\tmemories/bot/1"]


def test_a_file_in_a_folder_named_like_a_kind_is_reached_with_a_dot(run: Run, repo: Path, write: Write) -> None:
    write("memories/notes", "mine\n")
    run("add", ".")
    run("commit", "-m", "x")
    assert run("ls").lines == ["./memories/notes"]
    assert run("cat", "./memories/notes").out == "mine\n"
    assert run("log", "--oneline", "--", "./memories/notes").lines


def test_config_gets_and_unsets_as_git_does(run: Run, repo: Path) -> None:
    run("config", "user.name", "Ada")
    assert run("config", "--get", "user.name").out == run("config", "user.name").out == "Ada\n"
    run("config", "--unset", "user.name")
    run("config", "--get", "user.name", code=1)
    run("config", "--unset", "user.name", code=5)
    run("config", "--unset", "user.name", "Ada", code=2)
    assert "no setting" in run("config", "--get", "no.such", code=1).err
    assert run("config", "user.name", "Ada\nEve", code=128).err.startswith("fatal: user.name is 'Ada\\nEve'")


def test_a_dry_run_of_purge_names_what_would_go_and_erases_nothing(run: Run, story: dict[str, str]) -> None:
    ran = run("purge", "--all-versions", "a", "--reason", "r", "--dry-run")
    assert ran.lines[0] == "Would erase 2 objects." and len(ran.lines) == 3
    assert run("cat", "a").out == "one\ntwo\n" and run("fsck").code == 0


def test_ops_takes_a_number_as_log_does(run: Run, story: dict[str, str]) -> None:
    assert len(run("ops", "-1").lines) == 1 and run("ops", "-1").out == run("ops", "-n", "1").out


def test_a_tag_takes_its_message_from_a_file_as_a_commit_does(run: Run, story: dict[str, str], write: Write) -> None:
    write("note", "from a file\n")
    run("tag", "-a", "-F", "note", "v1")
    assert run("tag", "-n").lines == ["v1              from a file"]
    run("tag", "-F", "note", "-m", "x", "v2", code=2)


def test_the_settings_of_the_repo_can_be_named(run: Run, repo: Path) -> None:
    run("config", "--local", "user.name", "Ada")
    assert "user.name=Ada  (repo)" in run("config", "--list").lines
    run("config", "--local", "--user", "user.name", code=2)


def test_rescue_lists_what_no_commit_names_and_cat_gets_it_out(
    run: Run, story: dict[str, str], repo: Path, write: Write, tmp_path: Path
) -> None:
    run("gc", "--prune")
    text = "".join(f"line {number} of a text\n" for number in range(2000))
    write("later", text)
    run("add", "later")
    into = tmp_path / "made again"
    listed = run("rescue", str(repo / ".memlake"), "--into", str(into), "--json").json["report"]["unnamed"]
    assert [(one["size"], one["media"]) for one in listed] == [(len(text), "text/plain")]
    (oid,) = (one["oid"] for one in listed)
    into = tmp_path / "and again"
    lines = run("rescue", str(repo / ".memlake"), "--into", str(into)).lines
    at = lines.index(
        "No commit names 1 object in the packs, stored after the last gc or by a write that was taken back:"
    )
    assert lines[at + 1].split() == [oid, "38.0", "KiB", "text/plain"]
    assert lines[at + 2] == f"Get one out, before gc removes it, with: memlake -C '{into}' cat {oid} > FILE"
    assert run("-C", str(into), "cat", oid).out == text
    write(oid, "a file of that name comes first\n")
    run("add", oid)
    run("commit", "-m", "named like an id")
    assert run("cat", oid).out == "a file of that name comes first\n"
