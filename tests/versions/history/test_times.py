"""Times as people type them, from a fixed Wednesday afternoon."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from memlake.errors import InvalidInput
from memlake.versions.history.times import parse_end, parse_time

NOW = datetime(2026, 3, 18, 15, 30, 20, 500_000, tzinfo=timezone.utc).astimezone()


def parsed(text: str) -> datetime:
    return datetime.fromtimestamp(parse_time(text, NOW) / 1e6, NOW.tzinfo)


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("now", timedelta()),
        ("yesterday", timedelta(days=1)),
        ("2 hours ago", timedelta(hours=2)),
        ("2 hours", timedelta(hours=2)),
        ("two.days.ago", timedelta(days=2)),
        ("an hour ago", timedelta(hours=1)),
        ("10 minutes ago", timedelta(minutes=10)),
        ("90 secs ago", timedelta(seconds=90)),
        ("3 weeks ago", timedelta(weeks=3)),
        ("1 month ago", timedelta(days=30)),
        ("last week", timedelta(weeks=1)),
        ("a year ago", timedelta(days=365)),
        ("  Yesterday ", timedelta(days=1)),
        ("2h", timedelta(hours=2)),
        ("90d", timedelta(days=90)),
        ("30m ago", timedelta(minutes=30)),
        ("monday", timedelta(days=2)),
        ("last wednesday", timedelta(days=7)),
    ],
)
def test_words_count_back_from_now(text: str, ago: timedelta) -> None:
    assert parsed(text) == NOW - ago


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-01-31", (2026, 1, 31)),
        ("2026/01/31", (2026, 1, 31)),
        ("2026-01", (2026, 1, 1)),
        ("2026-01-31 14:00", (2026, 1, 31, 14)),
        ("2026-01-31 14:00:05", (2026, 1, 31, 14, 0, 5)),
        ("2026-01-31T14:00:05", (2026, 1, 31, 14, 0, 5)),
    ],
)
def test_dates_are_moments_of_the_local_zone(text: str, wanted: tuple[int, ...]) -> None:
    assert parsed(text) == datetime(*wanted).astimezone()


def test_a_zone_that_is_given_counts() -> None:
    assert parse_time("2026-01-31T14:00:00+02:00") == int(
        datetime(2026, 1, 31, 12, tzinfo=timezone.utc).timestamp() * 1e6
    )


def test_a_time_of_day_is_of_today_and_seconds_since_1970_are_taken_as_such() -> None:
    assert (parsed("14:05").date(), parsed("14:05").hour) == (NOW.date(), 14)
    assert parse_time("1700000000") == 1_700_000_000_000_000


def test_today_is_midnight_and_noon_is_the_last_one() -> None:
    local = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    assert parsed("today") == parsed("midnight") == local
    assert parsed("noon") <= NOW


@pytest.mark.parametrize("text", ["", "soon", "2 moons ago", "many days ago", "2026-13-01", "31.01", "-5", "1 2 3"])
def test_what_is_not_a_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_time(text, NOW)
    assert "yesterday" in raised.value.hint


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        ("tomorrow", timedelta(days=1)), ("in 3 days", timedelta(days=3)), ("2h", timedelta(hours=2)),
        ("3 days", timedelta(days=3)), ("in an hour", timedelta(hours=1)), ("yesterday", -timedelta(days=1)),
        ("90 minutes from now", timedelta(minutes=90)), ("2 hours ago", -timedelta(hours=2)),
        ("30m", timedelta(minutes=30)), ("In 2 Weeks", timedelta(weeks=2)), ("next week", timedelta(weeks=1)),
        ("1y", timedelta(days=365)),
    ],
)  # fmt: skip
def test_an_end_is_typed_as_people_say_it(text: str, ahead: timedelta) -> None:
    assert parse_end(text, NOW) == int((NOW + ahead).timestamp() * 1e6)


def test_an_end_may_be_a_date_a_weekday_or_tonight() -> None:
    def read(text: str) -> datetime:
        return datetime.fromtimestamp(parse_end(text, NOW) / 1e6, NOW.tzinfo)

    assert read("2099-01-31T14:00:00Z") == datetime(2099, 1, 31, 14, tzinfo=timezone.utc)
    assert read("today") == read("tonight") > NOW and (read("today") - NOW) <= timedelta(days=1)
    assert read("friday").weekday() == 4 and NOW < read("friday") <= NOW + timedelta(days=7)
    assert read("2001-01-01") < NOW, "what is over is read too: the caller refuses it and says when that was"


@pytest.mark.parametrize("text", ["", "soon", "in many days", "in 2 moons", "2x", "99999999999999999999y", "in"])
def test_what_is_no_end_is_refused_with_a_cure(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"is not a time to come\. Nothing was stored") as caught:
        parse_end(text, NOW)
    assert "in 3 days" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("tomorrow 9am", (1, 9, 0)), ("tomorrow at 12am", (1, 0, 0)), ("tomorrow 17:30", (1, 17, 30)),
        ("today at 11pm", (0, 23, 0)), ("end of day", (1, 0, 0)), ("the end of the day", (1, 0, 0)),
    ],
)  # fmt: skip
def test_an_end_may_name_a_day_and_its_clock(text: str, end: tuple[int, int, int]) -> None:
    days, hour, minute = end
    expected = (NOW + timedelta(days=days)).replace(hour=hour, minute=minute, second=0, microsecond=0)
    assert parse_end(text, NOW) == int(expected.timestamp() * 1e6)


@pytest.mark.parametrize("text", ["end of month", "end of this year", "end of the week"])
def test_the_end_of_a_time_is_the_midnight_after_it(text: str) -> None:
    found = datetime.fromtimestamp(parse_end(text, NOW) / 1e6, NOW.tzinfo)
    assert found > NOW and (found.hour, found.minute) == (0, 0)
    assert {"month": found.day == 1, "year": (found.month, found.day) == (1, 1), "week": found.weekday() == 0}[
        text.split()[-1]
    ]


@pytest.mark.parametrize("text", ["0s", "in 0 days", "tomorrow 25:00", "tomorrow 9"])
def test_an_end_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a time to come"):
        parse_end(text, NOW)


def test_a_past_moment_that_lies_ahead_is_said_to() -> None:
    for text in ("tomorrow", "in 2h"):
        with pytest.raises(InvalidInput, match="lies ahead"):
            parse_time(text, NOW)
