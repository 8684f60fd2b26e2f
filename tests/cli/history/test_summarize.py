"""diff --summarize: sentences that follow from what is recorded, and a model's words beside them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Run, Write


class Model:
    """A service that speaks like OpenAI's: answers with `answer`, or with nothing before it is closed."""

    def __init__(self) -> None:
        self.answer: bytes | None = json.dumps(
            {"choices": [{"message": {"content": "It may do\x1b[2J better."}}]}
        ).encode()
        self.status, self.asked, self.keys = 200, list[dict[str, Any]](), list[str | None]()
        self.closed = threading.Event()
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                model.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                model.keys.append(self.headers["Authorization"])
                assert self.path == "/v1/chat/completions"
                if model.answer is None:
                    model.closed.wait()
                    return
                self.send_response(model.status)
                self.end_headers()
                self.wfile.write(model.answer)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.closed.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("MEMLAKE_MODEL_KEY", "key-of-the-model")
    found = Model()
    yield found
    found.close()


@pytest.fixture
def trained(repo: Path, run: Run, write: Write) -> Path:
    """A table, a model made from it, the table changed, and the model made again."""
    for number, (rows, accuracy) in enumerate((("1,a\n2,b\n3,c\n", 0.9), ("1,a\n2,x\n3,c\n4,d\n", 0.93))):
        write("data/train.csv", f"id,label\n{rows}")
        run("add", "-A")
        run("commit", "-m", f"data {number}")
        (repo / "models").mkdir(exist_ok=True)
        np.savez(repo / "models/m.npz", w=np.full((4, 4), number, "f4"), b=np.zeros(4, "f4"))
        run("add", "-A")
        run("commit", "-m", f"train {number}", "--uses", "data/train.csv", "--metric", f"accuracy={accuracy}")
    return repo


def _ids(run: Run) -> list[str]:
    return [commit["oid"][:10] for commit in run("log", "--json").json["commits"]]


def test_what_changed_and_what_it_touches_is_told_in_sentences(trained: Path, run: Run) -> None:
    newest, _, older, _ = _ids(run)
    assert run("diff", "--summarize", "HEAD~2", "HEAD").lines == [
        "2 files changed: 2 modified between HEAD~2 and HEAD.",
        "data/train.csv changed: 3 -> 4 rows: 1 added, 1 changed.",
        f"  checkpoint models/m.npz was made from both: commit {older} from the old one, commit {newest} from the new "
        "one; accuracy 0.9 -> 0.93 (+0.03).",
        "models/m.npz changed: 1 changed; 1 tensor is identical bit by bit.",
        "  Recorded with it: accuracy 0.9 -> 0.93 (+0.03).",
        "Metrics: accuracy 0.9 -> 0.93 (+0.03).",
    ]


def test_working_files_tell_what_rests_on_the_old_content(trained: Path, run: Run, write: Write) -> None:
    newest = _ids(run)[0]
    write("data/train.csv", "id,label\n1,a\n")
    run("remember", "the labels were checked by hand", "--metadata", "file=data/train.csv")
    assert run("diff", "--summarize").lines == [
        "1 file changed: 1 modified.",
        "data/train.csv changed: 4 -> 1 row: 3 removed.",
        f"  checkpoint models/m.npz was made from the old one (commit {newest}), and nothing says that it was made "
        "again; accuracy 0.93.",
        '  1 memory names it: "the labels were checked by hand".',
        "Metrics are recorded only for HEAD: accuracy 0.93.",
    ]
    run("restore", "data/train.csv")
    assert run("diff", "--summarize").lines[0] == "No file changed."
    write("notes.txt", "new\n")
    run("add", "notes.txt")
    assert run("diff", "--cached", "--summarize").lines[:3] == [
        "1 file changed: 1 added.",
        "notes.txt is new: 1 line added, 0 removed.",
        "Nothing that is recorded was made from these paths, and no memory names them.",
    ]


def test_a_memory_that_names_a_file_in_its_words_is_told(trained: Path, run: Run, write: Write) -> None:
    run("remember", "row 2 of data/train.csv has the wrong label, says Ada")
    run("remember", "Bob sorts train.csv by hand on Mondays")
    run("remember", "old-train.csv and train.csv.gz are in the attic")
    told = run("diff", "--summarize", "HEAD~2", "HEAD").lines
    memories = [line for line in told if "memor" in line]
    assert len(memories) == 1 and memories[0].startswith("  2 memories name it: ")
    assert "says Ada" in memories[0] and "on Mondays" in memories[0]
    write("more/train.csv", "id\n1\n")  # now train.csv may be either of them
    run("add", "-A")
    run("commit", "-m", "more")
    assert any("1 memory names it" in line for line in run("diff", "--summarize", "HEAD~3", "HEAD~1").lines)
    (trained / "data/train.csv").unlink()
    run("remember", "a file that is gone", "--metadata", "file=data/train.csv")
    run("commit", "-am", "gone")
    assert any("a file that is gone" in line for line in run("diff", "--summarize", "HEAD~1", "HEAD").lines)


