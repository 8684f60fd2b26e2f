"""Three ways to find words, on the same texts and questions: FTS5, tantivy (when installed), and memlake's segments.

    python benchmarks/words.py --rows 100000,1000000 [--work FOLDER]

Each finds the best hundred rows of the words of a question, scored, over everything and within one of 20 agents. CPU is
process_time of all threads, of each question the least of three rounds; decision 008 says what it was for.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import apsw
import numpy as np
from memory_fixtures import drafts, questions

from memlake.index import rank, rows, segments, terms, view
from memlake.index.rows import Doc
from memlake.objects.db import Database

MOST, ROUNDS, AGENT = 100, 3, "agent-3"
Text = tuple[str, str]  # the text and its agent


class Engine(Protocol):
    def add(self, texts: list[Text]) -> None: ...
    def commit(self) -> None: ...
    def search(self, question: str, agent: str | None) -> int: ...


class Fts5:
    """One table, Porter stems; the agent is a word of its own, so that the scope is inside the match."""

    def __init__(self, folder: Path) -> None:
        self._db = apsw.Connection(str(folder / "fts5.db"))
        self._db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA cache_size=-64000")
        self._db.execute("CREATE VIRTUAL TABLE f USING fts5(text, agent, content='', tokenize='porter unicode61')")

    def add(self, texts: list[Text]) -> None:
        with self._db:
            made = [(text, agent.replace("-", "")) for text, agent in texts]
            self._db.executemany("INSERT INTO f(text, agent) VALUES(?, ?)", made)

    def commit(self) -> None:
        self._db.execute("INSERT INTO f(f) VALUES('optimize')")

    def search(self, question: str, agent: str | None) -> int:
        asked = "text : (" + " OR ".join(f'"{word}"' for word in _words(question)) + ")"
        if agent:
            asked = f'agent : "{agent.replace("-", "")}" AND {asked}'
        sql = "SELECT rowid, rank FROM f WHERE f MATCH ? AND rank MATCH 'bm25(1.0, 0.0)' ORDER BY rank LIMIT ?"
        return len(self._db.execute(sql, (asked, MOST)).fetchall())


class Tantivy:
    def __init__(self, folder: Path) -> None:
        import tantivy

        self._lib = tantivy
        build = tantivy.SchemaBuilder()
        build.add_text_field("text", stored=False, tokenizer_name="en_stem")
        build.add_text_field("agent", stored=False, tokenizer_name="raw")
        place = folder / "tantivy"
        place.mkdir()
        self._index = tantivy.Index(build.build(), path=str(place))
        self._writer = self._index.writer(256_000_000, 1)

    def add(self, texts: list[Text]) -> None:
        for text, agent in texts:
            self._writer.add_document(self._lib.Document(text=text, agent=agent))

    def commit(self) -> None:
        self._writer.commit()
        self._index.reload()

    def search(self, question: str, agent: str | None) -> int:
        query = self._index.parse_query(" ".join(_words(question)), ["text"])
        if agent:
            lib = self._lib
            scope = lib.Query.const_score_query(lib.Query.term_query(self._index.schema, "agent", agent), 0.0)
            query = lib.Query.boolean_query([(lib.Occur.Must, query), (lib.Occur.Must, scope)])
        return len(self._index.searcher().search(query, MOST).hits)


class Segments:
    """Rows in SQLite, folded into mapped segments, as memlake/index keeps them."""

    def __init__(self, folder: Path) -> None:
        schema = Path(rows.__file__).with_name("schema.sql")
        self._folder, self._db = folder, Database(folder / "index.db", schema=[schema], durable=False)
        self._blocks: list[segments.Block] = []
        self._count = 0

    def add(self, texts: list[Text]) -> None:
        with self._db.write():
            for text, agent in texts:
                self._count += 1
                key = self._count.to_bytes(8, "big")
                rows.insert_row(
                    self._db, Doc(key, key, text, (terms.mark("agent", agent),), "", self._count, 0.5, 0), 1
                )
        if self._count % segments.FRESH < len(texts):
            segments.fold(self._db, self._folder)

    def commit(self) -> None:
        segments.fold(self._db, self._folder)
        names = self._db.rows("SELECT name FROM segment ORDER BY first")
        self._blocks = [segments.read_segment(self._folder / name) for (name,) in names]

    def search(self, question: str, agent: str | None) -> int:
        asked = dict.fromkeys((terms.hash_term(word) for word in terms.query_words(question)), 1.0)
        marks = ((terms.hash_term(terms.mark("agent", agent)),),) if agent else ()
        masks = [
            view.apply_filter(block, view.find_visible(block, None, _NONE), rows.Filter(marks))
            for block in self._blocks
        ]
        lookup = rank.Lookup(self._blocks, list(asked))
        return len(lookup.score_rows(lookup.weigh(asked), masks, MOST)[0])


_NONE = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _words(question: str) -> list[str]:
    """What the question asks for without little words, as they were written."""
    return [word for word in question.strip("?").split() if word not in _LITTLE] or question.split()


_LITTLE = frozenset(terms._STOP.split())


def run(name: str, make: Callable[[Path], Engine], count: int, work: str | None) -> None:
    with tempfile.TemporaryDirectory(prefix="memlake-words-", dir=work) as folder:
        engine, began = make(Path(folder)), time.process_time()
        for part in batched(count):
            engine.add(part)
        engine.commit()
        built = time.process_time() - began
        asked = questions(100)
        plain, scoped = (_times(engine, asked, agent) for agent in (None, AGENT))
        one = min(_one(engine) for _ in range(5))
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    cells = [
        f"{count:,}",
        name,
        *(f"{p50:.1f} / {p95:.1f}" for p50, p95 in (plain, scoped)),
        f"{one:.2f}",
        f"{built:.0f}",
    ]
    print("| " + " | ".join([*cells, f"{size / 1e6:.0f}"]) + " |", flush=True)


def batched(count: int) -> Iterator[list[Text]]:
    waiting = ((draft.content, draft.agent_id) for draft in drafts(count))
    while part := list(islice(waiting, 256)):
        yield part


def _times(engine: Engine, asked: list[str], agent: str | None) -> Any:
    rounds = []
    for _ in range(ROUNDS):
        times = []
        for question in asked:
            began = time.process_time()
            engine.search(question, agent)
            times.append(time.process_time() - began)
        rounds.append(times)
    return np.percentile(np.min(rounds, axis=0) * 1e3, [50, 95]).tolist()


def _one(engine: Engine) -> float:
    """Wall milliseconds until one more row can be found."""
    began = time.perf_counter()
    engine.add([("Nobody: one more", AGENT)])
    if isinstance(engine, Tantivy):
        engine.commit()
    return 1e3 * (time.perf_counter() - began)


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("--rows", default="100000")
    told.add_argument("--engines", default="fts5,tantivy,segments")
    told.add_argument("--work", help="where the files are put; a temporary folder otherwise")
    options = told.parse_args()
    engines: dict[str, Callable[[Path], Engine]] = {"fts5": Fts5, "tantivy": Tantivy, "segments": Segments}
    print("| rows | engine | p50 / p95 ms CPU | of one agent | one more row, ms | built, CPU s | MB |")
    print("|---|---|---|---|---|---|---|")
    for count in options.rows.split(","):
        for name in options.engines.split(","):
            try:
                run(name, engines[name], int(count), options.work)
            except ImportError as error:
                print(f"| {count} | {name} | not installed: {error} | | | | |")


if __name__ == "__main__":
    main()
