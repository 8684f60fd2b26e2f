"""The merge rule for what one works with: `uses A`, then `now uses B`. A kind both are of makes sure what changed."""

from __future__ import annotations

import re
from functools import lru_cache

from memlake.memories.rules import lexicon
from memlake.memories.rules.pairs import Pair, Verdict
from memlake.memories.rules.phrases import Phrase, stem
from memlake.memories.rules.sentences import KIND, RIVAL, STATE, find_frame, head, split_use, subject_key
from memlake.memories.rules.subjects import find_told, same_subject
from memlake.named_tuple import NamedTuple

CJK_USES = re.compile(
    r"^(?P<subject>(?:(?!喜欢|喜歡|偏好|不|没)\S){0,8}?)(?:现在|現在|已经|目前)?"
    r"(?P<uses>改用|换用|換用|换成了?|換成了?|使用|用(?!户|戶|于|来))\s*(?P<value>\S.*)$"
)
CHANGED = re.compile(r"\bnow\b|\b(?:switched|migrated|moved)\b|现在|現在|改用|换用|換用|换成|換成", re.IGNORECASE)
FAR = 0.3  # vectors further apart speak of different kinds of thing
NEAR = 0.4  # ... and nearer ones of the same
# Words by which what is said of an attribute is found, when the value and the verb are others.
STATE_WORDS = {
    "home": "lives living based resides moved relocated 住",
    "employer": "works working employed joined hired",
    "spouse": "married engaged dating",
}


class Used(NamedTuple):
    """Who works with what, and of which kind that is, as far as it is known."""

    who: frozenset[str]
    what: frozenset[str]
    kind: str


@lru_cache(maxsize=256)
def find_used(phrase: Phrase) -> Used | None:
    """What the first sentence says somebody works with."""
    found = STATE.match(head(phrase)) or CJK_USES.match(head(phrase))
    if found is None or not found["uses"] or found.groupdict().get("not"):
        return None
    named, what = split_use(found["value"])
    return Used(subject_key(found["subject"]), Phrase(what).bag, named or _kind(what))


def _kind(text: str) -> str:
    return next((name for name, pattern in (KIND | RIVAL).items() if pattern.match(text)), "")


def judge_now_uses(pair: Pair) -> Verdict | None:
    """The same one works with something else now; of another kind both hold, of a kind unknown a person may know."""
    if not CHANGED.search(pair.new.text) or CHANGED.search(pair.old.text) or pair.other_situation:
        return None
    old = find_used(pair.old)
    new = find_used(pair.new) if old else None
    if not old or not new or old.who != new.who or old.what & new.what:
        return None
    if old.kind and old.kind == new.kind:
        return Verdict("conflict", "uses-now", f"Another {new.kind} is used now.")
    if (old.kind and new.kind) or (pair.cosine is not None and pair.cosine < FAR):
        return Verdict("coexist", "uses-other", "Both are used, each for something else.")
    return Verdict("coexist", "uses-unsure", "Something else is used now; it may be instead or beside.")


@lru_cache(maxsize=256)
def find_named(text: str) -> dict[str, str]:
    """The best known names it has, by the kind of thing they are: `ci: jenkins`."""
    return {kind: found[0].lower() for kind, pattern in NAMED.items() if (found := pattern.search(text))}


@lru_cache(maxsize=256)
def find_change(text: str) -> str:
    """The words that tell of a change; nothing when none do."""
    found = lexicon.CHANGE.search(text.lower())
    return found[0].strip() if found else ""


def judge_change(pair: Pair) -> Verdict | None:
    """It tells of a change in something the old one speaks of, or of its kind: what stands now, a person must say."""
    cue = find_change(pair.new.text)
    if not cue or find_change(pair.old.text) or _of_another(pair):
        return None
    if pair.old.situations and pair.other_situation:  # a new one of its own is when it changed
        return None
    old, new = find_named(pair.old.text), find_named(pair.new.text)
    rivals = [old[kind] for kind in old.keys() & new.keys() if old[kind] != new[kind]]
    shared = pair.shared_stems - LIGHT
    if not pair.new.text.isascii() and len(shared) < 2:  # of one character each
        shared = frozenset()
    if not rivals and not shared and not pair.opposites and (pair.cosine or 0.0) < NEAR:
        return None
    why = f'It says "{cue}"; it may be so instead or beside.'
    return Verdict("coexist", "change-unsure", why)


def _of_another(pair: Pair) -> bool:
    """Both name a subject, and not the same; `Back on Linux again` names none."""
    old, new = find_told(pair.old.text), find_told(pair.new.text)
    apart = old is not None and new is not None and not same_subject(old.subject, new.subject)
    return apart and pair.other_subject


def name_rivals(text: str) -> str:
    """Words to look for that an old memory may have and this one not: names of the kind that changed, or of a state."""
    phrase = Phrase(text[:200])
    if CHANGED.search(phrase.text) and (found := find_used(phrase)) and found.kind:
        return (lexicon.KINDS | lexicon.RIVALS)[found.kind].replace("|", " ")
    frame = find_frame(phrase)
    if frame is not None and frame.shape == "state" and (name := next(iter(frame.key & STATE_WORDS.keys()), "")):
        return STATE_WORDS[name]
    kinds = find_named(phrase.text) if find_change(phrase.text) else {}
    return " ".join(NAMES.sub(" ", (lexicon.KINDS | lexicon.RIVALS)[kind]) for kind in kinds)


LIGHT = frozenset(map(stem, lexicon.LIGHT))
NAMED = {
    kind: re.compile(rf"(?<![A-Za-z0-9_-])(?:{names})(?![A-Za-z0-9_-])", re.IGNORECASE)
    for kind, names in (lexicon.KINDS | lexicon.RIVALS).items()
}
NAMES = re.compile(r"\(\?[:!][^)]*\)\??|\|")
