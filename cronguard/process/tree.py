"""All that a command has become: its descendants, seen from the subreaper above them.

"The tree is dead" means that waitpid(2) says ECHILD, and nothing less: a walk
through /proc that finds nobody proves nothing against processes that fork while
it walks. One place reaps, and a pid is never signalled after it was reaped.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cronguard.clock import boottime

LOOK_AGAIN = 0.0005  # seconds between two rounds of killing: orphans come up to us level by level
UNKILLABLE_AFTER = 10.0  # seconds of SIGKILL after which a process is taken for one that cannot be killed
STOPPED = frozenset("TtZX")  # the kernel's letters for a process that does nothing by itself


class Tree:
    """The command that leads it, and everything below us."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.status: int | None = None  # the leader's wait status, once it has ended
        self.gone = False  # waitpid has said ECHILD
        self._frozen: set[int] = set()

    def reap(self) -> None:
        """Take the status of whoever has ended; the only caller of waitpid."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.gone = True
                return
            if pid == 0:
                return
            if pid == self.leader:
                self.status = status

    def signal_group(self, signum: int) -> None:
        """The polite way: the leader's group, as a shell would; while the leader lives its number is nobody else's."""
        if self.status is None:
            _send(os.killpg, self.leader, signum)

    def signal_leader(self, signum: int) -> None:
        if self.status is None:
            _send(os.kill, self.leader, signum)

    def signal_all(self, signum: int) -> None:
        """Everybody below us, also who left the group."""
        for pid in descendants():
            _send(os.kill, pid, signum)

    def kill(self, within: float = UNKILLABLE_AFTER) -> list[int]:
        """SIGKILL until nobody is left; the pids that outlive it: another user's, or in the kernel."""
        until = boottime() + within
        while not self.gone and boottime() < until:
            for pid in children():
                _send(os.kill, pid, signal.SIGKILL)
            self.reap()
            if not self.gone:
                time.sleep(LOOK_AGAIN)
        return [] if self.gone else children()

    def count(self) -> int:
        """How many are below us, not counting who has ended and waits to be reaped."""
        return sum(_state(pid) not in "ZX" for pid in descendants())

    def freeze(self) -> None:
        """SIGSTOP everybody who moves, parents first, until a walk finds nobody new: who was told forks no more."""
        told: set[int] = set()
        while moving := [pid for pid in descendants() if pid not in told and _state(pid) not in STOPPED]:
            for pid in moving:
                _send(os.kill, pid, signal.SIGSTOP)
            told.update(moving)
            self.reap()
        self._frozen |= told

    def thaw(self) -> None:
        """SIGCONT those that `freeze` has stopped, and nobody who was stopped before."""
        below = set(descendants())
        for pid in self._frozen & below:
            _send(os.kill, pid, signal.SIGCONT)
        self._frozen.clear()


def children(pid: int | str = "self") -> list[int]:
    """The direct children of a process, from all its threads."""
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def lists_children() -> bool:
    """Whether this system tells who the children of a process are: without it nothing below us can be found."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").exists()


def descendants(pid: int | str = "self") -> list[int]:
    """Children, their children and so on; who was orphaned has come up to the subreaper, and is among the children."""
    found: list[int] = []
    parents: list[int | str] = [pid]
    while parents:
        below = children(parents.pop())
        found += below
        parents += below
    return found


def _state(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return "X"


def _send(how: Callable[[int, int], None], pid: int, signum: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        how(pid, signum)
