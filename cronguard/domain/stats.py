"""The recent runs of a key, counted: how they ended, how long they took, where they ran, what was prevented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from cronguard.domain.advice import Advice, advise
from cronguard.domain.overview import interval, percentile
from cronguard.domain.run import Job, Outcome, Run, SkipReason, State

_What = TypeVar("_What")

# Firings that would have run the command twice, or two at a time, had nobody stood in between.
PREVENTED = (SkipReason.HELD, SkipReason.ALREADY_SUCCEEDED, SkipReason.ECHO)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the ledger counts of the last runs of a key, with their attempts and the firings that were skipped."""

    now: datetime
    job: Job
    runs: tuple[Run, ...] = ()  # newest first
    attempts: tuple[tuple[str, Outcome | None, int], ...] = ()  # host, outcome, how many
    skips: tuple[tuple[str, SkipReason, int], ...] = ()  # host, reason, how many


@dataclass(frozen=True, slots=True)
class OfHost:
    """One host's part of it."""

    host: str
    attempts: int
    succeeded: int
    skips: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of one key."""

    key: str
    runs: int
    states: dict[State, int]
    outcomes: dict[str, int]  # of attempts; `running` for those that are under way
    skips: dict[SkipReason, int]
    prevented: int
    p50: timedelta | None
    p95: timedelta | None
    longest: timedelta | None
    complete_by: timedelta | None  # how long the newest run might take
    interval: timedelta | None
    hosts: tuple[OfHost, ...]
    advice: Advice


def stats_of(counts: Counts) -> Stats:
    """Durations are those of the runs that succeeded: how long a run took that was stopped says nothing."""
    lengths = [length for run in counts.runs if run.state is State.SUCCEEDED and (length := _length(run))]
    states = Counter(run.state for run in counts.runs)
    skips = _summed((reason, count) for _, reason, count in counts.skips)
    gap, complete_by = interval(counts.job, counts.now), _complete_by(counts)
    return Stats(
        key=counts.job.key,
        runs=len(counts.runs),
        states=dict(states),
        outcomes=_summed((str(outcome or "running"), count) for _, outcome, count in counts.attempts),
        skips=skips,
        prevented=sum(skips.get(reason, 0) for reason in PREVENTED),
        p50=percentile(lengths, 50),
        p95=percentile(lengths, 95),
        longest=max(lengths, default=None),
        complete_by=complete_by,
        interval=gap,
        hosts=_hosts(counts),
        advice=advise(lengths, complete_by, gap, states[State.TIMED_OUT]),
    )


def _length(run: Run) -> timedelta | None:
    return run.finished_at - run.started_at if run.started_at and run.finished_at else None


def _complete_by(counts: Counts) -> timedelta | None:
    """Of the newest run that was started, without what it was extended by: that was for this once."""
    newest = next((run for run in counts.runs if run.started_at), None)
    if newest is None or newest.started_at is None or newest.complete_by is None:
        return None
    return newest.complete_by - newest.extended_for - newest.started_at


def _summed(counts: Iterable[tuple[_What, int]]) -> dict[_What, int]:
    """The most frequent first."""
    total: Counter[_What] = Counter()
    for what, count in counts:
        total[what] += count
    return dict(total.most_common())


def _hosts(counts: Counts) -> tuple[OfHost, ...]:
    attempts = _summed((host, count) for host, _, count in counts.attempts)
    succeeded = _summed((host, count) for host, outcome, count in counts.attempts if outcome is Outcome.SUCCEEDED)
    skips = _summed((host, count) for host, _, count in counts.skips)
    names = sorted({*attempts, *skips}, key=lambda host: (-attempts.get(host, 0), host))
    return tuple(OfHost(host, attempts.get(host, 0), succeeded.get(host, 0), skips.get(host, 0)) for host in names)
