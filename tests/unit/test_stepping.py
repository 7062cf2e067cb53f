"""The table of a step's transitions, over the whole product, and its decisions over all that the ledger may show."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from cronguard.domain.claim import Granted
from cronguard.domain.lifecycle import Ending, Standing, finish
from cronguard.domain.progress import Inside
from cronguard.domain.run import Attempt, Change, Holder, Lease, Outcome, Run, Sight, State
from cronguard.domain.step import Step, StepState, list_of, step_at, unfinished
from cronguard.domain.stepping import (
    STEP_TRANSITIONS,
    Beginning,
    Settled,
    StepAsked,
    StepEvent,
    begin,
    end,
    is_changed,
    laid_out,
    settle,
)

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
ME = Holder("me", "alpha", 1)
RUN = Run("job", "2026-11-30", State.RUNNING, attempt=1, token=7, holder=ME, started_at=NOW)
LEASE = Lease("job", "", "2026-11-30", 7, ME, NOW + timedelta(seconds=60))
HELD = Granted(RUN, Attempt("job", "2026-11-30", 7, 1, ME, NOW), LEASE, NOW)
INSIDE = Inside("job", "2026-11-30", 7, "me")
STEP = Step("job", "2026-11-30", "pull", 1, StepState.RUNNING, token=7, attempt=1, start_id="call", started_at=NOW)
ASKED = StepAsked("pull", "call")
ENDINGS = [Ending(outcome, 0 if outcome is Outcome.SUCCEEDED else 1) for outcome in Outcome]
UNLIVE = [
    Sight(NOW),
    Sight(NOW, leases=(LEASE,)),
    Sight(NOW, runs=(RUN,)),
    Sight(NOW, leases=(replace(LEASE, token=8),), runs=(replace(RUN, token=8),)),
    Sight(NOW, leases=(replace(LEASE, holder=Holder("other", "beta", 2)),), runs=(RUN,)),
    *(Sight(NOW, leases=(LEASE,), runs=(replace(RUN, state=state),)) for state in State if state is not State.RUNNING),
]


def live(*steps: Step) -> Sight:
    return Sight(NOW, leases=(LEASE,), runs=(RUN,), steps=steps)


def test_nothing_leads_out_of_success_and_only_a_person_out_of_doubt() -> None:
    assert not [event for state, event in STEP_TRANSITIONS if state is StepState.SUCCEEDED]
    persons = {StepEvent.SETTLE, StepEvent.SETTLE_AGAIN}
    assert {event for state, event in STEP_TRANSITIONS if state is StepState.UNKNOWN} == persons


def test_only_an_end_that_was_seen_or_a_person_makes_a_success() -> None:
    events = {event for (_, event), after in STEP_TRANSITIONS.items() if after is StepState.SUCCEEDED}
    assert events == {StepEvent.SUCCEED, StepEvent.SETTLE}


@pytest.mark.parametrize("sight", UNLIVE, ids=range(len(UNLIVE)))
@pytest.mark.parametrize(("state", "token"), list(product(StepState, (6, 7))))
def test_outside_of_a_live_run_nothing_begins_or_ends(sight: Sight, state: StepState, token: int) -> None:
    sight = replace(sight, steps=(replace(STEP, state=state, token=token),))
    begun, change = begin(INSIDE, ASKED, sight)
    assert (begun.answer, change) == (Beginning.LOST, Change())
    assert end(INSIDE, ASKED, Ending(Outcome.SUCCEEDED, 0), sight) == (Standing.LOST, Change())


@pytest.mark.parametrize(("state", "token", "once"), list(product(StepState, (6, 7), (False, True))))
def test_beginning_follows_the_table_or_changes_nothing(state: StepState, token: int, once: bool) -> None:
    before = replace(STEP, state=state, token=token)
    begun, change = begin(INSIDE, replace(ASKED, call="another", once=once), live(before))
    for after in change.steps:
        event = StepEvent.DOUBT if begun.answer is Beginning.UNKNOWN else StepEvent.BEGIN
        assert after.state is STEP_TRANSITIONS[state, event]
        assert (after.finished_at is None) == (after.state is StepState.RUNNING)
    assert bool(change) == (begun.answer is Beginning.GRANTED or (state is StepState.RUNNING and token == 6))
    assert (begun.answer is Beginning.PASSED_OVER) == (state is StepState.SUCCEEDED)
    assert (begun.answer is Beginning.BUSY) == (state is StepState.RUNNING and token == 7)


@pytest.mark.parametrize(("ending", "once"), list(product(ENDINGS, (False, True))), ids=str)
def test_end_is_success_only_by_an_exit_0_that_nobody_forced(ending: Ending, once: bool) -> None:
    standing, change = end(INSIDE, ASKED, ending, live(replace(STEP, once=once)))
    assert standing is Standing.MINE
    (after,) = change.steps
    assert (after.state is StepState.SUCCEEDED) == (ending.outcome is Outcome.SUCCEEDED)
    assert after.finished_at == NOW


@pytest.mark.parametrize("state", StepState)
@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_run_succeeds_only_if_no_step_is_left(state: StepState, ending: Ending) -> None:
    standing, change = finish(HELD, ending, live(replace(STEP, state=state)))
    succeeded = [run for run in change.runs if run.state is State.SUCCEEDED]
    assert bool(succeeded) == (ending.outcome is Outcome.SUCCEEDED and state is StepState.SUCCEEDED)
    assert (standing is Standing.UNFINISHED) == (ending.outcome is Outcome.SUCCEEDED and not succeeded)


@pytest.mark.parametrize(("state", "token", "succeeded"), list(product(StepState, (6, 7), (True, False))))
def test_word_of_a_person_follows_the_table_or_changes_nothing(state: StepState, token: int, succeeded: bool) -> None:
    before = replace(STEP, state=state, token=token)
    settled, change = settle("pull", RUN.period, succeeded, "ada", live(before))
    event = StepEvent.SETTLE if succeeded else StepEvent.SETTLE_AGAIN
    assert [after.state for after in change.steps] == (
        [STEP_TRANSITIONS[state, event]] if settled is Settled.SETTLED else []
    )
    assert (settled is Settled.LIVE) == (state is StepState.RUNNING and token == 7)


def test_wall_clock_of_a_step_is_one_in_the_zone_of_its_run_after_its_slot() -> None:
    from cronguard.domain.deadline import Deadline

    run = replace(RUN, zone="Europe/Berlin", slot=NOW - timedelta(hours=2), complete_by=NOW + timedelta(hours=2))
    sight = replace(live(), runs=(run,))
    for text, by in (("07:30", NOW + timedelta(minutes=30)), ("09:00", None), ("never", None)):
        begun, _ = begin(INSIDE, replace(ASKED, complete_by=Deadline.parse(text)), sight)
        assert begun.step and begun.step.complete_by == by
    begun, change = begin(INSIDE, replace(ASKED, complete_by=Deadline.parse("06:00")), sight)
    assert begun.answer is Beginning.TOO_LATE
    (late,) = change.steps
    assert (late.state, late.attempt, late.started_at, late.finished_at) == (StepState.FAILED, 0, None, NOW)
    assert finish(HELD, Ending(Outcome.SUCCEEDED, 0), live(late))[0] is Standing.UNFINISHED


@pytest.mark.parametrize(
    ("did", "token", "asked", "answer"),
    [
        ("load a", 7, "load b", Beginning.OTHER_COMMAND),
        ("load a", 7, "load a", Beginning.PASSED_OVER),  # a script that tries itself again
        ("load a", 6, "load b", Beginning.PASSED_OVER),  # a later attempt may have been changed
        (None, 7, "load b", Beginning.PASSED_OVER),  # a person has settled it
    ],
)
def test_one_name_for_two_commands_of_one_attempt_is_refused(
    did: str | None, token: int, asked: str, answer: Beginning
) -> None:
    before = replace(STEP, state=StepState.SUCCEEDED, token=token, command_hash=did)
    assert begin(INSIDE, replace(ASKED, call="another", command_hash=asked), live(before))[1] == Change()
    assert begin(INSIDE, replace(ASKED, call="another", command_hash=asked), live(before))[0].answer is answer


def test_hash_tells_lists_apart_that_read_alike() -> None:
    lists = [
        [("a", ["x"]), ("b", ["y"])], [("b", ["y"]), ("a", ["x"])], [("a", ["x", "b", "y"])], [("a", ["x"])],
        [("a", ["x b"])], [("a", ["x", "b"])], [("a", ["x", ""])], [("a", ["x", "1", "b"])],
    ]  # fmt: skip
    assert len({list_of(found).hash for found in lists}) == len(lists)
    assert list_of(lists[0]) == list_of(lists[0])


def test_list_is_changed_only_for_a_run_that_has_begun_a_step() -> None:
    one, other = list_of([("pull", ["x"])]), list_of([("pull", ["y"])])
    run = replace(RUN, steps_hash=one.hash)
    assert is_changed(other, run, live(STEP))
    assert is_changed(None, run, live(STEP))
    assert is_changed(one, replace(run, steps_hash=None), live(STEP))
    assert not is_changed(one, run, live(STEP))
    assert not is_changed(None, replace(run, steps_hash=None), live(STEP))
    assert not is_changed(other, run, live(replace(STEP, state=StepState.PENDING, attempt=0)))
    assert not is_changed(other, None, live())


def test_script_without_a_list_keeps_its_steps_and_begins_anew_without_any() -> None:
    sight = live(replace(STEP, state=StepState.SUCCEEDED), replace(STEP, name="mails", state=StepState.FAILED))
    assert laid_out(None, "job", RUN.period, False, sight) == Change()
    assert [step.name for step in laid_out(None, "job", RUN.period, True, sight).forgotten] == ["pull", "mails"]


def test_where_a_run_stands_is_the_step_that_was_begun_last() -> None:
    cut_off, current = replace(STEP, name="old", token=6, ordinal=9), replace(STEP, name="now", ordinal=2)
    done = replace(STEP, name="done", state=StepState.SUCCEEDED, ordinal=3)
    assert step_at((cut_off, current, done)) == current
    assert step_at((done,)) is None
    assert unfinished((cut_off, current, done)) == (cut_off, current)
