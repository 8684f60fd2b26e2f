"""What a save records of its making: never an empty field, however Python was started, and no secret in it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.dataset.datasets import Datasets
from memlake.dataset.lineage import program as running_program
from memlake.dataset.plan import column_sources
from memlake.versions.checkout.local import pack_stat
from tests.dataset.whole import assert_whole

Python = Callable[..., "subprocess.CompletedProcess[str]"]
SAVE = """
import memlake as ml
def double(x: int) -> int:
    return x * 2
ml.read_values(x=[1, 2, 3]).map(y=double).save("a")
"""


def record_of(repo: ml.Repo, name: str = "a") -> dict[str, Any]:
    told = repo.datasets().versions(name)[-1].provenance
    assert_whole(told)
    return dict(told)


# -- however it was started --------------------------------------------------------------------


def test_a_script_is_recorded_whole(repo: ml.Repo, here: Path, python: Python) -> None:
    (here / "make.py").write_text(f"# all of it\n{SAVE}")
    python("make.py")
    told = record_of(repo)
    assert (told["source_kind"], told["source_name"]) == ("script", "make.py")
    assert told["source"] == f"# all of it\n{SAVE}"
    assert "return x * 2" in told["functions"][0]["source"]
    assert told["columns"] == {"x": [["values 3 rows", "x"]], "y": [["values 3 rows", "x"]]}
    assert told["author"] == "Ada <ada@example.org>"


def test_a_module_is_told_from_a_script(repo: ml.Repo, here: Path, python: Python) -> None:
    (here / "make.py").write_text(SAVE)
    python("-m", "make")
    told = record_of(repo)
    assert (told["source_kind"], told["source_name"], told["source"]) == ("module", "make.py", SAVE)


@pytest.mark.parametrize("how", [["-c"], ["-Bc"], ["-X", "utf8", "-c"]])
def test_the_text_after_c_is_recorded(repo: ml.Repo, python: Python, how: list[str]) -> None:
    python(*how, SAVE)
    told = record_of(repo)
    assert (told["source_kind"], told["source"]) == ("command", SAVE)
    assert "return x * 2" in told["functions"][0]["source"]


def test_a_file_as_stdin_is_recorded(repo: ml.Repo, here: Path, python: Python) -> None:
    (here / "make.py").write_text(SAVE)
    with open("make.py") as file:
        python("-", stdin=file)
    told = record_of(repo)
    assert (told["source_kind"], told["source"]) == ("stdin", SAVE)
    assert "return x * 2" in told["functions"][0]["source"]


def test_of_a_program_through_a_pipe_names_and_plan_are_recorded(repo: ml.Repo, python: Python) -> None:
    python(input=SAVE)
    told = record_of(repo)
    assert told["source_kind"] == "stdin"
    assert "# double(x): Python kept no text of it" in told["source"] and "map y = double(x)" in told["source"]
    assert "BINARY_OP" not in told["source"], "what Python makes of a text says nothing to a reader"


def test_a_function_made_from_a_string_is_not_taken_for_a_line_of_the_program(repo: ml.Repo, python: Python) -> None:
    lines = ["import memlake as ml; other = lambda x: x", "exec('double = lambda x: x * 2')"]
    python("-c", "\n".join([*lines, "ml.read_values(x=[1]).map(y=double).save('a')"]))
    assert "kept no text" in record_of(repo)["functions"][0]["source"]


def test_one_row_is_one_row(repo: ml.Repo, here: Path) -> None:
    save = "_ = ml.read_values(x=[1]).save('a')"
    seen = prompt(["import memlake as ml", save, save, "print('do' + 'ne')"], here)
    assert "saved a@1.0.0: 1 row\r" in seen and "holds the same 1 row already" in seen
    assert next(iter(repo.log())).message == "save a@1.0.0: 1 row"


def test_what_was_typed_at_a_prompt_is_recorded(repo: ml.Repo, here: Path, home: Path) -> None:
    (home / ".python_history").write_text("yesterday = 1\n")
    typed = ["import memlake as ml", 'ml.read_values(x=[1]).map(y=lambda x: x + 41).save("a")', "print('do' + 'ne')"]
    seen = prompt(typed, here)
    assert "done" in seen, seen
    told = record_of(repo)
    assert told["source_kind"] == "prompt"
    assert "lambda x: x + 41" in told["source"] and "yesterday" not in told["source"]


def test_on_a_terminal_a_save_says_one_line(repo: ml.Repo, here: Path) -> None:
    chain = 'ml.read_values(x=[1, 2]).map(y=lambda x: x).save("a")'
    seen = prompt(["import memlake as ml", f"_ = {chain}", f"_ = {chain}", "print('do' + 'ne')"], here)
    assert "saved a@1.0.0: 2 rows (2 computed, 0 recalled)" in seen
    assert "a@1.0.0 holds the same 2 rows already" in seen


def prompt(lines: list[str], folder: Path) -> str:
    """Lines typed at Python's prompt on a terminal of its own; what was seen there until `done`."""
    above, below = pty.openpty()
    env = {**os.environ, "TERM": "dumb"}
    env.pop("PYTEST_CURRENT_TEST", None)
    process = subprocess.Popen(
        [sys.executable, "-q"], stdin=below, stdout=below, stderr=below, cwd=folder, env=env, start_new_session=True
    )
    os.close(below)
    seen, left, end = "", list(lines), time.monotonic() + 250
    while time.monotonic() < end and "done" not in seen:
        if left and seen.count(">>> ") > len(lines) - len(left):
            os.write(above, (left.pop(0) + "\n").encode())
        if select.select([above], [], [], 0.1)[0]:
            seen += os.read(above, 65536).decode("utf-8", "replace")
    process.kill()
    process.wait()
    os.close(above)
    return seen


