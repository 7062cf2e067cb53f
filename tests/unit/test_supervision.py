"""What a supervisor decides about what it finds: over every state, and what it must leave alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronguard.domain.cadence import Cadence
from cronguard.domain.effect import Effect, EffectState
from cronguard.domain.expectation import LOOKED_BACK
from cronguard.domain.lifecycle import OVER, TRANSITIONS
from cronguard.domain.recovery import CLAIM_WITHIN, Cause, Recovery, claim_within_of
from cronguard.domain.run import AttemptEnd, Change, Holder, Job, Lease, Outcome, Run, Sight, State
from cronguard.domain.supervision import STOP_REASON, Found, Supervisor, Survey, brake, judge, judge_expected, unknown

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
SECOND, LEASE_FOR, PERIOD = timedelta(seconds=1), timedelta(seconds=60), "2026-11-30"
HOLDER = Holder("me", "alpha", 1)
RUN = Run("job", PERIOD, State.RUNNING, attempt=1, token=7, holder=HOLDER, started_at=NOW - LEASE_FOR)
LIVE = Lease("job", "", PERIOD, 7, HOLDER, NOW + SECOND)
STALE = replace(LIVE, lease_until=NOW - SECOND)
EFFECT = Effect("mail", PERIOD, "ada", EffectState.UNKNOWN, "its token", False, "a call", NOW - LEASE_FOR, NOW)
JOB = Job("job", 7, "day", "UTC", claim_within=timedelta(minutes=20))


def sight(run: Run, *leases: Lease, job: Job = JOB, requests: tuple[Recovery, ...] = ()) -> Sight:
    return Sight(NOW, job, leases, (run,), requests=requests)


def found(seen: Sight) -> tuple[Found | None, Change]:
    finding, change = judge(seen, PERIOD, "beta")
    return finding.found if finding else None, change


def test_stale_run_is_recovered_with_one_request_that_is_announced_at_once() -> None:
    what, change = found(sight(RUN, STALE))
    (run,), (request,) = change.runs, change.requested
    assert (what, run.state, run.recoveries) == (Found.RECOVERY, State.PENDING, 1)
    assert run.claim_by == request.claim_by == NOW + timedelta(minutes=20)
    assert request == Recovery("job", PERIOD, 7, Cause.LEASE_OVER, NOW, "beta", request.claim_by, announced_at=NOW)
    assert change.dropped == (STALE,)


def test_run_that_reads_running_without_a_lease_is_recovered_too() -> None:
    assert found(sight(RUN))[0] is Found.RECOVERY


def test_run_whose_recoveries_are_spent_is_dead_and_told() -> None:
    what, change = found(sight(replace(RUN, recoveries=3), STALE))
    assert (what, change.runs[0].state, change.runs[0].reported_at) == (Found.DEAD, State.DEAD, NOW)
    assert not change.requested


def test_live_run_is_left_alone() -> None:
    assert found(sight(RUN, LIVE)) == (None, Change())


def test_overdue_run_whose_lease_is_live_is_asked_to_stop_once_and_never_taken() -> None:
    overdue = replace(LIVE, complete_by=NOW - SECOND)
    what, change = found(sight(replace(RUN, complete_by=overdue.complete_by), overdue))
    assert (what, change) == (Found.OVERDUE, Change(updated=(replace(overdue, stop_requested=STOP_REASON),)))
    assert found(sight(RUN, replace(overdue, stop_requested="by ada"))) == (None, Change())


def test_pending_run_waits_until_its_claim_by_and_is_then_missed_once() -> None:
    waiting = replace(RUN, state=State.PENDING, claim_by=NOW + SECOND)
    assert found(sight(waiting)) == (None, Change())
    request = Recovery("job", PERIOD, 7, Cause.LEASE_OVER, NOW - LEASE_FOR, "beta", NOW - SECOND, announced_at=NOW)
    what, change = found(sight(replace(waiting, claim_by=NOW - SECOND), requests=(request,)))
    (run,) = change.runs
    assert (what, run.state, run.finished_at, run.reported_at) == (Found.UNCLAIMED, State.MISSED, NOW, NOW)
    assert change.followed == (replace(request, missed_at=NOW),)
    assert found(sight(run)) == (None, Change())


def test_request_that_somebody_else_made_is_announced_once() -> None:
    waiting = replace(RUN, state=State.PENDING, claim_by=NOW + SECOND)
    request = Recovery("job", PERIOD, 7, Cause.STOPPED, NOW - SECOND, "alpha", NOW + SECOND)
    what, change = found(sight(waiting, requests=(request,)))
    assert (what, change) == (Found.RECOVERY, Change(followed=(replace(request, announced_at=NOW),)))
    assert found(sight(waiting, requests=change.followed)) == (None, Change())


def test_pending_run_of_a_paused_key_is_not_missed_but_waited_for_anew() -> None:
    waiting = replace(RUN, state=State.PENDING, claim_by=NOW - SECOND)
    what, change = found(sight(waiting, job=replace(JOB, paused_at=NOW - LEASE_FOR)))
    assert (what, [run.claim_by for run in change.runs]) == (None, [NOW + timedelta(minutes=20)])
    assert change.runs[0].state is State.PENDING


@pytest.mark.parametrize(("state", "cause"), [(State.FAILED, Cause.FAILED), (State.TIMED_OUT, Cause.TIMED_OUT)])
def test_run_that_ended_badly_is_asked_for_again_where_it_has_attempts_left(state: State, cause: Cause) -> None:
    ended = replace(RUN, state=state, failures=1, attempts_allowed=2, finished_at=NOW - SECOND, exit_code=3)
    what, change = found(sight(ended))
    assert (what, change.runs[0].state, change.requested[0].cause) == (Found.RECOVERY, State.PENDING, cause)
    assert change.runs[0].finished_at is None


@pytest.mark.parametrize("state", [State.FAILED, State.TIMED_OUT, State.DEAD])
def test_run_that_ended_badly_for_good_is_told_once_and_not_when_it_is_long_past(state: State) -> None:
    ended = replace(RUN, state=state, failures=1, finished_at=NOW - SECOND)
    what, change = found(sight(ended))
    assert (str(what), change.runs) == (str(state), (replace(ended, reported_at=NOW),))
    assert found(sight(change.runs[0])) == (None, Change())
    assert found(sight(replace(ended, finished_at=NOW - LOOKED_BACK - SECOND))) == (None, Change())


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELLED, State.MISSED])
def test_what_is_well_or_known_is_left_alone(state: State) -> None:
    assert found(sight(replace(RUN, state=state, finished_at=NOW))) == (None, Change())


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("lease", [LIVE, STALE, replace(STALE, token=6)])
def test_whatever_is_found_every_change_of_state_is_in_the_table_and_no_live_lease_is_dropped(
    state: State, lease: Lease
) -> None:
    run = replace(RUN, state=state, claim_by=NOW - SECOND, finished_at=NOW if state in OVER else None)
    _, change = found(sight(run, lease))
    for after in change.runs:
        assert after.state is state or after.state in {to for (was, _), to in TRANSITIONS.items() if was is state}
        assert after.token == run.token
    assert LIVE not in change.dropped
    assert not change.taken and not change.opened


@pytest.mark.parametrize("run", [replace(RUN, state=State.SUCCEEDED), replace(RUN, token=8), None])
def test_stale_lease_that_is_no_run_s_is_dropped_and_not_told(run: Run | None) -> None:
    """Somebody's hand was in the ledger: nothing would ever take it away."""
    other = replace(LIVE, token=8, lane="x")
    seen = Sight(NOW, JOB, (STALE, other), (run,) if run else ())
    assert found(seen) == (None, Change(dropped=(STALE,)))


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELLED, State.RUNNING])
def test_request_that_has_become_moot_is_put_away_and_not_told(state: State) -> None:
    """A late success, or a person who cancelled it: nobody need come any more."""
    request = Recovery("job", PERIOD, 7, Cause.LEASE_OVER, NOW - SECOND, "alpha", NOW + SECOND)
    run = replace(RUN, state=state, token=8 if state is State.RUNNING else 7)
    seen = sight(run, replace(LIVE, token=8), requests=(request,))
    assert found(seen) == (None, Change(followed=(replace(request, announced_at=NOW),)))


