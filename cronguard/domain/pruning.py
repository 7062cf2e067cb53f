"""What a ledger may forget, and what it must remember of it: that it has been.

A run may go when both its period and its attempts are older than what is kept,
and it is not among the newest of its key. Never one that is live or pending,
and never one whose period has no start: of such a label nobody could tell later
that it was there. What goes raises the key's mark in the same transaction: a
period that starts before the mark and has no row is refused for ever, with the
reason `pruned`, also when it was never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cronguard.domain.run import Job, Run, State

KEPT = (State.PENDING, State.RUNNING)
SHORTEST_STEP = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Keep:
    """How much of a key's history stays: so long, and so many of its newest runs in any case."""

    for_: timedelta
    last: int


USUAL = Keep(timedelta(days=400), 50)  # more than a year, so that a yearly job still shows its last run


@dataclass(frozen=True, slots=True)
class Aged:
    """What the ledger shows of a key that may be old enough: its oldest runs beyond the newest ones."""

    now: datetime
    job: Job
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Pruning:
    """What goes, and the key with its mark raised."""

    job: Job
    periods: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.periods)


@dataclass(frozen=True, slots=True)
class AgedSkip:
    """A skip, and whether its period has a run: then it goes when that goes."""

    id: int
    seen_at: datetime
    has_run: bool


def prune(aged: Aged, keep: Keep) -> Pruning:
    """Which of these runs go. The mark is the end of the last period among them, so that it holds in any zone."""
    before = aged.now - keep.for_
    going = [run for run in aged.runs if _may_go(run, before)]
    marks = [aged.job.pruned_before, *(_end(run) for run in going)]
    mark = max((mark for mark in marks if mark), default=None)
    return Pruning(replace(aged.job, pruned_before=mark), tuple(run.period for run in going))


def prune_skips(skips: Sequence[AgedSkip], now: datetime, keep: Keep) -> list[int]:
    """The ids of those that go: old, and of a period that nobody ran."""
    return [skip.id for skip in skips if skip.seen_at < now - keep.for_ and not skip.has_run]


def go_on_after(skips: Sequence[AgedSkip], now: datetime, keep: Keep, at_most: int) -> int | None:
    """The last one looked at. They are in the order of time, near enough: behind a young one all are young."""
    is_end = len(skips) < at_most or skips[-1].seen_at >= now - keep.for_
    return None if is_end else skips[-1].id


def _may_go(run: Run, before: datetime) -> bool:
    ages = (run.period_start, run.started_at, run.finished_at)
    return run.state not in KEPT and run.period_start is not None and all(age < before for age in ages if age)


def _end(run: Run) -> datetime | None:
    return run.period_end or (run.period_start + SHORTEST_STEP if run.period_start else None)
