"""Secrets in text: each rule finds its own, ordinary text is left alone, and no text takes long."""

from __future__ import annotations

import hashlib
import itertools
import random
import string
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlake import secrets
from memlake.errors import Denied, InvalidInput
from memlake.memories.record import Memory
from memlake.memories.redact import guard, guard_memory, guard_value
from memlake.secrets import Secret, find, mask, redact
from tests.memories.told_secrets import SPEAKS_OF, TELLS

MEGABYTE = 1 << 20
ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def made(start: str, size: int, letters: str = ALNUM, *, seed: int = 5) -> str:
    """A secret nobody has: put together here, so that no scanner of this repo takes it for one."""
    return start + "".join(random.Random(f"{start}{seed}").choices(letters, k=size))


JWT = ".".join([made("eyJ", 20), made("eyJ", 60), made("", 43)])
BODY = "\n".join(made("", 64, ALNUM + "+/", seed=line) for line in range(4))
PEM = "-----BEGIN RSA PRIVATE " + f"KEY-----\n{BODY}\n-----END RSA PRIVATE " + "KEY-----"
SAMPLES = {
    "aws access key": made("AKIA", 16, string.ascii_uppercase + "234567"),
    "aws secret key": "aws_secret_access_key = " + made("", 40, ALNUM + "/+"),
    "google api key": made("AIza", 35),
    "google oauth secret": made("GOCSPX-", 28),
    "google oauth token": made("ya29.", 60),
    "azure storage key": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + made("", 86, ALNUM + "+/") + "==",
    "azure signature": "https://a.blob.core.windows.net/c?sv=2022-11-02&sig=" + made("", 43) + "%3D",
    "azure client secret": "aB1" + made("8Q~", 34),
    "github token": made("ghp_", 36),
    "gitlab token": made("glpat-", 20),
    "slack token": made("xoxb-", 11, string.digits) + made("-", 24),
    "slack webhook": "https://hooks.slack.com/services/" + made("T", 9, string.ascii_uppercase)
    + made("/B", 9, string.ascii_uppercase) + made("/", 24),
    "discord webhook": "https://discord.com/api/webhooks/" + made("", 18, string.digits) + made("/", 68),
    "stripe key": made("sk_" + "live_", 24),
    "anthropic key": made("sk-ant-" + "api03-", 95),
    "openai key": made("sk-" + "proj-", 48),
    "service key": made("sk-" + "live-", 24),
    "openrouter key": made("sk-or-v1-", 64, HEX),
    "model provider key": made("gsk_", 52),
    "hugging face token": made("hf_", 34, string.ascii_letters),
    "npm token": made("npm_", 36),
    "pypi token": made("pypi-AgE", 150),
    "docker token": made("dckr_pat_", 27),
    "sendgrid key": made("SG.", 22) + made(".", 43),
    "twilio key": made("SK", 32, HEX),
    "mailgun key": made("key-", 32, HEX),
    "digitalocean token": made("dop_v1_", 64, HEX),
    "databricks token": made("dapi", 32, HEX),
    "shopify token": made("shpat_", 32, HEX),
    "vault token": made("hvs.", 30),
    "linear key": made("lin_api_", 40),
    "hatidata key": made("hd_live_", 24),
    "age key": made("AGE-SECRET-KEY-1", 58, string.ascii_uppercase + string.digits),
    "telegram bot token": made("", 9, string.digits) + made(":AA", 33),
    "json web token": JWT,
    "private key": PEM,
    "bearer token": "curl -H 'Authorization: Bearer " + made("", 40) + "'",
    "basic authorization": "Authorization: Basic " + made("", 24),
    "connection password": "postgresql://app:s3cr/t-Pa55@db.internal:5432/app",
    "url password": "https://joe:hunter2@wiki.internal/page",
    "command password": "curl -u admin:S3cr3tPass https://jenkins/",
    "password": "password = hunter2",
    "api key": "api_key: " + made("", 32),
    "secret": 'client_secret="' + made("", 30) + '"',
    "payment card": "4111 1111 1111 1111",
}  # fmt: skip


def test_every_rule_has_a_sample() -> None:
    assert {rule.name for rule in secrets.RULES} | {"payment card"} == SAMPLES.keys()
    assert len(SAMPLES) >= 30


