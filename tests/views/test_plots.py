"""Pictures: the same record gives the same file, names are never formulas, and a failure leaves no file behind."""

from __future__ import annotations

import builtins
import io
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from memlake.contents import embeddings, images
from memlake.contents.content import Content
from memlake.contents.explain import How
from memlake.errors import InvalidInput, Unavailable
from memlake.views.plots import check_plot_file, write_plot

RANDOM = np.random.default_rng(0)
OLD = RANDOM.standard_normal((60, 10)).astype("f4")


def wrap(name: str, data: bytes) -> Content:
    return Content(name, len(data), lambda: io.BytesIO(data))


def draw_vectors(ids: list[str]) -> Any:
    sides = []
    for matrix in (OLD, np.vstack([-OLD[:3], OLD[3:]])):
        out = io.BytesIO()
        np.savez(out, ids=np.array(ids), v=matrix)
        sides.append(wrap("v.npz", out.getvalue()))
    return embeddings.sketch(*sides, How())


def draw_images() -> Any:
    sides = []
    for color in ("navy", "gold"):
        out = io.BytesIO()
        Image.new("RGB", (40, 30), color).save(out, "png")
        sides.append(wrap("a.png", out.getvalue()))
    return images.sketch(*sides, How())


def read_words(file: Path) -> str:
    return " ".join("".join(node.itertext()) for node in ET.parse(file).iter() if node.tag.endswith("text"))


def test_the_same_record_gives_the_same_svg_which_names_what_moved(tmp_path: Path) -> None:
    sketch = draw_vectors([f"e{number}" for number in range(60)])
    for name in ("a.svg", "b.svg"):
        write_plot(sketch, "v.npz", str(tmp_path / name))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    words = read_words(tmp_path / "a.svg")
    assert all(word in words for word in ("v.npz: 60 vectors: 3 moved, 57 unchanged", "e0", "e1", "e2", "in place"))


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    ids = ["$\\frac$", "<b>&amp;", "a\x1b[31m", *(f"e{number}" for number in range(57))]
    write_plot(draw_vectors(ids), "$x^2$.npz", str(tmp_path / "a.svg"))
    words = read_words(tmp_path / "a.svg")
    assert "$\\frac$" in words and "<b>&amp;" in words and "$x^2$.npz" in words and "\x1b" not in words


def test_images_are_drawn_side_by_side_with_what_differs(tmp_path: Path) -> None:
    write_plot(draw_images(), "a.png", str(tmp_path / "p.png"))
    with Image.open(tmp_path / "p.png") as picture:
        colors = {color for _, color in picture.convert("RGB").getcolors(1 << 24) or ()}
    assert {(0, 0, 128), (255, 215, 0)} <= colors
    assert [file.name for file in tmp_path.iterdir()] == ["p.png"]


@pytest.mark.parametrize("name", ["a.pdf", "svg", "a"])
def test_other_formats_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"written as \.svg or \.png"):
        check_plot_file(name)


def test_a_place_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written to"):
        write_plot(draw_images(), "a.png", str(tmp_path / "not" / "there.svg"))
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InvalidInput, match="cannot be written to"):
        write_plot(draw_images(), "a.png", str(tmp_path / "folder.svg"))
    assert [file.name for file in tmp_path.iterdir()] == ["folder.svg"]


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse_drawing(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse_drawing)
    with pytest.raises(Unavailable, match="needs matplotlib") as told:
        check_plot_file("a.svg")
    assert told.value.hint == "pip install 'memlake[plot]'"
