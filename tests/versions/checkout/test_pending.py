"""What waits for choices, as local.db keeps it: it comes back as it was, and nothing else is taken for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memlake.records import Author
from memlake.versions.checkout.pending import CHERRY_PICK, MERGE, REVERT, STASH, Pending, decode, encode
from memlake.versions.text.merge3 import Names

OID = "ab" * 32
MERGING = Pending(MERGE, "side", Names("main", "side", True), message="m", theirs=OID, ff=True)
PENDING = {
    "merge": MERGING,
    "merge of memories alone": MERGING._replace(theirs=None, theirs_memory=OID, ff=False, merged=3),
    "concluded once": MERGING._replace(author=Author("Ada", "a@b.c"), facts={"metrics": {"f1": 0.5}, "uses": []}),
    "revert": Pending(REVERT, "HEAD", Names("main", "parent of x"), REVERT, "why", target=OID, parent=OID),
    "first commit": Pending(CHERRY_PICK, "HEAD", Names("main", "x"), CHERRY_PICK, target=OID),
    "only staged": Pending(REVERT, "HEAD", Names("main", "x"), "revert --no-commit", target=OID, commit=False),
    "stash": Pending(
        STASH, "WIP", Names("files", "stash"), "stash pop", target=OID, parent=OID, commit=False, with_stage=True,
        lost=("files/a",), held={"files/b": True, "files/c": False},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PENDING)
def test_what_waits_comes_back_as_it_was(name: str) -> None:
    assert decode(encode(PENDING[name])) == PENDING[name]


def test_the_ref_of_a_stash_to_drop_is_never_kept() -> None:
    assert decode(encode(PENDING["stash"]._replace(drop="stash/000001"))).drop is None


def test_the_form_in_local_db_is_the_one_that_earlier_versions_read() -> None:
    assert json.loads(encode(MERGING)) == {
        "verb": "merge", "name": "side", "names": ["main", "side", True], "theirs": OID, "theirs_memory": None,
        "ff": True, "message": "m",
    }  # fmt: skip
    assert json.loads(encode(PENDING["stash"]._replace(with_stage=False, lost=(), held={}))) == {
        "verb": "stash apply", "said": "stash pop", "name": "WIP", "names": ["files", "stash", False], "target": OID,
        "parent": OID, "commit": False, "index": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"verb": "rebase"}, {"verb": []}, {"verb": None}, {"name": 7}, {"names": ["a", "b"]}, {"names": "abc"},
        {"names": ["a", "b", "c"]}, {"theirs": "x"}, {"theirs": OID.upper()}, {"ff": 1}, {"message": None},
        {"facts": []}, {"facts": {"metrics": 3}}, {"author": ["Ada"]}, {"merged": "many"}, {"held": {"files/a": 1}},
        {"lost": [7]}, {"lost": "files/a"},
    ],
    ids=str,
)  # fmt: skip
def test_anything_else_is_refused(wrong: dict[str, Any]) -> None:
    data = json.loads(encode(MERGING)) | wrong
    with pytest.raises((ValueError, TypeError, AttributeError)):
        decode(json.dumps(data))


def test_a_field_that_is_needed_and_missing_is_named() -> None:
    data = json.loads(encode(PENDING["stash"]))
    del data["index"]
    with pytest.raises(ValueError, match="it has no 'index'"):
        decode(json.dumps(data))