def test_metrics_are_never_told_in_words_that_contradict_each_other(repo: Path, run: Run, write: Write) -> None:
    write("a.txt", "1\n")
    run("add", "-A")
    run("commit", "-m", "1", "--metric", "same=0.1", "--metric", "near=0.30000001", "--metric", "old=4")
    write("a.txt", "2\n")
    run("commit", "-am", "2", "--metric", "same=0.1", "--metric", "near=0.30000002", "--metric", "new=5")
    told = "near 0.30000001 -> 0.30000002 (+1e-08), new 5 (only on the new side), old 4 (only on the old side)"
    assert run("diff", "--summarize", "HEAD~1", "HEAD").lines[-1] == f"Metrics: {told}, same 0.1 as before."
    assert run("diff", "--summarize").lines == [
        "No file changed.",
        "Metrics are recorded only for HEAD: near 0.3, new 5, same 0.1.",
    ]


def test_a_repo_without_a_commit_is_summarized(repo: Path, run: Run, write: Write) -> None:
    write("a.txt", "x\n")
    run("add", "a.txt")
    assert run("diff", "--cached", "--summarize").lines[-1] == "Metrics are not recorded on either side."


def test_a_model_is_given_the_record_alone_and_its_words_are_marked(trained: Path, run: Run, model: Model) -> None:
    run("config", "--user", "model.url", model.url)
    run("config", "--user", "model.model", "tiny")
    lines = run("diff", "--summarize", "HEAD~2", "HEAD").lines
    assert lines[-2:] == [
        "tiny says (a model wrote this; it was given the record of this diff and nothing else):",
        "  It may do\\x1b[2J better.",
    ]
    (asked,) = model.asked
    assert asked["model"] == "tiny" and "performance of the models" in asked["messages"][0]["content"]
    record = json.loads(asked["messages"][1]["content"])
    assert record["metrics"]["deltas"]["accuracy"] == pytest.approx(0.03)
    assert record["paths"][0]["touches"][0]["metrics"]["new"] == {"accuracy": 0.93}
    assert model.keys == ["Bearer key-of-the-model"]
    shape = run("diff", "--summarize", "HEAD~2", "HEAD", "--json").json
    assert shape["summary"] == record and shape["model"]["words"]["who"] == "tiny"
    assert shape["sentences"][0] == "2 files changed: 2 modified between HEAD~2 and HEAD."


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (None, 200, "did not answer within 0.2 s"),
        (b"<html>", 200, "answered with something that is not JSON"),
        (b'{"choices": []}', 200, "answered without any words"),
        (b'{"choices": [{"message": {"content": 7}}]}', 200, "answered without any words"),
        (b'"key-of-the-model is wrong"', 401, "refused the key of MEMLAKE_MODEL_KEY"),
        (b"busy", 503, "answered 503"),
    ],
)
def test_a_model_that_fails_costs_only_its_paragraph(
    trained: Path, run: Run, model: Model, answer: bytes | None, status: int, said: str
) -> None:
    run("config", "--user", "model.url", model.url)
    run("config", "--user", "model.timeout", "0.2" if answer is None else "30")
    model.answer, model.status = answer, status
    told = run("diff", "--summarize", "HEAD~2", "HEAD")
    assert told.lines[-1] == "Metrics: accuracy 0.9 -> 0.93 (+0.03)."
    assert said in told.err and "key-of-the-model" not in told.err
    assert said in run("diff", "--summarize", "HEAD~2", "HEAD", "--json").json["model"]["problem"]


def test_a_model_that_is_down_and_a_program_that_fails_are_told(trained: Path, run: Run, model: Model) -> None:
    model.close()
    run("config", "--user", "model.url", model.url)
    assert "cannot be reached" in run("diff", "--summarize", "HEAD~2", "HEAD").err
    for command, said in (
        ("no-such-program", "cannot be run"),
        (f"{sys.executable} -c 'import sys; sys.exit(\"out of credit\")'", "ended with 1: out of credit"),
        (f"{sys.executable} -c pass", "without any words"),
    ):
        run("config", "--user", "model.command", command)
        assert said in run("diff", "--summarize", "HEAD~2", "HEAD").err
    code = "import sys, json; print(len(json.loads(sys.stdin.read().split(chr(10), 2)[2])[chr(112) + 'aths']), 'paths')"
    run("config", "--user", "model.command", f'{sys.executable} -c "{code}"')
    assert run("diff", "--summarize", "HEAD~2", "HEAD").lines[-1] == "  2 paths"


def test_a_repo_that_nobody_trusted_names_no_model(trained: Path, run: Run, model: Model) -> None:
    (trained / ".memlake/config.toml").write_text(f'[model]\nurl = "{model.url}"\ncommand = "touch ran"\n')
    told = run("diff", "--summarize", "HEAD~2", "HEAD")
    assert told.lines[-1] == "Metrics: accuracy 0.9 -> 0.93 (+0.03)." and not model.asked
    assert not (trained / "ran").exists()


def test_a_long_record_is_cut_before_a_model_sees_it(trained: Path, run: Run, write: Write, model: Model) -> None:
    run("config", "--user", "model.url", model.url)
    for side in "ab":
        for number in range(300):
            write(f"many/{number}.json", json.dumps({f"key {n}": f"{side}{'x' * 50}" for n in range(8)}))
        run("add", "-A")
        run("commit", "-m", side)
    run("diff", "--summarize", "HEAD~1", "HEAD")
    text = model.asked[0]["messages"][1]["content"]
    assert len(text) <= 32_000 and json.loads(text)["left_out"] > 0
