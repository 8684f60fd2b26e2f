"""Small talk: texts that are polite or agree, and tell nothing worth looking for. Knows words, not memories."""

from __future__ import annotations

import re

from memlake.index.terms import query_words, says_nothing

_WORDS, _BYTES = 6, 60  # a reply that is shorter in both says little
_TOLD = 3  # words beside those of a chat that a short reply must have to say something
_COURTESY = frozenset(
    query_words(
        "thank thanks thx ty cheers welcome please sorry hi hello hey bye goodbye ok okay yes yep yeah yup sure nope "
        "good fine great perfect cool nice awesome excellent wonderful glad happy done lgtm "
        "好的 谢谢 你好 再见 收到 嗯 好 对"
    )
)
_CHAT = frozenset(
    query_words(
        "let know need anything else help happy welcome done sure right away yes okay good fine great perfect please "
        "ready glad want like next thanks questions further feel free fixed works now it's I've you're I'll that's"
    )
)
_FILLERS = frozenset(query_words("got sounds looks very much lot job again no all")) | _CHAT | _COURTESY
_SIGNS = re.compile(r"[^\w\s']")  # an emoji is a word of its own to a search


def says_little(text: str) -> bool:
    """A pleasantry or a word of assent: few words, or few beside those; few bytes, for not every script has spaces."""
    if len(text.strip().encode("utf-8", "replace")) >= _BYTES:
        return False
    words = [word for word in query_words(text) if not says_nothing(word) and word not in _CHAT]
    return len(text.split()) < _WORDS or len(words) < _TOLD


def is_small_talk(text: str) -> bool:
    """Thanks, a greeting or assent, and nothing beside it. `Use tabs` says little, and is a rule all the same."""
    if len(text.strip().encode("utf-8", "replace")) >= _BYTES:
        return False
    words = query_words(_SIGNS.sub(" ", text))
    says_more = any(word not in _FILLERS and not says_nothing(word) for word in words)
    return not says_more and (not words or not _COURTESY.isdisjoint(words) or words == ["no"])
