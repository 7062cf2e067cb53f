"""What the services ask of a store. A store looks, locks and writes; it decides nothing.

Every call is one try: it either answers, or raises `LedgerUnavailable` (asking
again may help) or another `CronguardError`. A call that changes something may
safely be made again when its answer was lost; who asks again, and for how long,
is the services' affair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from cronguard.domain.run import Change, Job, Lease, Record, Sight, Skip, SkipReason
from cronguard.domain.step import Step

if TYPE_CHECKING:  # a run asks for none of these
    from cronguard.domain.effect import Effect, EffectState, Listing
    from cronguard.domain.ground import Ledger
    from cronguard.domain.metrics import Metrics
    from cronguard.domain.overview import Glance
    from cronguard.domain.progress import Inside
    from cronguard.domain.pruning import Aged, Keep, Pruning
    from cronguard.domain.stats import Counts
    from cronguard.domain.supervision import Supervisor, Survey


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


class Overview(Protocol):
    """What people ask about whole keys. Every answer reads a bounded number of rows a key, however long its history."""

    def jobs(self) -> Sequence[Job]:
        """Every key that the ledger knows, in order."""

    def glances(self, keys: Sequence[str]) -> Sequence[Glance]:
        """Each of these keys at a glance, all at one instant; one that is not there is left out."""

    def counts(self, key: str, last: int) -> Counts | None:
        """The last so many runs of a key, counted."""

    def unknown_effects(self) -> int:
        """How many effects somebody should look at, of whichever key, or of none."""


class PruningPage(Protocol):
    """One key, open and locked, and its oldest runs."""

    @property
    def aged(self) -> Aged:
        """What it showed when the lock was had."""

    def write(self, pruning: Pruning) -> None:
        """Take this away when the page closes, all of it or nothing."""


class Forgetful(Protocol):
    """How a ledger forgets: a small transaction at a time, each found by an index."""

    def count_aged(self, key: str, keep: Keep) -> int:
        """How many runs of a key are older than what is kept."""

    def pruning_page(self, key: str, keep: Keep, at_most: int) -> AbstractContextManager[PruningPage]:
        """Lock the key and look at the oldest of them."""

    def prune_skips(self, keep: Keep, after: int, at_most: int, *, dry_run: bool) -> tuple[int, int | None]:
        """Go through the next so many skips after this row, and take away the old ones of periods without a run.

        How many those were, and the last row that was looked at; None at the end of what is old.
        """


class Backlog(Protocol):
    """What a ledger knows of the other periods of a key, by plain reads that lock nothing."""

    def backlog(self, key: str, *, missed: bool = False, within: timedelta | None = None) -> Sight:
        """The runs that are pending or running (or missed), oldest first; those that ended within a while only."""

    def recorded(self, key: str, first: str, last: str) -> Sight:
        """The runs of the periods whose labels lie between two, and the last one before them."""


class Hold(Protocol):
    """A lock besides the claim, which the server or the kernel frees when its holder dies. One thread at a time."""

    def take(self, number: int) -> bool:
        """Have this lock; false when somebody else has it. Asked again, it is so already."""

    def is_cut(self) -> bool:
        """Whether it is known, without asking anybody, that the lock is gone."""

    def beat(self, lease: Lease, lease_for: timedelta, slack: timedelta) -> Beat | None:
        """Renew the lease, and look that the lock is still there; None when either is not."""

    def release(self) -> None:
        """Let go of it."""


class Holds(Protocol):
    """A ledger that also has such locks."""

    def hold(self) -> Hold:
        """The means to take one; raises CronguardError, naming the reason, where it could not be relied on."""


class Steps(Protocol):
    """The named parts of runs. They change by the page of their key, as all that belongs to it."""

    def steps_of(self, key: str, period: str) -> Sequence[Step]:
        """The steps of one run in their order, with what is remembered of their output."""


class Store(Backlog, Holds, Overview, Forgetful, Steps, Protocol):
    """A ledger."""

    @property
    def name(self) -> str:
        """For people: where the ledger is, without secrets."""

    @property
    def stands_alone(self) -> bool:
        """Whether it was to be durable, and the page that was opened last found no synchronous standby to wait for."""

    def connected(self) -> AbstractContextManager[None]:
        """Keep one connection for the calls inside; outside, each call makes and closes its own."""

    def look(self, key: str, period: str, foregone: Foregone | None = None) -> Sight:
        """What the ledger shows, by a plain read that locks nothing."""

    def page(self, key: str, period: str, runs: Sequence[str] = ()) -> AbstractContextManager[Page]:
        """Lock the key and look; what is written is committed on leaving, or nothing is.

        The runs of these periods, which will be written, are waited for before anything that a beat needs is locked.
        """

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


class EffectPage(Protocol):
    """Some effects, open to be changed; what is written is committed when it closes, all of it or nothing."""

    @property
    def now(self) -> datetime:
        """The ledger's clock when the page was opened."""

    @property
    def is_live(self) -> bool:
        """Whether the run that asks is live under its token, and so until the page closes; true where no run asks."""

    def add(self, claimed: Effect, subjects: Sequence[str]) -> dict[str, str]:
        """Claim those subjects that have no effect yet, like this one; the effect's new token by subject."""

    def claimable(self, claimed: Effect, subjects: Sequence[str]) -> Sequence[Effect]:
        """Those that are there already and might be claimed, locked: candidates only, the rest is not read."""

    def find(self, kind: str, period: str, subjects: Sequence[str]) -> Sequence[Effect]:
        """Those that are there, locked."""

    def overdue(self, limit: int) -> Sequence[Effect]:
        """Those whose send-by may have passed, locked; what others have locked is left to them."""

    def unreported(self, limit: int) -> Sequence[Effect]:
        """Those that became unknown and that no supervisor has told of, locked likewise."""

    def change(self, effects: Sequence[Effect]) -> None:
        """Write them as they are here; they were locked before."""


