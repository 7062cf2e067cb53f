"""A range of periods, and which of them a backfill runs: each period of the key's own calendar, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from cronguard.domain.backlog import MOST_PERIODS
from cronguard.domain.cadence import Cadence
from cronguard.domain.period import (
    Calendar,
    Chosen,
    Period,
    PeriodSource,
    following,
    period_at,
    period_named,
    previous,
)
from cronguard.domain.run import Job, Run, Sight, State
from cronguard.domain.text import format_instant
from cronguard.errors import BadInput

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Range:
    """What a person asks for: from where to where, both included, and which of it."""

    first: str
    last: str
    only_missing: bool = False  # not what has failed, ran out of time or is dead
    rerun: bool = False  # also what was cancelled
    force: bool = False  # with rerun: also what has succeeded


@dataclass(frozen=True, slots=True)
class Planned:
    """One period of the range: whether it is run, as a rerun or not, and why."""

    chosen: Chosen
    is_run: bool
    why: str
    is_rerun: bool = False

    @property
    def label(self) -> str:
        return self.chosen.period.label


def periods_of(asked: Range, calendar: Calendar, now: datetime) -> list[Chosen]:
    """Every period of the range that has begun, in order; raises BadInput for a range that makes no sense."""
    if calendar.cadence.length is None:
        raise BadInput("with the cadence run each period stands alone: there is no range of them")
    first, last = _edge("--from", asked.first, calendar, now), _edge("--to", asked.last, calendar, now)
    if first > last:
        raise BadInput(f"--from, --to: {asked.first} comes after {asked.last}; swap them")
    found = list(islice(_between(first.start, last.end, calendar), MOST_PERIODS + 1))
    if len(found) > MOST_PERIODS:
        raise BadInput(
            f"--from, --to: the range has more than {MOST_PERIODS} periods of cadence {calendar.cadence.name}; "
            "run it in parts"
        )
    return [chosen for chosen in found if chosen.period.start and chosen.period.start <= now]


def plan(periods: list[Chosen], asked: Range, sight: Sight) -> list[Planned]:
    """What to do about each, by what the ledger shows of it now; a claim will decide again."""
    known = {run.period: run for run in sight.runs}
    return [_planned(chosen, known.get(chosen.period.label), asked, sight.job) for chosen in periods]


def _planned(chosen: Chosen, run: Run | None, asked: Range, job: Job | None) -> Planned:
    if run is None:
        start, pruned_before = chosen.period.start, job.pruned_before if job else None
        if pruned_before and start and start < pruned_before:
            return Planned(chosen, is_run=False, why="older than what the ledger remembers")
        return Planned(chosen, is_run=True, why="no run yet")
    if run.state is State.SUCCEEDED:
        again = asked.rerun and asked.force
        return Planned(_as_recorded(run), again, _how_it_ended(run), is_rerun=again)
    if run.state is State.CANCELLED:
        return Planned(_as_recorded(run), asked.rerun, "cancelled", is_rerun=asked.rerun)
    if run.state in (State.FAILED, State.TIMED_OUT, State.DEAD):
        again = not asked.only_missing
        return Planned(_as_recorded(run), again, _how_it_ended(run), is_rerun=again)
    where = f" on {run.holder.host}" if run.state is State.RUNNING and run.holder else ""
    return Planned(_as_recorded(run), is_run=True, why=f"{run.state}{where}")


def _as_recorded(run: Run) -> Chosen:
    return Chosen(Period(run.period, run.period_start, run.period_end), PeriodSource.LABEL, run.slot)


def _how_it_ended(run: Run) -> str:
    how = str(run.state).replace("_", " ")
    if run.state is State.FAILED:
        how += f" (signal {run.signal})" if run.signal else f" (exit {run.exit_code})"
    return f"{how} at {format_instant(run.finished_at.replace(microsecond=0))}" if run.finished_at else how


@dataclass(frozen=True, slots=True, order=True)
class _Edge:
    start: datetime
    end: datetime


def _edge(option: str, text: str, calendar: Calendar, now: datetime) -> _Edge:
    """A period by its label, `current` or `previous`, or a date, which may be a part or a multiple of periods."""
    try:
        period = _named(text, calendar, now)
    except BadInput as error:
        raise BadInput(f"{option}: {error}, or a date") from None
    assert period.start and period.end  # only the cadence run has periods without
    if period.start > now:
        raise BadInput(f"{option}: {text} has not begun yet (the ledger's clock says {format_instant(now)})")
    return _Edge(period.start, period.end)


def _named(text: str, calendar: Calendar, now: datetime) -> Period:
    cadence, zone = calendar.cadence, calendar.zone
    if text in ("current", "previous"):
        current = period_at(cadence, zone, now)
        return current if text == "current" else previous(cadence, zone, current)
    if not _DATE.fullmatch(text) or cadence.name == "day":
        return period_named(cadence, zone, text)
    day = period_named(Cadence.parse("day"), zone, text)
    assert day.start and day.end
    if cadence.length and cadence.length < _DAY:
        return day
    return period_at(cadence, zone, day.start)


def _between(start: datetime, end: datetime, calendar: Calendar) -> Iterator[Chosen]:
    """The periods that start in [start, end); where there is a schedule, those in which it ticks."""
    if calendar.schedule is None:
        yield from _all_between(start, end, calendar)
        return
    label = None
    for tick in calendar.schedule.ticks_between(start - _INSTANT, end - _INSTANT):
        period = period_at(calendar.cadence, calendar.zone, tick)
        if period.label != label:
            label = period.label
            yield Chosen(period, PeriodSource.LABEL, tick)


def _all_between(start: datetime, end: datetime, calendar: Calendar) -> Iterator[Chosen]:
    period = period_at(calendar.cadence, calendar.zone, start)
    while period.start and period.start < end:
        if period.start >= start:
            yield Chosen(period, PeriodSource.LABEL)
        period = following(calendar.cadence, calendar.zone, period)
