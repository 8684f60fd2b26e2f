"""Params and metrics: typed, from the first place that says, on every version of the process, in the fingerprint."""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.dataset import params
from memlake.dataset.context import DatasetContext
from memlake.dataset.lineage import process_facts
from memlake.dataset.run import plan_keys
from memlake.errors import InvalidInput, NotFound

pytestmark = pytest.mark.usefixtures("_fresh")
Python = Callable[..., "subprocess.CompletedProcess[str]"]
Set = Callable[..., None]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Set:
    """typed(rate="0.1"): params as `memlake run -p` sets them."""
    return lambda **given: monkeypatch.setenv("MEMLAKE_RUN_PARAMS", json.dumps(given))


# -- where from and as what --------------------------------------------------------------------


def test_the_first_place_that_says_wins(here: Path, monkeypatch: pytest.MonkeyPatch, typed: Set) -> None:
    assert ml.param("learning-rate", 0.5) == 0.5
    (here / "p.toml").write_text("learning-rate = 0.4\n[train]\nepochs = 3\n")
    monkeypatch.setenv("MEMLAKE_PARAMS_FILE", "p.toml")
    assert ml.param("learning-rate", 0.5) == 0.4
    assert ml.param("train.epochs", 1) == 3
    monkeypatch.setenv("MEMLAKE_PARAM_LEARNING_RATE", "0.3")
    assert ml.param("learning-rate", 0.5) == 0.3
    typed(**{"learning-rate": "0.2"})
    assert ml.param("learning-rate", 0.5) == 0.2
    assert process_facts.params()["learning-rate"] == {"value": 0.2, "type": "float", "from": "command line"}
    assert process_facts.params()["train.epochs"] == {"value": 3, "type": "int", "from": "file p.toml"}


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("7", 1, 7), ("7", 1.5, 7.0), ("1e-3", 0.1, 0.001), ("yes", False, True), ("off", True, False), ("7", "a", "7"),
        ("[1, 2]", [0], [1, 2]), ("[1, 2]", (0,), (1, 2)), ('{"a": 1}', {}, {"a": 1}), ("7", None, "7"),
    ],
)  # fmt: skip
def test_a_value_has_the_type_of_its_default(typed: Set, text: str, default: Any, value: Any) -> None:
    typed(x=text)
    found = ml.param("x", default)
    assert found == value and type(found) is type(value)


def test_a_param_that_is_asked_for_in_every_row_is_resolved_once(typed: Set, monkeypatch: pytest.MonkeyPatch) -> None:
    found = params.find
    asked = []
    monkeypatch.setattr(params, "find", lambda name: asked.append(name) or found(name))
    typed(rate="0.25")
    assert {ml.param("rate", 0.5) for _ in range(100)} == {0.25}
    assert asked == ["rate"]
    typed(rate="4")
    assert (ml.param("rate", 0.5), ml.param("rate", 1), ml.param("rate", type=str)) == (4.0, 4, "4")


def test_a_type_can_be_named(typed: Set) -> None:
    typed(x="7", where="data/pets")
    assert ml.param("x", type=int) == 7
    assert ml.param("where", type=Path) == Path("data/pets")
    assert ml.param("missing", type=int) is None
    assert ml.param("seven", "7", type=int) == 7


@pytest.mark.parametrize(
    ("text", "default"), [("0.5", 1), ("abc", 0.5), ("maybe", True), ("{}", [1]), ("1, 2", [1]), ("", 1)]
)
def test_a_wrong_type_is_an_error_that_says_all(typed: Set, text: str, default: Any) -> None:
    typed(rate=text)
    with pytest.raises(InvalidInput, match=r"param 'rate' is '.*' \(command line\); it takes .*Nothing ran") as caught:
        ml.param("rate", default)
    assert "rate=VALUE" in caught.value.hint


