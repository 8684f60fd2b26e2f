"""What a person typed, as sentences and words: without what was pasted, and with what leads in set apart. Pure.

A prompt holds logs, code, quotes and text from elsewhere, and none of that is the person's word. Cues are looked for in
a form where quoted parts are masked; what is kept is cut from the text as it was typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from memlake.memories.sessions.cues import chinese as zh
from memlake.memories.sessions.cues import english as en
from memlake.named_tuple import NamedTuple

READ = 20_000  # characters of a prompt that are looked at
_TYPED = 2500  # a longer one has pasted prose: its first and last paragraphs are the person's
_LINE = 8000  # characters of a line that nobody types
_TAGGED = 4  # words of a statement before a tag makes it a question
_END = 600  # characters of its end that are
_WORDS = re.compile(r"[^\W_]['\w@#./\\+*$%&=<>-]*|[@#./\\*$%&=<>_-]+\w['\w@#./\\+*$%&=<>-]*|[,;:!?()—–]| -+ ")  # noqa: RUF001
_ENDS = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=\S)|(?<=[。！？；!?])\s*|\n+")  # noqa: RUF001
_ABBREVIATED = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|approx|no|cf|resp|dr|mr|mrs|ms|st|incl|z\.B)|\b[A-Z])\.$")
_QUOTED = re.compile(
    r'"[^"\n]{1,300}"|“[^”\n]{1,300}”|「[^」\n]{1,300}」|`[^`\n]{1,300}`|(?<![\w])\'[^\'\n]{2,300}\'(?!\w)'
)
_CJK = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_BULLET = re.compile(r"\s*(?:[-*•+]|\d{1,2}[.)])\s+(?=\S)")
_MACHINE = re.compile(  # a line that a program wrote, or that is code
    r"\s*(?:>|\||\$ |@@|\+\+\+|---|===|diff --git|index [0-9a-f]{7}|at [\w.$<>]+ ?\(|File \"|Traceback|npm ERR|E  "
    r"|FAILED|PASSED|(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b"
    r"|(?:error|warning|fatal|info|debug|warn|note|critical|exception)\b *[\[:(]|\w*(?:Error|Exception|Warning)\b"
    r" *:|\*\* |\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|#include|import [\w.{*]+"
    r"|from [\w.]+ import|def \w+\(|class \w+[:({]"
    r"|(?:const|let|var|public|private|static|function|return|async|export|func|fn|type|interface|struct) .*[;{(=]"
    r"|[\w./\\-]+:\d+(?::\d+)?:? |hint: |Hint: |help: |(?:From|To|Cc|Subject|Sent|Von|An|Betreff): "
    r"|SELECT |INSERT |CREATE |[{}\[\]();]+\s*$|<[/!?a-zA-Z][^>]*>|\w+@\w+[:~]|[\w.-]+ *[:=] *[\[{\"']|%|Step \d|#\d+ )"
)
_MAIL = re.compile(r"(?:From|To|Cc|Date|Subject|Sent|Von|An|Betreff): ")
_CODE_END = re.compile(r"[;{}\\]\s*$|\)\s*:\s*$|=>\s*$")
_SOURCES = frozenset(
    [
        "this",
        "says",
        "said",
        "wrote",
        "following",
        "below",
        "here",
        "got",
        "error",
        "output",
        "message",
        "mail",
        "docs",
        "readme",
        "slack",
        "log",
        "reads",
    ]
)


class Word(NamedTuple):
    """A word with its place in the sentence; `low` as cues are written."""

    text: str
    low: str
    start: int
    end: int
    quoted: bool = False


class Sentence:
    """`listed`: a point of a list; `opens_list`: one follows; `follows`: it comes right after another one."""

    def __init__(self, text: str, *, listed: bool = False, opens_list: bool = False, follows: bool = False) -> None:
        self.text, self.listed, self.opens_list, self.follows = text, listed, opens_list, follows

    @cached_property
    def masked(self) -> str:
        """The text with what is quoted made unreadable: somebody else's words are no cue."""
        return _mask(self.text)

    @cached_property
    def is_cjk(self) -> bool:
        return has_cjk(self.masked)

    @cached_property
    def words(self) -> list[Word]:
        """Words and, as `,`, what parts clauses."""
        found = []
        for match in _WORDS.finditer(self.masked):
            low = match[0].lower().strip(".").replace("’", "'")  # noqa: RUF001
            low = "," if not low[:1].isalnum() and low.strip(" ;:!?()—–,-") == "" else low  # noqa: RUF001
            if low:
                quoted = self.text[match.start() : match.end()] != match[0]
                found.append(Word(self.text[match.start() : match.end()], low, match.start(), match.end(), quoted))
        return found

    @cached_property
    def padded(self) -> str:
        return f" {' '.join(word.low for word in self.words)} "

    @cached_property
    def _lead(self) -> int:
        """How many words lead in: `no,`, `one more thing:`, `from now on`."""
        low = [word.low for word in self.words]
        at = 0
        while at < len(low) - 1:
            step = _count_lead(low, at)
            if not step:
                break
            at += step
        return at

    @property
    def lead(self) -> str:
        """The words that lead in, as cues are written."""
        return f" {' '.join(word.low for word in self.words[: self._lead])} "

    @cached_property
    def corrects(self) -> bool:
        """Whether it says that the agent did or knew it wrong."""
        if self.is_cjk:
            return any(cue in self.text[:12] for cue in zh.CORRECT)
        said = f"{self.lead}{self.padded[:30]}"
        return not en.CORRECTING.isdisjoint(self.lead.split()) or any(cue in said for cue in en.CORRECTING_PHRASES)

    @cached_property
    def remembered(self) -> bool:
        """Whether it is to be remembered by its own words."""
        if self.is_cjk:
            return self.text.startswith(zh.REMEMBER)
        start = f" {' '.join(word.low for word in self.words[:5])} "
        return any(cue in start for cue in en.REMEMBERING)

    @cached_property
    def core(self) -> str:
        """The text without what leads in, as it is worth keeping."""
        text = self.text
        if self.is_cjk:
            text = _strip_cjk_leads(text, (*zh.LEADS, *zh.CUT_LEADS))
        elif self._lead < len(self.words):
            text = text[self.words[self._lead].start :]
        return text.strip().rstrip(",;: ")

    def list_clauses(self) -> Iterator[list[Word]]:
        """The clauses after what leads in: parted by commas, and by `and`, `but`, `so` before a new one."""
        clause: list[Word] = []
        words = self.words[self._lead :]
        for at, word in enumerate(words):
            following = words[at + 1].low if at + 1 < len(words) else ""
            if word.low == "," or (word.low in en.JOINING and following in en.STARTERS and clause):
                yield from _trim_clause(clause)
                clause = []
            elif clause or word.low not in en.JOINING:
                clause.append(word)
        yield from _trim_clause(clause)


