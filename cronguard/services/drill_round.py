"""One round of a drill: fire the replicas, do harm to whoever got the run, wait for the others, look at the marks.

Without a key the replicas run the bare command, and all the rest is the same.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cronguard.clock import boottime
from cronguard.domain.drill import PERIOD, TERMS, Harm, Round, Scenario, Seen
from cronguard.domain.run import State
from cronguard.domain.supervision import Finding, Found
from cronguard.domain.witness import is_lost, successor
from cronguard.errors import CRONGUARD_FAILED, LEDGER_UNREACHABLE, CronguardError, LedgerUnavailable
from cronguard.ports import DrilledStore, Way
from cronguard.process.proxy import Proxy
from cronguard.process.replicas import CRONGUARD, CRONGUARD_OFF_BY, Replica, Stage, send
from cronguard.services.ledger import Ledger
from cronguard.services.results import Spool
from cronguard.services.supervise import Watch, supervise

_Happened = TypeVar("_Happened")

LOOKS_EVERY = 0.05  # seconds
WORKS_FOR = 0.3  # seconds that a command is left to work
PATIENCE = 90.0  # seconds: nothing of a round takes so long, even on a host that is busy
SUPERVISED_EVERY = 0.25  # seconds between two passes of each supervisor
A_DAY_AHEAD = "86400"  # seconds
_RUN = ("run", "--tz", "UTC", "--complete-by", "2m", "--capture", "0")
_SHORT_LEASE = (
    "--lease", f"{TERMS.lease_for.total_seconds():g}s", "--beat-every", f"{TERMS.beat_every.total_seconds():g}s",
    "--stop-grace", f"{TERMS.stop_grace.total_seconds():g}s",
)  # fmt: skip


class Teller(Protocol):
    """Whoever shows the person at the terminal what goes on."""

    def may_begin(self, ledger: str, left: Sequence[str]) -> None: ...
    def begins(self, scenario: Scenario, number: int, *, guarded: bool) -> None: ...
    def looks(self, lanes: Sequence[Seen]) -> None: ...
    def left_behind(self, key: str, reason: Exception) -> None: ...


@dataclass(frozen=True, slots=True)
class Means:
    """What it takes to hold a drill."""

    store: DrilledStore
    ledger: Ledger  # asked until a signal comes
    patient: Ledger  # asked whatever signal comes
    spool: Spool  # an empty one, for the drill's supervisors
    stage: Stage
    pause: Callable[[float], None]  # raises Interrupted when a signal has come
    environment: Callable[[str | None], dict[str, str]]  # of a replica; with a DSN other than the ledger's own
    tell: Teller


class _InVain(Exception):
    """What was waited for does not happen."""


class Playing:
    """A round that is on."""

    def __init__(self, scenario: Scenario, number: int, key: str | None, replicas: int, means: Means) -> None:
        self._scenario, self._number, self._key, self._replicas = scenario, number, key, replicas
        self._means = means
        self._cast = means.stage.cast()
        self._harmed: dict[int, Seen] = {}  # replicas, by number
        self._harmed_at = 0.0
        self._kept: set[int] = set()  # replicas that are not to come to their end yet
        self._proxies: dict[int, Proxy] = {}
        self._complaints: list[str] = []
        self._recovered_in: float | None = None

    def to_the_end(self) -> Round:
        """Play it; what the commands have marked. Raises CronguardError where no guard could begin."""
        try:
            self._play()
        except _InVain as waited_for:
            self._complaints.append(f"waited in vain for {waited_for}")
            self._means.stage.clear()
        finally:
            for proxy in self._proxies.values():
                proxy.close()
        self._cast.look()
        if self._key is not None:
            self._check_begun()
            self._compare(self._key)
        return Round(tuple(self._cast.courses), self._recovered_in, tuple(self._complaints))

    def _play(self) -> None:
        everybody = range(1, self._replicas + 1)
        self._fire(everybody[:1] if self._comes_later else everybody)
        if self._scenario.harm is not Harm.NONE:
            holder = self._until(self._holder, "a replica to start the command")
            self._harm(holder)
            if self._comes_later:
                self._supervise(self._key or "")
                self._fire(everybody[1:])
            self._until(lambda: self._is_followed(holder), "another replica to run it")
            self._repair(holder)
        self._until(lambda: self._cast.is_empty, "everybody to be gone")

    @property
    def _comes_later(self) -> bool:
        """Whether the others are fired only when a recovery was requested."""
        return self._scenario.is_supervised and self._key is not None

    # ----------------------------------------------------------------------- the replicas

    def _fire(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._cast.start(number, self._argv(number), self._environment(number))

    def _argv(self, number: int) -> list[str]:
        command = self._cast.command(number)
        if self._key is None:
            return command
        is_ahead = self._scenario.is_ahead and number == 1
        program = (*CRONGUARD_OFF_BY, A_DAY_AHEAD) if is_ahead else CRONGUARD
        period = ("--every", "day") if self._scenario.is_ahead else ("--every", "run", "--period", PERIOD)
        # Where nobody is harmed, nobody comes after who is too slow to keep a short lease.
        lease = () if self._scenario.harm is Harm.NONE else (*_SHORT_LEASE, "--if-held", "wait")
        return [*program, *_RUN, *lease, "--key", self._key, *period, "--", *command]

    def _environment(self, number: int) -> dict[str, str]:
        """Each has a way to the ledger of its own, where one of them is to be cut."""
        is_cut = self._key is not None and self._scenario.harm is Harm.CUT
        return self._means.environment(self._means.store.by_way_of(self._proxied(number)) if is_cut else None)

    def _proxied(self, number: int) -> Callable[[Way], Way]:
        def detour(server: Way) -> Way:
            proxy = self._proxies[number] = Proxy(server, self._means.stage.place_of_socket())
            return proxy.way

        return detour

    # ----------------------------------------------------------------------- the harm

    def _harm(self, holder: Replica) -> None:
        done_at = boottime()
        match self._scenario.harm:
            case Harm.HOST_DIES:
                send(signal.SIGSTOP, holder.everybody)  # so that none of them can say anything of the others
                send(signal.SIGKILL, holder.everybody)
                self._harmed[holder.number] = Seen.KILLED
            case Harm.GUARD_DIES:  # its guardian in one round, its worker in the next
                send(signal.SIGKILL, holder.guard[(self._number + 1) % 2 :][:1] or holder.everybody)
                self._harmed[holder.number] = Seen.KILLED
            case Harm.FREEZE:
                self._freeze(holder)
                self._harmed[holder.number] = Seen.FROZEN
            case Harm.CUT if holder.number in self._proxies:
                self._proxies[holder.number].cut()
                self._harmed[holder.number] = Seen.CUT
        self._harmed_at = done_at

    def _freeze(self, holder: Replica) -> None:
        """Not in the midst of a write: one to a ledger in a file would keep everybody else away."""

        def between_two_writes() -> None:
            with self._means.store.page(self._key, PERIOD) if self._key else nullcontext():
                send(signal.SIGSTOP, holder.everybody)

        self._means.ledger.ask(between_two_writes)

    def _repair(self, holder: Replica) -> None:
        """Whoever was frozen or cut off comes back, too late: the guard to its senses, not yet its command."""
        if self._scenario.harm is Harm.FREEZE:
            send(signal.SIGCONT, holder.guard or holder.everybody)
        if holder.number in self._proxies:
            self._proxies[holder.number].restore()
        self._kept.discard(holder.number)
        if self._harmed.get(holder.number) is not Seen.KILLED:
            self._harmed.pop(holder.number, None)

    def _holder(self) -> Replica | None:
        first = self._first()
        if first is None and self._cast.is_empty:
            raise _InVain("a replica to start the command: all are gone")
        return first

    def _first(self) -> Replica | None:
        """Whoever started first; it does not come to its end before harm was done to it."""
        started = [replica for replica in self._cast.replicas if replica.course]
        first = min(started, key=lambda replica: replica.course.first if replica.course else 0.0, default=None)
        self._kept |= {first.number} if first else set()
        return first

    def _is_followed(self, holder: Replica) -> bool:
        course = holder.course
        after = successor(self._cast.courses, course) if course else None
        if after is None:
            return all(replica.is_over for replica in self._cast.replicas if replica is not holder)
        self._recovered_in = max(0.0, after.first - self._harmed_at) if self._key else None
        return True

    # ----------------------------------------------------------------------- waiting, and looking

    def _until(self, happened: Callable[[], _Happened | None], what: str) -> _Happened:
        """Look again and again, and end what has worked long enough; raises _InVain in the end."""
        give_up_at = boottime() + PATIENCE
        while boottime() < give_up_at:
            self._look()
            if answer := happened():
                return answer
            self._means.pause(LOOKS_EVERY)
        raise _InVain(what)

    def _look(self) -> None:
        self._cast.look()
        if self._scenario.harm is not Harm.NONE and not self._harmed_at:
            self._first()
        for replica in self._cast.replicas:
            course = replica.course
            if course and course.last - course.first >= WORKS_FOR and replica.number not in self._kept:
                replica.tell_done()
        there = {replica.number: replica for replica in self._cast.replicas}
        self._means.tell.looks([self._seen(number, there.get(number)) for number in range(1, self._replicas + 1)])

    def _seen(self, number: int, replica: Replica | None) -> Seen:
        if number in self._harmed:
            return self._harmed[number]
        if replica is None:
            return Seen.WAITS
        if replica.course:
            return Seen.DONE if replica.course.ended else Seen.OVER if replica.is_over else Seen.RUNS
        return Seen.OVER if replica.is_over else Seen.WAITS

    # ----------------------------------------------------------------------- two supervisors

    def _supervise(self, key: str) -> None:
        """Two of them pass over this key, at the same moments, until the death is seen; once more, when it was."""
        found: list[Finding] = []
        self._until(
            lambda: self._both_pass(key, found) or self._states(key) == [State.PENDING], "a supervisor's request"
        )
        self._both_pass(key, found)
        requested = sum(finding.found is Found.RECOVERY for finding in found)
        if requested > 1:  # where it is 0, another supervisor of this ledger was quicker
            self._complaints.append(f"the recovery was requested {requested} times")

    def _both_pass(self, key: str, found: list[Finding]) -> list[Finding]:
        together = threading.Barrier(2)
        passes = [threading.Thread(target=self._pass, args=(key, found, together)) for _ in range(2)]
        for one in passes:
            one.start()
        for one in passes:
            one.join()
        self._means.pause(SUPERVISED_EVERY)
        return found

    def _pass(self, key: str, found: list[Finding], together: threading.Barrier) -> None:
        """As `cronguard supervise --key` does; but no host's last pass is overwritten by it."""
        means, watch = self._means, Watch("drill", TERMS.lease_for, key, is_recorded=False)
        together.wait(PATIENCE)
        with suppress(CronguardError):  # it is asked again at the next pass
            found += supervise(watch, means.store, means.patient, means.spool, _NobodyIsTold()).findings

    # ----------------------------------------------------------------------- what the ledger says

    def _check_begun(self) -> None:
        """Where nobody reached the ledger no promise was kept, and none broken."""
        codes = {one.code for one in self._cast.replicas}
        if codes <= {LEDGER_UNREACHABLE, CRONGUARD_FAILED} and not self._cast.courses:
            kind = LedgerUnavailable if LEDGER_UNREACHABLE in codes else CronguardError
            said = self._cast.replicas[0].complaint.removeprefix("cronguard: ")
            raise kind(f"{self._scenario.name}: no replica could begin, one says: {said}")

    def _compare(self, key: str) -> None:
        """What was run to its end reads as a success, once; who was in the way of it is asked why."""
        if is_lost(self._cast.courses):
            complaints = (f"replica {one.number}: {one.complaint}" for one in self._cast.replicas if one.complaint)
            self._complaints += [*complaints][:1]
        states = self._states(key)
        if states != [State.SUCCEEDED]:
            said = " and ".join(states) or "nothing"
            self._complaints.append(f"the ledger says {said} where it should say succeeded")

    def _states(self, key: str) -> list[State]:
        return [record.run.state for record in self._means.ledger.history(key, 2) if record.run]


class _NobodyIsTold:
    def found(self, finding: Finding) -> None:
        """The drill looks at what a pass returns."""
