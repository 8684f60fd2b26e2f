"""One memory's text as words: tokens, stems, negation, numbers, names and the situation it speaks of."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from memlake.memories.rules import lexicon

# What is read of one memory. A sentence or a few is far below it; a page is compared whole, not read.
READ = 2000
# An address or path is one word, a number has its sign and dots, and a sign that is no punctuation is a word too.
WORD = re.compile(
    r"[^\s@,;]{1,64}@[\w.-]{0,99}\w|https?://[^\s,;]*[^\s,;.]|[\w.-]{1,64}(?:/[\w.-]{0,64}\w)+"
    r"|[^\W\d_]+(?:'[^\W\d_]+)*|(?<![\w-])-?\d+(?:[.:/-]\d+)*|\d+|[^\w\s.,;:!?'\"()\[\]{}`*=/\u2013\u2014\u201c\u201d\u3001\u3002-]"
)
# `vault A`, `the IT team`: names that would be read as little words.
NAME = re.compile(r"(?<=[a-z] )(A|US|IT|OR|IN|ME|WHO)(?![\w'])")
# After a preposition it is a value by that name, and denies nothing: `the build under none`.
NONE = re.compile(r"\b(to|in|on|at|with|from|under|as) none\b(?! of)")
# No word is split by spaces in these scripts, so each character is one.
UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0e7f])")
# `e-mail`, `log-in`, `set-up` are `email`, `login`, `setup`.
HYPHENED = re.compile(r"\b([a-z]{1,3})-(?=[a-z]{2})")
GROUPED = re.compile(r"(?<=\d),(?=\d{3}\b)")  # 1,000,000
SENTENCE_END = re.compile(
    r"(?<![DMS][rst]\.)(?<!Mrs\.)(?<!Prof\.)(?<!e\.g\.)(?<=[.!?])\s+(?=\S)|[\u3002\n]+|(?<=[\u3040-\u9fff][!?])"
)
# Quotation marks in one form, and powers kept: normalising alone makes `10\u00b2` into `102`.
FORMS = {0x2018: "'", 0x2019: "'"} | {
    ord(power): f"^{n}" for n, power in enumerate("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
}
# `On Mondays, user works at home`: when and where, said first.
FIRST = re.compile(r"((?:on|in|at|during|every|each|after|before|for) [^,.]{3,30}), (.+)", re.IGNORECASE)
BE = frozenset({"is", "are", "was", "were", "been", "being"})
VOWEL = re.compile("[aeiouy]")
VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
BESIDE = frozenset({"the", "my", "our", "his", "her", "their", "this", "that", "number", "#"})  # of a numbered name


@dataclass(frozen=True)
class Phrase:
    """A text and what was read in it; every property is worked out once, when a rule first asks."""

    text: str

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(_words(self.text))

    @property
    def content_stems(self) -> Iterator[str]:
        """The words that carry meaning, as stems, in order; read no further than is asked for."""
        return content(_words(self.text))

    @cached_property
    def stems(self) -> tuple[str, ...]:
        return tuple(content(self.words))

    @cached_property
    def bag(self) -> frozenset[str]:
        return frozenset(self.stems)

    @cached_property
    def active_stems(self) -> tuple[str, ...]:
        """The stems in the order of doing: `an onion is cut by a man` as `man cut onion`."""
        moved = FIRST.match(self.text)
        return _active(self.words) or (Phrase(f"{moved[2]} {moved[1]}").stems if moved else self.stems)

    @cached_property
    def denials(self) -> int:
        """How many negations; `not only` and the like are not one."""
        return negations(self.words)

    @cached_property
    def numbers(self) -> frozenset[str]:
        return frozenset(stem(word) for word in self.words if word[-1].isdigit() or word in lexicon.NUMBER_WORDS)

    @cached_property
    def names(self) -> frozenset[str]:
        """Stems of words with a capital that no sentence start explains."""
        return frozenset(stem(found[1].lower()) for found in re.finditer(r"(?<=[^.!?:\s]\s)([A-Z]\w+)", self.text))

    @cached_property
    def situations(self) -> frozenset[str]:
        """When, where and for what it holds: `morning`, `at work`, `go project`."""
        return frozenset(_situations(self.text.lower()))

    @cached_property
    def places(self) -> dict[str, set[str]]:
        """The prepositions that each word of meaning stands after: `into the tunnel`, `past the tunnel`."""
        return _find_places(self.words)

    @cached_property
    def doings(self) -> frozenset[str]:
        """What is being done, as stems; `being boiled` is another doing than `is boiling`, unless it says by whom."""
        return frozenset(_find_doings(self.words))

    @cached_property
    def quantifiers(self) -> frozenset[str]:
        """`one hand`, `both hands`, `all`, `half`."""
        return lexicon.QUANTIFIERS & frozenset(self.words)

    @cached_property
    def without_dates(self) -> Phrase:
        """The same without the days it names."""
        return Phrase(lexicon.DATE.sub("", self.text))

    @cached_property
    def number_name(self) -> tuple[tuple[str, ...], str] | None:
        """The number that names what it is about, and what it numbers: `server 7`, `employee #3`, `fact 12`."""
        return _find_number(self.words)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in SENTENCE_END.split(self.text) if part.strip())


# A new memory is held against several old ones: what was read in it is read once.
read_phrase = lru_cache(maxsize=256)(Phrase)


def as_written(stems: Collection[str], *phrases: Phrase) -> list[str]:
    """The words of some texts that have these stems, in their order: a stem is nothing to show a person."""
    found: dict[str, str] = {}
    for word in (word for phrase in phrases for word in phrase.words):
        if stem(word) in stems:
            found.setdefault(stem(word), word)
    return [*found.values(), *(name for name in sorted(stems) if name not in found)]


def plain(text: str) -> str:
    """One form of each character and one space between words; lines stay, for they end sentences."""
    return re.sub(r"[^\S\n]+", " ", unicodedata.normalize("NFKC", text.translate(FORMS))).strip()


def _words(text: str) -> Iterator[str]:
    spaced = NONE.sub(r"\1 namenone", NAME.sub(r"name\1", text).lower().replace("-free", " without"))
    if "-" in spaced or "," in spaced:
        spaced = GROUPED.sub("", HYPHENED.sub(r"\1", spaced))
    if not spaced.isascii():
        spaced = UNSPACED.sub(r" \1 ", spaced)
    for word in WORD.findall(spaced):
        if word.endswith("n't"):
            if word != "n't":
                yield lexicon.CONTRACTED.get(word, word[:-3])
            yield "not"
        elif "'" in word:
            first, _, last = word.partition("'")
            yield first
            if last != "s":
                yield lexicon.CONTRACTED.get(last, last)
        else:
            yield word


def content(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if word not in lexicon.FUNCTION_WORDS and word not in lexicon.NEGATIONS:
            yield stem(word)


def _active(words: tuple[str, ...]) -> tuple[str, ...]:
    """A passive sentence turned round; nothing when it is not one."""
    be = next((at for at, word in enumerate(words) if word in BE), len(words))
    verb = next((at for at in range(be + 1, len(words)) if words[at] not in lexicon.FUNCTION_WORDS), len(words))
    if "by" not in words[verb + 1 :] or not words[verb].endswith(("ed", "en", "n", "t", "ng", "nk")):
        return ()
    by = words.index("by", verb + 1)
    end = next((at for at in range(by + 1, len(words)) if words[at] in lexicon.PREPOSITIONS), len(words))
    return tuple(content((*words[by:end], words[verb], *words[:be], *words[verb + 1 : by], *words[end:])))


def negations(words: tuple[str, ...]) -> int:
    pairs = zip(words, (*words[1:], ""), strict=False)
    return sum(word in lexicon.NEGATIONS and after not in lexicon.NOT_NEGATED for word, after in pairs)


def _find_places(words: tuple[str, ...]) -> dict[str, set[str]]:
    """Nothing for what stands after none, as the object of a verb; `of` goes with the word before it."""
    found: dict[str, set[str]] = {}
    place = ""
    for word in words:
        if word in lexicon.PLACES:
            place = lexicon.PLACES[word]
        elif word in lexicon.FUNCTION_WORDS:
            place = place if word in lexicon.DETERMINERS or word in {"and", "or"} else ""
        else:
            place = "" if word.endswith("ing") else place
            found.setdefault(stem(word), set()).add(place)
    return found


def _find_doings(words: tuple[str, ...]) -> Iterator[str]:
    by = "by" in words
    for before, word in itertools.pairwise(word for word in words if not word.endswith("ly")):
        if before == "being":
            yield stem(word) if by else f"{stem(word)} done"
        elif (before in BE or before == "and") and word.endswith("ing") and word != "being":
            yield stem(word)


def _find_number(words: tuple[str, ...]) -> tuple[tuple[str, ...], str] | None:
    at = next((at for at, word in enumerate(words) if word[-1].isdigit()), 0)
    before = tuple(word for word in words[:at] if word not in BESIDE)
    number = words[at] if words else ""
    # Before a unit or at the end it is a value, and with dots a version.
    if not 0 < len(before) <= 3 or not words[at + 1 :] or not words[at + 1][0].isalpha() or VERSION.fullmatch(number):
        return None
    return (before, number) if all(map(_may_name, before)) and not _is_doing(before[-1]) else None


def _may_name(word: str) -> bool:
    little = word in lexicon.FUNCTION_WORDS or word in lexicon.PREPOSITIONS or word in lexicon.NEGATIONS
    return word == "user" or not little


def _is_doing(word: str) -> bool:
    """A verb, a plural, or an attribute: the number after it counts or measures."""
    if word in lexicon.NUMBERED:
        return False
    ends = word.endswith(("ed", "ing")) or (word.endswith("s") and not word.endswith(("ss", "us", "is")))
    return ends or word in lexicon.PAST or word in lexicon.SINGLE or stem(word) in lexicon.ACTS or word == "after"


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """A light stem: plural, -ing and -ed off, irregular forms and close synonyms brought together."""
    word = lexicon.IRREGULAR.get(word, word)
    if len(word) > 3 and word.isascii():
        word = _cut(word)
    return SYNONYMS.get(word, word)


def _cut(word: str) -> str:
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    elif word.endswith("men") and len(word) > 4:  # `policewomen`
        word = f"{word[:-2]}an"
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) > 2 and VOWEL.search(root):
            doubled = len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz"
            word = root[:-1] if doubled else root
            break
    if word.endswith("ell") and len(word) > 5:  # `travelling`, `traveling`
        return word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _synonyms() -> dict[str, str]:
    groups = [[_cut(word) for word in group.split()] for group in re.split("[;\n]", lexicon.SYNONYM_GROUPS)]
    return {word: group[0] for group in groups for word in group[1:]}


def _antonyms() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for pair in lexicon.ANTONYM_PAIRS.split():
        one, other = map(stem, pair.split("/"))
        found[one] = found.get(one, frozenset()) | {other}
        found[other] = found.get(other, frozenset()) | {one}
    return found


def find_opposites(first: frozenset[str], second: frozenset[str]) -> frozenset[str]:
    """The words of both sides that are each other's opposites, by the list or by `un-` and `non-`."""
    found = set()
    for word in first:
        against = ANTONYMS.get(word, frozenset()) | {f"un{word}", f"non{word}"}
        if word.startswith(("un", "non")):
            against |= {word[2:], word[3:]}
        found |= {word, *(against & second)} if against & second else set()
    return frozenset(found)


def _situations(text: str) -> Iterator[str]:
    for found in lexicon.SITUATION.finditer(text):
        words = [stem(word) for word in found[0].split() if word not in lexicon.FUNCTION_WORDS]
        yield " ".join(words) or found[0]


def common(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[int, int]:
    """How many items two sequences share at their start, and (of what is left) at their end."""
    shortest = min(len(first), len(second))
    left = 0
    while left < shortest and first[left] == second[left]:
        left += 1
    right = 0
    while right < shortest - left and first[-1 - right] == second[-1 - right]:
        right += 1
    return left, right


SYNONYMS = _synonyms()
ANTONYMS = _antonyms()
