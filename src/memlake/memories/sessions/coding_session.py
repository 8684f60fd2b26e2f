"""A session of a coding agent while it runs: what was asked, done and left open, and the summary made of it. Pure.

Extractive: every word of a summary was said by the person or by the agent. The record is bounded however long the
session is, and a summary of the same content is the same text, so that an idle turn writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from memlake.memories.sessions import prompts, statements
from memlake.memories.sessions.cues import chinese as zh
from memlake.memories.sessions.cues import english as en
from memlake.memories.sessions.prompts import Sentence, has_cjk
from memlake.memories.sessions.statements import Statement
from memlake.named_tuple import NamedTuple

_ASKED, _DONE, _OPEN = 16, 24, 8  # of each kind that are kept while a session runs
_ROOMS = {"Open": 500, "Done": 900, "Asked": 450}  # characters of each part of a summary
_ASKED_LONG, _DONE_LONG, _OPEN_LONG = 100, 190, 180  # characters of one of them
_SAID_HEAD, _SAID_TAIL = 4000, 2000  # characters of a message that are looked at
_PROPOSAL = 800  # of its end that a yes may agree to
_SAME = 0.75  # of the words of two entries, from which they say the same
_SETTLED = 0.6  # of the words of an open matter, from which a later turn is about it


class Done(NamedTuple):
    """What one turn did; `work` when files were touched or something was made, and not only a question answered."""

    text: str
    work: bool = False


class CodingSession(NamedTuple):
    """`noted`: what the person stated and nobody has stored yet. `kept`: the memories that the last turn made."""

    asked: tuple[str, ...] = ()
    done: tuple[Done, ...] = ()
    open: tuple[str, ...] = ()
    noted: tuple[Statement, ...] = ()
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()  # memories that the person took back, to be forgotten with the next write
    last: str = ""  # the end of what the agent said last
    before: str = ""  # ... and of what it had said when the person stated something
    prompt: str = ""  # of the turn that runs
    project: str = ""
    at: int = 0  # when it was last heard of, in microseconds


def encode(session: CodingSession) -> str:
    fields = session._asdict()
    fields["done"] = [list(one) for one in session.done]
    fields["noted"] = [list(one) for one in session.noted]
    return json.dumps(fields, ensure_ascii=True)


def decode(text: str) -> CodingSession:
    """A session as it was noted; a new one if that cannot be read, because it is of no lasting worth."""
    try:
        fields = json.loads(text)
        fields["done"] = [Done(*one) for one in fields.get("done", ())]
        fields["noted"] = [Statement(*one) for one in fields.get("noted", ())]
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        return CodingSession(**{**fields, **lists})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return CodingSession()


# -- a turn -----------------------------------------------------------------------------------


def note_prompt(session: CodingSession, prompt: str) -> CodingSession:
    """The session with what a prompt asks and states; what it takes back is taken back."""
    if statements.withdraws(prompt):
        session = session._replace(noted=(), dropped=(*session.dropped, *session.kept))
    found = statements.find_statements(prompt, session.last)
    noted = tuple(dict.fromkeys((*session.noted, *found)))[-statements.MOST :]
    asked = _add(session.asked, _brief_prompt(prompt), _ASKED)
    before = session.last if found else session.before
    return session._replace(asked=asked, noted=noted, kept=(), before=before, prompt=prompt[:_PROPOSAL])


def says_something(prompt: str) -> bool:
    """Whether a prompt changes anything here, so that others need not open a repo."""
    return bool(
        _brief_prompt(prompt)
        or prompts.is_assent(prompt)
        or statements.withdraws(prompt)
        or statements.find_statements(prompt)
    )


def end_turn(session: CodingSession, said: str, *, touched: bool) -> CodingSession:
    """The session with what the agent said at the end of a turn. Open matters that it was about are settled."""
    sentences = [one for one in _read_message(said) if not _is_pleasant(one)]
    opened = _list_recapped(sentences) if _is_recap(session.prompt) else list(_find_open(sentences))
    texts = [one.text for one in sentences if not prompts.is_question(one) and _strip_label(one.text) not in opened]
    text = "" if _is_recap(session.prompt) else _join_within(texts, _DONE_LONG)
    still = [one for one in session.open if not _is_settled(one, f"{session.prompt} {said[:_SAID_HEAD]}", opened)]
    for one in opened:
        still = list(_add(still, _cut(one, _OPEN_LONG), _OPEN))
    done = session.done
    if text and len(text) > 3:
        same = next((at for at, one in enumerate(done) if _is_same(one.text, text)), None)
        work = touched or _is_work(text)
        rest = done if same is None else (*done[:same], *done[same + 1 :])
        done = _bound_done((*rest, Done(text, work)) if same is None else done)
    return session._replace(done=done, open=tuple(still), last=said[-_PROPOSAL:], prompt="")


def add_report(session: CodingSession, said: str) -> CodingSession:
    """The session with what a sub-agent reported."""
    texts = [one.text for one in _read_message(said) if not _is_pleasant(one) and not prompts.is_question(one)]
    text = _join_within(texts, _DONE_LONG)
    if not text or any(_is_same(one.text, text) for one in session.done):
        return session
    return session._replace(done=_bound_done((*session.done, Done(text))))


def complete(statement: Statement, said: str) -> str:
    """A statement as it is stored: one that does not say what it is about takes in what the agent made of it."""
    if not statement.elliptic:
        return statement.text
    useful = (one.text for one in _read_message(said) if _says_more(one))
    answer = next(useful, "")
    return f"{statement.text.rstrip('.。')} ({_cut(answer, _OPEN_LONG).rstrip('.。')})" if answer else statement.text


def _says_more(answer: Sentence) -> bool:
    """Not `Understood, I will do that`: there is something of the matter in it."""
    text = answer.text.lower()
    plain = not _is_pleasant(answer) and not prompts.is_question(answer)
    return plain and len(answer.text) > 8 and not text.startswith((*en.PROMISES, *zh.PROMISES))


def describe(session: CodingSession) -> dict[str, object]:
    """What is known of a session, for a program that writes its summary."""
    return {"asked": list(session.asked), "done": [one.text for one in session.done], "open": list(session.open)}


# -- the summary ------------------------------------------------------------------------------


def write_summary(session: CodingSession) -> str:
    """What a colleague would say who is asked where it stopped; empty if nothing happened."""
    done = _choose_done(session.done)
    if not session.asked or not done:
        return ""
    parts = {
        "Open": _join_list(reversed(session.open), _ROOMS["Open"]),
        "Done": _join_list(done, _ROOMS["Done"]),
        "Asked": _join_list(session.asked, _ROOMS["Asked"], last_first=True),
    }
    return "\n".join(f"{name}: {text}" for name, text in parts.items() if text)


def _choose_done(done: Sequence[Done]) -> list[str]:
    """In order; where there is no room for all, work goes before answers and what is new before what is old."""
    room, chosen = _ROOMS["Done"], set[int]()
    for at in sorted(range(len(done)), key=lambda at: (not done[at].work, -at)):
        if len(done[at].text) + 2 <= room:
            chosen.add(at)
            room -= len(done[at].text) + 2
    return [done[at].text for at in sorted(chosen)]


def _join_list(texts: Iterable[str], room: int, *, last_first: bool = False) -> str:
    texts = list(texts)
    chosen: list[str] = []
    for text in reversed(texts) if last_first else texts:
        if len(text) + 2 > room:
            break
        room -= len(text) + 2
        chosen.append(text.rstrip(" .;。"))
    return "; ".join(reversed(chosen) if last_first else chosen)


# -- what was asked ---------------------------------------------------------------------------


def _brief_prompt(prompt: str) -> str:
    """The first sentence of a prompt that asks for something; empty for a yes, thanks, or a paste."""
    if prompts.is_assent(prompt):
        return ""
    for sentence in prompts.list_sentences(prompt)[:4]:
        if not _is_pleasant(sentence) and not prompts.is_dropped(sentence) and _count_content(sentence) >= 2:
            return _cut(sentence.core or sentence.text, _ASKED_LONG)
    return ""


def _count_content(sentence: Sentence) -> int:
    if sentence.is_cjk:
        return len(sentence.text.strip("。.!！ ")) // 2  # noqa: RUF001
    return sum(word.low not in en.LIGHT and word.low not in en.PLEASANT and word.low != "," for word in sentence.words)


# -- what was done, and what is open ----------------------------------------------------------


def _read_message(said: str) -> list[Sentence]:
    """The sentences of a message of the agent: of a long one, those of its beginning and its end."""
    if len(said) > _SAID_HEAD + _SAID_TAIL:
        said = f"{said[:_SAID_HEAD]}\n\n{said[-_SAID_TAIL:]}"
    return prompts.list_sentences(said.replace("**", ""), typed=False)


def _is_pleasant(sentence: Sentence) -> bool:
    """A courtesy, or a word of assent."""
    if sentence.is_cjk:
        return sentence.text.strip("。.!！, ") in zh.PLEASANT  # noqa: RUF001
    words = [word.low for word in sentence.words if word.low != ","]
    return all(word in en.PLEASANT or word in en.LIGHT for word in words)


def _is_work(text: str) -> bool:
    """It names a file, a commit or a figure, or begins with what was done."""
    first = text.split(" ", 1)[0].lower().strip("`*:,.")
    return first.endswith("ed") or first in en.WROUGHT or text.startswith("已")


def _is_recap(prompt: str) -> bool:
    """`where did we stop?`: the answer says what was before, and does nothing."""
    if has_cjk(prompt):
        return any(cue in prompt for cue in zh.RECAPS)
    words = f" {' '.join(word.low for word in Sentence(prompt[:200]).words)} "
    return any(cue in words for cue in en.RECAPS)


def _list_recapped(sentences: Sequence[Sentence]) -> list[str]:
    """Of the answer to `where did we stop?` what is open; all of it if it does not say so of a part."""
    parts = [part.strip() for one in sentences for part in one.text.replace("；", ";").split(";")]  # noqa: RUF001
    found = [part for part in parts if any(_find_open([Sentence(part)]))]
    return [_strip_label(part) for part in found or parts if part]


def _find_open(sentences: Sequence[Sentence]) -> Iterator[str]:
    """What a message says is left: under `Open:`, or by its words. A question of the agent is not yet that."""
    listing = False
    for sentence in sentences:
        low = sentence.padded
        headed = low.startswith(en.HEADINGS)
        if sentence.opens_list:
            listing = headed
            continue
        listing = listing and sentence.listed
        text = sentence.text
        if listing:
            yield text
        elif sentence.is_cjk:
            if any(cue in text for cue in zh.OPEN) and not prompts.is_question(sentence):
                yield _strip_label(text)
        elif not prompts.is_question(sentence) and (headed or any(cue in low for cue in en.OPEN)):
            yield _strip_label(text)


def _strip_label(text: str) -> str:
    """`Open: the docs` as `the docs`."""
    head, colon, rest = text.partition(":" if ":" in text[:12] else "：")  # noqa: RUF001
    return rest.strip() if colon and rest.strip() and head.strip().lower() in en.LABELS | zh.LABELS else text


def _is_settled(matter: str, turn: str, opened: Sequence[str]) -> bool:
    """A later turn was about it, and does not say that it is still open."""
    words = _stems(matter)
    if any(len(words & _stems(one)) >= _SETTLED * min(len(words), len(_stems(one)) or 1) for one in opened):
        return True  # it is said anew
    return not opened and bool(words) and len(words & _stems(turn)) >= _SETTLED * len(words)


# -- texts ------------------------------------------------------------------------------------


def _add(texts: Sequence[str], text: str, most: int) -> tuple[str, ...]:
    """One more of these, unless it is there: then it stays where it was."""
    if not text or any(_is_same(one, text) for one in texts):
        return tuple(texts)
    kept = (*texts, text)
    return kept if len(kept) <= most else (kept[0], *kept[2:])  # the first says what a session was for


def _bound_done(done: tuple[Done, ...]) -> tuple[Done, ...]:
    if len(done) <= _DONE:
        return done
    at = next((at for at, one in enumerate(done) if not one.work), 0)
    return (*done[:at], *done[at + 1 :])


def _is_same(one: str, other: str) -> bool:
    first, second = _stems(one), _stems(other)
    if not first or not second:
        return one == other
    if {word for word in first ^ second if any(sign.isdigit() for sign in word)}:
        return False  # `part 1` and `part 2` are alike, and are not the same
    return len(first & second) >= _SAME * max(len(first), len(second))


def _stems(text: str) -> set[str]:
    """Rough stems of the words that say something; pairs of characters of Chinese."""
    words = (word.low for word in Sentence(text[:_SAID_HEAD]).words)
    found = {word[:6].rstrip("s") for word in words if word not in en.LIGHT and word != "," and not has_cjk(word)}
    if has_cjk(text):
        signs = [sign for sign in text[:_SAID_HEAD] if "\u3400" <= sign <= "\u9fff"]
        found |= {first + second for first, second in pairwise(signs)}
    return found


def _join_within(texts: Sequence[str], room: int) -> str:
    """The first of these, whole, as many as there is room for; at least a part of the first."""
    joined = ""
    for text in texts:
        more = f"{joined} {text}".strip()
        if len(more) > room:
            break
        joined = more
    return joined or (_cut(texts[0], room) if texts else "")


def _cut(text: str, room: int) -> str:
    """A text within a number of characters, cut between words."""
    plain = " ".join(text.split())
    if len(plain) <= room:
        return plain
    short = plain[: room - 1]
    return f"{short[: short.rfind(' ')] if ' ' in short[room // 2 :] else short}…"
