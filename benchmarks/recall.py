"""How well searches find what answers a question: R@1, 5, 10, 50 and MRR, by words alone and with the local model.

    python benchmarks/recall.py locomo:locomo-dev.json friends:friendsqa_tst.json squad:xquad.en.json --keep FOLDER

Each conversation is a repo that is made once and kept. Figures are shares of what answers a question among the first
so many hits, and the mean of one over the rank of the first of them (among 20), for all questions, for each
conversation and for each kind of question: a gain that a single conversation makes is none.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import recall_sets

DEPTHS = (1, 5, 10, 50)
COLUMNS = [*(f"R@{depth}" for depth in DEPTHS), "MRR"]
MODES = {"words": "keyword", "model": "hybrid"}


def score(found: Sequence[str], gold: set[str]) -> list[float]:
    shares = [len(gold & set(found[:depth])) / len(gold) for depth in DEPTHS]
    return [*shares, next((1 / rank for rank, name in enumerate(found[:20], 1) if name in gold), 0.0)]


def measure(spec: str, keep: Path) -> dict[str, list[dict[str, Any]]]:
    """A row for each question, by mode."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in MODES}
    for conversation, store in recall_sets.open_all(spec, keep):
        for question, gold, category in conversation["questions"]:
            for name, mode in MODES.items():
                began = time.process_time()
                found = store.search(question, DEPTHS[-1], mode)
                spent = time.process_time() - began
                row = {"conversation": conversation["name"], "category": category, "ms": 1e3 * spent}
                rows[name].append(row | {"scores": score(found, set(gold))})
    return rows


def show(rows: Iterable[dict[str, Any]]) -> str:
    columns = zip(*(row["scores"] for row in rows), strict=True)
    return " | ".join(f"{100 * statistics.fmean(column):.1f}" for column in columns)


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("sets", nargs="+", help="KIND:FILE, as recall_sets.py says")
    told.add_argument("--keep", type=Path, required=True, help="where the repos are made and kept")
    options = told.parse_args()
    print("| set | part | mode | questions | " + " | ".join(COLUMNS) + " |")
    print("|---|---|---|---|" + "---|" * len(COLUMNS))
    for spec in options.sets:
        name = Path(spec.partition(":")[2]).stem
        for mode, rows in measure(spec, options.keep).items():
            groups = defaultdict(list, {"all": rows})
            for row in rows:
                for part in dict.fromkeys((row["conversation"], row["category"])):
                    groups[part].append(row)
            for part, some in groups.items():
                if part == "all" or len(some) < len(rows):
                    print(f"| {name} | {part} | {mode} | {len(some)} | {show(some)} |", flush=True)


if __name__ == "__main__":
    main()
