"""What `add` notes about a file beside its bytes: media type, columns, and whether it looks like a secret.

It looks at a file's name and its beginning only: it never changes anything, never reads a large file whole, and never
raises on content, because a damaged file is stored like any other. It runs for every file added, so a known suffix
must cost about a microsecond, and nothing slow is imported before a file needs it.
"""

from __future__ import annotations

import functools
import io
import os
import re
from itertools import islice
from typing import TYPE_CHECKING

from memlake.errors import pasted
from memlake.versions.text.lines import find_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Columns = tuple[tuple[str, str], ...]

TEXT = "text/plain"
BINARY = "application/octet-stream"
CSV = "text/csv"
TSV = "text/tab-separated-values"
JSONL = "application/jsonl"
PARQUET = "application/vnd.apache.parquet"

ROWS = 1000  # a column's type is taken from this many rows
HEAD = 1 << 20  # and from no more bytes than these


# -- media type

_SUFFIXES = {
    suffix: media
    for media, suffixes in {
        # tables and arrays
        CSV: "csv",
        TSV: "tsv tab",
        JSONL: "jsonl ndjson",
        PARQUET: "parquet pq",
        "application/vnd.apache.arrow.file": "arrow feather",
        "application/vnd.apache.arrow.stream": "arrows",
        "application/vnd.apache.avro": "avro",
        "application/vnd.apache.orc": "orc",
        "application/x-npy": "npy",
        "application/x-npz": "npz",
        "application/x-hdf5": "h5 hdf5 keras",
        "application/x-tfrecord": "tfrecord tfrecords",
        "application/vnd.sqlite3": "sqlite sqlite3 db",
        "application/vnd.duckdb": "duckdb",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
        "application/vnd.ms-excel": "xls",
        # models
        "application/x-pytorch": "pt pth ckpt",
        "application/x-safetensors": "safetensors",
        "application/x-onnx": "onnx",
        "application/x-gguf": "gguf ggml",
        "application/x-tflite": "tflite",
        "application/x-pickle": "pkl pickle joblib",
        "application/x-protobuf": "pb",
        # text
        TEXT: "txt text log out cfg conf ini env lock",
        "text/markdown": "md markdown",
        "text/x-rst": "rst",
        "text/html": "html htm",
        "text/css": "css",
        "text/x-python": "py pyi",
        "text/x-shellscript": "sh bash zsh",
        "text/javascript": "js mjs cjs",
        "text/x-typescript": "ts tsx",
        "text/x-c": "c h",
        "text/x-c++": "cc cpp cxx hpp",
        "text/x-rust": "rs",
        "text/x-go": "go",
        "text/x-java": "java",
        "text/x-r": "r",
        "text/x-tex": "tex",
        "text/x-jinja": "j2 jinja jinja2",
        "application/json": "json",
        "application/geo+json": "geojson",
        "application/x-ipynb+json": "ipynb",
        "application/yaml": "yaml yml",
        "application/toml": "toml",
        "application/xml": "xml",
        "application/sql": "sql",
        # documents
        "application/pdf": "pdf",
        "application/epub+zip": "epub",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
        # pictures, sound, film
        "image/png": "png",
        "image/jpeg": "jpg jpeg",
        "image/gif": "gif",
        "image/webp": "webp",
        "image/bmp": "bmp",
        "image/tiff": "tif tiff",
        "image/svg+xml": "svg",
        "image/avif": "avif",
        "image/heic": "heic",
        "application/dicom": "dcm",
        "audio/mpeg": "mp3",
        "audio/wav": "wav",
        "audio/flac": "flac",
        "audio/ogg": "ogg oga opus",
        "audio/mp4": "m4a",
        "video/mp4": "mp4 m4v",
        "video/quicktime": "mov",
        "video/webm": "webm",
        "video/x-matroska": "mkv",
        "video/x-msvideo": "avi",
        # archives
        "application/zip": "zip whl",
        "application/gzip": "gz tgz",
        "application/zstd": "zst",
        "application/x-bzip2": "bz2",
        "application/x-xz": "xz",
        "application/x-tar": "tar",
        "application/x-7z-compressed": "7z",
    }.items()
    for suffix in suffixes.split()
}

_MAGIC = (
    (b"PAR1", PARQUET),
    (b"ARROW1\0\0", "application/vnd.apache.arrow.file"),
    (b"\x93NUMPY", "application/x-npy"),
    (b"\x89HDF\r\n\x1a\n", "application/x-hdf5"),
    (b"GGUF", "application/x-gguf"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"Obj\x01", "application/vnd.apache.avro"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"\x1a\x45\xdf\xa3", "video/x-matroska"),
    (b"\x7fELF", "application/x-executable"),
)
_ANY_MAGIC = tuple(magic for magic, _ in _MAGIC)
_INSIDE = (  # (where, what, media): containers that name themselves a little later
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (8, b"AVI ", "video/x-msvideo"),
    (4, b"ftyp", "video/mp4"),
    (8, b'{"', "application/x-safetensors"),
    (257, b"ustar", "application/x-tar"),
)


