"""What holds for every verb: exit codes, errors in a few words, start-up, pipes, terminals, wrong input."""

from __future__ import annotations

import ast
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ForwardRef

import click
import pytest

import memlake as ml
from memlake import records, reports
from memlake.cli import commands as door
from memlake.cli.commands import SECTIONS, VERBS
from memlake.cli.examples import EXAMPLES
from memlake.errors import Error
from memlake.views import json_shapes
from tests.cli.conftest import SOURCE, Run, Write

Process = Callable[..., subprocess.CompletedProcess[bytes]]
READS = {
    "status": (),
    "log": (),
    "show": (),
    "diff": (),
    "branch": (),
    "tag": (),
    "reflog": (),
    "blame": ("a",),
    "cat": ("a",),
    "ls": (),
    "du": (),
    "fsck": (),
    "gc": ("--dry-run",),
    "doctor": (),
    "ops": (),
    "config": ("--list",),
    "stash list": (),
    "stash show": (),
}


# -- errors and exit codes


def test_outside_a_repo_every_verb_of_a_repo_is_fatal(run: Run) -> None:
    for verb in ("status", "log", "branch", "add .", "commit -m x", "gc", "undo"):
        ran = run(*verb.split(), code=128)
        assert ran.err.startswith("fatal: not a memlake repo") and "hint: " in ran.err and ran.out == ""


def test_a_mistyped_verb_gets_a_suggestion_and_exit_one(run: Run) -> None:
    assert run("comit", code=1).err == "error: 'comit' is not a memlake command.\nhint: Did you mean 'commit'?\n"
    assert "memlake --help" in run("xyzzy", code=1).err


@pytest.mark.parametrize(
    ("line", "meant"),
    [("remote rm origin", "remote remove"), ("memory delete 1", "memory forget"), ("tier stats", "tier status")],
)
def test_a_command_of_a_group_that_does_not_exist_names_the_one_that_was_meant(run: Run, line: str, meant: str) -> None:
    group, word, *_ = line.split()
    assert f"No such command '{word}'" in (told := run(*line.split(), code=2).err)
    assert f"hint: Did you mean 'memlake {meant}'" in told and f"`memlake {group} --help`" in told


def test_a_wrong_option_shows_the_usage_and_exits_with_two(run: Run) -> None:
    ran = run("log", "--onelin", code=2)
    assert ran.err.startswith("error: No such option") and "--oneline" in ran.err and "usage: memlake log" in ran.err


def test_no_arguments_print_the_help_and_exit_with_one(run: Run) -> None:
    assert run(code=1).out == run("--help").out


