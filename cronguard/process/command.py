"""One command, from its start to its end: `supervise` is this room's one door.

It runs until it ends by itself, or is stopped: at its complete-by, when it
stalls, when its lease is lost, when cronguard is told to stop, when the ledger
asks for it, when the guardian dies. To stop is SIGTERM (or the signal that
arrived) and SIGCONT, then, after the grace, SIGKILL until nobody is left.

While the lease cannot be trusted the whole tree is frozen, and thawed when the
ledger says that the lease is still ours: an outage costs a pause, not the run.
"""

from __future__ import annotations

import gc
import os
import signal
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from cronguard.clock import NEVER, boottime
from cronguard.domain.run import Captured
from cronguard.process import oom
from cronguard.process.guardian import Worker
from cronguard.process.heartbeat import Trust
from cronguard.process.output import Output
from cronguard.process.signals import LONGEST_WAIT, STOP
from cronguard.process.spawn import Stub
from cronguard.process.terminal import has_hung_up
from cronguard.process.tree import Tree

STRAGGLERS_GET = 5.0  # seconds to end by themselves after the command has
DRAIN_FOR = 2.0  # seconds for what is still in the pipes once nobody is left to write
FORCED_BY = 3  # how many requests to stop it takes to stop asking


class Stopped(StrEnum):
    """Why a command did not end by itself; the later ones outweigh the earlier."""

    SIGNAL = "signal"
    ASKED = "asked"
    STALLED = "stalled"
    SILENCE = "silence"
    DEADLINE = "deadline"  # outweighs silence: a lease is cut to end with its run, and both come together
    ORPHANED = "orphaned"
    LOST = "lost"


class OnSilence(StrEnum):
    """What happens to the command while the ledger has not answered for nearly a lease."""

    FREEZE = "freeze"
    KILL = "kill"
    CONTINUE = "continue"


class Stragglers(StrEnum):
    """What happens to processes that the command leaves behind."""

    KILL = "kill"
    WAIT = "wait"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a command from outside."""

    trust: Trust
    grace: float  # seconds
    on_silence: OnSilence = OnSilence.FREEZE
    stragglers: Stragglers = Stragglers.KILL
    stall_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command ended, as data: by exit code or signal, stopped or not; or the errno it did not start with."""

    exit_code: int | None = None
    signal: int | None = None
    stopped: Stopped | None = None
    stop_signal: int | None = None
    start_errno: int | None = None
    why: str | None = None
    stragglers: int = 0
    survivors: tuple[int, ...] = ()
    oom_suspected: bool = False  # somebody in our cgroup was killed for want of memory meanwhile
    captured: Captured | None = None


def supervise(stub: Stub, output: Output, limits: Limits, worker: Worker) -> Ended:
    """Start the command and see it to its end; nothing that it has started is left running."""
    gc.freeze()
    gc.enable()  # off while cronguard started; a command may run for days
    failed = stub.start()
    tree = Tree(stub.pid)
    if failed:
        tree.kill()
        output.finish(DRAIN_FOR)
        return Ended(start_errno=failed)
    return _Supervision(tree, output, limits, worker).to_the_end()


