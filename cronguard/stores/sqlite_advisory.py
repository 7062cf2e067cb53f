"""--lock advisory on one host: a kernel lock on a file beside the ledger, which dies with its holder.

The kernel lets go of it when the last descriptor of the open file is closed; the
command never gets one, so the worker's death is enough. The files are never
removed: who removes one lets two have the lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from cronguard.domain.run import Lease
from cronguard.errors import CronguardError
from cronguard.ports import Beat

TAKEN_WITHIN = 0.5  # seconds: somebody may be looking whether it is free, for which it is had for a moment
A_MOMENT = 0.01


class SqliteHold:
    """One file lock at most."""

    def __init__(self, ledger: Path, renew: Callable[[Lease, timedelta, timedelta], Beat | None]) -> None:
        self._ledger = ledger
        self._renew = renew
        self._descriptor = -1
        self._number: int | None = None

    def take(self, number: int) -> bool:
        if self._number == number:
            return True
        descriptor = _opened(self._ledger, number)
        give_up_at = time.monotonic() + TAKEN_WITHIN
        while not _locked(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > give_up_at:
                os.close(descriptor)
                return False
            time.sleep(A_MOMENT)
        self._descriptor, self._number = descriptor, number
        return True

    def is_cut(self) -> bool:
        """Whether the file has been removed or put in another's place: then somebody else can have its lock."""
        if self._number is None:
            return False
        try:
            return not self._is_in_its_place()
        except OSError:
            return True

    def beat(self, lease: Lease, lease_for: timedelta, slack: timedelta) -> Beat | None:
        return None if self.is_cut() else self._renew(lease, lease_for, slack)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._number = -1, None

    def _is_in_its_place(self) -> bool:
        assert self._number is not None
        return os.path.samestat(os.fstat(self._descriptor), _path(self._ledger, self._number).stat())


def lock_is_free(ledger: Path, number: int) -> bool:
    """Whether nobody has it. Asked by a shared lock, so that those who ask do not disturb each other."""
    try:
        descriptor = os.open(_path(ledger, number), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        return _locked(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _path(ledger: Path, number: int) -> Path:
    return Path(f"{ledger}.locks") / f"{number & (1 << 64) - 1:016x}"


def _opened(ledger: Path, number: int) -> int:
    path = _path(ledger, number)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CronguardError(f"the lock {path} cannot be made: {error.strerror}; check its owner and mode") from None


def _locked(descriptor: int, how: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        return True
    return False
