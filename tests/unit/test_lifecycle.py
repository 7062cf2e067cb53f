"""The table of transitions, over the whole product of states and events, and the decisions' small rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from cronguard.domain.claim import Granted, LeaseTerms
from cronguard.domain.lifecycle import (
    EVENT_OF,
    OVER,
    TRANSITIONS,
    Ending,
    Event,
    Standing,
    finish,
    next_token,
    recover,
    standing,
)
from cronguard.domain.run import Attempt, Change, Holder, Job, Lease, Outcome, Run, Sight, State
from cronguard.domain.step import Step, StepState
from cronguard.errors import BadInput

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
ME, OTHER = Holder("me", "alpha", 1), Holder("other", "beta", 2)
RUN = Run("job", "2026-11-30", State.RUNNING, attempt=1, token=7, holder=ME, started_at=NOW)
LEASE = Lease("job", "", "2026-11-30", 7, ME, NOW + timedelta(seconds=60))
HELD = Granted(RUN, Attempt("job", "2026-11-30", 7, 1, ME, NOW), LEASE, NOW)
ENDINGS = [Ending(outcome, 0 if outcome is Outcome.SUCCEEDED else 1) for outcome in Outcome]


def test_only_a_running_run_ends_and_only_success_may_come_late() -> None:
    endings = {Event.FAIL, Event.TIME_OUT, Event.RELEASE, Event.RECOVER, Event.GIVE_UP, Event.RETRY}
    assert {state for state, event in TRANSITIONS if event in endings} == {State.RUNNING}
    late = {state for state, event in TRANSITIONS if event is Event.SUCCEED} - {State.RUNNING}
    assert late == {State.PENDING, State.DEAD, State.MISSED}


def test_no_claim_without_a_rerun_leads_out_of_success_death_or_cancellation() -> None:
    closed = (State.SUCCEEDED, State.DEAD, State.CANCELLED, State.RUNNING)
    assert not [state for state in closed if (state, Event.CLAIM) in TRANSITIONS]


def test_nothing_but_success_reads_as_success() -> None:
    assert {event for (_, event), after in TRANSITIONS.items() if after is State.SUCCEEDED} == {Event.SUCCEED}
    assert {outcome for outcome, event in EVENT_OF.items() if event is Event.SUCCEED} == {Outcome.SUCCEEDED}


@pytest.mark.parametrize(("state", "ending"), list(product(State, ENDINGS)), ids=str)
def test_finish_follows_the_table_or_changes_nothing_but_the_attempt(state: State, ending: Ending) -> None:
    """Whatever the ledger shows when a holder comes to finish, under its own token."""
    run = replace(RUN, state=state)
    stands, change = finish(HELD, ending, Sight(NOW, leases=(LEASE,), runs=(run,)))
    for after in change.runs:
        assert after.state is TRANSITIONS[state, EVENT_OF[ending.outcome]]
        assert (after.finished_at is not None) == (after.state in OVER)
    if stands is Standing.LOST:
        assert not change.runs and change.closed[0].outcome is Outcome.LOST
    if stands is Standing.ALREADY_SO:
        assert not change
    assert bool(change.runs) == (stands in (Standing.MINE, Standing.LATE))


@pytest.mark.parametrize("run", [None, replace(RUN, token=8), replace(RUN, holder=OTHER), replace(RUN, holder=None)])
@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_finish_under_another_token_or_holder_is_lost(run: Run | None, ending: Ending) -> None:
    sight = Sight(NOW, runs=(run,) if run else ())
    stands, change = finish(HELD, ending, sight)
    assert (stands, standing(HELD, sight)) == (Standing.LOST, Standing.LOST)
    assert not (change.runs or change.taken or change.dropped or change.job)
    assert [end.outcome for end in change.closed] == ([Outcome.LOST] if run else [])


KNOWN = Job("job", token=5)
MINE_BEFORE = replace(RUN, token=5)


@pytest.mark.parametrize("run", [
    None, MINE_BEFORE, replace(MINE_BEFORE, state=State.PENDING), replace(MINE_BEFORE, state=State.FAILED),
])  # fmt: skip
@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_finish_of_a_forgotten_claim_ends_the_run_as_it_would_have_ended(run: Run | None, ending: Ending) -> None:
    """The ledger gave token 7 and has forgotten it: of this run it knows token 5, or nothing."""
    sight = Sight(NOW, KNOWN, runs=(run,) if run else ())
    stands, change = finish(HELD, ending, sight)
    if ending.outcome is Outcome.LOST:
        assert (stands, change) == (Standing.LOST, Change())  # nobody has seen the end of all of it
        stands, change = finish(HELD, replace(ending, proven=True), sight)
    assert stands is (Standing.LOST if ending.outcome is Outcome.LOST else Standing.FORGOTTEN)
    (after,) = change.runs
    assert (after.token, after.state) == (7, TRANSITIONS[State.RUNNING, EVENT_OF.get(ending.outcome, Event.RECOVER)])
    assert (change.recalled, change.closed[0].outcome) == ((HELD.attempt,), ending.outcome)
    assert change.job and change.job.token == 7
    assert len(change.requested) == (after.state is State.PENDING)


@pytest.mark.parametrize("sight", [
    Sight(NOW),
    Sight(NOW, Job("job")),  # a key that it does not know: it may have been removed
    Sight(NOW, replace(KNOWN, pruned_before=NOW + timedelta(days=1))),
    Sight(NOW, KNOWN, runs=(replace(MINE_BEFORE, holder=OTHER),)),
    Sight(NOW, KNOWN, runs=(replace(MINE_BEFORE, state=State.SUCCEEDED),)),
    Sight(NOW, KNOWN, runs=(replace(MINE_BEFORE, state=State.CANCELLED),)),
    Sight(NOW, replace(KNOWN, token=8), runs=(replace(RUN, token=8, holder=OTHER),)),
    Sight(NOW, replace(KNOWN, token=8), runs=(replace(RUN, token=8, state=State.PENDING),)),
])  # fmt: skip
def test_what_may_be_anothers_is_not_taken_for_forgotten(sight: Sight) -> None:
    held = replace(HELD, run=replace(RUN, period_start=NOW))
    stands, change = finish(held, Ending(Outcome.SUCCEEDED, 0), sight)
    assert (stands, change.runs, change.recalled) == (Standing.LOST, (), ())


def test_a_forgotten_success_is_none_where_a_step_is_left() -> None:
    left = Step("job", "2026-11-30", "mails", 1, StepState.PENDING)
    stands, change = finish(HELD, Ending(Outcome.SUCCEEDED, 0), Sight(NOW, KNOWN, steps=(left,)))
    assert (stands, change.runs[0].state) == (Standing.UNFINISHED, State.FAILED)


@pytest.mark.parametrize(("before", "allowed", "state", "after"), [
    (0, 3, State.PENDING, 1), (2, 3, State.PENDING, 3), (3, 3, State.DEAD, 3), (0, 0, State.DEAD, 0),
])  # fmt: skip
def test_recovery_counts_the_dead_and_gives_up_when_they_are_spent(
    before: int, allowed: int, state: State, after: int
) -> None:
    run, change = recover(replace(RUN, recoveries=before, recoveries_allowed=allowed), LEASE, Sight(NOW), "beta")
    assert (run.state, run.recoveries) == (state, after)
    assert (change.dropped, change.closed[0].outcome) == ((LEASE,), Outcome.LOST)


def test_token_rises_also_when_the_clock_stands_or_falls_back() -> None:
    first = next_token(0, NOW)
    assert first == int(NOW.timestamp() * 1000)
    assert next_token(first, NOW) == first + 1
    assert next_token(first, NOW - timedelta(hours=1)) == first + 1
    assert next_token(0, NOW + timedelta(seconds=1)) > first  # a failover forgot the first


@pytest.mark.parametrize(("lease", "grace", "beat", "words"), [
    (60, 8, 21, "three beats"), (10, 8, None, "too short"), (60, 58, None, "too short"), (3, 1, None, "too short"),
])  # fmt: skip
def test_lease_terms_that_do_not_hold_together_are_refused(
    lease: int, grace: int, beat: int | None, words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        LeaseTerms.of(timedelta(seconds=lease), timedelta(seconds=grace), timedelta(seconds=beat) if beat else None)


def test_default_lease_terms_beat_six_times_a_lease() -> None:
    assert LeaseTerms.of(timedelta(seconds=60), timedelta(seconds=8)).beat_every == timedelta(seconds=10)
