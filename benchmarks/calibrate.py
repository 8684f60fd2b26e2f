"""Measures the two cosines of an embedding model that tell what is near, and what the floor of searches lets through.

    python benchmarks/calibrate.py --provider local --keep FOLDER plain:OTHER.json

`floor/facts.json` has facts of five invented people and projects, questions with the facts that answer them, and
questions that nothing there answers. Printed are the cosines (for `memories/embedders/spans.py`, or as settings of a
repo with another model), and for several floors, by words alone and with the model: precision and recall of what is
told, each the mean over questions, and of the unrelated questions the share that nothing was told to. Other sets are
asked the same unrelated questions.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import recall_sets
from recall import MODES

from memlake.defaults import Settings
from memlake.memories import record
from memlake.memories.embedders import open_embedder
from memlake.objects import layout

FACTS = Path(__file__).parent / "floor" / "facts.json"
FLOORS = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3)
MOST = 10


def measure_span(provider: str, stores: Sequence[dict[str, Any]], unrelated: Sequence[str]) -> tuple[float, float]:
    """The upper quartile of the best cosine of a question that nothing answers, and the median of those of answers."""
    embedder = open_embedder(provider, Settings())
    if embedder is None:
        raise SystemExit(f"there is no embedder {provider!r}")
    asked = [vector for text in unrelated if (vector := embedder.embed_query(text)) is not None]
    best, right = list[float](), list[float]()
    for store in stores:
        now = layout.now()
        texts = [record.indexed_text(record.Memory("", fact, created_at=now)) for fact in store["facts"]]
        facts = embedder.embed(texts)
        if np.isnan(facts).any():  # a language that the model does not read
            continue
        best += [float(np.max(facts @ vector)) for vector in asked]
        for question, answers in store["questions"]:
            vector = embedder.embed_query(question)
            right += [float(facts[at] @ vector) for at in answers] if vector is not None else []
    return float(np.percentile(best, 75)), statistics.median(right)


def read_facts() -> tuple[list[dict[str, Any]], list[str]]:
    found = json.loads(FACTS.read_text(encoding="utf-8"))
    return found["stores"], found["unrelated"]


def make_sets(stores: Sequence[dict[str, Any]], keep: Path) -> str:
    """The facts as a set of conversations, written where recall_sets can read it."""
    sets = [
        {
            "name": store["name"],
            "texts": store["facts"],
            "metas": [{"id": str(at), "session": None, "date": None} for at in range(len(store["facts"]))],
            "questions": [[text, [str(at) for at in answers], "all"] for text, answers in store["questions"]],
        }
        for store in stores
    ]
    file = keep / "floor.json"
    file.write_text(json.dumps(sets, ensure_ascii=False), encoding="utf-8")
    return f"plain:{file}"


def measure_floors(spec: str, unrelated: Sequence[str], keep: Path) -> Iterator[str]:
    told: dict[tuple[str, float], list[tuple[float, float]]] = {}
    silent: dict[tuple[str, float], list[bool]] = {}
    for conversation, store in recall_sets.open_all(spec, keep):
        for name, mode in MODES.items():
            for floor in FLOORS:
                key = name, floor
                for question, gold, *_ in conversation["questions"]:
                    found = set(store.search(question, MOST, mode, min_score=floor))
                    right = len(found & set(gold))
                    told.setdefault(key, []).append((right / max(len(found), 1), right / len(gold)))
                silent.setdefault(key, []).extend(
                    not store.search(question, MOST, mode, min_score=floor) for question in unrelated
                )
    for (name, floor), rows in told.items():
        precision, recall = (statistics.fmean(column) for column in zip(*rows, strict=True))
        quiet = statistics.fmean(silent[name, floor])
        yield f"{Path(spec).stem} | {name} | {floor:.2f} | {precision:.2f} | {recall:.2f} | {quiet:.2f}"


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("sets", nargs="*", help="KIND:FILE, as recall_sets.py says")
    told.add_argument("--provider", default="local", help="as embedding.provider; none for words alone")
    told.add_argument("--keep", type=Path, required=True, help="where the repos are made and kept")
    options = told.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    stores, unrelated = read_facts()
    if options.provider != "none":
        low, high = measure_span(options.provider, stores, unrelated)
        print(f"embedding.unrelated {low:.2f}\nembedding.related {high:.2f}\n", flush=True)
    print("| set | mode | floor | precision | recall | nothing told to the unrelated |\n|---|---|---|---|---|---|")
    for spec in (make_sets(stores, options.keep), *options.sets):
        for row in measure_floors(spec, unrelated, options.keep):
            print(f"| {row} |", flush=True)


if __name__ == "__main__":
    main()
