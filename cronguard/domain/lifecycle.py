"""The life of a run: one table of transitions, and the decisions that read it.

    (none) --claim--> running --finish--> succeeded | failed | timed_out
    running --release--> pending          its worker was told to stop
    running --recover--> pending | dead   its lease is over; dead when its recoveries are spent
    failed, timed_out --try again--> pending   it has attempts left
    pending, (none) --miss--> missed      nobody came for it, nobody ran it
    pending, failed, timed_out, … --claim--> running
    failed, timed_out, dead, … --reset--> pending, --cancel--> cancelled; by a person, and never of a live run

A decision is a pure function from what the ledger shows (`Sight`) to what shall
be written (`Change`) and what to tell the caller. It runs between the look and
the write of one short transaction that holds the job's row, so nothing it saw
can have changed when it is written.

Why a lease is safe. The ledger's clock alone says when a lease is over. A
holder trusts its lease from the moment it *sent* its last good beat, less a
margin, and has its command dead by then; so whoever finds the lease over, by
the ledger's clock, finds nobody running. The token rises with every claim of
the key and stands in the WHERE of every write: a holder that was frozen past
all this and wakes can change nothing but the record of its own attempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from cronguard.domain.claim import Granted
from cronguard.domain.recovery import CLAIM_WITHIN, Cause, Recovery
from cronguard.domain.run import AttemptEnd, Captured, Change, Job, Lease, Outcome, Run, Sight, State
from cronguard.domain.step import unfinished
from cronguard.domain.text import format_duration
from cronguard.errors import CRONGUARD_FAILED


class Event(StrEnum):
    """What can happen to a run."""

    CLAIM = "claim"
    RERUN = "rerun"
    RETRY = "retry"
    SUCCEED = "succeed"
    FAIL = "fail"
    TIME_OUT = "time_out"
    RELEASE = "release"
    RECOVER = "recover"
    GIVE_UP = "give_up"
    TRY_AGAIN = "try_again"
    MISS = "miss"
    RESET = "reset"
    CANCEL = "cancel"


TRANSITIONS: dict[tuple[State | None, Event], State] = {
    (None, Event.CLAIM): State.RUNNING,
    (State.PENDING, Event.CLAIM): State.RUNNING,
    (State.MISSED, Event.CLAIM): State.RUNNING,
    (State.FAILED, Event.CLAIM): State.RUNNING,  # with attempts left
    (State.TIMED_OUT, Event.CLAIM): State.RUNNING,  # with attempts left
    (State.FAILED, Event.RERUN): State.RUNNING,
    (State.TIMED_OUT, Event.RERUN): State.RUNNING,
    (State.DEAD, Event.RERUN): State.RUNNING,
    (State.CANCELLED, Event.RERUN): State.RUNNING,
    (State.SUCCEEDED, Event.RERUN): State.RUNNING,  # with --force
    (State.RUNNING, Event.RETRY): State.RUNNING,
    (State.RUNNING, Event.SUCCEED): State.SUCCEEDED,
    (State.RUNNING, Event.FAIL): State.FAILED,
    (State.RUNNING, Event.TIME_OUT): State.TIMED_OUT,
    (State.RUNNING, Event.RELEASE): State.PENDING,
    (State.RUNNING, Event.RECOVER): State.PENDING,
    (State.RUNNING, Event.GIVE_UP): State.DEAD,
    (State.PENDING, Event.SUCCEED): State.SUCCEEDED,  # late, but under the last token
    (State.DEAD, Event.SUCCEED): State.SUCCEEDED,  # likewise
    (State.MISSED, Event.SUCCEED): State.SUCCEEDED,  # likewise
    (State.FAILED, Event.TRY_AGAIN): State.PENDING,  # with attempts left
    (State.TIMED_OUT, Event.TRY_AGAIN): State.PENDING,  # with attempts left
    (State.PENDING, Event.MISS): State.MISSED,
    (None, Event.MISS): State.MISSED,
    (State.PENDING, Event.RESET): State.PENDING,  # recovered a moment ago, with its recoveries to be counted anew
    (State.FAILED, Event.RESET): State.PENDING,
    (State.TIMED_OUT, Event.RESET): State.PENDING,
    (State.DEAD, Event.RESET): State.PENDING,
    (State.MISSED, Event.RESET): State.PENDING,
    (State.CANCELLED, Event.RESET): State.PENDING,
    (None, Event.CANCEL): State.CANCELLED,
    (State.PENDING, Event.CANCEL): State.CANCELLED,
    (State.FAILED, Event.CANCEL): State.CANCELLED,
    (State.TIMED_OUT, Event.CANCEL): State.CANCELLED,
    (State.DEAD, Event.CANCEL): State.CANCELLED,
    (State.MISSED, Event.CANCEL): State.CANCELLED,
}

EVENT_OF: dict[Outcome, Event] = {
    Outcome.SUCCEEDED: Event.SUCCEED,
    Outcome.FAILED: Event.FAIL,
    Outcome.START_FAILED: Event.FAIL,
    Outcome.TIMED_OUT: Event.TIME_OUT,
    Outcome.STALLED: Event.TIME_OUT,
    Outcome.INTERRUPTED: Event.RELEASE,
}
OVER = (State.SUCCEEDED, State.FAILED, State.TIMED_OUT, State.DEAD, State.MISSED, State.CANCELLED)


def next_token(last: int, now: datetime) -> int:
    """Rises at every claim; the clock's part keeps it rising when a failover forgot the last one."""
    return max(last + 1, int(now.timestamp() * 1000))


