"""The merge rule for what one works with: `uses A`, then `now uses B`. A kind both are of makes sure what changed."""

from __future__ import annotations

import re

from memlake.memories.rules import lexicon
from memlake.memories.rules.pairs import Pair, Verdict
from memlake.memories.rules.phrases import Phrase
from memlake.memories.rules.sentences import KIND, RIVAL, STATE, head, split_use, subject_key
from memlake.named_tuple import NamedTuple

CJK_USES = re.compile(
    r"^(?P<subject>(?:(?!喜欢|喜歡|偏好|不|没)\S){0,8}?)(?:现在|現在|已经|目前)?"
    r"(?P<uses>改用|换用|換用|换成了?|換成了?|使用|用(?!户|戶|于|来))\s*(?P<value>\S.*)$"
)
CHANGED = re.compile(r"\bnow\b|\b(?:switched|migrated|moved)\b|现在|現在|改用|换用|換用|换成|換成", re.IGNORECASE)
FAR = 0.3  # vectors further apart speak of different kinds of thing


class Used(NamedTuple):
    """Who works with what, and of which kind that is, as far as it is known."""

    who: frozenset[str]
    what: frozenset[str]
    kind: str


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


def name_rivals(text: str) -> str:
    """The best known names of the kind that is used now, to look for; nothing when nothing changed or is known."""
    found = find_used(Phrase(text[:200])) if CHANGED.search(text) else None
    return (lexicon.KINDS | lexicon.RIVALS).get(found.kind, "").replace("|", " ") if found else ""
