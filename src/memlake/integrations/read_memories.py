"""Reading memories that our export or another program wrote: which format a file has, and its items one by one.

`transfer.load_items(memories, read_memories("export.json"))` brings them in. A format is one line of FORMATS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

from memlake import integrations
from memlake.errors import InvalidInput
from memlake.integrations import chat_exports, claude_mem, coding_agents, fields, formats, letta, okf
from memlake.integrations.format import Format, Raw
from memlake.integrations.given import AnyPath, Given
from memlake.memories.forgotten import Forgotten
from memlake.memories.import_records import Item
from memlake.memories.transfer import Source
from memlake.objects import disk

# In the order in which they are looked for: the more a format asks for, the earlier it stands.
FORMATS = (
    formats.HATIDATA, claude_mem.CLAUDE_MEM, chat_exports.CHATGPT, chat_exports.CLAUDE, letta.LETTA, okf.OKF,
    coding_agents.CLAUDE_CODE, coding_agents.INSTRUCTIONS, formats.BASIC_MEMORY, formats.SERVER_MEMORY, formats.MEM0,
    formats.JSONL,
)  # fmt: skip
_KINDS = {"file": "a file", "folder": "a folder", "zip": "a zip", "stream": "standard input"}


class Reading(Source):
    """Items of a file, a folder or a stream in a known format.

    Of the many files of a folder or an archive a bad one is left out and named, whatever `skip_bad` says.
    """

    def __init__(self, given: Given, form: Format, *, skip_bad: bool) -> None:
        super().__init__(given.name, skip_bad=skip_bad or given.kind in ("folder", "zip"))
        self.format, self._raws = form.name, _name_errors(form.read(given), given.name)

    def __next__(self) -> Item:
        with disk.named_errors(f"reading {self.name}"):
            for raw in self._raws:
                problem = raw.problem
                if not problem and self.format == "jsonl" and "content" not in raw.fields:
                    try:
                        if self._takes_beside(raw.fields):
                            continue
                    except InvalidInput as error:
                        problem = error.message
                if not problem:
                    # Our own export says what its memories come from; of the others the format is all that is known.
                    origin = {"source": raw.fields.get("source") or self.format}
                    origin |= {} if self.format == "jsonl" else {"client": self.format}
                    try:
                        return fields.build_item({**raw.fields, **origin}, self.format)._replace(where=raw.where)
                    except InvalidInput as error:
                        problem = error.message.removesuffix(" Nothing was stored.")
                self.skip(f"{self.name}, {raw.where}: {problem}", InvalidInput)
        raise StopIteration

    def _takes_beside(self, given: Mapping[str, Any]) -> bool:
        """Whether a line is what our export says beside memories, which is kept until all is read."""
        found = fields.read_beside(given)
        if isinstance(found, Forgotten):
            self.forgotten.append(found)
        elif found is not None:
            self.states.append(found)
        return found is not None


def read_memories(source: AnyPath | IO[Any], *, format: str = "auto", skip_bad: bool = False) -> Reading:  # noqa: A002
    """Read the memories in a file, a folder or an open stream."""
    if format not in ("auto", *integrations.FORMAT_NAMES):
        raise InvalidInput(f"{format!r} is not a format; one of auto, {', '.join(integrations.FORMAT_NAMES)} is.")
    given = Given(source)
    with disk.named_errors(f"reading {given.name}"):
        return Reading(given, _choose_format(given, format), skip_bad=skip_bad)


def read_instructions(root: AnyPath) -> list[Item]:
    """The points of a project's instruction files; none where there are too many files to look through."""
    if not str(root) or not os.path.isdir(root):
        return []
    try:
        return list(Reading(Given(root), coding_agents.INSTRUCTIONS, skip_bad=True))
    except InvalidInput:
        return []


def _choose_format(given: Given, name: str) -> Format:
    """The format that is named, or the first that what is given looks like."""
    if name == "auto":
        found = next((form for form in FORMATS if given.kind in form.kinds and form.fits(given)), None)
        if found is None:
            raise _refusal(given)
        return found
    form = next(form for form in FORMATS if form.name == name)
    if given.kind not in form.kinds:
        allowed = " or ".join(_KINDS[kind] for kind in form.kinds)
        raise InvalidInput(f"{name} is read from {allowed}; {given.name} is {_KINDS[given.kind]}. Nothing was read.")
    return form


def _refusal(given: Given) -> InvalidInput:
    if given.kind in ("folder", "zip"):
        what = f"{given.name} is {_KINDS[given.kind]} without Markdown notes or an export that memlake knows."
        return InvalidInput(f"{what} Nothing was read.", hint=_advise(given))
    shown = given.head().strip()[:20].decode("utf-8", "replace")
    what = f"{given.name} is in no format memlake knows: it starts with {shown!r}."
    return InvalidInput(f"{what} Nothing was read.", hint=_advise(given))


def _advise(given: Given) -> str:
    return (
        f"If it is one of these, name it with --format: {', '.join(f.name for f in FORMATS if given.kind in f.kinds)}"
    )


def _name_errors(raws: Iterator[Raw], name: str) -> Iterator[Raw]:
    """Yield the same; an error about the whole file gets the name of the file."""
    try:
        yield from raws
    except InvalidInput as error:
        if error.message.startswith(name):
            raise
        raise InvalidInput(f"{name}: {error.message}", hint=error.hint) from None
