"""Audio and video: how long, at which rate, in which codec; of audio also where the sound differs.

A demuxer is chosen by the suffix and never guessed: one that reads playlists would open other files and addresses.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import How
from memlake.named_tuple import NamedTuple

_BLOCK = 1 << 18  # frames that are compared at once
_FRAMES = 100_000_000  # of sound that are decoded to be compared: 37 minutes at 44.1 kHz
_DEMUXERS = {
    "mp4": "mp4", "m4v": "mp4", "m4a": "mp4", "mov": "mp4", "mkv": "matroska", "webm": "matroska", "avi": "avi",
    "mpg": "mpeg", "mpeg": "mpeg",
}  # fmt: skip


class StreamFacts(NamedTuple):
    """One stream of a recording. `rate` is in samples or frames a second."""

    kind: str  # audio, video, subtitle ...
    codec: str
    rate: float | None = None
    channels: int | None = None
    width: int | None = None
    height: int | None = None


class RecordingFacts(NamedTuple):
    format: str
    seconds: float | None
    streams: tuple[StreamFacts, ...]


class RecordingDiff(NamedTuple):
    """What differs between two recordings; `changed` is the share of samples that do, where they can be compared."""

    old: RecordingFacts
    new: RecordingFacts
    changed: float | None = None
    first_change: float | None = None  # in seconds
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.old == self.new and self.changed == 0


def summarize(content: Content) -> RecordingFacts:
    with _open(content) as (facts, _):
        return facts


def diff(old: Content, new: Content, _how: How) -> RecordingDiff:
    with _open(old) as (was, before), _open(new) as (now, after):
        found = RecordingDiff(was, now)
        if before is None or after is None or was.streams != now.streams or before.frames != after.frames:
            return found
        if before.frames > _FRAMES:
            return found._replace(notes=(f"its sound was not compared, because it has more than {_FRAMES:,} frames",))
        return _compare_sound(found, (old, before), (new, after))


def _compare_sound(found: RecordingDiff, old: tuple[Content, Any], new: tuple[Content, Any]) -> RecordingDiff:
    """Sample by sample as the decoder gives them."""
    unequal, first, at = 0, None, 0
    rate = float(old[1].samplerate)
    while at < old[1].frames:
        was, now = (_read_block(content, sound) for content, sound in (old, new))
        if was.shape != now.shape or not len(was):
            raise Unreadable(f"{new[0].path} cannot be read as sound: it ends before its header says")
        places = np.flatnonzero((was != now).any(axis=1))
        unequal += len(places)
        if first is None and len(places):
            first = (at + int(places[0])) / rate
        at += len(was)
    return found._replace(changed=unequal / max(at, 1), first_change=first)


def _read_block(content: Content, sound: Any) -> Any:
    try:
        return sound.read(_BLOCK, dtype="int32", always_2d=True)
    except (RuntimeError, OSError, ValueError) as error:
        raise Unreadable(f"{content.path} cannot be read as sound: {_words(error)}") from error


@contextlib.contextmanager
def _open(content: Content) -> Iterator[tuple[RecordingFacts, Any]]:
    """The facts of a recording, and its sound if it is an audio file."""
    if content.suffix in _DEMUXERS:
        yield _read_container(content), None
        return
    try:
        soundfile = importlib.import_module("soundfile")  # an extra of its own, without types
    except (ImportError, OSError):  # OSError: the library that it wraps is missing
        raise Unreadable(f"{content.path} is audio; to look inside: pip install 'memlake[audio]'") from None
    try:
        sound = soundfile.SoundFile(content.open())
    except (RuntimeError, OSError, TypeError, ValueError) as error:
        raise Unreadable(f"{content.path} cannot be read as sound: {_words(error)}") from error
    with sound:
        stream = StreamFacts("audio", sound.subtype, float(sound.samplerate), int(sound.channels))
        yield RecordingFacts(sound.format, sound.frames / max(sound.samplerate, 1), (stream,)), sound


def _read_container(content: Content) -> RecordingFacts:
    try:
        import av  # an extra of its own
    except ImportError:
        raise Unreadable(f"{content.path} is video; to look inside: pip install 'memlake[video]'") from None
    try:
        with av.open(content.open(), "r", format=_DEMUXERS[content.suffix]) as container:
            seconds = None if container.duration is None else container.duration / av.time_base
            streams = tuple(_describe_stream(stream) for stream in container.streams)
            return RecordingFacts(container.format.name.partition(",")[0], seconds, streams)
    except (av.FFmpegError, OSError, ValueError, MemoryError) as error:
        raise Unreadable(f"{content.path} cannot be read as a recording: {_words(error)}") from error


def _describe_stream(stream: Any) -> StreamFacts:
    context = stream.codec_context
    codec = "unknown" if context is None else str(context.name)
    if stream.type == "video":
        rate = None if stream.average_rate is None else float(stream.average_rate)
        return StreamFacts("video", codec, rate, None, stream.width, stream.height)
    if stream.type == "audio":
        return StreamFacts("audio", codec, float(stream.rate or 0), int(stream.channels))
    return StreamFacts(str(stream.type), codec)


def _words(error: BaseException) -> str:
    """What a library says, without the name it gives to a stream."""
    text = " ".join(str(error).split())
    return text.rpartition(">: ")[2][:200] or type(error).__name__