class _Supervision:
    """The loop: look at the news and the clocks, act, wait, reap."""

    def __init__(self, tree: Tree, output: Output, limits: Limits, worker: Worker) -> None:
        self._tree = tree
        self._output = output
        self._limits = limits
        self._trust = limits.trust
        self._worker = worker
        self._reasons: list[Stopped] = []
        self._stop_signals: list[int] = []
        self._kill_at = NEVER
        self._ended_at = NEVER  # when the command itself ended, whatever it left behind
        self._stragglers = 0
        self._frozen = self._suspended = False
        self._oom_kills = oom.kills()

    def to_the_end(self) -> Ended:
        survivors: list[int] = []
        while not self._is_over() and not survivors:
            self._trust.supervised_at = boottime()
            self._mind_the_lease()
            self._take_signals()
            self._mind_the_clock()
            self._mind_the_stragglers()
            if boottime() >= self._kill_at:
                survivors = self._tree.kill()
            else:
                self._worker.signals.wait(self._next_look())
            self._tree.reap()
        return self._ended(survivors)

    def _is_over(self) -> bool:
        if self._tree.status is not None and self._ended_at == NEVER:
            self._ended_at = boottime()
        left = self._tree.status is not None and self._limits.stragglers is Stragglers.LEAVE and not self._reasons
        self._worker.link.left_running = left
        return self._tree.gone or left

    @property
    def _has_its_ending(self) -> bool:
        """Not while --stragglers wait has us wait for the rest of it."""
        return self._ended_at != NEVER and self._limits.stragglers is not Stragglers.WAIT

    @property
    def _grace(self) -> float:
        """Seconds between a request and the kill. Who is frozen cannot hear one, and may not move to answer it."""
        return 0.0 if self._frozen else self._limits.grace

    # ----------------------------------------------------------------------- what happens

    def _take_signals(self) -> None:
        if self._worker.signals.orphaned:
            self._stop(Stopped.ORPHANED, signal.SIGKILL, kill_at=0)
        while (signum := self._worker.signals.take()) is not None:
            if signum == signal.SIGTSTP:
                self._suspend()
            elif signum == signal.SIGCONT:
                self._resume()
            elif signum in STOP:
                self._told_to_stop(signum)
            else:
                self._tree.signal_leader(signum)

    def _told_to_stop(self, signum: int) -> None:
        """Passed on each time; the first starts the grace, the third ends it."""
        self._stop_signals.append(signum)
        if len(self._stop_signals) == 1:
            self._stop(Stopped.SIGNAL, signum, kill_at=boottime() + self._grace)
        else:
            self._send(signum)
        if len(self._stop_signals) >= FORCED_BY:
            self._kill_at = 0

    def _mind_the_lease(self) -> None:
        """Freeze, ask, decide: the heartbeat goes on asking while the tree stands still."""
        trust, now = self._trust, boottime()
        if trust.lost:
            self._stop(Stopped.LOST, signal.SIGKILL, kill_at=0)
        if trust.stop_requested:
            self._stop(Stopped.ASKED, signal.SIGTERM, kill_at=now + self._grace)
        if self._limits.on_silence is OnSilence.FREEZE:
            self._freeze_while(now >= trust.until)
        elif self._limits.on_silence is OnSilence.KILL and self._ends_before_its_run(now):
            late = now >= trust.until  # we were frozen past the lease: not even a handler for SIGTERM may run any more
            self._stop(Stopped.SILENCE, signal.SIGKILL if late else signal.SIGTERM, kill_at=trust.until)

    def _ends_before_its_run(self, now: float) -> bool:
        """The lease, not the run: a lease is cut to end with its run, and then complete-by is the reason."""
        return now >= self._trust.stop_at and self._trust.stop_at < self._trust.complete_at - LONGEST_WAIT

    def _mind_the_clock(self) -> None:
        now, stall_after = boottime(), self._limits.stall_after
        if now >= self._trust.complete_at:
            self._stop(Stopped.DEADLINE, signal.SIGTERM, kill_at=self._trust.complete_at + self._grace)
        if stall_after and now >= self._last_sign_at() + stall_after.total_seconds():
            self._stop(Stopped.STALLED, signal.SIGTERM, kill_at=now + self._grace)

    def _last_sign_at(self) -> float:
        """Output, or a word by `cronguard beat`; a command that is not let move cannot give one."""
        if self._frozen or self._suspended:
            self._trust.last_sign_at = boottime()
        return max(self._output.last_at, self._trust.last_sign_at)

    def _mind_the_stragglers(self) -> None:
        if self._ended_at == NEVER or self._tree.gone:
            return
        if not self._stragglers:
            self._stragglers = self._tree.count()
        overdue = boottime() >= self._ended_at + STRAGGLERS_GET
        if overdue and self._limits.stragglers is not Stragglers.WAIT and self._kill_at == NEVER:
            self._send(signal.SIGTERM)
            self._kill_at = boottime() + self._grace

    # ----------------------------------------------------------------------- what is done

    def _stop(self, why: Stopped, signum: int, kill_at: float) -> None:
        """Once for each reason; the earliest kill stands. A command that has ended by itself keeps its ending."""
        if why in self._reasons:
            return
        if self._has_its_ending and why is not Stopped.LOST:
            self._kill_at = min(self._kill_at, kill_at)
            return
        self._reasons.append(why)
        self._kill_at = min(self._kill_at, kill_at)
        if signum != signal.SIGKILL:
            self._send(signum)

    def _send(self, signum: int) -> None:
        """To the command's group, or, at a terminal, where the group is ours too, to everybody below us; who is
        stopped hears it only when it goes on. Nobody is thawed for it while the lease may be another's."""
        if self._frozen:
            return
        polite = self._tree.signal_group if self._worker.foreground is None else self._tree.signal_all
        for number in (signum, signal.SIGCONT):
            (polite if self._ended_at == NEVER else self._tree.signal_all)(number)

    def _freeze_while(self, untrusted: bool) -> None:
        """Again at each look: somebody else, such as a shell's `fg`, may have continued it."""
        if untrusted:
            self._frozen = True
            self._tree.freeze()
            self._worker.link.kill_at = NEVER  # frozen is as good as dead; the guardian need not kill
        elif self._frozen:
            self._frozen = False
            self._trust.on_news()  # arms the guardian's timer again
            if not self._suspended:
                self._tree.thaw()

    def _suspend(self) -> None:
        """Ctrl-Z by kill(1): the lease is kept, the command stands still."""
        self._suspended = True
        self._tree.freeze()

    def _resume(self) -> None:
        self._suspended = False
        if not self._frozen:
            self._tree.thaw()

    def _next_look(self) -> float:
        trust, stall = self._trust, self._limits.stall_after
        instants = [trust.complete_at, trust.stop_at, trust.until, self._kill_at, self._ended_at + STRAGGLERS_GET]
        if stall:
            instants.append(self._last_sign_at() + stall.total_seconds())
        return min((instant for instant in instants if instant > boottime()), default=NEVER)

    def _hear_the_terminal(self) -> None:
        """A window that is closed tells the command itself, which may end before the guardian has told us."""
        at_terminal = self._worker.foreground is not None and signal.SIGHUP not in self._worker.signals.caller.ignored
        if at_terminal and not self._reasons and has_hung_up(0):
            self._reasons.append(Stopped.SIGNAL)
            self._stop_signals.append(signal.SIGHUP)

    def _ended(self, survivors: list[int]) -> Ended:
        self._hear_the_terminal()
        status = self._tree.status
        code = os.waitstatus_to_exitcode(status) if status is not None else None
        captured = self._output.finish(DRAIN_FOR)
        return Ended(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            stopped=max(self._reasons, key=list(Stopped).index, default=None),
            stop_signal=self._stop_signals[0] if self._stop_signals else None,
            why=self._trust.stop_requested,
            stragglers=self._stragglers,
            survivors=tuple(survivors),
            oom_suspected=oom.kills() > self._oom_kills,
            captured=captured if self._output.seen else None,
        )