@pytest.mark.parametrize("rule", SAMPLES)
@pytest.mark.parametrize("around", ["{}", "The user said: {}", "用户说{}。", "x\n{}\ny", "({})", "«{}», he wrote"])
def test_a_secret_is_found_wherever_it_stands(rule: str, around: str) -> None:
    assert [secret.rule for secret in find(around.format(SAMPLES[rule]))] == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "The wifi password is Blue7Whale!",
        "wifi 密码是 Blue7Whale",
        "密码：Blue7Whale，不要忘记",  # noqa: RUF001
        "DB_PASSWORD=Blue7Whale",
        '{"password": "Blue7 Whale 9"}',
        "passwd: 'Blue7Whale'",
        "PGPASSWORD=Blue7Whale psql",
        "Server=db;User Id=sa;Pwd=Blue7Whale;",
        "my passphrase was: tr0ub4dor&3",
        "The password for the wifi is Blue7Whale!",
        "the password of the staging database was: Blue7Whale",
        "The wifi password is Purple-Whale-Summer",
    ],
)
def test_a_password_that_is_told_is_hidden_and_the_rest_is_not(text: str) -> None:
    hidden = redact(text, find(text))
    assert "[redacted: password]" in hidden and "Whale" not in hidden and "tr0ub" not in hidden
    assert text[:3] == hidden[:3]


@pytest.mark.parametrize(
    "command",
    [
        "curl -u admin:S3cr3tPass https://jenkins/",
        "curl -s https://host/x --user 'bob:S3cr3tPass' -o file",
        "mysql -u root -pS3cr3tPass prod",
        "mysqldump -pS3cr3tPass --all-databases > all.sql",
        "mariadb -h db -pS3cr3tPass",
        "sshpass -p 'S3cr3tPass' ssh host",
        "redis-cli -h cache -a S3cr3tPass ping",
        "docker login -u me -p S3cr3tPass registry",
    ],
)
def test_the_password_in_a_command_is_hidden_and_the_rest_is_not(command: str) -> None:
    assert redact(command, find(command)) == command.replace("S3cr3tPass", "[redacted: command password]")


def test_what_is_masked_before_anybody_reads_it_includes_examples() -> None:
    """In provenance and logs nobody is warned, and a mask too many costs nothing; a memory may speak of examples."""
    made_up = made("sk-" + "proj-", 20) + "-my-key-with-words-abcdefgh"
    for text in ("AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", made_up):
        assert find(text) == () and "[redacted: " in mask(text), text


def test_a_token_of_hugging_face_may_have_digits() -> None:
    assert [secret.rule for secret in find(made("hf_", 34))] == ["hugging face token"]


ORDINARY = [
    "mysql -u root -P3306 prod; mysql -u root -p prod; psql -p5432; mysql --protocol=tcp --port=3306",
    "Use curl -u user:password https://host, or curl -u $USER:$TOKEN; curl -u is for users: see its manual",
    "sshpass -p option exposes the password on the command line; redis-cli -a asks; docker login -p reads it",
    "The password for the wifi is written on the fridge. The password for staging is the same as last year.",
    "My password is end-to-end encrypted, server-side hashed. The password policy for admins is two-factor-based.",
    "The password manager for the team is bitwarden-enterprise-edition. The token for the bus is 2 dollars.",
    "The MySQL client takes -p to ask for a password; passwords for all of the accounts are kept in 1Password",
    "The user prefers writing Git commit messages in Chinese, following AngularJS style.",
    "Reset your password: click the link. The password is wrong. Passwords are hashed. My password is long-lived.",
    "The secret is patience; token: a sign of love. A secret key: practice. The secret ingredient is cinnamon-powder.",
    "Order 1234567890123456, tracking 9400 1000 0000 0000 0000 00, IBAN DE89 3704 0044 0532 0130 00",
    "Created at 1721438400123456, request 4539578763621487, version 4.11.1111-1111",
    "用户喜欢喝茶，密码学是他的爱好。口令很重要。令牌已经过期。密码：见保险箱",  # noqa: RUF001
    str(uuid.UUID(int=random.Random(1).getrandbits(128))),
    f"token: {uuid.UUID(int=random.Random(2).getrandbits(128))}",
    hashlib.sha1(b"a").hexdigest() + " " + hashlib.sha256(b"a").hexdigest() + " " + hashlib.md5(b"a").hexdigest(),
    "commit 8acc9f61c5d1f1b4c2a7f5ad1e5f0d6a3c0b9e77 fixes password reset",
    "sha256:" + hashlib.sha256(b"b").hexdigest() + " secret_hash: " + hashlib.sha256(b"c").hexdigest(),
    "password = os.environ['DB_PASSWORD2']\npassword = get_password1()\napi_key = settings.api_key_v2_production",
    "password: str = field(default='')\ndef login(user, password=None, token_2=None): pass",
    "password: ${DB_PASSWORD_2}\ntoken: {{ secrets.TOKEN_1 }}\napi_key: <your-api-key-1234567890>\nsecret: $(cat x1y2)",
    "postgresql://user:password@localhost/db and https://user:<pass>@host and http://localhost:8080/a@b",
    "mailto:joe@example.com https://example.com:443/x ssh://git@github.com:22/a/b.git",
    "AKIAIOSFODNN7EXAMPLE is what the documents show; so is hd_live_your_api_key and sk-ant-api03-xxxx...",
    "A key file starts with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY----",
    'START = "-----BEGIN OPENSSH PRIVATE KEY-----"; END = "-----END OPENSSH PRIVATE KEY-----"',
    "password = base64.b16encode(random_bytes[8:]); token = hashlib.sha256(b'x1y2').hexdigest()",
    "sk-learn, sk-SK, npm_config_registry, hf_hub_download_with_retry_and_more, ghp_short, eyJust.kidding.friend",
    "max_token_count: 128000, tokenizer: cl100k_base, token_id = 50256, password_policy: min12chars",
    "The api key is in 1Password; secrets are in vault://kv/data/app1/prod2",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "primary key: customer_id_2024_region_17, foreign key: orders_2024_q3_partition_12",
]


