"""The nouns: a job, its runs, their attempts, the lease that one holder has, the skips of all others.

Everything here is a frozen value. All instants are aware and UTC, by the
ledger's clock. A value that came out of a store and one that is about to go in
are the same type.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from cronguard.domain.recovery import Recovery
from cronguard.domain.said import Intervention
from cronguard.domain.step import Step
from cronguard.errors import BadInput

MAX_NAME_BYTES = 255  # keys and period labels; the schema repeats it
NOT_AT_ALL = timedelta()


class State(StrEnum):
    """Where a run stands. Stale (running, lease over) and late are derived, never stored."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    DEAD = "dead"
    MISSED = "missed"
    CANCELLED = "cancelled"


class Outcome(StrEnum):
    """How one attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    START_FAILED = "start_failed"
    TIMED_OUT = "timed_out"
    STALLED = "stalled"
    INTERRUPTED = "interrupted"
    LOST = "lost"


class SkipReason(StrEnum):
    """Why a firing did not run its command."""

    HELD = "held"
    ALREADY_SUCCEEDED = "already_succeeded"
    ATTEMPTS_SPENT = "attempts_spent"
    RECOVERIES_SPENT = "recoveries_spent"
    ECHO = "echo"
    TOO_LATE = "too_late"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    PRUNED = "pruned"
    RESULT_WAITING = "result_waiting"


class Exclusive(StrEnum):
    """What may run at the same time: one run of the key, or one of each period."""

    KEY = "key"
    PERIOD = "period"


class Lock(StrEnum):
    """What a holder has its run by: the claim alone, or a lock besides that dies with it."""

    CLAIM = "claim"
    ADVISORY = "advisory"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a run: a fresh UUID for each process, with host and pid as labels for people."""

    id: str
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Job:
    """One key: its last token, its calendar, and what an operator said about it."""

    key: str
    token: int = 0
    cadence: str | None = None
    zone: str | None = None
    schedule: str | None = None
    last_period: str | None = None
    last_started_at: datetime | None = None
    pruned_before: datetime | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    claim_within: timedelta | None = None  # how soon somebody should come for a run of it that waits
    start_by: str | None = None  # as it was typed
    expected_until: datetime | None = None  # the ticks of its schedule up to here have been judged
    expected_by: datetime | None = None  # when the next one is missed, unless somebody runs it


@dataclass(frozen=True, slots=True)
class Progress:
    """What a command last said of itself, and when: `3/10`, `40%` or `3`, and a note."""

    at: datetime
    text: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one holder to run one period, until `lease_until`; the one row that beats touch."""

    key: str
    lane: str
    period: str
    token: int
    holder: Holder
    lease_until: datetime
    stop_requested: str | None = None
    complete_by: datetime | None = None  # that of its run, here too: the beats' one statement reads no other row
    extend_max: timedelta = NOT_AT_ALL
    extended_for: timedelta = NOT_AT_ALL
    extension_id: str | None = None  # of the last call that extended it, which may ask again
    progress: Progress | None = None
    advisory_lock: int | None = None  # its number, where the holder keeps one besides the claim
    is_abandoned: bool = False  # that lock is free: its holder is gone, however long the lease would last

    def lapsed(self, now: datetime) -> bool:
        return self.is_abandoned or self.lease_until < now


@dataclass(frozen=True, slots=True)
class Run:
    """The ledger's record of one key and one period; it shows its latest attempt."""

    key: str
    period: str
    state: State
    lane: str = ""
    attempt: int = 0
    failures: int = 0
    recoveries: int = 0
    attempts_allowed: int = 1
    recoveries_allowed: int = 3
    token: int = 0
    holder: Holder | None = None
    period_start: datetime | None = None
    period_end: datetime | None = None
    zone: str | None = None
    cadence: str | None = None
    source: str | None = None
    slot: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    complete_by: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    extended_for: timedelta = NOT_AT_ALL
    progress: Progress | None = None
    claim_by: datetime | None = None  # while it waits: until when somebody should have come
    reported_at: datetime | None = None  # when a supervisor told that it ended badly
    steps_hash: str | None = None  # of the list of steps that it was started with


