"""Whether a memory is about a prompt: by the words they share, each weighed by how rare it is. Pure.

Two texts of one project always share words, so a shared word alone says little. A memory is about a prompt when the
words they share are a good part of what the prompt asks, or of what the memory says, or are what it is about: what its
first sentence begins with. Words of any project and any order (`run`, `test`, `file`) hardly count. Knows texts and
counts, not where memories are kept; loaded by hooks, so it must stay light.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping

from memlake.index import terms
from memlake.named_tuple import NamedTuple

Weigh = Callable[[str], float]

_LEAST = 30  # memories below which rarity says nothing: in a store of five every word is rare
_COMMON = 0.25  # what a common word, a single digit or a part of a name counts, beside one that means something
# The words that a prompt and a memory share ...
_TWO = 1.5  # ... weigh so much together, where there are several,
_PART = 0.3  # and are so much of the prompt or of the memory;
_HALF = 0.5  # or it is one, and so much of the prompt,
_SUBJECT = 0.25  # or less where it is all that the memory's subject is.
_ASIDE = 0.6  # Of a prompt, by what was said in passing, or by a summary, which has words of everything.
_RESTATED = 0.6  # of what a memory says: a person said that before
_QUOTED = 3  # words of a paste that a memory must have, and it is half of what it says
_NAMED = 4  # words in which a memory says what it is about

_FENCE = re.compile(r"^\s*(?:```|~~~).*?(?:^\s*(?:```|~~~)\s*$|\Z)", re.S | re.M)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+")
_PASTED = re.compile(
    r"^(?:\s{2,}|\t|[>$#%|] ?|[-+]{1,3} |@@ )|^\S*\d\d:\d\d:\d\d"
    r"|\b(?:Traceback|FAILED|ERR!|FATAL|Caused by|stack trace)\b"
    r"|^\s*(?:\w*(?:error|exception|warning)\w*|at \S+\()[:(\[ ]|[{};]\s*$|::|=>|\w\(\w*\)|(?:/[\w.@-]+){3}",
    re.I,
)
_ORDER = re.compile(r"\s*[/!]\w[\w:-]*(?:\s|$)")  # a command of the agent's program, which it answers itself
_WHO = re.compile(r"\bwho(?:m|se|'s)?\b|\bask (?:some|any)(?:one|body)\b|\bcontact\b|谁|哪位|联系人|负责人", re.I)
_STOPS = frozenset(
    "的了吗呢吧啊是在我你您他她它们这那有和与就都也什么谁哪怎样多少几个被把给要会能不没为从到对很最更还又"
)
_ENGLISH = (
    "add make do run use show keep set get put change move remove delete drop write read say tell ask answer give "
    "take go come look see find know think want need like try start stop begin end open close check call name let "
    "help work happen mean follow bring send leave stay turn hold allow explain describe create build fix update "
    "rename rewrite edit commit push pull merge branch rebase test code file folder function class method line "
    "error bug issue problem thing way time day today tomorrow yesterday week month year morning evening night "
    "now later again already still always never ever only even really actually maybe please thanks thank ok okay "
    "yes no good great nice fine right wrong new old big small short long same other another more less much many "
    "most few all every each both one two three first second next last before after once since until while "
    "because back up down out off over instead around between without within against through during together well "
    "very too quite lot bit part kind sort type case place side top done ready sure project repo app own version "
    "review number list step point result example question reason idea word note noted remember remind must don't "
    "can't won't isn't doesn't didn't aren't wasn't it's that's what's i'm i'll i've i'd we'll we've let's here's "
    "there's someone anyone something anything nothing everything but yet else whether mind understood told said "
    "says hello hi hey bye sorry"
)
_SOFTWARE = (
    "page table list field form button value data item object string array input output option setting config variable "
    "parameter argument module package script command column row key id user type default"
)
_CHINESE = (
    "提交 测试 继续 运行 代码 文件 修改 添加 删除 函数 问题 项目 现在 今天 昨天 明天 时候 可以 需要 一下 已经 "
    "以后 以前 谢谢 请问 然后 开始 结束 完成 使用 更新 检查 看看 一个 所有 全部 还是 或者 因为 所以 但是 如果 "
    "这样 那样 知道 觉得 应该 方法"
)


class Asked(NamedTuple):
    """What a prompt asks: stems of its own words, of what is pasted into it, and whether it asks for a person."""

    words: tuple[str, ...] = ()
    parts: frozenset[str] = frozenset()  # of them, parts of names: `refund` of `RefundDialog`
    pasted: frozenset[str] = frozenset()
    person: bool = False

    @property
    def meant(self) -> list[str]:
        """The words by which memories are looked for; none if the prompt says nothing of its own."""
        own = [word for word in self.words if not is_common(word)]
        return [*own, *sorted(self.pasted.difference(own))] if own or self.pasted else []


class Likeness(NamedTuple):
    """What a prompt and a memory share: the words that mean something, what all weigh, and of what part that is."""

    words: tuple[str, ...] = ()
    weight: float = 0.0
    of_prompt: float = 0.0
    of_memory: float = 0.0
    subject: bool = False  # they are all that the memory's subject is
    quoted: bool = False  # what was pasted is what the memory is about


NOTHING = Likeness()


# -- reading ----------------------------------------------------------------------------------


def read_prompt(text: str) -> Asked:
    """The words of a prompt: its prose apart from fences, logs and code, which nobody wrote to ask something."""
    if _ORDER.match(text):
        return Asked()
    prose, pasted = list[str](), _FENCE.findall(text)
    rest = _ADDRESS.sub(" ", _FENCE.sub("\n", text))
    several = len(rest.splitlines()) > 1
    for line in rest.splitlines():
        (pasted if several and _PASTED.search(line) else prose).append(line)
    said = "\n".join(prose)
    whole = _list_words(said.casefold())
    words = dict.fromkeys((*whole, *_list_words(said)))
    return Asked(
        tuple(words),
        frozenset(words) - set(whole),
        frozenset(word for word in _list_words("\n".join(pasted)[: terms.ASKED]) if not is_common(word)),
        bool(_WHO.search(said)),
    )


def _list_words(text: str) -> list[str]:
    """Stems that say something, in order; of Chinese, pairs of characters of which none is there for grammar alone."""
    found = terms.words(text[: terms.ASKED])
    return [word for word in found if not terms.says_nothing(word) and not _is_grammar(word)]


def _is_grammar(word: str) -> bool:
    """Whether a term of Chinese is a single character, whose pairs say more, or has one that is there for grammar."""
    return word[0] > "\u2fff" and (len(word) == 1 or not _STOPS.isdisjoint(word))


def is_common(word: str) -> bool:
    """Whether a stem is a word of any project: an order, a greeting, or a digit."""
    return word in _common_stems() or (len(word) == 1 and word[0] <= "\u2fff")


@functools.cache
def _common_stems() -> frozenset[str]:
    return frozenset(terms.words(f"{_ENGLISH} {_SOFTWARE} {_CHINESE}"))


def weigh_by(counts: Mapping[str, int], total: int) -> Weigh:
    """What a word is worth, 0 to 1, by how many memories of all have it; one that is not counted is rare."""
    all_rows = max(total, _LEAST)
    rarest = terms.weigh_word(1, all_rows)

    def weigh(word: str) -> float:
        worth = terms.weigh_word(max(counts.get(word, 1), 1), all_rows) / rarest
        return worth * (_COMMON if is_common(word) else 1)

    return weigh


# -- where did we stop? -----------------------------------------------------------------------


def asks_where_we_stopped(text: str, asked: Asked) -> bool:
    """Whether a prompt asks for the last session: where it stopped, what is open, or to go on with it.

    It is short and has no subject of its own: `which ports are open?` asks for ports.
    """
    if _CJK.search(text):
        folded = "".join(text.split())
        return len(folded) <= _SHORT_CJK and any(cue in folded for cue in _STOPPED_CHINESE)
    words = frozenset(text.casefold().replace("\u2019", "'").translate(_POINTS).split())
    if len(words) > _SHORT or any(not is_common(word) and word not in _last_stems() for word in asked.words):
        return False
    return any(first & words and second & words for first, second in _STOPPED)


def _cues(*pairs: tuple[str, str]) -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    return tuple((frozenset(first.split()), frozenset(second.split())) for first, second in pairs)


_SHORT, _SHORT_CJK = 16, 24  # words and characters, beyond which somebody asks for more than that
_POINTS = str.maketrans(dict.fromkeys('.,;:!?()"', " "))
_CJK = re.compile("[\u3400-\u9fff]")
_LAST = (
    "where stopped left leave off were remains remaining remain pending outstanding unfinished todo todos next "
    "open resume continue pick catch recap summary summarise summarize status progress session last previous time "
    "friday monday tuesday wednesday thursday saturday sunday yesterday weekend morning afternoon evening task "
    "tasks work working far state stand remind refresh memory again carry over current currently plan agenda "
    "standup loose ends end"
)
_STOPPED = _cues(  # a word of each of the two
    ("where where's", "stop stopped leave left off were was stand resume pick"),
    (
        "what what's whats anything any which still",
        "open left remains remaining remain pending outstanding unfinished todo",
    ),
    ("what what's whats", "next"),
    ("what what's whats", "yesterday last"),
    ("continue resume pick carry catch go", "left yesterday last stopped up where"),
    (
        "recap summary summarise summarize status progress remind standup",
        "last yesterday session far where were previous",
    ),
)
_STOPPED_CHINESE = (
    "做到哪", "到哪了", "到哪里了", "到哪儿了", "停在哪", "进行到哪", "接着上次", "继续上次", "继续昨天",
    "接着昨天", "接着做上次", "还有什么没做", "还有哪些没做", "还剩什么", "还剩哪些", "什么没做完", "哪些没做完",
    "什么未完成", "哪些未完成", "什么没完成", "哪些没完成", "有什么要做", "下一步做什么", "接下来做什么",
    "接下来该做", "昨天做了什么", "上次做了什么", "进度如何", "进度怎么样", "进展如何", "进展怎么样", "什么进度",
    "还有什么遗留",
)  # fmt: skip


@functools.cache
def _last_stems() -> frozenset[str]:
    return frozenset(terms.words(_LAST))


# -- comparing --------------------------------------------------------------------------------


def compare(asked: Asked, content: str, weigh: Weigh) -> Likeness:
    """What a prompt and a memory share."""
    says = dict.fromkeys(_list_words(content))
    whole = dict.fromkeys(_list_words(content.casefold()))
    both = [word for word in asked.words if word in says]
    total = sum(map(weigh, whole)) or 1.0
    weight = sum(weigh(word) * (_COMMON if word in asked.parts else 1) for word in both)
    of_prompt = weight / (sum(weigh(word) for word in asked.words if word not in asked.parts) or 1.0)
    meant = tuple(word for word in both if not is_common(word) and word not in asked.parts)
    subject = _find_subject(content)
    pasted = [word for word in asked.pasted if word in says]
    return Likeness(
        meant,
        weight,
        min(of_prompt, 1.0),
        min(weight / total, 1.0),
        bool(subject) and subject <= set(both),
        len(pasted) >= _QUOTED and sum(map(weigh, {*pasted, *both} & whole.keys())) >= _HALF * total,
    )


def _find_subject(content: str) -> frozenset[str]:
    """What a memory says something of: its first words up to one of grammar (`The dev server of ...`)."""
    subject = list[str]()
    for word in terms.words(content[:200].casefold()):
        if terms.says_nothing(word):
            if any(not is_common(one) for one in subject):
                break
            subject.clear()
        elif not _is_grammar(word):
            subject.append(word)
    meant = frozenset(word for word in subject if not is_common(word))
    return meant if len(subject) <= _NAMED else frozenset()


def is_about(asked: Asked, likeness: Likeness, *, category: str, aside: bool = False) -> bool:
    """Whether a memory should be told to who asks this; `aside`: it is a summary, or was said in passing."""
    if likeness.quoted:
        return True
    if aside:
        return len(likeness.words) > 1 and likeness.of_prompt >= _ASIDE
    if asked.person and category == "contacts":
        return bool(likeness.words)
    if len(likeness.words) > 1 and likeness.weight >= _TWO:
        return max(likeness.of_prompt, likeness.of_memory) >= _PART
    if not likeness.words or asked.person:
        return False
    return likeness.of_prompt >= (_SUBJECT if likeness.subject else _HALF)


def restates(content: str, said: str, weigh: Weigh) -> bool:
    """Whether a text says little beside what was said: an agent's echo of a person."""
    words = dict.fromkeys(_list_words(content.casefold()))
    total, known = sum(map(weigh, words)), set(_list_words(said))
    return total > 0 and sum(weigh(word) for word in words if word in known) >= _RESTATED * total
