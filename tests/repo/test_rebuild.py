"""Rebuilding: the same, or the first row that differs; never a program that was not allowed; nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlake as ml
from memlake.errors import Denied, InvalidInput, NotFound
from memlake.repo import Repo, rebuild
from memlake.reports import Rebuilt
from tests.dataset.telling import put

PREPARE = """\
import memlake as ml
from shared import least

factor = ml.param("factor", 1)
rows = ml.read_csv("pets.csv").filter(ml.C("age") > least).mutate(score=ml.C("age") * factor)
rows.save("old")
ml.read_dataset("old").map(twice=lambda score: score * 2).save("twice")
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where scratch folders are made: nothing may be left in it."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scratch: Path) -> Iterator[Repo]:
    root = tmp_path / "pets"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (root / "pets.csv").write_text("id,age\n1,3\n2,5\n3,9\n")
    (root / "shared.py").write_text("least = 3\n")
    (root / "prepare.py").write_text(PREPARE)
    with ml.init(root) as found:
        found.add(".")
        found.commit("begin")
        yield found
    assert list(scratch.iterdir()) == []


def run(repo: Repo, program: str = "prepare.py", **params: str) -> None:
    words = [word for name, value in params.items() for word in ("-p", f"{name}={value}")]
    command = [sys.executable, "-m", "memlake.cli", "run", program, *words]
    outside = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    subprocess.run(command, cwd=repo.root, env=outside, check=True, capture_output=True)


def allow(repo: Repo, of: str) -> None:
    rebuild.trust_program(repo, rebuild.read_program(repo, of))


def test_a_version_is_the_same_though_its_files_changed_since(repo: Repo) -> None:
    run(repo, factor="3")
    (repo.root / "pets.csv").write_text("id,age\n7,7\n")
    (repo.root / "shared.py").write_text("least = 99\n")
    repo.add("."), repo.commit("later")
    allow(repo, "twice")
    before = (repo.show("HEAD").commit.oid, (repo.root / "pets.csv").read_text())
    assert repo.rebuild("twice") == Rebuilt("twice@1.0.0", True)
    assert (repo.show("HEAD").commit.oid, (repo.root / "pets.csv").read_text()) == before


def test_a_program_that_nobody_allowed_is_not_run(repo: Repo) -> None:
    put_provenance(repo, save_old(repo))
    with pytest.raises(Denied, match=r"runs prepare\.py, which this repo recorded, and you did not allow that") as told:
        repo.rebuild("old")
    assert "memlake trust --program old" in told.value.hint


def test_trust_ends_where_the_program_or_its_files_are_others(repo: Repo) -> None:
    """As in a repo that was sent to somebody, changed, and sent back: it has the same id."""
    told = save_old(repo)
    put_provenance(repo, told)
    allow(repo, "old")
    put_provenance(repo, {**told, "source": f"{PREPARE}import os"})
    with pytest.raises(Denied):
        repo.rebuild("old")
    (repo.root / "shared.py").write_text("least = 4; import os\n")
    repo.add("."), repo.commit("changed")
    repo.datasets().read_csv("pets.csv").limit(1).save("old")
    put_provenance(repo, told)  # the same program, over other files
    with pytest.raises(Denied):
        repo.rebuild("old")


def test_the_first_row_that_differs_is_named_with_the_packages(repo: Repo) -> None:
    run(repo)
    (version,) = repo.datasets().versions("old")
    later = PREPARE.replace('age") * factor', 'age") * factor + ml.C("id") // 3')
    told = {**version.provenance, "source": later, "packages": {**version.provenance["packages"], "duckdb": "0.1"}}
    put_provenance(repo, told)
    allow(repo, "old")
    done = repo.rebuild("old")
    assert (done.same, done.why) == (False, "row 2 differs in score")
    assert done.first == {"row": 2, "column": "score", "old": 9, "new": 10}
    assert done.packages[0][:2] == ("duckdb", "0.1")


def save_old(repo: Repo) -> dict[str, Any]:
    """As prepare.py would save it, without a process."""
    repo.datasets().read_csv("pets.csv").save("old")
    told = repo.datasets().get("old").provenance
    return {**told, "source_kind": "script", "source_name": "prepare.py", "source": PREPARE}


def put_provenance(repo: Repo, told: dict[str, Any]) -> None:
    put(repo.datasets(), "old", provenance=told)


@pytest.mark.parametrize(
    ("kind", "source", "why"),
    [
        ("prompt", "x = 1", "defined interactively"),
        ("test", "x = 1", "made by a test"),
        ("notebook", "# In [1]", "defined interactively"),
        ("stdin", "# stdin: Python kept no text of it. Its steps:", "only its steps are recorded"),
        ("script", "key = '[redacted: secret]'", "a secret in prepare.py was not recorded"),
        ("script", "", "no program was recorded"),
    ],
)
def test_a_program_that_is_not_whole_is_said_to_be_so(repo: Repo, kind: str, source: str, why: str) -> None:
    told = save_old(repo)
    put_provenance(repo, {**told, "source_kind": kind, "source": source})
    (missing,) = repo.rebuild("old").missing
    assert why in missing


