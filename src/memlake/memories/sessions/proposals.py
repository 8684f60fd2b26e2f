"""A yes to what the agent proposed: what a few words of assent agree to, if it holds beyond this turn. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from memlake.memories.sessions import prompts
from memlake.memories.sessions.cues import chinese as zh
from memlake.memories.sessions.cues import english as en
from memlake.memories.sessions.prompts import Sentence

_READ, _LAST = 2000, 4  # characters of a message, and sentences of its end, in which a proposal stands


def find_agreed(prompt: str, proposal: str) -> str:
    """What was agreed to, in the agent's words; empty if nothing, or nothing that lasts (`Shall I add a test?`)."""
    if not proposal or not prompts.is_assent(prompt):
        return ""
    sentences = prompts.list_sentences(proposal[-_READ:])
    if listed := _find_listed(prompt, sentences):
        return f"Agreed: {listed}"
    for sentence in reversed([one for one in sentences if not one.listed][-_LAST:]):
        cues, lasting = (zh.PROPOSING, zh.LASTING) if sentence.is_cjk else (en.PROPOSING, en.LASTING_PROPOSALS)
        text = sentence.text if sentence.is_cjk else sentence.padded
        lasts = any(cue in text for cue in lasting) or _designs(sentence)
        if lasts and any(cue in text for cue in cues):
            return f"{'同意' if sentence.is_cjk else 'Agreed'}: {prompts.cut_proposal(sentence)}"
    return ""


def _find_listed(prompt: str, sentences: Sequence[Sentence]) -> str:
    """Of a list that the agent asked about: the point that was chosen, else all of how something is to be built."""
    points = [one.text.rstrip(" .;") for one in sentences if one.listed]
    if len(points) < 2 or sentences[-1].is_cjk or not prompts.is_question(sentences[-1]):
        return ""
    chosen = prompts.find_chosen(prompt, points) or prompts.find_chosen(sentences[-2].text, points)
    designs = any(cue in sentences[-1].padded for cue in en.DESIGNED)
    return chosen or ("; ".join(points) if designs else "")


def _designs(sentence: Sentence) -> bool:
    """`I would store the tickets in the keychain`: how something is to be, and not what is done next."""
    low = [word.low for word in sentence.words]
    at = next((at + 2 for at in range(len(low) - 2) if low[at : at + 2] == ["i", "would"]), 0)
    at = at or next((at + 1 for at, word in enumerate(low[:-1]) if word == "i'd"), 0)
    return at > 0 and low[at] in en.USING | en.CHOOSE | en.BOUNDING | {"give", "make", "split"}
