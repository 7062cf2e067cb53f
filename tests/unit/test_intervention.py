"""A person steps in: what each verb does to each state, and that nothing live is ever taken from its holder."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronguard.domain.intervention import Answer, Wish, intervene
from cronguard.domain.lifecycle import OVER, Standing, finish
from cronguard.domain.run import Change, Job, Lease, Outcome, Run, Sight, State
from cronguard.domain.said import Intervention, Verb
from cronguard.errors import BadInput
from tests.unit.test_lifecycle import ENDINGS, HELD, LEASE, ME, NOW, RUN

JOB = Job("job", token=7, cadence="day", zone="Europe/Berlin")
PERIOD = RUN.period
STALE = replace(LEASE, lease_until=NOW - timedelta(seconds=1))
ABOUT_A_RUN = (Verb.RESET, Verb.CANCEL)


def wish(verb: Verb, period: str | None = PERIOD) -> Wish:
    return Wish(verb, "job", period, "ada@alpha", "disk was full")


def sight(state: State | None, *leases: Lease, job: Job | None = JOB) -> Sight:
    run = replace(RUN, state=state, failures=2, recoveries=3) if state else None
    return Sight(NOW, job=job, leases=leases, runs=(run,) if run else ())


def only_run(change: Change) -> Run:
    (run,) = change.runs
    return run


@pytest.mark.parametrize("state", [State.FAILED, State.TIMED_OUT, State.DEAD, State.MISSED, State.CANCELLED])
def test_reset_makes_what_is_over_pending_as_if_nobody_had_tried(state: State) -> None:
    reply, change = intervene(wish(Verb.RESET), sight(state))
    assert (reply.answer, only_run(change).state) == (Answer.DONE, State.PENDING)
    assert (only_run(change).failures, only_run(change).recoveries, only_run(change).finished_at) == (0, 0, None)
    assert change.said == (Intervention("job", PERIOD, Verb.RESET, "ada@alpha", "disk was full", NOW),)


@pytest.mark.parametrize("state", [State.PENDING, State.FAILED, State.TIMED_OUT, State.DEAD, State.MISSED])
def test_cancel_ends_what_is_not_live(state: State) -> None:
    reply, change = intervene(wish(Verb.CANCEL), sight(state))
    assert (reply.answer, only_run(change).state) == (Answer.DONE, State.CANCELLED)
    assert only_run(change).finished_at


def test_cancel_of_a_period_that_nobody_ran_knows_its_edges_by_the_calendar_of_the_key() -> None:
    reply, change = intervene(wish(Verb.CANCEL, "2026-12-24"), sight(None))
    run = only_run(change)
    assert (reply.answer, run.state, run.period) == (Answer.DONE, State.CANCELLED, "2026-12-24")
    assert (run.period_start, run.zone) == (datetime(2026, 12, 23, 23, tzinfo=UTC), "Europe/Berlin")
    assert change.said[0].period == "2026-12-24"


def test_cancel_of_what_is_no_period_of_the_key_is_refused() -> None:
    with pytest.raises(BadInput, match="is not a day"):
        intervene(wish(Verb.CANCEL, "2026-12"), sight(None))


@pytest.mark.parametrize("verb", ABOUT_A_RUN)
def test_what_is_live_is_never_reset_or_cancelled(verb: Verb) -> None:
    assert intervene(wish(verb), sight(State.RUNNING, LEASE))[1] == Change()
    assert intervene(wish(verb), sight(State.RUNNING, LEASE))[0].answer is Answer.LIVE
    to_the_instant = replace(LEASE, lease_until=NOW)
    assert intervene(wish(verb), sight(State.RUNNING, to_the_instant))[0].answer is Answer.LIVE


@pytest.mark.parametrize("leases", [(STALE,), ()], ids=["lapsed", "its row is gone"])
@pytest.mark.parametrize(("verb", "state"), [(Verb.RESET, State.PENDING), (Verb.CANCEL, State.CANCELLED)])
def test_what_is_stale_is_recovered_first(verb: Verb, state: State, leases: tuple[Lease, ...]) -> None:
    _, change = intervene(wish(verb), sight(State.RUNNING, *leases))
    assert only_run(change).state is state
    assert [end.outcome for end in change.closed] == [Outcome.LOST]
    assert [lease.token for lease in change.dropped] == [RUN.token]


@pytest.mark.parametrize("verb", ABOUT_A_RUN)
def test_what_succeeded_is_left_alone(verb: Verb) -> None:
    reply, change = intervene(wish(verb), sight(State.SUCCEEDED))
    assert (reply.answer, change) == (Answer.SUCCEEDED, Change())


@pytest.mark.parametrize(("verb", "state"), [(Verb.RESET, State.PENDING), (Verb.CANCEL, State.CANCELLED)])
def test_said_again_it_is_so_already_and_is_not_taken_down_twice(verb: Verb, state: State) -> None:
    reply, change = intervene(wish(verb), sight(state))
    assert (reply.answer, change) == (Answer.ALREADY_SO, Change())


def test_reset_of_a_run_that_is_not_there_is_refused() -> None:
    assert intervene(wish(Verb.RESET), sight(None))[0].answer is Answer.NO_RUN


@pytest.mark.parametrize("verb", Verb)
def test_a_key_that_the_ledger_does_not_know_is_a_slip(verb: Verb) -> None:
    reply, change = intervene(wish(verb), sight(None, job=None))
    assert (reply.answer, change) == (Answer.NO_KEY, Change())


def test_stop_asks_the_holder_and_changes_nothing_else() -> None:
    reply, change = intervene(wish(Verb.STOP, None), sight(State.RUNNING, LEASE))
    asked = replace(LEASE, stop_requested="by ada@alpha: disk was full")
    assert (reply.answer, change.updated) == (Answer.DONE, (asked,))
    assert not (change.runs or change.closed or change.taken or change.dropped or change.job)
    assert change.said[0].period == PERIOD
    again, nothing = intervene(wish(Verb.STOP, None), sight(State.RUNNING, asked))
    assert (again.answer, nothing) == (Answer.ALREADY_SO, Change())


def test_stop_of_one_of_several_must_name_it() -> None:
    other = replace(LEASE, lane="x", period="2026-11-29", token=8)
    shown = replace(sight(State.RUNNING, LEASE, other), runs=(RUN, replace(RUN, period="2026-11-29", token=8)))
    assert intervene(wish(Verb.STOP, None), shown)[0].answer is Answer.SEVERAL
    reply, change = intervene(wish(Verb.STOP, "2026-11-29"), shown)
    assert (reply.answer, [lease.token for lease in change.updated]) == (Answer.DONE, [8])


@pytest.mark.parametrize("leases", [(STALE,), ()])
def test_there_is_nothing_to_stop_where_nothing_is_live(leases: tuple[Lease, ...]) -> None:
    reply, change = intervene(wish(Verb.STOP, None), sight(State.RUNNING, *leases))
    assert (reply.answer, change) == (Answer.NOT_LIVE, Change())


def test_pause_and_resume_are_about_the_key() -> None:
    reply, change = intervene(wish(Verb.PAUSE, None), sight(None))
    assert reply.answer is Answer.DONE
    assert change.job == replace(JOB, paused_at=NOW, paused_by="ada@alpha", pause_reason="disk was full")
    assert change.said[0].period is None
    paused = sight(None, job=change.job)
    assert intervene(wish(Verb.PAUSE, None), paused)[0].answer is Answer.ALREADY_SO
    assert intervene(wish(Verb.RESUME, None), paused)[1].job == JOB
    assert intervene(wish(Verb.RESUME, None), sight(None))[0].answer is Answer.ALREADY_SO


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_holder_of_a_stale_run_that_was_cancelled_changes_nothing_but_its_attempt(ending: object) -> None:
    _, change = intervene(wish(Verb.CANCEL), sight(State.RUNNING, STALE))
    stands, late = finish(HELD, ending, Sight(NOW, runs=change.runs))  # type: ignore[arg-type]
    assert (stands, late.runs, [end.outcome for end in late.closed]) == (Standing.LOST, (), [Outcome.LOST])
    assert State.CANCELLED in OVER
    assert HELD.lease.holder == ME
