"""init, add, rm, mv, status, restore on real repos."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Run, Write

Keep = Callable[..., str]


def test_init_makes_a_repo_and_is_harmless_when_repeated(run: Run, tmp_path: Path) -> None:
    assert run("init").out == f"Initialized empty memlake repo in {tmp_path}/.memlake/\n"
    assert run("init").out == f"Reinitialized existing memlake repo in {tmp_path}/.memlake/\n"
    assert run("init", "-q").out == ""


def test_init_takes_a_folder_and_a_branch(run: Run, tmp_path: Path) -> None:
    run("init", "-b", "trunk", "sub")
    assert (tmp_path / "sub" / ".memlake").is_dir()
    assert run("-C", "sub", "status").lines[0] == "On branch trunk"


def test_added_files_are_staged_and_add_is_silent(run: Run, repo: Path, write: Write) -> None:
    write("a", "1")
    write("data/b", "2")
    assert run("status", "-s").lines == ["?? a", "?? data/"]
    assert run("add", "a", "data").out == ""
    assert run("status", "-s").lines == ["A  a", "A  data/b"]


def test_add_of_nothing_says_so_and_succeeds(run: Run, repo: Path) -> None:
    ran = run("add")
    assert ran.out == "" and "Nothing specified" in ran.err and "memlake add ." in ran.err


def test_add_all_takes_new_changed_and_deleted_files(run: Run, story: dict[str, str], repo: Path, write: Write) -> None:
    write("a", "changed\n")
    write("new", "n")
    (repo / "data" / "b").unlink()
    run("add", "-A")
    assert run("status", "--porcelain").lines == ["M  a", "D  data/b", "A  new"]


def test_add_update_leaves_untracked_files_alone(run: Run, story: dict[str, str], write: Write) -> None:
    write("a", "changed\n")
    write("new", "n")
    run("add", "-u")
    assert run("status", "--porcelain").lines == ["M  a", "?? new"]


def test_add_dry_run_stages_nothing(run: Run, story: dict[str, str], repo: Path, write: Write) -> None:
    write("a", "changed\n")
    write("new/x", "n")
    (repo / "data" / "b").unlink()
    assert run("add", "-n", "-A").lines == ["add 'a'", "remove 'data/b'", "add 'new/'"]
    assert run("add", "-n", "new/x").lines == ["add 'new/x'"]
    assert run("add", "-n", "data").lines == ["remove 'data/b'"]
    assert run("status", "--porcelain").lines == [" M a", " D data/b", "?? new/"]
    run("add", "-n", "missing", code=128)


def test_add_names_each_path_when_asked(run: Run, repo: Path, write: Write) -> None:
    write("a", "1")
    assert run("add", "-v", "a").lines == ["add 'a'"]


def test_add_of_an_ignored_file_needs_force(run: Run, repo: Path, write: Write) -> None:
    write(".memlakeignore", "*.tmp\n")
    write("x.tmp", "x")
    run("add", "-A")
    assert run("status", "--porcelain").lines == ["A  .memlakeignore"]
    run("add", "-f", "x.tmp")
    assert "A  x.tmp" in run("status", "--porcelain").lines


def test_add_warns_of_secrets_on_standard_error(run: Run, repo: Path, write: Write) -> None:
    write(".env", "TOKEN=1")
    ran = run("add", ".env")
    assert ran.out == "" and ran.err.startswith("warning: ") and ".env" in ran.err


def test_add_of_a_missing_file_is_fatal(run: Run, repo: Path) -> None:
    ran = run("add", "missing", code=128)
    assert ran.err.startswith("fatal: ") and "missing" in ran.err and "Traceback" not in ran.err


def test_add_works_from_a_folder_below_the_root(run: Run, repo: Path, write: Write) -> None:
    write("sub/a", "1")
    run("-C", "sub", "add", "a")
    assert run("status", "--porcelain").lines == ["A  sub/a"]
    assert run("-C", "sub", "status", "-s").lines == ["A  a"]


def test_rm_removes_the_file_and_names_it(run: Run, story: dict[str, str], repo: Path) -> None:
    assert run("rm", "a").lines == ["rm 'a'"]
    assert not (repo / "a").exists()
    assert run("status", "--porcelain").lines == ["D  a"]


def test_rm_cached_keeps_the_working_file(run: Run, story: dict[str, str], repo: Path) -> None:
    run("rm", "--cached", "a")
    assert (repo / "a").read_text() == "one\ntwo\n"
    assert run("status", "--porcelain").lines == ["D  a", "?? a"]


def test_rm_of_a_folder_needs_r(run: Run, story: dict[str, str], repo: Path) -> None:
    ran = run("rm", "data", code=128)
    assert "memlake rm -r data" in ran.err and (repo / "data" / "b").exists()
    run("rm", "-r", "data")
    assert not (repo / "data").exists()


def test_rm_refuses_to_lose_changes_unless_forced(run: Run, story: dict[str, str], repo: Path, write: Write) -> None:
    write("a", "precious\n")
    ran = run("rm", "a", code=1)
    assert ran.err.startswith("error: ") and (repo / "a").read_text() == "precious\n"
    run("rm", "-f", "a")
    assert not (repo / "a").exists()


def test_mv_renames_and_status_shows_the_rename(run: Run, story: dict[str, str], repo: Path) -> None:
    run("mv", "a", "z")
    assert (repo / "z").exists() and not (repo / "a").exists()
    assert run("status", "--porcelain").lines == ["R  a -> z"]


def test_mv_moves_several_files_into_a_folder(run: Run, story: dict[str, str], repo: Path, write: Write) -> None:
    write("c", "c")
    run("add", "c")
    run("mv", "a", "c", "data")
    assert sorted(path.name for path in (repo / "data").iterdir()) == ["a", "b", "c"]
    run("mv", "data/a", "data/b", "nowhere", code=128)


def test_status_in_long_form_has_groups_and_hints(run: Run, story: dict[str, str], write: Write) -> None:
    assert run("status").lines == ["On branch main", "nothing to commit, working tree clean"]
    write("a", "changed\n")
    write("new", "n")
    write("staged", "s")
    run("add", "staged")
    out = run("status").out
    assert "Changes to be committed:" in out and "\tnew file:   staged" in out
    assert "Changes not staged for commit:" in out and "\tmodified:   a" in out
    assert "Untracked files:" in out and "\tnew" in out and '(use "memlake add' in out


def test_status_as_json_is_one_document(run: Run, story: dict[str, str], write: Write) -> None:
    write("a", "changed\n")
    found = run("status", "--json").json
    assert found["schema_version"] == 1 and found["branch"] == "main" and found["head"] == story["two"]
    assert [change["path"] for change in found["unstaged"]] == ["files/a"] and found["unstaged"][0]["status"] == "M"


def test_status_names_a_purged_file_that_cannot_be_here_until_it_is_dropped(
    run: Run, story: dict[str, str], repo: Path
) -> None:
    run("purge", "data/b", "--reason", "leak", "-y")
    (repo / "data/b").unlink()
    assert "Purged" not in run("status").out  # it was here, and is deleted
    run("reset", "--hard")
    run("add", "-A")
    lines = run("status").lines
    assert lines[lines.index("Purged, so not in the working folder:") + 2] == "\tdata/b"
    assert run("status", "--json").json["purged"] == ["files/data/b"] and run("status", "-s").out == ""
    assert run("status", "--json", "a").json["purged"] == []
    run("rm", "data/b")
    run("commit", "-m", "without it")
    assert run("status", "--json").json["purged"] == []


def test_restore_brings_the_working_file_back(run: Run, story: dict[str, str], repo: Path, write: Write) -> None:
    write("a", "broken\n")
    assert run("restore", "a").out == ""
    assert (repo / "a").read_text() == "one\ntwo\n"


def test_restore_staged_unstages_and_keeps_the_file(run: Run, story: dict[str, str], repo: Path, write: Write) -> None:
    write("a", "new\n")
    run("add", "a")
    run("restore", "--staged", "a")
    assert run("status", "--porcelain").lines == [" M a"] and (repo / "a").read_text() == "new\n"


def test_restore_takes_a_source(run: Run, story: dict[str, str], repo: Path) -> None:
    run("restore", "-s", "HEAD~1", "a")
    assert (repo / "a").read_text() == "one\n"
    assert run("status", "--porcelain").lines == [" M a"]
    run("restore", "-s", "HEAD~1", "-S", "-W", "a")
    assert run("status", "--porcelain").lines == ["M  a"]


def test_restore_without_paths_is_a_usage_error(run: Run, story: dict[str, str]) -> None:
    assert run("restore", code=2).err.startswith("error: ")
    assert run("restore", "missing", code=1).err.startswith("error: ")


def test_a_path_outside_the_repo_is_refused(run: Run, repo: Path) -> None:
    assert run("add", "../outside", code=128).err.startswith("fatal: ")


def test_odd_names_are_quoted_on_their_line(run: Run, repo: Path, write: Write) -> None:
    write('we"ird', "1")
    write("größe", "1")
    assert run("status", "-s").lines == ["?? größe", '?? "we\\"ird"'] or run("status", "-s").lines == [
        '?? "we\\"ird"',
        "?? größe",
    ]


def test_a_dry_run_of_rm_and_mv_names_what_would_be_done_and_does_nothing(
    run: Run, story: dict[str, str], repo: Path
) -> None:
    assert run("rm", "-n", "-r", "data").out == "rm 'data/b'\n"
    assert run("mv", "-n", "a", "data").out == "Renaming a to data/a\n"
    assert run("mv", "--dry-run", "a", "c").out == "Renaming a to c\n"
    assert run("status", "--short").out == "" and (repo / "a").exists() and (repo / "data/b").exists()
    assert run("rm", "-n", "nowhere", code=128).out == ""


def test_update_passes_over_what_is_not_tracked(run: Run, story: dict[str, str], write: Write) -> None:
    write("new", "n")
    write("a", "changed")
    run("add", "-u", "new", "a")
    assert run("status", "--short").lines == ["M  a", "?? new"]


def test_rm_cached_takes_whole_folders(run: Run, story: dict[str, str], repo: Path) -> None:
    run("rm", "-r", "--cached", "data")
    assert run("status", "--short").lines == ["D  data/b", "?? data/"] and (repo / "data/b").exists()


def test_mv_into_a_folder_that_is_not_there_is_refused(run: Run, story: dict[str, str], repo: Path) -> None:
    ran = run("mv", "a", "nowhere/", code=128)
    assert ran.err.startswith("fatal: there is no folder 'nowhere/' here.") and (repo / "a").exists()


def test_the_folder_that_mv_advises_to_make_is_made_with_those_above_it(
    run: Run, story: dict[str, str], repo: Path
) -> None:
    advised = run("mv", "a", "no where/dir/", code=128).err.splitlines()[-1].removeprefix("hint: Make it first: ")
    subprocess.run(["sh", "-ec", advised], check=True)
    run("mv", "a", "no where/dir/")
    assert (repo / "no where/dir/a").exists()


# -- links out of the repo


def test_a_link_out_of_the_repo_is_named_and_left_out_and_the_rest_is_added(
    run: Run, repo: Path, write: Write, tmp_path: Path
) -> None:
    write("a", "1\n")
    (tmp_path / "data").symlink_to("/tmp")
    ran = run("add", ".")
    assert "left out" in ran.err and "'data': the link points outside of the repo (to '/tmp')" in ran.err
    assert run("status", "-s").lines == ["A  a", "?? data"]
    assert "is refused" in run("add", "data", code=128).err, "one that was named"


def test_a_link_out_of_the_repo_in_the_place_of_tracked_files_is_refused(
    run: Run, repo: Path, write: Write, tmp_path: Path
) -> None:
    for name in ("file", "folder/a"):
        write(name, "1\n")
    run("add", ".")
    run("commit", "-m", "one")
    (tmp_path / "folder" / "a").unlink()
    (tmp_path / "folder").rmdir()
    (tmp_path / "folder").symlink_to("/tmp")
    assert "'folder' is refused" in run("add", ".", code=128).err
    (tmp_path / "folder").unlink()
    (tmp_path / "file").unlink()
    (tmp_path / "file").symlink_to("/tmp")
    assert "'file' is refused" in run("add", ".", code=128).err
    assert run("diff", "--cached", "--name-only").lines == [], "no removal was staged"


def test_a_stash_leaves_a_link_out_of_the_repo_where_it_is(
    run: Run, story: dict[str, str], write: Write, tmp_path: Path
) -> None:
    write("new", "1\n")
    (tmp_path / "out").symlink_to("/tmp")
    assert "left out" in run("stash", "-u").err
    assert run("status", "-s").lines == ["?? out"] and (tmp_path / "out").is_symlink()


def test_a_name_that_is_not_text_is_shown_alike_by_add_and_status(run: Run, repo: Path, tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/bad\xff", "w", encoding="utf-8"):
        pass
    assert '"bad\\377"' in run("status").out
    assert 'path "bad\\377" is refused' in run("add", ".", code=128).err


# -- restore from a commit that does not have the file


def test_restore_from_a_commit_removes_tracked_files_it_does_not_have(
    run: Run, story: dict[str, str], repo: Path, write: Write
) -> None:
    write("new", "1\n")
    write("loose", "2\n")
    run("add", "new")
    run("restore", "--source", "HEAD", "--staged", "--worktree", "new")
    assert run("status", "-s").lines == ["?? loose"] and not (repo / "new").exists()
    run("undo")
    assert run("status", "-s").lines == ["A  new", "?? loose"] and (repo / "new").read_text() == "1\n"
    run("restore", "--source", "HEAD", ".")
    assert run("status", "-s").lines == ["AD new", "?? loose"], "the stage keeps it, and nothing untracked is removed"


def test_checkout_from_a_commit_leaves_files_it_does_not_have(
    run: Run, story: dict[str, str], repo: Path, write: Write
) -> None:
    write("new", "1\n")
    run("add", "new")
    assert "'new' is not in HEAD" in run("checkout", "HEAD", "--", "new", code=1).err
    run("checkout", "HEAD", "--", ".")
    assert run("status", "-s").lines == ["A  new"] and (repo / "new").exists()


def test_the_long_list_keeps_its_columns_under_long_media_types(run: Run, repo: Path, keep: Keep) -> None:
    keep("one", **{"a.pptx": "", "b.txt": "x\n", "c.docx": ""})
    lines = run("ls", "-l").lines
    assert len({line.rindex(" ") for line in lines}) == 1 and max(map(len, lines)) > 80
