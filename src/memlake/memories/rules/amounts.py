"""Amounts, times and days written in two ways: `30 seconds` and `30000 ms`, `3 pm` and `15:00`, 周二 and 星期二.

It knows how they are written, not what is decided. The second text is given the first one's way to write what is equal,
so that no rule has to know of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

# Per unit: what is measured, and how many of its smallest unit this is.
_TABLES = {
    "time": (
        "ms msec millisecond 毫秒=1; s sec second 秒 秒钟=1000; min minute 分钟=60000; h hr hour 小时 个小时=3600000;"
        "day 天=86400000; week 个星期=604800000"
    ),
    "size": "byte=1; kb kilobyte=1000; mb megabyte=1000000; gb gigabyte=1000000000; tb terabyte=1000000000000",
    "length": "mm millimetre=1; cm centimetre 厘米=10; m metre 米=1000; km kilometre 公里 千米=1000000",
    "weight": "mg milligram 毫克=1; g gram 克=1000; kg kilogram kilo 公斤 千克=1000000",
    "share": "% percent=1",
}
_UNITS = {
    name: (kind, float(size))
    for kind, table in _TABLES.items()
    for names, size in (entry.split("=") for entry in table.split(";"))
    for name in names.split()
}
_SMALL = (
    "zero 零", "one a an 一", "two 二 两", "three 三", "four 四", "five 五", "six 六", "seven 七", "eight 八",
    "nine 九", "ten 十", "eleven 十一", "twelve 十二", "thirteen 十三", "fourteen 十四", "fifteen 十五",
    "sixteen 十六", "seventeen 十七", "eighteen 十八", "nineteen 十九",
)  # fmt: skip
_TENS = ("twenty 二十", "thirty 三十", "forty 四十", "fifty 五十", "sixty 六十", "seventy", "eighty", "ninety")
_NUMBERS = (
    {word: at for at, words in enumerate(_SMALL) for word in words.split()}
    | {word: 10 * at for at, words in enumerate(_TENS, 2) for word in words.split()}
    | {"half an": 0.5, "half a": 0.5, "半": 0.5, "半个": 0.5}
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
_LONG = re.compile(r"\b[a-z]{6,}\b")
_DIGIT = re.compile(r"\d")
_TOLD = {
    *(name + ending for name in _UNITS for ending in ("", "s", "es")), *_NUMBERS.keys() - {"a", "an", "one"},
    *_ORDINALS,
    *(day[:short] + ending for day in _DAYS for short in (3, 4, 9) for ending in ("", "s")),
}  # fmt: skip
_LATER = ("pm", "p.m", "下午", "晚上")


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_FREE = r"(?<![A-Za-z0-9_.:/-])(?!0\d)"  # no part of an address, a version or a name, and not `007`
_NUMBER = rf"{_FREE}\d[\d,]*(?:\.\d+)?|(?<![A-Za-z0-9_])(?:{_any(_NUMBERS)})"
_END = r"(?![a-z0-9])"
_WRITTEN = re.compile(
    rf"(?P<early>上午|早上|下午|晚上)?(?P<hour>\d{{1,2}}|[一二两三四五六七八九十]{{1,2}})[点點]"
    rf"(?:(?P<minute>\d{{1,2}})分?|(?P<half>半)|[整钟鐘])?"
    rf"|\b(?P<clock>\d{{1,2}})(?:[:.](?P<past>\d\d))? ?(?P<late>[ap]\.?m){_END}\.?|\b(?P<full>\d{{1,2}}:\d\d){_END}"
    rf"|(?P<number>{_NUMBER})[ -]?(?P<unit>{_any(_UNITS)})(?:es|s)?{_END}"
    rf"|{_FREE}(?P<many>\d[\d,]*(?:\.\d+(?=k| ?million))?)(?P<scale>k| ?million| ?thousand)?{_END}(?![:./-]\d)"
    rf"|(?P<ordinal>\b\d{{1,2}}(?:st|nd|rd|th)\b|\b(?:{_any(_ORDINALS)})\b)"
    rf"|(?:周|週|星期|礼拜|禮拜)(?P<day>[一二三四五六日天])|\b(?P<weekday>mon|tues?|wed|thu(?:rs?)?|fri)(?:\.|day)?{_END}",
    re.IGNORECASE,
)


def unify(old: str, new: str) -> str:
    """The new text with every amount that is equal to one of the old text written as it is there."""
    known = dict(_list_amounts(old))
    came = _list_amounts(new)
    if any(known.get(value, written) != written for value, written in came):
        new = _WRITTEN.sub(lambda found: known.get(_read(found), found[0]), new)
    return _join_words(old, new)


@lru_cache(maxsize=256)
def _list_amounts(text: str) -> tuple[tuple[tuple[str, float], str], ...]:
    if text.isascii() and not _DIGIT.search(text) and _TOLD.isdisjoint(text.lower().replace(".", "").split()):
        return ()  # most texts: a look at their words is quicker than the pattern
    return tuple((_read(found), found[0]) for found in _WRITTEN.finditer(text))


def _join_words(old: str, new: str) -> str:
    """`timezone` and `time zone` as the old text has it."""
    was, came = _split_long(old), _split_long(new)
    for word in was[0] - came[0]:
        if word in came[1]:
            new = re.sub(_apart(word), word, new, flags=re.IGNORECASE)
    for word in came[0] - was[0]:
        if word in was[1] and (found := re.search(_apart(word), old, re.IGNORECASE)):
            new = re.sub(rf"\b{word}\b", found[0], new, flags=re.IGNORECASE)
    return new


@lru_cache(maxsize=256)
def _split_long(text: str) -> tuple[frozenset[str], str]:
    """Its long words, and the text without spaces."""
    return frozenset(_LONG.findall(text.lower())), text.lower().replace(" ", "")


def _apart(word: str) -> str:
    return "|".join(rf"\b{word[:at]} {word[at:]}\b" for at in range(2, len(word) - 1))


def _read(found: re.Match[str]) -> tuple[str, float]:
    said = {name: text.lower() for name, text in found.groupdict().items() if text}
    if "hour" in said:
        late = said.get("early") in _LATER
        return "clock", _clock(_count(said["hour"]), 30 if "half" in said else int(said.get("minute", 0)), late=late)
    if "clock" in said:
        hours = int(said["clock"]) % 12
        return "clock", _clock(hours, int(said.get("past", 0)), late=said["late"].startswith("p"))
    if "full" in said:
        hour, minute = said["full"].split(":")
        return "clock", _clock(int(hour), int(minute), late=False)
    if "unit" in said:
        kind, size = _UNITS[said["unit"]]
        return kind, round(_count(said["number"]) * size, 3)
    if "many" in said:
        scale = {"k": 1e3, "thousand": 1e3, "million": 1e6}.get(said.get("scale", "").strip(), 1)
        return "count", round(_count(said["many"]) * scale, 3)
    if "ordinal" in said:
        digits = re.match(r"\d+", said["ordinal"])
        return "ordinal", int(digits[0]) if digits else _ORDINALS.index(said["ordinal"]) + 1
    if "day" in said:
        return "day", "一二三四五六日".index(said["day"].replace("天", "日"))
    return "weekday", next(at for at, day in enumerate(_DAYS) if day.startswith(said["weekday"][:3]))


def _count(text: str) -> float:
    return float(_NUMBERS[text] if text in _NUMBERS else text.replace(",", ""))


def _clock(hour: float, minute: int, *, late: bool) -> float:
    return hour * 60 + minute + (720 if late and hour < 12 else 0)