def test_inputs_that_are_gone_are_named(repo: Repo) -> None:
    run(repo)
    repo.datasets().delete_dataset("old")
    assert "old@1.0.0 is no longer here" in repo.rebuild("twice", check=True).missing
    (repo.root / "loose.csv").write_text("id,age\n1,3\n")
    (repo.root / "loose.py").write_text('import memlake as ml\nml.read_csv("loose.csv").save("loose")\n')
    run(repo, "loose.py")
    assert repo.rebuild("loose").missing == ("loose.csv was never committed",)
    (repo.root / "loose.csv").write_text("id,age\n1,4\n")
    assert "changed since, and what was read was never committed" in repo.rebuild("loose").missing[0]


def test_a_program_that_fails_or_saves_nothing_is_told(repo: Repo) -> None:
    told = save_old(repo)
    put_provenance(repo, {**told, "source": "raise SystemExit('no gpu here')"})
    allow(repo, "old")
    done = repo.rebuild("old")
    assert (done.same, done.why, done.output) == (False, "prepare.py ended with exit code 1", "no gpu here\n")
    put_provenance(repo, {**told, "source": "print('nothing')"})
    allow(repo, "old")
    assert repo.rebuild("old").why == "prepare.py ended without saving old"


# -- files

TRAIN = """\
import memlake as ml

rows = ml.read_dataset("clean").to_list("age")
rate = ml.param("rate", 1.0)
open("model.bin", "w").write(f"{rate} {rows}")
"""


def commit_model(repo: Repo, text: str) -> None:
    repo.datasets().read_csv("pets.csv").save("clean")
    (repo.root / "train.py").write_text(TRAIN)
    repo.add("train.py")
    repo.commit("train")
    (repo.root / "model.bin").write_text(text)
    repo.add("model.bin")
    repo.commit("model", uses=("train.py", "clean"), params={"rate": 0.5})


def test_a_file_is_made_again_by_the_program_its_commit_names(repo: Repo) -> None:
    commit_model(repo, "0.5 [(3,), (5,), (9,)]")
    allow(repo, "model.bin")
    assert repo.rebuild("model.bin").same is True


def test_a_checkpoint_that_differs_is_compared_by_tensor(repo: Repo) -> None:
    train = "import numpy as np\nnp.savez('model.npz', bias=np.zeros(2), weight=np.arange(6.0))\n"
    (repo.root / "train.py").write_text(train)
    np.savez(repo.root / "model.npz", bias=np.zeros(2), weight=np.arange(6.0) + np.eye(6)[2])
    repo.add("."), repo.commit("model", uses=("train.py",))
    allow(repo, "model.npz")
    done = repo.rebuild("model.npz")
    assert (done.same, done.why) == (False, "the bytes differ")
    assert [change.name for change in done.inside.record.changed] == ["weight"]


def test_a_file_that_the_program_does_not_write_is_not_the_same(repo: Repo) -> None:
    (repo.root / "make.py").write_text("open('a.txt', 'w').write('a')\nopen('log', 'a').write('one')\n")
    for name, text in (("a.txt", "a"), ("log", "one"), ("b.bin", "a")):
        (repo.root / name).write_text(text)
    (repo.root / "raw.csv").write_text("x")
    repo.add("."), repo.commit("made", uses=("make.py", "raw.csv"))
    for name in ("a.txt", "log", "b.bin"):
        allow(repo, name)
    done = repo.rebuild("b.bin")
    assert (done.same, done.why) == (False, "make.py did not write b.bin")
    assert repo.rebuild("a.txt").same is repo.rebuild("log").same is True
    for name in ("make.py", "raw.csv"):
        with pytest.raises(NotFound, match=f"{name} cannot be rebuilt: .* does not say which program made it"):
            repo.rebuild(name)


def test_an_input_that_is_written_in_place_is_there_as_it_was(repo: Repo) -> None:
    (repo.root / "make.py").write_text("open('log', 'a').write('two')\n")
    (repo.root / "log").write_text("one")
    repo.add("."), repo.commit("begin")
    (repo.root / "log").write_text("onetwo")
    repo.add("."), repo.commit("more", uses=("make.py", "log@HEAD"))
    allow(repo, "log")
    assert repo.rebuild("log").same is True


def test_what_has_no_program_is_refused(repo: Repo) -> None:
    with pytest.raises(NotFound, match="does not say which program made it"):
        repo.rebuild("pets.csv")
    with pytest.raises(InvalidInput, match="only versions of datasets and files"):
        repo.rebuild("HEAD")


def test_paths_of_a_stranger_stay_in_the_scratch_folder() -> None:
    for path in ("../x", "/etc/x", ".memlake/repo.db", ".MemLake/x", "a/../../x", "", "a//b"):
        assert not rebuild._is_inside(path)
    assert rebuild._is_inside("a/b.py")


def test_what_a_killed_rebuild_left_is_removed_by_the_next(repo: Repo, scratch: Path) -> None:
    (scratch / "memlake-rebuild-999999-1-x").mkdir()
    (scratch / "memlake-rebuild-999999-1-x" / "big").write_text("x")
    with rebuild._open_scratch() as folder:
        assert list(scratch.iterdir()) == [folder]