def media_type(path: str, head: bytes) -> str:
    """The media type of a file by its suffix, or by its first bytes; of any other, whether it is text."""
    dot = path.rfind(".")
    by_suffix = _SUFFIXES.get(path[dot + 1 :].lower()) if dot > path.rfind("/") + 1 else None
    if by_suffix:
        return by_suffix
    if head.startswith(_ANY_MAGIC):
        return next(media for magic, media in _MAGIC if head.startswith(magic))
    for at, magic, media in _INSIDE:
        if head.startswith(magic, at) and (b"\0" in head[:at] or head.startswith(b"RIFF")):
            return media
    return TEXT if find_text(head, is_head=True) is not None else BINARY


# -- columns


def schema(file: str | os.PathLike[str], media: str) -> tuple[Columns, int | None]:
    """The columns of a table, and its number of rows if the head tells it; ((), None) for anything else."""
    if media == PARQUET:
        return _parquet(file)
    if media not in (CSV, TSV, JSONL):
        return (), None
    try:
        with open(file, "rb") as stream:
            head = stream.read(HEAD)
            whole = not stream.read(1)
    except OSError:
        return (), None
    text = _decode_head(head, whole)
    if not text:
        return (), None
    return _jsonl(text, whole) if media == JSONL else _table(text, whole, "\t" if media == TSV else ",")


def _decode_head(head: bytes, whole: bool) -> str:
    """The head as text up to its last whole line; empty if it is not text."""
    if not whole:
        head = head[: head.rfind(b"\n") + 1]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head.decode("utf-16", "ignore")
    text = find_text(head)
    if text is not None:
        return text.removeprefix("\ufeff")
    # Old spreadsheets write latin-1; names of columns may then look odd, types do not.
    return "" if b"\0" in head else head.decode("latin-1")


def _table(text: str, whole: bool, usual: str) -> tuple[Columns, int | None]:
    import csv

    try:
        rows = _rows(text, _delimiter(text, usual))
    except csv.Error:
        return (), None
    if not rows:
        return (), None
    complete = whole and len(rows) <= ROWS + 1
    rows = rows[: ROWS + 1]
    width = max(map(len, rows[:50]))
    columns = [[row[i].strip() if i < len(row) else "" for row in rows] for i in range(width)]
    first = [column[0] for column in columns]
    types = [_type(column[1:]) for column in columns]
    has_header = _has_header(first, types)
    if has_header:
        names = [name or f"column_{i}" for i, name in enumerate(first, 1)]
    else:
        names, types = [f"column_{i}" for i in range(1, width + 1)], [_type(column) for column in columns]
    return tuple(zip(names, types, strict=True)), len(rows) - has_header if complete else None


def _rows(text: str, delimiter: str, limit: int = ROWS + 2) -> list[list[str]]:
    import csv

    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    return list(islice((row for row in reader if row), limit))


def _delimiter(text: str, usual: str) -> str:
    """The separator that cuts the first rows into the same number of columns most often, the usual one on a tie."""
    best, best_score = usual, 0.0
    first_line = text[: text.find("\n")] if "\n" in text else text
    for delimiter in dict.fromkeys((usual, ",", ";", "\t", "|")):
        if delimiter not in first_line:
            continue
        widths = [len(row) for row in _rows(text, delimiter, 20)]
        score = widths.count(widths[0]) / len(widths) if widths and widths[0] > 1 else 0.0
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _has_header(first: Sequence[str], types: Sequence[str]) -> bool:
    """A first row of plain words is a header; one with values in it only if a word is above a typed column."""
    own = [_type([cell]) if cell else "" for cell in first]
    if all(kind in ("string", "") for kind in own):
        return any(own)
    return any(kind == "string" and column not in ("string", "null") for kind, column in zip(own, types, strict=True))


@functools.cache
def _lines_of(value: str) -> re.Pattern[str]:
    """A pattern for a whole column at once, one value a line and blanks allowed: far faster than cell by cell."""
    return re.compile(rf"(?:(?:{value})?\n)*+", re.IGNORECASE | re.ASCII)


_DATE = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TYPES = (  # compiled for the first table, because a merge loads this module and describes none
    # A leading zero is a code (a postcode, an id) and not a number, and so is more than fits 64 bits.
    ("int", r"[+-]?(?:0|[1-9]\d{0,17})"),
    ("float", r"[+-]?(?:(?:0|[1-9]\d{0,17})(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf|nan)"),
    ("bool", r"true|false"),
    ("date", _DATE),
    ("timestamp", rf"{_DATE}(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"),
)
_JSON_TYPES = {bool: "bool", int: "int", float: "float", str: "string", list: "array", dict: "object"}
_ABSENT = frozenset(("", "NA", "N/A", "null", "NULL", "None"))


def _type(cells: Iterable[str]) -> str:
    """The narrowest type that fits every cell; `null` if all are empty."""
    present = [cell for cell in cells if cell not in _ABSENT]
    if not present:
        return "null"
    lines = "\n".join(present) + "\n"
    return next((name for name, value in _TYPES if _lines_of(value).fullmatch(lines)), "string")


