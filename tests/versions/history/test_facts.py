"""Facts of many commits read as one: the same values as one by one, and a wrong one is named."""

from __future__ import annotations

import gc
import json

import pytest

import memlake as ml
from memlake.collector import pause_gc
from memlake.versions.history import facts


def test_many_facts_are_what_each_of_them_is() -> None:
    values = [{"a": n, "b": {"c": [n]}, "t": ",7,{}"} for n in range(50)] + [{}]
    texts = {str(n): json.dumps(value).encode() for n, value in enumerate(values)}
    assert facts._decode_all(texts) == {name: facts._decode_values(name, data) for name, data in texts.items()}
    assert facts._decode_all({}) == {} and facts._decode_all({"a": b"[1]"}) == {"a": {}}


@pytest.mark.parametrize(
    "texts",
    [
        [b'{"x": 1}, 5, {"y": 2}', b'{"z": [{"q": 1}', b'{"r": 2}]}'],
        [b'{"x": 1},{"y": "', b'"}'],
        [b'{"x": 1', b"}"],
        [b'{"x": 1}', b"", b'{"y": 2}'],
        [b'{"x": 1}', b"\xff"],
    ],
)
def test_texts_that_are_facts_only_together_are_none(texts: list[bytes]) -> None:
    with pytest.raises(ml.errors.Corrupt, match="are not JSON"):
        facts._decode_all({str(n): text for n, text in enumerate([b'{"honest": 1}', *texts])})


def note_and_fail(found: list[bool]) -> None:
    with pause_gc():
        found.append(gc.isenabled())
        raise KeyError


def test_the_collector_is_as_it_was_after_a_pause_whatever_happens() -> None:
    for was_on in (False, True):
        (gc.enable if was_on else gc.disable)()
        with pytest.raises(KeyError):
            note_and_fail(found := [])
        assert gc.isenabled() is was_on and found == [False]
