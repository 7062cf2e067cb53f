"""A person steps in: reset, cancel, stop, pause, resume. Pure decisions, made while the job's row is locked.

What is live is never taken from its holder: a run whose lease is live can only
be asked to stop, and its holder reads that at its next beat. A run whose lease
is over is recovered first, as anybody would who came by. Who asked and why is
written in the same transaction as what it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from zoneinfo import ZoneInfo

from cronguard.domain.calendar import CalendarAsked, calendar_of
from cronguard.domain.expectation import expected_from
from cronguard.domain.lifecycle import TRANSITIONS, Event, lease_of, recover
from cronguard.domain.period import PeriodSource, period_named
from cronguard.domain.recovery import CLAIM_WITHIN
from cronguard.domain.run import Change, Job, Lease, Run, Sight, State
from cronguard.domain.said import Intervention, Verb, because


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asks for; without a period it is about the key, or about the one run of it that is live."""

    verb: Verb
    key: str
    period: str | None
    said_by: str
    reason: str | None = None


class Answer(StrEnum):
    """What became of it."""

    DONE = "done"
    ALREADY_SO = "already_so"
    NOT_LIVE = "not_live"  # nothing to stop
    LIVE = "live"  # a live run is never reset or cancelled, only asked to stop
    SUCCEEDED = "succeeded"
    SEVERAL = "several"  # live runs: which one is to stop?
    NO_RUN = "no_run"
    NO_KEY = "no_key"


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer, with what it is about as the ledger shows it: before a change that is yet to be made."""

    answer: Answer
    job: Job | None = None
    run: Run | None = None
    leases: tuple[Lease, ...] = ()


def intervene(wish: Wish, sight: Sight) -> tuple[Reply, Change]:
    """What becomes of a person's wish. Raises BadInput for a period that the key's calendar does not have."""
    if sight.job is None:
        return Reply(Answer.NO_KEY), Change()
    reply, change = _DECISIONS[wish.verb](wish, sight, sight.job)
    return reply, change.then(Change(said=(_taken_down(wish, reply, sight),))) if change else change


def _taken_down(wish: Wish, reply: Reply, sight: Sight) -> Intervention:
    period = reply.run.period if reply.run else wish.period
    return Intervention(wish.key, period, wish.verb, wish.said_by, wish.reason, sight.now)


# --------------------------------------------------------------------------- a run


def _reset(wish: Wish, sight: Sight, job: Job) -> tuple[Reply, Change]:
    """Over, for whatever reason but success: somebody may run it again, as if nobody had."""
    run = sight.run(wish.period or "")
    if run is None:
        return Reply(Answer.NO_RUN, job), Change()
    live = _live_lease(run, sight)
    if live or run.state is State.SUCCEEDED:
        return Reply(Answer.LIVE if live else Answer.SUCCEEDED, job, run, (live,) if live else ()), Change()
    if run.state is State.PENDING:
        return Reply(Answer.ALREADY_SO, job, run), Change()
    free, recovered = _recovered(run, sight, wish.said_by)
    state, claim_by = TRANSITIONS[free.state, Event.RESET], sight.now + (job.claim_within or CLAIM_WITHIN)
    after = replace(free, state=state, failures=0, recoveries=0, finished_at=None, claim_by=claim_by, reported_at=None)
    return Reply(Answer.DONE, job, run), recovered.then(Change(runs=(after,)))


def _cancel(wish: Wish, sight: Sight, job: Job) -> tuple[Reply, Change]:
    """Nobody shall run it, also if nobody has yet."""
    run = sight.run(wish.period or "")
    if run is None:
        after = replace(_unborn(wish, job), state=TRANSITIONS[None, Event.CANCEL], finished_at=sight.now)
        return Reply(Answer.DONE, job), Change(runs=(after,))
    live = _live_lease(run, sight)
    if live or run.state is State.SUCCEEDED:
        return Reply(Answer.LIVE if live else Answer.SUCCEEDED, job, run, (live,) if live else ()), Change()
    if run.state is State.CANCELLED:
        return Reply(Answer.ALREADY_SO, job, run), Change()
    free, recovered = _recovered(run, sight, wish.said_by)
    state, finished_at = TRANSITIONS[free.state, Event.CANCEL], free.finished_at or sight.now
    after = replace(free, state=state, finished_at=finished_at, claim_by=None)
    return Reply(Answer.DONE, job, run), recovered.then(Change(runs=(after,)))


def _live_lease(run: Run, sight: Sight) -> Lease | None:
    mine = next((lease for lease in sight.leases if lease.token == run.token), None)
    return mine if run.state is State.RUNNING and mine and not mine.lapsed(sight.now) else None


def _recovered(run: Run, sight: Sight, by: str) -> tuple[Run, Change]:
    """The run as it is when its lapsed lease is settled."""
    lease = lease_of(run, sight) if run.state is State.RUNNING else None
    return recover(run, lease, sight, by) if lease else (run, Change())


def _unborn(wish: Wish, job: Job) -> Run:
    """The run of a period that nobody has fired: its edges by the calendar that the key has stored."""
    calendar = calendar_of(CalendarAsked(ZoneInfo("UTC")), job)
    period = period_named(calendar.cadence, calendar.zone, wish.period or "")
    return Run(
        key=wish.key,
        period=period.label,
        state=State.PENDING,
        period_start=period.start,
        period_end=period.end,
        zone=calendar.zone.key,
        cadence=calendar.cadence.name,
        source=str(PeriodSource.LABEL),
    )


# --------------------------------------------------------------------------- a live run, a key


def _stop(wish: Wish, sight: Sight, job: Job) -> tuple[Reply, Change]:
    """Ask the holder to end it. What it makes of that is in its hands: nothing else of the run changes here."""
    run = sight.run(wish.period) if wish.period else None
    if wish.period and run is None:
        return Reply(Answer.NO_RUN, job), Change()
    live = tuple(lease for lease in sight.leases if not lease.lapsed(sight.now) and wish.period in (None, lease.period))
    if len(live) != 1:
        return Reply(Answer.SEVERAL if live else Answer.NOT_LIVE, job, run, live), Change()
    reply = Reply(Answer.ALREADY_SO if live[0].stop_requested else Answer.DONE, job, sight.run(live[0].period), live)
    if reply.answer is Answer.ALREADY_SO:
        return reply, Change()
    return reply, Change(updated=(replace(live[0], stop_requested=because(wish.said_by, wish.reason)),))


def _pause(wish: Wish, sight: Sight, job: Job) -> tuple[Reply, Change]:
    """No firing of the key starts anything; a run that is live goes on."""
    if job.paused_at:
        return Reply(Answer.ALREADY_SO, job), Change()
    after = replace(job, paused_at=sight.now, paused_by=wish.said_by, pause_reason=wish.reason)
    return Reply(Answer.DONE, job, leases=sight.leases), Change(job=after)


def _resume(_wish: Wish, sight: Sight, job: Job) -> tuple[Reply, Change]:
    if not job.paused_at:
        return Reply(Answer.ALREADY_SO, job), Change()
    after = replace(job, paused_at=None, paused_by=None, pause_reason=None)
    return Reply(Answer.DONE, job), Change(job=expected_from(after, sight.now))


_Decision = Callable[[Wish, Sight, Job], tuple[Reply, Change]]
_DECISIONS: dict[Verb, _Decision] = {
    Verb.RESET: _reset,
    Verb.CANCEL: _cancel,
    Verb.STOP: _stop,
    Verb.PAUSE: _pause,
    Verb.RESUME: _resume,
}
