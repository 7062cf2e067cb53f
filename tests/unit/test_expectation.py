"""When a key with a schedule is expected to run: late ticks, DST nights, absences, and how a firing moves the mark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from cronguard.domain.cadence import Cadence
from cronguard.domain.deadline import Deadline
from cronguard.domain.expectation import JUDGED_AT_ONCE, Expectation, expectation_of, expecting
from cronguard.domain.period import Calendar
from cronguard.domain.run import Job
from cronguard.domain.schedule import Schedule

DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def expected(
    schedule: str = "0 6 * * *", every: str = "day", zone: str = "UTC", start_by: str | None = None
) -> Expectation:
    where = ZoneInfo(zone)
    calendar = Calendar(Cadence.parse(every), where, Schedule.parse(schedule, where))
    found = Expectation.of(calendar, Deadline.parse(start_by) if start_by else None)
    assert found
    return found


@pytest.mark.parametrize(("start_by", "late"), [
    (None, "2026-12-01T06:00"), ("never", "2026-12-01T06:00"), ("2h", "2026-11-30T08:00"),
    ("07:30", "2026-11-30T07:30"),    ("05:00", "2026-12-01T05:00"), ("2020-01-01T00:00:00Z", "2026-12-01T06:00"),
])  # fmt: skip
def test_tick_is_late_at_its_start_by_or_after_one_cadence(start_by: str | None, late: str) -> None:
    """An instant as a start-by was about one firing, and says nothing of the next tick."""
    assert expected(start_by=start_by).late_at(at("2026-11-30T06:00")) == at(late)


def test_late_ticks_are_those_whose_time_to_start_is_over() -> None:
    daily = expected(start_by="2h")
    late, mark = daily.late(at("2026-11-28T06:00"), at("2026-11-30T07:59"))
    assert (late, mark) == ([at("2026-11-29T06:00")], at("2026-11-29T06:00"))
    late, mark = daily.late(mark, at("2026-11-30T08:00"))
    assert (late, mark) == ([at("2026-11-30T06:00")], at("2026-11-30T06:00"))
    assert daily.late(mark, at("2026-11-30T09:00")) == ([], mark)


def test_after_a_long_absence_only_the_last_days_are_told_and_the_mark_is_at_its_end() -> None:
    now = at("2026-11-30T06:30")
    late, mark = expected().late(now - 90 * DAY, now)
    assert late == [at("2026-11-29T06:00") - day * DAY for day in reversed(range(7))]
    assert mark == late[-1]


def test_minutely_key_is_told_for_so_many_ticks_only_however_long_it_was_off() -> None:
    now = at("2026-11-30T06:30")
    late, mark = expected("* * * * *", "minute").late(now - 90 * DAY, now)
    assert len(late) == JUDGED_AT_ONCE
    assert late[-1] == mark == at("2026-11-30T06:29")


@pytest.mark.parametrize(("schedule", "every", "lateness"), [("0 6 1 1 *", "year", 8), ("0 6 1 * *", "month", 9)])
def test_rare_tick_is_told_within_days_of_being_late_and_else_passed_over(
    schedule: str, every: str, lateness: int
) -> None:
    rare = expected(schedule, every)
    tick = at("2026-01-01T06:00")
    late_at = rare.late_at(tick)
    assert rare.late(tick - DAY, late_at) == ([tick], tick)
    late, mark = rare.late(tick - DAY, late_at + lateness * DAY)
    assert late == []
    assert tick < mark or rare.next_late_at(mark) > late_at + lateness * DAY


@pytest.mark.parametrize(("night", "ticks"), [
    ("2026-10-25", ["2026-10-25T00:30"]),  # 02:30 comes twice in Berlin, and is expected once
    ("2026-03-29", ["2026-03-29T01:00"]),  # 02:30 does not come, and is expected at the end of the gap
])  # fmt: skip
def test_daily_key_is_expected_once_on_the_nights_when_clocks_change(night: str, ticks: list[str]) -> None:
    daily = expected("30 2 * * *", zone="Europe/Berlin")
    noon = at(f"{night}T12:00")
    late, _ = daily.late(noon - DAY, noon + DAY)
    assert late == [at(tick) for tick in ticks]
    assert [daily.period(tick).label for tick in late] == [night]


def test_key_without_a_schedule_or_whose_periods_are_its_invocations_is_not_expected() -> None:
    utc = ZoneInfo("UTC")
    assert Expectation.of(Calendar(Cadence.parse("day"), utc), None) is None
    assert Expectation.of(Calendar(Cadence.parse("run"), utc, Schedule.parse("0 6 * * *", utc)), None) is None
    assert expectation_of(Job("job", cadence="day", zone="UTC")) is None


# --------------------------------------------------------------------------- a granted firing, and the key's mark

JOB = Job("job", cadence="day", zone="UTC", schedule="0 6 * * *")


def test_first_firing_is_where_expectation_begins() -> None:
    now = at("2026-11-30T06:00:05")
    job = expecting(Job("job"), JOB, expected(), at("2026-11-30T06:00"), now)
    assert (job.expected_until, job.expected_by) == (now, at("2026-12-02T06:00"))


def test_firing_for_a_slot_long_past_does_not_make_everything_since_then_late() -> None:
    now = at("2026-11-30T07:00")
    assert expecting(Job("job"), JOB, expected(), at("2025-01-01T06:00"), now).expected_until == now


def test_firing_for_the_very_next_tick_moves_the_mark_and_any_other_leaves_it() -> None:
    before = expecting(Job("job"), JOB, expected(), at("2026-11-28T06:00"), at("2026-11-28T06:00:05"))
    sunday, monday = at("2026-11-29T06:00"), at("2026-11-30T06:00")
    assert expecting(before, JOB, expected(), sunday, sunday).expected_until == sunday
    assert expecting(before, JOB, expected(), sunday - timedelta(seconds=9), sunday).expected_until == (
        before.expected_until
    )
    late = expecting(before, JOB, expected(), monday, monday)  # Sunday was left out: somebody will have to find it
    assert (late.expected_until, late.expected_by) == (before.expected_until, monday)
    assert expecting(before, JOB, expected(), None, monday).expected_until == before.expected_until


def test_changed_calendar_is_expected_from_its_first_firing_on_and_none_is_not() -> None:
    before = expecting(Job("job"), JOB, expected(), None, at("2026-11-20T06:00"))
    now = at("2026-11-30T06:00")
    assert expecting(before, Job("job", schedule="0 7 * * *"), expected("0 7 * * *"), None, now).expected_until == now
    gone = expecting(before, Job("job"), None, None, now)
    assert (gone.expected_until, gone.expected_by) == (None, None)


def test_start_by_of_the_latest_firing_counts() -> None:
    before = expecting(Job("job"), JOB, expected(), None, at("2026-11-30T06:00"))
    assert before.expected_by == at("2026-12-02T06:00")
    sooner = expecting(before, JOB, expected(start_by="1h"), None, at("2026-11-30T06:00"))
    assert sooner.expected_by == at("2026-12-01T07:00")
