"""Learns the weights of `memories.sessions.statement_odds` from invented sentences; says how well they do elsewhere.

    python benchmarks/train_statements.py            # each file judged by what was learnt from the others
    python benchmarks/train_statements.py --write    # learns from all files and writes the weights

`statements/*.tsv` have a kind (`none` for what states nothing) and a sentence a line. Each file is by another author,
so a file that nothing was learnt from is judged as a stranger's sentences would be. A logistic regression, whose
weights are kept few: those that help little are none.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memlake.memories.sessions import statement_odds, statements
from memlake.memories.sessions.prompts import Sentence

FOLDER = Path(__file__).parent / "statements"
STEPS, RATE, SPARSE, RIDGE = 600, 0.5, 0.0006, 0.0004
FEWEST = 2  # sentences that a feature must be in
FLOORS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
Array = np.ndarray[Any, Any]
Row = tuple[frozenset[str], bool, str, str]  # features, whether it states something, what the rules say, the sentence


def read_rows(file: Path) -> list[Row]:
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines():
        kind, _, text = line.partition("\t")
        if text.strip():
            sentence = Sentence(text.strip())
            ruled = statements.judge_by_rules(sentence)
            rows.append((frozenset(statement_odds.list_features(sentence, ruled)), kind != "none", ruled, text))
    return rows


def learn(rows: Sequence[Row]) -> dict[str, float]:
    """Weights by feature; proximal gradient with momentum, L1 and L2."""
    seen = Counter(feature for features, *_ in rows for feature in features)
    names = sorted(feature for feature, count in seen.items() if count >= FEWEST)
    at = {name: number for number, name in enumerate(names)}
    table = np.zeros((len(rows), len(names)), np.float32)
    for number, (features, *_) in enumerate(rows):
        table[number, [at[feature] for feature in features if feature in at]] = 1
    right = np.array([states for _, states, *_ in rows], np.float32)
    weights, bias, speed = np.zeros(len(names), np.float32), 0.0, np.zeros(len(names), np.float32)
    rate = RATE * 4 / np.mean(table.sum(axis=1))
    for _ in range(STEPS):
        error = 1 / (1 + np.exp(-(table @ weights + bias))) - right
        speed = 0.9 * speed - rate * (table.T @ error / len(rows) + RIDGE * weights)
        weights = weights + speed
        weights = np.sign(weights) * np.maximum(np.abs(weights) - rate * SPARSE, 0)
        bias -= rate * float(error.mean())
    kept = {name: round(float(weight), 2) for name, weight in zip(names, weights, strict=True) if abs(weight) >= 0.01}
    return {"": round(bias, 2), **kept}


def judge(weights: dict[str, float], features: frozenset[str]) -> float:
    total = weights[""] + sum(weights.get(feature, 0.0) for feature in features)
    return float(1 / (1 + np.exp(-total)))


def show(name: str, judged: Sequence[tuple[float, Row]]) -> None:
    stated = sum(row[1] for _, row in judged)
    for floor in FLOORS:
        found = [row for odds, row in judged if odds >= floor]
        good = sum(row[1] for row in found)
        precision = good / max(len(found), 1)
        print(f"| {name} | {floor:.1f} | {good / max(stated, 1):.3f} | {precision:.3f} | {len(found)} |")


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("files", nargs="*", type=Path, help="instead of those of benchmarks/statements")
    told.add_argument("--write", action="store_true", help="learn from all and write the weights of the source")
    told.add_argument("--misses", type=float, metavar="FLOOR", help="also print what is judged wrongly at this floor")
    options = told.parse_args()
    files = options.files or sorted(FOLDER.glob("*.tsv"))
    rows = {file.stem: read_rows(file) for file in files}
    print("| author | floor | found | of what was found, right | found |\n|---|---|---|---|---|")
    every: list[tuple[float, Row]] = []
    for name, theirs in rows.items():
        weights = learn([row for other, some in rows.items() if other != name for row in some])
        judged = [(judge(weights, row[0]), row) for row in theirs]
        every += judged
        found = [row for row in theirs if row[2]]
        print(f"| {name} by rules | | {sum(r[1] for r in found) / sum(r[1] for r in theirs):.3f} "
              f"| {sum(r[1] for r in found) / max(len(found), 1):.3f} | {len(found)} |")  # fmt: skip
        show(name, judged)
    show("all", every)
    if options.misses is not None:
        for odds, (_, states, ruled, text) in every:
            if (odds >= options.misses) != states:
                print(f"{'missed' if states else 'wrong '} {odds:.2f} {ruled or '-':10} {text}")
    if options.write:
        weights = learn([row for some in rows.values() for row in some])
        lines = (f"{name}\t{weight:g}" for name, weight in sorted(weights.items()))
        file = Path(statement_odds.__file__).with_name("statement_odds.txt")
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"wrote {len(weights)} weights")


if __name__ == "__main__":
    main()
