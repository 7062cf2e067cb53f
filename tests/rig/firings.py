"""Firings and ledgers for tests that talk to the services themselves, by a clock that they move by hand."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from cronguard.clock import boottime
from cronguard.domain.cadence import Cadence
from cronguard.domain.calendar import CalendarAsked
from cronguard.domain.claim import Granted, JobSpec, LeaseTerms, Skipped
from cronguard.domain.deadline import Deadline
from cronguard.domain.lifecycle import Ending
from cronguard.domain.period import PeriodRequest
from cronguard.domain.run import Holder, Outcome
from cronguard.ports import Store
from cronguard.services.firing import Firing
from cronguard.services.ledger import Ledger
from tests.rig.waiting import pause

TERMS = LeaseTerms.of(timedelta(seconds=60), timedelta(seconds=8))
SUCCEEDED = Ending(Outcome.SUCCEEDED, exit_code=0)
FAILED = Ending(Outcome.FAILED, exit_code=3)
DEADLINES = ("complete_by", "start_by")
PATIENT = 30.0  # seconds for a ledger that answers at once where the machine is idle


def firing(
    key: str = "job",
    every: str | None = "day",
    tz: str | None = "UTC",
    schedule: str | None = None,
    host: str = "alpha",
    waits: bool = False,
    request: PeriodRequest | None = None,
    period: str | None = None,
    **spec: Any,
) -> Firing:
    """One host's `cronguard run`, with the options that the test is about."""
    options = {name: Deadline.parse(value) if name in DEADLINES else value for name, value in spec.items()}
    return Firing(
        spec=replace(JobSpec(key, TERMS), **options),
        calendar=CalendarAsked(
            host_zone=ZoneInfo("UTC"),
            cadence=Cadence.parse(every) if every else None,
            zone=ZoneInfo(tz) if tz else None,
            schedule=schedule,
        ),
        request=request or PeriodRequest(label=period),
        holder=Holder(str(uuid.uuid4()), host, 4711),
        started_at=boottime(),
        waits=waits,
    )


def ledger_on(store: Store, db_wait: float = PATIENT) -> Ledger:
    return Ledger(store, db_wait, pause)


def claim(store: Store, asked: Firing | None = None, **options: Any) -> Granted | Skipped:
    """Ask once, as `run` would."""
    return ledger_on(store).claim(asked or firing(**options), lambda _key, _period: None).answer


def granted(answer: Granted | Skipped) -> Granted:
    assert isinstance(answer, Granted), answer
    return answer


def refusal(answer: Granted | Skipped) -> str:
    assert isinstance(answer, Skipped), answer
    return str(answer.reason)


def finish(store: Store, held: Granted, ending: Ending = SUCCEEDED) -> str:
    return str(ledger_on(store).finish(held, ending, boottime() + PATIENT))


def state(store: Store, key: str, period: str) -> str:
    record = store.show(key, period)
    assert record and record.run, f"no run of {key} {period}"
    return str(record.run.state)


def skips(store: Store, key: str, period: str) -> list[str]:
    record = store.show(key, period)
    return [str(skip.reason) for skip in record.skipped] if record else []


MakeStore = Callable[[], Store]
