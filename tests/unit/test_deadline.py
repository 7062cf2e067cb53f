"""Deadlines, the instants and zones they are written in, and the nights when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cronguard.domain.deadline import Deadline
from cronguard.domain.text import format_instant, parse_instant
from cronguard.domain.zone import at_wall_clock, parse_zone
from cronguard.errors import BadInput

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = [ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/New_York", "Asia/Beirut", "Australia/Lord_Howe")]
STARTED = datetime(2026, 11, 30, 6, 0, 30, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
instants = st.timedeltas(timedelta(days=1), timedelta(days=44_000)).map(lambda age: EPOCH + age)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def test_a_duration_counts_from_the_start() -> None:
    anchor = STARTED - timedelta(hours=5)
    assert Deadline.parse("15m").resolve(STARTED, anchor, BERLIN) == STARTED + timedelta(minutes=15)


def test_never_does_not_come() -> None:
    assert Deadline.parse("never").resolve(STARTED, STARTED, BERLIN) is None


def test_an_instant_is_itself_whatever_the_zone() -> None:
    deadline = Deadline.parse("2026-12-01T07:00:00+01:00")
    assert deadline.resolve(STARTED, STARTED, ZoneInfo("Asia/Tokyo")) == at("2026-12-01T06:00:00Z")


@pytest.mark.parametrize(
    ("text", "anchor", "moment"),
    [
        ("07:00", "2026-11-30T06:59:59+01:00", "2026-11-30T07:00:00+01:00"),
        ("07:00", "2026-11-30T07:00:00+01:00", "2026-12-01T07:00:00+01:00"),
        ("07:00:30", "2026-11-30T07:00:00+01:00", "2026-11-30T07:00:30+01:00"),
        ("00:00", "2026-12-31T23:59:59+01:00", "2027-01-01T00:00:00+01:00"),
    ],
)
def test_a_wall_clock_is_the_next_such_time_strictly_after_the_anchor(text: str, anchor: str, moment: str) -> None:
    assert Deadline.parse(text).resolve(STARTED, at(anchor), BERLIN) == at(moment)


def test_a_wall_clock_that_is_skipped_means_the_end_of_the_gap() -> None:
    half_past_two = Deadline.parse("02:30")
    assert half_past_two.resolve(STARTED, at("2026-03-29T00:00+01:00"), BERLIN) == at("2026-03-29T03:00+02:00")
    assert half_past_two.resolve(STARTED, at("2026-03-29T03:00+02:00"), BERLIN) == at("2026-03-30T02:30+02:00")


def test_a_wall_clock_that_comes_twice_means_the_first() -> None:
    half_past_two = Deadline.parse("02:30")
    assert half_past_two.resolve(STARTED, at("2026-10-25T00:00+02:00"), BERLIN) == at("2026-10-25T02:30+02:00")
    assert half_past_two.resolve(STARTED, at("2026-10-25T02:15+01:00"), BERLIN) == at("2026-10-26T02:30+01:00")


@settings(deadline=None)
@given(instants, st.times().map(lambda t: t.replace(microsecond=0)), st.sampled_from(ZONES))
def test_a_wall_clock_comes_within_little_more_than_a_day(anchor: datetime, wall: object, zone: ZoneInfo) -> None:
    moment = Deadline.parse(str(wall)).resolve(anchor, anchor, zone)
    assert moment is not None
    assert timedelta() < moment - anchor <= timedelta(hours=25)


@pytest.mark.parametrize(
    "text", ["tomorrow", "", "7:00", "24:00", "07:60", "7", "Never", "-5m", "0s", "07:00Z", "10min"]
)
def test_what_is_no_deadline_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        Deadline.parse(text)
    assert str(refused.value) == (
        f"{text!r} is not a deadline; write it like 15m, 07:00, 2026-11-30T06:00:00Z or never"
    )


def test_a_deadline_remembers_what_was_typed() -> None:
    for text in ("15m", "07:00", "never", "2026-12-01T07:00:00+01:00"):
        assert Deadline.parse(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30T06:00:00Z",
        "2026-11-30t06:00:00z",
        "2026-11-30 07:00:00+01:00",
        "2026-11-30T06:00Z",
        "2026-11-30T06:00:00.000Z",
        "2026-11-30T00:00:00-06:00",
    ],
)
def test_an_instant_is_read_as_rfc_3339(text: str) -> None:
    instant = parse_instant(text)
    assert (instant, instant.tzinfo) == (datetime(2026, 11, 30, 6, tzinfo=UTC), UTC)


@pytest.mark.parametrize("text", ["2026-11-30T06:00:00", "2026-11-30 06:00"])
def test_a_time_without_an_offset_is_refused_with_one_that_has_it(text: str) -> None:
    with pytest.raises(BadInput, match="has no offset from UTC; write it like 2026-11-30T06:00:00Z"):
        parse_instant(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-11-30",
        "2026-02-30T06:00:00Z",
        "2026-11-30T25:00:00Z",
        "2026-11-30T06:00:60Z",
        "1764482400",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-W48-1T06:00:00Z",
        "2026-11-30T06:00:00+99:00",
    ],
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not an instant; write it like 2026-11-30T06:00:00Z"):
        parse_instant(text)


def test_an_instant_is_written_in_utc_with_milliseconds_only_if_there_are_any() -> None:
    assert format_instant(datetime(2026, 11, 30, 7, tzinfo=BERLIN)) == "2026-11-30T06:00:00Z"
    assert format_instant(STARTED.replace(microsecond=123_456)) == "2026-11-30T06:00:30.123Z"
    assert format_instant(STARTED.replace(microsecond=999)) == "2026-11-30T06:00:30Z"


@given(instants.map(lambda instant: instant.replace(microsecond=instant.microsecond // 1000 * 1000)))
def test_an_instant_that_is_written_is_read_back(instant: datetime) -> None:
    assert parse_instant(format_instant(instant)) == instant


def test_a_zone_is_found_by_its_name() -> None:
    assert parse_zone("America/Argentina/Buenos_Aires").key == "America/Argentina/Buenos_Aires"
    assert parse_zone("UTC").key == "UTC"


@pytest.mark.parametrize("name", ["Europe/Belrin", "europe/berlin", "Europe/Berlin ", "Europe-Berlin"])
def test_a_zone_that_is_nearly_known_is_named(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_zone(name)
    assert str(refused.value) == f"{name!r} is not an IANA time zone; did you mean Europe/Berlin?"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "\x00",
        "Europe",
        "Europe/",
        "../../etc/passwd",
        "/etc/localtime",
        "localtime",
        "right/UTC",
        "posix/UTC",
        "é",
        ".",
        "Europe/../UTC",
        "zone.tab",
        "x" * 5000,
        "a/" * 3000,
        "\ud800",
        "tzdata",
        "leapseconds",
        "+01:00",
    ],
)
def test_what_is_no_zone_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(BadInput, match=r"\A.* is not an IANA time zone; [^\n]*\Z"):
        parse_zone(name)


@settings(deadline=None)
@given(instants, instants, st.sampled_from(ZONES))
@example(at("2026-03-29T00:30Z"), at("2026-03-29T01:00Z"), BERLIN)
@example(at("2026-10-25T00:30Z"), at("2026-10-25T01:15Z"), BERLIN)
def test_a_later_wall_clock_is_never_an_earlier_instant(one: datetime, other: datetime, zone: ZoneInfo) -> None:
    walls = sorted(moment.astimezone(zone).replace(tzinfo=None, microsecond=0, fold=0) for moment in (one, other))
    assert at_wall_clock(walls[0], zone) <= at_wall_clock(walls[1], zone)


@pytest.mark.parametrize(
    ("zone", "wall", "instant"),
    [
        ("Asia/Beirut", "2026-03-29T00:00", "2026-03-28T22:00Z"),
        ("America/Sao_Paulo", "2018-11-04T00:00", "2018-11-04T03:00Z"),
        ("America/Havana", "2026-11-01T00:00", "2026-11-01T04:00Z"),
        ("America/Toronto", "1919-03-31T00:00", "1919-03-31T04:30Z"),
        ("Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00Z"),
        ("Australia/Lord_Howe", "2026-10-04T02:10", "2026-10-03T15:30Z"),
    ],
)
def test_a_time_on_the_edge_of_a_change_of_clocks_has_one_instant(zone: str, wall: str, instant: str) -> None:
    assert at_wall_clock(datetime.fromisoformat(wall), ZoneInfo(zone)) == at(instant)
