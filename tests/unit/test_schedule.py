"""Schedules: which tick a firing is for, above all on the nights when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cronguard.domain.cadence import Cadence
from cronguard.domain.period import period_at
from cronguard.domain.schedule import Schedule
from cronguard.errors import BadInput

BERLIN, NEW_YORK, UTC_ZONE = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York"), ZoneInfo("UTC")
ZONES = [BERLIN, NEW_YORK, UTC_ZONE, ZoneInfo("Asia/Beirut"), ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Asia/Kolkata")]
EXPRESSIONS = [
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "30 1 * * *",
    "15,45 2 * * *",
    "0,30 1-3 * * *",
    "0 0 * * 1",
    "*/30 2 * * *",
    "30 2,3 * * *",
    "0,1 0 * * *",
    "0 0 1 * *",
    "0 0 29 2 *",
    "0 0 * * MON#5",
    "@daily",
    "0 0 L * *",
]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY, HOUR = Cadence.parse("day"), Cadence.parse("hour")

schedules = st.builds(Schedule, st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES))
instants = st.timedeltas(timedelta(days=11_000), timedelta(days=33_000)).map(lambda age: EPOCH + age)
nights = st.sampled_from(["2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01", "2026-10-04", "2026-04-05"]).flatmap(
    lambda night: st.integers(-50_000, 50_000).map(lambda s: at(night + "T00:00Z") + timedelta(seconds=s))
)
any_time = instants | nights


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def ticks(expression: str, zone: ZoneInfo, start: str, end: str) -> list[datetime]:
    return list(Schedule.parse(expression, zone).ticks_between(at(start), at(end)))


# --- What is a schedule -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression", [*EXPRESSIONS, "0 0 * 2 MON#5", "0 9-17 * * mon-fri", "0 0 LW * *", " 0 0 * * * "]
)
def test_what_ticks_is_a_schedule(expression: str) -> None:
    assert Schedule.parse(expression, BERLIN).expression == expression


@pytest.mark.parametrize(
    "expression", ["0 0 31 2 *", "0 0 30 2 *", "61 * * * *", "*/0 * * * *", "x * * * *", "0 0 * * 8"]
)
def test_an_impossible_field_is_refused_by_name(expression: str) -> None:
    with pytest.raises(BadInput, match=r"is not a cron schedule \(bad [a-z-]+\); write it like '30 2 \* \* \*'"):
        Schedule.parse(expression, BERLIN)


@pytest.mark.parametrize("expression", ["", "daily", "@reboot", "0 0 * *", "0 0 0 * * *", "\0"])
def test_anything_but_five_fields_is_refused(expression: str) -> None:
    with pytest.raises(BadInput, match=r"is not a cron schedule of five fields; write it like '30 2 \* \* \*'"):
        Schedule.parse(expression, BERLIN)


def test_a_schedule_that_never_ticks_is_refused() -> None:
    with pytest.raises(BadInput, match="never ticks; write it like"):
        Schedule.parse("0 0 */30 2 MON#5", BERLIN)


fields = st.from_regex(r"[0-9*/,#LW-]{1,6}", fullmatch=True) | st.sampled_from(["*", "0", "MON", "FEB", "5L", "5#2"])


@settings(deadline=None)
@given(st.lists(fields, min_size=5, max_size=5).map(" ".join) | st.text(max_size=15))
def test_any_text_is_a_schedule_or_refused_in_one_line(expression: str) -> None:
    try:
        assert Schedule.parse(expression, BERLIN).next_tick(at("2026-01-01T00:00Z")) > at("2026-01-01T00:00Z")
    except BadInput as refused:
        assert len(str(refused).splitlines()) == 1


def test_a_nickname_means_what_crontab_says() -> None:
    assert ticks("@weekly", BERLIN, "2026-11-25T00:00Z", "2026-12-02T00:00Z") == [at("2026-11-29T00:00+01:00")]
    assert Schedule.parse("@hourly", BERLIN).natural_cadence() == HOUR


# --- Ticks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "spring", "autumn"),
    [
        (BERLIN, "2026-03-29T03:00+02:00", "2026-10-25T02:30+02:00"),
        (NEW_YORK, "2026-03-08T03:00-04:00", "2026-11-01T02:30-05:00"),
    ],
)
def test_half_past_two_ticks_once_on_each_night_when_clocks_change(zone: ZoneInfo, spring: str, autumn: str) -> None:
    for night in (at(spring), at(autumn)):
        period = period_at(DAY, zone, night)
        assert period.start is not None and period.end is not None
        inside = Schedule("30 2 * * *", zone).ticks_between(period.start, period.end - timedelta(seconds=1))
        assert list(inside) == [night]


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK])
@pytest.mark.parametrize("expression", ["30 2 * * *", "30 1 * * *", "0 2 * * *"])
def test_a_daily_schedule_ticks_once_on_every_date_of_a_year(zone: ZoneInfo, expression: str) -> None:
    year = ticks(expression, zone, "2026-01-01T12:00Z", "2027-01-01T12:00Z")
    assert len({period_at(DAY, zone, tick).label for tick in year}) == len(year) == 365


@pytest.mark.parametrize(("date", "hours"), [("2026-10-25", 25), ("2026-03-29", 23)])
def test_an_hourly_schedule_ticks_in_every_real_hour(date: str, hours: int) -> None:
    day = period_at(DAY, BERLIN, at(date + "T12:00Z"))
    assert day.start is not None and day.end is not None
    instant = timedelta(seconds=1)
    hourly = list(Schedule("0 * * * *", BERLIN).ticks_between(day.start - instant, day.end - instant))
    assert len({period_at(HOUR, BERLIN, tick).label for tick in hourly}) == len(hourly) == hours


def test_in_the_second_of_two_equal_hours_the_next_tick_is_not_in_the_first() -> None:
    schedule = Schedule("30 2 * * *", BERLIN)
    assert schedule.next_tick(at("2026-10-25T02:15+01:00")) == at("2026-10-26T02:30+01:00")
    assert schedule.latest_tick(at("2026-10-25T02:45+01:00")) == at("2026-10-25T02:30+02:00")


def test_a_time_in_the_gap_ticks_at_its_end() -> None:
    schedule = Schedule("30 2 * * *", BERLIN)
    assert schedule.latest_tick(at("2026-03-29T01:58:59+01:00")) == at("2026-03-28T02:30+01:00")
    assert schedule.latest_tick(at("2026-03-29T01:59:00+01:00")) == at("2026-03-29T03:00+02:00")
    assert schedule.latest_tick(at("2026-03-29T03:30:00+02:00")) == at("2026-03-29T03:00+02:00")


@settings(deadline=None)
@given(schedules, any_time)
@example(Schedule("* * * * *", BERLIN), datetime(2000, 2, 13, 0, 0, 59, 999501, UTC))
def test_the_next_tick_is_the_same_from_anywhere_before_it(schedule: Schedule, moment: datetime) -> None:
    tick = schedule.next_tick(moment)
    assert moment < tick
    assert tick.utcoffset() == timedelta()
    for share in (0.3, 0.7, 0.999):
        later = min(moment + (tick - moment) * share, tick - timedelta(microseconds=1))
        assert schedule.next_tick(later) == tick


@settings(deadline=None)
@given(schedules, any_time)
@example(Schedule("30 2 * * *", BERLIN), at("2026-10-25T02:45+01:00"))
@example(Schedule("0 0 29 2 *", BERLIN), at("2103-06-01T00:00Z"))
def test_no_tick_lies_between_the_latest_and_now(schedule: Schedule, now: datetime) -> None:
    last = schedule.tick_before(now)
    assert last < now <= schedule.next_tick(last)


@settings(deadline=None)
@given(schedules, any_time, st.integers(0, 7200))
@example(Schedule("30 2 * * *", BERLIN), at("2026-10-25T00:29:30Z"), 3600)
@example(Schedule("30 2 * * *", BERLIN), at("2026-03-29T00:59:30Z"), 60)
def test_the_latest_tick_never_goes_back(schedule: Schedule, now: datetime, seconds: int) -> None:
    assert schedule.latest_tick(now) <= schedule.latest_tick(now + timedelta(seconds=seconds))


@settings(deadline=None)
@given(schedules, any_time)
def test_a_firing_is_for_a_tick_from_its_tolerance_before_it_until_the_next(schedule: Schedule, now: datetime) -> None:
    tick = schedule.latest_tick(now)
    coming = schedule.next_tick(tick)
    assert tick - schedule.early_tolerance(tick) <= now < coming - schedule.early_tolerance(coming)


@settings(deadline=None)
@given(schedules, any_time)
def test_a_firing_on_the_tick_is_for_that_tick(schedule: Schedule, moment: datetime) -> None:
    tick = schedule.next_tick(moment)
    assert schedule.latest_tick(tick) == tick


@pytest.mark.parametrize(
    ("expression", "tick", "seconds"),
    [
        ("30 2 * * *", "2026-11-30T02:30Z", 60),
        ("*/5 * * * *", "2026-11-30T02:30Z", 30),
        ("* * * * *", "2026-11-30T02:30Z", 6),
        ("0,1 0 * * *", "2026-11-30T00:01Z", 6),
        ("0,1 0 * * *", "2026-11-30T00:00Z", 60),
    ],
)
def test_the_early_tolerance_is_a_tenth_of_the_gap_before_the_tick(expression: str, tick: str, seconds: int) -> None:
    assert Schedule(expression, UTC_ZONE).early_tolerance(at(tick)) == timedelta(seconds=seconds)


def test_ticks_between_leaves_out_the_first_edge_and_keeps_the_last() -> None:
    noon = "2026-11-30T{}:00Z"
    assert ticks("0 * * * *", UTC_ZONE, noon.format(10), noon.format(12)) == [at(noon.format(11)), at(noon.format(12))]


@settings(deadline=None, max_examples=30)
@given(schedules, any_time)
def test_ticks_are_in_order_and_a_minute_or_more_apart(schedule: Schedule, moment: datetime) -> None:
    found = list(schedule.ticks_between(moment, moment + timedelta(hours=30)))
    assert all(other - one >= timedelta(minutes=1) for one, other in pairwise(found))


# --- The cadence that fits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "zone", "name"),
    [
        ("30 2 * * *", "Europe/Berlin", "day"),
        ("30 1 * * *", "America/New_York", "day"),
        ("0 0 * * *", "Asia/Beirut", "day"),
        ("0 0 * * 1", "Europe/Berlin", "day"),
        ("0 0 29 2 *", "Europe/Berlin", "day"),
        ("0 9-17 * * 1-5", "Europe/Berlin", "hour"),
        ("0 * * * *", "Europe/Berlin", "hour"),
        ("0 6,18 1 1 *", "Europe/Berlin", "hour"),
        ("*/15 * * * *", "Europe/Berlin", "minute"),
        ("0,30 5 * * *", "Europe/Berlin", "minute"),
        ("0,30 5 29 2 *", "Europe/Berlin", "minute"),
        ("0,30 5 * * *", "Asia/Kolkata", "hour"),  # 23:30Z and 00:00Z
        ("*/60 2 * * *", "Europe/Berlin", "hour"),  # a star follows real hours: twice on an autumn night
        ("30 2,3 * * *", "Europe/Berlin", "minute"),  # 03:00 and 03:30 on a spring night
        ("30 23 * * *", "America/Scoresbysund", "hour"),  # 23:30 is skipped over midnight, into the next date
    ],
)
def test_the_natural_cadence_is_the_longest_that_no_two_ticks_share(expression: str, zone: str, name: str) -> None:
    assert Schedule.parse(expression, ZoneInfo(zone)).natural_cadence().name == name


@settings(deadline=None, max_examples=40)
@given(schedules, nights)
def test_no_two_ticks_share_a_period_of_the_natural_cadence(schedule: Schedule, moment: datetime) -> None:
    cadence = schedule.natural_cadence()
    found = list(schedule.ticks_between(moment, moment + timedelta(days=3)))
    assert len({period_at(cadence, schedule.zone, tick).label for tick in found}) == len(found)