def _mask(text: str) -> str:
    return _QUOTED.sub(lambda found: f"{found[0][0]}{'x' * (len(found[0]) - 2)}{found[0][-1]}", text)


def has_cjk(text: str) -> bool:
    return not text.isascii() and len(_CJK.findall(text)) >= 2


def _trim_clause(clause: list[Word]) -> Iterator[list[Word]]:
    """A clause without the words that lead in, if anything is left of it."""
    low = [word.low for word in clause]
    at = 0
    while at < len(low) - 1 and low[at] in en.LEADS:
        at += 1
    if clause[at:]:
        yield clause[at:]


def _count_lead(low: Sequence[str], at: int) -> int:
    """The words from here that lead in; 0 for none."""
    if low[at] == ",":
        return 1
    for phrase in en.LEAD_PHRASES:
        if low[at] == phrase[0] and tuple(low[at : at + len(phrase)]) == phrase and low[at + len(phrase) :]:
            return 0 if low[at + len(phrase)] == "not" else len(phrase)
    if low[at] in en.LEADS:
        return 1
    apart = low[at] in en.LEADS_APART and low[at + 1] == ","
    return 1 if apart else 0


def _strip_cjk_leads(text: str, leads: Sequence[str]) -> str:
    longest = sorted(leads, key=len, reverse=True)
    for _ in range(4):
        rest = text.lstrip("，,、：: 。！!")  # noqa: RUF001
        lead = next((one for one in longest if rest.startswith(one)), "")
        after = rest[len(lead) :]
        apart = after[:1] in "，,、：: 。！!" or lead in zh.CUT_LEADS  # noqa: RUF001
        if not lead or not after.strip("，,、：: 。！!吧了的") or not apart:  # noqa: RUF001
            return rest
        text = after
    return text.lstrip("，,、：: ")  # noqa: RUF001


def list_cjk_clauses(text: str) -> list[str]:
    return [part.strip() for part in re.split("[，,、：:]", text) if part.strip()]  # noqa: RUF001


# -- what was typed ---------------------------------------------------------------------------