def test_a_params_file_that_is_not_there_or_is_none_is_said(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLAKE_PARAMS_FILE", "none.json")
    with pytest.raises(NotFound, match=r"none\.json"):
        ml.param("x", 1)
    (here / "none.json").write_text("[1]")
    with pytest.raises(InvalidInput, match="holds a list"):
        ml.param("x", 1)
    (here / "none.json").write_text('{"x": 5}')
    assert ml.param("x", 1) == 5


# -- on versions -------------------------------------------------------------------------------


def test_params_and_metrics_belong_to_what_was_saved_and_what_will_be(repo: ml.Repo) -> None:
    data = repo.datasets()
    ml.param("before", 1)
    data.read_values(x=[1]).save("a")
    ml.metrics.set("accuracy", 0.5)
    ml.metrics.set("accuracy", 0.9)
    ml.metrics.set("loss", 0.1)
    ml.param("after", "text")
    data.read_values(x=[2]).save("b")
    for name in "ab":
        [version] = data.versions(name)
        assert version.params == {"before": 1, "after": "text"}
        assert version.metrics == {"accuracy": 0.9, "loss": 0.1}
        assert version.provenance["params"]["after"] == {"value": "text", "type": "str", "from": "default"}
    assert ml.metrics.get("loss") == 0.1 and ml.metrics.get("none", 3) == 3
    assert ml.metrics.all() == {"accuracy": 0.9, "loss": 0.1}


def test_what_closed_repos_saved_is_kept_in_mind_up_to_a_number(repo: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_facts, "_NAMED", 3)
    with ml.open(repo.root) as other:
        for number in range(5):
            other.datasets().read_values(x=[number]).save("a")
    assert len(process_facts._CLOSED) == 3
    with pytest.warns(UserWarning, match=r"could not be written to a@\S+ and at least 2 more: the repo was closed"):
        ml.metrics.set("f1", 0.5)


def test_a_reused_version_gets_them_too_and_keeps_its_own(repo: ml.Repo) -> None:
    data = repo.datasets()
    data.read_values(x=[1]).save("a")
    ml.metrics.set("old", 1)
    process_facts.forget()
    ml.param("rate", 0.5)
    assert data.read_values(x=[1]).save("a").reused
    ml.metrics.set("new", 2)
    [version] = data.versions("a")
    assert version.metrics == {"old": 1, "new": 2} and version.params == {"rate": 0.5}
    assert version.provenance["params"]["rate"]["from"] == "default"


def test_a_param_asked_for_after_a_reused_save_leaves_what_an_older_run_recorded(repo: ml.Repo, typed: Set) -> None:
    data = repo.datasets()
    ml.param("rate", 0.1)
    data.read_values(x=[1]).save("a", description="rows", attrs=["team:a"])
    ml.metrics.set("f1", 0.5)
    process_facts.forget()
    typed(rate="0.2")
    ml.metrics.set("seen", 1)
    assert data.read_values(x=[1]).save("a").reused
    assert ml.param("rate", 0.1) == 0.2
    ml.param("more", 1)
    ml.metrics.set("f1", 0.9)
    old, new = data.versions("a")
    assert (old.params, old.metrics["f1"], old.description) == ({"rate": 0.1}, 0.5, "rows")
    assert (new.params, new.metrics, new.attrs) == ({"rate": 0.2, "more": 1}, {"seen": 1, "f1": 0.9}, ("team:a",))
    assert new.provenance["params"]["rate"]["from"] == "command line"
    assert (new.content, new.manifest) == (old.content, old.manifest)
    repo.undo()
    assert [one.version for one in data.versions("a")] == ["1.0.0"]


def test_a_param_of_a_version_of_this_run_is_its_own_also_when_it_was_saved_twice(repo: ml.Repo, typed: Set) -> None:
    data = repo.datasets()
    ml.param("rate", 0.1)
    data.read_values(x=[1]).save("a")
    assert data.read_values(x=[1]).save("a").reused
    typed(rate="0.2")
    ml.param("rate", 0.1)
    assert [one.params for one in data.versions("a")] == [{"rate": 0.2}]


def test_a_version_asked_for_by_number_stays_as_it_is_and_that_is_said(repo: ml.Repo, typed: Set) -> None:
    data = repo.datasets()
    ml.param("rate", 0.1)
    data.read_values(x=[1]).save("a", version="1.0.0")
    process_facts.forget()
    assert data.read_values(x=[1]).save("a", version="1.0.0").reused
    typed(rate="0.2")
    with pytest.warns(UserWarning, match="params could not be written to a@1.0.0: a@1.0.0 exists already"):
        ml.param("rate", 0.1)
    assert [one.params for one in data.versions("a")] == [{"rate": 0.1}]


def test_what_is_told_in_a_transaction_is_part_of_it(repo: ml.Repo) -> None:
    data = repo.datasets()
    data.read_values(x=[0]).save("before")
    commits = len(list(repo.log()))
    with repo.transaction("both"):
        data.read_values(x=[1]).save("a")
        ml.metrics.set("f1", 0.5)
        ml.param("rate", 2)
        assert data.get("a").metrics == {"f1": 0.5}
    assert len(list(repo.log())) == commits + 1
    assert all((one.metrics, one.params) == ({"f1": 0.5}, {"rate": 2}) for one in data.all())
    ml.metrics.set("f1", 0.9)
    assert [one.metrics for one in data.all()] == [{"f1": 0.9}, {"f1": 0.9}]


def test_what_is_told_in_a_transaction_that_fails_is_dropped_with_it(repo: ml.Repo) -> None:
    def fail() -> None:
        with repo.transaction("both"):
            data.read_values(x=[1]).save("a")
            ml.metrics.set("f1", 0.5)
            raise ZeroDivisionError

    data = repo.datasets()
    data.read_values(x=[0]).save("before")
    with pytest.raises(ZeroDivisionError):
        fail()
    assert [(one.name, one.metrics) for one in data.all()] == [("before", {})]
    data.read_values(x=[1]).save("a")
    assert data.get("a").metrics == {"f1": 0.5}


def test_a_metric_in_a_transaction_is_kept_while_others_commit(repo: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    data = repo.datasets()
    look = DatasetContext.head_of_branch

    def moved(self: DatasetContext) -> Any:
        found = look(self)
        with ml.open(repo.root) as other:
            other.write({f"files/{os.urandom(4).hex()}": b""}, "meanwhile")
        return found

    with repo.transaction("both"):
        data.read_values(x=[1]).save("a")
        monkeypatch.setattr(DatasetContext, "head_of_branch", moved)
        ml.metrics.set("f1", 0.5)
        monkeypatch.setattr(DatasetContext, "head_of_branch", look)
    assert data.get("a").metrics == {"f1": 0.5}


def test_metrics_go_to_the_branch_of_the_save_also_after_a_switch(repo: ml.Repo) -> None:
    repo.datasets().read_values(x=[1]).save("a")
    repo.switch("other", create=True)
    ml.metrics.set("f1", 0.5)
    assert repo.datasets("main").versions("a")[0].metrics == {"f1": 0.5}
    assert repo.datasets("other").versions("a")[0].metrics == {}


def test_metrics_survive_an_exception_after_them(repo: ml.Repo, python: Python) -> None:
    done = python(
        "-c",
        'import memlake as ml; ml.read_values(x=[1]).save("a"); ml.metrics.set("f1", 0.7); ml.param("p", 2); 1 / 0',
        check=False,
    )
    assert "ZeroDivisionError" in done.stderr
    [version] = repo.datasets().versions("a")
    assert (version.metrics, version.params) == ({"f1": 0.7}, {"p": 2})


def test_what_another_process_told_meanwhile_stays(repo: ml.Repo, python: Python) -> None:
    data = repo.datasets()
    data.read_values(x=[1]).save("a")
    python("-c", 'import memlake as ml; ml.read_values(x=[1]).save("a"); ml.metrics.set("theirs", 1)')
    ml.metrics.set("ours", 2)
    assert data.versions("a")[0].metrics == {"theirs": 1, "ours": 2}


def test_metrics_of_numpy_are_numbers_and_of_objects_an_error() -> None:
    import numpy as np

    ml.metrics.set("a", np.float32(0.5))
    ml.metrics.set("b", np.array([1, 2]))
    ml.metrics.set("c", float("nan"))
    assert ml.metrics.all() == {"a": 0.5, "b": [1, 2], "c": "nan"}
    assert type(ml.metrics.get("a")) is float
    with pytest.raises(InvalidInput, match="'d' is a object"):
        ml.metrics.set("d", object())


def test_a_repo_that_was_closed_is_a_warning_not_an_error(here: Path) -> None:
    with ml.init(str(here)) as repo:
        repo.datasets().read_values(x=[1]).save("a")
    with pytest.warns(UserWarning, match="a@1.0.0"):
        ml.metrics.set("late", 1)


def test_versions_are_compared_by_params_and_metrics(repo: ml.Repo) -> None:
    data = repo.datasets()
    data.read_values(x=[1]).save("a")
    ml.metrics.set("f1", 0.5)
    process_facts.forget()
    ml.param("rate", 2)
    data.read_values(x=[2]).save("a")
    one, two = data.compare("a")
    assert (one["version"], one["metrics"], one["params"]) == ("1.0.0", {"f1": 0.5}, {"rate": None})
    assert (two["version"], two["metrics"], two["params"]) == ("1.0.1", {"f1": None}, {"rate": 2})


ASKS = """
import memlake as ml
def scaled(x: int) -> float:
    return x * ml.param("scale", 1.0)
ml.param("train.epochs", 1)
ml.read_values(x=list(range(100))).settings(parallel=2).map(y=scaled).save("a")
"""


def test_params_of_a_file_that_nothing_asked_for_are_said_when_a_program_ends(
    repo: ml.Repo, here: Path, python: Python
) -> None:
    (here / "make.py").write_text(ASKS)
    (here / "p.toml").write_text("scael = 2\nscale = 3\n[train]\nepochs = 4\n")
    for _ in range(2):  # the second time the function is recalled
        done = python("make.py", env={"MEMLAKE_PARAMS_FILE": "p.toml"})
        told = [line for line in done.stderr.splitlines() if "asked" in line]
        assert told == [
            "warning: nothing asked for these params of p.toml: scael (did you mean scale?). They had no effect."
        ]
    (here / "make.py").write_text(ASKS + "1 / 0\n")
    assert "asked" not in python("make.py", env={"MEMLAKE_PARAMS_FILE": "p.toml"}, check=False).stderr


# -- in fingerprints ---------------------------------------------------------------------------


def by_module(x: int) -> Any:
    return x * ml.param("scale", 1)


def through_another(x: int) -> Any:
    return by_module(x)


def taken(x: int) -> Any:
    from memlake import param

    return x * param("scale", 1)


def any_name(x: int) -> Any:
    return x * ml.param("sc" + str(x), 1)


def chosen(x: int) -> Any:
    return x * ml.param("a" if x else "scale", 1)


def with_a_default_that_is_made(x: int) -> Any:
    return x * ml.param("scale", float(str(x + 1)), type=float)


def made_of_text(x: int) -> Any:
    return x * ml.param("SCALE".lower(), 1)


NAME = "scale"
alias = ml.param


def renamed(x: int) -> Any:
    return x * alias(NAME, 1)


def none(x: int, param: Any = None) -> Any:
    return (x, param)


@pytest.mark.parametrize(
    "function", [by_module, through_another, taken, with_a_default_that_is_made, lambda x: ml.param("scale")]
)
def test_a_param_that_a_function_asks_for_is_part_of_its_fingerprint(typed: Set, function: Any) -> None:
    before = plan_keys.fingerprint_of(function).key
    typed(unrelated="5")
    assert plan_keys.fingerprint_of(function).key == before
    typed(scale="5")
    assert plan_keys.fingerprint_of(function).key != before
    assert dict(plan_keys.fingerprint_of(function).params) == {"scale": "5"}


@pytest.mark.parametrize("function", [any_name, chosen, made_of_text, renamed])
def test_where_it_is_not_seen_which_any_param_is(typed: Set, function: Any) -> None:
    before = plan_keys.fingerprint_of(function).key
    typed(scale="5")
    assert plan_keys.fingerprint_of(function).key != before


def test_a_function_that_asks_for_none_does_not_mind(typed: Set, monkeypatch: pytest.MonkeyPatch) -> None:
    before = plan_keys.fingerprint_of(none).key
    typed(scale="5", param="6")
    monkeypatch.setenv("MEMLAKE_PARAM_SCALE", "7")
    assert plan_keys.fingerprint_of(none).key == before


SCALED = """
import memlake as ml
def scaled(x: int) -> float:
    print("called", x)
    return x * ml.param("scale", 1.0)
made = ml.read_values(x=[1, 2]).map(y=scaled).save("a")
print("rows", made.to_values("y"))
"""


def test_a_changed_param_runs_again_and_an_unrelated_one_does_not(repo: ml.Repo, here: Path, python: Python) -> None:
    (here / "make.py").write_text(SCALED)
    assert python("make.py").stdout.count("called") == 2
    assert python("make.py", env={"MEMLAKE_PARAM_OTHER": "3"}).stdout.count("called") == 0
    done = python("make.py", env={"MEMLAKE_PARAM_SCALE": "3"})
    assert done.stdout.count("called") == 2 and "rows [3.0, 6.0]" in done.stdout
    assert repo.datasets().versions("a")[-1].params == {"scale": 3.0}
    recalled = python("make.py", env={"MEMLAKE_PARAM_SCALE": "3"})
    assert "called" not in recalled.stdout and "rows [3.0, 6.0]" in recalled.stdout


def test_what_cannot_be_seen_through_is_warned_of_once_by_name(repo: ml.Repo) -> None:
    import threading

    plan_keys._WARNED.clear()
    lock = threading.Lock()

    def guarded(x: int) -> bool:
        return lock.locked()

    chain = repo.datasets().read_values(x=[1]).map(y=guarded)
    with pytest.warns(UserWarning, match=r"lock.*setup=.*params=.*__fingerprint__\(\)") as told:
        chain.save("a")
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain.save("b")
