"""What a person states in a prompt to be obeyed later: rules, preferences, decisions, corrections. Pure; keeps nothing.

A prompt is mostly orders for this moment, questions, code and logs. A sentence counts when its form says that it will
hold beyond this turn: how long it holds, who is bound by it, what is forbidden, chosen or limited. What is unclear does
not count, because a wrong rule that is told for weeks costs more than one that must be said twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from memlake.memories.sessions import bounds, norms, prompts, proposals, statement_odds
from memlake.memories.sessions.cues import chinese as zh
from memlake.memories.sessions.cues import english as en
from memlake.memories.sessions.prompts import Sentence, Word
from memlake.named_tuple import NamedTuple

RULE, PREFERENCE, DECISION, CORRECTION, FACT = "rule", "preference", "decision", "correction", "fact"
MOST = 8  # statements of one prompt; a person who types more pastes a document
_LONGEST, _SHORTEST = 400, 2  # characters, and words, of a sentence that can be one
LIKELY = 0.7  # odds from which a sentence is one that no rule knows
DOUBTFUL = 0.08  # and below which one is none whatever the rules say
_REDACTED = "[redacted"
_GIVING = (" is", " are", "=", ":", "是", "为", "用", " use", " with", " as", " to")  # a value comes next
_LISTED = 12  # points of a list that an introduction makes into rules
_PARTS = 5  # words at the start of a clause within which its cue must stand
_BRIEF, _BRIEF_CJK = 4, 8  # words or characters, below which something is not said in full
_TERSE_CJK = 20  # characters of Chinese below which it does not say of what
_BARE = 4  # words of a choice that says something, below which it does not say of what


class Statement(NamedTuple):
    """`elliptic`: it does not say by itself what it is about, so the answer of the agent belongs to it."""

    text: str
    kind: str
    elliptic: bool = False


def find_statements(prompt: str, proposal: str = "") -> list[Statement]:
    """What a prompt states, in order. `proposal`: the last message of the agent, to which a short yes agrees."""
    if agreed := proposals.find_agreed(prompt, proposal):
        return [Statement(agreed[:_LONGEST], DECISION)]
    found: list[Statement] = []
    listing, alone = False, True
    sentences = prompts.list_sentences(prompt)
    for before, sentence in zip([None, *sentences], sentences, strict=False):
        if sentence.listed and listing:
            found.append(_state(sentence, RULE))
            continue
        listing = sentence.opens_list and _introduces(sentence)
        if listing:
            continue
        if prompts.is_dropped(sentence):  # what was said before it in this prompt
            found.clear()
        if before is not None and _blames(before) and prompts.is_bare_ban(sentence):
            found = [one for one in found if one.text.lower() != before.core.lower()]
            found.append(Statement(f"{before.text} {sentence.text}"[:_LONGEST], CORRECTION))
        elif kind := judge_sentence(sentence, ruled := judge_by_rules(sentence)):
            alone, led = bool(ruled), alone
            if found and sentence.follows and (_refers_back(sentence) or not (alone and led)):
                found[-1] = found[-1]._replace(text=f"{found[-1].text} {_state(sentence, kind).text}")
            else:
                found.append(_state(sentence, kind))
    return list({one.text: one for one in found}.values())[:MOST]


def _blames(sentence: Sentence) -> bool:
    """`you put ticket numbers into the comments again`."""
    return not sentence.is_cjk and sentence.padded.startswith(" you ") and not prompts.is_question(sentence)


def withdraws(prompt: str) -> bool:
    """Whether a prompt takes back what the one before it said."""
    first = next(iter(prompts.list_sentences(prompt)), None)
    return first is not None and prompts.is_dropped(first)


def judge_sentence(sentence: Sentence, ruled: str) -> str:
    """The kind of statement that a sentence is, by what the rules say and by what it is made of; empty for none."""
    if len(sentence.text) > _LONGEST or any(cue in sentence.padded for cue in en.INJECTED):
        return ""
    if _tells_redacted(sentence.text) or _names_secret(sentence):
        return ""
    if not ruled and not sentence.is_cjk and len(sentence.words) <= _SHORTEST:
        return ""
    odds = statement_odds.judge(sentence, ruled)
    if ruled or odds < LIKELY or en.SECRET & set(_low(sentence)) or _is_idle(sentence):
        return ruled if odds >= DOUBTFUL else ""
    return CORRECTION if sentence.corrects else DECISION if any(map(bounds.has_number, _low(sentence))) else RULE


def _tells_redacted(text: str) -> bool:
    """`the password is [redacted]`: nothing is left of it. `Never write [redacted] to a file` still says something."""
    before, redacted, _ = text.lower().partition(_REDACTED)
    return bool(redacted) and before.rstrip(" '\"`").endswith(_GIVING)


def _names_secret(sentence: Sentence) -> bool:
    """What looks like a password of a person, which no list of forms of keys finds."""
    told = bool(en.SECRET & set(_low(sentence))) or _has(sentence.text, zh.SECRET)
    return any(_looks_chosen(word, told=told) for word in sentence.text.split())


def _looks_chosen(word: str, *, told: bool) -> bool:
    """`S3cr3t!`; where a password is spoken of, also `correct-horse-battery` and `hunter2`."""
    mixed = any(sign.isdigit() for sign in word) and any(sign.isalpha() for sign in word)
    if told and word.isascii():
        return (mixed or word.count("-") > 1) and len(word) > 5
    return mixed and len(word) > 5 and word.isascii() and any(sign in "!$%^&*" for sign in word)


def _is_idle(sentence: Sentence) -> bool:
    return any(cue in sentence.padded for cue in en.IDLE) or (sentence.is_cjk and _has(sentence.masked, zh.IDLE))


def _low(sentence: Sentence) -> list[str]:
    return [word.low for word in sentence.words]


def judge_by_rules(sentence: Sentence) -> str:
    """The kind of statement that the rules say a sentence is; empty for none."""
    if len(sentence.text) > _LONGEST or not sentence.core or sentence.padded.count(" ") < _SHORTEST:
        return ""
    if any(cue in sentence.padded for cue in en.INJECTED):
        return ""
    return _judge_chinese(sentence) if sentence.is_cjk else _judge_english(sentence)


def _introduces(sentence: Sentence) -> bool:
    """`From now on:` and `Our conventions:` make rules of the list that follows; `Please fix these:` does not."""
    if sentence.is_cjk:
        return any(cue in sentence.text for cue in (*zh.LASTING, *zh.INTRODUCING))
    if any(cue in sentence.padded for cue in en.LASTING):
        return True
    cues = (*en.REPEATED, *en.INTRODUCING)
    return any(cue in sentence.padded for cue in cues) and not any(cue in sentence.padded for cue in en.MOMENTARY)


def _state(sentence: Sentence, kind: str) -> Statement:
    text = sentence.core if len(sentence.core) <= _LONGEST else f"{sentence.core[:_LONGEST]}…"
    text = text[:1].upper() + text[1:]
    if sentence.is_cjk:
        vague = any(cue in text for cue in zh.VAGUE) or len(text) < _TERSE_CJK
    else:
        content = [word for word in sentence.words if word.low not in en.LIGHT]
        vague = any(word.low in en.POINTING for word in sentence.words) or (
            kind in (DECISION, CORRECTION) and len(content) < _BARE
        )
    return Statement(text, kind, vague)


def _refers_back(sentence: Sentence) -> bool:
    """`Don't use them in commit messages` after `I hate emojis`: alone it would say nothing."""
    return not sentence.is_cjk and any(word.low in en.POINTING for word in sentence.words)


# -- English ----------------------------------------------------------------------------------


def _judge_english(sentence: Sentence) -> str:
    said = sentence.padded
    asked = prompts.is_question(sentence)
    if asked and not (prompts.is_request(sentence) and _holds(said)):
        return ""
    if any(cue in said for cue in en.UNSURE) or _is_reported(sentence):
        return ""
    if any(cue in said for cue in en.LASTING):
        return CORRECTION if sentence.corrects else RULE
    if any(cue in said for cue in en.IDLE):
        return ""
    clauses = list(sentence.list_clauses())
    fronts = ["", *(_join(clause) if clause[0].low in en.FRONTS else "" for clause in clauses)]
    kinds = (_judge_clause(clause, clauses[at + 1 :], sentence, fronts[at]) for at, clause in enumerate(clauses))
    kind = next((kind for kind in kinds if kind), "")
    if not kind and sentence.remembered and len(sentence.words) > _BRIEF:
        return FACT
    return CORRECTION if kind in (RULE, DECISION) and sentence.corrects else kind


def _holds(said: str) -> bool:
    return any(cue in said for cue in (*en.LASTING, *en.REPEATED, " stop ", " can we agree "))


def _is_reported(sentence: Sentence) -> bool:
    """`the docs say never to ...`: somebody else's words."""
    first = [word.low for word in sentence.words[:5]]
    said = next((at for at, word in enumerate(first) if word in ("says", "say", "said")), 0)
    reported = not en.REPORTERS.isdisjoint(first[:said]) and "we" not in first[:said]
    return reported or any(cue in sentence.padded for cue in en.REPORTED)


