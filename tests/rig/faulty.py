"""A test build of the store, which stands still at a named point; and of the wall clock, which may be wrong.

Read from the environment of a guard that is started by tests/rig/host.py, and of no other:
  LAB_HOLD    the point: before_claim, after_claim, before_finish, after_finish
  LAB_HOLDS   a folder: KEY.held is made by the first process that gets there; it goes on when KEY.go is there
  LAB_FORKS   how many forks and threads (of guardian, worker and stub, in turn) this host has room for
  LAB_CLOCK   a file that holds the seconds by which this host's wall clock is wrong, once it is there

After `after_finish` the answer is dropped as a broken connection would drop it: written, and not acknowledged.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cronguard.domain.run import Change
from cronguard.errors import LedgerUnavailable
from cronguard.ports import Page, Store

LOOK_EVERY = 0.02  # seconds


def install(environment: Mapping[str, str]) -> None:
    """Into this process, before cronguard opens its ledger."""
    if point := environment.get("LAB_HOLD"):
        _hold_at(point, Path(environment["LAB_HOLDS"]))
    if file := environment.get("LAB_CLOCK"):
        _skew_by(Path(file))
    if forks := environment.get("LAB_FORKS"):
        _leave_room_for(int(forks))


def _hold_at(point: str, folder: Path) -> None:
    from cronguard.cli import opening

    real = opening.open_store

    def open_store(*place: Any, **options: Any) -> Any:
        return FaultyStore(real(*place, **options), point, folder)

    opening.open_store = open_store


def _skew_by(file: Path) -> None:
    from cronguard.services import ledger
    from cronguard.stores.sqlite import SqliteStore

    right = ledger.host_now

    def wrong() -> datetime:
        with suppress(OSError, ValueError):
            return right() + timedelta(seconds=float(file.read_text()))
        return right()

    ledger.host_now = wrong
    init = SqliteStore.__init__
    SqliteStore.__init__ = lambda store, path, within, clock=None: init(store, path, within, clock or wrong)  # type: ignore[method-assign]


def _leave_room_for(forks: int) -> None:
    """As RLIMIT_NPROC or a cgroup's pids.max have it, which count all that a user or a container has."""
    left, fork, start = [forks], os.fork, threading.Thread.start

    def take_one() -> bool:
        left[0] -= 1
        return left[0] >= 0

    def fork_if_there_is_room() -> int:
        if not take_one():
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    def start_if_there_is_room(thread: threading.Thread) -> None:
        if not take_one():
            raise RuntimeError("can't start new thread")
        start(thread)

    os.fork = fork_if_there_is_room
    threading.Thread.start = start_if_there_is_room  # type: ignore[method-assign]


class FaultyStore:
    """The real store, but for the pages of one claim and its finish."""

    def __init__(self, store: Store, point: str, folder: Path) -> None:
        self._store, self._point, self._folder = store, point, folder
        self._is_granted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def page(self, key: str, period: str, runs: Sequence[str] = ()) -> Iterator[Page]:
        self._stand_still("before_finish" if self._is_granted else "before_claim", key)
        with self._store.page(key, period, runs) as page:
            watched = _Watched(page)
            yield watched
        if watched.change.taken:
            self._is_granted = True
            self._stand_still("after_claim", key)
        elif self._is_granted and watched.change.closed and self._stand_still("after_finish", key):
            raise LedgerUnavailable("the answer was dropped")

    def _stand_still(self, point: str, key: str) -> bool:
        """Only the first process that gets there, and only once."""
        if point != self._point:
            return False
        try:
            os.close(os.open(self._folder / f"{key}.held", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        while not (self._folder / f"{key}.go").exists():
            time.sleep(LOOK_EVERY)
        return True


class _Watched:
    """A page that remembers what was written to it."""

    def __init__(self, page: Page) -> None:
        self.sight, self._page, self.change = page.sight, page, Change()

    def write(self, change: Change) -> None:
        self.change = change
        self._page.write(change)