def list_sentences(text: str, *, typed: bool = True) -> list[Sentence]:
    """The sentences of a text in order, without code, logs and quotes; of a `typed` one also without pasted prose."""
    found: list[Sentence] = []
    lines = _list_lines(text, typed=typed)
    for at, line in enumerate(lines):
        bullet = _BULLET.match(line)
        body = line[bullet.end() :] if bullet else line.strip().lstrip("# ")
        opens = body.rstrip().endswith((":", "：")) and any(_BULLET.match(one) for one in lines[at + 1 : at + 3])  # noqa: RUF001
        for number, part in enumerate(_split(body)):
            if part.strip(" \t.,;:!?-"):
                first = number == 0
                found.append(Sentence(part.strip(), listed=bool(bullet) and first, opens_list=opens, follows=not first))
    return found


def _split(text: str) -> Iterator[str]:
    start = 0
    for found in _ENDS.finditer(_mask(text)):
        if not _ABBREVIATED.search(text[start : found.start()]):
            yield text[start : found.end()].strip()
            start = found.end()
    yield text[start:]


def _list_lines(text: str, *, typed: bool) -> list[str]:
    """The lines that are prose. Of a long prompt the first paragraph and the last, if prose was pasted between."""
    text = _drop_blocks(text[:READ])
    lines = text.replace("\r", "\n").split("\n")
    machine = [_is_machine(line, at) for at, line in enumerate(lines)]
    for at in range(1, len(lines) - 1):  # what stands between two lines of a log belongs to it
        machine[at] = machine[at] or (machine[at - 1] and any(machine[at + 1 : at + 3]))
    heads = [at for at, line in enumerate(lines) if _MAIL.match(line)]
    if len(heads) > 1:  # a mail, up to the last paragraph, which is the person's
        last = max((at for at, line in enumerate(lines) if not line.strip()), default=len(lines))
        machine[heads[0] : last] = [True] * (last - heads[0])
    kept = ["" if bad else line for line, bad in zip(lines, machine, strict=True)]
    kept = _drop_quotes(kept)
    return kept if not typed or sum(map(len, kept)) <= _TYPED else _keep_ends(kept)


def _drop_blocks(text: str) -> str:
    """The text without fenced code and without what programs put in between tags."""
    parts = text.split("```")
    text = "\n".join(parts[::2])
    for _ in range(20):
        start = text.find("<")
        while start >= 0 and not text[start + 1 : start + 2].isalpha():
            start = text.find("<", start + 1)
        end = text.find(">", start) if start >= 0 else -1
        if start < 0 or end < 0:
            return text
        name = text[start + 1 : end].split(" ")[0]
        close = text.find(f"</{name}>", end)
        if close < 0 or not name.replace("-", "").replace("_", "").isalnum():
            return text
        text = f"{text[:start]}\n{text[close + len(name) + 3 :]}"
    return text


def _is_machine(line: str, at: int) -> bool:
    if not line.strip():
        return False
    if _MACHINE.match(line) or _CODE_END.search(line) or len(line) > _LINE:
        return True
    if line[0] in " \t" and at > 0 and not _BULLET.match(line):
        return True  # indented below something else
    signs = sum(not (one.isalnum() or one.isspace() or one in ".,'?!，。？！、") for one in line[:400])  # noqa: RUF001
    return signs * 4 > len(line[:400]) and len(line) > 12


def _drop_quotes(lines: Sequence[str]) -> list[str]:
    """Without what follows `the mail says:`, up to the next empty line."""
    kept, quoting = list[str](), False
    for at, line in enumerate(lines):
        end = line.rstrip()
        if quoting and not line.strip() and kept and any(one.strip() for one in lines[:at][-1:]):
            quoting = False
        kept.append("" if quoting else line)
        introduced = end.endswith((":", "：")) and any(one.strip() for one in lines[at + 1 : at + 3])  # noqa: RUF001
        low = f" {' '.join(word.lower() for word in re.findall('[A-Za-z]+', end))} "
        if introduced and _SOURCES & set(low.split()) and not any(cue in low for cue in (*en.LASTING, *en.INTRODUCING)):
            quoting = True
    return kept


def _keep_ends(lines: Sequence[str]) -> list[str]:
    texts = [at for at, line in enumerate(lines) if line.strip()]
    first = next((at for at in range(texts[0], len(lines)) if not lines[at].strip()), len(lines)) if texts else 0
    head = lines[: min(first, 12)]
    tail: list[str] = []
    for line in reversed(lines[len(head) :]):
        if sum(map(len, tail)) + len(line) > _END or (tail and not line.strip() and sum(map(len, tail))):
            break
        tail.insert(0, line)
    return [line for line in (*head, "", *tail) if len(line) <= _TYPED]