def _join(words: Iterable[Word]) -> str:
    return f" {' '.join(word.low for word in words)} "


def _judge_clause(clause: list[Word], rest: Sequence[list[Word]], sentence: Sentence, front: str) -> str:
    """`front`: the clause before, if it says when or where this one holds."""
    low = [word.low for word in clause]
    said = _join(clause)
    if low in (["always"], ["ever"]):
        return RULE if not rest and len(sentence.words) >= _BRIEF else ""
    if len(low) < _SHORTEST:
        return RULE if norms.is_case(low, front) else ""
    if low[0] in ("never", "always"):
        return RULE if _is_order_after(low[1:]) else ""
    passing = any(cue in said for cue in en.MOMENTARY) or any(cue in sentence.padded for cue in en.TODAY)
    if not passing and norms.is_norm(low, front):
        return RULE
    if low[0] in en.FORBIDDING:
        return (
            RULE
            if _judge_prohibition(low, rest, passing=passing, polite=" please " in sentence.padded or sentence.corrects)
            else ""
        )
    if _judge_norm(clause, f"{sentence.lead}{front}{said}", passing):
        return RULE
    for judge, kind in (
        (_judge_preference, PREFERENCE),
        (_judge_habit, RULE),
        (_judge_behaviour, RULE),
        (_judge_choice, DECISION),
        (_judge_limit, DECISION),
    ):
        if judge(clause, said, passing) and (kind != PREFERENCE or not passing):
            return kind
    if _judge_contrast(low, rest, passing, corrects=sentence.corrects):
        return DECISION
    if _judge_third(clause, passing, sentence):
        return DECISION
    if sentence.corrects and (not passing or " now " in said) and _judge_correction(clause):
        return CORRECTION
    if _judge_duty(clause, said, passing):
        return FACT
    return ""


