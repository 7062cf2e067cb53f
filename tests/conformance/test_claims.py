"""Who runs, on every store: each guard of the claim, each way back from it, by a ledger's clock moved by hand."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronguard.clock import boottime
from cronguard.domain.claim import Granted
from cronguard.domain.lifecycle import Ending
from cronguard.domain.period import PeriodRequest
from cronguard.domain.run import Change, Exclusive, Holder, Job, Outcome
from cronguard.ports import Store
from tests.conftest import Clock
from tests.rig.firings import (
    FAILED,
    TERMS,
    claim,
    finish,
    firing,
    granted,
    ledger_on,
    refusal,
    skips,
    state,
)

TODAY, TOMORROW = "2026-11-30", "2026-12-01"


def die(store: Store, clock: Clock, **options: object) -> Granted:
    """A run whose holder never comes back; its lease is over."""
    held = granted(claim(store, **options))
    clock.forward(seconds=61)
    return held


def test_first_firing_is_granted_and_the_others_are_held(store: Store) -> None:
    held = granted(claim(store))
    assert (held.run.period, held.run.attempt, held.run.state) == (TODAY, 1, "running")
    assert refusal(claim(store, host="beta")) == "held"
    assert skips(store, "job", TODAY) == ["held"]


def test_period_that_succeeded_does_not_run_again(store: Store) -> None:
    finish(store, granted(claim(store)))
    assert refusal(claim(store)) == "already_succeeded"
    assert refusal(claim(store, rerun=True)) == "already_succeeded"


def test_next_period_runs(store: Store, clock: Clock) -> None:
    finish(store, granted(claim(store)))
    clock.forward(days=1)
    assert granted(claim(store)).run.period == TOMORROW


def test_failed_period_does_not_run_again_by_itself(store: Store) -> None:
    finish(store, granted(claim(store)), FAILED)
    assert refusal(claim(store)) == "attempts_spent"
    assert state(store, "job", TODAY) == "failed"


@pytest.mark.parametrize("ending", [FAILED, Ending(Outcome.TIMED_OUT, signal=15)])
def test_failed_period_with_attempts_left_runs_again(store: Store, ending: Ending) -> None:
    first = granted(claim(store, attempts=2))
    finish(store, first, ending)
    second = granted(claim(store, attempts=2))
    assert (second.run.attempt, second.run.token > first.run.token) == (2, True)
    finish(store, second, ending)
    assert refusal(claim(store, attempts=2)) == "attempts_spent"


def test_rerun_runs_what_failed_and_with_force_what_succeeded(store: Store) -> None:
    finish(store, granted(claim(store)), FAILED)
    again = granted(claim(store, rerun=True, requested_by="ada@alpha"))
    finish(store, again)
    forced = granted(claim(store, rerun=True, force=True))
    assert (forced.run.attempt, forced.run.failures) == (3, 0)
    record = store.show("job", TODAY)
    assert record and [attempt.requested_by for attempt in record.attempts] == [None, "ada@alpha", None]


def test_dead_holder_is_taken_over_under_a_higher_token(store: Store, clock: Clock) -> None:
    dead = die(store, clock)
    new = granted(claim(store, host="beta"))
    assert new.run.token > dead.run.token
    record = store.show("job", TODAY)
    assert record and [str(a.outcome or "running") for a in record.attempts] == ["lost", "running"]
    assert record.run.recoveries == 1


def test_lease_that_is_not_over_is_not_taken(store: Store, clock: Clock) -> None:
    granted(claim(store))
    clock.forward(seconds=60)
    assert refusal(claim(store)) == "held"


def test_recoveries_are_spent_and_the_run_is_dead_until_a_person_says_otherwise(store: Store, clock: Clock) -> None:
    die(store, clock, recoveries=1)
    die(store, clock, recoveries=1)
    assert refusal(claim(store, recoveries=1)) == "recoveries_spent"
    assert state(store, "job", TODAY) == "dead"
    assert refusal(claim(store, recoveries=1)) == "recoveries_spent"
    assert granted(claim(store, recoveries=1, rerun=True)).run.recoveries == 0


def test_at_most_once_is_recoveries_zero(store: Store, clock: Clock) -> None:
    die(store, clock, recoveries=0)
    assert refusal(claim(store, recoveries=0)) == "recoveries_spent"


def test_stale_run_of_another_period_is_recovered_on_the_way(store: Store, clock: Clock) -> None:
    clock.now = datetime(2026, 11, 30, 23, 58, tzinfo=UTC)
    die(store, clock)
    clock.forward(minutes=5)
    assert granted(claim(store)).run.period == TOMORROW
    assert state(store, "job", TODAY) == "pending"


def test_pending_period_is_run_when_it_is_named(store: Store, clock: Clock) -> None:
    held = granted(claim(store))
    finish(store, held, Ending(Outcome.INTERRUPTED, signal=15))
    assert state(store, "job", TODAY) == "pending"
    assert granted(claim(store, period=TODAY)).run.attempt == 2


def test_job_longer_than_its_interval_holds_the_key(store: Store, clock: Clock) -> None:
    granted(claim(store, every="minute"))
    clock.forward(seconds=59)
    assert refusal(claim(store, every="minute", host="beta")) == "held"


def test_exclusive_period_lets_periods_run_side_by_side_but_not_one_twice(store: Store, clock: Clock) -> None:
    options = {"every": "minute", "exclusive": Exclusive.PERIOD}
    first = granted(claim(store, **options))
    clock.forward(seconds=50)
    assert refusal(claim(store, period=first.run.period, **options)) == "held"
    clock.forward(seconds=9)
    store.beat(first.lease, TERMS.lease_for, TERMS.slack)
    clock.forward(seconds=10)
    second = granted(claim(store, **options))
    assert second.run.token > first.run.token
    assert refusal(claim(store, every="minute", host="beta")) == "held"  # exclusive=key goes by both
    assert finish(store, first) == finish(store, second) == "mine"


def test_echo_of_a_tick_on_the_other_side_of_midnight_does_not_run(store: Store, clock: Clock) -> None:
    clock.now = datetime(2026, 11, 30, 23, 59, 59, 900_000, tzinfo=UTC)
    finish(store, granted(claim(store)))
    clock.forward(seconds=0.2)
    assert refusal(claim(store, host="beta")) == "echo"
    clock.forward(seconds=61)
    granted(claim(store, host="beta"))


def test_period_of_a_schedule_is_its_tick_also_for_a_host_that_fires_early(store: Store, clock: Clock) -> None:
    options = {"every": None, "schedule": "0 0 * * *"}
    clock.now = datetime(2026, 11, 30, 23, 59, 59, 900_000, tzinfo=UTC)
    held = granted(claim(store, **options))
    assert (held.run.period, held.run.slot) == (TOMORROW, datetime(2026, 12, 1, tzinfo=UTC))
    clock.forward(seconds=0.2)
    assert refusal(claim(store, host="beta", **options)) == "held"


@pytest.mark.parametrize(
    ("zone", "nights"),
    [
        ("Europe/Berlin", ("2026-10-25T00:30:00+00:00", "2026-10-25T01:30:00+00:00")),  # 02:30 twice
        ("America/New_York", ("2026-11-01T07:30:00+00:00", "2026-11-01T07:30:59+00:00")),  # there 01:30 comes twice
        ("Europe/Berlin", ("2026-03-29T01:00:00+00:00", "2026-03-29T01:30:00+00:00")),  # no 02:30: 03:00, 03:30
        ("America/New_York", ("2026-03-08T07:00:00+00:00", "2026-03-08T07:30:00+00:00")),
    ],
)
@pytest.mark.parametrize("schedule", [None, "30 2 * * *"])
def test_daily_job_runs_once_on_the_nights_when_clocks_change(
    store: Store, clock: Clock, zone: str, nights: tuple[str, str], schedule: str | None
) -> None:
    """Whichever of the two moments a cron daemon takes for 02:30, and if it takes both."""
    answers = []
    for moment in nights:
        clock.now = datetime.fromisoformat(moment)
        answers.append(claim(store, tz=zone, every="day", schedule=schedule))
        if isinstance(answers[-1], Granted):
            finish(store, answers[-1])
    assert [isinstance(answer, Granted) for answer in answers] == [True, False]


@pytest.mark.parametrize(("day", "hours"), [("2026-10-25", 25), ("2026-03-29", 23), ("2026-11-30", 24)])
def test_hourly_key_has_as_many_periods_as_the_day_has_hours(store: Store, clock: Clock, day: str, hours: int) -> None:
    berlin = timedelta(hours=2 if day == "2026-10-25" else 1)
    start = datetime.fromisoformat(f"{day}T00:00:05+00:00") - berlin
    periods = set()
    for quarter in range(hours * 4):
        clock.now = start + timedelta(minutes=15 * quarter)
        answer = claim(store, every="hour", tz="Europe/Berlin")
        if isinstance(answer, Granted):
            periods.add(answer.run.period)
            finish(store, answer)
    assert len(periods) == hours


def test_complete_by_on_the_clock_is_a_deadline_of_the_night_not_of_the_start(store: Store, clock: Clock) -> None:
    clock.now = datetime(2026, 11, 30, 6, 50, tzinfo=UTC)
    assert granted(claim(store, complete_by="07:00")).run.complete_by == datetime(2026, 11, 30, 7, tzinfo=UTC)


@pytest.mark.parametrize("option", ["complete_by", "start_by"])
def test_firing_after_its_deadline_is_too_late(store: Store, clock: Clock, option: str) -> None:
    clock.now = datetime(2026, 11, 30, 7, 5, tzinfo=UTC)
    assert refusal(claim(store, **{option: "07:00"})) == "too_late"
    assert skips(store, "job", TODAY) == ["too_late"]


def test_deadline_on_the_clock_of_a_nightly_schedule_is_the_next_morning(store: Store, clock: Clock) -> None:
    clock.now = datetime(2026, 11, 30, 23, 0, 2, tzinfo=UTC)
    held = granted(claim(store, schedule="0 23 * * *", complete_by="07:00"))
    assert held.run.complete_by == datetime(2026, 12, 1, 7, tzinfo=UTC)


def test_start_by_counts_from_the_tick(store: Store, clock: Clock) -> None:
    clock.now = datetime(2026, 11, 30, 6, 16, tzinfo=UTC)
    assert refusal(claim(store, schedule="0 6 * * *", start_by="15m")) == "too_late"
    clock.forward(minutes=-2)
    granted(claim(store, schedule="0 6 * * *", start_by="15m"))


def test_rerun_of_a_past_date_is_not_too_late_for_its_own_morning(store: Store) -> None:
    held = granted(claim(store, period="2026-11-20", complete_by="07:00", start_by="06:30"))
    assert held.run.complete_by == datetime(2026, 11, 30, 7, tzinfo=UTC)


def test_rerun_by_hand_takes_the_calendar_that_the_key_has_stored(store: Store) -> None:
    finish(store, granted(claim(store, every="hour", tz="Europe/Berlin")))
    held = granted(claim(store, every=None, tz=None, period="2026-11-29T06:00Z"))
    assert (held.run.cadence, held.run.zone) == ("hour", "Europe/Berlin")


def test_hosts_in_different_zones_agree_on_the_period_by_the_key(store: Store, clock: Clock) -> None:
    clock.now = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)  # 00:30 of the next day in Berlin
    finish(store, granted(claim(store, tz="Europe/Berlin")))
    assert refusal(claim(store, tz=None)) == "already_succeeded"


def test_skip_is_noted_under_the_period_of_the_ledgers_clock_not_of_the_hosts(store: Store, clock: Clock) -> None:
    """The rig's hosts live in their own present; the ledger's clock stands at 2026-11-30."""
    granted(claim(store))
    claim(store)
    assert skips(store, "job", TODAY) == ["held"]


def test_pruned_period_is_refused_although_its_row_is_gone(store: Store, clock: Clock) -> None:
    finish(store, granted(claim(store)))
    with store.page("other", TODAY) as page:
        page.write(Change(job=Job("other", 1)))
    prune_before(store, clock.now)
    assert refusal(claim(store, period="2026-11-01")) == "pruned"


def prune_before(store: Store, moment: datetime) -> None:
    """What the pruning of old runs leaves behind: the key's mark."""
    sql = "update {}job set pruned_before = {} where key = 'job'"
    if hasattr(store, "_path"):
        import sqlite3

        with sqlite3.connect(store._path) as connection:
            connection.execute(sql.format("", int(moment.timestamp() * 1_000_000)))
        connection.close()
    else:
        import psycopg

        with psycopg.connect(store._dsn, autocommit=True) as connection:
            connection.execute(sql.format("cronguard.", f"'{moment.isoformat()}'"))


