"""Images, recordings and videos out of a stream of bytes. Knows no File; PIL, soundfile and av are imported on use."""

from __future__ import annotations

import importlib
import io
import re
import wave
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final

import numpy as np

from memlake.errors import InvalidInput, Unavailable
from memlake.named_tuple import NamedTuple

FOREVER: Final = 1 << 62
Samples = np.ndarray[Any, Any]


class ImageInfo(NamedTuple):
    width: int
    height: int
    format: str


class AudioInfo(NamedTuple):
    sample_rate: int
    channels: int
    duration: float
    format: str


class VideoInfo(NamedTuple):
    width: int
    height: int
    fps: float
    frames: int
    duration: float
    codec: str


def _import_tool(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unavailable(
            f"{extra} files need {module.partition('.')[0]}, which is not installed.",
            hint=f"pip install 'memlake[{extra}]'",
        ) from error


def _unreadable(name: str, kind: str, error: BaseException) -> InvalidInput:
    why = re.sub(r" *<_io[^>]*>", "", str(error))  # PIL shows the stream, whose name is a number
    return InvalidInput(
        f"{name} cannot be read as {kind}: {why}",
        hint="Is the file whole, and of the kind its name says? File.read_bytes() gives its bytes as they are.",
    )


# -- images


def read_image(stream: BinaryIO, name: str) -> Any:
    """A PIL image, loaded whole: PIL reads lazily, and would fail far from here."""
    image = _open_image(stream, name)
    try:
        image.load()
    except (OSError, SyntaxError, ValueError) as error:
        raise _unreadable(name, "an image", error) from error
    return image


def image_info(stream: BinaryIO, name: str) -> ImageInfo:
    image = _open_image(stream, name)
    return ImageInfo(image.width, image.height, image.format or "")


def image_bytes(image: Any, target: str, format_: str | None) -> bytes:
    """An image as the bytes of a file, in the format named or the one its new suffix says."""
    suffix = PurePosixPath(target).suffix.lower()
    known = format_ or _import_tool("PIL.Image", "image").registered_extensions().get(suffix)
    if known is None:
        raise InvalidInput(f"no image format is known by the suffix {suffix!r} of {target}.", hint="Give format='PNG'.")
    buffer = io.BytesIO()
    try:
        image.save(buffer, format=known)
    except (OSError, KeyError, ValueError) as error:
        raise InvalidInput(
            f"the image cannot be written as {known}: {error}", hint=f"Convert it first; it is {image.mode}."
        ) from error
    return buffer.getvalue()


def _open_image(stream: BinaryIO, name: str) -> Any:
    opener = _import_tool("PIL.Image", "image")
    try:
        return opener.open(stream)
    except (OSError, SyntaxError, ValueError) as error:
        raise _unreadable(name, "an image", error) from error


# -- audio


def audio_info(stream: BinaryIO, name: str) -> AudioInfo:
    if wav := _wave(stream):
        with wav:
            rate = wav.getframerate()
            return AudioInfo(rate, wav.getnchannels(), wav.getnframes() / rate, "WAV")
    with _sound(stream, name) as sound:
        return AudioInfo(sound.samplerate, sound.channels, sound.frames / sound.samplerate, sound.format)


def read_audio(stream: BinaryIO, name: str) -> tuple[Samples, int]:
    """Samples as float32 within -1..1, shape (frames, channels), and the rate."""
    if wav := _wave(stream):
        with wav:
            data = wav.readframes(wav.getnframes())
            return _scale(data, wav.getsampwidth()).reshape(-1, wav.getnchannels()), wav.getframerate()
    with _sound(stream, name) as sound:
        return sound.read(dtype="float32", always_2d=True), sound.samplerate


def _wave(stream: BinaryIO) -> wave.Wave_read | None:
    """The standard library reads plain PCM; anything else is soundfile's."""
    try:
        return wave.open(stream, "rb")
    except (wave.Error, EOFError):
        stream.seek(0)
        return None


def _scale(data: bytes, width: int) -> Samples:
    if width == 1:  # 8 bits are unsigned, all others signed
        return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
    if width == 3:  # numpy has no 24 bits: a zero byte below makes them 32
        padded = np.zeros((len(data) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        data, width = padded.tobytes(), 4
    return np.frombuffer(data, f"<i{width}").astype(np.float32) / (1 << (8 * width - 1))


def _sound(stream: BinaryIO, name: str) -> Any:
    soundfile = _import_tool("soundfile", "audio")
    try:
        return soundfile.SoundFile(stream)
    except (soundfile.LibsndfileError, RuntimeError, TypeError) as error:
        raise _unreadable(name, "audio", error) from error


# -- video


def video_info(stream: BinaryIO, name: str) -> VideoInfo:
    av = _import_tool("av", "video")
    with _open_video(av, stream, name) as container:
        video = container.streams.video[0]
        rate = float(video.average_rate or video.guessed_rate or 0)
        seconds = (container.duration or 0) / av.time_base
        if video.duration and video.time_base:
            seconds = float(video.duration * video.time_base)
        frames = video.frames or round(seconds * rate)
        return VideoInfo(video.width, video.height, rate, frames, seconds, video.codec_context.name)


def video_frames(stream: BinaryIO, name: str, wanted: range) -> Iterator[Any]:
    """The frames of these numbers as PIL images, decoded one after the other."""
    av = _import_tool("av", "video")
    _import_tool("PIL.Image", "image")
    with _open_video(av, stream, name) as container:
        try:
            for number, frame in enumerate(container.decode(video=0)):
                if number >= wanted.stop:
                    return
                if number in wanted:
                    yield frame.to_image()
        except av.error.FFmpegError as error:
            raise _unreadable(name, "a video", error) from error


def _open_video(av: Any, stream: BinaryIO, name: str) -> Any:
    try:
        container = av.open(stream)
    except (av.error.FFmpegError, ValueError) as error:
        raise _unreadable(name, "a video", error) from error
    if container.streams.video:
        return container
    container.close()
    raise _unreadable(name, "a video", ValueError("it has no picture, only other streams"))