def test_a_fault_of_ours_is_one_line_with_a_way_to_see_more(
    run: Run, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("memlake.repo.Repo.status", broken)
    ran = run("status", code=128)
    hint = "To see where it happened, run the command again with MEMLAKE_DEBUG=1."
    assert ran.err == f"fatal: unexpected ZeroDivisionError: oh\nhint: {hint}\n"
    monkeypatch.setenv("MEMLAKE_DEBUG", "1")
    assert "Traceback" in run("status", code=128).err


def test_debug_shows_where_an_expected_error_came_from(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLAKE_DEBUG", "1")
    ran = run("status", code=128)
    assert "Traceback" in ran.err and "fatal: not a memlake repo" in ran.err


def test_every_error_has_its_exit_code_and_label(run: Run, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = _all_errors(Error)
    assert len(kinds) > 8
    for kind in kinds:

        def fail(*_: object, kind: type[Error] = kind, **__: object) -> None:
            raise kind("what happened", hint="do this\nor that")

        monkeypatch.setattr("memlake.repo.Repo.status", fail)
        ran = run("status", code=kind.exit_code)
        assert ran.err.endswith("what happened\nhint: do this\nhint: or that\n")
        assert ran.err.startswith("fatal: " if kind.exit_code == 128 else ("error: ", "what"))


def _all_errors(kind: type[Error]) -> list[type[Error]]:
    return [kind, *(one for child in kind.__subclasses__() for one in _all_errors(child))]


def test_c_starts_in_another_folder(run: Run, repo: Path) -> None:
    (repo / "sub").mkdir()
    assert run("-C", "sub", "status").lines[0] == "On branch main"
    assert run("-C", str(repo), "-C", "sub", "status").lines[0] == "On branch main"
    assert run("-C", "nowhere", "status", code=128).err.startswith("fatal: cannot change to 'nowhere'")


def test_the_repo_can_be_named_by_the_environment(
    run: Run, story: dict[str, str], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLAKE_REPO", os.getcwd())
    monkeypatch.chdir(tmp_path_factory.mktemp("away"))
    assert run("log", "--oneline").lines[0].endswith("second")


@pytest.mark.parametrize(
    "line",
    [
        "log HEAD~99",
        "log HEAD^2",
        "log zzzz..main",
        "show 0000",
        "cat a@b",
        "cat HEAD:",
        "diff nowhere",
        "switch nowhere",
        "checkout nowhere",
        "merge nowhere",
        "revert nowhere",
        "cherry-pick nowhere",
        "reset --hard nowhere",
        "branch bad..name",
        "branch -d nowhere",
        "tag bad~name",
        "tag -d nowhere",
        "stash pop 7",
        "rm nowhere",
        "mv nowhere x",
        "restore nowhere",
        "restore -s nowhere a",
        "blame nowhere",
        "commit --allow-empty -m x --uses nowhere",
        "purge nowhere --reason r --yes",
        "config no.such",
        "add ../..",
        "add .memlake/config.toml",
        "log --since never-never",
        "merge --abort",
        "merge --continue",
        "merge --ours a",
        "reflog nowhere",
    ],
)
def test_a_persons_mistake_never_shows_a_traceback(run: Run, story: dict[str, str], line: str) -> None:
    ran = run(*line.split(), code=None)
    assert ran.code in (1, 2, 128), line
    assert ran.err and "Traceback" not in ran.err and "unexpected" not in ran.err, f"{line}: {ran.err}"


@pytest.mark.parametrize("line", READS)
def test_every_verb_that_reads_speaks_json(run: Run, story: dict[str, str], write: Write, line: str) -> None:
    write("a", "put aside\n")
    run("stash")
    found = run(*line.split(), *READS[line], "--json", code=None).json
    assert found.pop("schema_version") == 1
    assert list(found) == documented()[line]


def documented() -> dict[str, list[str]]:
    """The keys of each document as the table in the module that makes them has it."""
    table = re.findall(r"^    (\w+(?: \w+)?) {2,}(\w+(?:, \w+)*)", json_shapes.__doc__ or "", re.MULTILINE)
    return {line: keys.split(", ") for line, keys in table}


def test_an_empty_repo_answers_every_verb_that_reads(run: Run, repo: Path) -> None:
    for line, more in READS.items():
        ran = run(*line.split(), *more, "--json", code=None)
        assert ran.code in (0, 1, 128) and "unexpected" not in ran.err, f"{line}: {ran.err}"


# -- start-up


def imported(process: Process, *args: str) -> set[str]:
    """The top-level modules in a process that ran these arguments."""
    script = f"import sys; from memlake.cli.main import main; main({list(args)!r}); print(chr(10), *sys.modules)"
    env = dict(os.environ)
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_help_imports_no_verb_and_nothing_heavy(process: Process) -> None:
    modules = imported(process, "--help")
    assert {name.split(".")[0] for name in modules} - sys.stdlib_module_names - _always() == {"click", "memlake"}
    ours = {name for name in modules if name.startswith("memlake")}
    assert ours <= {
        "memlake",
        "memlake._lazy",
        "memlake.cli",
        "memlake.cli.examples",
        "memlake.cli.commands",
        "memlake.cli.failures",
        "memlake.cli.main",
        "memlake.cli.plain",
        "memlake.views",
        "memlake.views.words",
        "memlake.config",
        "memlake.defaults",
        "memlake.errors",
        "memlake.named_tuple",
        "memlake.nofollow",
        "memlake.records",
        "memlake.trust",
    }


def test_status_imports_nothing_heavy(process: Process, run: Run, story: dict[str, str], write: Write) -> None:
    write("new", "x")
    tops = {name.split(".")[0] for name in imported(process, "status")}
    assert not tops & {"pyarrow", "pathspec", "tomlkit", "obstore", "rich", "numpy", "asyncio", "sqlite3"}
    assert "apsw" in tops
    assert not tops & {"difflib", "shlex"}, "these serve messages only"
    assert not tops & {"click", "inspect", "dataclasses", "uuid"}, "together these took a third of its time"


def test_a_plain_merge_imports_neither_click_nor_what_looks_at_code(process: Process, story: dict[str, str]) -> None:
    tops = {name.split(".")[0] for name in imported(process, "merge", "HEAD~1")}
    assert "memlake" in tops and not tops & {"click", "inspect", "dataclasses", "ast", "uuid"}


def test_records_hold_no_annotations_that_python_compiles_at_each_start() -> None:
    for module in (records, reports):
        for kind in vars(module).values():
            if hasattr(kind, "_fields"):
                compiled = [name for name, hint in kind.__annotations__.items() if isinstance(hint, ForwardRef)]
                assert not compiled, f"{kind.__name__} is not made with memlake.named_tuple: {compiled}"


def test_a_command_seldom_looks_for_cycles(process: Process, story: dict[str, str]) -> None:
    looks = "gc.get_stats()[0]['collections']"
    script = f"import gc; began = {looks}; from memlake.cli.main import main; main(['status']); print({looks} - began)"
    env = dict(os.environ)
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) < 10, "by default it is dozens of times"


def test_plain_paths_never_load_what_patterns_need(process: Process, run: Run, story: dict[str, str]) -> None:
    for words in (("status", "-s", "a"), ("add", "a"), ("log", "--", "a"), ("diff", "--", "data")):
        assert not imported(process, *words) & {"memlake.versions.checkout.globs", "memlake.cli.completion"}
    assert "memlake.versions.checkout.globs" in imported(process, "log", "--", "*")


def _always() -> set[str]:
    """What this interpreter imports with no script at all (site hooks of an editable install and the like)."""
    command = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name.split(".")[0] for name in out.split()}


def test_the_table_names_a_real_command_for_every_verb_with_its_own_help() -> None:
    for verb, (_, line) in VERBS.items():
        command = door.memlake.get_command(None, verb)  # type: ignore[arg-type]
        assert command is not None and command.name == verb and command.help and line.endswith("."), verb
    assert sum(len(section) for section in SECTIONS.values()) == len(VERBS)


def test_every_option_of_every_verb_is_explained() -> None:
    for verb in VERBS:
        command = door.memlake.get_command(None, verb)  # type: ignore[arg-type]
        for option in command.params if command else ():
            assert option.param_type_name == "argument" or getattr(option, "help", None), f"{verb} {option.opts}"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command and every command below one, by what a person types."""
    for verb in VERBS:
        command = door.memlake.get_command(None, verb)  # type: ignore[arg-type]
        assert command is not None
        yield verb, command
        if isinstance(command, click.Group):
            yield from ((f"{verb} {name}", inner) for name, inner in command.commands.items())


def test_every_help_has_a_line_of_purpose_and_an_example(run: Run) -> None:
    for name, command in commands():
        shown = run(*name.split(), "--help").out
        purpose = (command.help or "").split("\n")[0]
        assert purpose[:1].isupper() and purpose.endswith("."), f"{name}: {purpose}"
        assert re.search(rf"^ +(\w+: +)?(eval.*)?memlake {name}", shown, re.MULTILINE), (
            f"{name} has no example\n{shown}"
        )
    assert set(EXAMPLES) <= {name for name, _ in commands()}


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_every_example_is_a_line_that_can_be_typed(line: str) -> None:
    _, *args = shlex.split(line)
    group: click.Group = door.memlake
    with click.Context(group, info_name="memlake", **group.context_settings) as root:
        command = group.get_command(root, args.pop(0))
        if isinstance(command, click.Group) and args[0] in command.commands:
            command = command.commands[args.pop(0)]
        assert command is not None
        with command.make_context(command.name, args, parent=root) as ctx:
            assert not ctx.args


def test_a_letter_means_the_same_to_every_verb() -> None:
    meant = {
        "-q": {"quiet"},
        "-f": {"force"},
        "-m": {"messages", "message", "act", "mainline", "modified"},
        "-y": {"yes"},
        "--json": {"as_json"},
    }
    for name, command in commands():
        for option in command.params:
            for letter in set(option.opts) & set(meant):
                assert option.name in meant[letter], f"{name} {letter} is {option.name}"


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version").out == f"memlake {ml.__version__}\n"


# -- pipes


def test_output_into_a_pipe_is_plain_and_stable(process: Process, story: dict[str, str]) -> None:
    for line in ("status", "log", "log --oneline --graph", "diff HEAD~1", "branch -v", "reflog", "show"):
        first, second = process(*line.split()), process(*line.split())
        assert first.returncode == 0 and b"\x1b" not in first.stdout and first.stdout == second.stdout
        assert first.stderr == b""


def test_force_color_and_no_color(process: Process, story: dict[str, str]) -> None:
    assert b"\x1b[" in process("log", env={"FORCE_COLOR": "1"}).stdout
    assert b"\x1b[" in process("--color", "always", "log").stdout
    assert b"\x1b[" in process("--color=always", "log", env={"NO_COLOR": "1"}).stdout
    assert b"\x1b[" not in process("log", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout
    assert b"\x1b[" not in process("--color", "never", "log", env={"FORCE_COLOR": "1"}).stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_goes_into_a_pipe_arrives_whole(run: Run, repo: Path, write: Write, unbuffered: str) -> None:
    write("big", b"line\n" * 2_000_000)
    run("add", "big")
    run("commit", "-m", "x")
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    shell = f"{sys.executable} -m memlake.cli cat big | (sleep 0.1; cat) | wc -c"
    assert int(subprocess.check_output(["bash", "-o", "pipefail", "-c", shell], env=env)) == 10_000_000


def test_a_closed_pipe_ends_the_command_quietly(run: Run, repo: Path, write: Write) -> None:
    write("big", b"line\n" * 2_000_000)
    run("add", "big")
    run("commit", "-m", "x")
    env = dict(os.environ)
    shell = f"{sys.executable} -m memlake.cli cat big | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", shell], env=env, capture_output=True, check=False)
    assert done.stdout == b"line\n" and done.stderr == b"" and done.returncode == 141


@pytest.mark.parametrize("line", ["log", "status", "cat a", "show", "ls", "--help", "log --help", "--version", "help"])
@pytest.mark.parametrize("buffered", ["", "1"])
def test_output_that_cannot_be_written_is_one_line(story: dict[str, str], line: str, buffered: str) -> None:
    env = {**os.environ, "PYTHONUNBUFFERED": buffered}
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "memlake.cli", *line.split()]
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 128
    assert done.stderr == b"fatal: the output could not be written: No space left on device.\n"


def test_streams_that_are_closed_are_no_fault(story: dict[str, str]) -> None:
    env = dict(os.environ)
    for line, code in (("log >&-", 0), ("log 2>&-", 0), ("nonsense 2>&-", 1), ("nonsense 2>/dev/full", 1)):
        shell = f"{sys.executable} -m memlake.cli {line}"
        done = subprocess.run(["bash", "-c", shell], env=env, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (code, b""), line


def test_a_demo_whose_reader_leaves_ends_quietly_and_leaves_nothing_behind(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    shell = f"{sys.executable} {SOURCE.parent / 'examples' / 'demo.py'} | head -2"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", shell], env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (141, b"", [])


def test_binary_content_passes_through_untouched(process: Process, run: Run, repo: Path, write: Write) -> None:
    content = bytes(range(256)) * 1000 + b"\r\n\0"
    write("m.bin", content)
    run("add", "m.bin")
    run("commit", "-m", "x")
    assert process("cat", "m.bin").stdout == content
    assert process("show", "HEAD:m.bin").stdout == content


def test_interrupt_ends_with_130(process: Process, repo: Path) -> None:
    script = (
        "import sys, os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell may ignore it
        "from memlake.cli.main import main\nimport memlake.repo\n"
        "memlake.repo.Repo.status = lambda self, **_: os.kill(os.getpid(), signal.SIGINT)\nsys.exit(main(['status']))"
    )
    env = dict(os.environ)
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, check=False)
    assert done.returncode == 130 and b"Traceback" not in done.stderr
    assert signal.SIGINT + 128 == 130


# -- terminals


def on_terminal(*args: str, **env: str) -> str:
    """What a person at a terminal sees."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm", **env})
        os.execv(sys.executable, [sys.executable, "-m", "memlake.cli", *args])
    seen = b""
    deadline = time.monotonic() + 250
    while time.monotonic() < deadline:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.waitpid(pid, 0)
    os.close(fd)
    return seen.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colour_and_names(story: dict[str, str]) -> None:
    seen = on_terminal("log", "--oneline", MEMLAKE_PAGER="cat")
    assert f"\x1b[33m{story['two'][:10]}\x1b[0m" in seen and "HEAD -> main" in seen
    assert "\x1b" not in on_terminal("log", "--oneline", MEMLAKE_PAGER="cat", NO_COLOR="1")