@pytest.mark.parametrize("text", ORDINARY, ids=range(len(ORDINARY)))
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert [(secret.rule, text[secret.start : secret.end]) for secret in find(text)] == []


def test_random_digests_and_ids_are_no_secrets() -> None:
    seeded = random.Random(3)
    ids = [str(uuid.UUID(int=seeded.getrandbits(128))) for _ in range(2000)]
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in ids]
    assert find(" ".join(ids + digests)) == () == find(",".join(f'"{text}"' for text in ids + digests))


def test_a_card_needs_its_check_digit_and_an_issuer() -> None:
    assert find("4111111111111111") and find("3782-822463-10005") and find("5555 5555 5555 4444")
    assert not find("4111111111111112") and not find("1111 1111 1111 1117") and not find("x4111111111111111")
    assert not find("3000000000000004") and not find("6111111111111116")


def test_a_token_is_a_word_of_its_own() -> None:
    token, key = SAMPLES["npm token"], SAMPLES["aws access key"]
    assert find(token) and find(key)
    assert not find("x" + token) and not find(token + "x") and not find(key + "9") and not find("9" + key)


def test_the_end_of_a_sentence_is_not_hidden() -> None:
    text = "The password is hunter2. (It was api_key=" + made("", 30) + ".)"
    assert redact(text, find(text)) == "The password is [redacted: password]. (It was api_key=[redacted: api key].)"


def test_what_two_rules_see_is_one_secret_by_the_more_exact_rule() -> None:
    text = f"password = {SAMPLES['github token']}!x"
    (found,) = find(text)
    assert found.rule == "github token"
    assert redact(text, [found]) == "password = [redacted: github token]"


def test_redacting_leaves_everything_else_and_finds_nothing_again() -> None:
    text = " then ".join(SAMPLES.values())
    hidden = redact(text, find(text))
    assert find(hidden) == ()
    assert hidden.count("[redacted: ") == len(SAMPLES)
    assert "postgresql://app:[redacted: connection password]@db.internal:5432/app" in hidden


def test_a_letter_whose_small_form_is_longer_moves_nothing() -> None:
    text = "İİİ password = hunter2"
    assert redact(text, find(text)) == "İİİ password = [redacted: password]"


@pytest.mark.parametrize("rule", SAMPLES)
def test_what_is_said_of_a_secret_never_holds_it(rule: str) -> None:
    text = SAMPLES[rule]
    (found,) = find(text)
    _, (told,) = guard(text, "warn")
    with pytest.raises(Denied) as denied:
        guard(text, "block")
    for said in (repr(found), told, str(denied.value)):
        assert rule in said and text[found.start : found.end] not in said


def test_guard_does_what_it_is_told() -> None:
    text = f"use {SAMPLES['npm token']} and {made('npm_', 36, seed=6)}"
    assert guard(text, "off") == (text, ())
    assert guard(text, "warn")[0] == text and "2 npm tokens" in guard(text, "warn")[1][0]
    assert guard(text, "redact")[0] == "use [redacted: npm token] and [redacted: npm token]"
    assert guard("nothing here", "block") == ("nothing here", ())
    with pytest.raises(Denied, match=r"2 npm tokens\. Nothing was stored"):
        guard(text, "block")
    with pytest.raises(InvalidInput, match="not 'maybe'"):
        guard(text, "maybe")


