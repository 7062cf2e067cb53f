"""May this firing run? One pure decision, made while the job's row is locked.

The guards stand in order: what is final first, what may pass later last. A
firing that gets through them all is granted a new token.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from cronguard.domain.claim import Claim, Granted, Skipped
from cronguard.domain.expectation import Expectation, expecting
from cronguard.domain.lifecycle import TRANSITIONS, Event, lease_of, next_token, recover
from cronguard.domain.period import PeriodSource
from cronguard.domain.recovery import claim_within_of
from cronguard.domain.run import NOT_AT_ALL, Attempt, Change, Exclusive, Job, Lease, Run, Sight, SkipReason, State
from cronguard.domain.said import because
from cronguard.domain.stepping import is_changed, laid_out
from cronguard.errors import StepsChanged


def decide(claim: Claim, sight: Sight) -> tuple[Granted | Skipped, Change]:
    """May this firing run? The guards stand in order: what is final first, what may pass later last."""
    mine = _own_grant(claim, sight)
    if mine:
        return mine, Change()
    sight, recovered = _recover_stale(claim, sight)
    skipped = (
        _refused_by_history(claim, sight)
        or _refused_by_holder(claim, sight)
        or _refused_by_run(claim, sight)
        or _refused_by_clock(claim, sight)
        or _refused_by_lock(claim, sight)
    )
    if skipped:
        return skipped, recovered
    _check_steps(claim, sight)
    granted, change = _grant(claim, sight)
    return granted, recovered.then(change)


def _own_grant(claim: Claim, sight: Sight) -> Granted | None:
    """The claim was granted before and its acknowledgement was lost: the same answer again."""
    for lease in sight.leases:
        run = sight.run(lease.period)
        if lease.holder.id == claim.holder.id and run:
            return Granted(run, _attempt_of(claim, run, sight.now), lease, sight.now)
    return None


def _recover_stale(claim: Claim, sight: Sight) -> tuple[Sight, Change]:
    """Settle each lapsed lease that stands in this claim's way, as any supervisor would."""
    change = Change()
    for lease in (*sight.leases, *_missing_lease(claim, sight)):
        run = sight.run(lease.period)
        if run and lease.lapsed(sight.now) and _excludes(claim, lease):
            after, written = recover(run, lease, sight, claim.holder.host)
            change = change.then(written)
            sight = _seen_after(sight, after, lease)
    return sight, change


def _missing_lease(claim: Claim, sight: Sight) -> list[Lease]:
    """A run that reads running although its lease's row is gone."""
    run = sight.run(claim.period)
    lease = lease_of(run, sight) if run and run.state is State.RUNNING else None
    return [lease] if lease and lease not in sight.leases else []


def _excludes(claim: Claim, lease: Lease) -> bool:
    return claim.spec.exclusive is Exclusive.KEY or lease.lane in ("", claim.lane)


def _refused_by_history(claim: Claim, sight: Sight) -> Skipped | None:
    run, job = sight.run(claim.period), sight.job or Job(claim.key)
    start = claim.chosen.period.start
    if run is None and job.pruned_before and start and start < job.pruned_before:
        return Skipped(SkipReason.PRUNED, sight.now)
    if run and run.state is State.SUCCEEDED and not (claim.spec.rerun and claim.spec.force):
        return Skipped(SkipReason.ALREADY_SUCCEEDED, sight.now, run)
    if run and run.state is State.CANCELLED and not claim.spec.rerun:
        return Skipped(SkipReason.CANCELLED, sight.now, run)
    if job.paused_at:
        return Skipped(SkipReason.PAUSED, sight.now, run, detail=because(job.paused_by, job.pause_reason))
    return None


def _refused_by_holder(claim: Claim, sight: Sight) -> Skipped | None:
    held_by = next((lease for lease in sight.leases if _excludes(claim, lease)), None)
    if held_by is None:
        return None
    return Skipped(SkipReason.HELD, sight.now, sight.run(claim.period), held_by)


def _refused_by_run(claim: Claim, sight: Sight) -> Skipped | None:
    run = sight.run(claim.period)
    if run is None or claim.spec.rerun:
        return None
    if run.state is State.DEAD:
        return Skipped(SkipReason.RECOVERIES_SPENT, sight.now, run)
    if run.state in (State.FAILED, State.TIMED_OUT) and run.failures >= claim.spec.attempts:
        return Skipped(SkipReason.ATTEMPTS_SPENT, sight.now, run)
    return None


def _refused_by_clock(claim: Claim, sight: Sight) -> Skipped | None:
    run = sight.run(claim.period)
    if run is None and _is_echo(claim, sight):
        last = sight.job.last_period if sight.job else ""
        return Skipped(SkipReason.ECHO, sight.now, detail=f"{last} was started a moment ago")
    for name, by in (("start-by", start_by(claim)), ("complete-by", complete_by(claim, sight.now))):
        if by and by <= sight.now:
            detail = f"its {name} was {by.isoformat(timespec='seconds')}"
            return Skipped(SkipReason.TOO_LATE, sight.now, run, detail=detail)
    return None


def _refused_by_lock(claim: Claim, sight: Sight) -> Skipped | None:
    """The lease of the last holder is over and its command stopped; but its session lives on, frozen perhaps."""
    if not sight.is_locked_out:
        return None
    detail = "its lease is over, but somebody still has its advisory lock"
    return Skipped(SkipReason.HELD, sight.now, sight.run(claim.period), detail=detail)