# -- what a sentence does ---------------------------------------------------------------------


def is_question(sentence: Sentence) -> bool:
    """By its mark, by a tag at its end, or by how it begins: people leave the mark out."""
    text = sentence.masked.rstrip("\"') ")
    if text.endswith(("?", "？")):  # noqa: RUF001
        return True
    if sentence.is_cjk:
        plain = text.rstrip("。.!！ ")  # noqa: RUF001
        if any(cue in plain for cue in zh.FROM_NOW):  # `以后先看有没有别人` asks nothing
            return plain.endswith(zh.ASKED_AT_END[:2])
        return plain.endswith(zh.ASKED_AT_END) or any(cue in plain for cue in zh.ASKED_ANYWHERE)
    low = [word.low for word in sentence.words if word.low != ","]
    low = low[next((at for at, word in enumerate(low) if word not in en.LEADS), 0) :]
    if not low:
        return False
    if low[0] == "when":
        return len(low) > 1 and low[1] in en.AFTER_WHEN
    if len(low) > _TAGGED and low[-1] in en.TAGGED and low[-2] in en.TAGGING and sentence.words[-3].low == ",":
        return True  # `..., don't we`
    return low[0] in en.ASKING and not (low[0] in ("do", "have") and low[1:2] == ["not"])


def is_request(sentence: Sentence) -> bool:
    """`can you always ...?`: an order in the form of a question."""
    if sentence.is_cjk:
        return any(cue in sentence.text for cue in zh.REQUESTS)
    low = sentence.padded
    if " can we agree " in low or (" we " in low and any(cue in low for cue in en.LASTING)):
        return True
    return any(f" {word} you " in low for word in ("can", "could", "would", "will"))


def is_bare_ban(sentence: Sentence) -> bool:
    """`please don't`, `stop that`: what it is about was said before."""
    if sentence.is_cjk:
        return False
    first = next(sentence.list_clauses(), [])
    return tuple(word.low for word in first if word.low not in en.LEADS) in en.BARE_BANS


def find_chosen(text: str, points: Sequence[str]) -> str:
    """The one of some numbered points that a text names: `the first`, `option 2`. Empty for none."""
    low = {word.low for word in Sentence(text).words}
    at = next((at for at, names in enumerate(en.ORDINALS) if names & low), len(points))
    return points[at] if at < len(points) else ""


def is_dropped(sentence: Sentence) -> bool:
    """`never mind`, `forget it, that is too much`: bare, or before a reason. Not `never mind the docs`."""
    if sentence.is_cjk:
        first = list_cjk_clauses(sentence.text.rstrip("。.!！ "))  # noqa: RUF001
        return any(clause in zh.DROPPED for clause in first[:2])
    clauses = " ".join(word.low for word in sentence.words).split(",")
    plain = [" ".join(clause.split()) for clause in clauses[:3]]
    return any(
        clause.removeprefix("oh ").removeprefix("ah ").removeprefix("actually ") in en.DROPPED for clause in plain
    )


def is_assent(prompt: str) -> bool:
    """A few words of agreement, and nothing else."""
    text = prompt.strip()
    if not text or len(text) > 60 or "?" in text or "？" in text:  # noqa: RUF001
        return False
    if has_cjk(text):
        parts = [part for part in re.split("[，,。.!！ 、]+", text) if part]  # noqa: RUF001
        return all(part in zh.ASSENT for part in parts)
    words = [word.low for word in Sentence(text).words if word.low != ","]
    return bool(words) and words[0] in en.ASSENT and all(word in en.ASSENT for word in words)


def cut_proposal(sentence: Sentence) -> str:
    """`Shall I always run ruff first?` as `always run ruff first`."""
    if sentence.is_cjk:
        return sentence.text.rstrip("？?。 ")  # noqa: RUF001
    words = sentence.words
    low = tuple(word.low for word in words)
    for lead in sorted(en.PROPOSAL_LEADS, key=len, reverse=True):
        for at in range(min(4, len(low))):
            if low[at : at + len(lead)] == lead and at + len(lead) < len(words):
                return sentence.text[words[at + len(lead)].start :].rstrip("?. ")
    return sentence.text.rstrip("?. ")
