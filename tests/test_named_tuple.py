"""Our NamedTuple beside that of `typing`: one source, two classes, which must not be told apart in use."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from typing import Any

import pytest

from memlake.named_tuple import NamedTuple

SOURCE = """from __future__ import annotations
class Point(NamedTuple):
    "A place."
    x: int
    y: int | None = None
    names: tuple[str, ...] = ()

    @property
    def both(self) -> tuple[int, int | None]:
        return self.x, self.y

    def __str__(self) -> str:
        return f"at {self.x}, of {__class__.__name__}"

class Bare(NamedTuple):
    only: str

class Empty(NamedTuple):
    pass
"""


def make(named_tuple: Any) -> dict[str, Any]:
    names: dict[str, Any] = {"NamedTuple": named_tuple, "__name__": "points"}
    exec(SOURCE.replace(", of {__class__.__name__}", "") if named_tuple is typing.NamedTuple else SOURCE, names)
    return names


class Pickled(NamedTuple):
    a: int
    b: str = "b"


class Child(Pickled):
    """A subclass, which may have attributes, as one of typing's may."""


@pytest.mark.parametrize(
    "use",
    [
        lambda point: repr(point(1)),
        lambda point: (point(1, 2, ("a",)), point(x=1, names=("a",)), hash(point(1)), point(1) == (1, None, ())),
        lambda point: (point(1).both, point(1)._replace(y=3), point(1)._asdict(), point._make([1, 2, 3])),
        lambda point: (point._fields, point._field_defaults, point.__match_args__, point.__doc__, point.__slots__),
        lambda point: (point.__bases__, type(point), point.__qualname__, point.__module__),
        lambda point: (list(inspect.signature(point).parameters), [point.x.__doc__, copy.copy(point(1))]),
        typing.get_type_hints,
        lambda point: [*point(4, 5), point(7)[0], len(point(1)), point(1).__getnewargs__(), f"{point(2)}"[:4]],
    ],
)
def test_a_class_is_used_as_one_of_typing_is(use: Any) -> None:
    ours, theirs = make(NamedTuple)["Point"], make(typing.NamedTuple)["Point"]
    assert use(ours) == use(theirs)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda point: point(),
        lambda point: point(1, 2, (), 4),
        lambda point: point(1, z=2),
        lambda point: point(1)._replace(z=2),
        lambda point: point._make([1]),
        lambda point: setattr(point(1), "x", 2),
        lambda point: setattr(point(1), "other", 2),
    ],
)
def test_a_mistake_is_refused_in_the_words_of_typing(wrong: Any) -> None:
    said = []
    for kind in (NamedTuple, typing.NamedTuple):
        with pytest.raises((TypeError, ValueError, AttributeError)) as refused:
            wrong(make(kind)["Point"])
        said.append((refused.type, str(refused.value)))
    assert said[0] == said[1]


def test_classes_of_one_or_no_field_and_methods_that_name_their_class() -> None:
    made = make(NamedTuple)
    assert repr(made["Bare"]("a")) == "Bare(only='a')"
    assert made["Empty"]() == () and str(made["Point"](1)) == "at 1, of Point"


def test_a_field_without_a_default_after_one_with_a_default_is_refused() -> None:
    with pytest.raises(TypeError, match="without a default"):
        exec("class Wrong(NamedTuple):\n    a: int = 1\n    b: int", {"NamedTuple": NamedTuple, "__name__": "x"})


def test_a_class_with_more_fields_than_there_are_getters_is_refused() -> None:
    fields = "".join(f"    f{number}: int\n" for number in range(65))
    with pytest.raises(TypeError, match="65 fields"):
        exec(f"class Wide(NamedTuple):\n{fields}", {"NamedTuple": NamedTuple, "__name__": "x"})


def test_values_travel_between_processes_and_subclasses_hold_more() -> None:
    assert pickle.loads(pickle.dumps(Pickled(1))) == Pickled(1)
    child = Child(1)._replace(b="c")
    child.more = 1  # type: ignore[attr-defined]
    assert type(child) is Child and child == (1, "c") and isinstance(child, tuple)


def test_an_annotation_stays_a_text_because_compiling_it_would_be_most_of_the_cost() -> None:
    assert Pickled.__annotations__ == {"a": "int", "b": "str"}
