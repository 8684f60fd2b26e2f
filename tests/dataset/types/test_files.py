"""A File is a reference that reads its bytes when asked; its kinds know what the bytes are."""

from __future__ import annotations

import io
import pickle
import sys
import wave
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest

from memlake.dataset import storages
from memlake.dataset.types.files import NAMES, AudioFile, File, ImageFile, TextFile, VideoFile
from memlake.dataset.types.media import AudioInfo, ImageInfo
from memlake.errors import InvalidInput, NotFound, Unavailable

EVERY = [File, TextFile, ImageFile, AudioFile, VideoFile]


def at(path: Path, kind: type[File] = File) -> Any:
    return kind(f"file://{path.parent}", path.name, path.stat().st_size if path.exists() else 0)


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "my note #1.tar.gz"
    path.write_text("héllo", encoding="utf-8")
    return path


# -- what it is


def test_a_file_knows_its_names() -> None:
    file = File("s3://bucket", "a/b.c/photo.tar.gz")
    assert (file.name, file.stem, file.suffix, file.ext, file.parent) == (
        "photo.tar.gz", "photo.tar", ".gz", "gz", "a/b.c",
    )  # fmt: skip
    assert file.uri == file.get_uri() == file.get_fs_path() == "s3://bucket/a/b.c/photo.tar.gz"
    assert (file.get_file_ext(), file.get_file_stem(), file.get_file_suffix()) == ("gz", "photo.tar", ".gz")
    assert file.get_full_name() == "a/b.c/photo.tar.gz" and file.get_local_path() is None
    assert File("s3://bucket", "top").parent == ""
    assert repr(ImageFile("s3://b", "a.jpg")) == "ImageFile('s3://b/a.jpg')"


@pytest.mark.parametrize("kind", EVERY)
def test_files_are_equal_by_value_and_kind_hashable_and_picklable(kind: type[File]) -> None:
    one = kind("s3://b", "a", 1, "v", "e", False, datetime(2024, 1, 1, tzinfo=UTC))
    assert pickle.loads(pickle.dumps(one)) == one and type(pickle.loads(pickle.dumps(one))) is kind
    assert len({one, kind(*(getattr(one, name) for name in NAMES))}) == 1
    assert one != kind("s3://b", "a", 2, "v", "e", False, datetime(2024, 1, 1, tzinfo=UTC))
    assert one != object() and not hasattr(one, "__dict__")
    assert (File("", "a") == ImageFile("", "a")) is False


def test_a_file_can_be_taken_as_another_kind() -> None:
    file = File("s3://b", "a", 7)
    assert [type(one) for one in (file.as_text(), file.as_image(), file.as_audio(), file.as_video())] == EVERY[1:]
    assert file.as_image().as_file() == file and file.as_image().size == 7


# -- bytes


def test_bytes_and_text_are_read_where_they_lie(note: Path) -> None:
    file = at(note)
    assert file.read() == file.read_bytes() == "héllo".encode()
    assert file.read_text() == file.as_text().read() == "héllo"
    assert file.read_text("latin-1") == "hÃ©llo"
    assert file.exists() and file.get_local_path() == str(note)
    assert file.get_info()["size"] == 6
    with file.open() as stream:
        assert stream.seekable()
    file.ensure_cached()


def test_an_open_text_file_gives_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("é\nb\n", encoding="utf-8")
    file = at(tmp_path / "a.txt", TextFile)
    with file.open() as stream:
        assert list(stream) == ["é\n", "b\n"]
    with file.open(encoding="latin-1") as stream:
        assert stream.read(2) == "Ã©"
    assert file.read_bytes() == file.as_file().open().read() == "é\nb\n".encode()
    assert Path(file.save(tmp_path / "b.txt")).read_bytes() == file.read_bytes()


def test_text_of_another_encoding_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"ab\xff")
    with pytest.raises(InvalidInput, match=r"a\.txt is not utf-8 text: byte 0xff at 2"):
        at(tmp_path / "a.txt", TextFile).read()


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    file = at(tmp_path / "gone.txt")
    assert not file.exists()
    with pytest.raises(NotFound, match=r"there is no .*gone\.txt"):
        file.read()


