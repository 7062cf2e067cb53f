"""Signals as data: a handler only queues and wakes; whoever waits decides what to do."""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from contextlib import suppress
from types import FrameType

from cronguard.errors import Interrupted
from cronguard.process.clock import boottime

STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
PASS_ON = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)
LONGEST_WAIT = 1.0  # seconds; poll(2) does not count suspend, so every clock is looked at this often


class Signals:
    """What arrived and has not been dealt with; and a way to wait that any of it ends.

    A signal that was ignored when cronguard started (nohup, a script's `&`)
    stays ignored, for cronguard and for the command.
    """

    def __init__(self) -> None:
        self._arrived: deque[int] = deque()
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.interrupt_was_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    def install(self) -> None:
        """From here on signals are queued. SIGCHLD gets its default back: ignored, it would hide exit codes."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for signum in STOP + PASS_ON:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                signal.signal(signum, self._queue)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

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
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        if poll.poll(remaining * 1000):
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
        return next((signum for signum in self._arrived if signum in STOP), None)

    def _queue(self, signum: int, _frame: FrameType | None) -> None:
        self._arrived.append(signum)

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._read, 4096):
                pass
