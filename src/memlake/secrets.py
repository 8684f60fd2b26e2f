"""Secrets in text that is about to be stored: finding and hiding them. Pure; keeps and shows none.

A rule is a literal that every such secret starts with and a pattern for what follows, so that a text is searched at
the speed of `in`; most secrets are one long word, and prose has few of those. Patterns take what they take for good
(possessive or bounded), so time grows with the text alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from memlake.named_tuple import NamedTuple


class Secret(NamedTuple):
    """Where a secret stands in a text, and which rule says so. Never the secret itself."""

    rule: str
    start: int
    end: int


class Rule(NamedTuple):
    """`starts`: literals, one of which begins it; `rest`: what follows. The last group is the part to hide.

    `accepts` rules are matched in the text in small letters and may be several words; it has the last word.
    """

    name: str
    starts: tuple[str, ...]
    rest: str
    accepts: Callable[[str, re.Match[str]], bool] | None = None


# -- what it may not be -----------------------------------------------------------------------

_STANDS_FOR = re.compile(  # an example, or where the secret is to be found: not the secret
    r"example|placeholder|change-?_?me|your[-_ ]|my[-_](?:secret|token|password|key)|insert[-_]|dummy|redacted|xxxx"
    r"|\*\*\*|\.\.\.|123456789|abcdefgh",
    re.IGNORECASE,
)
_REFERS = re.compile(
    r"[\[{<(]|\$[A-Za-z_{(]|%[A-Za-z_]+%|\$\{|(?:os|process|self|config|settings|env|secrets|vault|this)[.:\[]"
    r"|(?:none|null|true|false|undefined|getenv|env)\b|[a-z_]\w*(?:\.[a-z_]\w*)+$|[a-z_.][\w.]*[(\[]|https?:|/[a-z]|~/",
    re.IGNORECASE,
)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_ABOUT = re.compile(
    r"(?:hash|digest|id|name|path|file|url|uri|count|policy|type|length|hint|label|field|ref|provider|version)s?$"
)
_MIXED = re.compile(r"[A-Za-z][^\d]*\d|\d[^A-Za-z]*[A-Za-z]|(?=.*[A-Za-z]).*[!@#$%^&*+=?~|]")
_PHRASE = re.compile(r"[A-Za-z]{5,}(?:[-_.][A-Za-z]{5,}){2,}")  # three words and more, none short: `end-to-end` is none
_STRANGE = re.compile(
    r"(?=.*[a-z])(?=.*[A-Z])(?=[^_./]*$).*\d|(?=.*\d)(?=[^_./]*$).*[!#$^&*+?~]"
)  # no word, name or path
_KNOWN = re.compile(r"(?:argon|sha|md5|bcrypt|scrypt|pbkdf|oauth|saml|base64|aes|\dpassword|utf)", re.IGNORECASE)
_SEVERAL = re.compile(r"\D*+\d\D*+\d")
_ISSUED = re.compile(
    r"4\d{15}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}|6(?:011|4[4-9]\d|5\d\d)\d{12}"
)
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def _is_stand_in(value: str) -> bool:
    return len(set(value)) < 5 or _STANDS_FOR.search(value) is not None


def _bits(value: str) -> float:
    """Shannon's entropy, in bits a character."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())


def _is_password(value: str, match: re.Match[str]) -> bool:
    """A person's password: letters with digits, or with signs that words have not, or several words in one."""
    looks = _MIXED.search(value) or _PHRASE.fullmatch(value)
    return looks is not None and not _is_named(value, match) and _bits(value) >= 2.2


def _is_random(value: str, match: re.Match[str]) -> bool:
    """A machine's key: long, several digits among letters, no words."""
    if len(value) < 16 or not _SEVERAL.match(value) or value.isdigit() or " " in value:
        return False
    is_name = match[0].startswith("token") and _UUID.fullmatch(value)
    return not is_name and not _is_named(value, match) and _bits(value) >= 3.0


