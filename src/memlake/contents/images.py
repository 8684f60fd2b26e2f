"""Images: size, mode and format, how many pixels differ, and how far apart two pictures look.

Only the first picture of a file is compared. A header that claims more pixels than Pillow would take is refused before
any of them is decoded, and formats that need other programs are not opened.
"""

from __future__ import annotations

import struct
import warnings
import zlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import How
from memlake.named_tuple import NamedTuple

if TYPE_CHECKING:
    from PIL import Image

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_PIXELS = 89_000_000  # as Pillow's own limit
_LARGEST = 512 << 20
_DRAWN = 800  # points of the longer side of a picture that is drawn
_WRONG = (OSError, ValueError, SyntaxError, TypeError, LookupError, EOFError, struct.error, zlib.error, MemoryError)


class ImageFacts(NamedTuple):
    format: str
    width: int
    height: int
    mode: str
    frames: int = 1


class ImageDiff(NamedTuple):
    """How two images differ. `distance` is perceptual, 1 - SSIM: 0 for the same look, about 1 for nothing in common."""

    old: ImageFacts
    new: ImageFacts
    distance: float
    difference: float  # mean difference of colours and transparency of both in one size, 0 to 1
    changed: float | None = None  # share of pixels that differ, if the size is the same
    box: tuple[int, int, int, int] | None = None  # left, top, right, bottom of them
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.old == self.new and not self.changed


class ImagePair(NamedTuple):
    """Both pictures as pixels, as small as they are drawn, and how far each differs if they are of one size."""

    diff: ImageDiff
    old: npt.NDArray[np.uint8]
    new: npt.NDArray[np.uint8]
    difference: npt.NDArray[np.float32] | None = None


def summarize(content: Content) -> ImageFacts:
    return read_facts(open_image(content))


def diff(old: Content, new: Content, _how: How) -> ImageDiff:
    pictures = [open_image(content) for content in (old, new)]
    was, now = (read_facts(picture) for picture in pictures)
    before, after = (_decode(content, picture) for content, picture in zip((old, new), pictures, strict=True))
    distance = _compare_looks(before, after)
    small = [np.asarray(picture.resize((64, 64)), np.float32) / 255 for picture in (before, after)]
    found = ImageDiff(was, now, distance, float(np.abs(small[0] - small[1]).mean()))
    if max(was.frames, now.frames) > 1:
        found = found._replace(notes=("only the first frame of each side is compared",))
    if before.size != after.size:
        return found
    unequal = (np.asarray(before) != np.asarray(after)).any(axis=2)
    rows, columns = np.flatnonzero(unequal.any(axis=1)), np.flatnonzero(unequal.any(axis=0))
    box = (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1) if len(rows) else None
    return found._replace(changed=float(unequal.mean()), box=box)


def sketch(old: Content, new: Content, how: How) -> ImagePair:
    """Both sides to be drawn beside each other."""
    found = diff(old, new, how)
    pictures = [_decode(content, open_image(content)) for content in (old, new)]
    small = [np.asarray(_shrink(picture)) for picture in pictures]
    difference = None
    if found.changed is not None:
        difference = (np.abs(small[0].astype(np.float32) - small[1].astype(np.float32)) / 255).max(axis=2)
    return ImagePair(found, small[0], small[1], difference)


def _shrink(picture: Image.Image) -> Image.Image:
    picture.thumbnail((_DRAWN, _DRAWN))
    return picture


def open_image(content: Content) -> Image.Image:
    """An image of which only the header is read."""
    try:
        from PIL import Image, UnidentifiedImageError  # an extra of its own
    except ImportError:
        raise Unreadable(f"{content.path} is an image; to look inside: pip install 'memlake[image]'") from None
    if content.size > _LARGEST:
        raise Unreadable(f"{content.path} takes {content.size:,} bytes, and memlake looks into images of up to 512 MiB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(content.open(), formats=_FORMATS)  # type: ignore[arg-type]
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Unreadable(f"{content.path} claims more than {_PIXELS:,} pixels, so memlake does not decode it") from None
    except UnidentifiedImageError:
        raise Unreadable(f"{content.path} is not an image in a format that memlake opens") from None
    except _WRONG as error:
        raise _refuse(content, error) from error
    if picture.width * picture.height > _PIXELS:
        raise Unreadable(f"{content.path} claims more than {_PIXELS:,} pixels, so memlake does not decode it")
    return picture


def read_facts(picture: Image.Image) -> ImageFacts:
    frames = int(getattr(picture, "n_frames", 1))
    return ImageFacts(picture.format or "", picture.width, picture.height, picture.mode, frames)


def _decode(content: Content, picture: Image.Image) -> Image.Image:
    """The first picture of a file, with colours and transparency."""
    try:
        if picture.mode.startswith(("I", "F")):  # more than 8 bits; Pillow would cut them off
            values = np.asarray(picture, np.float64)
            most = 65535.0 if picture.mode.startswith("I") else max(float(np.nan_to_num(values).max(initial=0)), 1.0)
            picture = _to_image(np.nan_to_num(values * 255 / most).clip(0, 255).astype(np.uint8))
        return picture.convert("RGBA")
    except _WRONG as error:
        raise _refuse(content, error) from error


def _to_image(values: npt.NDArray[np.uint8]) -> Image.Image:
    from PIL import Image

    return Image.fromarray(values)


def _refuse(content: Content, error: BaseException) -> Unreadable:
    said = " ".join(str(error).split())[:200]
    return Unreadable(f"{content.path} cannot be read as an image: {said or type(error).__name__}")


def _compare_looks(old: Image.Image, new: Image.Image) -> float:
    """1 - SSIM of both as small grey pictures: brightness, contrast and structure, block by block."""
    was, now = (_cut_blocks(picture) for picture in (old, new))
    means, spreads = (was.mean(axis=1), now.mean(axis=1)), (was.var(axis=1), now.var(axis=1))
    together = (was * now).mean(axis=1) - means[0] * means[1]
    light, contrast = 6.5025, 58.5225  # (0.01 * 255)^2 and (0.03 * 255)^2, as the measure has them
    alike = (2 * means[0] * means[1] + light) * (2 * together + contrast)
    alike /= (means[0] ** 2 + means[1] ** 2 + light) * (spreads[0] + spreads[1] + contrast)
    return float(max(0.0, 1 - alike.mean()))


def _cut_blocks(picture: Image.Image) -> npt.NDArray[np.float64]:
    grey = np.asarray(picture.convert("RGB").convert("L").resize((128, 128)), np.float64)
    return grey.reshape(16, 8, 16, 8).swapaxes(1, 2).reshape(256, 64)
