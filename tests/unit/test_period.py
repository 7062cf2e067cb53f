"""Periods: their names and their edges, above all where the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cronguard.domain.cadence import Cadence
from cronguard.domain.period import Period, following, period_at, period_named, previous
from cronguard.errors import BadInput

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = [
    ZoneInfo(name)
    for name in (
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "America/Sao_Paulo",
        "Asia/Beirut",
        "Asia/Kathmandu",
        "Pacific/Apia",
        "America/Havana",
        "America/St_Johns",
        "America/Scoresbysund",
        "Australia/Lord_Howe",
    )
]
GRIDS = [
    Cadence.parse(name)
    for name in ["minute", "hour", "day", "week", "month", "quarter", "year", "15m", "90s", "7m", "36h", "2d", "1s"]
]
DAY, HOUR, RUN = Cadence.parse("day"), Cadence.parse("hour"), Cadence.parse("run")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

instants = st.timedeltas(timedelta(days=1), timedelta(days=44_000)).map(lambda age: EPOCH + age)
# Where the clocks of the zones above change; midnight is in the gap, or comes twice, in several of them.
NIGHTS = [
    "2026-03-08",
    "2026-03-29",
    "2026-10-25",
    "2026-11-01",
    "2018-11-04",
    "2018-02-18",
    "2011-12-30",
    "2006-10-29",
]
nights = st.builds(
    lambda night, seconds: at(night + "T00:00Z") + timedelta(seconds=seconds),
    st.sampled_from(NIGHTS),
    st.integers(-86_400, 86_400),
)
any_time = instants | nights


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("cadence", "label", "start", "end"),
    [
        ("minute", "2026-11-30T06:00Z", "2026-11-30T06:00Z", "2026-11-30T06:01Z"),
        ("hour", "2026-11-30T06:00Z", "2026-11-30T06:00Z", "2026-11-30T07:00Z"),
        ("day", "2026-11-30", "2026-11-30T00:00+01:00", "2026-12-01T00:00+01:00"),
        ("week", "2026-W49", "2026-11-30T00:00+01:00", "2026-12-07T00:00+01:00"),
        ("month", "2026-11", "2026-11-01T00:00+01:00", "2026-12-01T00:00+01:00"),
        ("quarter", "2026-Q4", "2026-10-01T00:00+02:00", "2027-01-01T00:00+01:00"),
        ("year", "2026", "2026-01-01T00:00+01:00", "2027-01-01T00:00+01:00"),
        ("15m", "2026-11-30T06:00Z", "2026-11-30T06:00Z", "2026-11-30T06:15Z"),
        ("90s", "2026-11-30T06:00:00Z", "2026-11-30T06:00:00Z", "2026-11-30T06:01:30Z"),
        ("2d", "2026-11-29T00:00Z", "2026-11-29T00:00Z", "2026-12-01T00:00Z"),
    ],
)
def test_an_instant_lies_in_one_period(cadence: str, label: str, start: str, end: str) -> None:
    period = period_at(Cadence.parse(cadence), BERLIN, datetime(2026, 11, 30, 6, 0, 31, tzinfo=UTC))
    assert period == Period(label, at(start), at(end))


@pytest.mark.parametrize(("day", "week"), [("2027-01-01", "2026-W53"), ("2024-12-30", "2025-W01")])
def test_a_week_belongs_to_its_iso_year(day: str, week: str) -> None:
    assert period_at(Cadence.parse("week"), BERLIN, at(day + "T12:00Z")).label == week


def test_seconds_are_written_only_where_the_cadence_has_them() -> None:
    instant = at("2026-11-30T06:00:31Z")
    assert period_at(Cadence.parse("30s"), BERLIN, instant).label == "2026-11-30T06:00:30Z"
    assert period_at(Cadence.parse("2m"), BERLIN, instant).label == "2026-11-30T06:00Z"


def test_each_run_is_a_period_of_its_own() -> None:
    instant = at("2026-11-30T06:00:00.123456Z")
    assert period_at(RUN, BERLIN, instant, "4f2a") == Period("2026-11-30T06:00:00.123Z-4f2a", instant, None)


@pytest.mark.parametrize(("date", "hours"), [("2026-10-25", 25), ("2026-03-29", 23), ("2026-11-30", 24)])
def test_a_local_day_has_as_many_hours_as_its_clocks_show(date: str, hours: int) -> None:
    day = period_named(DAY, BERLIN, date)
    hour = period_at(HOUR, BERLIN, day.start or NOW)
    labels = set()
    while hour.start != day.end:
        labels.add(hour.label)
        hour = following(HOUR, BERLIN, hour)
    assert len(labels) == hours


@pytest.mark.parametrize(
    ("zone", "date", "start", "end"),
    [
        ("Asia/Beirut", "2026-03-29", "2026-03-28T22:00Z", "2026-03-29T21:00Z"),  # begins at 01:00
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00Z", "2018-11-05T02:00Z"),  # begins at 01:00
        ("America/Havana", "2026-11-01", "2026-11-01T04:00Z", "2026-11-02T05:00Z"),  # midnight comes twice
        ("America/St_Johns", "2006-10-29", "2006-10-29T02:30Z", "2006-10-30T03:30Z"),  # back to 23:01 at 00:01
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00Z", "2011-12-31T10:00Z"),  # follows the 29th
    ],
)
def test_a_day_begins_when_its_date_first_shows(zone: str, date: str, start: str, end: str) -> None:
    assert period_named(DAY, ZoneInfo(zone), date) == Period(date, at(start), at(end))


def test_a_date_that_a_zone_skipped_is_no_period() -> None:
    with pytest.raises(BadInput, match="'2011-12-30' was skipped by the clocks of Pacific/Apia"):
        period_named(DAY, ZoneInfo("Pacific/Apia"), "2011-12-30")
    new_year_eve = period_named(DAY, ZoneInfo("Pacific/Apia"), "2011-12-31")
    assert previous(DAY, ZoneInfo("Pacific/Apia"), new_year_eve).label == "2011-12-29"


@settings(deadline=None)
@given(st.sampled_from(GRIDS), st.sampled_from(ZONES), any_time)
@example(DAY, ZoneInfo("America/St_Johns"), at("2006-10-29T02:31:30Z"))
def test_periods_tile_all_time(cadence: Cadence, zone: ZoneInfo, instant: datetime) -> None:
    period = period_at(cadence, zone, instant)
    assert period.start is not None and period.end is not None
    assert period.start <= instant < period.end
    before, after = previous(cadence, zone, period), following(cadence, zone, period)
    assert (before.end, after.start) == (period.start, period.end)
    assert len({before.label, period.label, after.label}) == 3


@settings(deadline=None)
@given(st.sampled_from(GRIDS), st.sampled_from(ZONES), any_time)
def test_the_label_of_a_period_names_that_period(cadence: Cadence, zone: ZoneInfo, instant: datetime) -> None:
    period = period_at(cadence, zone, instant)
    assert period_named(cadence, zone, period.label) == period


@settings(deadline=None)
@given(st.sampled_from(GRIDS), st.sampled_from(ZONES), any_time)
def test_previous_and_following_undo_each_other(cadence: Cadence, zone: ZoneInfo, instant: datetime) -> None:
    period = period_at(cadence, zone, instant)
    assert following(cadence, zone, previous(cadence, zone, period)) == period
    assert previous(cadence, zone, following(cadence, zone, period)) == period


@settings(deadline=None)
@given(st.sampled_from(GRIDS), st.sampled_from(ZONES), any_time)
def test_no_period_is_longer_than_its_cadence_but_for_an_hour(c: Cadence, zone: ZoneInfo, instant: datetime) -> None:
    period = period_at(c, zone, instant)
    assert period.start is not None and period.end is not None and c.length is not None
    assert period.end - period.start <= c.length + timedelta(hours=1)


@pytest.mark.parametrize(
    ("cadence", "label", "refusal"),
    [
        ("day", "2026-W48", "'2026-W48' is not a day; write the period like 2026-11-30"),
        ("day", "2026-02-30", "'2026-02-30' is not a day; write the period like 2026-11-30"),
        ("day", "2026-11-3", "'2026-11-3' is not a day; write the period like 2026-11-30"),
        ("day", "9999-12-31", "'9999-12-31' is not a day; write the period like 2026-11-30"),
        ("day", "", "'' is not a day; write the period like 2026-11-30"),
        ("week", "2026-w48", "'2026-w48' is not a week; write the period like 2026-W49"),
        ("week", "2025-W53", "'2025-W53' is not a week; write the period like 2026-W49"),
        ("month", "2026-13", "'2026-13' is not a month; write the period like 2026-11"),
        ("quarter", "2026-Q5", "'2026-Q5' is not a quarter; write the period like 2026-Q4"),
        ("year", "26", "'26' is not a year; write the period like 2026"),
        ("year", "٢٠٢٦", "'٢٠٢٦' is not a year; write the period like 2026"),
        ("minute", "06:00", "'06:00' is not a minute; write the period like 2026-11-30T06:00Z"),
        ("hour", "2026-11-30", "'2026-11-30' is not an hour; write the period like 2026-11-30T06:00Z"),
        ("hour", "2026-11-30T06:30Z", "'2026-11-30T06:30Z' is not an hour; write the period like 2026-11-30T06:00Z"),
        ("hour", "2026-11-30T24:00Z", "'2026-11-30T24:00Z' is not an hour; write the period like 2026-11-30T06:00Z"),
        ("15m", "2026-11-30T06:00:00Z", "is not a period of 15m; write the period like 2026-11-30T06:00Z"),
        ("7m", "2026-11-30T06:00Z", "is not a period of 7m; write the period like 2026-11-30T05:58Z"),
    ],
)
def test_a_label_that_does_not_fit_is_refused_with_one_that_does(cadence: str, label: str, refusal: str) -> None:
    with pytest.raises(BadInput) as refused:
        period_named(Cadence.parse(cadence), BERLIN, label)
    assert str(refused.value).endswith(refusal)
    period_named(Cadence.parse(cadence), BERLIN, refusal.rpartition(" ")[2])


@given(st.sampled_from(GRIDS), st.text(max_size=12) | st.from_regex(r"[0-9TWQZ:-]{4,17}", fullmatch=True))
def test_any_text_is_a_label_or_refused(cadence: Cadence, label: str) -> None:
    try:
        assert period_named(cadence, BERLIN, label).label == label
    except BadInput as refused:
        assert len(str(refused).splitlines()) == 1


@pytest.mark.parametrize("label", ["a", "batch 7", "übermorgen", "x" * 255, "2026-11-30"])
def test_any_line_names_a_run(label: str) -> None:
    assert period_named(RUN, BERLIN, label) == Period(label, None, None)


@pytest.mark.parametrize("label", ["", " a", "a ", "a\nb", "a\0b", "x" * 256, "ü" * 128, "\x85a", "a\u2028b", "\udc80"])
def test_what_is_not_one_line_names_no_run(label: str) -> None:
    with pytest.raises(BadInput, match=r"is no label; write 1 to 255 bytes"):
        period_named(RUN, BERLIN, label)


def test_runs_are_in_no_order() -> None:
    run = period_at(RUN, BERLIN, NOW)
    for neighbour in (previous, following):
        with pytest.raises(BadInput, match="each period stands alone"):
            neighbour(RUN, BERLIN, run)
