"""Measures the CPU time of `memory check` over texts of three kinds, and of a larger store beside a small one.

    python benchmarks/rot.py 10000 30000

`template` says the same sentence of many things, so that each text has many near it; `few` has so few words that most
texts are duplicates; `words` strings common words together, which no rule can pass over quickly.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable

from memlake.memories.rot.find_rot import find_rot
from memlake.memories.rot.passages import Passage

_BEGIN, _END = "ka lo mi ne ru sa to ve wi xa zu po", "bar den fil gon hur jat kel"
_WORDS = [begin + end for begin in _BEGIN.split(" ") for end in _END.split(" ")]


def make_template(at: int, chance: random.Random) -> str:
    city = chance.choice(["Lyon", "Oslo", "Paris"])
    return f"The staging server of customer {at} runs in {city} on port {8000 + at % 97}"


def make_few(_: int, chance: random.Random) -> str:
    return f"The {chance.choice(_WORDS[:10])} of {chance.choice(_WORDS[:10])} is {chance.choice(_WORDS[:12])}"


def make_words(at: int, chance: random.Random) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(chance.randint(8, 40))) + f" v{at}"


KINDS: dict[str, Callable[[int, random.Random], str]] = {
    "template": make_template,
    "few": make_few,
    "words": make_words,
}


def main() -> None:
    for size in map(int, sys.argv[1:] or ("10000",)):
        for name, make in KINDS.items():
            chance = random.Random(7)
            passages = [Passage(at, str(at), "", make(at, chance)) for at in range(size)]
            begun = time.process_time()
            counts = Counter(finding.kind for finding in find_rot(passages))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            print(f"{name:<9} {size:>7,}  {time.process_time() - begun:6.2f} s CPU  {peak} MB  {dict(counts)}")


if __name__ == "__main__":
    main()
