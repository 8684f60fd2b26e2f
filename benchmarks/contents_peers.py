"""One diff of two tables by Oxen or daff, in their own environment: prints its CPU seconds and MB as its last line.

Importing them does not count. daff has no reader of its own, so Python's csv reads the rows for it, which counts.
"""

from __future__ import annotations

import csv
import json
import resource
import sys
import time


def compare_by_daff(old: str, new: str) -> int:
    import daff

    started = time.process_time()
    tables = []
    for path in (old, new):
        with open(path, newline="") as file:
            tables.append(daff.PythonTableView(list(csv.reader(file))))
    flags = daff.CompareFlags()
    flags.ids = ["id"]
    rows: list[list[str]] = []
    daff.TableDiff(daff.compareTables(*tables, flags).align(), flags).hilite(daff.PythonTableView(rows))
    tell(started)
    return sum(row[0] == "->" for row in rows)


def compare_by_oxen(old: str, new: str) -> int:
    import oxen

    started = time.process_time()
    found = oxen.diff(old, new, keys=["id"]).get()
    tell(started)
    return int(found.data.shape[0])


def tell(started: float) -> None:
    took, most = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    COSTS.update(cpu=took, memory=most)


COSTS: dict[str, float] = {}

if __name__ == "__main__":
    name, old, new = sys.argv[1:]
    changed = {"daff": compare_by_daff, "Oxen": compare_by_oxen}[name](old, new)
    if changed != 1000:
        sys.exit(f"{name} found {changed:,} changed rows instead of 1,000")
    print(json.dumps(COSTS))
