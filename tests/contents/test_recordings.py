"""Audio and video: facts, where sound differs, and files that lie."""

from __future__ import annotations

import importlib
import io
from typing import Any

import av
import numpy as np
import pytest

from memlake.contents.content import Content
from memlake.contents.explain import How, explain
from memlake.contents.recordings import RecordingDiff

soundfile = importlib.import_module("soundfile")
WAVE = 0.3 * np.sin(np.arange(8000) / 10)


def wrap(data: bytes, name: str) -> Content:
    return Content(name, len(data), lambda: io.BytesIO(data))


def sound(samples: Any, rate: int = 8000, kind: str = "wav", subtype: str | None = None) -> Content:
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format=kind, subtype=subtype)
    return wrap(out.getvalue(), f"a.{kind}")


def video(frames: int, size: tuple[int, int] = (32, 24)) -> bytes:
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for number in range(frames):
            picture = np.full((size[1], size[0], 3), number * 9, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return out.getvalue()


def diff(old: Content, new: Content) -> RecordingDiff:
    found = explain(old, new, How())
    assert found is not None and isinstance(found.record, RecordingDiff), found
    return found.record


def refuse(new: Content, old: Content) -> str:
    found = explain(old, new, How())
    assert found is not None and found.record is None
    return found.note


def test_where_sound_differs_is_told() -> None:
    other = WAVE.copy()
    other[4000:4080] = 0
    found = diff(sound(WAVE), sound(other))
    assert found.first_change == pytest.approx(0.5, abs=0.001) and found.changed == pytest.approx(0.01, abs=0.001)


def test_the_same_sound_in_another_format_is_the_same() -> None:
    found = diff(sound(WAVE, kind="flac"), sound(WAVE, kind="flac"))
    assert found.is_empty and found.old.seconds == 1.0


def test_rate_codec_and_duration_are_told() -> None:
    found = diff(sound(WAVE), sound(WAVE[:4000], 16000, subtype="PCM_24"))
    assert (found.old.seconds, found.new.seconds, found.changed) == (1.0, 0.25, None)
    assert [stream.codec for side in (found.old, found.new) for stream in side.streams] == ["PCM_16", "PCM_24"]


def test_video_is_told_by_duration_size_rate_and_codec() -> None:
    found = diff(wrap(video(10), "a.mp4"), wrap(video(20, (64, 48)), "a.mp4"))
    was, now = found.old.streams[0], found.new.streams[0]
    assert (found.old.seconds, found.new.seconds) == (1.0, 2.0)
    assert (was.codec, was.rate, was.width, now.height) == ("mpeg4", 10.0, 32, 48)


def test_a_playlist_that_is_called_a_video_opens_nothing() -> None:
    playlist = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"
    assert "cannot be read as a recording" in refuse(wrap(playlist, "a.mp4"), wrap(video(3), "a.mp4"))


def test_truncated_and_wrong_files_are_refused_with_words() -> None:
    assert "cannot be read as a recording" in refuse(wrap(video(3)[:40], "a.mp4"), wrap(video(3), "a.mp4"))
    said = refuse(wrap(b"RIFF and nothing else", "a.wav"), sound(WAVE))
    assert said.startswith("a.wav cannot be read as sound: ") and "object at" not in said