def test_the_cells_of_a_notebook_are_recorded(repo: ml.Repo, python: Python) -> None:
    cells = ["import memlake as ml", 'ml.read_values(x=[1]).map(y=lambda x: x + 1).save("a")']
    program = (
        "import sys, types\n"
        f"cells = {cells!r}\n"
        "shell = types.SimpleNamespace(user_ns={'In': ['', *cells], '__vsc_ipynb_file__': '/x/pets.ipynb'})\n"
        "sys.modules['IPython'] = types.SimpleNamespace(get_ipython=lambda: shell)\n"
        "for cell in cells:\n    exec(cell, shell.user_ns)\n"
    )
    python("-c", program)
    told = record_of(repo)
    assert (told["source_kind"], told["source_name"]) == ("notebook", "pets.ipynb")
    assert told["source"] == f"# In [1]\n{cells[0]}\n\n# In [2]\n{cells[1]}"


def test_inside_a_test_the_file_of_the_test_is_recorded(repo: ml.Repo) -> None:
    repo.datasets().read_values(x=[1]).save("a")
    told = record_of(repo)
    assert (told["source_kind"], told["source_name"]) == ("test", Path(__file__).name)
    assert "test_inside_a_test_the_file_of_the_test_is_recorded" in told["source"]


def test_an_endless_text_is_cut() -> None:
    text = running_program.prepare_text("x" * (running_program.LONGEST + 7))
    assert text.endswith("... and 7 more characters\n") and len(text) < running_program.LONGEST + 100


# -- what is in it -----------------------------------------------------------------------------


def test_parents_and_storages_and_files_are_recorded(repo: ml.Repo, here: Path) -> None:
    data = repo.datasets()
    (here / "in").mkdir()
    (here / "in" / "one.txt").write_text("one")
    (here / "rows.csv").write_text("n\n1\n")
    data.read_storage(str(here / "in")).save("files")
    [storage] = record_of(repo, "files")["storages"]
    assert storage["uri"] == str(here / "in") and storage["files"] == 1 and storage["content"]
    data.read_csv(str(here / "rows.csv")).save("rows")
    [origin] = record_of(repo, "rows")["origins"]
    [file] = origin["files"]
    assert origin["kind"] == "csv" and file["path"].endswith("rows.csv") and file["size"] == 4 and file["mtime"]
    data.read_dataset("rows").save("again")
    [parent] = record_of(repo, "again")["parents"]
    version = data.versions("rows")[0]
    assert parent == {"spec": "rows@1.0.0", "name": "rows", "version": "1.0.0", "content": version.content}