def _check_steps(claim: Claim, sight: Sight) -> None:
    """What was done by one list of steps says nothing about another: a person must say that it may be gone on with."""
    spec = claim.spec
    agreed = spec.accept_changed_steps or (spec.rerun and spec.force)
    if not agreed and is_changed(spec.steps, sight.run(claim.period), sight):
        raise StepsChanged(
            f"{claim.key} {claim.period}: its steps are not those that this run was begun with; to go on after those "
            "that have succeeded, add --accept-changed-steps; to begin anew, --rerun --force"
        )


def _is_echo(claim: Claim, sight: Sight) -> bool:
    """Two clocks on either side of an edge make two periods of one tick: the second is an echo of the first."""
    job, window = sight.job, claim.calendar.cadence.echo_window
    if claim.chosen.source is not PeriodSource.CLOCK or not (job and job.last_period and job.last_started_at):
        return False
    return job.last_period != claim.period and abs(sight.now - job.last_started_at) < window


def start_by(claim: Claim) -> datetime | None:
    """The last instant at which this firing may start, or None."""
    asked = claim.spec.start_by
    return asked.resolve(_nominal(claim) or claim.fired_at, _anchor(claim), claim.calendar.zone) if asked else None


def complete_by(claim: Claim, now: datetime) -> datetime | None:
    """When the run must be over: as asked, or one cadence from its start; None for never."""
    asked = claim.spec.complete_by
    if asked:
        return asked.resolve(now, _anchor(claim), claim.calendar.zone)
    length = claim.calendar.cadence.length
    return now + length if length else None


def _anchor(claim: Claim) -> datetime:
    """From where `07:00` is counted: the nominal tick, the period's start, or, for a rerun by label, the firing."""
    start = claim.chosen.period.start if claim.chosen.source is PeriodSource.CLOCK else None
    return _nominal(claim) or start or claim.fired_at


def _nominal(claim: Claim) -> datetime | None:
    """The tick that this firing answers; a rerun by label answers a person, now."""
    return claim.chosen.slot if claim.chosen.source is not PeriodSource.LABEL else None


def _grant(claim: Claim, sight: Sight) -> tuple[Granted, Change]:
    """The run starts: a new token, a new attempt, the lease; the key remembers its calendar."""
    now, before = sight.now, sight.run(claim.period)
    job = _job_after(claim, sight)
    run = _started(claim, before or _new_run(claim), job.token, now)
    attempt = _attempt_of(claim, run, now)
    lease = _new_lease(claim, run, now)
    afresh = claim.spec.rerun and claim.spec.force
    steps = laid_out(claim.spec.steps, run.key, run.period, afresh, sight)
    change = Change(job=job, runs=(run,), opened=(attempt,), taken=(lease,))
    return Granted(run, attempt, lease, now), change.then(steps)


def _job_after(claim: Claim, sight: Sight) -> Job:
    before, calendar, spec = sight.job or Job(claim.key), claim.calendar, claim.spec
    after = replace(
        before,
        token=next_token(before.token, sight.now),
        cadence=calendar.cadence.name,
        zone=calendar.zone.key,
        schedule=calendar.schedule.expression if calendar.schedule else None,
        claim_within=spec.claim_within or claim_within_of(calendar.cadence),
        start_by=spec.start_by.text if spec.start_by else None,
    )
    if claim.chosen.source is not PeriodSource.LABEL:  # what no clock chose cannot have an echo
        after = replace(after, last_period=claim.period, last_started_at=sight.now)
    return expecting(before, after, Expectation.of(calendar, spec.start_by), claim.chosen.slot, sight.now)


def _new_run(claim: Claim) -> Run:
    period = claim.chosen.period
    return Run(
        key=claim.key,
        period=claim.period,
        state=State.PENDING,
        period_start=period.start,
        period_end=period.end,
        zone=claim.calendar.zone.key,
        cadence=claim.calendar.cadence.name,
        source=str(claim.chosen.source),
        slot=claim.chosen.slot,
    )


def _started(claim: Claim, run: Run, token: int, now: datetime) -> Run:
    spec = claim.spec
    rerun = spec.rerun and (run.state, Event.RERUN) in TRANSITIONS
    return replace(
        run,
        state=TRANSITIONS[run.state, Event.RERUN if rerun else Event.CLAIM],
        lane=claim.lane,
        attempt=run.attempt + 1,
        failures=0 if rerun else run.failures,
        recoveries=0 if rerun else run.recoveries,
        attempts_allowed=spec.attempts,
        recoveries_allowed=spec.recoveries,
        token=token,
        holder=claim.holder,
        started_at=now,
        finished_at=None,
        complete_by=complete_by(claim, now),
        exit_code=None,
        signal=None,
        extended_for=NOT_AT_ALL,
        progress=None,
        claim_by=None,
        reported_at=None,
        steps_hash=spec.steps.hash if spec.steps else None,
    )


def _attempt_of(claim: Claim, run: Run, now: datetime) -> Attempt:
    return Attempt(
        key=run.key,
        period=run.period,
        token=run.token,
        attempt=run.attempt,
        holder=claim.holder,
        started_at=run.started_at or now,
        requested_by=claim.spec.requested_by,
    )


def _new_lease(claim: Claim, run: Run, now: datetime) -> Lease:
    return Lease(
        key=claim.key,
        lane=claim.lane,
        period=claim.period,
        token=run.token,
        holder=claim.holder,
        lease_until=now + claim.spec.terms.lease_for,
        complete_by=run.complete_by,
        extend_max=claim.spec.extend_max,
        advisory_lock=claim.advisory_lock,
    )


def _seen_after(sight: Sight, run: Run, lease: Lease) -> Sight:
    runs = tuple(run if other.period == run.period else other for other in sight.runs)
    return replace(sight, runs=runs, leases=tuple(other for other in sight.leases if other is not lease))