def _is_order_after(low: Sequence[str]) -> bool:
    """What follows `always` or `never` is an order or a norm, and no story (`never heard of it`)."""
    first = low[0] if low else ""
    return bool(first) and first not in en.NO_ORDER and not (first.endswith("ed") and first not in en.NO_PAST)


def _judge_prohibition(low: list[str], rest: Sequence[list[Word]], *, passing: bool, polite: bool) -> bool:
    """`don't`, `do not`, `not`, `no`, `avoid`, `stop`: of things in general, not of what is at hand."""
    said = f" {' '.join(low)} "
    for_ever = any(cue in said for cue in en.FOR_EVER)
    if passing and (not for_ever or any(cue in said for cue in en.TODAY)):
        return False
    if low[0] == "no":
        return _forbids_things(low[1:], rest, polite)
    body = low[2:] if low[0] == "do" else low[1:]
    if low[0] == "do" and (len(low) < 3 or low[1] != "not"):
        return False
    if not body or body[0] in ("you", "i", "we", "be", "have"):
        return bool(body) and body[0] == "be" and for_ever
    verb, what = body[0], body[1:]
    if low[0] in ("stop", "avoid", "quit") and not verb.endswith("ing"):
        return low[0] == "avoid" and verb not in en.HELD
    if low[0] == "avoid":
        return True
    if for_ever:
        return bool(what) or low[0] == "stop"
    return _forbids_object(verb.removesuffix("ing") if low[0] in ("stop", "quit") else verb, what, rest)


def _forbids_object(verb: str, what: Sequence[str], rest: Sequence[list[Word]]) -> bool:
    if not what:
        return False
    conditional = any(word in en.CONDITIONS for word in what)
    stem = verb if verb in en.USING or verb in en.PASSING_ORDERS else f"{verb}e"
    if what[0] in en.PRONOUNS:
        return conditional and len(what) > 2 and stem not in en.PASSING_ORDERS
    if what[0] in en.HELD:
        followed = any(clause and clause[0].low in ("only", "use", "just", "instead", "but") for clause in rest)
        return stem in en.USING or conditional or followed
    if len(what) == 1:
        return stem in en.USING or what[0].endswith("s") or not what[0].isalpha()
    return True


