"""How good the decisions on new memories are: pairs of an old and a new one, stored as an agent does, without a model.

    python benchmarks/decisions.py                             # the pairs of benchmarks/decisions
    python benchmarks/decisions.py --split dev --show           # the part to write rules with, and its misses
    python benchmarks/decisions.py --split held                 # the part that was set aside
    python benchmarks/decisions.py FILE.jsonl ...               # other pairs: {"set", "old", "new", "label"} a line

`decisions/README.md` says what the labels mean and what each figure counts.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memlake import Agent

FOLDER = Path(__file__).resolve().parent / "decisions"
KEPT = {"coexist", "add", "merge"}
RIGHT = {
    "conflict": {"conflict"},
    "change": {"conflict"},
    "cue": {"conflict"},
    "same": {"skip", "replace", "merge"},
    "keep": KEPT,
    "merge": {"merge"},
}
Pair = dict[str, Any]
Tally = collections.Counter[str]


def is_held(pair: Pair) -> bool:
    """A third of all pairs, by what they say: set aside, and not looked at while rules are written."""
    return int(hashlib.sha256(f"{pair['old']}\n{pair['new']}".encode()).hexdigest(), 16) % 3 == 0


def read_pairs(paths: list[Path], split: str) -> Iterator[Pair]:
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            pair = json.loads(line)
            if split == "all" or is_held(pair) == (split == "held"):
                yield {"set": pair["label"], **pair}


def decide(repo: Path, number: int, pair: Pair) -> tuple[str, str, str, bool, float]:
    """What became of the new one: the decision, its rule, the text that stands, whether it is in doubt; CPU seconds."""
    with Agent(host=repo, agent_id=f"a{number}", org_id=f"o{number}") as agent:
        agent.store_memory(pair["old"])
        begun = time.process_time()
        found = agent.remember(pair["new"])
        return found.decision, found.rule, found.content, found.review, time.process_time() - begun


def says(text: str, part: str) -> int:
    return text.casefold().count(part.casefold())


def judge(pair: Pair, decision: str, content: str, review: bool) -> tuple[bool, bool]:
    """Whether it is right, and whether something that should be known is gone."""
    label, holds = pair["label"], pair.get("holds", ())
    gone = (label in {"keep", "merge"} and decision not in KEPT) or (
        RIGHT[label] == {"conflict"} and decision == "skip"
    )
    if decision == "merge":
        gone |= label in {"merge", "same"} and any(not says(content, part) for part in holds)
    elif decision in {"replace", "conflict"} and label == "same":
        gone |= any(not says(content, part) for part in holds)
    right = decision in RIGHT[label] or (label == "change" and review)
    if label == "merge" or (label == "same" and decision == "merge"):
        right &= all(says(content, part) == 1 for part in holds)
    if "stored" in pair:
        right &= content.rstrip(".。") == pair["stored"]
    return right and not gone, gone


def count(tally: Tally, pair: Pair, decision: str, right: bool, gone: bool, review: bool) -> None:
    opposed = RIGHT[pair["label"]] == {"conflict"}
    tally.update(
        n=1, right=right, gone=gone, said=decision == "conflict", was=opposed, hit=opposed and decision == "conflict",
        keep=pair["label"] == "keep", kept=pair["label"] == "keep" and decision in KEPT, same=pair["label"] == "same",
        merged=pair["label"] == "same" and decision in RIGHT["same"], doubts=review,
        kept_in_doubt=pair["label"] == "keep" and review,
    )  # fmt: skip


def report(sets: dict[str, Tally]) -> None:
    print("| set | pairs | right | conflict P | R | F1 | kept | same taken as one | in doubt | destroyed |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, t in sets.items():
        p, r = t["hit"] / max(1, t["said"]), t["hit"] / max(1, t["was"])
        f1 = 2 * p * r / (p + r) if p + r else 0.0
        conflicts = f"{p:.3f} | {r:.3f} | {f1:.3f}" if t["was"] else "- | - | -"
        kept, same = (f"{t[a] / t[b]:.3f}" if t[b] else "-" for a, b in (("kept", "keep"), ("merged", "same")))
        print(
            f"| {name} | {t['n']} | {t['right']} ({100 * t['right'] / t['n']:.0f} %) | {conflicts} | {kept} | {same} | "
            f"{t['doubts']} | {t['gone']} ({100 * t['gone'] / t['n']:.2f} %) |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=[FOLDER / "pairs.jsonl"])
    parser.add_argument("--split", choices=("dev", "held", "all"), default="all")
    parser.add_argument("--show", action="store_true", help="each pair that is not right")
    options = parser.parse_args()
    os.environ["MEMLAKE_EMBEDDING_PROVIDER"] = "none"
    sets: dict[str, Tally] = collections.defaultdict(collections.Counter)
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        for number, pair in enumerate(read_pairs(options.files, options.split)):
            decision, rule, content, review, took = decide(Path(folder), number, pair)
            seconds.append(took)
            right, gone = judge(pair, decision, content, review)
            count(sets[pair["set"]], pair, decision, right, gone, review)
            if options.show and not right:
                mark = "GONE " if gone else ""
                print(f"{mark}{pair['set']} ({pair['label']}): {decision} by {rule}{', in doubt' if review else ''}")
                print(f"    {pair['old']}\n    {pair['new']}\n  = {content}")
    report(sets)
    if seconds:
        print(
            f"\n{len(seconds)} decisions, {1000 * statistics.median(seconds):.2f} ms of CPU each (median)",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
