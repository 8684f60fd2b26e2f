"""Formats of memory servers: our own lines of JSON, server-memory, mem0, basic-memory and HatiData."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from memlake.errors import InvalidInput, Unavailable
from memlake.identifiers import quote
from memlake.integrations import markdown_notes
from memlake.integrations.format import Format, Raw
from memlake.integrations.given import LONGEST, NOTE, Given, list_keys

_LOCAL, _TABLE = ("_hatidata_memory_local", "agent_memories"), "_hatidata_agent_memory"  # HatiData's
_JSON = (type(None), bool, int, float, str, list, dict)


# -- lines of JSON ----------------------------------------------------------------------------


def _read_jsonl(given: Given) -> Iterator[Raw]:
    return read_json_lines(given.lines())


def _fits_jsonl(given: Given) -> bool:
    return given.head().removeprefix(codecs.BOM_UTF8).strip()[:1] in (b"", b"{")


def read_json_lines(lines: Iterable[bytes]) -> Iterator[Raw]:
    """One JSON object a line: our own export, and whatever else has a `content`."""
    for number, line in enumerate(lines, 1):
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if len(text) > LONGEST:
            yield Raw(f"line {number}", problem=f"it has more than {LONGEST >> 20} MiB.")
        elif text.strip():
            yield parse_line(text.rstrip(), f"line {number}")


def parse_line(line: bytes, where: str) -> Raw:
    try:
        found = json.loads(line.decode())
    except UnicodeDecodeError as error:
        return Raw(where, problem=f"byte {error.start + 1} is not UTF-8 ({line[error.start]:#04x}).")
    except json.JSONDecodeError as error:
        return Raw(where, problem=f"it is not JSON: {error.msg} at column {error.colno}.")
    except (ValueError, RecursionError) as error:
        return Raw(where, problem=f"it is not JSON that can be read: {error}.")
    if not isinstance(found, dict):
        return Raw(where, problem=f"it must be a JSON object, not {type(found).__name__}.")
    return Raw(where, found)


# -- server-memory ----------------------------------------------------------------------------


def _fits_server_memory(given: Given) -> bool:
    opens, keys = list_keys(given.head())
    is_known = "type" in keys and not keys.isdisjoint(("entityType", "observations", "relationType"))
    return opens == "{" and is_known and keys.isdisjoint(("content", "text", "memory"))


def read_server_memory(given: Given) -> Iterator[Raw]:
    """Entities and relations of the MCP memory server: an observation is a memory, and so is a relation."""
    for raw in _read_jsonl(given):
        if raw.problem:
            yield raw
        elif raw.fields.get("type") == "entity":
            yield from _read_entity(raw)
        elif raw.fields.get("type") == "relation":
            yield _parse_relation(raw)
        else:
            yield raw._replace(problem=f'its "type" is {raw.fields.get("type")!r}, not entity or relation.')


def _read_entity(raw: Raw) -> Iterator[Raw]:
    name, kind, said = (raw.fields.get(key) for key in ("name", "entityType", "observations"))
    if not isinstance(name, str) or not name.strip() or not isinstance(said, list | None):
        yield raw._replace(problem='an entity has a "name" and a list of "observations".')
        return
    kind = kind if isinstance(kind, str) else ""
    more = {"entity": name} | ({"entity_type": kind} if kind else {})
    article = "an" if kind[:1].lower() in tuple("aeiou") else "a"
    for one in said or [f"{name} is {article} {kind}" if kind else name]:
        content = markdown_notes.describe_entity(name, one) if isinstance(one, str) else one
        yield raw._replace(fields={"content": content, "category": kind, "metadata": more})


def _parse_relation(raw: Raw) -> Raw:
    ends = [raw.fields.get(key) for key in ("from", "relationType", "to")]
    if not all(isinstance(end, str) and end.strip() for end in ends):
        return raw._replace(problem='a relation has a "from", a "to" and a "relationType".')
    one, kind, other = map(str, ends)
    more = {"entity": one, "relation": kind, "to": other}
    return raw._replace(fields={"content": markdown_notes.describe_relation(one, kind, other), "metadata": more})


# -- mem0 -------------------------------------------------------------------------------------


def _fits_mem0(given: Given) -> bool:
    """A list, a document with `results`, or one that is spread over lines; or one of its memories a line."""
    opens, keys = list_keys(given.head())
    if opens == "[":
        return True
    if opens != "{" or keys >= {"content", "memory_type"}:
        return False
    if not keys.isdisjoint(("results", "memories")):
        return True
    first = given.head().lstrip(codecs.BOM_UTF8 + b" \t\r\n").partition(b"\n")[0]
    is_one = "memory" in keys and not keys.isdisjoint(("hash", "user_id", "categories"))
    return is_one or first.strip() == b"{"


def read_mem0(given: Given) -> Iterator[Raw]:
    """mem0's export and what `get_all` gives: a list, a document with `results` (and `relations`), or lines of JSON."""
    text = given.read()
    try:
        found = json.loads(text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"line {line} is not UTF-8 ({text[error.start]:#04x}). Nothing was read.") from None
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":  # a whole document, and then another: one a line
            yield from (
                raw if raw.problem else _parse_mem0(raw.fields, raw.where) for raw in read_json_lines(io.BytesIO(text))
            )
            return
        at = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput(f"it is not JSON: {error.msg} at {at}. Nothing was read.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"it is not JSON that can be read: {error}. Nothing was read.") from None
    listed, relations = _split_document(found)
    for number, one in enumerate(listed, 1):
        yield _parse_mem0(one, f"item {number}")
    for number, one in enumerate(relations, 1):
        yield _parse_mem0_relation(one, f"relation {number}")


def _split_document(found: Any) -> tuple[list[Any], list[Any]]:
    if isinstance(found, list):
        return found, []
    inside = found if isinstance(found, dict) else {}
    if isinstance(inside.get("memory"), str):
        return [inside], []
    listed = next(
        (inside[name] for name in ("results", "memories", "data") if isinstance(inside.get(name), list)), None
    )
    if listed is None:
        raise InvalidInput('it is neither a list of memories nor a document with "results". Nothing was read.')
    relations = inside.get("relations")
    return listed, relations if isinstance(relations, list) else []


def _parse_mem0(one: Any, where: str) -> Raw:
    if not isinstance(one, Mapping):
        return Raw(where, problem=f"it must be a JSON object, not {type(one).__name__}.")
    fields = {name: value for name, value in one.items() if name not in ("hash", "score")}  # made from the content
    filed = fields.pop("categories", None) or []
    filed = [filed] if isinstance(filed, str) else filed
    if isinstance(filed, list) and filed and "category" not in fields:
        fields["category"], fields["tags"] = filed[0], [*filed[1:], *(fields.get("tags") or [])]
    return Raw(where, fields)


def _parse_mem0_relation(one: Any, where: str) -> Raw:
    fields = one if isinstance(one, dict) else {}
    ends = [fields.get("source"), fields.get("relationship"), fields.get("target") or fields.get("destination")]
    if not all(isinstance(end, str) and end.strip() for end in ends):
        return Raw(where, problem='a relation has a "source", a "relationship" and a "target".')
    first, kind, other = map(str, ends)
    more = {"entity": first, "relation": kind, "to": other}
    return Raw(where, {"content": markdown_notes.describe_relation(first, kind, other), "metadata": more})


# -- basic-memory -----------------------------------------------------------------------------


def _fits_basic_memory(given: Given) -> bool:
    return next(_list_notes(given), None) is not None


def read_basic_memory(given: Given) -> Iterator[Raw]:
    """A folder of Markdown notes: an observation is a memory, a relation too, and what else a note says is one."""
    for name in _list_notes(given):
        raw = read_text(given, name)
        if isinstance(raw, Raw):
            yield raw
        else:
            yield from _read_note(raw, name, given.find_time(name))


def _list_notes(given: Given) -> Iterator[str]:
    return (name for name in given.names if name.lower().endswith(".md"))


def read_text(given: Given, name: str) -> str | Raw:
    """A file of text, or what is wrong with it."""
    try:
        return given.read(name, NOTE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Raw(name, problem=f"byte {error.start + 1} is not UTF-8.")
    except InvalidInput as error:  # too long, or it cannot be unpacked
        return Raw(name, problem=error.message.removeprefix(f"{given.label(name)} ").removesuffix(" Nothing was read."))


def _read_note(text: str, name: str, when: datetime) -> Iterator[Raw]:
    note = markdown_notes.parse(text)
    front = dict(note.front)
    title = str(front.pop("title", "") or Path(name).stem)
    place = str(front.pop("permalink", "") or name.removesuffix(".md"))
    times = {
        "created_at": next((front.pop(key) for key in ("created_at", "created", "date") if key in front), when),
        "updated_at": next((front.pop(key) for key in ("updated_at", "updated", "modified") if key in front), when),
    }
    tags = front.pop("tags", [])
    tags = [tag.strip(" #") for tag in (tags.split(",") if isinstance(tags, str) else tags)]
    for line, said in markdown_notes.facts(note, title):
        known = {"id": f"{place}\0{said['content']}", "source": f"basic-memory:{place}"[:512], **times}
        more = {**front, "title": title, "permalink": place, **said.get("metadata", {})}
        yield Raw(f"{name}, line {line}", {**said, **known, "tags": [*said.get("tags", []), *tags], "metadata": more})


# -- HatiData ---------------------------------------------------------------------------------


def _fits_hatidata(given: Given) -> bool:
    return given.head()[8:12] == b"DUCK"


def read_hatidata(given: Given) -> Iterator[Raw]:
    """The memories in a DuckDB file of HatiData."""
    path = given.path or Path()
    try:
        import duckdb  # type: ignore[import-not-found,unused-ignore]  # not ours: only this one reader wants it
    except ImportError:
        raise Unavailable(
            f"{path} is a DuckDB file: reading it takes the package duckdb, which is not here. Nothing was read.",
            hint="Install it with: pip install duckdb",
        ) from None
    try:
        # A view in it may name any file.
        with duckdb.connect(str(path), read_only=True, config={"enable_external_access": False}) as db:
            db.execute("SET lock_configuration = true")
            for schema, table in _find_tables(db, path):
                yield from _read_rows(db, schema, table)
    except duckdb.Error as error:
        told = str(error).splitlines()[0]
        raise Unavailable(
            f"{path} cannot be read as a DuckDB file: {told}", hint="Close the program that has it open, and try again."
        ) from error


def _find_tables(db: Any, path: Path) -> list[tuple[str, str]]:
    there = db.execute("SELECT table_schema, table_name FROM information_schema.tables ORDER BY ALL").fetchall()
    found = [known for known in there if known == _LOCAL or known[1] == _TABLE]
    if not found:
        named = f"{'.'.join(_LOCAL)} nor {_TABLE}"
        raise InvalidInput(f"{path} has no memories of HatiData: there is neither {named}. Nothing was read.")
    return found


def _read_rows(db: Any, schema: str, table: str) -> Iterator[Raw]:
    rows = db.execute(f"SELECT * FROM {quote(schema)}.{quote(table)}")
    names = [column[0] for column in rows.description]
    number = 0
    while part := rows.fetchmany(1000):
        for row in part:
            number += 1
            yield parse_row(names, row, f"{table} row {number}")


def parse_row(names: Iterable[str], row: Iterable[Any], where: str) -> Raw:
    """A row of HatiData's table. Its JSON columns come as text; ids and times become text."""
    fields = {name: value if isinstance(value, _JSON) else str(value) for name, value in zip(names, row, strict=True)}
    for name, kind in (("metadata", dict), ("tags", list)):
        text = fields.get(name)
        if isinstance(text, str):
            try:
                value = json.loads(text) if text.strip() else None
            except ValueError:
                return Raw(where, problem=f"its {name} is not JSON.")
            fields[name] = value if value is None or isinstance(value, kind) else {name: value}
    return Raw(where, fields)


JSONL = Format(
    "jsonl", "our own export, and other JSON lines with a content", ("file", "stream"), _fits_jsonl, _read_jsonl
)
SERVER_MEMORY = Format(
    "server-memory", "the lines of the MCP memory server", ("file", "stream"), _fits_server_memory, read_server_memory
)
MEM0 = Format("mem0", "an export of mem0", ("file", "stream"), _fits_mem0, read_mem0)
BASIC_MEMORY = Format(
    "basic-memory", "a folder of basic-memory notes", ("folder", "zip"), _fits_basic_memory, read_basic_memory
)
HATIDATA = Format("hatidata", "a DuckDB file of HatiData", ("file",), _fits_hatidata, read_hatidata)