def test_unknown_period_is_nothing() -> None:
    assert judge(Sight(NOW), "x", "beta") == (None, Change())


# --------------------------------------------------------------------------- expected by a schedule

DAILY = replace(JOB, schedule="0 6 * * *", expected_until=NOW - timedelta(days=3), expected_by=NOW)
DAYS = ["2026-11-28", "2026-11-29"]


def test_each_late_period_that_nobody_ran_is_missed_once() -> None:
    ran = Run("job", "2026-11-28", State.FAILED)
    missed, change = judge_expected(Sight(NOW, DAILY, runs=(ran,)), DAYS)
    assert [(finding.found, finding.period) for finding in missed] == [(Found.MISSED, "2026-11-29")]
    (run,) = change.runs
    assert (run.state, run.slot, run.reported_at, run.token) == (State.MISSED, NOW - timedelta(days=1), NOW, 0)
    assert change.job and (change.job.expected_until, change.job.expected_by) == (run.slot, NOW + timedelta(days=1))
    assert judge_expected(Sight(NOW, change.job), [])[0] == []


def test_period_that_was_not_looked_at_is_left_for_the_next_pass() -> None:
    assert judge_expected(Sight(NOW, DAILY), DAYS[:1]) == ([], Change())


def test_periods_that_nobody_could_run_are_excused_and_passed_over() -> None:
    paused = replace(DAILY, paused_at=NOW - timedelta(hours=25))  # the first could still have been started then
    missed, change = judge_expected(Sight(NOW, paused), DAYS)
    assert missed == []
    assert change.job and change.job.expected_until == NOW - timedelta(days=1)
    late_pause = replace(DAILY, paused_at=NOW - timedelta(hours=23))
    assert [finding.period for finding in judge_expected(Sight(NOW, late_pause), DAYS)[0]] == ["2026-11-28"]
    pruned = replace(DAILY, pruned_before=NOW)
    assert judge_expected(Sight(NOW, pruned), DAYS)[0] == []


