"""What a sentence says of whom: (subject, attribute, value), read by pattern; None when no pattern fits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from memlake.memories.rules import lexicon
from memlake.memories.rules.phrases import Phrase, content, negations, stem

# Words that lead into a fact and are none; `no dogs` and `update the docs` are more than that.
LEAD_IN = re.compile(
    r"^(?:(?:(?:no|nope)(?:,? (?:wait|sorry))?|to correct myself|correction|update|edit|note|todo|reminder|remember|fyi"
    r"|info|tip|yes|ok|okay|well|oh|ah|hm+|sorry|btw|(?:and )?by the way)(?:\s*[,:;.!\u2014]+|\s+-)\s*"
    r"|(?:actually|in fact|(?:i was|that was|that's) wrong|my mistake)\b(?:[\s,:;.!\u2014]|-\s)*"
    r"|not [^,.:]{1,40}, (?=[^,]+ (?:is|are|uses?)\b)"
    r"|(?:不对|不對|错了|錯了|其实|其實|更正|纠正|糾正|实际上|實際上|抱歉|不好意思|对不起|對不起|哦|说错了|說錯了|记错了|記錯了)"
    r"[\s,:;.!\u3002\uff0c\uff1a\uff01]*"
    r"|不是[^,\uff0c。]{1,20}[,\uff0c](?=.+是))+",
    re.IGNORECASE,
)
USER = re.compile(r"^(?:i|me|my|mine|we|our|(?:the )?user(?:'s|s')?)$")
SUBJECT = r"(?P<subject>(?:(?:the|my|our|his|her|their|this) )?[\w'.-]+(?: [\w'.-]+){0,2}?)"
ADVERB = r"(?: (?:also|really|strongly|usually|generally|now|always|still|actually|currently|personally|absolutely))*"
NOT = r"(?P<not> (?:do not|does not|don't|doesn't|did not|didn't|no longer|never|cannot|can't|is not|am not|isn't))?"


def _any(verbs: str) -> str:
    return "|".join(verbs.split())


PREFERENCE = re.compile(
    rf"^{SUBJECT}{ADVERB}{NOT}{ADVERB} (?:(?P<like>{_any(lexicon.LIKE)}|(?:(?:am|is) )?(?:fond|a (?:big )?fan) of)"
    rf"|(?P<dislike>{_any(lexicon.DISLIKE)}|(?:can't|cannot|can not) stand))(?!,| to be) (?P<value>.+)$",
    re.IGNORECASE,
)
# Where the object of a liking ends and its reason begins.
REASON = re.compile(
    r"\s*:.*$|[\s,;]+\b(?:because|since|due to|so that|as (?:it|they|i)\b).*$", re.IGNORECASE | re.DOTALL
)
# What is denied beside a liking: `green tea, not black`.
BUT_NOT = re.compile(r"(?:,| but|, but| and|, and)\s+not\s+(?!only\b|just\b|to\b)", re.IGNORECASE)
OVER = re.compile(r"\b(?:over|rather than|instead of|more than)\b", re.IGNORECASE)
# What ends the head of a noun phrase: `films about scientists` are films.
TAIL = re.compile(
    r"\b(?:with|without|for|of|about|that|which|who|in|on|at|to|like|"
    r"including|especially|such as|except|from|by|focus\w*|over)\b|[,;(]"
)
# A tail that says where or when: `seats on trains`.
WHERE = re.compile(r"\b(?:on|in|at|for|when|while|during|before|after)\b(?P<where>.+)$")
# A list goes on after these; a part that starts with a tail narrows what was said before it.
LIST = re.compile(r"\s*(?:,\s*and|,|\band\b|&|;|/|、|和)\s*")

KEY_VALUE = re.compile(r"^(?P<key>[^:=\n]{1,60}?)\s*(?::(?!//)|=)\s*(?P<value>\S.*)$", re.DOTALL)
CJK_IS = re.compile(r"^(?P<key>[\u3400-\u9fff]{1,12}?)(?:现在|現在|其实)?(?:是|为|為)(?P<value>.+)$")
CJK_USER = re.compile("用户的?|用戶的?|我的?|的")
CJK_WHEN = re.compile("去年|今年|上个?月|上周|昨天|今天|最近|(?:[0-9]+|[一二三四五六七八九十]+)[月年]")
IS = re.compile(
    r"^(?P<key>[^,;:]{2,60}?) (?:is|are|was|were|will be|should be|has been|became|has changed to|changed to|equals)"
    r"(?: now| actually| currently| still| set to| changed to)*(?P<not> not)? (?P<value>\S.*)$",
    re.IGNORECASE,
)
# `Bob is now the user's manager`: the value first.
INVERSE = re.compile(
    r"^(?P<value>[A-Z][\w-]+(?: [A-Z][\w-]+)?) (?:is|became)(?: now)? "
    r"(?P<not>not )?(?P<key>(?:(?:the )?user's|my|our|the) [\w ]{2,30})$"
)
# A correction that leaves out what it is of: the last thing said.
SHOULD_BE = re.compile(
    r"^(?:it|that|this|which)(?:'s| is| should (?:be|have been|read|say)| was meant to be)(?: called| named)?"
    r" (?P<value>[^,;]+?)(?:,? (?:and )?(?:not|rather than|instead of) (?P<wrong>.+))?$"
    r"|^(?:应该|應該)?是(?P<cjk>[^,。]+)$",
    re.IGNORECASE,
)
DOING = re.compile(r"(?:being |not )?\w{2,}ing\b", re.IGNORECASE)
STATES = {
    "home": r"(?:lives?|living|resides?|residing|based) (?:in|at)|(?:mov(?:ed|es|ing)|relocated)(?: \w+){0,2} to",
    "employer": r"(?:works?|working|worked|started working) (?:at|for)|(?:is )?employed (?:at|by)"
    r"|(?:was |got )?hired by|got a (?:new )?job at",
    "job": r"(?:works?|working) as(?: an?)?",
    "school": r"(?:studies|studying|study) at",
    "spouse": r"(?:(?:is|am|got) )?(?:married|engaged) to|(?:is|am) dating",
    "age": r"(?:is|am|turned)(?= \d{1,3}(?: years old)?$)",
    "birthday": r"(?:was|were) born (?:on|in)",
    "uses": r"(?:uses?|using|switched(?: \S+){0,4} to|migrated(?: \S+){0,4} to|runs? on)",
}
CHANGE = re.compile(r"mov|relocat|switch|migrat|hired|started|got|turned|搬到", re.IGNORECASE)
VERBS = "|".join(f"(?P<{name}>{verbs})" for name, verbs in STATES.items())
STATE = re.compile(
    rf"^{SUBJECT}{ADVERB}{NOT}{ADVERB}(?: (?:is|am|are|has|have))?{ADVERB} (?:{VERBS}) (?P<value>.+)$", re.IGNORECASE
)
CJK_STATE = re.compile(r"^(?P<subject>.{0,12}?)(?:现在|已经)?(?P<home>住在|搬到了?|居住在)(?P<value>.+)$")
AS_A = re.compile(
    r"^(?P<value>.+?) (?:as|for) (?:(?:my|his|her|their|our|the|a|an|main|primary|default) )*(?P<key>[\w ]+?)\W*$",
    re.IGNORECASE,
)
OWN = re.compile(r" as (?:(?:my|his|her|their|our|main|primary|default) )+[\w-]+\W*$", re.IGNORECASE)


def _kinds(table: dict[str, str]) -> dict[str, re.Pattern[str]]:
    return {name: re.compile(rf"^(?:the )?(?:{names})\b", re.IGNORECASE) for name, names in table.items()}


KIND, RIVAL = _kinds(lexicon.KINDS), _kinds(lexicon.RIVALS)


@dataclass(frozen=True)
class Frame:
    """`shape` is how it was said: preference, key (key: value), is, or state (lives in, uses ...)."""

    shape: str
    key: frozenset[str]
    value: Phrase
    positive: bool = True
    single: bool = False  # the subject has one value of this at a time
    changed: bool = False  # it tells of the change to this value: `moved to Bern`
    denied: Phrase | None = None  # `not black`, of a liking

    @property
    def several(self) -> bool:
        """The key collects values: `User preference: a; b`."""
        return bool(self.key & SEVERAL) or ";" in self.value.text


# As written, not as stems: the stem of `time` is the stem of `Tim`.
SINGLE = lexicon.SINGLE | {f"{word}s" for word in lexicon.SINGLE}
SINGLE_STEMS = frozenset(map(stem, lexicon.SINGLE))
SEVERAL = frozenset(stem(word) for word in lexicon.SEVERAL)
BRIEF = 40  # characters of a value; more is a sentence


@lru_cache(maxsize=256)
def find_frame(phrase: Phrase) -> Frame | None:
    """The frame of the first sentence that says something; later sentences are its reasons."""
    said = head(phrase)
    return _preference(said) or _state(said) or _key_value(said) or _is(said)


def head(phrase: Phrase) -> str:
    for sentence in phrase.sentences[:2]:
        if said := LEAD_IN.sub("", sentence).strip().rstrip(".!。"):
            return said
    return phrase.text


@lru_cache(maxsize=256)
def split_lead_in(text: str) -> tuple[str, str]:
    """`No, it is blue` as what leads in and as it should stand: `No, `, `It is blue`."""
    found = LEAD_IN.match(text)
    said = text[found.end() :] if found else ""
    return (found[0], said[0].upper() + said[1:]) if found and said else ("", text)


@lru_cache(maxsize=256)
def find_correction(said: str) -> tuple[str, str] | None:
    """What it should be, and what it should not be, of a sentence that names no subject: `it should be 9, not 8`."""
    found = SHOULD_BE.match(said.strip().rstrip(".!。"))
    return (found["value"] or found["cjk"], found["wrong"] or "") if found else None


def is_elliptic(text: str) -> bool:
    """It says what something should be, and not of what: the last thing said is meant."""
    cue, said = split_lead_in(text[:200])
    found = find_correction(said)
    return found is not None and bool(cue or found[1] or re.search("should|^应该|^應該", said, re.IGNORECASE))


def subject_key(text: str) -> frozenset[str]:
    """Whom it is about; nothing for the user, who is meant unless another is named."""
    text = CJK_USER.sub("", text).strip()
    return frozenset() if USER.match(text.lower()) else frozenset(content(Phrase(text).words))


def _preference(said: str) -> Frame | None:
    found = PREFERENCE.match(said)
    if found is None or _not_liking(found["subject"]):
        return None
    positive = bool(found["like"]) != bool(found["not"])
    value, *denied = BUT_NOT.split(REASON.sub("", found["value"]), maxsplit=1)
    refused = Phrase(denied[0]) if denied else None
    return Frame("preference", subject_key(found["subject"]), Phrase(value), positive, denied=refused)


def _not_liking(text: str) -> bool:
    return not lexicon.NO_LIKING.isdisjoint(text.lower().split())


def _state(said: str) -> Frame | None:
    found = STATE.match(said) or CJK_STATE.match(said)
    if found is None or _indefinite(found["subject"]):
        return None
    told = found.groupdict()
    name = next(name for name in STATES if told.get(name))
    changed = CHANGE.search(told[name]) is not None
    said_of = lexicon.DATE.sub("", told["value"]) or told["value"]
    key, value = (name, said_of) if name != "uses" else _split_used(said_of)
    if not key or (name == "home" and value[0].islower()):  # `moved to the back-end team` is no place
        return None
    subject = subject_key(CJK_WHEN.sub("", told["subject"]))
    if name == "age" and (len(subject) > 1 or _single(told["subject"])):  # `max retries is 3` is nobody's age
        return None
    of = subject | {key}
    return Frame("state", of, Phrase(value), not told.get("not"), single=True, changed=changed)


def _indefinite(subject: str) -> bool:
    return subject.lower().partition(" ")[0] in lexicon.INDEFINITE


def _single(key: str) -> bool:
    return not SINGLE.isdisjoint(Phrase(key).words)


def _split_used(value: str) -> tuple[str, str]:
    """`Neovim as my editor` is (editor, Neovim); `Postgres` is (database, Postgres); else nothing is known."""
    named = split_use(value)
    kinds = ((name, value) for name, pattern in KIND.items() if pattern.match(value))
    return named if named[0] else next(kinds, ("", value))


def is_single(frame: Frame) -> bool:
    """By the words of its key, not by how brief the value is."""
    return not SINGLE_STEMS.isdisjoint(frame.key)


def split_use(value: str) -> tuple[str, str]:
    """What it is used as, when there is one such thing at a time: `as my browser`, `for the editor`."""
    named = AS_A.match(value)
    if named and (_single(named["key"].split()[-1]) or OWN.search(value)):
        return stem(named["key"].split()[-1].lower()), named["value"]
    return "", value


def _key_value(said: str) -> Frame | None:
    found = KEY_VALUE.match(said) or CJK_IS.match(said)
    if found is None or len(found["key"].split()) > 6 or (found["key"][-1].isdigit() and found["value"][0].isdigit()):
        return None
    key, value = subject_key(found["key"]), found["value"]
    if not key or _speaker(found["key"], value) or found["key"].lower() in lexicon.LABELS:
        return None
    brief = len(value) <= BRIEF and not value.endswith(("!", "?"))
    return Frame("key", key, Phrase(value), single=brief or _single(found["key"]))


def _speaker(key: str, value: str) -> bool:
    """`Lena: see you soon` is someone speaking; `Timezone: CET` and `Budget: 300` are not."""
    return key.isascii() and key.istitle() and key.isalpha() and not _single(key) and not value[0].isdigit()


def _is(said: str) -> Frame | None:
    turned = INVERSE.match(said)
    found = turned if turned and _single(turned["key"].split()[-1]) else IS.match(said)
    if found is None:
        return None
    left, value = Phrase(found["key"]).words, found["value"]
    key, single = frozenset(content(left)), _single(found["key"])
    if not 0 < len(key) <= 6 or left[0] in lexicon.INDEFINITE or left[0] in lexicon.PRONOUNS or negations(left):
        return None
    if DOING.match(value) and (" " in value or not single):
        return None  # `the dog is running` is no attribute; `the target is staging` is
    return Frame("is", key, Phrase(value), not found["not"], single=single)


# -- the objects of likings


@lru_cache(maxsize=1024)
def head_noun(text: str) -> str:
    """The noun that a phrase is about: `novels` in `Romance novels with strong characters`."""
    first = TAIL.split(text.lower().strip(), maxsplit=1)[0] or text.lower()
    stems = list(content(Phrase(first).words))
    return stems[-1] if stems else ""


def split_items(text: str) -> list[frozenset[str]]:
    """The members of a list; a part that only narrows the one before it is not a member."""
    parts = [part for part in LIST.split(text) if part]
    if any(TAIL.match(part.lower()) for part in parts[1:]):
        return [Phrase(text).bag]
    return [Phrase(part).bag for part in parts]
