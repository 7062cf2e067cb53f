"""Steps for tests that talk to the services themselves."""

from __future__ import annotations

import uuid
from typing import Any

from cronguard.domain.claim import Granted
from cronguard.domain.deadline import Deadline
from cronguard.domain.lifecycle import Ending
from cronguard.domain.progress import Inside
from cronguard.domain.run import Outcome
from cronguard.domain.step import Step
from cronguard.domain.stepping import Begun, StepAsked
from cronguard.ports import Store
from tests.rig.firings import SUCCEEDED, ledger_on

STOPPED = Ending(Outcome.INTERRUPTED, signal=15)
TIMED_OUT = Ending(Outcome.TIMED_OUT, signal=15, note="stopped at its complete-by")


def inside(held: Granted) -> Inside:
    return Inside(held.run.key, held.run.period, held.run.token, held.lease.holder.id)


def asked(name: str, *, once: bool = False, complete_by: str | None = None) -> StepAsked:
    return StepAsked(name, str(uuid.uuid4()), once, Deadline.parse(complete_by) if complete_by else None)


def begin(store: Store, held: Granted, step: StepAsked) -> Begun:
    return ledger_on(store).begin_step(inside(held), step)


def end(store: Store, held: Granted, step: StepAsked, ending: Ending = SUCCEEDED) -> str:
    return str(ledger_on(store).end_step(inside(held), step, ending))


def do(store: Store, held: Granted, name: str, ending: Ending = SUCCEEDED, **options: Any) -> str:
    """Begin and end it; how it stands then."""
    step = asked(name, **options)
    assert begin(store, held, step).answer == "granted"
    assert end(store, held, step, ending) == "mine"
    return str(only(store, held, name).state)


def only(store: Store, held: Granted, name: str) -> Step:
    return next(step for step in store.steps_of(held.run.key, held.run.period) if step.name == name)


def states(store: Store, key: str = "job", period: str = "2026-11-30") -> dict[str, str]:
    return {step.name: str(step.state) for step in store.steps_of(key, period)}