# --------------------------------------------------------------------------- the holder's own changes


def test_finish_sent_again_answers_that_it_is_so_already(store: Store) -> None:
    held = granted(claim(store))
    assert [finish(store, held), finish(store, held)] == ["mine", "already_so"]
    record = store.show("job", TODAY)
    assert record and (record.run.state, len(record.attempts)) == ("succeeded", 1)


@pytest.mark.parametrize("ending", [FAILED, Ending(Outcome.INTERRUPTED, signal=15)])
def test_other_endings_sent_again_change_nothing(store: Store, ending: Ending) -> None:
    held = granted(claim(store, attempts=5))
    finish(store, held, ending)
    before = store.show("job", TODAY)
    assert finish(store, held, ending) == "already_so"
    assert store.show("job", TODAY) == before


def test_late_success_counts_when_nobody_has_claimed_since(store: Store, clock: Clock) -> None:
    clock.now = datetime(2026, 11, 30, 23, 58, tzinfo=UTC)
    late = die(store, clock)
    clock.forward(minutes=5)
    finish(store, granted(claim(store)))  # the next period; recovers today's on its way
    assert state(store, "job", TODAY) == "pending"
    assert finish(store, late) == "late"
    assert state(store, "job", TODAY) == "succeeded"


def test_late_failure_leaves_the_run_to_whoever_comes(store: Store, clock: Clock) -> None:
    clock.now = datetime(2026, 11, 30, 23, 58, tzinfo=UTC)
    late = die(store, clock)
    clock.forward(minutes=5)
    claim(store)
    assert finish(store, late, FAILED) == "lost"
    assert state(store, "job", TODAY) == "pending"


