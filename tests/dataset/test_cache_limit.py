"""The setting `storage.cache_gb` bounds what is kept of remote files, wherever they are read."""

from __future__ import annotations

from pathlib import Path

from memlake.dataset.storages import cache
from memlake.repo import init, open_repo


def test_functions_that_keep_remote_bytes_keep_as_many_as_the_setting_says(tmp_path: Path) -> None:
    with init(tmp_path) as made:
        made.config.set("storage.cache_gb", "0.5")
    with open_repo(tmp_path) as repo:
        repo.datasets().read_values(x=[1]).settings(cache=True).map(y=lambda x: x).to_list()
        assert (cache._Use.folder, cache._Use.limit) == (repo.dir / "cache", 500_000_000)
        repo.datasets().read_values(x=[2]).map(y=lambda x: x).to_list()
        assert cache.in_use() is None