def _forbids_things(low: Sequence[str], rest: Sequence[list[Word]], polite: bool) -> bool:
    """`no inline styles please`; not `no tests failed`."""
    if not low or any(word in en.STATUS or word.endswith("ed") for word in low):
        return False
    if low[0] == "other" and len(low) == 2:
        return True
    followed = any(clause and clause[0].low in en.ORDERS for clause in rest)
    general = low[0].endswith("ing") or any(word.endswith("s") for word in low[:3])
    return polite or followed or (general and any(word in en.PLACED for word in low[1:]))


def _judge_preference(clause: list[Word], said: str, _: bool) -> bool:
    low = [word.low for word in clause]
    start = f" {' '.join(low[: _PARTS + 1])} "
    if any(cue in start for cue in en.ABOUT_ME):
        return True
    for cue in en.PREFERENCES:
        if cue in start:
            what = said.partition(cue)[2].split()
            if what[:1] == ["you"] and "rather" in cue and "than" in what:
                return True
            if what[:1] == ["it"] and what[1:2] and what[1] in ("when", "if", "that"):
                return True
            return bool(what) and what[0] not in en.HELD_BY_LIKING and not (set(what[:2]) & en.POINTING)
    if low[0] in en.ANSWERING:
        return len(low) > 2 and low[1] in ("in", "with", "only", "as", "briefly", "shortly")
    if low[0] == "be" and set(low[1:4]) & en.STYLE:
        return True
    if low[0] == "keep" and set(low[1:4]) & en.REPLIES:
        return True
    return low[0] == "in" and len(low) < _PARTS and low[1] in en.STYLE and "please" in low


def _judge_habit(clause: list[Word], said: str, passing: bool) -> bool:
    """`we use`, `we never`, `our commits always`: what a group does, which binds who works for it."""
    low = [word.low for word in clause]
    if low[0] == "our" and {"always", "never", "only"} & set(low[1:5]):
        return not set(low) & (en.BUGS | en.PUBLIC)
    if low[0] == "i" and len(low) > 2 and low[1] in ("always", "never"):
        return low[2] in en.WISHES
    if low[0] in en.FRONTS and "we" in low[2:5]:  # `in the docs we say ...`
        low = low[low.index("we") :]
        said = f" {' '.join(low)} "
    if low[0] not in en.GROUPS or len(low) < 3:
        return False
    at = 1
    while at < len(low) - 1 and low[at] in en.HABITUALLY:
        at += 1
    adverbs, verb, what = set(low[1:at]), low[at], low[at + 1 :]
    if said.startswith((" we no longer ", " we don't ", " we do not ", " we never ")):
        verb = next((word for word in low[1:] if word not in en.NEGATING), "")
        return verb not in en.NO_DENIAL and not passing and _is_order_after([verb])
    if adverbs & {"always", "only"}:
        return _is_order_after(low[at:])
    if passing and " now " not in said:
        return False
    named = verb in ("call", "name")
    return (
        verb in en.HABITS
        and bool(what)
        and (named or what[0] not in en.PRONOUNS - {"here"})
        and not what[0].endswith("ing")
    )


def _judge_norm(clause: list[Word], said: str, passing: bool) -> bool:
    """An order that repeats, a `must`, what is (not) allowed, and what is said of all things of a kind."""
    low = [word.low for word in clause]
    repeats = any(cue in said for cue in en.REPEATED)
    told = (
        said.split(maxsplit=1)[0] in en.FRONTS and low[0] not in en.HELD | en.PRONOUNS | en.GROUPS
    )  # `whenever ..., bump it`
    if (low[0] in en.ORDERS or told) and not passing:
        at = low.index("only") if "only" in low else 0
        ends = at and (at == len(low) - 1 or (low[at + 1] not in en.HELD and low[0] not in en.PASSING_ORDERS))
        if repeats or ends:
            return not set(low) & en.BUGS
    if low[0] == "only" and len(low) > 2:
        return low[1] in en.ORDERS and not passing
    if any(cue in said for cue in en.NORMS):
        return not passing and (low[0] not in en.PRONOUNS or low[:3] == ["it", "is", "not"])
    subject = next((low[:at] for at, word in enumerate(low) if at and word in en.MUST), None)
    if subject is None:
        return _is_of_a_kind(low) and repeats and not set(low) & en.BUGS and low[1] in en.COPULAS
    verb = low[len(subject)]
    if (
        passing
        or subject[0] in en.PRONOUNS
        or subject[0] in ("i", "there")
        or low[len(subject) + 1 : len(subject) + 2] == ["have"]
    ):
        return False
    if verb in ("has", "have", "needs", "need") and low[len(subject) + 1 : len(subject) + 2] != ["to"]:
        return False
    if verb in ("must", "mustn't"):
        return subject[0] != "we" or repeats
    if verb in ("should", "shouldn't"):
        return (
            _is_of_a_kind(low) or repeats or verb == "shouldn't" or low[len(subject) + 1 : len(subject) + 2] == ["not"]
        )
    return _is_of_a_kind(low)


