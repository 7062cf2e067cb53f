"""The life of a step: one table of transitions, and the decisions that read it.

    pending, failed --begin--> running --end--> succeeded | failed | pending | unknown
    running --begin--> running            cut off under an older token, and may be repeated
    running --doubt--> unknown            likewise, but it must be done once: a person says which it was
    unknown, failed, … --settle--> succeeded | pending

A step begins and ends only under its run's live token: the decision is made on
a locked page, which a recovery of the run has to lock too, so that one of them
comes first and the other sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from cronguard.domain.lifecycle import Ending, Standing
from cronguard.domain.run import Captured, Change, Outcome, Run, Sight, State
from cronguard.domain.step import Step, StepList, StepState, unfinished

if TYPE_CHECKING:
    from cronguard.domain.deadline import Deadline
    from cronguard.domain.progress import Inside


class StepEvent(StrEnum):
    """What can happen to a step."""

    BEGIN = "begin"
    SUCCEED = "succeed"
    FAIL = "fail"
    RELEASE = "release"
    DOUBT = "doubt"
    SETTLE = "settle"
    SETTLE_AGAIN = "settle_again"


STEP_TRANSITIONS: dict[tuple[StepState, StepEvent], StepState] = {
    (StepState.PENDING, StepEvent.BEGIN): StepState.RUNNING,
    (StepState.FAILED, StepEvent.BEGIN): StepState.RUNNING,
    (StepState.RUNNING, StepEvent.BEGIN): StepState.RUNNING,  # cut off under an older token
    (StepState.RUNNING, StepEvent.SUCCEED): StepState.SUCCEEDED,
    (StepState.RUNNING, StepEvent.FAIL): StepState.FAILED,
    (StepState.RUNNING, StepEvent.RELEASE): StepState.PENDING,
    (StepState.RUNNING, StepEvent.DOUBT): StepState.UNKNOWN,
    (StepState.PENDING, StepEvent.SETTLE): StepState.SUCCEEDED,
    (StepState.RUNNING, StepEvent.SETTLE): StepState.SUCCEEDED,  # cut off
    (StepState.FAILED, StepEvent.SETTLE): StepState.SUCCEEDED,
    (StepState.UNKNOWN, StepEvent.SETTLE): StepState.SUCCEEDED,
    (StepState.PENDING, StepEvent.SETTLE_AGAIN): StepState.PENDING,
    (StepState.RUNNING, StepEvent.SETTLE_AGAIN): StepState.PENDING,  # cut off
    (StepState.FAILED, StepEvent.SETTLE_AGAIN): StepState.PENDING,
    (StepState.UNKNOWN, StepEvent.SETTLE_AGAIN): StepState.PENDING,
}

CUT_OFF = "it was cut off under token {token}: nobody saw its end"
TOO_LATE = "not started: its complete-by had passed"

# --------------------------------------------------------------------------- the beginning


@dataclass(frozen=True, slots=True)
class StepAsked:
    """One call's wish to start a step."""

    name: str
    call: str  # the same for all the times that it may have to be asked
    once: bool = False
    complete_by: Deadline | None = None
    command_hash: str | None = None  # None: whatever it was


class Beginning(StrEnum):
    """What became of it."""

    GRANTED = "granted"
    PASSED_OVER = "passed_over"  # it has succeeded
    UNKNOWN = "unknown"  # a person must say whether it has
    BUSY = "busy"  # it is running under this very token
    OTHER_COMMAND = "other_command"  # it has succeeded under this very token, as something else
    TOO_LATE = "too_late"  # which leaves it undone, and so its run
    LOST = "lost"  # the run is not live under this token


@dataclass(frozen=True, slots=True)
class Begun:
    """The answer, with the step as it is now."""

    answer: Beginning
    now: datetime
    step: Step | None = None


def begin(inside: Inside, asked: StepAsked, sight: Sight) -> tuple[Begun, Change]:
    """May this step start? Asked again by the same call, it gives the same answer."""
    run = sight.run(inside.period)
    if run is None or inside.lease(sight) is None:
        return Begun(Beginning.LOST, sight.now), Change()
    before = sight.step(asked.name) or Step(run.key, run.period, asked.name, 1 + _last_ordinal(sight))
    if answer := _answered(before, run, asked):
        return Begun(answer, sight.now, before), Change()
    if before.state is StepState.RUNNING and (before.once or asked.once):
        after = _in_doubt(before, sight.now)
        return Begun(Beginning.UNKNOWN, sight.now, after), Change(steps=(after,))
    after = _started(before, run, asked, sight.now)
    if after.complete_by and after.complete_by <= sight.now:
        late = _too_late(before, after, sight.now)
        return Begun(Beginning.TOO_LATE, sight.now, late), Change(steps=(late,))
    return Begun(Beginning.GRANTED, sight.now, after), Change(steps=(after,))


def _answered(before: Step, run: Run, asked: StepAsked) -> Beginning | None:
    """What needs no change of the ledger.

    One name for two commands of one attempt is a mistake that would leave the second undone without a word; a later
    attempt may well have a changed command, and the same one may be called twice.
    """
    if before.state is StepState.SUCCEEDED:
        is_other = None not in (before.command_hash, asked.command_hash) and before.command_hash != asked.command_hash
        return Beginning.OTHER_COMMAND if is_other and before.token == run.token else Beginning.PASSED_OVER
    if before.state is StepState.UNKNOWN:
        return Beginning.UNKNOWN
    if before.state is StepState.RUNNING and before.token == run.token:
        return Beginning.GRANTED if before.start_id == asked.call else Beginning.BUSY
    return None


def _last_ordinal(sight: Sight) -> int:
    return max((step.ordinal for step in sight.steps), default=0)


