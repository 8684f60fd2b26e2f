"""File and its kinds: a reference to bytes in a storage, read when asked."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, Self, TextIO

import numpy as np
import pyarrow as pa

from memlake.dataset import storages
from memlake.dataset.types import media
from memlake.errors import InvalidInput

FILE: Final = pa.struct(list(storages.SCHEMA))
NAMES: Final = tuple(child.name for child in FILE)
LOCAL: Final = "file://"


class File:
    """Bytes somewhere: `source` is the storage (s3://bucket, file:///folder), `path` is relative to it."""

    __slots__ = NAMES

    def __init__(  # noqa: PLR0917 -- rows are built by position, 100 ns each
        self,
        source: str,
        path: str,
        size: int = 0,
        version: str = "",
        etag: str = "",
        is_latest: bool = True,
        last_modified: datetime | None = None,
    ) -> None:
        self.source = source
        self.path = path
        self.size = size
        self.version = version
        self.etag = etag
        self.is_latest = is_latest
        self.last_modified = last_modified

    def _values(self) -> tuple[Any, ...]:
        return (
            self.source, self.path, self.size, self.version, self.etag, self.is_latest, self.last_modified,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()

    # -- names

    @property
    def uri(self) -> str:
        return f"{self.source.rstrip('/')}/{self.path}" if self.source else self.path

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.path).stem

    @property
    def suffix(self) -> str:
        """With its dot: `.jpg`."""
        return PurePosixPath(self.path).suffix

    @property
    def ext(self) -> str:
        """Without the dot: `jpg`."""
        return self.suffix.removeprefix(".")

    @property
    def parent(self) -> str:
        folder = str(PurePosixPath(self.path).parent)
        return "" if folder == "." else folder

    # -- bytes

    def open(self) -> BinaryIO:
        """A seekable stream of the bytes."""
        return storages.open_file(self)

    def read_bytes(self) -> bytes:
        with storages.open_file(self) as stream:
            return stream.read()

    def read(self) -> Any:
        return self.read_bytes()

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        try:
            return self.read_bytes().decode(encoding, errors)
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"{self.uri} is not {encoding} text: byte {error.object[error.start]:#04x} at {error.start}.",
                hint="Name its encoding: read_text(encoding='latin-1'), or read_bytes() for bytes.",
            ) from error

    def exists(self) -> bool:
        return storages.exists(self)

    def get_info(self) -> Any:
        """What is known of the file without reading it."""
        return dict(zip(NAMES, self._values(), strict=True))

    def save(self, destination: str | os.PathLike[str]) -> str:
        """Copy the bytes into a folder, to a file or to a uri; the place written to."""
        target = self._target(destination)
        with storages.open_file(self) as stream:
            storages.write_file(target, stream)
        return target

    def _target(self, destination: str | os.PathLike[str]) -> str:
        target = os.fspath(destination)
        folder = target.endswith("/") or ("://" not in target and Path(target).is_dir())
        return f"{target.rstrip('/')}/{self.name}" if folder else target

    # -- kinds

    def as_file(self) -> File:
        return File(*self._values())

    def as_text(self) -> TextFile:
        return TextFile(*self._values())

    def as_image(self) -> ImageFile:
        return ImageFile(*self._values())

    def as_audio(self) -> AudioFile:
        return AudioFile(*self._values())

    def as_video(self) -> VideoFile:
        return VideoFile(*self._values())

    # -- the names DataChain gives these

    def get_uri(self) -> str:
        return self.uri

    def get_full_name(self) -> str:
        return self.path

    def get_file_ext(self) -> str:
        return self.ext

    def get_file_stem(self) -> str:
        return self.stem

    def get_file_suffix(self) -> str:
        return self.suffix

    def get_fs_path(self) -> str:
        return self.get_local_path() or self.uri

    def get_local_path(self) -> str | None:
        """Where the bytes lie on this machine, when they do without being fetched."""
        return storages.local_path(self) if self.source.startswith(LOCAL) else None

    def ensure_cached(self) -> None:
        """Read the first byte, so that a storage that keeps what it fetched has it."""
        with storages.open_file(self) as stream:
            stream.read(1)

    # -- a field of a user's pydantic model

    @classmethod
    def _accept_value(cls, value: Any) -> Self:
        if isinstance(value, cls):
            return value
        if isinstance(value, File):
            return cls(*value._values())
        if isinstance(value, Mapping) and {"source", "path"} <= value.keys() <= set(NAMES):
            time = value.get("last_modified")  # text, if it comes from JSON
            time = datetime.fromisoformat(time) if isinstance(time, str) else time
            return cls(**{**value, "last_modified": time})
        raise ValueError(f"expected {cls.__name__} or its attributes, got {type(value).__name__}")

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema

        as_json = core_schema.plain_serializer_function_ser_schema(File.get_info, when_used="json")
        return core_schema.no_info_plain_validator_function(cls._accept_value, serialization=as_json)


class TextFile(File):
    """A file of text: read() gives str, and so do the lines of open()."""

    __slots__ = ()

    def open(self, encoding: str = "utf-8", errors: str = "strict") -> TextIO:  # type: ignore[override]
        """A stream of the text, as Python's own open() gives it; as_file().open() is one of the bytes."""
        return io.TextIOWrapper(storages.open_file(self), encoding, errors)

    def read(self) -> str:
        return self.read_text()


class ImageFile(File):
    """An image: read() gives a loaded PIL image."""

    __slots__ = ()

    def read(self) -> Any:
        with self.open() as stream:
            return media.read_image(stream, self.uri)

    def get_info(self) -> media.ImageInfo:
        with self.open() as stream:
            return media.image_info(stream, self.uri)

    def save(self, destination: str | os.PathLike[str], format: str | None = None) -> str:  # noqa: A002
        """Copy the image; in another format when one is named or the suffix of the destination says so."""
        target = self._target(destination)
        if format is None and PurePosixPath(target).suffix.lower() == self.suffix.lower():
            return super().save(target)
        storages.write_file(target, media.image_bytes(self.read(), target, format))
        return target


class AudioFile(File):
    """A recording: read() gives (samples, rate), samples as float32 of shape (frames, channels)."""

    __slots__ = ()

    def read(self) -> tuple[np.ndarray[Any, Any], int]:
        with self.open() as stream:
            return media.read_audio(stream, self.uri)

    def get_info(self) -> media.AudioInfo:
        with self.open() as stream:
            return media.audio_info(stream, self.uri)


class VideoFile(File):
    """A video: frames() gives images."""

    __slots__ = ()

    def get_info(self) -> media.VideoInfo:
        with self.open() as stream:
            return media.video_info(stream, self.uri)

    def frames(self, step: int = 1, *, start: int = 0, end: int | None = None) -> Iterator[Any]:
        """Every step-th frame of start..end (frame numbers, end not included) as a PIL image."""
        with self.open() as stream:
            yield from media.video_frames(stream, self.uri, range(start, media.FOREVER if end is None else end, step))

    get_frames = frames


FILES: Final = (File, TextFile, ImageFile, AudioFile, VideoFile)
