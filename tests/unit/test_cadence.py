"""Cadences: one name for each, however it was typed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cronguard.domain.cadence import Cadence
from cronguard.errors import BadInput

NAMES = ("minute", "hour", "day", "week", "month", "quarter", "year", "run")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_its_own_canonical_text(name: str) -> None:
    assert Cadence.parse(name).name == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1m", "minute"),
        ("60s", "minute"),
        ("60m", "hour"),
        ("1h", "hour"),
        ("1d", "day"),
        ("24h", "day"),
        ("1w", "week"),
        ("7d", "week"),
        ("168h", "week"),
        ("15m", "15m"),
        ("900s", "15m"),
        ("1.5h", "1h30m"),
        ("31d", "31d"),
        ("366d", "366d"),
        ("2w", "14d"),
        ("1s", "1s"),
    ],
)
def test_a_length_gets_one_canonical_name(text: str, name: str) -> None:
    cadence = Cadence.parse(text)
    assert cadence.name == name
    assert Cadence.parse(cadence.name) == cadence


def test_a_named_cadence_equals_the_same_length_typed_as_a_duration() -> None:
    assert Cadence.parse("60m") == Cadence.parse("hour")
    assert hash(Cadence.parse("60m")) == hash(Cadence.parse("hour"))
    assert Cadence.parse("31d") != Cadence.parse("month")


@pytest.mark.parametrize("text", ["fortnight", "", "Day", "daily", "90", "0s", "-1h", "20y", "* * * * *"])
def test_what_is_no_cadence_is_refused_with_every_name(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        Cadence.parse(text)
    names = "minute, hour, day, week, month, quarter, year, run"
    assert str(refused.value) == f"{text!r} is not a cadence; write {names}, or an interval like 15m"


@pytest.mark.parametrize("text", ["0.5s", "1.5s", "0.0001h"])
def test_an_interval_of_broken_seconds_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a whole number of seconds; write a cadence like"):
        Cadence.parse(text)


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("hour", timedelta(hours=1)),
        ("month", timedelta(days=31)),
        ("quarter", timedelta(days=92)),
        ("run", None),
        ("year", timedelta(days=366)),
        ("90m", timedelta(minutes=90)),
    ],
)
def test_a_cadence_knows_how_long_its_periods_are_at_most(name: str, length: timedelta | None) -> None:
    assert Cadence.parse(name).length == length


@pytest.mark.parametrize(
    ("name", "seconds"), [("year", 60), ("day", 60), ("15m", 60), ("10m", 60), ("5m", 30), ("minute", 6), ("run", 0)]
)
def test_the_echo_window_is_a_minute_or_a_tenth_of_the_cadence(name: str, seconds: int) -> None:
    assert Cadence.parse(name).echo_window == timedelta(seconds=seconds)


def test_only_dates_lie_on_the_calendar() -> None:
    assert [name for name in (*NAMES, "2d", "15m") if Cadence.parse(name).on_calendar] == [
        "day",
        "week",
        "month",
        "quarter",
        "year",
    ]