def test_bytes_come_through_whatever_storage_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, bytes] = {}
    monkeypatch.setattr(storages, "open_file", lambda file: io.BytesIO(file.uri.encode()))
    monkeypatch.setattr(storages, "write_file", lambda uri, data: written.__setitem__(uri, data.read()))
    monkeypatch.setattr(storages, "exists", lambda file: True)
    file = File("s3://b", "x/a.txt")
    assert file.read_text() == "s3://b/x/a.txt" and file.exists()
    assert file.save("gs://other/") == "gs://other/a.txt"
    assert written == {"gs://other/a.txt": b"s3://b/x/a.txt"}


def test_save_takes_a_folder_a_path_or_a_uri(note: Path, tmp_path: Path) -> None:
    file = at(note)
    (tmp_path / "there").mkdir()
    assert file.save(tmp_path / "there") == str(tmp_path / "there" / note.name)
    assert file.save(f"{tmp_path}/new/") == f"{tmp_path}/new/{note.name}"
    assert file.save(tmp_path / "deep" / "copy.txt") == str(tmp_path / "deep" / "copy.txt")
    assert file.save(f"file://{tmp_path}/uri.txt") == f"file://{tmp_path}/uri.txt"
    for copy in ("there/" + note.name, "new/" + note.name, "deep/copy.txt", "uri.txt"):
        assert (tmp_path / copy).read_bytes() == note.read_bytes()


def test_a_copy_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old")

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError("the line went dead")

    with pytest.raises(Unavailable, match="went dead"):
        storages.write_file(str(tmp_path / "old.txt"), Broken())
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("old.txt", "old")]


# -- pydantic


def test_a_file_can_be_a_field_of_a_model() -> None:
    class Page(pydantic.BaseModel):
        image: ImageFile
        other: File | None = None

    image = ImageFile("s3://b", "a.png", 3, last_modified=datetime(2024, 1, 1, tzinfo=UTC))
    assert Page(image=image).image is image
    assert Page(image=image.as_file()).image == image  # type: ignore[arg-type]
    back = Page.model_validate_json(Page(image=image).model_dump_json())
    assert back.image == image and type(back.image) is ImageFile
    with pytest.raises(pydantic.ValidationError, match="expected ImageFile"):
        Page(image="a.png")  # type: ignore[arg-type]
    with pytest.raises(pydantic.ValidationError, match="expected ImageFile"):
        Page.model_validate({"image": {"path": "a", "colour": "red"}})


# -- images


@pytest.fixture
def image(tmp_path: Path) -> Path:
    from PIL import Image

    path = tmp_path / "red.png"
    Image.new("RGB", (8, 5), "red").save(path)
    return path


def test_an_image_is_read_whole_and_described(image: Path) -> None:
    read = at(image, ImageFile).read()
    assert read.size == (8, 5) and read.getpixel((0, 0)) == (255, 0, 0)
    assert at(image, ImageFile).get_info() == ImageInfo(8, 5, "PNG")


def test_an_image_is_saved_as_it_is_or_in_another_format(image: Path, tmp_path: Path) -> None:
    file = at(image, ImageFile)
    file.save(tmp_path / "copy.png")
    assert (tmp_path / "copy.png").read_bytes() == image.read_bytes()
    file.save(tmp_path / "red.jpg")
    assert at(tmp_path / "red.jpg", ImageFile).get_info().format == "JPEG"
    file.save(tmp_path / "named.bin", format="GIF")
    assert at(tmp_path / "named.bin", ImageFile).get_info().format == "GIF"
    with pytest.raises(InvalidInput, match=r"no image format is known by the suffix '\.what'"):
        file.save(tmp_path / "red.what")
    assert not (tmp_path / "red.what").exists()


@pytest.mark.parametrize("keep", [0, 20, 2000])
def test_a_damaged_image_is_named(image: Path, keep: int) -> None:
    from PIL import Image

    Image.effect_noise((64, 64), 50).save(image)
    image.write_bytes(image.read_bytes()[:keep])
    with pytest.raises(InvalidInput, match=r"red\.png cannot be read as an image"):
        at(image, ImageFile).read()


