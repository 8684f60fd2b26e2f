"""Fingerprints: the same function wherever it was typed, what is opaque and how it is named, the text, the cost."""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import json
import linecache
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memlake.dataset.memo import code_origin, object_state
from memlake.dataset.memo.bytecode import code_token
from memlake.dataset.memo.fingerprint import fingerprint
from tests.dataset.memo.edits import MODEL

SCRIPT = """
import functools, math
K = 2
class Scale:
    def __init__(self, k): self.k = k
    def by(self, x): return x * self.k
scale = Scale(3)
def helper(x):
    'Says something.'
    return scale.by(x) + K  # a comment
@functools.lru_cache
def cached(x): return helper(x) in {'a', 'b', 'c', 1}
def f(x: int):
    return math.floor(cached(x) if x else (lambda y: y + K)(x))
"""
PRINT = "from memlake.dataset.memo.fingerprint import fingerprint\nprint(fingerprint(f).key)\n"


# -- one function, typed in many places


def run(*line: str, text: str | None = None, folder: Path | None = None) -> str:
    done = subprocess.run([sys.executable, *line], input=text, capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.split()[-1]


def test_a_function_has_one_key_in_a_script_an_import_a_line_a_pipe_and_at_a_prompt(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT + PRINT)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "moved.py").write_text("# moved\n" + SCRIPT)
    (tmp_path / "use.py").write_text("import sys; sys.path.insert(0, 'other')\nfrom moved import f\n" + PRINT)
    blocks = re.sub(r"\n(?=scale|def helper|@|def f)", "\n\n", SCRIPT)  # a prompt ends a block at an empty line
    keys = {
        "script": run("script.py", folder=tmp_path),
        "imported": run("use.py", folder=tmp_path),
        "-c": run("-c", SCRIPT + PRINT),
        "stdin": run("-", text=SCRIPT + PRINT),
        "prompt": run("-i", "-q", text=f"{blocks}\n\n{PRINT}"),
        "cell": run("-c", f"exec(compile({SCRIPT!r}, '<ipython-input-1>', 'exec'))\n{PRINT}"),
    }
    assert len(set(keys.values())) == 1, keys


