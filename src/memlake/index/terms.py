"""From text to terms: what is indexed, what a query asks for, what a word is worth. Knows words, not rows.

Words are folded and stemmed by SQLite's own tokenizer (unicode61 and Porter). Chinese, Japanese and Korean have no
spaces, so runs of their characters become single characters and pairs; `camelCase` is indexed whole and in parts.
An emoji is a word of its own.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import apsw

from memlake.named_tuple import NamedTuple

ASKED, MOST_ASKED = 8192, 256  # characters and words of a query that count: each costs a look at every block
LONGEST = 40  # characters of a word that count; base64 and the like would fill the index
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_RUN = re.compile(f"[{_CJK}]+")
_SIGN = re.compile("[\u2600-\u27bf\U0001f000-\U0001faff]")  # emoji, to the tokenizer a gap between words
_CAMEL = re.compile(r"\b[^\W\d_]*[a-z0-9][A-Z]\w*")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STOP = (
    "a an the of to in is was did do does what when where who whom whose how which why for and or on at with by from "
    "as about into it its this that these those her his their she he they them him i you we us me my your our has have "
    "had been be are were am will would can could should may might not no so if then than there here just also any "
    "some 的 了 吗 呢 吧 啊 是 在 我 你 您 他 她 它 们 这 那 有 和 与 就 都 也 什 么 谁 哪 怎 样 多 少 几 个 被 把 "
    "给 要 会 能 不 没 为 从 到 对 上 下 里 中 地 得 着 过 之 于 以 及 或 而 但 很 最 更 还 又"
)
_K1, _B = 0.9, 0.4  # BM25's two numbers, as most engines tuned on many collections have them
TOP = _K1 + 1  # the most that a word gives, as a share of what it is worth
# Words of a memory that is neither long nor short. The mean of all would change while rows come, and with it the order
# of hits: a score made today would not compare with one made a year ago, nor a grown index with one made again.
_USUAL = 32.0
_threads = threading.local()
Tokenizer = Callable[..., list[str]]


class Terms(NamedTuple):
    """The terms of one record: how often each word occurs, and the marks a filter may ask for."""

    words: Mapping[str, int]
    marks: tuple[str, ...]

    @property
    def length(self) -> int:
        return sum(self.words.values())


def words(text: str) -> list[str]:
    """The stems of a text in order."""
    return _stems(text if text.isascii() else _RUN.sub(_characters_and_pairs, text))


def _stems(text: str) -> list[str]:
    if _HUMP.search(text):
        text = _CAMEL.sub(lambda found: f"{found[0]} {_HUMP.sub(' ', found[0])}", text)
    if not text.isascii():
        text = _SIGN.sub(_private_letter, text)
    found = _tokenizer()(
        text.encode("utf-8", "replace"),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    return [word[:LONGEST] for word in found]


def query_words(text: str) -> list[str]:
    """The stems a query asks for, each once: without words that say nothing, unless there are no others."""
    asked = list(dict.fromkeys(_stems(_RUN.sub(_pairs, text[:ASKED]))))
    return ([word for word in asked if word not in _stop_stems()] or asked)[:MOST_ASKED]


def query_characters(text: str) -> list[str]:
    """The single characters of Chinese, Japanese and Korean that a query has, for a search that looks at them, too."""
    runs = [] if text.isascii() else _RUN.findall(text[:ASKED])
    asked = dict.fromkeys(_stems(" ".join(character for run in runs for character in run)))
    return [character for character in asked if character not in _stop_stems()][:MOST_ASKED]


def says_nothing(word: str) -> bool:
    """Whether a stem is one of the words that every text has."""
    return word in _stop_stems()


def hash_term(term: str) -> int:
    """63 bits of a term: fits SQLite's integers and numpy's."""
    known = _hashes.get(term)
    if known is None:
        if len(_hashes) > 200_000:
            _hashes.clear()
        digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        known = _hashes[term] = int.from_bytes(digest, "little") >> 1
    return known


_hashes: dict[str, int] = {}


def mark(field: str, value: object) -> str:
    """The term that says a record has this value: never equal to a word."""
    return f"\0{field}\0{value}"


def count_terms(text: str, marks: Iterable[str]) -> Terms:
    return Terms(Counter(words(text)), tuple(marks))


def pack_terms(terms: Terms) -> bytes:
    """Hashes, then one byte of count each."""
    known = _hashes.get
    hashes = array("q", [known(term) or hash_term(term) for term in (*terms.words, *terms.marks)])
    try:
        counts = bytes(terms.words.values())
    except ValueError:  # one of them over 255
        counts = bytes(min(times, 255) for times in terms.words.values())
    return hashes.tobytes() + counts + bytes(len(terms.marks))


# -- BM25, as plain arithmetic


def score_count(count: Any, length: Any) -> Any:
    """How much of TOP, 0 to 1, a word gives that a row of so many words has so often; numbers, or arrays of them."""
    return count / (count + _K1 * (1 - _B + _B * length / _USUAL))


def weigh_word(found: int, total: int) -> float:
    """What a word is worth that so many rows of all have: rare ones more."""
    return math.log(1 + (total - found + 0.5) / (found + 0.5))


# -- spelling


def grams(word: str) -> frozenset[str]:
    """Pairs and triples of characters, with the ends of the word."""
    edged = f"^{word}$"
    return frozenset(edged[i : i + size] for size in (2, 3) for i in range(len(edged) - size + 1))


def likeness(a: frozenset[str], b: frozenset[str]) -> float:
    """The share of grams two words have in common: 1 for the same word."""
    return 2 * len(a & b) / (len(a) + len(b)) if a and b else 0.0


def _characters_and_pairs(run: re.Match[str]) -> str:
    text = run[0]
    return f" {' '.join((*text, *(text[i : i + 2] for i in range(len(text) - 1))))} "


def _pairs(run: re.Match[str]) -> str:
    """For a query: pairs only, where there are any; single characters would match far too much."""
    text = run[0]
    return f" {' '.join(text[i : i + 2] for i in range(len(text) - 1)) or text} "


def _private_letter(sign: re.Match[str]) -> str:
    """A word of one letter for private use: the tokenizer takes those for letters, and no text has them."""
    return f" {chr(0x100000 | ord(sign[0]) & 0xFFFF)} "


def _tokenizer() -> Tokenizer:
    """One for each thread: a connection serves one at a time."""
    found: Tokenizer | None = getattr(_threads, "tokenizer", None)
    if found is None:
        _threads.connection = apsw.Connection(":memory:")
        found = _threads.connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])
        _threads.tokenizer = found
    return found


@functools.cache
def _stop_stems() -> frozenset[str]:
    return frozenset(words(_STOP))