def lease_of(run: Run, sight: Sight) -> Lease | None:
    """The lease of a run that is running; one as good as lapsed where its row is gone (somebody's hand)."""
    lease = next((lease for lease in sight.leases if lease.token == run.token), None)
    if lease or run.holder is None:
        return lease
    return Lease(run.key, run.lane, run.period, run.token, run.holder, run.started_at or sight.now)


def recover(run: Run, lease: Lease, sight: Sight, by: str, cause: Cause = Cause.LEASE_OVER) -> tuple[Run, Change]:
    """The holder died: ask for somebody else, or give up when the recoveries are spent. `by` is the host that asks."""
    over = "lease over at " + lease.lease_until.isoformat(timespec="seconds")
    note = "its advisory lock was free" if lease.is_abandoned else over
    end = _noting_extension(AttemptEnd(run.key, run.token, Outcome.LOST, sight.now, note=note), run)
    seen, change = _with_progress(run, (lease,)), Change(closed=(end,), dropped=(lease,))
    if run.recoveries >= run.recoveries_allowed:
        dead = replace(seen, state=TRANSITIONS[run.state, Event.GIVE_UP], finished_at=sight.now)
        return dead, replace(change, runs=(dead,))
    waiting = replace(seen, state=TRANSITIONS[run.state, Event.RECOVER], recoveries=run.recoveries + 1)
    after, request = asked_for(waiting, cause, by, sight)
    return after, replace(change, runs=(after,), requested=(request,))