class EffectStore(Store, Protocol):
    """A ledger as whoever acts on the outside asks of it."""

    def effects(self, inside: Inside | None = None) -> AbstractContextManager[EffectPage]:
        """Open a page; the run that asks is held as it is until the page closes."""

    def list_effects(self, kind: str | None, period: str | None, state: EffectState | None, limit: int) -> Listing:
        """Effects by a plain read, the latest periods first; what was abandoned counts as unknown.

        They are of one kind, but for those that are unknown, which may be of any.
        """

    def has_kind(self, kind: str) -> bool:
        """Whether anything of this kind was ever claimed."""

    def abandoned_effects(self, limit: int) -> Sequence[Effect]:
        """Those that nobody confirmed in time and that no supervisor has told of, by a plain read."""


class SupervisedStore(EffectStore, Protocol):
    """A ledger as a supervisor asks of it: where to look, and one key's page at a time, if it is free."""

    def survey(self, keys: str | None, looked_back: timedelta, limit: int) -> Survey:
        """Where something may be to do, by a plain read of candidates only; `keys` may hold * and ?.

        Runs that ended longer than `looked_back` ago are left out.
        """

    def glance(self, key: str, periods: Sequence[str]) -> Sight:
        """What the ledger shows of these runs, and the open requests for them, by a plain read."""

    def page_if_free(
        self, key: str, periods: Sequence[str], wait_for: timedelta
    ) -> AbstractContextManager[Page | None]:
        """As `page`, of any number of periods; None where somebody else has it, who will settle it.

        Raises RowHeld where one of its rows is not had within `wait_for`.
        """

    def record_pass(self, done: Supervisor, kept_for: timedelta) -> None:
        """This host has passed over the ledger; hosts that have not for so long are forgotten."""

    def metrics(self, keys: str | None, runs: int) -> Metrics:
        """Figures of every key, counted over its newest `runs` runs."""


class Groundwork(Protocol):
    """A ledger as `cronguard doctor` asks of it: what it is like, whoever asks, and whether or not it has a schema."""

    def look(self, zone: str | None, instants: Sequence[datetime]) -> Ledger:
        """All facts, found by reading; the clocks of this zone at these instants, where it has zone data of its own.

        Raises CronguardError when it does not answer at all.
        """


@dataclass(frozen=True, slots=True)
class Way:
    """How a server is reached: an address, or the folder of its Unix socket, and the port that names either."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        return self.host.startswith("/")


class DrilledStore(SupervisedStore, Protocol):
    """A ledger as a drill asks of it, which removes all that it has written."""

    def lacking(self) -> str:
        """The right that this role lacks to remove what it has written, as the statement that grants it; or nothing."""

    def erase(self, key: str) -> None:
        """Remove a key from every table. For keys that nobody but a drill has made."""

    def by_way_of(self, detour: Callable[[Way], Way]) -> str | None:
        """The DSN of the same ledger, reached by a detour around its way of just now; None where there is no server."""
