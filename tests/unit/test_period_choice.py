"""Which period a firing is for: what was said decides, then the schedule, then the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronguard.domain.cadence import Cadence
from cronguard.domain.period import Calendar, Chosen, Period, PeriodRequest, PeriodSource, choose_period
from cronguard.domain.schedule import Schedule
from cronguard.errors import BadInput

BERLIN = ZoneInfo("Europe/Berlin")
DAY, HOUR, RUN = Cadence.parse("day"), Cadence.parse("hour"), Cadence.parse("run")
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

nights = st.builds(
    lambda night, seconds: at(night + "T00:00Z") + timedelta(seconds=seconds),
    st.sampled_from(["2026-03-29", "2026-10-25", "2026-11-30"]),
    st.integers(-86_400, 86_400),
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def choose(request: PeriodRequest, cadence: Cadence = DAY, now: datetime = NOW, schedule: str = "") -> Chosen:
    calendar = Calendar(cadence, BERLIN, Schedule.parse(schedule, BERLIN) if schedule else None)
    return choose_period(request, calendar, now, nonce="4f2a")


def test_the_surest_source_decides() -> None:
    everything = PeriodRequest("2026-11-27", at("2026-11-28T12:00Z"), "digest-for-2026-11-29")
    without_label = replace(everything, label=None)
    only_job = replace(without_label, scheduled_at=None)
    chosen = [
        choose(everything, schedule="30 2 * * *"),
        choose(without_label, schedule="30 2 * * *"),
        choose(only_job, schedule="30 2 * * *"),
        choose(PeriodRequest(), schedule="30 14 * * *"),
        choose(PeriodRequest()),
    ]
    assert [(one.source, one.period.label) for one in chosen] == [
        (PeriodSource.LABEL, "2026-11-27"),
        (PeriodSource.SCHEDULED_AT, "2026-11-28"),
        (PeriodSource.JOB_NAME, "2026-11-29"),
        (PeriodSource.SCHEDULE, "2026-11-29"),
        (PeriodSource.CLOCK, "2026-11-30"),
    ]


def test_what_was_said_does_not_depend_on_the_clock() -> None:
    said = (PeriodRequest("2026-11-27"), PeriodRequest(None, NOW), PeriodRequest(job_name="a-for-2026-11-29"))
    assert {(choose(one).valid_from, choose(one).valid_until) for one in said} == {(None, None)}


def test_a_firing_just_after_midnight_is_for_the_tick_before_it() -> None:
    chosen = choose(PeriodRequest(), now=at("2026-12-01T00:00:01+01:00"), schedule="59 23 * * *")
    assert (chosen.period.label, chosen.slot) == ("2026-11-30", at("2026-11-30T23:59+01:00"))


def test_a_firing_by_a_fast_clock_is_for_the_tick_to_come() -> None:
    chosen = choose(PeriodRequest(), now=at("2026-11-30T23:59:59.4+01:00"), schedule="0 0 * * *")
    assert (chosen.period.label, chosen.slot) == ("2026-12-01", at("2026-12-01T00:00+01:00"))


def test_a_choice_by_schedule_holds_from_tick_to_tick_each_less_its_tolerance() -> None:
    chosen = choose(PeriodRequest(), HOUR, at("2026-11-30T12:10Z"), "0 * * * *")
    assert (chosen.valid_from, chosen.valid_until) == (at("2026-11-30T11:59Z"), at("2026-11-30T12:59Z"))


def test_a_choice_by_the_clock_holds_for_the_period() -> None:
    chosen = choose(PeriodRequest())
    assert (chosen.valid_from, chosen.valid_until, chosen.slot) == (chosen.period.start, chosen.period.end, None)


schedules = st.sampled_from(["30 2 * * *", "0 * * * *", "*/7 * * * *", "0,1 0 * * *", "0 9 * * 1-5", "15 3 1 * *", ""])


@settings(deadline=None)
@given(schedules, st.sampled_from([DAY, HOUR]), nights, st.sampled_from([None, "current", "previous"]))
def test_a_choice_is_the_same_exactly_as_long_as_it_says(
    schedule: str, cadence: Cadence, now: datetime, word: str | None
) -> None:
    request = PeriodRequest(word)
    chosen = choose(request, cadence, now, schedule)
    assert chosen.valid_from is not None and chosen.valid_until is not None
    assert chosen.valid_from <= now < chosen.valid_until
    instant = timedelta(microseconds=1)
    for moment in (chosen.valid_from, chosen.valid_until - instant):
        assert replace(choose(request, cadence, moment, schedule), note=None) == replace(chosen, note=None)
    for moment in (chosen.valid_from - instant, chosen.valid_until):
        assert choose(request, cadence, moment, schedule).valid_from != chosen.valid_from


def test_current_and_previous_are_what_the_clock_would_choose_and_the_one_before() -> None:
    current, before = choose(PeriodRequest("current")), choose(PeriodRequest("previous"))
    assert (current.source, current.period.label) == (PeriodSource.LABEL, "2026-11-30")
    assert (before.source, before.period.label) == (PeriodSource.LABEL, "2026-11-29")


def test_previous_on_a_schedule_is_the_period_of_an_earlier_tick() -> None:
    before = choose(PeriodRequest("previous"), schedule="0 9 * * 1-5")  # it is Monday
    assert (before.period.label, before.slot) == ("2026-11-27", at("2026-11-27T08:00Z"))


def test_there_is_no_previous_run() -> None:
    with pytest.raises(BadInput, match="there is no previous one"):
        choose(PeriodRequest("previous"), RUN)


def test_a_run_fired_by_the_clock_gets_a_label_of_its_own() -> None:
    chosen = choose(PeriodRequest(), RUN)
    assert chosen == Chosen(Period("2026-11-30T12:00:00.000Z-4f2a", NOW, None), PeriodSource.CLOCK)


@pytest.mark.parametrize(
    ("cadence", "name", "label"),
    [
        ("day", "digest-for-2026-11-28", "2026-11-28"),
        ("week", "digest-for-2026-w48", "2026-W48"),
        ("month", "digest-for-2026-10", "2026-10"),
        ("quarter", "digest-for-2026-q3", "2026-Q3"),
        ("year", "digest-for-2025", "2025"),
        ("hour", "digest-for-2026-11-28t07", "2026-11-28T07:00Z"),
        ("hour", "digest-for-2026-11-28t0700z", "2026-11-28T07:00Z"),
        ("15m", "digest-for-2026-11-28t0730", "2026-11-28T07:30Z"),
        ("30s", "digest-for-2026-11-28t073030", "2026-11-28T07:30:30Z"),
        ("day", "report-for-you-for-2026-11-28", "2026-11-28"),
    ],
)
def test_a_job_named_for_a_period_is_for_that_period(cadence: str, name: str, label: str) -> None:
    chosen = choose(PeriodRequest(job_name=name), Cadence.parse(cadence))
    assert (chosen.source, chosen.period.label, chosen.note) == (PeriodSource.JOB_NAME, label, None)


@pytest.mark.parametrize("prefix", ["digest", "report-for-2026", "a-12345678"])
def test_a_job_of_a_cron_job_is_for_the_minute_in_its_name(prefix: str) -> None:
    minutes = int(at("2026-11-28T07:30Z").timestamp()) // 60
    chosen = choose(PeriodRequest(job_name=f"{prefix}-{minutes}"))
    assert (chosen.source, chosen.slot) == (PeriodSource.JOB_NAME, at("2026-11-28T07:30Z"))
    assert chosen.period.label == "2026-11-28"


def test_the_minute_in_a_job_name_must_be_a_likely_one() -> None:
    known = {}
    for offset in (timedelta(days=-36), timedelta(days=-34), timedelta(minutes=59), timedelta(minutes=61)):
        minutes = int((NOW + offset).timestamp()) // 60
        known[offset] = choose(PeriodRequest(job_name=f"digest-{minutes}")).source
    assert list(known.values()) == [
        PeriodSource.CLOCK,
        PeriodSource.JOB_NAME,
        PeriodSource.JOB_NAME,
        PeriodSource.CLOCK,
    ]


@pytest.mark.parametrize("name", ["digest", "digest-manual-x7k2p", "digest-99999999", "report-for-you", "a-20261130"])
def test_a_job_name_without_a_period_is_noted_and_passed_over(name: str) -> None:
    chosen = choose(PeriodRequest(job_name=name))
    assert chosen.source is PeriodSource.CLOCK
    assert chosen.note == f"the job name {name!r} tells no period: the clock decides"
    assert choose(PeriodRequest(job_name=name), schedule="30 2 * * *").source is PeriodSource.SCHEDULE


def test_a_job_named_for_a_period_of_another_cadence_is_refused() -> None:
    with pytest.raises(BadInput, match="'2026-W48' is not a day"):
        choose(PeriodRequest(job_name="digest-for-2026-w48"))


@pytest.mark.parametrize("request_", [PeriodRequest("2027-01-01"), PeriodRequest(job_name="a-for-2027-01-01")])
def test_a_period_that_has_not_begun_is_refused(request_: PeriodRequest) -> None:
    with pytest.raises(BadInput) as refused:
        choose(request_)
    assert str(refused.value) == ("period 2027-01-01 has not begun yet (the ledger's clock says 2026-11-30T12:00:00Z)")


def test_a_period_that_begins_within_a_minute_is_accepted() -> None:
    midnight = at("2026-12-01T00:00+01:00")
    assert choose(PeriodRequest("2026-12-01"), now=midnight - timedelta(seconds=60)).period.start == midnight
    with pytest.raises(BadInput, match="has not begun yet"):
        choose(PeriodRequest("2026-12-01"), now=midnight - timedelta(seconds=61))


def test_a_scheduled_time_that_has_not_come_is_refused() -> None:
    assert choose(PeriodRequest(scheduled_at=NOW + timedelta(seconds=60))).slot == NOW + timedelta(seconds=60)
    with pytest.raises(BadInput, match=r"the scheduled time 2026-11-30T12:02:00Z has not come yet \(the ledger's"):
        choose(PeriodRequest(scheduled_at=NOW + timedelta(minutes=2)))


@pytest.mark.parametrize(
    ("now", "cadence", "noted"),
    [
        ("2026-12-01T00:01:59+01:00", "day", True),
        ("2026-11-30T23:58:00+01:00", "day", True),
        ("2026-12-01T00:02:01+01:00", "day", False),
        ("2026-12-01T00:00:01+01:00", "month", True),
        ("2026-12-01T00:00:01+01:00", "year", False),
        ("2026-12-01T00:00:01+01:00", "hour", False),
        ("2026-12-01T00:00:01Z", "2d", True),
        ("2026-12-01T00:00:01+01:00", "run", False),
    ],
)
def test_a_start_near_an_edge_by_the_clock_alone_is_noted(now: str, cadence: str, noted: bool) -> None:
    note = choose(PeriodRequest(), Cadence.parse(cadence), at(now)).note
    assert ("--schedule" in (note or "")) == noted
    assert choose(PeriodRequest(), Cadence.parse(cadence), at(now), "0 0 * * *").note is None
