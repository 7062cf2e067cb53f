"""What the services ask of a store. A store looks, locks and writes; it decides nothing.

Every call is one try: it either answers, or raises `LedgerUnavailable` (asking
again may help) or another `CronguardError`. A call that changes something may
safely be made again when its answer was lost; who asks again, and for how long,
is the services' affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from cronguard.domain.run import Change, Lease, Record, Sight, Skip, SkipReason


@dataclass(frozen=True, slots=True)
class Foregone:
    """Refusals that the caller has already decided on, for what the look may find.

    With them a store notes the caller's skip while it looks, so that a losing
    firing costs one round trip. They hold only where the caller's guess of the
    period does: while the ledger's clock is in [valid_from, valid_until), and
    where the key's stored calendar is the guessed one (None: whatever it is).
    """

    if_succeeded: SkipReason | None
    if_held: SkipReason | None
    lanes: tuple[str, ...] | None  # leases in these lanes count; None: in any
    host: str
    pid: int
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    cadence: str | None = None
    zone: str | None = None
    schedule: str | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    """The ledger's answer to a holder that renews: how long it has now, and what it should know of its run."""

    lease_until: datetime
    now: datetime
    stop_requested: str | None = None
    complete_by: datetime | None = None  # None: never; `cronguard extend` may have moved it
    progressed_at: datetime | None = None  # when the command last said that it gets on


class Page(Protocol):
    """One key's part of the ledger, open and locked: nobody else can change it until it is closed."""

    @property
    def sight(self) -> Sight:
        """What it showed when the lock was had."""

    def write(self, change: Change) -> None:
        """Write this when the page closes, all of it or nothing."""


class Store(Protocol):
    """A ledger."""

    @property
    def name(self) -> str:
        """For people: where the ledger is, without secrets."""

    def connected(self) -> AbstractContextManager[None]:
        """Keep one connection for the calls inside; outside, each call makes and closes its own."""

    def look(self, key: str, period: str, foregone: Foregone | None = None) -> Sight:
        """What the ledger shows, by a plain read that locks nothing."""

    def page(self, key: str, period: str) -> AbstractContextManager[Page]:
        """Lock the key and look; what is written is committed on leaving, or nothing is."""

    def beat(self, lease: Lease, lease_for: timedelta, slack: timedelta) -> Beat | None:
        """Renew a lease by one guarded statement, to `slack` after its complete-by at most.

        None when it is no longer this holder's.
        """

    def note(self, skip: Skip) -> None:
        """Record one firing that ran nothing."""

    def history(self, key: str | None, limit: int) -> Sequence[Record]:
        """The latest runs, newest first, with the number of skips of each."""

    def show(self, key: str, period: str | None) -> Record | None:
        """One run (the newest without a period) with its attempts and skips."""

    def migrate(self) -> tuple[int, int]:
        """Create or upgrade the schema; the version before (0: none) and after."""

    def close(self) -> None:
        """Let go of whatever is open."""