@dataclass(frozen=True, slots=True)
class Captured:
    """What is remembered of a command's output: its first and its last bytes, of both streams as they came."""

    head: bytes = b""
    tail: bytes = b""  # of what came after the head: together they are all of it, or have a gap between them
    total: int = 0  # bytes of both streams
    notes: tuple[str, ...] = ()

    @property
    def left_out(self) -> int:
        return self.total - len(self.head) - len(self.tail)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a run, under a token of its own."""

    key: str
    period: str
    token: int
    attempt: int
    holder: Holder
    started_at: datetime
    requested_by: str | None = None
    finished_at: datetime | None = None
    outcome: Outcome | None = None
    exit_code: int | None = None
    signal: int | None = None
    note: str | None = None
    captured: Captured | None = None


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How the attempt with this token ended: the part of it that is written last."""

    key: str
    token: int
    outcome: Outcome
    finished_at: datetime
    exit_code: int | None = None
    signal: int | None = None
    note: str | None = None
    captured: Captured | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """One firing that ran nothing, and why."""

    key: str
    period: str
    reason: SkipReason
    seen_at: datetime
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Sight:
    """What the ledger shows of one key and one period, at one instant of its own clock."""

    now: datetime
    job: Job | None = None
    leases: tuple[Lease, ...] = ()
    runs: tuple[Run, ...] = ()
    noted: SkipReason | None = None
    requests: tuple[Recovery, ...] = ()  # the open ones, where a supervisor looks
    is_locked_out: bool = False  # the advisory lock that the claim needs is somebody else's
    steps: tuple[Step, ...] = ()  # of the periods that were asked for, in their order

    def run(self, period: str) -> Run | None:
        return next((run for run in self.runs if run.period == period), None)

    def step(self, name: str) -> Step | None:
        return next((step for step in self.steps if step.name == name), None)


@dataclass(frozen=True, slots=True)
class Change:
    """What one decision writes into a page. The store writes it as it stands and decides nothing."""

    job: Job | None = None
    runs: tuple[Run, ...] = ()
    recalled: tuple[Attempt, ...] = ()  # opened before, and forgotten by a ledger that failed over
    opened: tuple[Attempt, ...] = ()
    closed: tuple[AttemptEnd, ...] = ()
    taken: tuple[Lease, ...] = ()
    updated: tuple[Lease, ...] = ()  # all of it but how long it lasts, which is the beats' affair
    dropped: tuple[Lease, ...] = ()
    skips: tuple[Skip, ...] = ()
    requested: tuple[Recovery, ...] = ()
    followed: tuple[Recovery, ...] = ()  # requests of before: announced, or missed
    said: tuple[Intervention, ...] = ()
    steps: tuple[Step, ...] = ()
    forgotten: tuple[Step, ...] = ()

    def then(self, later: Change) -> Change:
        """Both changes as one; a run that both write is written as the later one has it.

        What the first requests and the later one starts is taken as soon as it is asked for.
        """
        again = {run.period for run in later.runs}
        started = {attempt.period: attempt.started_at for attempt in later.opened}
        requested = tuple(replace(request, taken_at=started.get(request.period)) for request in self.requested)
        return Change(
            job=later.job or self.job,
            runs=tuple(run for run in self.runs if run.period not in again) + later.runs,
            recalled=self.recalled + later.recalled,
            opened=self.opened + later.opened,
            closed=self.closed + later.closed,
            taken=self.taken + later.taken,
            updated=self.updated + later.updated,
            dropped=self.dropped + later.dropped,
            skips=self.skips + later.skips,
            requested=requested + later.requested,
            followed=self.followed + later.followed,
            said=self.said + later.said,
            steps=self.steps + later.steps,
            forgotten=self.forgotten + later.forgotten,
        )

    def __bool__(self) -> bool:
        leases, steps = self.taken or self.updated or self.dropped, self.steps or self.forgotten
        told = self.skips or self.requested or self.followed or self.said
        return bool(self.job or self.runs or self.recalled or self.opened or self.closed or leases or steps or told)


@dataclass(frozen=True, slots=True)
class Record:
    """All that the ledger knows of one period, for history and show; without a run when every firing was skipped."""

    key: str
    period: str
    run: Run | None = None
    skips: int = 0
    attempts: tuple[Attempt, ...] = ()
    skipped: tuple[Skip, ...] = ()
    steps: tuple[Step, ...] = ()
    said: tuple[Intervention, ...] = ()
    lease_until: datetime | None = field(default=None)
    now: datetime | None = None


def parse_name(text: str, what: str) -> str:
    """A key or a free label: 1 to 255 bytes of UTF-8, no control characters, no blanks around it."""
    if not text:
        raise BadInput(f"the {what} is empty; give it a name such as daily_digest")
    if len(text.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
        raise BadInput(f"the {what} is longer than {MAX_NAME_BYTES} bytes; shorten it")
    if not text.isprintable():
        raise BadInput(f"the {what} {text!a} has control or unprintable characters; use letters, digits and _ - . / :")
    if text != text.strip():
        raise BadInput(f"the {what} {text!r} begins or ends with a blank; leave it out")
    return text


def parse_key(text: str) -> str:
    """Validate a key; raises BadInput."""
    return parse_name(text, "key")


def seconds(value: timedelta) -> float:
    return value.total_seconds()