def _jsonl(text: str, whole: bool) -> tuple[Columns, int | None]:
    import json

    kinds: dict[str, str] = {}
    lines = [line for line in islice(io.StringIO(text), ROWS + 1) if not line.isspace()]
    for line in lines[:ROWS]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return (), None
        if not isinstance(record, dict):
            return (), None
        for name, value in record.items():
            kind = _JSON_TYPES.get(type(value), "null")
            seen = kinds.get(name, kind)
            if "null" in (seen, kind):
                kinds[name] = kind if seen == "null" else seen
            elif seen != kind:
                kinds[name] = "float" if {seen, kind} == {"int", "float"} else "json"
            else:
                kinds[name] = kind
    return tuple(kinds.items()), len(lines) if whole and len(lines) <= ROWS else None


def _parquet(file: str | os.PathLike[str]) -> tuple[Columns, int | None]:
    try:
        with open(file, "rb") as stream:
            begin = stream.read(4)
            stream.seek(-4, os.SEEK_END)
            end = stream.read(4)
    except OSError:
        return (), None
    if (begin, end) != (b"PAR1", b"PAR1"):
        return (), None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as table:
            columns = tuple((field.name, str(field.type)) for field in table.schema_arrow)
            return columns, table.metadata.num_rows
    except (pa.ArrowException, OSError, ValueError, RuntimeError, MemoryError):
        return (), None


# -- secrets

_SECRET_NAMES = {
    "id_rsa": "a private SSH key",
    "id_dsa": "a private SSH key",
    "id_ecdsa": "a private SSH key",
    "id_ed25519": "a private SSH key",
    ".netrc": "passwords for machines",
    "_netrc": "passwords for machines",
    ".pgpass": "database passwords",
    ".git-credentials": "git passwords",
    ".htpasswd": "passwords of a web server",
    ".dockercfg": "registry passwords",
    "credentials.json": "credentials of a service",
    "client_secret.json": "credentials of a service",
    "secrets.json": "secrets",
    "secrets.yaml": "secrets",
    "secrets.yml": "secrets",
    "secrets.toml": "secrets",
}
_SECRET_PLACES = {  # by their last part: the whole place, and what it holds
    "credentials": (".aws/credentials", "AWS credentials"),
    "config": (".kube/config", "credentials of a cluster"),
    "config.json": (".docker/config.json", "registry passwords"),
}
_SECRET_SUFFIXES = {
    "p12": "a private key and certificate",
    "pfx": "a private key and certificate",
    "jks": "a key store",
    "keystore": "a key store",
    "kdbx": "a password database",
    "ppk": "a private SSH key",
    "key": "a private key",
}
_SECRET_CONTENT = {
    ".npmrc": ((b"_authtoken", b"_password", b"_auth="), "a token for a package registry"),
    ".pypirc": ((b"password",), "a token for a package registry"),
    ".yarnrc.yml": ((b"npmauthtoken",), "a token for a package registry"),
}
_SAMPLES = (".example", ".sample", ".template", ".dist", ".defaults")
_PRIVATE_KEY = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")


def secret_warning(path: str, head: bytes, typed: Callable[[str], str] = pasted) -> str | None:
    """One line that says what secret `path` seems to hold and how to take it out again, or None.

    `typed` writes the path for a command.
    """
    what = _find_secret(path, head)
    if what is None:
        return None
    word = typed(path)
    return (
        f"{path} looks like {what}. If it should not be kept for ever, unstage it with "
        f"`memlake restore --staged {word}` and keep it out with `echo {word} >> .memlakeignore`."
    )


def _find_secret(path: str, head: bytes) -> str | None:
    name = path[path.rfind("/") + 1 :].lower()
    if name in _SECRET_NAMES:
        return _SECRET_NAMES[name]
    if name.startswith(".env") and (name == ".env" or name[4] in ".-_"):
        return None if name.endswith(_SAMPLES) else "environment settings, often with passwords"
    if name in _SECRET_CONTENT:
        words, what = _SECRET_CONTENT[name]
        return what if any(word in head.lower() for word in words) else None
    suffix = name[name.rfind(".") + 1 :]
    if suffix in _SECRET_SUFFIXES:
        return None if head.startswith(b"PK\x03\x04") else _SECRET_SUFFIXES[suffix]  # a Keynote file is a zip, too
    place, what = _SECRET_PLACES.get(name, ("", ""))
    if place and f"/{path}".endswith(f"/{place}"):
        return what
    # Keys are text: in a PEM file at its start or after a certificate, in a service account inside its JSON.
    if head.startswith(b"-----BEGIN") or suffix in ("pem", "asc"):
        return "a private key" if _PRIVATE_KEY.search(head) else None
    if suffix == "json" and b'"private_key"' in head and _PRIVATE_KEY.search(head):
        return "credentials of a service"
    return None
