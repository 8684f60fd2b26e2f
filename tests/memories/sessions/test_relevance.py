"""Whether a memory is about a prompt: by words that mean something, not by words that any two texts share."""

from __future__ import annotations

import pytest

from memlake.memories.sessions import relevance

WEIGH = relevance.weigh_by({}, 50)


def is_about(prompt: str, content: str, category: str = "project-notes", *, aside: bool = False) -> bool:
    asked = relevance.read_prompt(prompt)
    likeness = relevance.compare(asked, content, WEIGH)
    return bool(asked.meant) and relevance.is_about(asked, likeness, category=category, aside=aside)


@pytest.mark.parametrize(
    ("prompt", "content"),
    [
        ("which region is the backup bucket in?", "The backup bucket lies in the region eu-north."),
        ("rotate the signing keys tonight please", "Signing keys are rotated by Omar, never by a script."),
        ("is the sandbox down?", "The sandbox sleeps between 22:00 and 06:00."),
        ("部署到预发布环境要走什么流程?", "预发布环境的部署要先通知小林。"),
        ("does PaymentGateway retry?", "PaymentGateway tries three times with a pause."),
        ("look:\n```\nKeyError: 'tenant_slug' in resolve_tenant\n```", "resolve_tenant raises KeyError tenant_slug."),
    ],
)  # fmt: skip
def test_a_prompt_brings_what_it_is_about(prompt: str, content: str) -> None:
    assert is_about(prompt, content)


@pytest.mark.parametrize(
    ("prompt", "content"),
    [
        ("run the tests again and commit", "Tests are run with make test before a commit."),
        ("what is the difference between a list and a tuple?", "The list of tenants is read from tenants.yaml."),
        ("the first page of the form needs a new button", "The last page of an invoice has the bank account."),
        ("好的,提交吧", "提交信息要用英文写。"),
        ("/compact keep the signing keys", "Signing keys are rotated by Omar, never by a script."),
        ("please see https://host.example/signing/keys/rotate", "Signing keys are rotated by Omar, never by a script."),
    ],
)  # fmt: skip
def test_a_prompt_does_not_bring_what_shares_words_that_say_little(prompt: str, content: str) -> None:
    assert not is_about(prompt, content)


@pytest.mark.parametrize("prompt", ["yes", "ok do it", "thanks!", "run the tests", "/clear", "继续", "谢谢", "2", "👍"])
def test_an_order_or_a_pleasantry_asks_for_nothing(prompt: str) -> None:
    assert relevance.read_prompt(prompt).meant == []


def test_a_pasted_log_asks_only_for_a_memory_that_says_just_that() -> None:
    log = (
        '  File "/srv/app/invoices.py", line 3, in render\n    total = lines[0]\nIndexError: list index out of range\n'
    )
    prompt = "Traceback (most recent call last):\n" + log
    assert not is_about(prompt, "Invoices are rendered by Celery, and the total is made of the lines in euros.")
    assert is_about(prompt, "IndexError in render: lines is empty, so the index is out of range.")


def test_who_is_asked_for_by_one_word_that_a_contact_has() -> None:
    assert is_about("who do I ask about the invoices of last winter?", "Mei looks after invoices.", "contacts")
    assert not is_about("who do I ask about the invoices of last winter?", "The invoices of Lisbon are blue.")


def test_what_was_said_in_passing_needs_more_of_the_prompt() -> None:
    prompt, content = (
        "why are invoices of Lisbon rejected by the validator?",
        "Fixed the invoices of Lisbon. Open: colours.",
    )
    assert is_about(prompt, content) and not is_about(prompt, content, aside=True)


def test_a_word_that_many_memories_have_weighs_less() -> None:
    weigh = relevance.weigh_by({"tenant": 900}, 1000)
    assert weigh("tenant") < 0.1 < weigh("invoice") == 1 and weigh("test") == 0.25


def test_an_echo_says_little_beside_what_a_person_said() -> None:
    said = "Invoices are numbered by year and never reused."
    assert relevance.restates("Noted: I keep in mind that invoices are numbered by year.", said, WEIGH)
    assert not relevance.restates("Invoices are sent by Postmark to the accountant each Friday.", said, WEIGH)


@pytest.mark.parametrize(
    "prompt",
    [
        "where did we stop?", "Hi, where did we leave off yesterday?", "what's still open?", "where were we",
        "what's next?", "ok what is left to do", "any open things from last time?",
        "let's pick up where we left off", "what remains?",
        "give me a recap of the last session", "continue from yesterday", "What did we do last time?",
        "昨天做到哪里了?", "接着上次的,还有什么没做完?", "上次我们做到哪了", "接下来做什么?",
    ],
)  # fmt: skip
def test_where_we_stopped_is_asked_for_in_many_ways(prompt: str) -> None:
    assert relevance.asks_where_we_stopped(prompt, relevance.read_prompt(prompt))


@pytest.mark.parametrize(
    "prompt",
    [
        "which ports are open?", "what is next.js", "stop the server", "is the dialog still open?", "continue",
        "what's the next migration called?", "where is the parser?", "接下来做 iOS 的小组件",
        "上次的报告在哪里?", "未完成的订单怎么查?",
        "上次的报告发给谁了,为什么没有回复呢?请查一下邮件列表",
        "open the door", "what happened to the queue yesterday?",
    ],
)  # fmt: skip
def test_a_prompt_with_a_subject_of_its_own_does_not_ask_where_we_stopped(prompt: str) -> None:
    assert not relevance.asks_where_we_stopped(prompt, relevance.read_prompt(prompt))
