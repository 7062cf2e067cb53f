"""What a supervisor finds in the ledger, and what it decides about it. It asks, and reports; it never runs a job.

Each decision is made on one key's page, while that is locked. What another
supervisor has settled meanwhile no longer looks like a finding, so that any
number of them may pass at once, and each finding is handled and told once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from cronguard.domain.expectation import LOOKED_BACK, Expectation, expectation_of
from cronguard.domain.lifecycle import TRANSITIONS, Event, asked_for, lease_of, recover
from cronguard.domain.recovery import CLAIM_WITHIN, Cause, Recovery
from cronguard.domain.run import Change, Job, Lease, Run, Sight, State
from cronguard.domain.step import Step, left_at

if TYPE_CHECKING:
    from cronguard.domain.effect import Effect

STOP_REASON = "its complete-by has passed"
MASS_IS_MORE_THAN = 3  # leases over at once
SUBJECTS_NAMED = 3  # of the effects of one finding


class Found(StrEnum):
    """What a pass has found, the worst first."""

    MASS_EXPIRY = "mass_expiry"  # most leases are over at once: it is rather the ledger that was away
    TROUBLE = "trouble"  # this row could not be dealt with; the others were
    UNCLAIMED = "unclaimed"  # recovery was requested, and nobody came
    MISSED = "missed"  # expected by the key's schedule, and nobody ran it
    DEAD = "dead"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    UNKNOWN_EFFECT = "unknown_effect"  # nobody said in time whether it was done
    OVERDUE = "overdue"  # past its complete-by, and alive: asked to stop
    RECOVERY = "recovery"  # somebody is asked to run it again

    @property
    def needs_a_person(self) -> bool:
        return self not in (Found.OVERDUE, Found.RECOVERY)


_ENDED = {State.FAILED: Found.FAILED, State.TIMED_OUT: Found.TIMED_OUT, State.DEAD: Found.DEAD}
_CAUSE = {State.FAILED: Cause.FAILED, State.TIMED_OUT: Cause.TIMED_OUT}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to tell; with the run as it is now, and the request that was made or not answered.

    Or with effects, of one kind: the first of them, how many they are, and whom some of them are about. They are of a
    key only where they were claimed inside of its runs.
    """

    found: Found
    key: str = ""
    period: str = ""
    run: Run | None = None
    request: Recovery | None = None
    detail: str = ""
    step: Step | None = None  # where the run stood
    effect: Effect | None = None
    count: int = 1
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Supervisor:
    """One host's last pass, and since when most leases have been over at once, as it and those before it saw."""

    host: str
    started_at: datetime
    finished_at: datetime | None = None  # None: now, as it is written
    mass_expiry_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What one plain read of the ledger shows: where to look, and what to make of it."""

    now: datetime
    live: int = 0  # leases
    lapsed: int = 0
    candidates: tuple[tuple[str, str], ...] = ()  # key and period, in order
    expected: tuple[Job, ...] = ()  # keys whose next tick is late
    supervisor: Supervisor | None = None  # of the last pass, on whichever host


# --------------------------------------------------------------------------- one run


def judge(sight: Sight, period: str, host: str) -> tuple[Finding | None, Change]:
    """What is to be done about this run, if anything still is; told with the step that it stood at."""
    finding, change = _judged(sight, period, host)
    steps = [step for step in sight.steps if step.period == period]
    return replace(finding, step=left_at(steps)) if finding else None, change


def _judged(sight: Sight, period: str, host: str) -> tuple[Finding | None, Change]:
    run = sight.run(period)
    litter = _litter(run, sight, period)
    if litter or run is None:
        return None, litter
    if run.state is State.RUNNING:
        return _running(run, sight, host)
    if run.state is State.PENDING:
        return _waiting(run, sight)
    return _ended(run, sight, host) if run.state in _ENDED else (None, Change())


def _litter(run: Run | None, sight: Sight, period: str) -> Change:
    """What would be looked at for ever, and is no finding: first of all it is put away."""
    waits = run.token if run and run.state is State.PENDING else None
    moot = (request for request in sight.requests if request.period == period and request.token != waits)
    strays = (lease for lease in sight.leases if lease.period == period and _is_stray(lease, run, sight.now))
    return Change(
        dropped=tuple(strays),
        followed=tuple(replace(request, announced_at=sight.now) for request in moot if not request.announced_at),
    )


def _is_stray(lease: Lease, run: Run | None, now: datetime) -> bool:
    """Over, and no run's (somebody's hand): nobody else would ever take it away."""
    is_of_run = run is not None and run.state is State.RUNNING and run.token == lease.token
    return lease.lapsed(now) and not is_of_run


def _running(run: Run, sight: Sight, host: str) -> tuple[Finding | None, Change]:
    """A lease that is live is never taken: its holder is asked."""
    lease = lease_of(run, sight)
    if lease is None:
        return None, Change()
    if lease.lapsed(sight.now):
        return _recovered(*recover(run, lease, sight, host), sight)
    if lease.complete_by and lease.complete_by < sight.now and not lease.stop_requested:
        asked = replace(lease, stop_requested=STOP_REASON)
        return Finding(Found.OVERDUE, run.key, run.period, run), Change(updated=(asked,))
    return None, Change()


def _recovered(after: Run, change: Change, sight: Sight) -> tuple[Finding, Change]:
    if not change.requested:
        dead = replace(after, reported_at=sight.now)
        return Finding(Found.DEAD, dead.key, dead.period, dead), replace(change, runs=(dead,))
    return _announced(after, change, sight)


def _announced(run: Run, change: Change, sight: Sight) -> tuple[Finding, Change]:
    """Whoever makes a request here also tells of it."""
    (request,) = (replace(request, announced_at=sight.now) for request in change.requested)
    return Finding(Found.RECOVERY, run.key, run.period, run, request), replace(change, requested=(request,))


def _waiting(run: Run, sight: Sight) -> tuple[Finding | None, Change]:
    """Asked for, and nobody has come yet; or nobody came at all. While the key is paused nobody may."""
    request = next((request for request in sight.requests if request.token == run.token), None)
    if run.claim_by and run.claim_by < sight.now:
        if sight.job and sight.job.paused_at:
            later = replace(run, claim_by=sight.now + (sight.job.claim_within or CLAIM_WITHIN))
            return None, Change(runs=(later,))
        return _unclaimed(run, request, sight)
    if request and request.announced_at is None:
        announced = replace(request, announced_at=sight.now)
        return Finding(Found.RECOVERY, run.key, run.period, run, announced), Change(followed=(announced,))
    return None, Change()


def _unclaimed(run: Run, request: Recovery | None, sight: Sight) -> tuple[Finding, Change]:
    missed = replace(run, state=TRANSITIONS[run.state, Event.MISS], finished_at=sight.now, reported_at=sight.now)
    closed = (replace(request, missed_at=sight.now),) if request else ()
    finding = Finding(Found.UNCLAIMED, run.key, run.period, missed, closed[0] if closed else None)
    return finding, Change(runs=(missed,), followed=closed)


def _ended(run: Run, sight: Sight, host: str) -> tuple[Finding | None, Change]:
    """It ended badly: again, where it has attempts left; else it is told, once."""
    if run.reported_at or run.finished_at is None or run.finished_at < sight.now - LOOKED_BACK:
        return None, Change()
    if run.state in _CAUSE and run.failures < run.attempts_allowed:
        waiting = replace(run, state=TRANSITIONS[run.state, Event.TRY_AGAIN])
        after, request = asked_for(waiting, _CAUSE[run.state], host, sight)
        return _announced(after, Change(runs=(after,), requested=(request,)), sight)
    told = replace(run, reported_at=sight.now)
    return Finding(_ENDED[run.state], run.key, run.period, told), Change(runs=(told,))


# --------------------------------------------------------------------------- one key and its schedule


def late_periods(job: Job, now: datetime) -> list[str]:
    """The periods to look at before it can be said which of them were missed."""
    expectation = expectation_of(job)
    if expectation is None or job.expected_until is None:
        return []
    ticks, _ = expectation.late(job.expected_until, now)
    return list(dict.fromkeys(expectation.period(tick).label for tick in ticks))


def judge_expected(sight: Sight, looked_at: Sequence[str]) -> tuple[list[Finding], Change]:
    """Each late tick whose period nobody ran is missed: a run that never was. The key's mark moves on."""
    job = sight.job
    expectation = expectation_of(job) if job else None
    if job is None or expectation is None or job.expected_until is None:
        return [], Change()
    late, until = expectation.late(job.expected_until, sight.now)
    if any(expectation.period(tick).label not in looked_at for tick in late):
        return [], Change()  # the key's calendar has changed under our eyes: the next pass looks again
    missed = _missed(job, expectation, late, sight)
    moved = replace(job, expected_until=until, expected_by=expectation.next_late_at(until))
    return [Finding(Found.MISSED, run.key, run.period, run) for run in missed], Change(job=moved, runs=tuple(missed))