def _is_of_a_kind(low: Sequence[str]) -> bool:
    """Its subject is all of a kind: `every module`, `commit messages`, `new endpoints`."""
    head = [word for word in low[:4] if word.isalpha()]
    if not head or head[0] in en.HELD or head[0] in en.PRONOUNS or head[0] in ("we", "i", "you", "there"):
        return False
    return head[0] in en.EVERY or any(
        word.endswith("s") and not word.endswith(("ss", "us", "is")) and word not in en.COPULAS for word in head[:3]
    )


def _judge_behaviour(clause: list[Word], said: str, passing: bool) -> bool:
    """`ask before you push`, `check with me first`: how the agent is to behave when something comes up."""
    low = [word.low for word in clause]
    if low[0] not in en.BEHAVE or passing or len(low) < 2:
        return False
    if low[1] in ("if", "whether") or low[-1] in en.STARTING or any(cue in said for cue in en.REPORT_ONCE):
        return False
    return any(word in en.WHEN_TO for word in low[1:])


def _judge_choice(clause: list[Word], said: str, passing: bool) -> bool:
    low = [word.low for word in clause]
    start = f" {' '.join(low[: _PARTS + 2])} "
    for cue in en.CHOOSING:
        if cue in start:
            what = said.partition(cue)[2].split()
            good = bool(what) and what[0] not in en.PRONOUNS and not what[0].endswith("ing")
            return good and (not passing or " now " in said)
    if passing:
        return False
    if low[-2:] == ["it", "is"] and 2 < len(low) <= _PARTS and low[0] not in en.PRONOUNS:
        return True
    if low[0] in ("let's", "lets", "let") and (" instead of " in said or " rather than " in said):
        return True
    if (" instead " in said or " rather than " in said) and low[0] in en.USING | en.CHOOSE:
        return " instead of " in said or low[1] not in en.PRONOUNS
    if low[0] == "rather" and "than" in low:
        return True
    at = next((at for at, word in enumerate(low) if word in ("stays", "stay", "remains", "remain")), 0)
    return at > 0 and low[0] not in en.PRONOUNS | en.GROUPS and low[at + 1 : at + 2] != [] and low[at + 1] in en.PLACED


def _judge_contrast(low: list[str], rest: Sequence[list[Word]], passing: bool, *, corrects: bool) -> bool:
    """`use polars, not pandas`; `it is 8801, not 8000`."""
    if passing or not rest or not rest[0] or rest[0][0].low != "not":
        return False
    denied = [word.low for word in rest[0][1:]]
    if not denied or denied[0] in ("now", "yet", "sure", "only", "just", "today", "that", "so", "really", "because"):
        return False
    return corrects or low[0] in en.USING | en.CHOOSE or any(word in en.COPULAS for word in low)


def _judge_limit(clause: list[Word], _said: str, passing: bool) -> bool:
    return bounds.is_bound([word.low for word in clause], passing=passing)


def _judge_third(clause: list[Word], passing: bool, sentence: Sentence) -> bool:
    """`Priya says: the fee is its own line`: somebody by name decided."""
    first = clause[0]
    low = [word.low for word in clause[:5]]
    if not passing and en.THIRD & set(low[:3]) and en.THIRD_SAYS & set(low[1:4]) and len(sentence.words) > _BRIEF:
        return "wants to" not in sentence.padded and "needs to" not in sentence.padded
    if passing or len(clause) < 2 or first.low in en.NO_PERSON or not first.text[:1].isupper():
        return False
    said = f" {' '.join(word.low for word in clause[:6])} "
    return (clause[1].low in en.SAYING and len(sentence.words) > _BRIEF) or any(cue in said for cue in en.APPROVED)