def test_success_after_a_takeover_changes_no_row_but_its_attempts(store: Store, clock: Clock) -> None:
    late = die(store, clock)
    new = granted(claim(store, host="beta"))
    before = store.look("job", TODAY)
    assert finish(store, late) == "lost"
    assert store.look("job", TODAY) == before
    assert finish(store, new) == "mine"
    record = store.show("job", TODAY)
    assert record and [str(attempt.outcome) for attempt in record.attempts] == ["lost", "succeeded"]
    assert "after the lease was lost" in (record.attempts[0].note or "")


def forgotten(store: Store, clock: Clock) -> Granted:
    """A claim of today's run, in a ledger that knows the key and nothing of the claim: as after a failover."""
    yesterday = granted(claim(store, period="2026-11-29"))
    finish(store, yesterday)
    clock.forward(seconds=5)
    token, holder = yesterday.run.token + 3000, Holder(str(uuid.uuid4()), "alpha", 4711)
    run = replace(yesterday.run, period=TODAY, token=token, holder=holder, period_start=clock.now)
    attempt = replace(yesterday.attempt, period=TODAY, token=token, holder=holder)
    return Granted(run, attempt, replace(yesterday.lease, period=TODAY, token=token, holder=holder), clock.now)


def test_success_of_a_forgotten_claim_is_written_with_its_attempt_and_stays(store: Store, clock: Clock) -> None:
    held = forgotten(store, clock)
    assert finish(store, held) == "forgotten"
    assert finish(store, held) == "already_so"
    record = store.show("job", TODAY)
    assert record and record.run and (record.run.state, record.run.token) == ("succeeded", held.run.token)
    assert record.run.period_start == held.run.period_start
    assert [(str(one.outcome), one.token) for one in record.attempts] == [("succeeded", held.run.token)]
    assert refusal(claim(store)) == "already_succeeded"


