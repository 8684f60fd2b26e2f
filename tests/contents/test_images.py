"""Images: what is told of two, and headers that lie."""

from __future__ import annotations

import builtins
import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image, ImageDraw

from memlake.contents.content import Content
from memlake.contents.explain import Explanation, How, explain
from memlake.contents.images import ImageDiff


def draw(*, size: tuple[int, int] = (160, 100), spot: bool = False, back: str = "navy") -> Image.Image:
    picture = Image.new("RGB", size, back)
    pen = ImageDraw.Draw(picture)
    pen.ellipse((20, 20, 80, 80), fill="gold")
    if spot:
        pen.rectangle((100, 10, 109, 19), fill="lime")
    return picture


def save(picture: Image.Image, kind: str = "png", **options: Any) -> Content:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return wrap(out.getvalue(), f"a.{kind}")


def wrap(data: bytes, name: str = "a.png") -> Content:
    return Content(name, len(data), lambda: io.BytesIO(data))


def diff(old: Content, new: Content) -> ImageDiff:
    found = explain(old, new, How())
    assert found is not None and isinstance(found.record, ImageDiff), found
    return found.record


def refuse(new: Content) -> str:
    found = explain(save(draw()), new, How())
    assert isinstance(found, Explanation) and found.record is None
    return found.note


def test_pixels_that_differ_are_counted_and_boxed() -> None:
    found = diff(save(draw()), save(draw(spot=True)))
    assert found.changed == pytest.approx(100 / 16_000) and found.box == (100, 10, 110, 20)
    assert found.distance < 0.05 and not found.is_empty


def test_size_mode_and_format_are_told() -> None:
    found = diff(save(draw()), save(draw().convert("L").resize((80, 50))))
    assert (found.old[1:4], found.new[1:4], found.changed) == ((160, 100, "RGB"), (80, 50, "L"), None)


def test_the_same_picture_in_other_bytes_is_the_same() -> None:
    assert diff(save(draw(), compress_level=0), save(draw(), compress_level=9)).is_empty


@pytest.mark.parametrize(
    ("other", "least", "most"),
    [
        (lambda: draw().resize((320, 200)), 0, 0.1),
        (lambda: Image.effect_noise((160, 100), 60), 0.7, 2),
    ],
)
def test_the_distance_grows_with_what_an_eye_sees(other: Callable[[], Image.Image], least: float, most: float) -> None:
    assert least <= diff(save(draw()), save(other())).distance <= most


def test_16_bits_and_transparency_and_palettes_are_read() -> None:
    for mode in ("I;16", "F", "P", "LA", "1", "CMYK"):
        picture = draw().convert("L").convert({"I;16": "I", "LA": "LA"}.get(mode, mode) if mode != "I;16" else "I;16")
        kind = "tiff" if mode in ("F", "CMYK") else "png"
        assert diff(save(picture, kind), save(picture, kind)).is_empty, mode


def test_only_the_first_frame_of_an_animation_is_compared_and_that_is_said() -> None:
    frames = [draw(), draw(spot=True)]
    found = diff(save(frames[0], "gif"), save(frames[0], "gif", save_all=True, append_images=frames[1:]))
    assert (found.old.frames, found.new.frames) == (1, 2) and "first frame" in found.notes[0]


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def bomb(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [9_500, 13_000, 60_000])
def test_a_header_that_claims_too_many_pixels_is_refused_before_they_are_decoded(side: int) -> None:
    assert "pixels, so memlake does not decode it" in refuse(wrap(bomb(side, side)))


def test_truncated_and_wrong_files_are_refused_with_words() -> None:
    whole = save(draw(spot=True)).read()
    assert "cannot be read as an image" in refuse(wrap(whole[: len(whole) // 2]))
    assert refuse(wrap(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")).endswith("in a format that memlake opens")


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse_pillow(name: str, *rest: Any) -> Any:
        if name == "PIL":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse_pillow)
    found = explain(wrap(b"a"), wrap(b"b"), How())
    assert found is not None and found.note == "a.png is an image; to look inside: pip install 'memlake[image]'"
