"""Every edit of the table: what changes the work changes the key, and nothing else does, in any process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dataset.memo.edits import CASES, Case
from tests.dataset.memo.keys import look

KEYS = Path(__file__).with_name("keys.py")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_work_runs_again_when_and_only_when_an_edit_changes_it(case: Case) -> None:
    before, after = look(case.before), look(case.after)
    assert bool(before.opaque) == bool(after.opaque) == case.opaque
    assert (before.key != after.key) == case.reruns or case.opaque


def test_the_table_names_each_edit_once_and_has_both_kinds() -> None:
    assert len({case.name + str(case.reruns) for case in CASES}) >= 180
    assert {case.reruns for case in CASES} == {True, False}


def test_keys_are_the_same_in_other_processes_with_other_hash_seeds_and_module_names() -> None:
    texts = [text for case in CASES for text in (case.before, case.after)]
    runs = [subprocess_keys(texts, seed=seed, name=name) for seed, name in (("1", "__main__"), ("2", "imported"))]
    here = [look(text).key for text in texts]
    other = [text for text, *keys in zip(texts, here, *runs, strict=True) if len(set(keys)) > 1]
    assert other == []


def subprocess_keys(texts: list[str], *, seed: str, name: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ""}  # with pandas
    line = [sys.executable, str(KEYS), name]
    done = subprocess.run(line, input=json.dumps(texts), capture_output=True, text=True, check=True, env=environment)
    found: list[str] = json.loads(done.stdout)
    return found
