"""Whether one memory states what another denies, as `decide` sees it: kinds, and clauses that deny by themselves."""

from __future__ import annotations

import pytest

from memlake.memories.rules import decide

DENIED = [
    ("User does not eat meat", "User eats beef"),
    ("Lena drinks whisky", "Lena drinks no alcohol"),
    ("User has no pets", "User has a dog named Rex"),
    ("User has two cats", "User does not have any pets"),
    ("User does not own a vehicle", "User owns a sedan"),
    ("User does not play any instrument", "User plays the flute"),
    ("用户不吃海鲜", "用户吃虾"),
    ("用户没有宠物", "用户有一只狗"),
    ("用户会弹钢琴", "用户不会弹乐器"),
    ("没有人在房间里", "一个男人在房间里"),
    ("User is not travelling to Rome", "User is traveling to Rome"),
    ("Otto is chopping the carrots", "Otto is not chopping the carrots into pieces"),
    ("A goat is on the roof", "There is no animal on top of the roof"),
    ("People are not playing chess", "Some policemen are playing chess"),
]
NOT_DENIED = [
    ("User has no pets", "User is afraid of dogs"),
    ("User has no pets", "User has seen a dog"),
    ("User has no pets", "Lena has a dog"),
    ("User does not eat meat", "User cooks beef for guests"),
    ("User does not eat meat", "User eats at a stand that sells beef"),
    ("User does not eat meat", "User's sister eats beef"),
    ("User does not own a car", "User owns a taxi company"),
    ("Lena does not drive the car", "Lena drives a taxi"),
    ("The animal in the shed does not bark", "The dog in the shed barks"),
    ("用户没有宠物", "用户怕狗"),
    ("用户不吃肉", "用户的妹妹吃培根"),
    ("用户不吃海鲜", "用户吃鱼香茄子"),
]


@pytest.mark.parametrize(("old", "new"), DENIED)
def test_who_denies_a_kind_denies_its_members(old: str, new: str) -> None:
    assert decide(old, new).rule == "negation"
    assert decide(new, old).rule == "negation"


@pytest.mark.parametrize(("old", "new"), NOT_DENIED)
def test_a_member_elsewhere_is_not_what_is_denied(old: str, new: str) -> None:
    assert decide(old, new) in {"add", "coexist"}
    assert decide(new, old) in {"add", "coexist"}


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("Lena does not smoke and does not drink", "Lena drinks", "Lena drinks; does not smoke"),
        ("User eats fish but does not eat meat", "User eats ham", "User: eats ham; eats fish"),
        ("User lives in Bern and doesn't drive", "User drives a van", "User: drives a van; lives in Bern"),
        ("用户不吃肉\uff0c也不喝酒", "用户喝啤酒", "用户喝啤酒\uff1b不吃肉"),
        ("用户住在北京但不开车", "用户开车", "用户开车\uff1b住在北京"),
        (
            "User: tests first; does not smoke and does not drink",
            "User drinks",
            "User: tests first; drinks; does not smoke",
        ),
    ],
)
def test_a_clause_that_is_denied_goes_and_the_others_stay(old: str, new: str, text: str) -> None:
    decision = decide(old, new)
    assert (decision, decision.rule, decision.text) == ("conflict", "negation", text)


def test_a_new_memory_that_denies_in_one_clause_stands_whole() -> None:
    new = "Lena sings but does not dance"
    decision = decide("Lena dances", new)
    assert (decision, decision.text) == ("conflict", new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Lena sings but does not dance", "Lena sings"),
        ("User speaks Dutch and Otto does not speak Dutch", "User speaks Dutch"),
        ("A man does not smoke and does not drink", "A man drinks"),
        ("A man in a hat sings and does not dance", "A man in the rain dances"),
    ],
)
def test_a_clause_that_states_the_same_or_tells_of_anyone_denies_nothing(old: str, new: str) -> None:
    assert decide(old, new) != "conflict"
