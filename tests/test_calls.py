"""Calling the Python API wrongly: one clear error for every parameter of every method, and for a closed repo."""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.calls import check_types
from memlake.records import Change
from memlake.repo.part import Part


def _find_part(member: property) -> type | None:
    """The class that a property says it gives, if it is a part of a repo."""
    name = member.fget.__wrapped__.__annotations__["return"]  # type: ignore[union-attr]
    for module in ("bisect", "promotions", "refs", "remotes", "stash", "stored_objects", "upkeep"):
        found = getattr(importlib.import_module(f"memlake.repo.{module}"), name, None)
        if isinstance(found, type) and issubclass(found, Part):
            return found
    return None


PARTS = {  # the properties of Repo that give verbs of their own, and what they give
    name: given
    for name, member in vars(ml.Repo).items()
    if isinstance(member, property) and (given := _find_part(member)) is not None
}
METHODS = {
    f"{part}.{name}" if part else name: member
    for part, owner in {"": ml.Repo, **PARTS}.items()
    for name, member in vars(owner).items()
    if not name.startswith("_") and inspect.isfunction(member) and name != "close"
}
PROPERTIES = [name for name, member in vars(ml.Repo).items() if isinstance(member, property)]
WRONG: tuple[object, ...] = (object(), b"bytes", 5, 2.5, None, {1: 2}, [3], {"a"}, "text", True)


@pytest.fixture
def repo(here: Path) -> Iterator[ml.Repo]:
    with ml.init(here) as made:
        (here / "a").write_text("1")
        made.add("a")
        made.commit("one")
        yield made


def good(parameter: inspect.Parameter, repo: ml.Repo) -> Any:
    """A value the parameter takes."""
    text = str(parameter.annotation)
    samples = {
        "Mapping": {},
        "Sequence": (),
        "bool": False,
        "int": 0,
        "Lane": "work",
    }
    samples["tuple"] = ("HEAD", "HEAD")
    samples["Change"] = Change("files/a", None, None)
    return next((value for name, value in samples.items() if text.startswith(name)), "a")


def parameters() -> Iterator[tuple[str, str]]:
    for name, method in METHODS.items():
        yield from ((name, each) for each in list(inspect.signature(method).parameters)[1:])


@pytest.mark.parametrize(("name", "parameter"), list(parameters()))
def test_a_value_of_a_wrong_type_is_refused_by_name_before_anything_is_done(
    repo: ml.Repo, name: str, parameter: str
) -> None:
    refused = 0
    for value in WRONG:
        try:
            result = _call(attrgetter(name)(repo), parameter, value, repo)
            with result if name == "transaction" else _nothing():
                list(result) if isinstance(result, Iterator) and name != "transaction" else None
        except ml.errors.InvalidInput as error:
            refused += f"{name.rpartition('.')[2]}() takes {parameter} as" in error.message
        except ml.Error:
            pass  # of the right type, and wrong for another reason
    assert refused, f"{name}({parameter}=...) takes anything"


def _call(method: Callable[..., Any], parameter: str, value: object, repo: ml.Repo) -> Any:
    known = inspect.signature(method).parameters
    given = {each.name: good(each, repo) for each in known.values() if each.default is inspect.Parameter.empty}
    given[parameter] = value
    rest = next((name for name, each in known.items() if each.kind is inspect.Parameter.VAR_POSITIONAL), None)
    if rest is None:
        return method(**given)
    # What stands before `*paths` is given too, or the first of the paths would take its place.
    before = [given.pop(name, known[name].default) for name in list(known)[: list(known).index(rest)]]
    return method(*before, given.pop(rest), **given)


class _nothing:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_the_error_says_what_is_taken_what_was_given_and_what_to_do(repo: ml.Repo) -> None:
    with pytest.raises(ml.errors.InvalidInput) as raised:
        repo.show(5)  # type: ignore[arg-type]
    assert raised.value.message == "Repo.show() takes rev as str | Commit, but got 5 (int). Nothing was changed."
    with pytest.raises(ml.errors.InvalidInput, match=r"log\(\) takes paths as Sequence") as raised:
        repo.log(paths="a")
    assert "paths=['a']" in raised.value.hint
    with pytest.raises(ml.errors.InvalidInput, match="'work' or 'memory'"):
        repo.show("HEAD", "play")  # type: ignore[arg-type]
    with pytest.raises(ml.errors.InvalidInput, match=r"write\(\) takes changes as Mapping\[str, bytes"):
        repo.write({"files/b": 5}, "m")  # type: ignore[dict-item]


def test_the_functions_that_open_a_repo_are_checked_too(here: Path) -> None:
    for wrong in (5, b"x", object()):
        with pytest.raises(ml.errors.InvalidInput, match="takes path as"):
            ml.init(wrong)  # type: ignore[arg-type]
        with pytest.raises(ml.errors.InvalidInput, match="takes path as"):
            ml.open(wrong)  # type: ignore[arg-type]
    with pytest.raises(ml.errors.InvalidInput, match="takes branch as"):
        ml.init(here, branch=1)  # type: ignore[arg-type]


def test_paths_may_be_given_as_a_list(repo: ml.Repo, here: Path) -> None:
    (here / "b").write_text("2")
    (here / "c").write_text("3")
    assert len(repo.add([here / "b", "c"]).changes) == 2
    repo.commit("two")
    (here / "b").write_text("4")
    repo.restore(["b"])
    assert (here / "b").read_text() == "2"
    assert len(repo.rm(("b",), "c").changes) == 2
    assert repo.operations()[0].detail == "b c"


def test_text_is_kept_as_utf8(repo: ml.Repo) -> None:
    repo.write({"memories/bot/1": "grüße"}, "m")
    assert repo.read("memories/bot/1").decode() == "grüße"
    with pytest.raises(ml.errors.InvalidInput, match="UTF-8"):
        repo.write({"memories/bot/2": "\ud800"}, "m")


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_closed_repo_refuses_every_method(repo: ml.Repo, name: str) -> None:
    known = inspect.signature(METHODS[name]).parameters
    given = [each for each in list(known.values())[1:] if each.default is inspect.Parameter.empty]
    values = {each.name: good(each, repo) for each in given if each.kind is not inspect.Parameter.VAR_POSITIONAL}
    method = attrgetter(name)(repo)
    repo.close()
    with pytest.raises(ml.errors.InvalidInput, match="was closed") as raised:
        method(**values)
    assert "memlake.open(" in raised.value.hint


def test_a_closed_repo_refuses_its_properties_and_iterators_and_may_be_closed_again(repo: ml.Repo) -> None:
    walk = repo.log()
    repo.close()
    repo.close()
    assert "closed" in repr(repo)
    for name in PROPERTIES:
        with pytest.raises(ml.errors.InvalidInput, match="was closed"):
            getattr(repo, name)
    with pytest.raises(ml.errors.InvalidInput, match="was closed"):
        list(walk)
    with pytest.raises(ml.errors.InvalidInput, match="was closed"), repo:
        pass


def test_checking_costs_next_to_nothing() -> None:
    def plain(name: str, *, at: str | None = None, force: bool = False) -> None: ...

    def cost(function: Callable[..., None]) -> float:
        start = time.thread_time()
        for _ in range(2000):
            function("x", at="y", force=True)
        return (time.thread_time() - start) / 2000

    assert min(cost(check_types(plain)) for _ in range(5)) < 20e-6  # two on a quiet machine