def asked_for(run: Run, cause: Cause, by: str, sight: Sight) -> tuple[Run, Recovery]:
    """Somebody shall run it again: it waits until its claim_by, and the request goes into the same transaction."""
    claim_by = sight.now + ((sight.job and sight.job.claim_within) or CLAIM_WITHIN)
    request = Recovery(run.key, run.period, run.token, cause, sight.now, by, claim_by)
    return replace(run, finished_at=None, claim_by=claim_by), request


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended, as the ledger is told it."""

    outcome: Outcome
    exit_code: int | None = None
    signal: int | None = None
    note: str | None = None
    proven: bool = False  # that nothing of the command is left: a run that was lost may be given on at once
    captured: Captured | None = None


class Standing(StrEnum):
    """How a holder stands with its run when it comes to write."""

    MINE = "mine"
    UNFINISHED = "unfinished"  # mine, but a step is left: its exit 0 is no success
    ALREADY_SO = "already_so"  # an earlier write arrived, its acknowledgement did not
    FORGOTTEN = "forgotten"  # it was mine, and a failover made the ledger forget it; nobody has claimed it since
    LATE = "late"  # recovered meanwhile, or even missed, but nobody has claimed it since
    LOST = "lost"


def standing(held: Granted, sight: Sight) -> Standing:
    """Is the run still ours, by token and holder? Never by one of them alone."""
    run = sight.run(held.run.period)
    if run is None or run.token != held.run.token or run.holder is None or run.holder.id != held.lease.holder.id:
        return Standing.LOST
    if run.state is State.CANCELLED:  # its lease was over when a person did it: what it did then is kept as its note
        return Standing.LOST
    if run.state is State.RUNNING:
        return Standing.MINE
    return Standing.LATE if (run.state, Event.SUCCEED) in TRANSITIONS else Standing.ALREADY_SO


def finish(held: Granted, ending: Ending, sight: Sight) -> tuple[Standing, Change]:
    """The attempt is over, and with it the run. Asked again, it answers that it is so already."""
    if is_forgotten(held, sight):
        return _finish_forgotten(held, ending, sight)
    stands, ending = _counting_steps(held, ending, sight)
    if stands is Standing.LATE and ending.outcome is Outcome.INTERRUPTED:
        stands = Standing.ALREADY_SO  # a release leaves the run pending, whoever wrote it
    if stands is Standing.ALREADY_SO:
        return _as_it_was_written(held, ending, sight), Change()
    if stands is Standing.MINE and ending.outcome is Outcome.LOST and ending.proven:
        return _given_on(held, ending, sight)
    late_failure = stands is Standing.LATE and ending.outcome is not Outcome.SUCCEEDED
    if stands is Standing.LOST or late_failure or ending.outcome is Outcome.LOST:
        return Standing.LOST, _as_lost(held, ending, sight)
    after = _over(held, _seen(held, sight), ending, sight.now)
    dropped = tuple(lease for lease in sight.leases if lease.token == held.run.token)
    end = _noting_extension(_end(held, ending, sight.now), after)
    change = Change(closed=(end,), dropped=dropped)
    if after.state is State.PENDING:
        after, request = asked_for(after, Cause.STOPPED, held.lease.holder.host, sight)
        change = replace(change, requested=(request,))
    return stands, replace(change, runs=(after,))


def is_forgotten(held: Granted, sight: Sight) -> bool:
    """Whether the ledger knows nothing of this grant (a failover), and nobody can have claimed the run since.

    Every claim writes its token into the run. So an older one there is proof, and so is no run at all, of a key that
    the ledger knows and has not pruned.
    """
    run, job = sight.run(held.run.period), sight.job
    if run is None:
        start = held.run.period_start
        is_pruned = job and job.pruned_before and start and start < job.pruned_before
        return bool(job and job.token and not is_pruned)
    if run.state is State.RUNNING and not (run.holder and run.holder.id == held.lease.holder.id):
        return False
    return run.token < held.run.token and run.state not in (State.SUCCEEDED, State.CANCELLED)


def _finish_forgotten(held: Granted, ending: Ending, sight: Sight) -> tuple[Standing, Change]:
    """What was granted is put back, and ends as it would have: the result of work that is done is never lost."""
    job = sight.job or Job(held.run.key)
    job = replace(job, token=max(job.token, held.run.token))
    others = tuple(run for run in sight.runs if run.period != held.run.period)
    stands, change = finish(held, ending, replace(sight, job=job, runs=(*others, held.run)))
    if not change.runs:  # something of it may still live: nothing is claimed of it
        return stands, Change()
    return (
        Standing.FORGOTTEN if stands is Standing.MINE else stands,
        Change(job=job, recalled=(held.attempt,)).then(change),
    )


def _counting_steps(held: Granted, ending: Ending, sight: Sight) -> tuple[Standing, Ending]:
    """An exit 0 is a success only if no step of the run is left unfinished."""
    stands = standing(held, sight)
    left = ", ".join(f"step {step.name} is {step.state}" for step in unfinished(sight.steps))
    if not left or ending.outcome is not Outcome.SUCCEEDED or stands not in (Standing.MINE, Standing.LATE):
        return stands, ending
    note = "; ".join(filter(None, (ending.note, f"exit 0, but {left}")))
    failed = replace(ending, outcome=Outcome.FAILED, exit_code=CRONGUARD_FAILED, note=note)
    return Standing.UNFINISHED if stands is Standing.MINE else stands, failed


def _as_it_was_written(held: Granted, ending: Ending, sight: Sight) -> Standing:
    run = sight.run(held.run.period)
    overruled = ending.outcome is Outcome.SUCCEEDED and run is not None and run.state is State.FAILED
    return Standing.UNFINISHED if overruled else Standing.ALREADY_SO


def _given_on(held: Granted, ending: Ending, sight: Sight) -> tuple[Standing, Change]:
    """The run was cut short on this host, and nothing of it is left: nobody need wait for the lease to end."""
    lease = next((lease for lease in sight.leases if lease.token == held.run.token), held.lease)
    after, change = recover(_seen(held, sight), lease, sight, held.lease.holder.host, Cause.CUT_SHORT)
    return Standing.LOST, replace(change, closed=(_noting_extension(_lost(held, ending, sight.now), after),))


def fail_and_hold(held: Granted, ending: Ending, sight: Sight) -> tuple[Standing, Change]:
    """This attempt failed and another will follow in place: the run stays held, the attempt is closed."""
    stands = standing(held, sight)
    if stands is not Standing.MINE:
        return Standing.LOST, _as_lost(held, ending, sight)
    after = replace(
        _seen(held, sight), failures=held.run.failures + 1, exit_code=ending.exit_code, signal=ending.signal
    )
    return stands, Change(runs=(after,), closed=(_end(held, ending, sight.now),))


def retry(held: Granted, sight: Sight) -> tuple[Granted | None, Change]:
    """The next attempt in place, under the next token, so that what the last one left behind is fenced off.

    None where the run is no longer ours. Asked again, it gives the same answer.
    """
    mine = next((lease for lease in sight.leases if lease.holder.id == held.lease.holder.id), None)
    run = _seen(held, sight)
    if mine is None or sight.job is None or run.state is not State.RUNNING:
        return None, Change()
    if mine.token != held.run.token:
        return _next_attempt(held, run, mine, sight.now), Change()
    started_at = sight.now if sight.job.last_period == run.period else sight.job.last_started_at
    job = replace(sight.job, token=next_token(sight.job.token, sight.now), last_started_at=started_at)
    lease = replace(mine, token=job.token, progress=None)
    granted = _next_attempt(held, _tried_again(run, job.token, sight.now), lease, sight.now)
    change = Change(job, (granted.run,), (granted.attempt,), taken=(granted.lease,), dropped=(mine,))
    return granted, change


def _tried_again(run: Run, token: int, now: datetime) -> Run:
    state = TRANSITIONS[run.state, Event.RETRY]
    number = run.attempt + 1
    tried = replace(run, state=state, token=token, attempt=number, started_at=now)
    return replace(tried, exit_code=None, signal=None, progress=None)


def _next_attempt(held: Granted, run: Run, lease: Lease, now: datetime) -> Granted:
    attempt = replace(held.attempt, token=run.token, attempt=run.attempt, started_at=run.started_at or now)
    return Granted(run, attempt, lease, now)


def _seen(held: Granted, sight: Sight) -> Run:
    return _with_progress(sight.run(held.run.period) or held.run, sight.leases)


def _with_progress(run: Run, leases: Iterable[Lease]) -> Run:
    """What a command says of itself is kept in its lease, and moves into its run when that goes."""
    lease = next((lease for lease in leases if lease.token == run.token), None)
    return replace(run, progress=lease.progress) if lease and lease.progress else run


def _noting_extension(end: AttemptEnd, run: Run) -> AttemptEnd:
    """Of the attempt with which a run ends: tries in place share one complete-by, and what was added to it."""
    if not run.extended_for:
        return end
    return replace(end, note="; ".join(filter(None, (end.note, f"extended by {format_duration(run.extended_for)}"))))


def _over(held: Granted, run: Run, ending: Ending, now: datetime) -> Run:
    failed = EVENT_OF[ending.outcome] in (Event.FAIL, Event.TIME_OUT)
    failures = held.run.failures + failed  # from what was granted: asked again, it counts once
    return replace(as_it_ended(run, ending, now), failures=failures)


def as_it_ended(run: Run, ending: Ending, now: datetime) -> Run:
    """The run in the state that this ending brings it to."""
    state = TRANSITIONS[run.state, EVENT_OF.get(ending.outcome, Event.RELEASE)]
    after = replace(run, state=state, exit_code=ending.exit_code, signal=ending.signal, claim_by=None)
    return replace(after, finished_at=now if state in OVER else None)


def _end(held: Granted, ending: Ending, now: datetime) -> AttemptEnd:
    return _ended(held, ending, ending.outcome, ending.note, now)


def _as_lost(held: Granted, ending: Ending, sight: Sight) -> Change:
    """Nothing but the record of this attempt, where there is one: what somebody has removed is not begun again."""
    return Change(closed=(_lost(held, ending, sight.now),) if sight.run(held.run.period) else ())


def _lost(held: Granted, ending: Ending, now: datetime) -> AttemptEnd:
    note = ending.note or f"ended ({ending.outcome}) after the lease was lost"
    return _ended(held, ending, Outcome.LOST, note, now)


def _ended(held: Granted, ending: Ending, outcome: Outcome, note: str | None, now: datetime) -> AttemptEnd:
    exit_code, signum = ending.exit_code, ending.signal
    return AttemptEnd(held.run.key, held.run.token, outcome, now, exit_code, signum, note, ending.captured)
