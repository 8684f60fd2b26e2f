"""Learns the weights of `memlake.memories.reorder` from dialogues, and says what they are worth elsewhere.

    python benchmarks/train_order.py --learn friends:friendsqa_dev.json friends:friendsqa_tst.json \
        --check locomo:locomo-dev.json squad:xquad.en.json --keep FOLDER

A softmax over what a search found, for each question: the sum of features times weights is to be highest for what
answers it. Words alone and with the model count alike, so that one set of weights serves both. FriendsQA (Emory
University, Apache-2.0, github.com/emorynlp/FriendsQA) is what the weights in the source were learnt from; nothing of it
is in this repo. `--check` prints the shipped weights beside the learnt ones on sets that nothing is learnt from.
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import recall_sets
from recall import COLUMNS, MODES, score

from memlake.index.index import Found
from memlake.memories import reorder

Array = np.ndarray[Any, Any]
Case = tuple[Array, Array, list[str], set[str]]  # features, what answers, its names, the names of all that answers
STEPS, RATE, RIDGE = 400, 0.05, 1.0


def read_cases(spec: str, keep: Path) -> Iterator[tuple[str, Case]]:
    """What each search hands to the second order, by mode; the search itself is the product's."""
    seen: list[tuple[Array, list[str]]] = []
    order = reorder.reorder

    def note(question: str, found: Sequence[Found], texts: Mapping[int, str], most: int) -> list[Found]:
        looked = found[: reorder.LOOKED]
        if looked:
            names = [store.ids[str(_read_id(one))] for one in looked]
            seen.append((reorder.measure(question, looked, texts), names))
        return order(question, found, texts, most)

    reorder.reorder = note
    for conversation, store in recall_sets.open_all(spec, keep):
        for question, gold, _ in conversation["questions"]:
            for name, mode in MODES.items():
                seen.clear()
                store.search(question, 10, mode)
                for features, names in seen:
                    yield name, (features, np.array([one in gold for one in names], float), names, set(gold))
    reorder.reorder = order


def _read_id(one: Found) -> Any:

    return uuid.UUID(bytes=one.key)


def learn(cases: Sequence[Case]) -> Array:
    useful = [(table, right / right.sum()) for table, right, _, _ in cases if 0 < right.sum() < len(right)]
    spread = np.concatenate([table for table, _ in useful]).std(axis=0) + 1e-9
    weights, slope, square = (np.zeros(len(spread)) for _ in range(3))
    for step in range(1, STEPS + 1):
        ascent = -RIDGE * weights
        for table, right in useful:
            sums = table / spread @ weights
            chances = np.exp(sums - sums.max())
            ascent = ascent + (table / spread).T @ (right - chances / chances.sum())
        slope, square = 0.9 * slope + 0.1 * ascent, 0.99 * square + 0.01 * ascent**2
        weights = weights + RATE * slope / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    learnt: Array = weights / spread
    return learnt


def judge(cases: Sequence[Case], weights: Array) -> str:
    rows = []
    for table, _, names, gold in cases:
        order = np.argsort(-(table @ weights), kind="stable")
        rows.append(score([names[at] for at in order], gold))
    return " | ".join(f"{100 * mean:.1f}" for mean in np.mean(rows, axis=0))


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("--learn", nargs="+", required=True)
    told.add_argument("--check", nargs="*", default=[])
    told.add_argument("--keep", type=Path, required=True)
    options = told.parse_args()
    known = {spec: list(read_cases(spec, options.keep)) for spec in (*options.learn, *options.check)}
    learnt = learn([case for spec in options.learn for _, case in known[spec]])
    print(", ".join(f"{name} {weight:.2f}" for name, weight in zip(reorder.FEATURES, learnt, strict=True)))
    first = np.eye(len(learnt))[0]
    print("| set | mode | weights | " + " | ".join(COLUMNS) + " |\n|---|---|---|" + "---|" * len(COLUMNS))
    for spec, cases in known.items():
        for mode in MODES:
            some = [case for name, case in cases if name == mode]
            for label, weights in (("none", first), ("learnt", learnt), ("shipped", reorder.WEIGHTS)):
                print(f"| {Path(spec.partition(':')[2]).stem} | {mode} | {label} | {judge(some, weights)} |")


if __name__ == "__main__":
    main()
