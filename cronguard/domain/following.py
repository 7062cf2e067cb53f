"""What has changed of a run between two looks at it, as events for whoever follows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from cronguard.domain.lifecycle import OVER
from cronguard.domain.run import Record, Run, State
from cronguard.domain.said import Intervention


class What(StrEnum):
    """The kinds of news."""

    STATE = "state"  # with the attempt: a new one is news too
    PROGRESS = "progress"
    EXTENDED = "extended"
    SAID = "said"


@dataclass(frozen=True, slots=True)
class News:
    """One thing that is new of a run."""

    what: What
    at: datetime
    run: Run
    stale: bool = False
    said: Intervention | None = None


def news(before: Record | None, after: Record) -> list[News]:
    """What is new since the look before; at the first look, how the run stands."""
    run = after.run
    if run is None or after.now is None:
        return []
    return sorted(_news(before, after, run, after.now), key=lambda one: one.at)


def is_over(record: Record) -> bool:
    """Nothing more will happen to this run by itself."""
    return record.run is not None and record.run.state in OVER


def is_stale(record: Record) -> bool:
    """It reads running, and its lease is over."""
    until, now = record.lease_until, record.now
    return bool(record.run and record.run.state is State.RUNNING and until and now and until < now)


def _news(before: Record | None, after: Record, run: Run, now: datetime) -> Iterator[News]:
    last = before.run if before else None
    known = before.said if before else after.said
    yield from (News(What.SAID, said.said_at, run, said=said) for said in reversed(after.said) if said not in known)
    if run.progress and (last is None or run.progress != last.progress):
        yield News(What.PROGRESS, run.progress.at, run)
    if last and run.extended_for != last.extended_for and run.complete_by:
        yield News(What.EXTENDED, now, run)
    if before is None or _standing(before) != _standing(after):
        yield News(What.STATE, _since(run, now) if not is_stale(after) else now, run, stale=is_stale(after))


def _standing(record: Record) -> tuple[State | None, int, bool]:
    run = record.run
    return (run.state, run.attempt, is_stale(record)) if run else (None, 0, False)


def _since(run: Run, now: datetime) -> datetime:
    if run.state is State.RUNNING:
        return run.started_at or now
    return run.finished_at or now
