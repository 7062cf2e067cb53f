"""One command, from its start to its end: `supervise` is this room's one door.

It runs until it ends by itself, or is stopped: at its complete-by, when its
lease is lost or may no longer be trusted, when cronguard is told to stop, when
the ledger asks for it. To stop is SIGTERM (or the signal that arrived) and
SIGCONT, then, after the grace, SIGKILL.
"""

from __future__ import annotations

import gc
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from cronguard.process.clock import boottime
from cronguard.process.heartbeat import Trust
from cronguard.process.signals import LONGEST_WAIT, STOP, Signals
from cronguard.process.spawn import Command, interactive, spawn

NEVER = float("inf")


class Stopped(StrEnum):
    """Why a command did not end by itself; the later ones outweigh the earlier."""

    SIGNAL = "signal"
    ASKED = "asked"
    SILENCE = "silence"
    DEADLINE = "deadline"  # outweighs silence: a lease is cut to end with its run, and both come together
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a command from outside; instants are boottime."""

    trust: Trust
    grace: float  # seconds
    complete_at: float = NEVER


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command ended, as data: by exit code or signal, stopped or not; or the errno it did not start with."""

    exit_code: int | None = None
    signal: int | None = None
    stopped: Stopped | None = None
    stop_signal: int | None = None
    start_errno: int | None = None
    why: str | None = None


def supervise(command: Command, limits: Limits, signals: Signals) -> Ended:
    """Run the command to its end and say how it ended; nothing of its group is left running."""
    gc.freeze()
    gc.enable()  # off while cronguard started; a command may run for days
    at_terminal = interactive(signals.interrupt_was_ignored)
    try:
        pid = spawn(command, own_session=not at_terminal, mask=signals.mask)
    except OSError as error:
        return Ended(start_errno=error.errno)
    return _Supervision(_Child(pid, at_terminal), limits, signals).to_the_end()


class _Supervision:
    """The loop: reap, look at the clocks and the news, act, wait."""

    def __init__(self, child: _Child, limits: Limits, signals: Signals) -> None:
        self._child = child
        self._limits = limits
        self._signals = signals
        self._stopped: Stopped | None = None
        self._acted_on: set[Stopped] = set()
        self._stop_signal: int | None = None
        self._kill_at = NEVER

    def to_the_end(self) -> Ended:
        while (status := self._child.reap(finally_kill=self._stopped is not None)) is None:
            self._pass_signals_on()
            self._mind_the_limits()
            if boottime() >= self._kill_at:
                self._child.signal(signal.SIGKILL)
            self._signals.wait(self._next_look())
        code = os.waitstatus_to_exitcode(status)
        return Ended(
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            stopped=self._stopped,
            stop_signal=self._stop_signal,
            why=self._limits.trust.stop_requested,
        )

    def _pass_signals_on(self) -> None:
        while (signum := self._signals.take()) is not None:
            if self._child.hears(signum):
                continue
            if signum in STOP and self._stop_signal is None:
                self._stop_signal = signum
                self._stop(Stopped.SIGNAL, signum, kill_at=boottime() + self._limits.grace)
            else:
                self._child.signal(signum)

    def _mind_the_limits(self) -> None:
        trust, limits, now = self._limits.trust, self._limits, boottime()
        if trust.lost:
            self._stop(Stopped.LOST, signal.SIGKILL, kill_at=now)
        if now >= trust.until:  # frozen past its lease: not even a handler for SIGTERM may run any more
            self._stop(Stopped.SILENCE, signal.SIGKILL, kill_at=now)
        if trust.stop_requested:
            self._stop(Stopped.ASKED, signal.SIGTERM, kill_at=now + limits.grace)
        if now >= limits.complete_at:
            self._stop(Stopped.DEADLINE, signal.SIGTERM, kill_at=limits.complete_at + limits.grace)
        if now >= trust.stop_at and trust.stop_at < limits.complete_at - LONGEST_WAIT:
            self._stop(Stopped.SILENCE, signal.SIGTERM, kill_at=trust.until)

    def _stop(self, why: Stopped, signum: int, kill_at: float) -> None:
        """Once for each reason: the weightiest is remembered, and the earliest kill stands."""
        if why in self._acted_on:
            return
        self._acted_on.add(why)
        self._stopped = max(why, self._stopped or why, key=list(Stopped).index)
        self._kill_at = min(self._kill_at, kill_at)
        self._child.signal(signum)
        self._child.signal(signal.SIGCONT)  # a stopped process hears SIGTERM only when it goes on

    def _next_look(self) -> float:
        trust = self._limits.trust
        pending = (self._limits.complete_at, trust.stop_at, trust.until, self._kill_at)
        return min((instant for instant in pending if instant > boottime()), default=NEVER)


class _Child:
    """The command's process: alone in a session of its own, or in the terminal's foreground group with us."""

    def __init__(self, pid: int, at_terminal: bool) -> None:
        self._pid = pid
        self._at_terminal = at_terminal

    def hears(self, signum: int) -> bool:
        """The kernel has already given it what the terminal sends; a second one would be one too many."""
        return self._at_terminal and signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH)

    def signal(self, signum: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            (os.kill if self._at_terminal else os.killpg)(self._pid, signum)

    def reap(self, *, finally_kill: bool) -> int | None:
        """Its wait status once it has ended.

        Looked at before it is reaped: while it is a zombie its group's number
        cannot be given to anybody else, so what is left of a stopped command
        can be killed by group.
        """
        if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            return None
        if finally_kill and not self._at_terminal:
            self.signal(signal.SIGKILL)
        return os.waitpid(self._pid, 0)[1]
