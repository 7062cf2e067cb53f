"""Signals as data: a handler only queues and wakes; whoever waits decides what to do."""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from cronguard.clock import boottime
from cronguard.errors import Interrupted

STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
PASS_ON = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)
SUSPEND = (signal.SIGTSTP, signal.SIGCONT)
TERMINAL_STOPS = (signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP)
RAISED_AGAIN_EVERY = (0.1, 0.5)  # seconds: the first time, and then
LONGEST_WAIT = 1.0  # seconds; poll(2) does not count suspend, so every clock is looked at this often


class Caller:
    """What the caller gave us, for the command to be given too: its mask, and which signals it has ignored.

    Python ignores SIGPIPE and SIGXFSZ at its own start; what the caller had of
    those cannot be seen any more, and the command gets the default.
    """

    def __init__(self) -> None:
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        watched = (*STOP, *PASS_ON, *SUSPEND, *TERMINAL_STOPS, signal.SIGCHLD)
        self.ignored = frozenset(signum for signum in watched if signal.getsignal(signum) is signal.SIG_IGN)

    def restore(self) -> None:
        """In the process that will be the command, just before it is."""
        signal.set_wakeup_fd(-1)
        for signum in (*TERMINAL_STOPS, *SUSPEND, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(signum, signal.SIG_IGN if signum in self.ignored else signal.SIG_DFL)
        for signum in (*STOP, *PASS_ON):
            signal.signal(signum, signal.SIG_IGN if signum in self.ignored else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


@contextmanager
def interrupting() -> Iterator[None]:
    """For what starts no command: told to stop, it raises Interrupted wherever it is. Asked twice, it dies.

    Raised in somebody's `except Exception` or in a finalizer it would be lost, so it is raised again until we are out
    of here; and not in the middle of an import, which would leave half a module.
    """
    told: list[int] = []

    def stop(signum: int, frame: FrameType | None) -> None:
        if signum != signal.SIGALRM:
            told.append(signum)
            for other in watched:
                signal.signal(other, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, *RAISED_AGAIN_EVERY)
        if not _is_importing(frame):
            raise Interrupted(told[0])

    watched = [signum for signum in STOP if signal.getsignal(signum) is not signal.SIG_IGN]
    for signum in (*watched, signal.SIGALRM):
        signal.signal(signum, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for signum in (*watched, signal.SIGALRM):
            signal.signal(signum, signal.SIG_DFL)


def _is_importing(frame: FrameType | None) -> bool:
    while frame and "importlib._bootstrap" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None


class Signals:
    """What arrived and has not been dealt with; and a way to wait that any of it ends.

    A signal that was ignored when cronguard started (nohup, a script's `&`)
    stays ignored, for cronguard and for the command.
    """

    def __init__(self, caller: Caller | None = None) -> None:
        self.caller = caller or Caller()
        self._arrived: deque[int] = deque()
        self._lifeline: int | None = None
        self.orphaned = False
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)

    def install(self, *more: int, still_blocked: Iterable[int] = ()) -> None:
        """From here on signals are queued. SIGCHLD gets its default back: ignored, it would hide exit codes."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for signum in (*STOP, *PASS_ON, *more):
            if signum not in self.caller.ignored:
                signal.signal(signum, self._queue)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.caller.mask | set(still_blocked))

    def watch(self, descriptor: int) -> None:
        """Waits end also when there is something to read here."""
        self._poll.register(descriptor, select.POLLIN)

    def hang_on(self, lifeline: int) -> None:
        """When this descriptor ends, whoever holds its other end is dead: we are orphaned, and told to stop."""
        self._lifeline = lifeline
        self.watch(lifeline)

    def take(self) -> int | None:
        """The next signal that arrived, or None."""
        return self._arrived.popleft() if self._arrived else None

    def wake(self) -> None:
        """End the current or the next wait; may be called from any thread."""
        with suppress(BlockingIOError):  # the pipe is full of reasons to wake up
            os.write(self._write, b"\0")

    def wait(self, until: float) -> None:
        """Wait until something arrives or boottime `until`; at most `LONGEST_WAIT`."""
        if self._arrived:
            return
        remaining = max(0.0, min(until - boottime(), LONGEST_WAIT))
        for descriptor, _ in self._poll.poll(remaining * 1000):
            if descriptor == self._lifeline:
                self.orphaned = True
                self._poll.unregister(descriptor)
            elif descriptor == self._read:
                self._drain()

    def pause(self, seconds: float) -> None:
        """Wait before anything was started; raises Interrupted when told to stop meanwhile."""
        until = boottime() + seconds
        self.check()
        while boottime() < until:
            self.wait(until)
            self.check()

    def check(self) -> None:
        """Raise Interrupted if a signal asks to stop; for where nothing was started yet."""
        stop = self.told_to_stop()
        if stop is not None:
            raise Interrupted(stop)

    def told_to_stop(self) -> int | None:
        """The first signal that asks to stop, still to be taken; None if there is none."""
        if self.orphaned:
            return signal.SIGHUP
        return next((signum for signum in self._arrived if signum in STOP), None)

    def _queue(self, signum: int, _frame: FrameType | None) -> None:
        self._arrived.append(signum)

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._read, 4096):
                pass
