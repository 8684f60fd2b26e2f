"""Texts that give orders to whoever reads them instead of telling something. Knows phrases, not memories.

Each phrase is an order to a model, not talk about one: `ignore previous instructions`, not `prompt injection`. Every
pattern reaches a bounded way, so that a page made to be slow is not.
"""

from __future__ import annotations

import re
import unicodedata

from memlake.named_tuple import NamedTuple

_READ = 256 << 10  # characters of a text that are looked at
_EARLIER = r"(?:previous|prior|above|earlier|preceding|existing|former|other|system|your|safety|the)"
_ORDERS = r"(?:instructions?|prompts?|rules?|guidelines?|directions?|directives?|safeguards?|constraints?)"


class Phrase(NamedTuple):
    says: str
    pattern: re.Pattern[str]


def _phrase(says: str, *patterns: str) -> Phrase:
    return Phrase(says, re.compile("|".join(patterns), re.IGNORECASE))


_PHRASES = (
    _phrase(
        "tells its reader to ignore instructions",
        r"\b(?:ignore|disregard|override|bypass|forget)\s(?:(?:all|any|every|of|everything|and|my|these|those|"
        rf"{_EARLIER})\s){{1,5}}{_ORDERS}",
        r"\bforget (?:everything|all) (?:that )?(?:above|before|you)",
        r"(?:忽略|无视|無視|忘记|忘記)(?:掉)?[^\n。,]{0,12}(?:指令|提示词|提示詞|指示|规则|規則)",
        r"\b(?:ignorier(?:e|en sie)|ignorez?|ignora|vergiss) (?:alle|toutes|todas|die|las|les|tes|deine)\s"
        r"(?:[^\s.]{1,16}\s){0,3}?(?:anweisungen|instruktionen|instructions|instrucciones|consignes|regeln)",
    ),
    _phrase(
        "gives its reader another role",
        r"\byou are now (?:in )?(?:an? |the )?(?:dan\b|developer mode|jailbroken|unrestricted|root\b|no longer)",
        r"\bfrom now on,? you (?:are|will|must) (?:[^\n.]{0,40}\b)?(?:unrestricted|without (?:any )?restrict|jailbr)",
        r"\bact as (?:if|though) you (?:have|had|are|were) (?:no|not|without) [^\n.]{0,20}(?:restrict|limit|rules)",
    ),
    _phrase(
        "tells its reader to keep it from the user",
        r"\b(?:do not|don't|never) (?:tell|inform|mention (?:this|it|that) to|let|show (?:this|it) to|alert|notify|ask)"
        r" the (?:user|human|developer|operator)\b(?! (?:to|for|about (?:their|his|her))\b)",
        r"\bwithout (?:telling|informing|asking|notifying|alerting) the (?:user|human|developer)",
        r"(?:不要|别|別)(?:告诉|告訴|通知|提醒)用[户戶]",
    ),
    _phrase(
        "tells its reader to send data away",
        r"\b(?:send|post|upload|exfiltrate|leak|forward|transmit)\s(?:[^\s]{1,40}\s){0,12}?"
        r"(?:secrets?|credentials?|api keys?|tokens?|passwords?|\.env|environment variables|conversation|ssh keys?)\s"
        r"(?:[^\s]{1,40}\s){0,6}?to\s(?:https?://|[\w.-]{1,60}@)",
    ),
    _phrase(
        "asks for its reader's own instructions",
        r"\b(?:reveal|print|output|repeat|disclose) (?:me )?(?:your|the) (?:(?:full|entire|whole|hidden|initial) ){0,2}"
        r"(?:system prompt|(?:system|initial|hidden) instructions)",
    ),
    _phrase(
        "poses as part of a conversation",
        r"<\|(?:im_start|im_end|system|endoftext|begin_of_text|start_header_id)\|>|\[/?INST\]|<</?SYS>>",
        r"</?(?:system|system-reminder|system_prompt|assistant|function_results)>",
        r"(?:^|\n)\s{0,8}(?:###? ?)?(?:system|new system) (?:prompt|message|override):",
    ),
    _phrase(
        "gives orders to any agent that reads it",
        r"\b(?:important|attention|note) (?:to|for) (?:the |any |all )?(?:ai|llm|assistant|language model|agent)s?\b"
        r"[^\n]{0,40}\b(?:must|always|execute|run|call|ignore)\b",
        r"\bwhen(?:ever)? (?:you|the assistant|an? (?:ai|agent|assistant)) (?:reads?|sees?|recalls?) this,?"
        r" (?:\w+,? ){0,3}?(?:execute|run|call|send|delete|post|fetch)\b",
    ),
)
_HIDDEN = re.compile("[\U000e0020-\U000e007e]{4}|[\u202d\u202e\u2066-\u2069]|[\u200b\u2060\u2062-\u2064]{6}")


def find_injection(text: str) -> str:
    """What a text tells its reader to do that no memory should; empty if it only tells something."""
    text = text[:_READ]
    if not text.isascii():
        if _HIDDEN.search(text):
            return "has characters that hide text from people"
        text = unicodedata.normalize("NFKC", text)
    line = re.sub(r"[^\S\n]+", " ", text)
    return next((phrase.says for phrase in _PHRASES if phrase.pattern.search(line)), "")
