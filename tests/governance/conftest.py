"""The short ways of the tests of `versions/` to write and keep files."""

from tests.versions.conftest import _ada, keep, repo, write

__all__ = ["_ada", "keep", "repo", "write"]
