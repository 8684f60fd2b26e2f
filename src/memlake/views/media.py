"""What differs between images, recordings and plain bytes, as lines. Knows no repo and no command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlake.views.style import Style
from memlake.views.words import clean, count, size

if TYPE_CHECKING:
    from memlake.contents.byte_ranges import ByteDiff, ByteRange
    from memlake.contents.images import ImageDiff, ImageFacts
    from memlake.contents.recordings import RecordingDiff, RecordingFacts, StreamFacts


# -- images -------------------------------------------------------------------------------------


def image_lines(_style: Style, found: ImageDiff) -> Iterator[str]:
    where = ""
    if found.box is not None:
        left, top, right, bottom = found.box
        where = f", all between ({left}, {top}) and ({right}, {bottom})"
    yield f"{image_brief(found)}{where}"
    yield f"perceptual distance {found.distance:.3f}, colours differ by {_share(found.difference)}: {_look(found)}"
    yield from (f"note: {clean(note)}" for note in found.notes)


def image_brief(found: ImageDiff) -> str:
    old, new = image_text(found.old), image_text(found.new)
    changed = f": {_share(found.changed)} of the pixels differ" if found.changed else ""
    return f"{new if old == new else f'{old} -> {new}'}{changed}"


def image_text(facts: ImageFacts) -> str:
    frames = f", {facts.frames:,} frames" if facts.frames > 1 else ""
    return f"{facts.width}x{facts.height} {clean(facts.mode)} {clean(facts.format)}{frames}"


def _look(found: ImageDiff) -> str:
    if found.distance < 0.05:
        return "they look alike" if found.difference < 0.05 else "the same shapes in other colours"
    return "they look similar" if found.distance < 0.4 else "they look different"


# -- recordings ---------------------------------------------------------------------------------


def recording_lines(_style: Style, found: RecordingDiff) -> Iterator[str]:
    yield recording_brief(found)
    if found.changed:
        at = f", the first at {found.first_change:.3f} s" if found.first_change is not None else ""
        yield f"{_share(found.changed)} of the samples differ{at}"
    elif found.changed == 0:
        yield "the sound is the same, sample by sample"
    yield from (f"note: {clean(note)}" for note in found.notes)


def recording_brief(found: RecordingDiff) -> str:
    old, new = recording_text(found.old), recording_text(found.new)
    return new if old == new else f"{old} -> {new}"


def recording_text(facts: RecordingFacts) -> str:
    parts = [clean(facts.format)]
    parts += [f"{facts.seconds:.2f} s"] if facts.seconds is not None else []
    return ", ".join([*parts, *(_stream_text(stream) for stream in facts.streams)])


def _stream_text(stream: StreamFacts) -> str:
    text = f"{clean(stream.kind)} {clean(stream.codec)}"
    if stream.kind == "video":
        rate = f" at {stream.rate:g} frames/s" if stream.rate else ""
        return f"{text} {stream.width}x{stream.height}{rate}"
    if stream.kind == "audio":
        return f"{text} {stream.rate or 0:,.0f} Hz, {count(stream.channels or 0, 'channel')}"
    return text


# -- bytes --------------------------------------------------------------------------------------


def byte_lines(style: Style, found: ByteDiff) -> Iterator[str]:
    if found.range_count:
        yield f"{byte_brief(found)}"
    for one in found.ranges:
        yield f"  {_range_text(style, one)}"
    if found.range_count > len(found.ranges):
        yield style.paint(f"  ... and {found.range_count - len(found.ranges):,} more", "dim")
    yield from (f"note: {clean(note)}" for note in found.notes)


def byte_brief(found: ByteDiff) -> str:
    if not found.same:
        return "no part of it is the same"
    ranges = count(found.range_count, "range of bytes differs", "ranges of bytes differ")
    return f"{ranges}: {size(found.old_size - found.same)} went, {size(found.new_size - found.same)} came"


def _range_text(style: Style, one: ByteRange) -> str:
    old, new = _span(one.old_start, one.old_length), _span(one.new_start, one.new_length)
    if not one.old_length:
        return style.paint(f"+ {new} inserted", "added")
    if not one.new_length:
        return style.paint(f"- {old} removed", "removed")
    return f"~ {old}" if old == new else f"~ {old} -> {new}"


def _span(start: int, length: int) -> str:
    return f"bytes {start}-{start + length - 1} ({size(length)})" if length > 1 else f"byte {start}"


def _share(number: float) -> str:
    return f"{number:.0%}" if number >= 0.1 else f"{number:.2%}" if number >= 0.0001 else f"{number:.1e}"
