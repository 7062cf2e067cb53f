"""What guardian and worker know of each other: a pipe that ends with the guardian, and one page that both see."""

from __future__ import annotations

import mmap
import os

from cronguard.clock import NEVER

_SIZE = mmap.PAGESIZE
_KILL_AT, _DIED_OF, _LEFT_RUNNING, _LENGTH, _IS_WAITING = range(5)  # places in the page, 8 bytes each
_TEXT = 64  # where the note to the guardian begins


class Link:
    """Made before the fork. The worker writes the page, the guardian reads it; neither waits for the other."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _SIZE)
        self._numbers = memoryview(self._page).cast("d")  # one aligned store a number: never seen half written
        self._lifeline, self._held = os.pipe2(os.O_CLOEXEC)
        self.kill_at = NEVER
        self.is_waiting = True

    def in_worker(self) -> None:
        """Only the guardian may hold the end whose closing tells of its death."""
        os.close(self._held)

    def in_guardian(self) -> None:
        os.close(self._lifeline)

    # ----------------------------------------------------------------------- from worker to guardian

    @property
    def kill_at(self) -> float:
        """The boottime at which the guardian kills the whole tree, unless the worker moves it on; it never asks."""
        return self._numbers[_KILL_AT]

    @kill_at.setter
    def kill_at(self, boottime: float) -> None:
        self._numbers[_KILL_AT] = boottime

    @property
    def died_of(self) -> int:
        """The signal that the command died of, for the guardian to die of too; 0: of none."""
        return int(self._numbers[_DIED_OF])

    @died_of.setter
    def died_of(self, signum: int) -> None:
        self._numbers[_DIED_OF] = signum

    @property
    def left_running(self) -> bool:
        """--stragglers leave: what the worker leaves behind may live on."""
        return bool(self._numbers[_LEFT_RUNNING])

    @left_running.setter
    def left_running(self, left: bool) -> None:
        self._numbers[_LEFT_RUNNING] = left

    @property
    def is_waiting(self) -> bool:
        """Nobody has been started, or nobody is any more: what the terminal sends is for the worker to hear."""
        return bool(self._numbers[_IS_WAITING])

    @is_waiting.setter
    def is_waiting(self, waiting: bool) -> None:
        self._numbers[_IS_WAITING] = waiting

    @property
    def holding(self) -> bytes:
        """What the worker holds, as a result that the guardian can deliver when the worker is dead; empty: nothing."""
        length = int(self._numbers[_LENGTH])
        return self._page[_TEXT : _TEXT + length]

    @holding.setter
    def holding(self, text: bytes) -> None:
        self._numbers[_LENGTH] = 0  # never a new text with an old length
        if len(text) <= _SIZE - _TEXT:
            self._page[_TEXT : _TEXT + len(text)] = text
            self._numbers[_LENGTH] = len(text)

    # ----------------------------------------------------------------------- from guardian to worker

    @property
    def lifeline(self) -> int:
        """A descriptor that becomes readable, by its end, when the guardian is dead."""
        return self._lifeline