def test_a_terminal_gets_a_pager_only_for_long_reading(story: dict[str, str], write: Write) -> None:
    pager = write("pager.sh", "#!/bin/sh\necho paged\ncat\n")
    pager.chmod(0o755)
    assert on_terminal("log", MEMLAKE_PAGER=str(pager)).startswith("paged\n")
    assert not on_terminal("status", MEMLAKE_PAGER=str(pager)).startswith("paged")
    assert not on_terminal("--no-pager", "log", MEMLAKE_PAGER=str(pager)).startswith("paged")


def test_leaving_the_pager_early_is_no_error(run: Run, story: dict[str, str], write: Write) -> None:
    write("big", "line\n" * 100_000)
    run("add", "big")
    assert on_terminal("diff", "--cached", MEMLAKE_PAGER="head -1").count("\n") == 1


def test_stored_text_cannot_drive_the_terminal(run: Run, repo: Path) -> None:
    run("commit", "--allow-empty", "-m", "evil\x1b[2J\u202ename", "--author", "Mal\x07 <m@x>", code=None)
    if run("log", code=None).code == 128:
        run("commit", "--allow-empty", "-m", "evil\x1b[2J\u202ename")
    for line in (["log"], ["log", "--oneline"], ["show"], ["reflog"], ["branch", "-v"]):
        seen = on_terminal(*line, MEMLAKE_PAGER="cat", NO_COLOR="1")
        assert "\x1b" not in seen and "\u202e" not in seen and "\x07" not in seen, line
        assert "evil\\x1b[2J\\u202ename" in seen