def test_a_tracked_file_is_known_without_reading_it_again(
    repo: ml.Repo, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlake.dataset.lineage.provenance._HASHED", 0)
    (here / "t.csv").write_text("x\n1\n")
    repo.add("t.csv")
    repo.commit("t")

    def read_oid(name: str) -> Any:
        told = repo.datasets().read_csv(str(here / "t.csv")).save(name).record.provenance  # type: ignore[union-attr]
        return told["origins"][0]["files"][0].get("oid")

    # As after a moment in which it could have changed without another time.
    repo._local.set_stats({"t.csv": (pack_stat((here / "t.csv").stat()), False)})
    assert read_oid("tracked") == repo.objects.at("t.csv").oid
    (here / "t.csv").write_text("x\n2\n")
    assert read_oid("edited") is None, "it is not what is tracked, and over the limit nothing is hashed"


def test_what_was_persisted_on_the_way_does_not_hide_where_rows_came_from(repo: ml.Repo) -> None:
    data = repo.datasets()
    data.read_values(x=[1, 2]).save("rows")
    data.read_dataset("rows").map(y=lambda x: x + 1).persist().filter(ml.C("y") > 2).save("kept")
    told = record_of(repo, "kept")
    assert [one["spec"] for one in told["parents"]] == ["rows@1.0.0"] and told["functions"]
    assert told["columns"]["y"] == [["rows@1.0.0", "x"]]


def call_git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def settle(folder: Path, *pairs: str) -> None:
    for name, text in zip(pairs[::2], pairs[1::2], strict=True):
        call_git(folder, "config", name, text)


def include(folder: Path, name: str, text: str) -> None:
    call_git(folder, "config", "-f", str(folder / ".git/more"), name, text)
    call_git(folder, "config", "include.path", "more")


def promise(folder: Path, program: str) -> None:
    """A commit whose tree is missing, in a repository that says a remote has it."""
    tree = call_git(folder, "rev-parse", "HEAD^{tree}")
    (folder / ".git/objects" / tree[:2] / tree[2:]).unlink()
    settle(folder, "core.repositoryFormatVersion", "1", "extensions.partialClone", "origin", "remote.origin.url", ".")
    settle(folder, "remote.origin.promisor", "true", "remote.origin.uploadpack", program)


SENT: dict[str, Callable[[Path, str], None]] = {
    "clean": lambda folder, program: settle(folder, "filter.f.clean", program),
    "required": lambda folder, program: settle(folder, "filter.f.clean", program, "filter.f.required", "true"),
    "process": lambda folder, program: settle(folder, "filter.f.process", program),
    "include": lambda folder, program: include(folder, "filter.f.clean", program),
    "fsmonitor": lambda folder, program: settle(folder, "core.fsmonitor", program),
    "hooks": lambda folder, program: settle(folder, "core.hooksPath", str(Path(program).parent)),
    "external diff": lambda folder, program: settle(folder, "diff.external", program, "diff.f.textconv", program),
    "submodule": lambda folder, program: settle(folder / "sub", "filter.f.clean", program),
    "missing objects": promise,
}


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """A git repository with a submodule, its files all given to the filter f, and touched since."""
    for name in ("other", "sent"):
        folder = tmp_path / name
        folder.mkdir()
        call_git(folder, "init", "-q")
        (folder / ".gitattributes").write_text("* filter=f diff=f\n")
        (folder / "rows.txt").write_text("abc\n")
        if name == "sent":
            call_git(folder, "submodule", "--quiet", "add", str(tmp_path / "other"), "sub")
        call_git(folder, "add", ".")
        call_git(folder, "commit", "-qm", "first")
    for file in ("rows.txt", "sub/rows.txt"):
        os.utime(folder / file, (1, 1))
    return folder


@pytest.mark.parametrize("setting", SENT.values(), ids=SENT)
def test_a_folder_somebody_sent_has_git_run_no_program(sent: Path, setting: Callable[[Path, str], None]) -> None:
    hooks = sent.parent / "hooks"
    hooks.mkdir()
    for name in ("program", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {sent.parent / 'ran'}\ncat\n")
        (hooks / name).chmod(0o755)
    setting(sent, str(hooks / "program"))
    state = running_program.git(str(sent))
    assert not (sent.parent / "ran").exists()
    assert state["dirty"] is False or (setting is promise and "why" in state)


def test_a_filter_that_cannot_be_switched_off_is_not_given_a_chance(sent: Path) -> None:
    (sent / ".gitattributes").write_text("* filter=a=b\n")
    settle(sent, "filter.a=b.clean", f"touch {sent.parent / 'ran'}; cat")
    assert running_program.git(str(sent)) == {
        "commit": None, "dirty": None,
        "why": "git was not asked, because memlake cannot switch off 'filter.a=b.clean' in its settings",
    }  # fmt: skip
    assert not (sent.parent / "ran").exists()


def test_the_commit_of_git_and_whether_files_differ(repo: ml.Repo, here: Path, python: Python) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (here / "make.py").write_text(SAVE)
    for words in (["init", "-q"], ["add", "make.py"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    python("make.py")
    assert record_of(repo)["git"] == {"commit": head, "dirty": False}
    (here / "make.py").write_text(SAVE.replace("2, 3", "2, 4"))
    python("make.py")
    assert record_of(repo)["git"] == {"commit": head, "dirty": True}


def test_agent_and_session_come_from_the_environment(repo: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.datasets().read_values(x=[1]).save("a")
    assert record_of(repo)["agent"] is None
    monkeypatch.setenv("MEMLAKE_AGENT_ID", "bot")
    monkeypatch.setenv("MEMLAKE_SESSION_ID", "s7")
    repo.datasets().read_values(x=[2]).save("a")
    assert (record_of(repo)["agent"], record_of(repo)["session"]) == ("bot", "s7")


def test_secrets_of_source_and_params_are_masked(repo: ml.Repo, here: Path, python: Python) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    lines = f'KEY = "{secret}"\n{SAVE}\nml.param("login", "{secret}"); ml.param("db_password", "hunter")\n'
    (here / "make.py").write_text(lines)
    python("make.py")
    version = repo.datasets().versions("a")[-1]
    assert "[redacted: github token]" in version.provenance["source"]
    assert version.params == {"login": "[redacted: secret]", "db_password": "[redacted: secret]"}
    assert secret not in repr(version) and "hunter" not in repr(version.params) + repr(version.provenance["params"])


def test_libraries_that_functions_reach_are_recorded(repo: ml.Repo) -> None:
    import numpy as np

    repo.datasets().read_values(x=[1.0]).map(y=lambda x: float(np.sqrt(x))).save("a")
    assert record_of(repo)["packages"]["numpy"] == np.__version__


# -- columns -----------------------------------------------------------------------------------


def two(repo: ml.Repo) -> tuple[Datasets, ml.Chain, ml.Chain]:
    data = repo.datasets()
    left = data.read_values(k=[1, 2], a=[3, 4]).save("left")
    return data, left, data.read_values(k=[1, 2], b=[5, 6]).save("right")


L, RIGHT = "left@1.0.0", "right@1.0.0"


@pytest.mark.parametrize(
    ("chain", "made"),
    [
        (lambda a, _: a.filter(ml.C("a") > 3).order_by("k").limit(1), {"k": [[L, "k"]], "a": [[L, "a"]]}),
        (lambda a, _: a.mutate(s=ml.C("k") + ml.C("a")).select("s"), {"s": [[L, "a"], [L, "k"]]}),
        (lambda a, _: a.mutate(a=ml.lit(1)), {"k": [[L, "k"]], "a": []}),
        (lambda a, _: a.group_by("k", n=ml.func.sum("a")), {"k": [[L, "k"]], "n": [[L, "a"]]}),
        (lambda a, b: a.merge(b, on="k"), {"k": [[L, "k"]], "a": [[L, "a"]], "b": [[RIGHT, "b"]]}),
        (
            lambda a, b: a.merge(b, on="k", full=True),
            {"k": [[L, "k"], [RIGHT, "k"]], "a": [[L, "a"]], "b": [[RIGHT, "b"]]},
        ),
        (lambda a, b: a.select("k").union(b.select("k")), {"k": [[L, "k"], [RIGHT, "k"]]}),
        (lambda a, b: a.subtract(b, on="k"), {"k": [[L, "k"]], "a": [[L, "a"]]}),
        (lambda a, _: a.map(m=lambda a: a + 1).select("m"), {"m": [[L, "a"]]}),
        (lambda a, _: a.gen(g=lambda k, a: [k, a]), {"g": [[L, "a"], [L, "k"]]}),
        (lambda a, _: a.shuffle(1).sample(1, 2), {"k": [[L, "k"]], "a": [[L, "a"]]}),
    ],
)  # fmt: skip
def test_the_columns_a_column_is_made_of(repo: ml.Repo, chain: Callable[..., ml.Chain], made: Any) -> None:
    _, left, right = two(repo)
    assert column_sources.made_of(chain(left, right).plan) == made


# -- secrets and work ------------------------------------------------------------------------------


def test_the_values_of_secret_params_stand_nowhere_in_the_record(repo: ml.Repo, python: Python) -> None:
    Path("s.py").write_text(
        "import memlake as ml\n"
        'key = ml.param("api_key", "q9fQ2mZx71-LwPdRt8VbKc3YhN")\n'
        'word = ml.param("db_password", "plum")\n'
        'client = dict(key="sk-live-Zx71LwPdRt8VbKc3YhN")\n'
        'plum = ml.read_values(x=[1]).mutate(t=ml.lit("ghp_a8f3K2m9Qx7LpT4vWzR6sYb1NcE5dHgJuIoB"))\n'
        'password = "abc123xyz"\n'
        'plum.mutate(u=ml.lit(key), password=ml.lit(password)).save("s")\n',
        encoding="utf-8",
    )
    python("s.py", env={"MEMLAKE_PARAM_DB_PASSWORD": "from-outside-4711"})
    kept = json.dumps(repo.datasets().get("s").provenance)
    secrets = ("q9fQ2mZx71", "Zx71LwPd", '\\"plum\\"', "sk-live", "ghp_a8f", "abc123xyz", "from-outside")
    assert [one for one in secrets if one in kept] == []
    assert "plum = ml.read_values" in kept, "a short secret is hidden where it is a literal, not where it is a word"


LONG = "correct horse battery staple correct horse battery staple again"
TOKEN = "github_pat_" + "a1B2c3D4e5F6g7H8i9J0k1" + "_" + "Zx71LwPdRt8VbKc3YhN9" * 2 + "a8f3K2m9Qx7LpT4vWzR"


@pytest.mark.parametrize(
    ("step", "secret"),
    [
        ('mutate(password=ml.lit("open sesame"))', "sesame"),
        ('mutate(password=ml.lit("plum"))', "plum"),
        (f'mutate(db_password=ml.lit("{LONG}"))', "correct horse"),
        ('select(ml.lit("open sesame").label("api_key"))', "sesame"),
        ('group_by(ml.lit("open sesame").label("secret"), n=ml.func.count())', "sesame"),
        (f'mutate(t=ml.func.upper(ml.lit("{TOKEN}")))', TOKEN[11:30]),
        ('mutate(password=ml.func.upper(ml.lit("hunter2x")))', "hunter2x"),
        ('filter(ml.C("password").in_(["hunter2x", "y"]))', "hunter2x"),
        ('mutate(t=ml.C("s.password").startswith("hunter2x"))', "hunter2x"),
    ],
)
def test_constants_of_a_chain_that_are_secrets_stand_nowhere_in_the_record(
    repo: ml.Repo, python: Python, step: str, secret: str
) -> None:
    start = 'ml.read_records([{"x": 1, "password": "p", "s.password": "p"}])'
    Path("s.py").write_text(f'import memlake as ml\nmade = {start}.{step}\nmade.save("s")\n', encoding="utf-8")
    python("s.py")
    told = repo.datasets().get("s").provenance
    assert secret not in json.dumps(told)
    assert "[redacted" in told["source"] and told["source"].startswith("import memlake as ml\nmade")
    assert "label" in step or any("[redacted" in line for line in told["plan"])  # there only the name stands


def test_constants_that_are_no_secrets_are_recorded_as_they_are(repo: ml.Repo, python: Python) -> None:
    lines = 'made = ml.read_values(token=["the"]).filter(ml.C("token") == "the").mutate(n=ml.lit("open sesame"))'
    Path("s.py").write_text(f'import memlake as ml\n{lines}\nmade.save("s")\n', encoding="utf-8")
    python("s.py")
    told = repo.datasets().get("s").provenance
    assert lines in told["source"]
    assert told["plan"][1:] == ["duckdb  filter (token = 'the')", "duckdb  mutate n='open sesame'"]


def test_what_ran_and_why_is_told_and_recorded(repo: ml.Repo) -> None:
    def half(x: int) -> float:
        return 1 / x

    chain = repo.datasets().read_values(x=[0, 1, 2]).settings(on_error="skip").map(y=half)
    with pytest.warns(UserWarning, match=r"half\(\) failed on 1 row\. The run went on"):
        made = chain.save("h")
    (ran,) = made.ran
    assert (ran.name, ran.called, ran.recalled, ran.failed) == ("half", 3, 0, 1)
    assert ran.why == "nothing is remembered of it for these rows"
    assert made.record is not None and made.record.provenance["ran"][0]["failed"] == 1
    good = repo.datasets().read_values(x=[1, 2]).map(y=half)
    good.save("g")
    (again,) = good.save("g").ran
    assert (again.called, again.recalled, again.why) == (0, 2, "")
