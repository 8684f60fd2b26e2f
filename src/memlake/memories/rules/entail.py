"""Whether a statement makes true what another sentence denies. Knows words and their kinds; no rule and no verdict."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from memlake.memories.rules import lexicon
from memlake.memories.rules.phrases import Phrase, content, stem
from memlake.memories.rules.subjects import find_told, name_fact

NONE = re.compile(
    r"^(?:no|people (?:are|were)|there (?:is|are|was|were) no)\b|\b(?:nobody|none|no one|anyone|anybody)\b"
)
ANYBODY = frozenset({"anyone", "anybody", "anything"})
WORN = frozenset({"wearing", "dressed"})  # who is in a hat wears it
# What is denied with these is denied without them: `cut into pieces`, `on top of`, `stand up`, `eat food`, 没有人.
FILLER = re.compile(
    r"()(?: into (?:pieces|bits)| top of)\b|(没|沒|無|无)有(?=人)"
    r"|(\b(?:sit|stand|lie|ly|kneel|cut|chop|slic|dic|lift|hold|clean|wash|wak|eat)\w*)"
    r" (?:up|down|(?:any |some )?food)\b"
)
# Who has a dog has a pet; who has seen a dog need not.
HAVING = re.compile(
    r"(?:has|have|had|owns?|keeps?|got) (?=an?\b|some\b|\d|(?:two|three|four|five|several|many|\w+s)\b)|有|养|養"
)
NOT_HAVING = re.compile(r"(?:has|have|had|owns?|keeps?|(?:does|do|did)(?: not|n't) (?:have|own|keep))\b|[没沒不]有?")
# How a clause begins that goes on with the subject of the one before it.
VERB = r"(?:is|are|was|were|does|do|did|has|have|had|can|could|will)"
# Another clause that denies: `does not smoke and does not drink`, 不吃肉也不喝酒.
DENIES_TOO = re.compile(
    rf",? (?:and|but) (?=(?:there {VERB} )?(?:no|nobody|never)\b"
    rf"|(?:(?:\w+ ){{1,4}})?(?:{VERB} not|{VERB}n't|can't|won't)\b)"
    r"|[,\uff0c\u3001]?(?:但|也|而且|并且|並且)(?=[不没沒])|[,\uff0c\u3001](?=[不没沒])"
)
NO_SUBJECT = re.compile(rf"(?:{VERB}\b|{VERB}n't|can't|won't|never\b|不|没|沒)")


def entails(stated: Phrase, denied: Phrase) -> bool:
    """Every word of what is denied is in the statement, or follows from a word of it; `no a or b` denies both."""
    none_at_all = bool(NONE.search(denied.text.lower()))
    true = frozenset(_list_true(stated, none_at_all=none_at_all))
    if not none_at_all:
        true |= _find_kinds(stated, denied)
    return any(bag and bag <= true for bag in _list_denied(denied))


def split_denials(phrase: Phrase) -> list[Phrase]:
    """`Kim does not smoke and does not drink` as a sentence each; nothing when only one clause is told."""
    first, *more = DENIES_TOO.split(phrase.text.rstrip(".。"))
    told = find_told(first) if more and not re.search("[;\uff1b]", phrase.text) else None
    if told is None:
        return []
    named = (name_fact(told.subject, clause) if NO_SUBJECT.match(clause) else clause for clause in more)
    return [Phrase(first), *map(Phrase, named)]


def _find_kinds(stated: Phrase, denied: Phrase) -> frozenset[str]:
    """Who eats ham eats meat. For what is done to the thing itself, and not when it is `the` one that is denied."""
    told, refused = find_told(stated.text), find_told(denied.text)
    if told is None or refused is None:
        return frozenset()
    fact, not_so = Phrase(told.facts[0]), Phrase(refused.facts[0])
    if fact.bag.isdisjoint(not_so.bag) and not (HAVING.match(fact.text) and NOT_HAVING.match(not_so.text)):
        return frozenset()
    if not stated.text.isascii():
        return frozenset("".join(kind for kind, names in CJK_KINDS.items() if names.search(fact.text)))
    definite = {stem(word) for before, word in itertools.pairwise(not_so.words) if before in lexicon.DEFINITE}
    done_to = list(itertools.takewhile(lambda word: word not in lexicon.PREPOSITIONS, fact.words))
    ends = zip(done_to, (*done_to[1:], "and"), strict=True)  # a `taxi company` is no car
    heads = (word for word, after in ends if after in lexicon.FUNCTION_WORDS or after.endswith(("ed", "ly")))
    return frozenset(kind for word in content(heads) for kind in KINDS_OF.get(word, ())) - definite


def _list_true(stated: Phrase, *, none_at_all: bool) -> Iterator[str]:
    """The stems a statement makes true; `there is no child` denies every boy too, `the child is not` does not."""
    yield from stated.bag
    words = [word for word in stated.words if word not in lexicon.FUNCTION_WORDS]
    yield from (stem(one + other) for one, other in itertools.pairwise(words))  # `sun shine`, `log in`
    for word in stated.bag:
        yield from NEAR.get(word, ())
        if none_at_all:
            yield from KINDS_OF.get(word, ())


def _list_denied(denied: Phrase) -> Iterator[frozenset[str]]:
    """What it denies, as stems: all it says, and with an `or` each side of it by itself."""
    words = Phrase(FILLER.sub(lambda found: found[found.lastindex or 1], denied.text)).words
    yield frozenset(_list_meant(words))
    if "or" in words:
        at = words.index("or")
        start = next((i + 1 for i, word in enumerate(words[:at]) if word in lexicon.NEGATIONS), 0)
        before, after = words[:start], words[at + 1 :]
        doing = () if any(map(_is_doing, after)) else tuple(filter(_is_doing, words[start:at]))[:1]
        yield frozenset(_list_meant(words[:at]))
        yield frozenset(_list_meant((*before, *doing, *after)))


def _list_meant(words: tuple[str, ...]) -> Iterator[str]:
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        if not (word in ANYBODY or word in WORN or (word in lexicon.MEASURES and following == "of")):
            yield from content((word,))


def _is_doing(word: str) -> bool:
    return word.endswith("ing")


def _near() -> dict[str, frozenset[str]]:
    groups = [frozenset(map(stem, group.split())) for group in re.split("[;\n]", lexicon.NEAR_GROUPS)]
    found: dict[str, frozenset[str]] = {}
    for group in groups:
        for word in group:
            found[word] = found.get(word, frozenset()) | group
    return found


def _kinds_of() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for kind, members in re.findall(r"(\w+):([^:]*)(?=\s\w+:|$)", lexicon.KINDS_OF_THINGS):
        for word in members.split():
            found[stem(word)] = found.get(stem(word), frozenset()) | {stem(kind)}
    return found


NEAR, KINDS_OF = _near(), _kinds_of()
CJK_KINDS = {kind: re.compile(names) for kind, names in (entry.split("=") for entry in lexicon.CJK_KINDS.split())}