def test_forgotten_claim_that_was_lost_is_asked_for_again_under_a_higher_token(store: Store, clock: Clock) -> None:
    held = forgotten(store, clock)
    assert finish(store, held, Ending(Outcome.LOST, note="killed", proven=True)) == "lost"
    assert state(store, "job", TODAY) == "pending"
    new = granted(claim(store, host="beta"))
    assert (new.run.token > held.run.token, new.run.attempt, new.run.recoveries) == (True, 2, 1)
    assert finish(store, held) == "lost"
    assert finish(store, new) == "mine"
    record = store.show("job", TODAY)
    assert record and [str(attempt.outcome) for attempt in record.attempts] == ["lost", "succeeded"]


def test_forgotten_claim_that_somebody_else_has_made_meanwhile_is_lost(store: Store, clock: Clock) -> None:
    held = forgotten(store, clock)
    clock.forward(seconds=5)
    new = granted(claim(store, host="beta"))
    before = store.look("job", TODAY)
    assert finish(store, held) == "lost"
    assert store.look("job", TODAY) == before
    assert finish(store, new) == "mine"


def test_claim_asked_again_after_a_lost_acknowledgement_gives_the_same_answer(store: Store) -> None:
    asked = firing()
    first, second = granted(claim(store, asked)), granted(claim(store, asked))
    assert (first.run, first.lease) == (second.run, second.lease)
    record = store.show("job", TODAY)
    assert record and len(record.attempts) == 1