def test_a_file_edited_after_it_was_imported_does_not_change_the_key(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(x):\n    return x + 1\n")
    text = "import mine\nbefore = fingerprint(mine.f)\nopen('mine.py', 'w').write('def f(x):\\n    return x + 2\\n')\n"
    text += "print(before.key == fingerprint(mine.f).key)"
    assert run("-c", f"from memlake.dataset.memo.fingerprint import fingerprint\n{text}", folder=tmp_path) == "True"


def test_an_installed_library_counts_by_its_version_alone(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "mylib-1.0.dist-info").mkdir(parents=True)
    metadata, code = site / "mylib-1.0.dist-info" / "METADATA", site / "mylib.py"

    def key(version: str, body: str) -> str:
        metadata.write_text(f"Name: mylib\nVersion: {version}\n")
        code.write_text(f"def g(x):\n    return {body}\n")
        return run(
            "-Bc", f"import sys; sys.path.append({str(site)!r})\nimport mylib\nf = lambda x: mylib.g(x)\n{PRINT}"
        )

    assert key("1.0", "x") == key("1.0", "x + 1") != key("1.1", "x + 1")


@pytest.mark.parametrize("packed", [False, True])
def test_a_library_installed_anywhere_counts_by_its_version_alone(tmp_path: Path, *, packed: bool) -> None:
    """As pip install --target and zip layers leave it: what a distribution lists is no code of the user's."""
    target = tmp_path / ("layer.zip" if packed else "layer")

    def key(version: str, body: str, listed: str = "mylib/__init__.py,,\nmylib/inner.py,,\n") -> str:
        files = {
            "mylib-1.0.dist-info/METADATA": f"Name: mylib\nVersion: {version}\n",
            "mylib-1.0.dist-info/RECORD": listed,
            "mylib/__init__.py": "from mylib.inner import g\n",
            "mylib/inner.py": f"def g(x):\n    return {body}\n",
        }
        with zipfile.ZipFile(target, "w") if packed else contextlib.nullcontext() as into:
            for name, text in files.items():
                if into is not None:
                    into.writestr(name, text)
                else:
                    (target / name).parent.mkdir(parents=True, exist_ok=True)
                    (target / name).write_text(text)
        return run(
            "-Bc", f"import sys; sys.path.append({str(target)!r})\nimport mylib\nf = lambda x: mylib.g(x)\n{PRINT}"
        )

    assert key("1.0", "x") == key("1.0", "x + 1") != key("1.1", "x + 1")
    # An editable install lists what leads to the files, not the files: those are the user's own.
    editable = "__editable__.mylib.pth,,\nother/mylib/inner.py,,\n"
    assert key("1.0", "x", editable) != key("1.0", "x + 1", editable)


def test_an_import_inside_a_function_runs_no_library() -> None:
    text = "def f(x):\n    import soundfile\n    return x\n" + PRINT + "import sys; print('soundfile' in sys.modules)"
    assert run("-c", text) == "False"


def test_a_module_of_ones_own_imported_only_inside_the_function_is_followed(tmp_path: Path) -> None:
    def key(constant: int) -> str:
        (tmp_path / "mine.py").write_text(f"K = {constant}\n")
        return run("-Bc", "def f(x):\n    from mine import K\n    return K\n" + PRINT, folder=tmp_path)

    assert key(1) == key(1) != key(20)


def functions(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from functions(inner)


def layouts(module: str) -> list[tuple[bytes, bytes]]:
    """What each function of a module does, as it is written and with every statement on one line."""
    __import__(module)
    text = Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8")
    joined = ast.unparse(ast.parse(text))
    pairs = zip(*(functions(compile(each, "a", "exec")) for each in (text, joined)), strict=True)
    return [(code_token(a), code_token(b)) for a, b in pairs]


def test_layout_hardly_ever_matters_in_large_modules() -> None:
    found = [*layouts("argparse"), *layouts("inspect")]
    other = sum(a != b for a, b in found)
    # Python makes other jumps of `a and b or c` when it is broken over lines: the work runs once more, no harm done.
    assert len(found) > 300 and other <= 2


def test_using_a_class_does_not_change_it() -> None:
    class Point:
        __slots__ = ("x",)

    def work(x: int) -> Any:
        return Point()

    before = fingerprint(work).key
    copy.copy(work(1))  # as pickle does, this notes the slots in the class
    assert "__slotnames__" in vars(Point) and fingerprint(work).key == before


# -- parameters


def test_parameters_count_by_value_whatever_their_order() -> None:
    def key(**params: Any) -> str:
        return fingerprint(len, params=params).key

    assert key(a=1, b=2) == key(b=2, a=1)
    assert len({key(), key(a=1), key(a=2), key(b=1), key(a="1"), key(a=[1])}) == 6


# -- opaque


class Client:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def ask(self, x: int) -> int:
        return x


client = Client()
lock = threading.Lock()


def embed(x: int) -> int:
    return client.ask(x)


def guarded(x: int) -> int:
    with lock:
        return embed(x)


def test_what_cannot_be_seen_through_is_named_as_the_user_sees_it() -> None:
    found = fingerprint(guarded).opaque
    assert [(each.name, each.kind) for each in found] == [
        ("lock in guarded()", "lock"),
        ("client.lock in embed()", "lock"),
    ]
    for word in ("lock in guarded()", "params=", "setup=", "__fingerprint__()"):
        assert word in found[0].hint


def flying() -> Iterator[int]:
    yield 1


class Broken:
    def __reduce__(self) -> str:
        raise KeyError("no")


class Unsure:
    def __fingerprint__(self) -> str:
        raise OSError("gone")


@pytest.mark.parametrize(
    "make",
    [threading.Lock, flying, Broken, Unsure, partial(open, os.devnull), threading.Thread, threading.local],
    ids=["lock", "generator", "broken", "unsure", "file", "thread", "thread-local"],
)
def test_a_stranger_is_opaque_and_never_an_exception(make: Callable[[], Any]) -> None:
    held = make()
    found = fingerprint(lambda x: (x, held)).opaque
    assert found and all("held" in each.name for each in found)


def test_an_opaque_thing_is_told_once_however_often_it_is_reached() -> None:
    assert [each.name for each in fingerprint(lambda x: (lock, [lock], x)).opaque] == ["lock in lambda()"]


def test_what_is_reached_by_a_text_alone_is_opaque() -> None:
    def named(x: str) -> Any:
        return importlib.import_module(x)

    reaching: list[Callable[..., Any]] = [lambda x: eval(x), lambda x: exec(x), lambda x: globals()[x], named]  # noqa: PLW0108
    for function in reaching:
        (told,) = fingerprint(function).opaque
        assert "no name in the code tells" in told.hint
    assert fingerprint(lambda x: ast.literal_eval(x)).opaque == ()  # noqa: PLW0108


def test_a_module_whose_name_is_written_out_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for value in (1, 2, 1):
        (tmp_path / "written_out.py").write_text(f"def g(x): return x + {value}")
        monkeypatch.delitem(sys.modules, "written_out", raising=False)
        importlib.invalidate_caches()
        linecache.clearcache()
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        found = fingerprint(lambda x: importlib.import_module("written_out").g(x))
        assert found.opaque == ()
        keys.append(found.key)
    assert keys[0] == keys[2] != keys[1]
    assert fingerprint(lambda x: (importlib.import_module("json"), x)).opaque == ()


def test_a_librarys_object_is_opaque_as_a_whole() -> None:
    curve = np.polynomial.Polynomial([1, 2])
    curve.inside = {"deeper": lock}  # type: ignore[attr-defined]
    found = fingerprint(lambda x: curve(x + 1)).opaque
    assert [(each.name, each.kind) for each in found] == [("curve in lambda()", "Polynomial")]


def test_a_module_named_otherwise_than_its_distribution_has_its_version() -> None:
    image = pytest.importorskip("PIL.Image")
    assert fingerprint(image.new).libraries["PIL"] == image.__version__


def test_a_thing_made_by_name_must_be_what_the_name_says() -> None:
    hidden = np.frompyfunc(lambda x: x, 1, 1)
    assert fingerprint(lambda x: np.add(x, 1)).opaque == ()
    assert fingerprint(partial(hidden)).opaque


def test_an_object_that_says_what_it_is_is_taken_at_its_word() -> None:
    class Sure:
        def __init__(self, word: str) -> None:
            self.word, self.lock = word, threading.Lock()

        def __fingerprint__(self) -> str:
            return self.word

    found = [fingerprint(partial(print, Sure(word))) for word in ("a", "a", "b")]
    assert found[0].opaque == () and found[0].key == found[1].key != found[2].key


def test_a_file_written_again_with_its_time_set_back_is_read_again(tmp_path: Path) -> None:
    file, tokens = tmp_path / "model.onnx", set()
    for data in (b"one", b"two"):
        file.write_bytes(data)
        os.utime(file, ns=(5, 5))
        tokens.add(object_state.path_token(file))
        time.sleep(0.02)  # a file system's clock ticks some hundred times a second
    assert len(tokens) == 2


def test_a_model_that_names_a_folder_is_known_by_the_files_in_it(tmp_path: Path) -> None:
    model = SimpleNamespace(name_or_path=str(tmp_path), lock=threading.Lock())
    (tmp_path / "weights").write_text("1")
    before = fingerprint(lambda x: (model, x))
    (tmp_path / "weights").write_text("22")
    assert before.opaque == () and fingerprint(lambda x: (model, x)).key != before.key


def test_a_session_is_known_by_the_bytes_of_its_model(tmp_path: Path) -> None:
    session = type("InferenceSession", (), {"__module__": "onnxruntime", "get_providers": lambda self: ["CPU"]})()
    session._model_path, session._sess = str(tmp_path / "model.onnx"), threading.Lock()
    keys = []
    for weights in ("one", "three"):
        Path(session._model_path).write_text(weights)
        found = fingerprint(lambda x: (session, x))
        assert found.opaque == ()
        keys.append(found.key)
    assert keys[0] != keys[1]


# -- circles, depth, size


def test_circles_end() -> None:
    ring: list[Any] = [1]
    ring.append({"ring": ring})
    other: list[Any] = [1]
    other.append({"ring": [other]})
    assert fingerprint(lambda x: (ring, x)).opaque == ()
    assert fingerprint(partial(print, ring)).key != fingerprint(partial(print, other)).key


def test_a_chain_of_a_thousand_helpers_is_followed_to_its_end() -> None:
    def chain(last: int) -> str:
        space: dict[str, Any] = {"f1000": eval(f"lambda x: {last}")}
        for at in range(1000):
            exec(f"f{at} = lambda x: f{at + 1}(x)", space)
        found = fingerprint(space["f0"])
        assert found.opaque == ()
        return found.key

    assert chain(1) == chain(1) != chain(2)


def test_data_nested_too_deeply_are_opaque() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert [each.kind for each in fingerprint(lambda x: (deep, x)).opaque] == ["function"]


def test_a_usual_function_costs_about_a_millisecond() -> None:
    assert least(lambda: fingerprint(guarded)) < 0.01


def test_a_large_array_is_hashed_where_it_lies() -> None:
    large = np.zeros(25_000_000, "uint8")
    assert least(lambda: fingerprint(partial(print, large))) < 0.5


def least(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(5):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


def test_weights_beyond_what_is_read_whole_are_read_at_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    space: dict[str, Any] = {}
    exec(MODEL, space)
    monkeypatch.setattr(object_state, "WHOLE", 0)
    keys = [fingerprint(space["Layer"](weights, 1)).key for weights in ([1, 2], [1, 2], [1, 3])]
    assert keys[0] == keys[1] != keys[2]


# -- what is told besides


def test_libraries_are_told_with_their_versions() -> None:
    found = fingerprint(lambda x: np.asarray(x) + json.loads("1")).libraries
    assert found == {"numpy": np.__version__, "python": code_origin.PYTHON}


def test_our_own_classes_count_by_name_so_a_new_memlake_runs_nothing_again() -> None:
    library = code_origin.library_of("memlake.dataset")
    assert library is not None and library.key() == library._replace(version="9").key() == "memlake"


def test_the_text_holds_the_function_first_and_then_what_it_reaches_once() -> None:
    text = fingerprint(guarded).source
    assert text.startswith("# test_fingerprint.py\ndef guarded(x: int)")
    assert text.count("def embed") == text.count("class Client") == text.count("def ask") == 1
    assert text.index("guarded") < text.index("def embed") and str(Path(__file__).parent) not in text


def test_the_text_is_that_of_the_running_code_or_none(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def f(x):\n    return x\n")
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    assert fingerprint(space["f"]).source == "# mine.py\ndef f(x):\n    return x\n"
    file.write_text("K = 1\n\nL = 3\n")
    assert fingerprint(space["f"]).source == ""