def _judge_correction(clause: list[Word]) -> bool:
    """After `no,` or `actually`: what to use, or what something is. Not `no, the other one`."""
    low = [word.low for word in clause]
    if low[0] in en.USING and len(low) > 1 and low[1] not in en.PRONOUNS:
        return not any(cue in f" {' '.join(low)} " for cue in en.OTHERS)
    at = next((at for at, word in enumerate(low) if word in en.COPULAS), None)
    value = clause[at + 1 : at + 6] if at is not None else []
    if at and value and low[0] not in en.PRONOUNS and value[0].low not in en.OPINIONS | en.BUGS:
        return not any(cue in f" {' '.join(low)} " for cue in en.OTHERS)
    return any(word.quoted or word.text[:1].isupper() or not word.text.isalpha() for word in value)


def _judge_duty(clause: list[Word], said: str, passing: bool) -> bool:
    """`he signs off all customer mails`: who is to be asked for what. A fact, and one that people look for."""
    first = clause[0]
    person = first.low in ("he", "she", "they") or (first.text[:1].isupper() and first.low not in en.NO_PERSON)
    if passing or not person or len(clause) < 3 or clause[1].low not in en.PEOPLE_DO:
        return False
    return any(cue in said for cue in en.REGULARLY)


# -- Chinese ----------------------------------------------------------------------------------


def _has(text: str, cues: Iterable[str]) -> bool:
    return any(cue in text for cue in cues)


def _judge_chinese(sentence: Sentence) -> str:
    text = sentence.masked
    lasts = _has(text, zh.FROM_NOW)
    if prompts.is_question(sentence) and not (lasts and _has(text, zh.REQUESTS)):
        return ""
    if _has(text, zh.IDLE) or _has(text, zh.MAYBE) or _has(text, zh.REPORTED):
        return ""
    if lasts:
        return CORRECTION if sentence.corrects else RULE
    if _has(text, zh.MOMENTARY):
        return ""
    if _has(text, zh.PREFER):
        return PREFERENCE if not _has(text, zh.PRAISE) else ""
    clauses = prompts.list_cjk_clauses(text)
    lasting = any(cue in clause and clause.rstrip("。.!！ ") != cue for clause in clauses for cue in zh.LASTING)  # noqa: RUF001
    if (lasting or _has(text.partition("每次")[2], zh.EACH_TIME)) and not _has(text, zh.BUGS):
        return RULE
    if any(sign.isdigit() or sign in zh.NUMBERS for sign in text) and _has(text, zh.LIMIT):
        return DECISION
    if _has(text, zh.CHOSE):
        return DECISION
    if "太" in text and any(part.strip()[:1].isdigit() for cue in zh.BECOMES for part in text.split(cue)[1:]):
        return CORRECTION  # `200 太少了,改成 300`; not `把端口改成 8081`
    if _has(text, zh.WORK) and _has(text, zh.OUGHT) and not _has(text, (*zh.FOR_NOW, *zh.BUGS)):
        return RULE
    if _has(text, zh.WE_USE) or any(map(_forbids, clauses)):
        return CORRECTION if sentence.corrects else RULE
    if sentence.corrects and len(sentence.core) > _BRIEF_CJK // 2 and not _has(text, zh.BUGS):
        return CORRECTION if _has(text, zh.SHOULD_BE) else ""
    return FACT if sentence.remembered and len(sentence.core) >= _BRIEF_CJK else ""


def _forbids(clause: str) -> bool:
    """`小组件里不要显示秒`; not `别提交`, and not the 别 of 特别 or 别的."""
    for cue in zh.FORBID:
        before, found, after = clause.partition(cue)
        if not found or not after or before.endswith(zh.NOT_BEFORE) or after.startswith(zh.NOT_AFTER):
            continue
        if cue == "不能" and before.strip() and after.startswith(zh.BANNED):
            return True
        if cue in zh.NEEDS_NAME and not (after.lstrip()[:1].isascii() and after.strip()):
            continue
        if after.startswith(zh.PASSING_ORDERS) and not _has(after, zh.PLACES) and not before.strip():
            continue
        return True
    return False


def list_kinds() -> Iterator[str]:
    """The kinds of statement that are obeyed, in order of how much they weigh."""
    yield from (CORRECTION, RULE, DECISION, PREFERENCE)
