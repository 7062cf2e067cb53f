"""How a key stands: what is derived of it, which of its runs is shown, when it is due, and in what order keys come."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronguard.domain.overview import Glance, KeyState, due, interval, named, percentile, problems_first, status_of
from cronguard.domain.run import Holder, Job, Lease, Run, State
from cronguard.errors import BadInput

NOW = datetime(2026, 11, 30, 6, 20, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
ME = Holder("me", "alpha", 1)
JOB = Job("job", token=7, cadence="day", zone="UTC")
SCHEDULED = replace(JOB, schedule="0 6 * * *")
TODAY = datetime(2026, 11, 30, tzinfo=UTC)


def run(state: State, day: int = 30, **fields: object) -> Run:
    start = datetime(2026, 11, day, tzinfo=UTC)
    known = {"holder": ME, "token": 7, "started_at": start + 6 * HOUR, "period_start": start, "period_end": start + DAY}
    return replace(Run("job", f"2026-11-{day}", state, **known), **fields)  # type: ignore[arg-type]


def lease(until: timedelta, token: int = 7, complete_by: datetime | None = None) -> Lease:
    return Lease("job", "", "2026-11-30", token, ME, NOW + until, complete_by=complete_by)


def state_of(*runs: Run, job: Job = JOB, leases: tuple[Lease, ...] = ()) -> KeyState:
    return status_of(Glance(NOW, job, leases, runs)).state


@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
def test_key_stands_as_its_newest_period_does(state: State) -> None:
    assert state_of(run(State.SUCCEEDED, 29), run(state)) == str(state)


def test_running_is_stale_when_its_lease_is_over_or_gone_and_overrun_after_its_complete_by() -> None:
    running = run(State.RUNNING)
    assert state_of(running, leases=(lease(MINUTE),)) is KeyState.RUNNING
    assert state_of(running, leases=(lease(-MINUTE),)) is KeyState.STALE
    assert state_of(running) is KeyState.STALE
    assert state_of(running, leases=(lease(MINUTE, complete_by=NOW - MINUTE),)) is KeyState.OVERRUN


def test_paused_key_says_so_unless_it_runs() -> None:
    paused = replace(SCHEDULED, paused_at=NOW, paused_by="ada@alpha")
    assert state_of(run(State.FAILED, 20), job=paused) is KeyState.PAUSED
    assert state_of(run(State.RUNNING), job=paused, leases=(lease(MINUTE),)) is KeyState.RUNNING


def test_scheduled_key_is_overdue_when_its_tick_was_not_answered_for_a_while() -> None:
    yesterday = run(State.SUCCEEDED, 29)
    glance = Glance(NOW, SCHEDULED, (), (yesterday,))
    assert (status_of(glance).state, due(glance)) == (KeyState.OVERDUE, TODAY + 6 * HOUR)
    soon_after = replace(glance, now=TODAY + 6 * HOUR + 4 * MINUTE)
    assert (status_of(soon_after).state, due(soon_after)) == (KeyState.SUCCEEDED, TODAY + 6 * HOUR)


def test_scheduled_key_that_ran_is_due_at_its_next_tick() -> None:
    assert due(Glance(NOW, SCHEDULED, (), (run(State.FAILED),))) == TODAY + DAY + 6 * HOUR


def test_key_without_a_schedule_is_due_when_its_next_period_begins_and_never_overdue() -> None:
    assert due(Glance(NOW, JOB, (), (run(State.SUCCEEDED),))) == TODAY + DAY
    assert due(Glance(NOW, JOB, (), (run(State.SUCCEEDED, 20),))) == datetime(2026, 11, 21, tzinfo=UTC)
    assert state_of(run(State.SUCCEEDED, 20)) is KeyState.SUCCEEDED


@pytest.mark.parametrize(
    "job",
    [Job("job"), replace(JOB, cadence="run"), replace(JOB, zone="Mars/Olympus"), replace(SCHEDULED, paused_at=NOW)],
)
def test_there_is_no_telling_when_every_key_is_due(job: Job) -> None:
    assert due(Glance(NOW, job, (), (run(State.SUCCEEDED),))) is None


def test_key_whose_calendar_has_changed_still_has_a_line() -> None:
    assert status_of(Glance(NOW, replace(JOB, cadence="hour"), (), (run(State.SUCCEEDED),))).due_at is None


def test_live_run_of_an_older_period_is_what_is_shown() -> None:
    old = run(State.RUNNING, 20, token=9)
    line = status_of(Glance(NOW, JOB, (lease(MINUTE, token=9),), (run(State.SUCCEEDED), old)))
    assert (line.state, line.run) == (KeyState.RUNNING, old)


def test_rerun_of_an_old_period_does_not_hide_the_newest_one() -> None:
    again = run(State.SUCCEEDED, 20, started_at=NOW)
    assert state_of(run(State.FAILED), again) is KeyState.FAILED


def test_newest_period_counts_also_if_it_was_never_started() -> None:
    missed = run(State.MISSED, started_at=None, holder=None)
    assert state_of(run(State.SUCCEEDED, 29), missed) is KeyState.MISSED


def test_period_that_was_cancelled_before_it_began_says_nothing_yet() -> None:
    later = run(State.CANCELLED, period="2026-12-24", period_start=TODAY + 24 * DAY, started_at=None, holder=None)
    glance = Glance(NOW, SCHEDULED, (), (run(State.FAILED), later))
    assert (status_of(glance).state, due(glance)) == (KeyState.FAILED, TODAY + DAY + 6 * HOUR)
    assert status_of(replace(glance, now=later.period_start or NOW)).state is KeyState.CANCELLED


def test_key_that_never_ran_is_none() -> None:
    assert state_of(job=Job("job")) is KeyState.NONE


def test_problems_come_first_and_each_is_one() -> None:
    keys = [
        replace(status_of(Glance(NOW, Job(key))), state=state) for key, state in zip("gfedcba", KeyState, strict=False)
    ]
    shuffled = sorted(keys, key=lambda line: line.key)
    assert [line.state for line in problems_first(shuffled)] == list(KeyState)[:7]
    assert {state for state in KeyState if not state.is_problem} == {
        "paused",
        "running",
        "cancelled",
        "succeeded",
        "none",
    }


def test_every_state_of_a_run_is_a_state_of_a_key() -> None:
    assert {str(state) for state in State} <= {str(state) for state in KeyState}


def test_keys_are_named_by_name_and_by_glob() -> None:
    jobs = [Job(key) for key in ("billing/a", "billing/b", "job[1]", "x")]
    assert [job.key for job in named(jobs, ["billing/*"])] == ["billing/a", "billing/b"]
    assert [job.key for job in named(jobs, ["job[1]", "x"])] == ["job[1]", "x"]
    assert named(jobs, []) == jobs
    with pytest.raises(BadInput, match="has no key y; see: cronguard keys"):
        named(jobs, ["x", "y"])


@pytest.mark.parametrize(
    ("cadence", "schedule", "gap"),
    [("day", None, DAY), ("minute", "*/15 * * * *", 15 * MINUTE), ("day", "0 6 * * 1-5", DAY), ("run", None, None)],
)
def test_interval_is_the_cadence_or_the_shortest_gap_between_ticks(
    cadence: str, schedule: str | None, gap: timedelta | None
) -> None:
    assert interval(replace(JOB, cadence=cadence, schedule=schedule), NOW) == gap


def test_percentile_is_one_that_was_seen() -> None:
    lengths = [n * MINUTE for n in range(1, 101)]
    assert [percentile(lengths, percent) for percent in (50, 95, 99)] == [50 * MINUTE, 95 * MINUTE, 99 * MINUTE]
    assert percentile(lengths[:1], 50) == MINUTE
    assert percentile([], 50) is None
