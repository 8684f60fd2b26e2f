"""BERT's lower-case WordPiece tokenizer, in plain Python. Knows a vocabulary, no model.

The `tokenizers` library does the same and is what the tests compare with; with what it requires, an HTTP client and a
hub's among them, it takes 35 MB more than this file.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

LONGEST_TEXT = 16_384  # characters read of one text: far more than the tokens that are kept
LONGEST_WORD = 100
MOST_WORDS = 50_000  # remembered words, about 10 MB
PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")  # of ASCII; some of it is no punctuation to Unicode
IDEOGRAPHS = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class _Shapes(dict[int, str]):
    """What each character becomes, decided once: lower case, nothing, a space, or itself as a word of its own."""

    def __missing__(self, code: int) -> str:
        self[code] = shape = _shape(chr(code))
        return shape


def _shape(char: str) -> str:
    kind = unicodedata.category(char)
    if char in "\t\n\r" or kind[0] == "Z":
        return " "
    if kind == "Mn" or kind in ("Cc", "Cf", "Co") or char == "\ufffd":  # accents, controls
        return ""
    alone = char in PUNCTUATION or kind[0] == "P" or any(first <= ord(char) <= last for first, last in IDEOGRAPHS)
    return f" {char} " if alone else char.lower()


class WordPiece:
    def __init__(self, words: list[str]) -> None:
        self._ids = {word: number for number, word in enumerate(words)}
        self._start, self._end, self.unknown = (self._ids[word] for word in ("[CLS]", "[SEP]", "[UNK]"))
        self._shapes = _Shapes()
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str, limit: int) -> list[int]:
        """The ids of a text, at most `limit`, between the marks of its start and its end."""
        ids: list[int] = []
        for word in unicodedata.normalize("NFD", text[:LONGEST_TEXT]).translate(self._shapes).split():
            ids += self._pieces(word)
            if len(ids) > limit - 2:
                break
        return [self._start, *ids[: limit - 2], self._end]

    def unknown_share(self, ids: list[int]) -> float:
        """How much of an encoded text the vocabulary has no word for; 1 for a text without words."""
        said = len(ids) - 2
        return ids.count(self.unknown) / said if said else 1.0

    def _pieces(self, word: str) -> list[int]:
        pieces = self._known.get(word)
        if pieces is None:  # two threads may both cut a word; neither may miss one the other forgot
            if len(self._known) >= MOST_WORDS:
                self._known.clear()
            pieces = self._known[word] = list(self._cut(word))
        return pieces

    def _cut(self, word: str) -> Iterator[int]:
        """The longest known piece, then the longest of what is left; one unknown if some of it has none."""
        pieces, start = [], 0
        while start < len(word) <= LONGEST_WORD:
            ends = range(len(word), start, -1)
            names = (("##" if start else "") + word[start:end] for end in ends)
            found = next(
                ((self._ids[name], end) for name, end in zip(names, ends, strict=True) if name in self._ids), None
            )
            if found is None:
                break
            pieces.append(found[0])
            start = found[1]
        yield from pieces if start == len(word) else [self.unknown]