def _in_doubt(step: Step, now: datetime) -> Step:
    state = STEP_TRANSITIONS[step.state, StepEvent.DOUBT]
    return replace(step, state=state, finished_at=now, note=CUT_OFF.format(token=step.token))


def _started(before: Step, run: Run, asked: StepAsked, now: datetime) -> Step:
    return replace(
        before,
        state=STEP_TRANSITIONS[before.state, StepEvent.BEGIN],
        token=run.token,
        attempt=before.attempt + 1,
        once=asked.once,
        start_id=asked.call,
        command_hash=asked.command_hash,
        started_at=now,
        finished_at=None,
        complete_by=_complete_by(run, asked, now),
        exit_code=None,
        signal=None,
        note=None,
        captured=Captured(),  # so far it has said nothing
    )


def _too_late(before: Step, started: Step, now: datetime) -> Step:
    """As failed as one that was started: whatever its script makes of it, the run has not succeeded without it."""
    state = STEP_TRANSITIONS[started.state, StepEvent.FAIL]
    return replace(started, state=state, attempt=before.attempt, started_at=None, finished_at=now, note=TOO_LATE)


def _complete_by(run: Run, asked: StepAsked, now: datetime) -> datetime | None:
    """Its own, where that comes before its run's, which may still be extended; None: its run's."""
    if asked.complete_by is None:
        return None
    from cronguard.domain.zone import parse_zone  # noqa: PLC0415  only a step with a deadline needs it

    by = asked.complete_by.resolve(now, run.slot or run.started_at or now, parse_zone(run.zone or "UTC"))
    return by if by and not (run.complete_by and run.complete_by <= by) else None


# --------------------------------------------------------------------------- the end

_EVENT_OF = {
    Outcome.SUCCEEDED: StepEvent.SUCCEED,
    Outcome.FAILED: StepEvent.FAIL,
    Outcome.START_FAILED: StepEvent.FAIL,
    Outcome.TIMED_OUT: StepEvent.FAIL,
    Outcome.STALLED: StepEvent.FAIL,
    Outcome.INTERRUPTED: StepEvent.RELEASE,
    Outcome.LOST: StepEvent.FAIL,
}


def end(inside: Inside, asked: StepAsked, ending: Ending, sight: Sight) -> tuple[Standing, Change]:
    """The step is over, if it is still this call's and its run still live. Asked again, it is so already."""
    step = sight.step(asked.name)
    if step is None or step.start_id != asked.call or step.token != inside.token or inside.lease(sight) is None:
        return Standing.LOST, Change()
    if step.state is not StepState.RUNNING:
        return Standing.ALREADY_SO, Change()
    after = replace(
        step,
        state=STEP_TRANSITIONS[step.state, _event_of(ending, step)],
        finished_at=sight.now,
        exit_code=ending.exit_code,
        signal=ending.signal,
        note=ending.note,
        captured=ending.captured,
    )
    return Standing.MINE, Change(steps=(after,))


def _event_of(ending: Ending, step: Step) -> StepEvent:
    """What must be done once and was stopped midway, by whomever, is in doubt; only its own exit is an answer."""
    by_itself = ending.outcome in (Outcome.SUCCEEDED, Outcome.FAILED) and ending.exit_code is not None
    known = by_itself or ending.outcome is Outcome.START_FAILED
    return StepEvent.DOUBT if step.once and not known else _EVENT_OF[ending.outcome]


# --------------------------------------------------------------------------- a person's word


class Settled(StrEnum):
    """What became of a person's word about a step."""

    SETTLED = "settled"
    ALREADY_SO = "already_so"
    SUCCEEDED = "succeeded"  # it has, and is not run again
    LIVE = "live"  # it is running: how it ends will be seen
    NO_SUCH_STEP = "no_such_step"


def settle(name: str, period: str, succeeded: bool, word: str, sight: Sight) -> tuple[Settled, Change]:
    """A person says that the step has succeeded, or that it may be run again."""
    step, run = sight.step(name), sight.run(period)
    if step is None:
        return Settled.NO_SUCH_STEP, Change()
    if step.state is StepState.SUCCEEDED:
        return Settled.ALREADY_SO if succeeded else Settled.SUCCEEDED, Change()
    if step.state is StepState.RUNNING and run and run.state is State.RUNNING and run.token == step.token:
        return Settled.LIVE, Change()
    state = STEP_TRANSITIONS[step.state, StepEvent.SETTLE if succeeded else StepEvent.SETTLE_AGAIN]
    note = "; ".join(filter(None, (step.note, word)))
    after = replace(step, state=state, finished_at=sight.now, note=note, command_hash=None)
    return Settled.SETTLED, Change(steps=(after,))


# --------------------------------------------------------------------------- the list in the configuration


def is_changed(listed: StepList | None, run: Run | None, sight: Sight) -> bool:
    """Whether this run was begun by another list, so that it cannot just be gone on with."""
    begun = run is not None and any(step.attempt or step.state is StepState.SUCCEEDED for step in sight.steps)
    return begun and run is not None and run.steps_hash != (listed.hash if listed else None)


def laid_out(listed: StepList | None, key: str, period: str, afresh: bool, sight: Sight) -> Change:
    """The steps as a run starts: afresh without any, else with what has been done; those of the list in its order."""
    known = {} if afresh else {step.name: step for step in sight.steps}
    names = listed.names if listed else ()
    steps = (replace(known.get(name) or Step(key, period, name, 0), ordinal=n) for n, name in enumerate(names, 1))
    kept = {step.name for step in sight.steps} - {step.name for step in unfinished(sight.steps)} | set(names)
    dropped = (step for step in sight.steps if afresh or (listed and step.name not in kept))
    return Change(steps=tuple(steps), forgotten=tuple(dropped))