# -- audio


def tone(path: Path, *, width: int = 2, channels: int = 2, rate: int = 8000) -> np.ndarray[Any, Any]:
    """Half a second whose samples lie between -0.5 and 0.5."""
    wanted = np.sin(np.arange(rate // 2 * channels) / 9).reshape(-1, channels) / 2
    whole = np.round(wanted * (1 << (8 * width - 1)))
    if width == 1:
        data = (whole + 128).astype("u1").tobytes()
    else:
        data = whole.astype("<i8").view("u1").reshape(-1, 8)[:, :width].tobytes()
    with wave.open(str(path), "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(data)
    return wanted


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_a_wav_of_any_width_is_read_as_numbers_between_minus_one_and_one(tmp_path: Path, width: int) -> None:
    wanted = tone(tmp_path / "a.wav", width=width)
    file = at(tmp_path / "a.wav", AudioFile)
    samples, rate = file.read()
    assert rate == 8000 and samples.shape == (4000, 2) and samples.dtype == np.float32
    assert np.abs(samples - wanted).max() < 2 / (1 << (8 * width - 1)) + 1e-6
    assert file.get_info() == AudioInfo(8000, 2, 0.5, "WAV")


@pytest.mark.parametrize(("name", "subtype"), [("a.flac", "PCM_16"), ("float.wav", "FLOAT")])
def test_other_audio_is_read_by_soundfile(tmp_path: Path, name: str, subtype: str) -> None:
    soundfile = pytest.importorskip("soundfile")
    wanted = np.sin(np.arange(4000) / 9) / 2
    soundfile.write(tmp_path / name, wanted, 16000, subtype=subtype)
    file = at(tmp_path / name, AudioFile)
    samples, rate = file.read()
    assert rate == 16000 and np.abs(samples[:, 0] - wanted).max() < 1e-4
    assert file.get_info()[:3] == (16000, 1, 0.25) and file.get_info().format in ("FLAC", "WAV")


def test_audio_that_is_none_is_named(note: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read as audio"):
        at(note, AudioFile).read()
    with pytest.raises(InvalidInput, match="cannot be read as audio"):
        at(note, AudioFile).get_info()


# -- video


@pytest.fixture
def video(tmp_path: Path) -> Path:
    """Ten frames that grow brighter."""
    av = pytest.importorskip("av")
    path = tmp_path / "v.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(10):
            pixels = np.full((48, 64, 3), number * 20, np.uint8)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        out.mux(stream.encode())
    return path


def test_a_video_is_described(video: Path) -> None:
    info = at(video, VideoFile).get_info()
    assert (info.width, info.height, info.fps, info.frames, info.codec) == (64, 48, 10.0, 10, "mpeg4")
    assert info.duration == pytest.approx(1.0, abs=0.11)


def test_frames_are_images_chosen_by_number(video: Path) -> None:
    file = at(video, VideoFile)

    def brightness(**chosen: Any) -> list[int]:
        return [round(np.asarray(frame).mean() / 20) for frame in file.frames(**chosen)]

    assert brightness() == list(range(10))
    assert brightness(step=3) == [0, 3, 6, 9]
    assert brightness(step=2, start=1, end=6) == [1, 3, 5]
    assert next(iter(file.frames())).size == (64, 48)


def test_a_video_that_is_none_is_named(note: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read as a video"):
        at(note, VideoFile).get_info()
    with pytest.raises(InvalidInput, match="cannot be read as a video"):
        list(at(note, VideoFile).frames())
    tone(tmp_path / "a.wav")
    with pytest.raises(InvalidInput, match="it has no picture"):
        at(tmp_path / "a.wav", VideoFile).get_info()


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [(ImageFile, "PIL.Image", "image"), (AudioFile, "soundfile", "audio"), (VideoFile, "av", "video")],
)
def test_a_missing_extra_says_what_to_install(
    kind: type[File], module: str, extra: str, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unavailable) as caught:
        at(note, kind).get_info()
    assert f"pip install 'memlake[{extra}]'" in str(caught.value)
