"""What a function takes and returns is known without running it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from memlake.dataset.types.arrow import Vector
from memlake.dataset.types.files import ImageFile
from memlake.dataset.types.signatures import MISSING, signature_of

if TYPE_CHECKING:
    from nowhere import Unknown


def embed(file: ImageFile, size: int = 3) -> Vector(4):  # type: ignore[valid-type]
    raise AssertionError("not run")


class Model:
    def __call__(self, text: str) -> float:
        raise AssertionError("not run")

    def score(self, text: str, *, scale: float = 1.0) -> Iterator[int]:
        raise AssertionError("not run")

    @staticmethod
    def fixed(text: str) -> int:
        raise AssertionError("not run")

    @classmethod
    def made(cls, text: str) -> Model:
        raise AssertionError("not run")


def test_annotations_that_are_strings_are_resolved() -> None:
    told = signature_of(embed)
    assert told.parameters == ("file", "size") and told.optional == {"size"}
    assert told.wants == {"file": ImageFile, "size": int}
    assert told.returns == Vector(4)


def test_a_lambda_has_names_and_nothing_more() -> None:
    told = signature_of(lambda x, y=1, **rest: x)
    assert told == (("x", "y"), {}, MISSING, frozenset({"y"}))


def test_a_partial_has_what_it_leaves_open() -> None:
    told = signature_of(functools.partial(embed, size=5))
    assert told.parameters == ("file", "size") and told.optional == {"size"} and told.returns == Vector(4)
    assert signature_of(functools.partial(embed, object())).parameters == ("size",)


def test_objects_and_methods_have_no_self() -> None:
    model = Model()
    assert signature_of(model)[:3] == (("text",), {"text": str}, float)
    assert signature_of(model.score)[:3] == (("text", "scale"), {"text": str, "scale": float}, Iterator[int])
    assert signature_of(Model.fixed)[:3] == (("text",), {"text": str}, int)
    assert signature_of(Model.made)[:3] == (("text",), {"text": str}, Model)


def test_a_wrapped_function_is_read_through_its_wrapper() -> None:
    elsewhere: dict[str, Any] = {}  # a decorator's own module, which does not know the names of the function's
    exec("def wrapper(*args, **kwargs): pass", elsewhere)
    wrapper = functools.wraps(embed)(elsewhere["wrapper"])
    assert signature_of(wrapper).returns == Vector(4)


def test_a_class_of_the_function_around_is_found_where_the_body_uses_it() -> None:
    class Local:
        pass

    def make(x: int) -> Local:
        return Local()

    assert signature_of(make).returns is Local


def test_a_name_only_the_type_checker_knows_costs_one_annotation() -> None:
    def take(x: Unknown, y: int) -> Unknown:
        raise AssertionError("not run")

    assert signature_of(take) == (("x", "y"), {"y": int}, MISSING, frozenset())


def test_a_local_name_without_a_value_yet_is_no_error() -> None:
    def take(x: int) -> int:
        return later(x)

    assert signature_of(take).returns is int
    later = take
    assert later is take


@pytest.mark.parametrize("function", [str, int, float])
def test_a_type_returns_itself(function: type) -> None:
    assert signature_of(function).returns is function


def test_builtins_tell_what_they_can() -> None:
    assert signature_of(len).parameters == ("obj",)
    assert signature_of(max) == ((), {}, MISSING, frozenset())
    assert signature_of("a-b".split).returns is MISSING


def test_a_class_with_an_init_wants_what_it_says() -> None:
    class Made:
        def __init__(self, x: int) -> None:
            self.x = x

    assert signature_of(Made) == (("x",), {"x": int}, Made, frozenset())


def test_values_that_bind_any_positions_are_not_parameters() -> None:
    assert signature_of(lambda *rows: rows).parameters == ()
