"""Runs first in every Python that a test starts: pandas is not there, as where memlake is installed without extras.

Where it is, the first array that pyarrow makes loads it, a quarter of a second in each of some hundred processes. The
tests themselves run with pandas. A test that starts a Python with pandas removes PYTHONPATH.
"""

import sys


class _Hidden:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas' (hidden by tests/startup)", name=name)


sys.meta_path.insert(0, _Hidden)  # type: ignore[arg-type]
