"""File and its kinds: a reference to bytes in a storage, read when asked."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, Self, TextIO, TypeVar

import numpy as np
import pyarrow as pa

from memlake.dataset import storages
from memlake.dataset.types import media
from memlake.errors import InvalidInput

FILE: Final = pa.struct(list(storages.SCHEMA))
NAMES: Final = tuple(child.name for child in FILE)
LOCAL: Final = "file://"
F = TypeVar("F", bound="File")


PLACE: Final = "place"  # what was looked at of a file that says where it lies or when it was written
PATH: Final = "path"  # or its path within the storage; all else is said by its bytes


def watch(values: Iterable[Any], looked: set[str]) -> None:
    """From now on the local files among these note in `looked` what of theirs is read beside their bytes."""
    for value in values:
        if isinstance(value, File):
            value._looked = looked if is_local(value) else None
        elif value is not None:  # a dict or an array of all that is known of a file
            looked.add(PLACE)
            return


def is_local(file: File) -> bool:
    return file._source.startswith("file:")


def _attribute(name: str, what: str) -> Any:
    slot = f"_{name}"
    read = attrgetter(slot)

    def get(self: File) -> Any:
        if self._looked is not None:
            self._looked.add(what)
        return read(self)

    def put(self: File, value: Any) -> None:
        self._note_place()  # its bytes may be those of another file from now on
        setattr(self, slot, value)

    return property(get, put)


class File:
    """Bytes somewhere: `source` is the storage (s3://bucket, file:///folder), `path` is relative to it."""

    __slots__ = ("_etag", "_last_modified", "_looked", "_path", "_source", "is_latest", "size", "version")

    _looked: set[str] | None  # what was looked at, while a function has it whose answers may go to other machines
    source: str = _attribute("source", PLACE)
    path: str = _attribute("path", PATH)
    etag: str = _attribute("etag", PLACE)
    last_modified: datetime | None = _attribute("last_modified", PLACE)

    def __init__(  # noqa: PLR0917 -- rows are built by position, 150 ns each
        self,
        source: str,
        path: str,
        size: int = 0,
        version: str = "",
        etag: str = "",
        is_latest: bool = True,
        last_modified: datetime | None = None,
    ) -> None:
        self._source = source
        self._path = path
        self.size = size
        self.version = version
        self._etag = etag
        self.is_latest = is_latest
        self._last_modified = last_modified
        self._looked = None

    def _values(self) -> tuple[Any, ...]:
        self._note_place()
        return self._raw()

    def _raw(self) -> tuple[Any, ...]:
        return (
            self._source, self._path, self.size, self.version, self._etag, self.is_latest, self._last_modified,
        )  # fmt: skip

    def _note_place(self) -> None:
        if self._looked is not None:
            self._looked.add(PLACE)

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[str]:
        """The uri for messages. What fails says where the file lies, so only then that counts as looked at."""
        try:
            yield f"{self._source.rstrip('/')}/{self._path}" if self._source else self._path
        except Exception:
            self._note_place()
            raise

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
        """A seekable stream of the bytes. It does not say which file they are of."""
        return self._open()

    def _open(self) -> BinaryIO:
        try:
            return storages.open_file(storages.Known(self._source, self._path, self.size, self.version, self._etag))
        except Exception:  # it says where the file lies
            self._note_place()
            raise

    def read_bytes(self) -> bytes:
        with self._open() as stream:
            return stream.read()

    def read(self) -> Any:
        return self.read_bytes()

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        data = self.read_bytes()
        with self._named_errors() as uri:
            try:
                return data.decode(encoding, errors)
            except UnicodeDecodeError as error:
                raise InvalidInput(
                    f"{uri} is not {encoding} text: byte {error.object[error.start]:#04x} at {error.start}.",
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
        with self._open() as stream:
            storages.write_file(target, stream)
        return target

    def _target(self, destination: str | os.PathLike[str]) -> str:
        self._note_place()  # an answer that came from elsewhere would write nothing
        target = os.fspath(destination)
        folder = target.endswith("/") or ("://" not in target and Path(target).is_dir())
        return f"{target.rstrip('/')}/{self.name}" if folder else target

    # -- kinds

    def _as(self, kind: type[F]) -> F:
        other = kind(*self._raw())
        other._looked = self._looked
        return other

    def as_file(self) -> File:
        return self._as(File)

    def as_text(self) -> TextFile:
        return self._as(TextFile)

    def as_image(self) -> ImageFile:
        return self._as(ImageFile)

    def as_audio(self) -> AudioFile:
        return self._as(AudioFile)

    def as_video(self) -> VideoFile:
        return self._as(VideoFile)

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
        with self._open() as stream:
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
        return io.TextIOWrapper(self._open(), encoding, errors)

    def read(self) -> str:
        return self.read_text()


class ImageFile(File):
    """An image: read() gives a loaded PIL image."""

    __slots__ = ()

    def read(self) -> Any:
        with self._named_errors() as uri, self.open() as stream:
            return media.read_image(stream, uri)

    def get_info(self) -> media.ImageInfo:
        with self._named_errors() as uri, self.open() as stream:
            return media.image_info(stream, uri)

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
        with self._named_errors() as uri, self.open() as stream:
            return media.read_audio(stream, uri)

    def get_info(self) -> media.AudioInfo:
        with self._named_errors() as uri, self.open() as stream:
            return media.audio_info(stream, uri)


class VideoFile(File):
    """A video: frames() gives images."""

    __slots__ = ()

    def get_info(self) -> media.VideoInfo:
        with self._named_errors() as uri, self.open() as stream:
            return media.video_info(stream, uri)

    def frames(self, step: int = 1, *, start: int = 0, end: int | None = None) -> Iterator[Any]:
        """Every step-th frame of start..end (frame numbers, end not included) as a PIL image."""
        with self._named_errors() as uri, self.open() as stream:
            yield from media.video_frames(stream, uri, range(start, media.FOREVER if end is None else end, step))

    get_frames = frames


FILES: Final = (File, TextFile, ImageFile, AudioFile, VideoFile)
