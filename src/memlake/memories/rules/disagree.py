"""The merge rules for memories that disagree: a pair in, a verdict out, None when a rule has nothing to say."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memlake.memories.rules import lexicon
from memlake.memories.rules.agree import collect_values
from memlake.memories.rules.entail import entails, split_denials
from memlake.memories.rules.pairs import Pair, Verdict
from memlake.memories.rules.phrases import BE, Phrase, as_written, common, stem
from memlake.memories.rules.sentences import LEAD_IN, Frame, find_correction, find_frame, is_single
from memlake.memories.rules.subjects import Told, find_told, same_subject, write_told

# Keys of a context that say where a memory holds; two memories that differ in one of them do not meet.
SCOPES = (
    "user_id", "project", "area", "folder", "repo", "language", "environment", "place", "location", "time_of_day",
    "team", "scope",
)  # fmt: skip
# Tags that say it too: by what they are tags of, at most one of each kind is true at a time.
SCOPE_TAGS = {
    **dict.fromkeys(("work", "home", "school", "office", "travel"), "place"),
    **dict.fromkeys(("morning", "afternoon", "evening", "night"), "time_of_day"),
    **dict.fromkeys(("production", "staging", "development"), "environment"),
}
LIGHT = frozenset(map(stem, lexicon.LIGHT))
CASED = frozenset(map(stem, lexicon.CASED))
STATE_VERBS = frozenset({"is", "are", "was", "were", "be", "been", "has", "have"})
SHOULD = re.compile(r"\bshould\b|^应该|^應該", re.IGNORECASE)
FIGURE = re.compile(r"\d(?:[\d.:,/-]*\d)?(?: ?[ap]m\b)?")
OWNER = re.compile(r"\w+(?=['\u2019]s\b)|(?<=用户)\w{1,3}(?=的)")
CORRECTING = re.compile(
    r"\bno\b|nope|correct|update|edit|actually|in fact|sorry|wrong|mistake|^not "
    "|不|错|錯|其实|其實|更正|纠正|糾正|实际|實際|抱歉",
    re.IGNORECASE,
)
FOR_ONE = re.compile(r"\bfor ([A-Z]\w+)")
ACTS = frozenset(map(stem, lexicon.ACTS))
DAY = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}")
SCOPE = re.compile(r"[\s,(]+(?:but )?(?:only )?(?:for|when|while|during|if|unless|except|under)\b", re.IGNORECASE)
# What something is written in, which is one at a time; who speaks one language may speak another.
CJK_WRITTEN = re.compile(
    "(?<=[用以])(?:[中英日法德俄韩泰]|汉|西班牙|葡萄牙|意大利|阿拉伯)[文语語](?=[写寫回答编編记記交提说明])"
)
CJK_NUMERALS = frozenset("一二两三四五六七八九十")
CJK_BEFORE_NAMES = frozenset("第号周週期拜")  # 第三, 周三: which one it is
CJK_EVENT = re.compile("[了过過]")
CJK_BEHAVES = re.compile("崩溃|失败|报错|卡死|闪退|出错|崩潰|失敗|報錯")
CJK_DAY = re.compile("(?:周|週|星期|礼拜|禮拜)[一二三四五六日天]|[0-9]{1,2}月[0-9]{1,2}[日号號]")
# What happens to a thing, or how it stands: no value of it. `moved to Monday` and `set at 30` are.
TOLD_OF = re.compile(
    r"(?!(?:called|named|moved|changed|raised|lowered|reduced|increased|fixed|estimated|postponed|extended|updated)\b)"
    r"\w{3,}ed (?!to\b|at\b)"
    r"|(?:required|needed|kept|hidden|written|open|closed|public|private|mandatory|optional)\b(?! to be)",
    re.IGNORECASE,
)
NAMED = re.compile(r"((?:(?:in|at|on|by|from|an?|the) )*)[A-Z][\w.-]*(?:[ ,]+[A-Z][\w.-]*)*$")


def judge_other_context(pair: Pair) -> Verdict | None:
    """Their metadata or tags say they hold in different places."""
    old, new = map(_scopes, pair.contexts)
    for scope in sorted(old.keys() & new.keys()):
        if old[scope] != new[scope]:
            action = "coexist" if pair.shared_stems else "add"
            return Verdict(action, "other-context", f"One holds for {scope} {old[scope]}, the other for {new[scope]}.")
    if old.get("user_id") != new.get("user_id"):  # what is said of one person is not said of all
        whose = old.get("user_id") or new.get("user_id")
        return Verdict("coexist", "other-context", f"One holds for user_id {whose}, the other names no user.")
    return None


def _scopes(context: Mapping[str, Any]) -> dict[str, Any]:
    """Where it holds, by its own keys, those of its `metadata`, and tags like `work` or `project:heron`."""
    inner = context.get("metadata")
    tagged = [tag.partition(":") for tag in context.get("tags") or () if isinstance(tag, str)]
    found = {SCOPE_TAGS[name]: name for name, colon, _ in tagged if not colon and name in SCOPE_TAGS}
    found |= {name: value for name, colon, value in tagged if colon and name in SCOPES}
    for source in (inner if isinstance(inner, Mapping) else {}, context):
        found |= {scope: source[scope] for scope in SCOPES if source.get(scope)}
    return found


def judge_other_object(pair: Pair) -> Verdict | None:
    """Both are JSON objects, about two things: `{"service": "gateway", ...}` and `{"service": "billing", ...}`."""
    old, new = _fields(pair.old.text), _fields(pair.new.text)
    for name in old.keys() & new.keys():
        if old[name] != new[name] and (name.lower() in lexicon.IDENTITY or name.lower().endswith(("_id", "_name"))):
            return Verdict("coexist", "other-object", f"They are about two things: {name} is another.")
    return None


def _fields(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def judge_elliptic(pair: Pair) -> Verdict | None:
    """`No, it should be 9090` corrects the value the old one gives; `it should be 9090, not 8080` names it."""
    found = find_correction(pair.new.text)
    if found is None or not (pair.cue or found[1] or SHOULD.search(pair.new.text)):
        return None
    value, wrong = found
    figures = FIGURE.findall(pair.old.text)
    if not wrong and FIGURE.fullmatch(value) and len(figures) == 1:
        wrong = figures[0]
    frame = find_frame(pair.old)
    said = Phrase(value)
    words = max(len(said.text.split()), len(frame.value.text.split())) if frame else 0
    if not wrong and frame is not None and (frame.single or words == 1) and len(pair.old.sentences) == 1:
        alike = bool(frame.value.numbers) == bool(said.numbers) or words == 1
        wrong = frame.value.text if alike else ""
    told = (
        list(re.finditer(rf"(?<![A-Za-z0-9_]){re.escape(wrong)}(?![A-Za-z0-9_])", pair.old.text, re.IGNORECASE))
        if wrong
        else []
    )
    if len(told) != 1:
        return None
    text = pair.old.text[: told[0].start()] + value + pair.old.text[told[0].end() :]
    return Verdict("conflict", "correction", f"It says what {wrong} should be.", text)


def judge_attribute(pair: Pair) -> Verdict | None:
    """Both give a value of the same attribute of the same subject."""
    if pair.frames is None:
        return None
    old, new = pair.frames
    if "preference" in (old.shape, new.shape) or old.key != new.key or old.positive != new.positive:
        return None
    if old.several or new.several:
        return collect_values(pair, old, new)
    if _differs_in_case(old, new):
        return Verdict("conflict", "attribute-value", "The value differs in its capitals.", _restate(pair, old, new))
    if old.shape == new.shape == "state" and old.value.bag == new.value.bag:
        return _same_value(pair, old, new)
    if _is_narrower(old, new) or _is_narrower(new, old):
        return Verdict("coexist", "attribute-narrowed", "One gives the value for all, the other for a case.")
    if old.value.bag <= new.value.bag or new.value.bag <= old.value.bag:
        return None  # the same value, or one that says more of it: containment decides
    return _other_value(pair, old, new)


def _same_value(pair: Pair, old: Frame, new: Frame) -> Verdict | None:
    """`lives in Bern` and `moved to Bern in May`: one fact, of which one may know the day."""
    words = frozenset(pair.old.without_dates.words) ^ frozenset(pair.new.without_dates.words)
    several = max(len(pair.old.sentences), len(pair.new.sentences)) > 1
    if several or pair.other_subject or _other_time(pair, old, new) or words & lexicon.INTENTIONS:
        return None
    if pair.new.without_dates.text != pair.new.text and pair.old.without_dates.text == pair.old.text:
        return Verdict("replace", "superset", "It says the same, and since when.")
    return Verdict("skip", "same-meaning", "It says the same in other words.")


def _other_time(pair: Pair, old: Frame, new: Frame) -> bool:
    """Each holds in a situation of its own; the day of a change is none, unless both name one."""
    was, came = pair.old, pair.new
    if was.without_dates.text == was.text or came.without_dates.text == came.text:
        was, came = was.without_dates if old.changed else was, came.without_dates if new.changed else came
    return was.situations != came.situations


def _is_narrower(whole: Frame, case: Frame) -> bool:
    """`is 3` and `is 3 for uploads`: what holds for a case does not hold for all, nor the other way round."""
    rest = case.value.text.lower().removeprefix(whole.value.text.lower())
    return rest != case.value.text.lower() and SCOPE.match(rest) is not None


def _other_value(pair: Pair, old: Frame, new: Frame) -> Verdict | None:
    name = " ".join(as_written(new.key, pair.new, pair.old))
    if old.shape == new.shape == "key" and _measures_other(old, new):
        return collect_values(pair, old, new)
    if old.shape == new.shape == "is" and _sort(old.value) != _sort(new.value) and not (old.single and new.single):
        return None  # two attributes
    if bool(TOLD_OF.match(old.value.text)) != bool(TOLD_OF.match(new.value.text)) or _happens_otherwise(old, new):
        return None
    if CORRECTING.search(pair.cue) and _is_time(old.value) and _is_time(new.value):
        return Verdict("conflict", "attribute-value", f"It corrects when the {name} is.", pair.new.text)
    if _other_time(pair, old, new):
        return Verdict("coexist", "other-situation", f"Both give a {name}, each for its own situation.")
    if old.positive and ((old.single and new.single) or _comparable(old.value, new.value)):
        return Verdict(
            "conflict", "attribute-value", f"Both give the {name}, with different values.", _restate(pair, old, new)
        )
    if pair.opposites:
        return None
    return Verdict("coexist", "attribute-unsure", f"Both say something of the {name}; both may hold.")


def _measures_other(old: Frame, new: Frame) -> bool:
    """`32 GB RAM`, `1 TB SSD`: two amounts, and each says of what."""
    if not old.value.numbers or not new.value.numbers or is_single(old):
        return False
    was, came = old.value.stems[-1], new.value.stems[-1]
    return was != came and not {was, came} & (old.value.numbers | new.value.numbers) and len(old.value.words) > 2


def _is_time(value: Phrase) -> bool:
    """The value is a day or a time of day and nothing else: `on Monday`."""
    return bool(value.situations) and len(value.words) <= 2


def _happens_otherwise(old: Frame, new: Frame) -> bool:
    """A password that is required, and is rotated: neither says which it is."""
    both = TOLD_OF.match(old.value.text), TOLD_OF.match(new.value.text)
    return all(both) and _sort(old.value) != _sort(new.value)


def _sort(value: Phrase) -> str:
    """How a value is said: an amount, a place, a name it is called by, one of a kind. Two sorts are two attributes."""
    first = value.words[0] if value.words else ""
    if first in lexicon.PLACES or (first.endswith("ed") and len(value.words) > 1):
        return first
    return "amount" if value.numbers else "kind" if first in {"a", "an", "one"} else "quality"


def _differs_in_case(old: Frame, new: Frame) -> bool:
    """A password in other capitals is another password."""
    return (
        bool(new.key & CASED)
        and old.value.bag == new.value.bag
        and old.value.text.strip(" .") != new.value.text.strip(" .")
    )


def _comparable(old: Phrase, new: Phrase) -> bool:
    """Two amounts of the same unit, or two names said the same way: `100 requests`, `in Bern`."""
    if old.numbers and new.numbers:
        return old.numbers != new.numbers and old.bag - old.numbers == new.bag - new.numbers
    was, came = NAMED.match(old.text), NAMED.match(new.text)
    return bool(was and came and was[1] == came[1])


def _restate(pair: Pair, old: Frame, new: Frame) -> str | None:
    """`User phone: 1111` and `My phone is actually 2222` make `User phone: 2222`."""
    said = pair.old.text.rstrip()
    if old.shape == "key" != new.shape and said.endswith(old.value.text):
        return said.removesuffix(old.value.text) + new.value.text
    return pair.new.text if pair.cue else None


def judge_negation(pair: Pair) -> Verdict | None:
    """One denies what the other states: every denied word is in the statement, so the statement entails it."""
    if not pair.one_denies or pair.other_subject:
        return None
    denied, stated = (pair.old, pair.new) if pair.old.denials else (pair.new, pair.old)
    clauses = split_denials(denied)
    clause = next((one for one in clauses if entails(stated, one) and _is_denied(pair, one, clauses)), None)
    if not denied.bag or not (clause or entails(stated, denied) or _instead(stated, denied)):
        return None
    if pair.other_situation:
        return Verdict("coexist", "other-situation", "One denies what the other states, each for its own situation.")
    if _lacks(denied):
        return Verdict("coexist", "negation-unsure", "With and without: each may hold for a case of its own.")
    kept = (
        [one for one in clauses if one != clause and not one.bag <= stated.bag] if denied is pair.old and clause else []
    )
    text = _write_beside(stated, kept) if kept else None
    return Verdict("conflict", "negation", "One denies what the other states.", text)


def _write_beside(stated: Phrase, kept: list[Phrase]) -> str:
    """The new fact and the clauses of the old one that it leaves alone: `User: drinks beer; does not eat meat`."""
    told = [find_told(phrase.text) for phrase in (stated, *kept)]
    known = [one for one in told if one is not None and same_subject(one.subject, told[0].subject if told[0] else "")]
    if len(known) == len(told):
        return write_told(Told(known[0].subject, tuple(fact for one in known for fact in one.facts)))
    return " ".join(f"{phrase.text.rstrip('.')}." for phrase in (stated, *kept))


def _is_denied(pair: Pair, clause: Phrase, clauses: list[Phrase]) -> bool:
    """One clause of several denies it. If the subject may be any man, the first clause must state much the same."""
    if not pair.indefinite or not clause.denials:
        return clause.denials > 0
    first, stated = clauses[0], pair.new if pair.old.denials else pair.old
    rest = first.bag - clause.bag
    elsewhere = any(first.places.get(word, {""}) != {""} for word in rest - stated.bag)
    return not first.denials and not elsewhere and 2 * len(rest & stated.bag) >= len(rest)


def _instead(stated: Phrase, denied: Phrase) -> bool:
    """`prose, not bullet points`, `don't use yarn, use pnpm`: one clause denies what the other text states."""
    clauses = [Phrase(clause) for clause in re.split(r", (?:but |and )?|; | but ", denied.text)]
    denying = [clause for clause in clauses if clause.denials and clause.bag]
    if len(clauses) != 2 or len(denying) != 1:
        return False
    other = clauses[0] if clauses[1] is denying[0] else clauses[1]
    goes_on = other.words[:1] == stated.words[:1] or bool(other.bag & stated.bag) or other.words[:1] == ("use",)
    return goes_on and not other.numbers and denying[0].bag - LIGHT <= stated.bag and bool(denying[0].bag - LIGHT)


def _lacks(denied: Phrase) -> bool:
    """`Tests without a network pass` tells of a case; `User is without a car` denies it."""
    at = denied.words.index("without") if "without" in denied.words else 0
    return at > 0 and denied.denials == 1 and denied.words[at - 1] not in BE


def judge_correction(pair: Pair) -> Verdict | None:
    """A sentence of the new one says itself that something changed, and speaks of the same thing."""
    told = (pair.new, pair.cue.strip(" ,:;.!。")) if CORRECTING.search(pair.cue) else (pair.new, "")
    said, cue = next(_list_corrections(pair.new), told)
    if not cue or lexicon.CORRECTION.search(pair.old.text.lower()) or _elsewhere(pair) or pair.other_number:
        return None
    old, new = pair.old.bag - LIGHT, said.bag - LIGHT
    explicit = lexicon.EXPLICIT.search(f"{pair.cue}{said.text}".lower()) or _names_old(pair.old, said)
    shared, needed = len(old & new), 0.3 if explicit else 0.5
    # `now` is the weakest cue: half of the longer text must be shared, not of the shorter.
    if not shared or shared < needed * (max if cue == "now" else min)(len(old), len(new)):
        return None
    one_character = bool(pair.cue) and len(pair.old.text) == len(said.text)  # of a word in Chinese: 红色, 蓝色
    if _of_another(pair.old, said) and (said.text.isascii() or not one_character):
        return Verdict("coexist", "correction-unsure", f'It says "{cue}", but one of them may be of something else.')
    return Verdict("conflict", "correction", f'It says "{cue}" of the same thing.', pair.new.text if pair.cue else None)


def _names_old(old: Phrase, said: Phrase) -> bool:
    """`from MySQL to Postgres`, where the old one has MySQL."""
    found = lexicon.FROM_TO.search(said.text)
    was = Phrase(found["was"] or found["cjk"]).bag if found else frozenset()
    return bool(was) and was <= old.bag


def _of_another(old: Phrase, new: Phrase) -> bool:
    """One names an owner or a kind that the other does not: `my sister's phone`, `the staging API`, `for Acme`."""
    owners = {stem(name.lower()) for name in OWNER.findall(old.text)} - new.bag
    lone = {stem(name.lower()) for name in FOR_ONE.findall(new.text)} - old.bag
    return bool(owners or lone or set(_qualifiers(old, new)))


def _qualifiers(old: Phrase, new: Phrase) -> Iterator[str]:
    """Words of the old one alone that stand right before a word both have, and are no verb."""
    words = [word for word in old.words if stem(word) in old.bag - LIGHT]
    for word, following in itertools.pairwise(words):
        names = stem(word) not in new.bag and not (word[-1].isdigit() and new.text.isascii())
        if names and stem(following) in new.bag and stem(word) not in ACTS:
            yield word


def _list_corrections(phrase: Phrase) -> Iterator[tuple[Phrase, str]]:
    """The sentences with a correction cue, a lone `No.` with what follows it; a question corrects nothing."""
    for sentence, following in itertools.zip_longest(phrase.sentences, phrase.sentences[1:], fillvalue=""):
        cue = lexicon.CORRECTION.search(sentence.lower())
        said = sentence if LEAD_IN.sub("", sentence) else f"{sentence} {following}".strip()
        if cue and not said.endswith("?"):
            yield Phrase(said), cue[0].strip()


def _elsewhere(pair: Pair) -> bool:
    return bool(pair.old.situations and pair.new.situations and pair.old.situations.isdisjoint(pair.new.situations))


def judge_opposite(pair: Pair) -> Verdict | None:
    """Alike but for a pair of opposites."""
    if not pair.opposites or pair.one_denies or pair.indefinite or pair.other_subject or _event(pair.old.words):
        return None
    if _name_two(pair):
        return None
    if pair.moved and pair.opposites.isdisjoint(
        lexicon.PLACES
    ):  # `from Ulm`, `to Ulm`: two things, not one and its opposite
        return None
    old, new = (side - pair.opposites for side in pair.only)
    aligned = sum(common(pair.old.words, pair.new.words)) + 1 == len(pair.old.words) == len(pair.new.words) > 2
    if (len(pair.shared_stems) < 2 and not aligned) or (old and new) or len(old) + len(new) > 2:
        return None
    said = " / ".join(as_written(pair.opposites, pair.old, pair.new))
    return Verdict("conflict", "opposite", f"They differ in opposites: {said}.")


def _name_two(pair: Pair) -> bool:
    """`The front door`, `the back door`: the opposites say which one is meant, or they are told of two things."""
    old, new = find_told(pair.old.text), find_told(pair.new.text)
    if old is None or new is None:
        return False
    was, came = Phrase(old.subject).bag, Phrase(new.subject).bag
    return pair.opposites <= was ^ came or bool(was and came and was.isdisjoint(came))


def judge_unspaced(pair: Pair) -> Verdict | None:
    """The same sentence in a script without spaces, with another language to write in, or another day."""
    if pair.old.text.isascii() or pair.new.text.isascii():
        return None
    old, new = pair.old.text.rstrip("。.!"), pair.new.text.rstrip("。.!")
    was, came = CJK_WRITTEN.findall(old), CJK_WRITTEN.findall(new)
    if was != came and CJK_WRITTEN.sub("", old) == CJK_WRITTEN.sub("", new) and len(was) == len(came):
        return Verdict("conflict", "swapped-value", f"{'、'.join(was)} became {'、'.join(came)} in the same sentence.")
    if (swapped := _swap_cjk(old, new)) is not None:
        return swapped
    was, came = CJK_DAY.findall(old), CJK_DAY.findall(new)
    if was != came and CJK_DAY.sub("", old) == CJK_DAY.sub("", new) and len(was) == len(came):
        return Verdict("coexist", "swapped-unsure", "Another day: it may be one or the other, or both.")
    return None


def _swap_cjk(old: str, new: str) -> Verdict | None:
    """The same sentence with the opposite of one character, or with another number written as one."""
    if len(old) != len(new) or len(old) < 5:
        return None
    changed = [(was, came) for was, came in zip(old, new, strict=True) if was != came]
    if len(changed) != 1:
        return None
    was, came = changed[0]
    at = next(at for at, (one, other) in enumerate(zip(old, new, strict=True)) if one != other)
    told = find_told(old)
    if told is not None and at < len(told.subject):
        return None  # which one is meant
    if any(was in pair and came in pair for pair in lexicon.CJK_OPPOSITES):
        return Verdict("conflict", "opposite", f"They differ in opposites: {was} / {came}.")
    if {was, came} <= CJK_NUMERALS and old[at - 1] not in CJK_BEFORE_NAMES and not CJK_EVENT.search(old):
        return Verdict("conflict", "swapped-value", f"{was} became {came} in the same sentence.")
    return None


def _names_subject(words: Sequence[str]) -> bool:
    """`Pump 3 of hall 2 runs ...`: a number before the verb says which one is meant, where one after it is told."""
    return bool(words) and words[0] in lexicon.ALWAYS_VERBS | lexicon.NO_PLURALS


def judge_swapped(pair: Pair) -> Verdict | None:
    """The same sentence with another number or name in one place."""
    old, new = pair.old.words, pair.new.words
    left, right = common(old, new)
    was, came = old[left : len(old) - right], new[left : len(new) - right]
    if not len(was) == len(came) == 1 or left + right < 3 or pair.other_number:
        return None
    numbers = was[0][-1].isdigit() and came[0][-1].isdigit()
    if numbers and left > 0 and (old[left - 1] in lexicon.NUMBERED or _names_subject(old[left + 1 :])):
        return None  # two of a kind, each with its number
    if numbers and _under_a_version(pair, was[0]):
        return Verdict("coexist", "swapped-unsure", f"{was[0]} or {came[0]}: it may be so under both.")
    languages = left > 0 and old[left - 1] == "in" and {*was, *came} <= lexicon.LANGUAGES
    days = bool(DAY.fullmatch(was[0]) and DAY.fullmatch(came[0]))  # of a flight or a meeting there may be two
    if languages or (numbers and left > 1 and not (days or pair.indefinite or _event(old))):
        return Verdict("conflict", "swapped-value", f"{was[0]} became {came[0]} in the same sentence.")
    if numbers or (stem(was[0]) in pair.old.names and stem(came[0]) in pair.new.names):
        return Verdict("coexist", "swapped-unsure", f"{was[0]} or {came[0]}: it may be one or the other, or both.")
    return None


def _under_a_version(pair: Pair, number: str) -> bool:
    """`crashes on iOS 17`: how something behaves under one version of a named thing; `uses Python 3.11` is a value."""
    named = re.search(rf"[A-Za-z]*[A-Z][A-Za-z]* {re.escape(number)}(?![A-Za-z0-9_.])", pair.old.text)
    behaves = not lexicon.BEHAVES.isdisjoint(pair.old.words) or CJK_BEHAVES.search(pair.old.text)
    return named is not None and bool(behaves)


def _event(words: tuple[str, ...]) -> bool:
    """Something that happened, which may happen again with other figures; no state, which has an `is`."""
    return STATE_VERBS.isdisjoint(words) and any(word in lexicon.PAST or word.endswith("ed") for word in words)