def test_retry_in_place_keeps_the_run_and_takes_a_new_token(store: Store, clock: Clock) -> None:
    held = granted(claim(store, attempts=3))
    ledger, until = ledger_on(store), boottime() + 5
    ledger.fail_and_hold(held, FAILED, until)
    assert ledger.fail_and_hold(held, FAILED, until) == "mine"  # sent again
    assert refusal(claim(store, attempts=3, host="beta")) == "held"
    clock.forward(seconds=10)
    again = ledger.retry(held, until)
    assert again and again == ledger.retry(held, until)  # sent again
    assert (again.run.attempt, again.run.failures, again.run.token > held.run.token) == (2, 1, True)
    assert store.beat(held.lease, TERMS.lease_for, TERMS.slack) is None
    assert store.beat(again.lease, TERMS.lease_for, TERMS.slack)
    finish(store, again)
    record = store.show("job", TODAY)
    assert record and [str(attempt.outcome) for attempt in record.attempts] == ["failed", "succeeded"]


def test_retry_after_a_takeover_is_refused(store: Store, clock: Clock) -> None:
    late = die(store, clock, attempts=3)
    granted(claim(store, host="beta", attempts=3))
    assert ledger_on(store).retry(late, boottime() + 5) is None


def test_nominal_time_from_the_scheduler_names_the_period(store: Store) -> None:
    asked = PeriodRequest(scheduled_at=datetime(2026, 11, 29, 23, 30, tzinfo=UTC))
    held = granted(claim(store, firing(request=asked, tz="Europe/Berlin")))
    assert (held.run.period, held.run.source) == (TODAY, "scheduled_at")


def test_skips_of_a_period_that_nobody_ran_are_shown_all_the_same(store: Store, clock: Clock) -> None:
    clock.now = datetime(2026, 11, 30, 7, 5, tzinfo=UTC)
    assert refusal(claim(store, complete_by="07:00")) == "too_late"
    for period in (TODAY, None):
        record = store.show("job", period)
        assert record and (record.run, record.period, record.skips) == (None, TODAY, 1)
        assert [str(skip.reason) for skip in record.skipped] == ["too_late"]


def test_running_run_whose_lease_was_deleted_by_hand_is_recovered(store: Store, clock: Clock) -> None:
    held = granted(claim(store))
    with store.page("job", TODAY) as page:
        page.write(Change(dropped=(held.lease,)))
    clock.forward(seconds=1)
    assert granted(claim(store, host="beta")).run.recoveries == 1
