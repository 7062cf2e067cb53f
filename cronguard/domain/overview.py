"""One key at a glance: in which state it is, when it last went well and badly, when it is due, how long it takes.

What a state says of a key is derived here from what the ledger shows of its
newest period; nothing of it is stored. Problems come first, the worst of them
at the top.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronguard.domain.calendar import CalendarAsked, calendar_of
from cronguard.domain.period import Calendar, following, period_at, period_named
from cronguard.domain.run import Job, Lease, Run, State
from cronguard.errors import BadInput

LATE_AT_MOST = timedelta(minutes=5)  # after a tick that nobody answered, or a tenth of the interval if that is less
BEGINS_EARLY = timedelta(minutes=1)  # a firing may be so long before its tick
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
TICKS_JUDGED = 8  # of a schedule, for the shortest gap between two of them


class KeyState(StrEnum):
    """How a key stands, the worst first: the states of a run, and what is derived."""

    DEAD = "dead"
    STALE = "stale"  # running, and its lease is over
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    MISSED = "missed"
    OVERDUE = "overdue"  # its schedule has ticked, and nobody has come
    OVERRUN = "overrun"  # running, and its complete-by is over
    PENDING = "pending"
    PAUSED = "paused"
    RUNNING = "running"
    CANCELLED = "cancelled"
    SUCCEEDED = "succeeded"
    NONE = "none"  # the key is known, and nothing of it has ever run

    @property
    def is_problem(self) -> bool:
        return _RANK[self] <= _RANK[KeyState.PENDING]


_RANK = {state: rank for rank, state in enumerate(KeyState)}


@dataclass(frozen=True, slots=True)
class Glance:
    """What the ledger shows of a whole key at one instant of its own clock."""

    now: datetime
    job: Job
    leases: tuple[Lease, ...] = ()
    runs: tuple[Run, ...] = ()  # those that somebody has a lease of, the newest period, the one started last
    last_success_at: datetime | None = None
    last_failure_at: datetime | None = None
    lengths: tuple[timedelta, ...] = ()  # of its recent runs that succeeded


@dataclass(frozen=True, slots=True)
class Status:
    """One line about a key."""

    key: str
    state: KeyState
    now: datetime
    job: Job
    run: Run | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    due_at: datetime | None  # past: nobody has come yet
    took: timedelta | None
    p95: timedelta | None


@dataclass(frozen=True, slots=True)
class Standing:
    """How keys stand, problems first; and how many effects are unknown."""

    lines: list[Status]
    unknown_effects: int | None = None  # None: some keys were asked for only


def status_of(glance: Glance) -> Status:
    """How the key stands."""
    run, due_at = _shown(glance), due(glance)
    return Status(
        key=glance.job.key,
        state=_state(glance, run, due_at),
        now=glance.now,
        job=glance.job,
        run=run,
        last_success_at=glance.last_success_at,
        last_failure_at=glance.last_failure_at,
        due_at=due_at,
        took=_took(run),
        p95=percentile(glance.lengths, 95),
    )


def problems_first(lines: Iterable[Status]) -> list[Status]:
    """The worst first; those that stand alike by key."""
    return sorted(lines, key=lambda line: (_RANK[line.state], line.key))


def named(jobs: Sequence[Job], patterns: Sequence[str]) -> list[Job]:
    """The jobs that these keys and globs name; all of them without one. Raises BadInput for one that names none."""
    for pattern in patterns:
        if not any(_is_named(job, pattern) for job in jobs):
            raise BadInput(f"the ledger has no key {pattern}; see: cronguard keys")
    return [job for job in jobs if not patterns or any(_is_named(job, pattern) for pattern in patterns)]


def _is_named(job: Job, pattern: str) -> bool:
    return job.key == pattern or fnmatchcase(job.key, pattern)  # a key may have brackets of its own


def percentile(lengths: Sequence[timedelta], percent: int) -> timedelta | None:
    """By nearest rank: one that was really seen. None where there is none."""
    if not lengths:
        return None
    rank = -(-len(lengths) * percent // 100)  # rounded up
    return sorted(lengths)[max(rank, 1) - 1]


# --------------------------------------------------------------------------- which run, and how it stands


def _shown(glance: Glance) -> Run | None:
    """The run that is live or stale; else that of the newest period; else the one that was started last."""
    leased = {lease.token for lease in glance.leases}
    return max(_begun(glance), key=lambda run: (run.token in leased, *_newness(run)), default=None)


def _begun(glance: Glance) -> list[Run]:
    """Without what a person has cancelled beforehand: it says nothing yet of how the key stands."""
    return [run for run in glance.runs if not run.period_start or run.period_start <= glance.now + BEGINS_EARLY]


def _newness(run: Run) -> tuple[datetime, datetime]:
    return run.period_start or _LONG_AGO, run.started_at or _LONG_AGO


def _state(glance: Glance, run: Run | None, due_at: datetime | None) -> KeyState:
    if run and run.state is State.RUNNING:
        return _running(glance, run)
    if glance.job.paused_at:
        return KeyState.PAUSED
    if glance.job.schedule and due_at and due_at <= glance.now - _lateness(glance):
        return KeyState.OVERDUE
    return KeyState(run.state) if run else KeyState.NONE


def _running(glance: Glance, run: Run) -> KeyState:
    lease = next((lease for lease in glance.leases if lease.token == run.token), None)
    if lease is None or lease.lapsed(glance.now):
        return KeyState.STALE
    complete_by = lease.complete_by or run.complete_by
    return KeyState.OVERRUN if complete_by and complete_by < glance.now else KeyState.RUNNING


def _took(run: Run | None) -> timedelta | None:
    return run.finished_at - run.started_at if run and run.started_at and run.finished_at else None


# --------------------------------------------------------------------------- when it is due


def due(glance: Glance) -> datetime | None:
    """The tick that nobody has answered yet, else the next one; without a schedule, when the next period begins.

    None where that cannot be told: the key is paused, has no calendar yet, or is due whenever it is fired.
    """
    calendar = calendar_on(glance.job)
    if calendar is None or glance.job.paused_at:
        return None
    newest = max((run.period_start for run in _begun(glance) if run.period_start), default=None)
    if calendar.schedule is None:
        return _next_period(glance, calendar)
    tick = calendar.schedule.tick_before(glance.now + timedelta(microseconds=1))
    start = period_at(calendar.cadence, calendar.zone, tick).start
    answered = newest and start and newest >= start
    return calendar.schedule.next_tick(glance.now) if answered else tick


def _next_period(glance: Glance, calendar: Calendar) -> datetime | None:
    """After the one that has begun last and was run."""
    labels = [run.period for run in _begun(glance) if run.period_start]
    if calendar.cadence.length is None or not labels:
        return None
    try:
        periods = [period_named(calendar.cadence, calendar.zone, label) for label in labels]
    except BadInput:  # a label of the calendar that the key had before
        return None
    newest = max(periods, key=lambda period: period.start or _LONG_AGO)
    return following(calendar.cadence, calendar.zone, newest).start


def calendar_on(job: Job) -> Calendar | None:
    """The key's own calendar; None before its first run, or where this host does not know its zone."""
    if job.cadence is None or job.zone is None:
        return None
    try:
        return calendar_of(CalendarAsked(ZoneInfo("UTC")), job)
    except BadInput:
        return None


def interval(job: Job, now: datetime) -> timedelta | None:
    """The shortest time from one period to the next: between two ticks of the schedule, else the cadence."""
    calendar = calendar_on(job)
    if calendar is None or calendar.schedule is None:
        return calendar.cadence.length if calendar else None
    ticks = [calendar.schedule.next_tick(now)]
    while len(ticks) < TICKS_JUDGED:
        ticks.append(calendar.schedule.next_tick(ticks[-1]))
    return min(later - earlier for earlier, later in pairwise(ticks))


def _lateness(glance: Glance) -> timedelta:
    gap = interval(glance.job, glance.now)
    return min(LATE_AT_MOST, gap / 10) if gap else LATE_AT_MOST