def _missed(job: Job, expectation: Expectation, late: Sequence[datetime], sight: Sight) -> list[Run]:
    runs: dict[str, Run] = {}
    for tick in late:
        period = expectation.period(tick)
        if sight.run(period.label) or _is_excused(job, expectation, tick, period.start):
            continue
        runs.setdefault(period.label, _never_run(job, expectation, tick, sight.now))
    return list(runs.values())


def _is_excused(job: Job, expectation: Expectation, tick: datetime, start: datetime | None) -> bool:
    """Nobody could run it: the key is paused, or the period is older than what the ledger remembers."""
    is_pruned = bool(job.pruned_before and start and start < job.pruned_before)
    return is_pruned or bool(job.paused_at and expectation.late_at(tick) > job.paused_at)


def _never_run(job: Job, expectation: Expectation, tick: datetime, now: datetime) -> Run:
    period = expectation.period(tick)
    return Run(
        key=job.key,
        period=period.label,
        state=TRANSITIONS[None, Event.MISS],
        period_start=period.start,
        period_end=period.end,
        zone=job.zone,
        cadence=job.cadence,
        source="schedule",
        slot=tick,
        finished_at=now,
        reported_at=now,
    )


# --------------------------------------------------------------------------- effects


def unknown(effects: Iterable[Effect], before: Iterable[Finding] = ()) -> list[Finding]:
    """One finding of all that a job has left, with those found before. They are never done again by themselves: a
    person looks, and says.
    """
    found = {(each.effect.kind, each.period, each.key): each for each in before if each.effect}
    for effect in effects:
        key, subject = effect.key or "", (effect.subject,)
        alike = found.get((effect.kind, effect.period, key))
        if alike is None:
            new = Finding(Found.UNKNOWN_EFFECT, key, effect.period, effect=effect, subjects=subject)
        else:
            subjects = alike.subjects + subject if alike.count < SUBJECTS_NAMED else alike.subjects
            new = replace(alike, count=alike.count + 1, subjects=subjects)
        found[effect.kind, effect.period, key] = new
    return list(found.values())


# --------------------------------------------------------------------------- the brake


@dataclass(frozen=True, slots=True)
class Brake:
    """Whether a pass may only observe, since when, and whether that is news."""

    observes: bool
    since: datetime | None = None
    is_new: bool = False


def brake(survey: Survey, lease_for: timedelta) -> Brake:
    """More than half of the leases over at once is rather the ledger's fault than that of so many holders.

    Whoever sees it waits for one lease, in which the holders can be heard of again; each pass goes on from the one
    before, whichever host that was, since it may be the only one that its own host ever makes.
    """
    if survey.lapsed <= MASS_IS_MORE_THAN or survey.lapsed <= survey.live:
        return Brake(observes=False)
    before = survey.supervisor.mass_expiry_at if survey.supervisor else None
    since = before or survey.now
    return Brake(survey.now < since + lease_for, since, is_new=before is None)
