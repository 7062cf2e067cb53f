"""What a firing asks for, and the two answers it can get."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cronguard.domain.run import NOT_AT_ALL, Attempt, Exclusive, Holder, Lease, Lock, Run, SkipReason
from cronguard.errors import BadInput

if TYPE_CHECKING:
    from cronguard.domain.deadline import Deadline
    from cronguard.domain.period import Calendar, Chosen
    from cronguard.domain.step import StepList

BEATS_PER_LEASE = 6
BEATS_A_LEASE_MUST_HOLD = 3  # one lost beat must not cost the lease (client-go's ratio rule)
BEATS_BEFORE_A_STALL = 2
TRUST_MARGIN = timedelta(seconds=2)  # between the tree being dead and the lease being over


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How long a lease lasts, how often it is renewed, and when its holder must have stopped.

    A holder that hears nothing asks its command to stop at `last good beat sent
    + lease - margin - stop_grace` and kills it at `… - margin`, so that the
    command is dead before anybody else may have the lease.
    """

    lease_for: timedelta
    beat_every: timedelta
    stop_grace: timedelta
    margin: timedelta = TRUST_MARGIN

    @property
    def slack(self) -> timedelta:
        """How long after its complete-by a run may keep its lease: to stop its command, and to be sure of it."""
        return self.stop_grace + self.margin

    @classmethod
    def of(
        cls,
        lease_for: timedelta,
        stop_grace: timedelta,
        beat_every: timedelta | None = None,
        stall_after: timedelta | None = None,
    ) -> LeaseTerms:
        """Terms that hold together; raises BadInput, naming what to change."""
        terms = cls(lease_for, beat_every or _beat_every(lease_for, stall_after), stop_grace)
        if stall_after and stall_after < terms.beat_every * BEATS_BEFORE_A_STALL:
            raise BadInput(
                f"a --stall-after of {_s(stall_after)} is shorter than two beats of {_s(terms.beat_every)}, which "
                "bring what the command says by cronguard beat; lengthen --stall-after or shorten --beat-every"
            )
        if lease_for < terms.beat_every * BEATS_A_LEASE_MUST_HOLD:
            raise BadInput(
                f"a lease of {_s(lease_for)} is shorter than three beats of {_s(terms.beat_every)}; "
                "lengthen --lease or shorten --beat-every"
            )
        if lease_for <= stop_grace + terms.margin + terms.beat_every:
            raise BadInput(
                f"a lease of {_s(lease_for)} is too short: it must be longer than --stop-grace ({_s(stop_grace)}) plus "
                f"a margin of {_s(terms.margin)} plus one beat ({_s(terms.beat_every)}); "
                "lengthen --lease or shorten --stop-grace"
            )
        return terms


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What one invocation says about its job."""

    key: str
    terms: LeaseTerms
    complete_by: Deadline | None = None  # None: the cadence's length
    start_by: Deadline | None = None
    exclusive: Exclusive = Exclusive.KEY
    attempts: int = 1
    recoveries: int = 3
    rerun: bool = False
    force: bool = False
    requested_by: str | None = None
    extend_max: timedelta = NOT_AT_ALL
    claim_within: timedelta | None = None  # None: by the cadence
    lock: Lock = Lock.CLAIM
    steps: StepList | None = None  # None: one command, which may have steps of its own
    accept_changed_steps: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """One firing's question to the ledger: may I run this period of this job now?"""

    spec: JobSpec
    holder: Holder
    calendar: Calendar
    chosen: Chosen
    fired_at: datetime

    @property
    def key(self) -> str:
        return self.spec.key

    @property
    def period(self) -> str:
        return self.chosen.period.label

    @property
    def lane(self) -> str:
        """What excludes what: leases in one lane exclude each other; the empty lane excludes all."""
        return self.period if self.spec.exclusive is Exclusive.PERIOD else ""

    @property
    def advisory_lock(self) -> int | None:
        """The number of the lock to have besides; None: the claim alone will do."""
        if self.spec.lock is Lock.CLAIM:
            return None
        from cronguard.domain.advisory import lock_number  # noqa: PLC0415  hashlib, only where there is a lock

        return lock_number(self.key, self.lane)


@dataclass(frozen=True, slots=True)
class Granted:
    """Run it: the run, this attempt of it, and the lease to keep alive."""

    run: Run
    attempt: Attempt
    lease: Lease
    now: datetime


@dataclass(frozen=True, slots=True)
class Skipped:
    """Do not run it, and why; with the run and the lease that stand in the way, where there are any."""

    reason: SkipReason
    now: datetime
    run: Run | None = None
    held_by: Lease | None = None
    detail: str = ""


def _beat_every(lease_for: timedelta, stall_after: timedelta | None) -> timedelta:
    """The beats also bring what the command says of itself: well before it would be taken for stalled."""
    often = lease_for / BEATS_PER_LEASE
    return min(often, stall_after / (BEATS_BEFORE_A_STALL + 1)) if stall_after else often


def _s(value: timedelta) -> str:
    return f"{value.total_seconds():g}s"