def test_a_value_is_read_with_the_name_it_is_kept_under() -> None:
    value = {"env": "prod", "deep": [{"api_key": made("", 32)}], "pwd": "", "also": {"pwd": "hunter2!x"}}
    clean, told = guard_value(value, "redact", what="the metadata")
    assert clean == {
        "env": "prod", "deep": [{"api_key": "[redacted: api key]"}], "pwd": "", "also": {"pwd": "[redacted: password]"},
    }  # fmt: skip
    assert told == (
        "the metadata looked like it held an api key; it was stored without.",
        "the metadata looked like it held a password; it was stored without.",
    )
    assert guard_value(value, "warn", what="x")[0] == value and guard_value(value, "off", what="x") == (value, ())
    assert guard_value({"n": [1, None, True, "plain"]}, "block", what="x") == ({"n": [1, None, True, "plain"]}, ())


@pytest.mark.parametrize("rule", SAMPLES)
def test_a_secret_is_found_in_metadata_in_a_tag_and_in_a_name(rule: str) -> None:
    text = SAMPLES[rule]
    for memory in (
        Memory("", "x", metadata={"note": text}), Memory("", "x", metadata={"a": {"b": ["fine", text]}}),
        Memory("", "x", metadata={text: 1}), Memory("", "x", tags=("fine", text)),
    ):  # fmt: skip
        clean, told = guard_memory(memory, "redact")
        assert told and rule in told[0] and f"[redacted: {rule}]" in str((clean.metadata, clean.tags))
        assert guard_memory(clean, "block") == (clean, ())
        with pytest.raises(Denied, match=r"the metadata|a tag"):
            guard_memory(memory, "block")


@pytest.mark.parametrize(("rule", "article"), [("aws access key", "an"), ("npm token", "an"), ("url password", "a")])
def test_what_is_told_has_its_article(rule: str, article: str) -> None:
    assert f" {article} {rule}." in guard(SAMPLES[rule], "warn")[1][0]


# -- time -------------------------------------------------------------------------------------


def seconds(text: str, tries: int = 5) -> float:
    """The processor time of one search; of other programs of the machine it knows nothing."""
    best = 9.0
    for _ in range(tries):
        start = time.process_time()
        find(text)
        best = min(best, time.process_time() - start)
    return best


def filled(piece: str) -> str:
    return (piece * (MEGABYTE // len(piece) + 1))[:MEGABYTE]


@pytest.mark.parametrize("text", ["\n".join(ORDINARY[:6]), ORDINARY[5], "\n".join(ORDINARY), "hello world "])
def test_a_megabyte_of_ordinary_text_takes_a_tenth_of_a_second(text: str) -> None:
    assert seconds(filled(text)) < 0.2  # twice that: CPU time, too, doubles while other programs fill the caches


HOSTILE = [start for rule in secrets.RULES for start in rule.starts]
HOSTILE += [
    "password=",
    "password = a1",
    'password="',
    "eyJaaaaaaaaa.",
    "://a:",
    "://a:b@",
    "-",
    " ",
    "a",
    "4111 ",
    "1",
]
HOSTILE += ["-----BEGIN PRIVATE KEY-----", "-----BEGIN RSA RSA ", "token" + " " * 3, "secret_access_key=a", "a.b:c/"]


@pytest.mark.parametrize("piece", dict.fromkeys(HOSTILE))
def test_no_repeated_piece_takes_more_than_its_length(piece: str) -> None:
    """Quadratic work over this much would be many seconds."""
    assert seconds(filled(piece)[: MEGABYTE // 4], 2) < 0.6


@given(st.lists(st.sampled_from([*HOSTILE, *SAMPLES.values(), " ", "=", ":", '"', "'", "é", "密", "\n"]), max_size=12))
def test_any_mixture_is_found_in_order_and_redacted_without_loss(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = find(text)
    assert all(0 <= one.start < one.end <= len(text) for one in found)
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))
    hidden = redact(text, found)
    for secret in found:
        hidden = hidden.replace(f"[redacted: {secret.rule}]", text[secret.start : secret.end], 1)
    assert hidden == text


@given(st.text())
def test_any_text_can_be_guarded(text: str) -> None:
    stored, told = guard(text, "redact")
    assert bool(told) == (stored != text)


def test_a_secret_is_only_where_and_which() -> None:
    assert Secret._fields == ("rule", "start", "end")


# -- as people and agents write it ------------------------------------------------------------


def test_passwords_are_found_in_the_sentences_and_commands_that_tell_them() -> None:
    left = [text for text, password in TELLS if password in redact(text, find(text))]
    assert len(TELLS) == 60 and len(left) <= 1, left


def test_sentences_and_commands_that_speak_of_passwords_are_left_alone() -> None:
    hidden = [redact(text, found) for text in SPEAKS_OF if (found := find(text))]
    assert len(SPEAKS_OF) == 60 and len(hidden) <= 1, hidden