def _is_named(value: str, match: re.Match[str]) -> bool:
    """Whether it is something said about a secret: its name, its hash, where it is."""
    return _REFERS.match(value) is not None or _ABOUT.search(match["tail"]) is not None


def _is_credential(value: str, _: re.Match[str]) -> bool:
    """The password of a URL: anything but a name for it."""
    return value.lower() not in ("password", "pass", "passwd", "pwd", "secret", "token") and not _REFERS.match(value)


def _is_argument(value: str, match: re.Match[str]) -> bool:
    """The password in a command: not its name, nor a number (`-P3306` is a port)."""
    return not value.isdigit() and not _STANDS_FOR.search(value) and _is_credential(value, match)


def _is_odd_argument(value: str, match: re.Match[str]) -> bool:
    """The same where a word of a sentence may follow the option."""
    return _MIXED.search(value) is not None and _is_argument(value, match)


def _is_strange(value: str, match: re.Match[str]) -> bool:
    """The same where nothing says that a value follows (`with password Blue7Whale`): no word looks like it."""
    return _STRANGE.search(value) is not None and _KNOWN.match(value) is None and _is_password(value, match)


def _is_issued(value: str, match: re.Match[str]) -> bool:
    """The same where only `key` says what it is: one that is no name (`the key is user_2024_v1`)."""
    return _STRANGE.search(value) is not None and _is_random(value, match)


def _is_any(_: str, __: re.Match[str]) -> bool:
    return True


def _is_card(value: str) -> bool:
    """A payment card by its issuer, its length and Luhn's check digit."""
    digits = value.replace(" ", "").replace("-", "")
    if not _ISSUED.fullmatch(digits):
        return False
    doubled = sum(_DOUBLED[int(digit)] for digit in digits[-2::-2])
    return (doubled + sum(map(int, digits[-1::-2]))) % 10 == 0


# -- the rules --------------------------------------------------------------------------------

_B64 = "[A-Za-z0-9+/]"
_URL64 = "[A-Za-z0-9_-]"
_GIVEN = (  # how a value is given: `= x`, `: x`, `is x`
    r"""(?P<tail>[a-z0-9_.-]{0,24}+)["'\])]{0,2}+"""
    r"(?:\s{0,3}+(?:=>|->|:=|={1,3}+|:|：)\s{0,3}+|(?:是|为|為)[:：]?\s?|(?<=')s\s"  # noqa: RUF001
    r"|(?:\s(?:for|of|to|on|für|von|vom|du|de|pour|del|para)\s[^\n.;:,=]{1,40}?)?"
    r"\s(?:is|was|are|ist|war|lautet|est|es)(?::\s?|\s)"
    r"|(?:\s(?:for|of|on)\s[^\n.;:,=]{1,40}?)?\s(?:(?:is|was|has\sbeen)\s)?(?:now\s)?(?:(?:set|changed|reset)\s)?to\s)"
)
_VALUE = (
    r"""(?:"(?P<double>[^"\n]{6,256}+)(?=")|'(?P<single>[^'\n]{6,256}+)(?=')"""
    r"""|(?P<bare>[^\s"'`,;<>\u0080-\U0010ffff]{6,256}+))"""
)
_SET = _GIVEN + _VALUE
_ARGUMENT = r"""["']?(?P<secret>[^\s"'-][^\s"']{3,128}+)"""
_LINE = r"[a-z]{0,9}+(?:[ \t][^\s|;]{1,80}+){0,20}?[ \t]"  # a command's words up to an option
_BODY = "(?:[^-]|-(?!----))"
_USER = r"[^\s/:@\"'<>]{0,128}+:"
_KEYS = "|".join(f"(?<={w}.key)|(?<={w}key)" for w in ("api", "access", "secret", "encryption", "account", "auth"))

