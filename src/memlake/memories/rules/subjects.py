"""Of whom or what a sentence tells, and what it tells of it: `The staging server`, `is in Frankfurt`.

Knows how sentences begin; not what is decided. A merged memory is written and read here: `The staging server is in
Frankfurt; listens on port 8443`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from memlake.memories.rules import lexicon
from memlake.memories.rules.phrases import Phrase
from memlake.named_tuple import NamedTuple

LONGEST_SUBJECT = 7  # words
VERBS = lexicon.ALWAYS_VERBS
ADVERBS = lexicon.BEFORE_VERBS
OWNERS = lexicon.DETERMINERS - {"a", "an", "some"}
CJK = re.compile("[\u3400-\u9fff]")
# How what is told begins in Chinese, after the name of a thing or person: a verb, a place, a time or an amount.
CJK_FACT = re.compile(
    "的|在|是|有|用|要|会|會|能|可|需|不|没|沒|只|也|都|每|已|将|將|由|从|從|支持|负责|負責|部署|使用|采用|採用|保存|存储|存儲|运行|運行"
    "|喜欢|喜歡|开始|開始|位于|位於|监听|監聽|提供|属于|屬於|早上|上午|中午|下午|晚上|凌晨|睡前|饭后|周末|週末|平时|下个?[周月]|上个?[周月]"
    "|今年|明年|去年|[0-9一二三四五六七八九十]+(?:岁|歲|个|個|人|台|点|點)"
)
CJK_USER = re.compile("^(?:用户|用戶|我们?|我們)的?")


class Told(NamedTuple):
    """The subject as it is written, and each thing that is told of it."""

    subject: str
    facts: tuple[str, ...]


@lru_cache(maxsize=256)
def find_told(text: str) -> Told | None:
    """None when it does not begin with a subject, or is more than one sentence."""
    text = text.strip().rstrip(".。")
    first, *more = (part.strip() for part in re.split("[;\uff1b]", text))
    subject, colon, rest = first.partition(": ")
    if colon and more and len(subject.split()) <= LONGEST_SUBJECT:
        return Told(subject, (rest, *more))
    at = _find_cjk_fact(first) if CJK.match(first) else _find_fact(first)
    if not at or len(Phrase(text).sentences) > 1:
        return None
    return Told(first[:at].strip(), (first[at:].strip(), *more))


def _find_fact(text: str) -> int:
    """Where what is told begins: at the first verb, an adverb before it included; 0 when none is found."""
    words = list(re.finditer(r"\S+", text))[: LONGEST_SUBJECT + 1]
    said = [word[0].lower().strip(",") for word in words]
    owned = bool(said) and (said[0] in OWNERS or said[0].endswith(("'s", "s'")))
    for at in range(2 if owned else 1, len(said)):
        if said[at - 1] in OWNERS | lexicon.PREPOSITIONS:
            continue
        if said[at] in VERBS or (_may_be_verb(words[at][0]) and VERBS.isdisjoint(said[at + 1 : at + 3])):
            before = next((i for i in range(at - 1, 0, -1) if said[i] not in ADVERBS), 0)
            return words[before + 1].start()
    return 0


def _may_be_verb(word: str) -> bool:
    if not word.isalpha() or not word.islower() or len(word) < 4:
        return False
    return word in lexicon.PAST or word.endswith("ed") or (word[-1] == "s" and word[-2] not in "su")


def _find_cjk_fact(text: str) -> int:
    owner = CJK_USER.match(text)
    start = owner.end() if owner else 0
    if owner and not owner[0].endswith("的"):
        return start  # `用户每天早上跑步`: of the user
    found = CJK_FACT.search(text, start + 1)
    return found.start() if found else 0


def same_subject(one: str, other: str) -> bool:
    """`My laptop` and `the user's laptop` are one."""
    return _normal(one) == _normal(other)


def _normal(subject: str) -> str:
    return re.sub(r"^(?:the )?user's |^(?:my|our) ", "user's ", subject.lower()).removeprefix("the ")


def take_subject(subject: str, told: Told) -> Told:
    """In Chinese a part of the subject follows it: of `服务器`, `服务器端口` `是8080` tells `端口是8080`."""
    part = told.subject.removeprefix(subject)
    if subject.isascii() or len(subject) < 3 or is_user(subject) or part in ("", told.subject):
        return told
    return Told(subject, (part + told.facts[0], *told.facts[1:]))


def is_user(subject: str) -> bool:
    return subject.lower() in {"user", "the user", "i", "we", "用户", "用戶", "我", "我们"}


def is_known(subject: str) -> bool:
    """It names one thing or person, so that what is told of it twice is told of the same."""
    first = subject.lower().partition(" ")[0]
    return bool(first) and first not in lexicon.INDEFINITE and first not in lexicon.PRONOUNS - OWNERS


def write_told(told: Told) -> str:
    """As one text: `The staging server is in Frankfurt; listens on port 8443`; of the user, `User: a; b`."""
    subject, (first, *more) = told
    if not subject.isascii():
        return "\uff1b".join((name_fact(subject, first), *(fact.removeprefix("的") for fact in more)))
    return "; ".join((f"User: {first}" if is_user(subject) else name_fact(subject, first), *more))


def name_fact(subject: str, fact: str) -> str:
    """The fact as a sentence of its own."""
    return f"{subject} {fact}" if subject.isascii() else f"{subject}{fact}"
