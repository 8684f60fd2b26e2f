"""Names that are imported when they are first used, so that a quick command loads only what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package. `homes` says where each name lives: `module:attribute`, or a module by itself."""

    def find_attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = homes[name].partition(":")
        loaded = import_module(module)
        return getattr(loaded, attribute) if attribute else loaded

    return find_attribute