# --------------------------------------------------------------------------- effects


def test_effects_of_one_kind_period_and_key_are_one_finding_however_many_passes_through_them_it_takes() -> None:
    many = [replace(EFFECT, subject=f"customer {number}") for number in range(9)]
    others = [replace(EFFECT, kind="letter"), replace(EFFECT, period="2026-12-01"), replace(EFFECT, key="job", token=7)]
    findings = unknown(many[5:], unknown([*many[:5], *others]))
    assert [(one.effect and one.effect.kind, one.period, one.key, one.count) for one in findings] == [
        ("mail", PERIOD, "", 9), ("letter", PERIOD, "", 1), ("mail", "2026-12-01", "", 1), ("mail", PERIOD, "job", 1),
    ]  # fmt: skip
    assert [one.subjects for one in findings] == [("customer 0", "customer 1", "customer 2"), *[("ada",)] * 3]


# --------------------------------------------------------------------------- the brake


@pytest.mark.parametrize(("live", "lapsed", "brakes"), [
    (0, 3, False), (3, 4, True), (4, 4, False), (0, 4, True), (100, 60, False), (60, 100, True),
])  # fmt: skip
def test_brake_is_for_more_than_half_and_more_than_three(live: int, lapsed: int, brakes: bool) -> None:
    assert brake(Survey(NOW, live, lapsed), LEASE_FOR).observes is brakes


def test_brake_holds_for_one_lease_is_news_once_and_ends_with_its_reason() -> None:
    first = brake(Survey(NOW, 0, 9), LEASE_FOR)
    assert (first.observes, first.since, first.is_new) == (True, NOW, True)
    seen = Supervisor("beta", NOW, NOW, mass_expiry_at=first.since)
    still = brake(Survey(NOW + 59 * SECOND, 0, 9, supervisor=seen), LEASE_FOR)
    assert (still.observes, still.since, still.is_new) == (True, NOW, False)
    assert not brake(Survey(NOW + 60 * SECOND, 0, 9, supervisor=seen), LEASE_FOR).observes
    assert brake(Survey(NOW + 30 * SECOND, 9, 0, supervisor=seen), LEASE_FOR).since is None


# --------------------------------------------------------------------------- a recovery


@pytest.mark.parametrize(("cadence", "minutes"), [
    ("day", 60), ("hour", 30), ("15m", 7.5), ("minute", 1), ("30s", 1), ("run", 60), ("month", 60),
])  # fmt: skip
def test_somebody_should_come_within_an_hour_or_half_a_cadence_but_cron_comes_once_a_minute(
    cadence: str, minutes: float
) -> None:
    assert claim_within_of(Cadence.parse(cadence)) == timedelta(minutes=minutes)
    assert timedelta(hours=1) == CLAIM_WITHIN


def test_what_is_requested_and_started_in_one_change_is_taken_at_once() -> None:
    _, recovered = found(sight(RUN, STALE))
    from cronguard.domain.run import Attempt

    started = Change(opened=(Attempt("job", PERIOD, 8, 2, HOLDER, NOW),))
    assert [request.taken_at for request in recovered.then(started).requested] == [NOW]
    other = Change(opened=(Attempt("job", "2026-12-01", 8, 1, HOLDER, NOW),))
    assert [request.taken_at for request in recovered.then(other).requested] == [None]


def test_attempt_of_a_recovered_run_is_lost() -> None:
    _, change = found(sight(RUN, STALE))
    assert [(end.outcome, end.token) for end in change.closed if isinstance(end, AttemptEnd)] == [(Outcome.LOST, 7)]
