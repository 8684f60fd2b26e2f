"""The names `import memlake` gives: exactly these, each from its home, none loaded before it is used."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import memlake as ml

NAMES = {
    "Agent", "AudioFile", "Author", "C", "Chain", "Commit", "Error", "File", "ImageFile", "Repo", "TextFile",
    "Vector", "VideoFile", "clone", "datasets", "errors", "func", "init", "lit", "metrics", "open", "param",
    "read_arrow", "read_csv", "read_database", "read_dataset", "read_hf", "read_json", "read_jsonl", "read_pandas",
    "read_parquet", "read_polars", "read_records", "read_storage", "read_values",
}  # fmt: skip
GIVERS = {"C", "errors", "func", "metrics"}  # used by what is inside them
HEAVY = (
    "apsw", "msgpack", "pyarrow", "numpy", "pandas", "zstandard", "pyfastcdc", "click", "tomlkit", "obstore",
    "onnxruntime", "memlake_minilm",
)  # fmt: skip


def loaded_after(code: str) -> set[str]:
    """Modules a fresh interpreter has after running some code."""
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=250)
    return set(done.stdout.split())


def test_the_export_list_is_exactly_this() -> None:
    assert set(ml.__all__) == NAMES
    assert list(ml.__all__) == sorted(ml.__all__, key=lambda name: (name[0].islower(), name))
    assert set(dir(ml)) >= NAMES


def test_the_surface_stays_small_enough_to_be_read() -> None:
    """What grows belongs into a group, such as repo.upkeep, or is for doors alone: repo/for_doors.py."""
    members = [name for name in dir(ml.Repo) if not name.startswith("_")]
    assert len(members) <= 47 and len(ml.__all__) <= 36, sorted(members)


@pytest.mark.parametrize("name", sorted(NAMES - GIVERS))
def test_every_name_leads_to_what_it_says(name: str) -> None:
    found = getattr(ml, name)
    assert callable(found)
    assert found.__module__.startswith("memlake.")
    home = importlib.import_module(found.__module__)
    assert getattr(home, found.__name__) is found


@pytest.mark.parametrize("name", sorted(GIVERS))
def test_a_name_with_names_inside_is_one_of_ours(name: str) -> None:
    found = getattr(ml, name)
    home = getattr(found, "__module__", None) or found.__name__
    assert home.startswith(("memlake.dataset", "memlake.errors"))


def test_every_error_can_be_caught_by_its_public_name() -> None:
    assert issubclass(ml.errors.Conflict, ml.Error)
    assert issubclass(ml.errors.NotARepo, ml.errors.NotFound)
    found = [one for one in vars(ml.errors).values() if isinstance(one, type) and one.__module__ == "memlake.errors"]
    assert len(found) > 12 and all(issubclass(one, ml.Error) for one in found)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="remember_everything"):
        _ = ml.remember_everything


def test_importing_memlake_imports_nothing_heavy_and_none_of_its_own_parts() -> None:
    loaded = loaded_after("import memlake")
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)
    assert {name for name in loaded if name.startswith("memlake")} == {"memlake", "memlake._lazy"}


def test_importing_the_memories_imports_nothing_heavy() -> None:
    loaded = loaded_after("import memlake.memories, memlake.memories.embedders")
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)


def test_errors_and_records_are_plain_python() -> None:
    loaded = loaded_after("import memlake as ml; ml.errors.NotFound; ml.Commit")
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)


def test_opening_a_repo_loads_no_arrow_and_no_command_line(tmp_path) -> None:
    loaded = loaded_after(f"import memlake as ml; ml.init({str(tmp_path)!r}).status()")
    assert not {name.split(".")[0] for name in loaded} & {
        "pyarrow",
        "numpy",
        "pandas",
        "click",
        "obstore",
        "onnxruntime",
    }
    assert "memlake.repo" in loaded  # else this check would see nothing


def test_the_version_is_the_one_of_the_package() -> None:
    from importlib.metadata import version

    assert ml.__version__ == version("memlake")
