"""The repo and the datasets of the tests of datasets: an engine is tried by the plans that use it."""

from tests.dataset.conftest import _fresh, repo

__all__ = ["_fresh", "repo"]
