"""Lines that are no message: the id that one shows is found, in time that grows with the line."""

from __future__ import annotations

import time

import pytest

from memlake.mcp.bad_lines import find_id


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"id": 12, "x": "', 12),
        ('{"a": {"id": 3}, "id": "four", "b": [', "four"),
        ('{"id": "cut sho', None),
        ('{"id": "', None),
        ('{"id": "a\\"b", ', None),
    ],
)
def test_the_id_is_that_of_the_outermost_braces(line: str, found: object) -> None:
    assert find_id(line) == found


@pytest.mark.parametrize("filler", ['\\"', '"', "\\", "{", ":"])
def test_a_long_line_takes_no_longer_than_its_length(filler: str) -> None:
    def cost(count: int) -> float:
        began = time.process_time()
        find_id('{"params": "' + filler * count)
        return time.process_time() - began

    assert cost(200_000) < 2  # half an hour, where each quote begins a search of its own
