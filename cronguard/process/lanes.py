"""Several workers side by side, for a backfill: forked early, fed with numbers from one pipe, told of by another.

Each lane goes on to be a guardian and a worker of its own, away from the
terminal: what a person types reaches us alone, and is passed on once. Should we
be killed, every lane is told to stop.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from cronguard.clock import boottime
from cronguard.errors import CRONGUARD_FAILED
from cronguard.process.linux import die_with_parent
from cronguard.process.signals import LONGEST_WAIT, PASS_ON, STOP, Signals

_NUMBER = struct.Struct("i")
_RECORD = struct.Struct("iiii")  # number, exit code, signal, how it was: written in one piece, so never mixed
_PIPE = 64 << 10  # bytes that a pipe takes without anybody reading: more than ten thousand numbers

Record = tuple[int, int, int, int]


class Lanes:
    """`fork` returns in each lane and once in us; `is_lane` tells where we are."""

    def __init__(self, count: int, numbers: int) -> None:
        self._queue, feed = os.pipe2(os.O_CLOEXEC)
        self._records, self._report = os.pipe2(os.O_CLOEXEC)
        os.write(feed, b"".join(_NUMBER.pack(number) for number in range(numbers)))
        os.close(feed)
        self._parent = os.getpid()
        self._pids: list[int] = []
        for _ in range(min(count, numbers)):
            if pid := os.fork():
                self._pids.append(pid)
            else:
                self._become_a_lane()
                return
        os.close(self._report)

    @property
    def is_lane(self) -> bool:
        return os.getpid() != self._parent

    # ----------------------------------------------------------------------- in a lane

    def numbers(self) -> Iterator[int]:
        """The next number that nobody has taken, until there is none."""
        while taken := os.read(self._queue, _NUMBER.size):
            yield _NUMBER.unpack(taken)[0]

    def report(self, record: Record) -> None:
        with suppress(BrokenPipeError):
            os.write(self._report, _RECORD.pack(*record))

    def _become_a_lane(self) -> None:
        os.close(self._records)
        die_with_parent(signal.SIGTERM)
        if os.getppid() != self._parent:  # it died before it could be listened for
            os._exit(CRONGUARD_FAILED)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    # ----------------------------------------------------------------------- in us

    def records(self, signals: Signals) -> Iterator[Record]:
        """What the lanes tell, as it comes, until all of them have ended; signals are passed on to them."""
        signals.watch(self._records)
        os.set_blocking(self._records, False)
        while True:
            self._pass_on(signals)
            if not select.select([self._records], [], [], 0)[0]:
                signals.wait(boottime() + LONGEST_WAIT)
                continue
            told = os.read(self._records, _RECORD.size)
            if not told:
                return
            yield _RECORD.unpack(told)

    def start_no_more(self) -> None:
        """Whatever has not been taken yet is taken away; what is running goes on."""
        os.set_blocking(self._queue, False)
        with suppress(BlockingIOError):
            while os.read(self._queue, _PIPE):
                pass

    def codes(self) -> list[int]:
        """How each lane ended, as waitpid(2) tells it; once there are no records any more."""
        return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in self._pids]

    def _pass_on(self, signals: Signals) -> None:
        while (signum := signals.take()) is not None:
            if signum in STOP:
                self.start_no_more()
            if signum in (*STOP, *PASS_ON):
                for pid in self._pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signum)


def answered_by_a_child(ask: Callable[[], Any]) -> tuple[Any, int]:
    """What `ask` answers, asked in a short-lived process, so that ours never has a database's library; and its exit
    code, 0 unless it failed: then it has said why, as it would have done in ours.
    """
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(read)
        answer = ask()
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    answer = pickle.loads(text) if text else None  # noqa: S301  our own child's
    return answer, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
