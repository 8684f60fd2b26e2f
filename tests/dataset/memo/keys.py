"""Prints the key of `f` in each text of a JSON list on standard input; the first argument is their `__name__`."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import types
from typing import Any

from memlake.dataset.memo import code_origin
from memlake.dataset.memo.fingerprint import Fingerprint, fingerprint


def look(text: str, name: str = "__main__") -> Fingerprint:
    """The fingerprint of `f` in a text that is run as a module of its own, with nothing left behind."""
    modules, version, main = dict(sys.modules), importlib.metadata.version, types.ModuleType(name)
    sys.modules[name] = main
    code_origin._library.cache_clear()
    try:
        space: dict[str, Any] = main.__dict__
        exec(compile(text, f"<{name}>", "exec"), space)
        return fingerprint(space["f"])
    finally:
        importlib.metadata.version = version
        code_origin._library.cache_clear()
        for made in sys.modules.keys() - modules.keys():
            if getattr(sys.modules[made], "__file__", None) is None or made == "mylib":
                del sys.modules[made]
        sys.modules[name] = modules.get(name, main)


if __name__ == "__main__":
    print(json.dumps([look(text, sys.argv[1]).key for text in json.load(sys.stdin)]))
