"""The periods of a range, and what is done about each."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from cronguard.domain.backfill import Range, periods_of, plan
from cronguard.domain.cadence import Cadence
from cronguard.domain.period import Calendar, period_named
from cronguard.domain.run import Job, Run, Sight, State
from cronguard.domain.schedule import Schedule
from cronguard.errors import BadInput

NOW = datetime(2026, 11, 30, 6, 30, tzinfo=UTC)  # a Monday


def labels(first: str, last: str, every: str = "day", tz: str = "UTC", schedule: str | None = None) -> list[str]:
    zone = ZoneInfo(tz)
    calendar = Calendar(Cadence.parse(every), zone, Schedule.parse(schedule, zone) if schedule else None)
    return [chosen.period.label for chosen in periods_of(Range(first, last), calendar, NOW)]


@pytest.mark.parametrize(
    ("first", "last", "options", "expected"),
    [
        ("2026-11-28", "2026-11-30", {}, ["2026-11-28", "2026-11-29", "2026-11-30"]),
        ("2026-11-30", "2026-11-30", {}, ["2026-11-30"]),
        ("2026-11-29", "previous", {}, ["2026-11-29"]),
        ("previous", "current", {}, ["2026-11-29", "2026-11-30"]),
        ("2026-11-27", "2026-11-30", {"schedule": "0 6 * * 1-5"}, ["2026-11-27", "2026-11-30"]),
        ("2026-11-28", "2026-11-29", {"schedule": "0 6 * * 1-5"}, []),
        ("2026-10", "2026-11", {"every": "month"}, ["2026-10", "2026-11"]),
        ("2026-10-15", "2026-11-15", {"every": "month"}, ["2026-10", "2026-11"]),
        ("2026-W47", "2026-11-29", {"every": "week"}, ["2026-W47", "2026-W48"]),
        ("2026-11-30T04:00Z", "current", {"every": "hour"}, [f"2026-11-30T0{hour}:00Z" for hour in (4, 5, 6)]),
        ("2026-11-30", "2026-11-30", {"every": "hour"}, [f"2026-11-30T0{hour}:00Z" for hour in range(7)]),
    ],
)
def test_range_is_the_periods_from_one_edge_to_the_other(
    first: str, last: str, options: dict[str, str], expected: list[str]
) -> None:
    assert labels(first, last, **options) == expected


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)])
def test_date_of_a_shorter_cadence_is_the_hours_that_it_has_in_the_zone(day: str, hours: int) -> None:
    found = labels(day, day, every="hour", tz="Europe/Berlin")
    assert (len(found), len(set(found))) == (hours, hours)


def test_zone_off_the_grid_takes_the_periods_that_start_on_that_date() -> None:
    found = labels("2026-11-28", "2026-11-28", every="hour", tz="Asia/Kolkata")  # UTC+5:30
    assert (found[0], len(found)) == ("2026-11-27T19:00Z", 24)


@pytest.mark.parametrize(
    ("first", "last", "options", "said"),
    [
        ("2026-11-30", "2026-11-28", {}, "--from, --to: 2026-11-30 comes after 2026-11-28; swap them"),
        ("2026-12-01", "2026-12-02", {}, "--from: 2026-12-01 has not begun yet"),
        ("2026-11-28", "2026-12-02", {}, "--to: 2026-12-02 has not begun yet (the ledger's clock says 2026-11-30T06"),
        ("2026-W40", "2026-11-28", {}, "--from: '2026-W40' is not a day; write the period like 2026-11-30, or a date"),
        ("2026-11-28", "tomorrow", {}, "--to: 'tomorrow' is not a day"),
        ("2026-02-30", "2026-11-28", {"every": "hour"}, "--from: '2026-02-30' is not a day"),
        ("a", "b", {"every": "run"}, "with the cadence run each period stands alone: there is no range of them"),
        ("1990-01-01", "current", {}, "--from, --to: the range has more than 10000 periods of cadence day; run it in"),
        ("2026-11-01", "current", {"every": "minute"}, "more than 10000 periods of cadence minute"),
    ],
)
def test_range_that_makes_no_sense(first: str, last: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        labels(first, last, **options)
    assert said in str(refused.value)


DAY = period_named(Cadence.parse("day"), ZoneInfo("UTC"), "2026-11-28")
NOT_DONE = (State.PENDING, State.MISSED, State.RUNNING)
ENDED_BADLY = (State.FAILED, State.TIMED_OUT, State.DEAD)


def planned(state: State | None, asked: Range, job: Job | None = None) -> tuple[bool, bool]:
    """Whether it is run, and as a rerun."""
    calendar = Calendar(Cadence.parse("day"), ZoneInfo("UTC"))
    runs = (Run("job", DAY.label, state, period_start=DAY.start, period_end=DAY.end),) if state else ()
    (one,) = plan(periods_of(asked, calendar, NOW), asked, Sight(NOW, job, runs=runs))
    return one.is_run, one.is_rerun


def asked(*wishes: str) -> Range:
    return Range(DAY.label, DAY.label, **dict.fromkeys(wishes, True))


@pytest.mark.parametrize("state", [None, *State])
def test_whatever_did_not_succeed_is_run_and_what_a_person_cancelled_is_not(state: State | None) -> None:
    is_run = state not in (State.SUCCEEDED, State.CANCELLED)
    assert planned(state, asked()) == (is_run, state in ENDED_BADLY)


@pytest.mark.parametrize("state", [None, *State])
def test_only_missing_is_what_nobody_has_brought_to_an_end(state: State | None) -> None:
    assert planned(state, asked("only_missing")) == (state in (None, *NOT_DONE), False)


@pytest.mark.parametrize("state", [None, *State])
def test_rerun_takes_the_cancelled_and_with_force_the_succeeded_too(state: State | None) -> None:
    assert planned(state, asked("rerun"))[0] == (state is not State.SUCCEEDED)
    assert planned(state, asked("rerun", "force")) == (True, state not in (None, *NOT_DONE))


def test_what_the_ledger_has_forgotten_is_not_run_again() -> None:
    assert planned(None, asked(), Job("job", pruned_before=NOW)) == (False, False)