def test_progress_is_shown_on_a_terminal_only(run: Run, repo: Path, write: Write, process: Process) -> None:
    write("big", os.urandom(1 << 20) * 200)
    assert process("add", "big").stderr == b""
    run("reset", "-q", code=None)
    run("rm", "--cached", "-q", "big", code=None)
    write("big2", os.urandom(1 << 20) * 300)
    seen = on_terminal("add", "big2")
    assert seen == "" or "adding" in seen


# -- the door itself


def test_only_the_entry_catches_everything() -> None:
    for path in (SOURCE / "memlake" / "cli").glob("*.py"):
        caught = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name) and node.type.id == "Exception"
        ]
        # An agent must not stop for its memory, so the hooks are an entry of their own.
        assert len(caught) == (1 if path.name in ("main.py", "hooking.py") else 0), path.name


def test_a_warning_is_one_line_on_standard_error(run: Run, story: dict[str, str]) -> None:
    ran = run("log", "--oneline", "main@{yesterday}")
    assert len(ran.lines) == 1 and ran.lines[0].endswith(" first")
    assert ran.err.startswith("warning: the reflog of 'main' only goes back to ") and len(ran.err.splitlines()) == 1


def test_a_rev_of_a_branch_without_commits_is_not_taken_for_a_path(run: Run, repo: Path) -> None:
    for verb in ("log", "diff", "show"):
        assert "branch 'main' has no commits" in run(verb, "@~1", code=128).err


