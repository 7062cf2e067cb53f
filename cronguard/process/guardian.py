"""Two processes: a guardian that everybody sees, and a worker that does the work and may be killed like it.

The guardian knows no database and has no threads. It passes signals on, kills
the tree when the worker is dead, silent or frozen past its time, and dies as
the command died. Each of the two adopts what the other leaves behind, so that
kill -9 of either leaves nobody alive.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

from cronguard.clock import boottime
from cronguard.errors import LEASE_LOST, SIGNALLED, Interrupted
from cronguard.process import init
from cronguard.process.link import Link
from cronguard.process.linux import TerminalSignals, become_subreaper
from cronguard.process.signals import PASS_ON, STOP, SUSPEND, Caller, Signals
from cronguard.process.terminal import is_interactive
from cronguard.process.tree import Tree

SENT_BY_TERMINALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH)
FORWARDED = (*STOP, *PASS_ON, *SUSPEND)
BURIAL_WITHIN = 20.0  # seconds to tell the ledger of a dead worker


class Worker:
    """What the worker has of its guardian: the link, the signals that are passed on, and where the command belongs."""

    def __init__(self, link: Link, signals: Signals, foreground: int | None) -> None:
        self.link = link
        self.signals = signals
        self.foreground = foreground  # the terminal's process group, where a person is at it

    @contextmanager
    def dying_of_interruptions(self) -> Iterator[None]:
        """Told to stop while nothing was started yet: the guardian dies of that signal, as a command would."""
        try:
            yield
        except Interrupted as told:
            self.link.died_of = told.signum
            raise


def become_worker(bury: Callable[[bytes], None]) -> Worker:
    """Fork; returns in the worker. The guardian stays in here, and ends with the worker's exit code.

    To be called before any thread, socket or library that does not like to be
    forked. `bury` is called in a process of its own when the worker died, with
    what it held, and only once none of its descendants is left.
    """
    caller = Caller()
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # what comes during the forks is delivered after them
    if os.getpid() == 1:
        init.leave_pid_1(FORWARDED)
    foreground = os.getpgrp() if is_interactive(caller) else None
    link = Link()
    become_subreaper()
    if pid := os.fork():
        link.in_guardian()
        _Guardian(pid, link, caller, foreground is not None).to_the_end(bury)
    return _worker(link, caller, foreground)


def _worker(link: Link, caller: Caller, foreground: int | None) -> Worker:
    """Out of the reach of a signal to the guardian's whole group; at a terminal in the same session, so that the
    command can be put into the foreground."""
    link.in_worker()
    if foreground is None:
        os.setsid()
    else:
        os.setpgid(0, 0)
        for signum in (signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP):
            signal.signal(signum, signal.SIG_IGN)  # Ctrl-Z stops the command and the guardian; the lease is kept
    become_subreaper()
    signals = Signals(caller)
    signals.hang_on(link.lifeline)
    signals.install(*(SUSPEND if foreground is None else ()))
    return Worker(link, signals, foreground)


class _Guardian:
    """The loop: pass signals on, look at the clock, wait for the worker."""

    def __init__(self, worker: int, link: Link, caller: Caller, interactive: bool) -> None:
        self._worker = worker
        self._link = link
        self._signals = Signals(caller)
        self._from_terminal: TerminalSignals | None = None
        if interactive:
            self._watch_terminal([signum for signum in SENT_BY_TERMINALS if signum not in caller.ignored])
        else:
            self._signals.install(*SUSPEND)

    def _watch_terminal(self, signums: Sequence[int]) -> None:
        """What the terminal sends reaches the command by itself: a second one would be one too many."""
        self._signals.install(still_blocked=signums)
        self._from_terminal = TerminalSignals(signums)
        if self._from_terminal.descriptor >= 0:
            self._signals.watch(self._from_terminal.descriptor)

    def to_the_end(self, bury: Callable[[bytes], None]) -> NoReturn:
        status = self._wait()
        code = os.waitstatus_to_exitcode(status)
        tree = Tree(leader=0)
        if code < 0:
            self._after_a_death(tree, bury)
            os._exit(LEASE_LOST)
        if not self._link.left_running:
            tree.kill()
        if self._link.died_of and code == SIGNALLED + self._link.died_of:
            _die_of(self._link.died_of)
        os._exit(code)

    def _wait(self) -> int:
        while True:
            pid, status = os.waitpid(self._worker, os.WNOHANG)
            if pid:
                return status
            self._pass_signals_on()
            if boottime() >= self._link.kill_at:
                os.kill(self._worker, signal.SIGKILL)  # silent past the lease: frozen, or worse
            self._signals.wait(self._link.kill_at)

    def _pass_signals_on(self) -> None:
        arrived = self._from_terminal.arrived(by_terminal=self._link.is_waiting) if self._from_terminal else []
        while (signum := self._signals.take()) is not None:
            arrived.append(signum)
        for signum in arrived:
            with suppress(ProcessLookupError):
                os.kill(self._worker, signum)

    def _after_a_death(self, tree: Tree, bury: Callable[[bytes], None]) -> None:
        """Nobody renews the lease any more: what is left must not live into somebody else's."""
        tree.kill()
        held = self._link.holding
        if tree.gone and held:
            _in_a_process_of_its_own(lambda: bury(held))


def _in_a_process_of_its_own(work: Callable[[], None]) -> None:
    """Short-lived, and not waited for longer than it may take."""
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            signal.alarm(int(BURIAL_WITHIN))
            work()
        os._exit(0)
    os.waitpid(pid, 0)


def _die_of(signum: int) -> None:
    """As the command did, so that a shell or systemd sees it; without a core of our own."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if signum not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
    os.kill(os.getpid(), signum)
