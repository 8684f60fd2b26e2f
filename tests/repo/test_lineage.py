"""One lineage: files, datasets, memories and commits in one graph, walked back to data, params and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import InvalidInput, NotFound
from memlake.memories.memories import Draft
from memlake.repo import Repo
from memlake.versions.lineage.graph import Lineage


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repo]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMLAKE_EMBEDDING_PROVIDER", "none")
    with ml.init(tmp_path) as found:
        yield found


def put(repo: Repo, message: str, /, *, uses: tuple[str, ...] = (), files: dict[str, str], **facts: object) -> str:
    for name, text in files.items():
        path = repo.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    repo.add(*files)
    return repo.commit(message, uses=uses, **facts).oid  # type: ignore[arg-type]


def arrows(found: Lineage) -> set[tuple[str, str]]:
    return {(found.nodes[edge.source].name, found.nodes[edge.target].name) for edge in found.edges}


def kinds(found: Lineage) -> dict[str, str]:
    return {node.name: node.kind for node in found.nodes.values()}


def train(repo: Repo) -> str:
    """raw.csv -> clean, with a prompt and params -> model.pt, which is measured."""
    put(repo, "data", files={"raw.csv": "id,x\n1,2\n2,3\n", "prompts/system.md": "You are"})
    repo.datasets().read_csv("raw.csv").filter(ml.C("x") > 2).save("clean")
    uses = ("clean", "prompts/system.md")
    return put(repo, "train", files={"model.pt": "w"}, uses=uses, params={"lr": 0.1}, metrics={"accuracy": 0.93})


def test_a_model_leads_back_to_its_data_prompt_and_params(repo: Repo) -> None:
    train(repo)
    found = repo.lineage("model.pt", down=False)
    assert {
        ("raw.csv", "clean@1.0.0"), ("clean@1.0.0", "model.pt"), ("prompts/system.md", "model.pt"),
        ("lr=0.1", "model.pt"),
    } <= arrows(found)  # fmt: skip
    assert kinds(found)["model.pt"] == "checkpoint"
    assert kinds(found)["prompts/system.md"] == "prompt"
    assert kinds(found)["lr=0.1"] == "params"
    assert "accuracy=0.93" not in kinds(found)
    assert repo.lineage("model.pt", up=False).nodes.keys() == {found.root, "metrics:commit " + short(repo)}


def short(repo: Repo) -> str:
    return repo.show("HEAD").commit.oid[:10]


def test_a_file_leads_down_to_what_rests_on_it(repo: Repo) -> None:
    train(repo)
    assert arrows(repo.lineage("raw.csv")) == {
        ("raw.csv", "clean@1.0.0"), ("clean@1.0.0", "model.pt"), ("model.pt", "accuracy=0.93")
    }  # fmt: skip


def test_a_version_rests_on_the_file_as_it_was_and_not_as_it_is(repo: Repo) -> None:
    train(repo)
    put(repo, "more", files={"raw.csv": "id,x\n9,9\n"})
    assert arrows(repo.lineage("raw.csv")) == set()
    assert ("raw.csv", "clean@1.0.0") in arrows(repo.lineage("HEAD~2:raw.csv"))
    assert ("raw.csv", "clean@1.0.0") in arrows(repo.lineage("clean"))


def test_a_file_that_was_read_and_never_committed_is_said_to_be_so(repo: Repo) -> None:
    (repo.root / "loose.csv").write_text("id\n1\n")
    repo.datasets().read_csv("loose.csv").save("d")
    (file,) = [node for node in repo.lineage("d").nodes.values() if node.kind == "file"]
    assert file.about.endswith("not committed")


def test_a_commit_stands_between_what_it_used_and_what_it_made(repo: Repo) -> None:
    oid = train(repo)
    name = f"commit {oid[:10]}"
    found = repo.lineage(oid[:12], depth=1)
    assert arrows(found) == {
        ("clean@1.0.0", name), ("prompts/system.md", name), ("lr=0.1", name), (name, "model.pt"),
        (name, "accuracy=0.93"),
    }  # fmt: skip
    assert found.nodes[found.root].about == "train"


def test_one_file_of_many_in_a_commit_has_a_lineage_of_its_own(repo: Repo) -> None:
    put(repo, "data", files={"raw.csv": "x"})
    put(repo, "many", files={f"part{i}.bin": str(i) for i in range(20)}, uses=("raw.csv",))
    assert arrows(repo.lineage("part7.bin", down=False)) == {("raw.csv", "part7.bin")}
    assert ("raw.csv", "20 files") in arrows(repo.lineage("raw.csv"))


def test_a_memory_rests_on_what_its_source_and_metadata_name(repo: Repo) -> None:
    oid = train(repo)
    told = repo.memories()
    first = told.store(Draft("It overfits.", agent_id="bot", source="model.pt")).memory_id
    second = told.store(Draft("Add rows.", metadata={"about": ["clean@1.0.0", oid], "see": first})).memory_id
    told.store(Draft("model.pt is good."))
    found = repo.lineage(first[-6:])
    assert {("model.pt", "It overfits."), ("It overfits.", "Add rows.")} <= arrows(found)
    assert found.nodes[found.root].about == f"fact {first[-6:]} of bot"
    assert {("clean@1.0.0", "Add rows."), (f"commit {oid[:10]}", "Add rows.")} <= arrows(
        repo.lineage(second, down=False)
    )
    assert "model.pt is good." not in kinds(repo.lineage("model.pt"))


def test_memories_of_another_organisation_are_not_shown(repo: Repo) -> None:
    train(repo)
    repo.memories().store(Draft("Secret.", org_id="acme", source="model.pt"))
    assert "Secret." not in kinds(repo.lineage("model.pt"))


def test_a_commit_can_use_a_memory(repo: Repo) -> None:
    id = repo.memories().store(Draft("Answer in French.", agent_id="bot")).memory_id
    (path,) = [path for path, _ in repo.ls(paths=["memories/"])]
    put(repo, "prompt", files={"p.prompt": "Bonjour"}, uses=(path,))
    assert arrows(repo.lineage("p.prompt")) == {("Answer in French.", "p.prompt")}
    assert arrows(repo.lineage(id)) == {("Answer in French.", "p.prompt")}


def test_what_is_nothing_is_refused_with_a_way_on(repo: Repo) -> None:
    train(repo)
    with pytest.raises(NotFound, match="'nosuch' is not a file of HEAD, a dataset, a memory or a commit"):
        repo.lineage("nosuch")
    with pytest.raises(NotFound, match="'nosuch' is not a file in HEAD"):
        repo.lineage("HEAD:nosuch")
    with pytest.raises(NotFound, match="no version 9"):
        repo.lineage("clean@9.0.0")
    with pytest.raises(InvalidInput, match="not a dataset"):
        repo.lineage("model.pt", column="x")
    assert repo.lineage("clean", column="id").root == "dataset:clean@1.0.0"


def test_a_repo_without_commits_has_nothing_to_tell(repo: Repo) -> None:
    with pytest.raises(NotFound):
        repo.lineage("model.pt")


def test_rows_that_rest_on_a_file_lead_to_the_checkpoint(repo: Repo) -> None:
    train(repo)
    told = repo.lineage("raw.csv", where="row = 2").to_text().splitlines()
    assert told[:3] == ["raw.csv: 1 row", "used by", "└── clean@1.0.0: row 1"]
    assert told[3].startswith("    └── model.pt  (commit ")
    assert repo.lineage("raw.csv", where="row = 1").used_by == ()
    assert repo.lineage("raw.csv", where=None, rows=True).used_by[0].rows == (1,)
    put(repo, "more", files={"raw.csv": "id,x\n9,9\n"})
    assert repo.lineage("raw.csv", where=None, rows=True).used_by == ()


def test_files_that_a_storage_listed_are_known_by_their_place(repo: Repo) -> None:
    put(repo, "photos", files={"photos/a.txt": "a", "photos/b.txt": "b"})
    repo.datasets().read_storage("photos/").save("photos")
    assert [(one.name, one.rows) for one in repo.lineage("photos/b.txt", where=None, rows=True).used_by] == [
        ("photos@1.0.0", (2,))
    ]


@pytest.mark.parametrize(
    ("of", "where", "why"),
    [
        ("raw.csv", "id = 1", "named by number"),
        ("raw.csv", "row = 0", "counted from 1"),
        ("clean", "nosuch = 1", "no column 'nosuch'"),
        ("clean", "id ~ 1", "wrong at character 4"),
        ("clean", "id = 99", "no row of clean@1.0.0 fits"),
        ("HEAD", None, "not a dataset or a file"),
    ],
)
def test_rows_that_cannot_be_meant_are_refused(repo: Repo, of: str, where: str | None, why: str) -> None:
    train(repo)
    with pytest.raises((InvalidInput, NotFound), match=why):
        repo.lineage(of, where=where, rows=True)


# -- never in a circle ---------------------------------------------------------------------------------


def find_circle(found: Lineage) -> list[str]:
    """The nodes that no order puts after what they were made from."""
    left = dict(found.nodes)
    while ready := [id for id in left if not any(one.target == id and one.source in left for one in found.edges)]:
        for id in ready:
            left.pop(id)
    return [node.name for node in left.values()]


def test_a_file_that_a_used_dataset_was_made_from_is_not_made_from_it(repo: Repo) -> None:
    (repo.root / "raw.csv").write_text("id,x\n1,2\n2,3\n")
    repo.add("raw.csv")
    repo.datasets().read_csv("raw.csv").save("clean")
    put(repo, "all at once", files={"raw.csv": "id,x\n1,2\n2,3\n", "model.pt": "w"}, uses=("clean",), params={"lr": 1})
    for name in ("model.pt", "raw.csv", "clean", "HEAD"):
        assert find_circle(repo.lineage(name)) == [], name
    assert {("raw.csv", "clean@1.0.0"), ("clean@1.0.0", "model.pt")} <= arrows(repo.lineage("model.pt"))
    assert ("lr=1", "raw.csv") not in arrows(repo.lineage("raw.csv"))
    assert repo.lineage("model.pt").to_text().count("raw.csv") == 1
    assert repo.lineage("clean").to_text().count("clean@1.0.0") == 1


def test_inputs_that_are_committed_with_what_was_made_of_them_are_not_made_of_each_other(repo: Repo) -> None:
    files = {"train.py": "1", "data.csv": "x\n1\n", "model.pt": "w"}
    put(repo, "train", files=files, uses=("train.py", "data.csv"), metrics={"f1": 1})
    assert arrows(repo.lineage("model.pt")) == {
        ("train.py", "model.pt"), ("data.csv", "model.pt"), ("model.pt", "f1=1")
    }  # fmt: skip
    assert arrows(repo.lineage("data.csv")) == {("data.csv", "model.pt"), ("model.pt", "f1=1")}
    name = f"commit {short(repo)}"
    assert {("data.csv", name), (name, "model.pt")} <= arrows(repo.lineage("HEAD"))
    assert (name, "data.csv") not in arrows(repo.lineage("HEAD"))


def test_a_commit_that_only_measures_what_it_holds_keeps_its_metrics(repo: Repo) -> None:
    put(repo, "score", files={"model.pt": "w"}, uses=("model.pt",), metrics={"f1": 1})
    (repo.root / "raw.csv").write_text("x\n1\n")
    repo.datasets().read_csv("raw.csv").save("clean")
    put(repo, "what it was made of", files={"raw.csv": "x\n1\n"}, uses=("clean",))
    assert arrows(repo.lineage("raw.csv")) == {("raw.csv", "clean@1.0.0")}
    assert arrows(repo.lineage("model.pt")) == {("model.pt", "f1=1")}


def test_a_file_that_got_back_an_older_content_closes_no_circle(repo: Repo) -> None:
    put(repo, "a", files={"a.txt": "1"})
    put(repo, "b of a", files={"b.txt": "1"}, uses=("a.txt",))
    put(repo, "a of b", files={"a.txt": "2"}, uses=("b.txt",))
    put(repo, "a as before", files={"a.txt": "1"}, uses=("b.txt",))
    assert arrows(repo.lineage("a.txt")) == {("a.txt", "b.txt"), ("b.txt", "a.txt")}, "the two contents of a.txt"
    assert find_circle(repo.lineage("a.txt")) == []
    assert repo.lineage("a.txt").to_svg().startswith("<svg")


def test_memories_that_name_each_other_close_no_circle(repo: Repo) -> None:
    told = repo.memories()
    first = told.store(Draft("One.", agent_id="bot")).memory_id
    second = told.store(Draft("Two.", metadata={"see": first})).memory_id
    told.update(first, Draft("One.", metadata={"see": second}), changed=["metadata"])
    found = repo.lineage(first)
    assert find_circle(found) == [] and len(found.edges) == 1
    assert found.to_text().count("One.") == 1