RULES = (
    Rule("aws access key", ("AKIA", "ASIA"), "[A-Z2-7]{16}"),
    Rule("google api key", ("AIza",), f"{_URL64}{{35}}"),
    Rule("google oauth secret", ("GOCSPX-",), f"{_URL64}{{28}}"),
    Rule("google oauth token", ("ya29.",), f"{_URL64}{{20,512}}+"),
    Rule("azure storage key", ("AccountKey=", "SharedAccessKey="), rf"(?P<secret>{_B64}{{43,88}}+={{1,2}}+)"),
    Rule("azure signature", ("sig=",), r"(?P<secret>[A-Za-z0-9%/+]{40,120}+(?:=|(?<=%3D)|(?<=%3d)))"),
    Rule("azure client secret", ("8Q~", "7Q~"), "[A-Za-z0-9_~.-]{31,34}+"),
    Rule("github token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), "[A-Za-z0-9]{36,255}+"),
    Rule("github token", ("github_pat_",), "[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    Rule("gitlab token", ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-"), "[A-Za-z0-9_.-]{20,255}+"),
    Rule("slack token", ("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xapp-"), "[A-Za-z0-9-]{20,255}+"),
    Rule("slack webhook", ("hooks.slack.com/services/",),
         "(?P<secret>T[A-Z0-9]{6,14}/B[A-Z0-9]{6,14}/[A-Za-z0-9]{16,32}+)"),
    Rule("discord webhook", ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"),
         rf"(?P<secret>\d{{15,21}}/{_URL64}{{50,80}}+)"),
    Rule("stripe key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), "[A-Za-z0-9]{16,255}+"),
    Rule("anthropic key", ("sk-ant-",), rf"[a-z]{{3,12}}\d\d-{_URL64}{{20,255}}+"),
    Rule("openai key", ("sk-proj-", "sk-svcacct-", "sk-admin-"), f"{_URL64}{{20,255}}+"),
    Rule("openrouter key", ("sk-or-v1-",), "[0-9a-f]{64}"),
    Rule("service key", ("sk-live-", "sk-test-"), f"{_URL64}{{16,255}}+"),
    Rule("openai key", ("sk-",), "[A-Za-z0-9]{20,64}+"),
    Rule("model provider key", ("gsk_", "xai-", "pplx-", "r8_"), "[A-Za-z0-9]{37,90}+"),
    Rule("hugging face token", ("hf_",), "[A-Za-z0-9]{34}"),
    Rule("npm token", ("npm_",), "[A-Za-z0-9]{36}"),
    Rule("pypi token", ("pypi-AgE",), f"{_URL64}{{50,255}}+"),
    Rule("docker token", ("dckr_pat_", "dckr_oat_"), f"{_URL64}{{27,40}}+"),
    Rule("sendgrid key", ("SG.",), rf"{_URL64}{{22}}\.{_URL64}{{43}}"),
    Rule("twilio key", ("SK",), "[0-9a-f]{32}"),
    Rule("mailgun key", ("key-",), "[0-9a-f]{32}"),
    Rule("digitalocean token", ("dop_v1_", "doo_v1_", "dor_v1_"), "[0-9a-f]{64}"),
    Rule("databricks token", ("dapi",), "[0-9a-f]{32}(?:-[0-9])?"),
    Rule("shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), "[0-9a-fA-F]{32}"),
    Rule("vault token", ("hvs.", "hvb."), f"{_URL64}{{24,255}}+"),
    Rule("linear key", ("lin_api_",), "[A-Za-z0-9]{40}"),
    Rule("hatidata key", ("hd_live_", "hd_test_"), "[A-Za-z0-9]{16,255}+"),
    Rule("age key", ("AGE-SECRET-KEY-1",), "[0-9A-Z]{58}"),
    Rule("telegram bot token", (":AA",), f"{_URL64}{{32,33}}"),
    Rule("json web token", ("eyJ",), rf"{_URL64}{{8,4096}}+\.eyJ{_URL64}{{8,8192}}+\.{_URL64}{{10,2048}}+"),
    Rule("private key", ("-----begin ",), r"(?:[a-z0-9]{1,12} ){0,3}private key(?: block)?-----"
         rf"(?={_BODY}{{0,400}}?[a-z0-9+/=]{{16}})(?:{_BODY}*+-----end [a-z0-9 ]{{1,60}}+-----"
         r"|(?:\s|\\[nr]){1,4}+[a-z0-9+/=\s\\]{32,}+)", _is_any),
    Rule("aws secret key", ("secret",), rf"""_?access_?key["']?\s{{0,3}}+[:=]\s{{0,3}}+["']?"""
         rf"(?P<secret>{_B64}{{40}})(?![a-z0-9+/])", _is_any),
    Rule("bearer token", ("bearer ",), r"(?P<tail>)(?P<secret>[a-z0-9._~+/=-]{20,2048}+)", _is_random),
    Rule("basic authorization", ("authorization",),
         r"""["']?\s{0,3}+[:=]\s{0,3}+["']?basic\s(?P<secret>[a-z0-9+/]{8,512}+={0,2}+)""", _is_any),
    Rule("connection password", ("://",), r"(?<=sql://|res://|odb://|srv://|dis://|mqp://|ver://|cle://)"
         rf"{_USER}(?P<secret>[^\s@\"'<>]{{2,256}}+)@(?=[a-z0-9\[])", _is_credential),
    Rule("url password", ("://",), rf"{_USER}(?P<secret>[^\s/@\"'<>]{{2,256}}+)@(?=[a-z0-9\[])", _is_credential),
    Rule("command password", ("curl",),
         _LINE + r"""(?:-u|-[a-z]{1,7}u(?=\s)|--user)[\s=]{0,2}+["']?[^\s:"'=-][^\s:"']{0,63}:"""
         r"""(?P<secret>[^\s"']{3,128}+)""", _is_argument),
    Rule("command password", ("http -a", "https -a"),
         r"""\s["']?[^\s:"']{1,64}:(?P<secret>[^\s"']{3,128}+)""", _is_argument),
    Rule("command password", ("mysql", "mariadb", "7z"), _LINE + "-p" + _ARGUMENT, _is_argument),
    Rule("command password", ("wget",), _LINE + r"--(?:http-|ftp-|proxy-)?password[\s=]" + _ARGUMENT, _is_argument),
    Rule("command password", ("mongo", "sqlcmd"), _LINE + r"(?:-p|--password)[\s=]?" + _ARGUMENT, _is_odd_argument),
    Rule("command password", ("openssl",), _LINE + r"(?:-k\s|-pass(?:in|out)?\spass:)" + _ARGUMENT, _is_odd_argument),
    Rule("command password", ("smbclient",), _LINE + r"-u\s?[^\s%]{1,64}%" + _ARGUMENT, _is_argument),
    Rule("command password", ("echo",), r"""\s["']?(?P<secret>[^\s"']{4,128}+)["']?\s?\|\s?"""
         r"(?:sudo\s(?:-\w+\s)*-s|[^\n|]{1,80}?--password-stdin)", _is_argument),
    Rule("command password", ("sshpass", "redis-cli", "docker login"),
         _LINE + r"""(?:-p|-a|--password)[\s=]?["']?(?P<secret>[^\s"']{4,128}+)""", _is_odd_argument),
    Rule("password", ("pass",), "(?:word|wort|wd|phrase|code|e)" + _SET, _is_password),
    Rule("password", ("pass",), r"(?P<tail>)(?:(?:word|wort|wd)\s|(?<![a-z]pass)\s?[:=]\s?)" + _VALUE, _is_strange),
    Rule("password", ("<pass",), r"(?P<tail>)w(?:or)?d>(?P<secret>[^\s<>]{4,128}+)(?=</)", _is_password),
    Rule("password", ("pw",), "(?<![a-z0-9]pw)" + _SET, _is_password),
    Rule("password", ("pwd", "contraseña", "密码", "密碼", "口令"), _SET, _is_password),
    Rule("api key", ("key",), f"(?:{_KEYS})" + _SET, _is_random),
    Rule("api key", ("key", "密钥", "密鑰"),
         r"(?P<tail>)(?:\s?(?:是|为|為)\s?|(?:\s(?:for|of|to)\s[^\n.;:,=]{1,40}?)?\sis\s)" + _VALUE, _is_issued),
    Rule("secret", ("secret", "credential", "token"), _SET, _is_random),
)  # fmt: skip
_CARD = re.compile(r"[2-6](?<![\w.+/-].)\d{3}([ -]?)\d{4,6}\1\d{4,5}(?:\1\d{4})?(?![\w/-]|\.\d)", re.ASCII)
_LONG = re.compile("[!-~]{20,}")  # words of some length: what all but the last rules are looked for in
_ORDER = {name: at for at, name in enumerate(dict.fromkeys([rule.name for rule in RULES] + ["payment card"]))}


@cache
def _pattern(rule: Rule, start: str) -> re.Pattern[str]:
    """The literal first, so that `re` jumps to it; then, for a token, that no word runs into it or out of it."""
    literal = re.escape(start)
    if rule.accepts:
        return re.compile(literal + rule.rest, re.ASCII)
    before = f"(?<![A-Za-z0-9]{literal})" if start[0].isalpha() else ""
    return re.compile(f"{literal}{before}{rule.rest}(?![A-Za-z0-9])", re.ASCII)


# -- finding and hiding -----------------------------------------------------------------------


def find(text: str, *, examples: bool = False) -> tuple[Secret, ...]:
    """The secrets of a text in order; what two rules see at one place is one secret, by the more exact rule.

    With `examples` also what looks like one that was made up (`AKIA...EXAMPLE`).
    """
    long = " ".join(_LONG.findall(text))
    folded = text.replace("\u0130", "i").lower()  # the only letter whose small form has another length
    found: list[Secret] = []
    for rule in RULES:
        gate, within = (folded, folded) if rule.accepts else (long, text)
        for start in rule.starts:
            if start in gate:
                found += _matches(rule, _pattern(rule, start).finditer(within), text, examples=examples)
    found += [Secret("payment card", *match.span()) for match in _CARD.finditer(text) if _is_card(match[0])]
    return tuple(_merge_overlaps(sorted(found, key=lambda secret: (secret.start, -secret.end))))


def _matches(rule: Rule, matches: Iterable[re.Match[str]], text: str, *, examples: bool = False) -> Iterator[Secret]:
    for match in matches:
        start, end = match.span(match.lastgroup or 0)
        value = text[start:end]
        if rule.accepts:
            value = value.rstrip(".:)]}")
            if not rule.accepts(value, match):
                continue
        if (examples and len(set(value)) > 4) or not _is_stand_in(value):
            yield Secret(rule.name, start, start + len(value))


def _merge_overlaps(found: Iterable[Secret]) -> Iterator[Secret]:
    last: Secret | None = None
    for secret in found:
        if last is not None and secret.start < last.end:
            name = min(last.rule, secret.rule, key=_ORDER.__getitem__)
            last = Secret(name, last.start, max(last.end, secret.end))
            continue
        if last is not None:
            yield last
        last = secret
    if last is not None:
        yield last


def redact(text: str, found: Sequence[Secret]) -> str:
    """The text with each secret replaced by what it was."""
    parts, at = [], 0
    for secret in found:
        parts += [text[at : secret.start], f"[redacted: {secret.rule}]"]
        at = secret.end
    return "".join(parts) + text[at:]


def mask(text: str) -> str:
    """The text without its secrets, for what nobody reads before it is kept: a mask too many costs little there."""
    return redact(text, find(text, examples=True))