@pytest.mark.parametrize("group", ["memory", "state"])
def test_a_group_alone_lists_its_verbs_as_memlake_alone_does(run: Run, group: str) -> None:
    done = run(group, code=1)
    assert done.err.startswith(f"Usage: memlake {group}") and "error" not in done.err and "hint" not in done.err


def test_an_error_shows_no_secret_that_was_typed(run: Run, repo: Path) -> None:
    said = run("switch", "postgresql://app:S3cr3tPass@db.internal/prod", code=128).err
    assert "S3cr3tPass" not in said and "postgresql://app:[redacted: connection password]@db.internal" in said


def test_a_backup_becomes_a_repo_with_files_by_the_line_that_is_advised(
    run: Run, story: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("backup", "repo.tar")
    there = tmp_path / "there"
    there.mkdir()
    subprocess.run(["tar", "-xf", "../repo.tar"], cwd=there, check=True)
    monkeypatch.chdir(there)
    run("restore", ".")
    assert run("status", "-s").lines == [] and (there / "a").exists()


JSON_PATHS = ("status", "ls", "diff HEAD~1", "log -1 --name-status", "show", "cat a", "blame a", "du")


@pytest.mark.parametrize("line", JSON_PATHS)
def test_json_names_a_file_by_its_path_in_the_tree(run: Run, story: dict[str, str], write: Write, line: str) -> None:
    write("fresh", "1\n")
    told = run(*line.split(), "--json").out
    assert f'"files/{"fresh" if line == "status" else "a"}"' in told and '"a"' not in told and '"fresh"' not in told
    assert run("cat", "files/a").out == run("cat", "a").out, "and it can be typed so"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("commit --date x", "error: No such option '--date'."),
        ("recall tea --top-k 3", "error: No such option '--top-k'. Did you mean '--limit'?"),
        ("commit --mesage x", "error: No such option '--mesage'. Did you mean '--message'?"),
        ("log --onelin", "error: No such option '--onelin'. Did you mean '--oneline'?"),
    ],
)
def test_an_option_is_suggested_only_where_it_is_near(run: Run, line: str, said: str) -> None:
    assert run(*line.split(), code=2).err.splitlines()[0] == said
