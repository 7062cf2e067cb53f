"""The file that an SQLite ledger is: where it may lie, who may write next, what its errors mean.

The database file itself is never opened but by SQLite: closing any other
descriptor of it would drop SQLite's own locks.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cronguard.errors import CronguardError, LedgerUnavailable

KEPT = b"a ledger is kept beside this file\n"
SHORTEST_PAUSE, LONGEST_PAUSE = 0.002, 0.25  # seconds between two tries for the file lock


@contextmanager
def queued(path: Path, seconds: float) -> Iterator[None]:
    """Alone among the writers of this host, by a kernel lock that dies with its process.

    SQLite would let them poll, and 500 of them time out. Polled here too, but by
    fair pauses: a stopped process may hold the lock for ever.
    """
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise LedgerUnavailable(f"the ledger {path} cannot be written: its disk is full") from None
        raise CronguardError(
            f"the ledger {path} cannot be written: {error.strerror}; check its owner and mode"
        ) from None
    try:
        _lock_within(lock, seconds, str(path))
        yield
        _remember(lock, path)
    finally:
        os.close(lock)


def has_been_kept(path: Path) -> bool:
    """Whether a ledger was ever kept there, by the lock file beside it: one that was removed is told from a new one.

    To be asked before the ledger is looked for: whoever makes it remembers that when it is there.
    """
    with suppress(OSError):
        return Path(f"{path}.lock").stat().st_size > 0
    return False


def refuse_to_begin_anew(path: Path) -> None:
    """What the ledger knew may still be running; raises CronguardError."""
    raise CronguardError(
        f"the ledger {path} has been removed or emptied while its lock file was not: put it back; or, when nothing of "
        f"it runs any more, begin a new one by: rm {path}.lock"
    )


NETWORK_FILE_SYSTEMS = (
    "nfs", "cifs", "smb", "9p", "ceph", "lustre", "glusterfs", "afs", "beegfs", "gpfs",
    "fuse.sshfs", "fuse.s3fs", "fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.gcsfuse", "fuse.juicefs",
)  # fmt: skip


def refuse_network_file_system(path: str, mounts: str = "/proc/self/mountinfo") -> None:
    """Locks on network file systems do not exclude other hosts reliably; raises CronguardError."""
    kind = file_system_of(path, mounts)
    if kind and kind.startswith(NETWORK_FILE_SYSTEMS):
        raise CronguardError(
            f"the ledger {path} lies on a network file system ({kind}), whose locks do not hold between hosts; "
            "put it on a local disk, or set CRONGUARD_DSN to a Postgres"
        )


def file_system_of(path: str, mounts: str) -> str | None:
    """The type of the file system that holds this path, by the longest mount point above it; None if unknown."""
    real = os.path.realpath(path)
    best, kind = "", None
    with suppress(OSError), Path(mounts).open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            point = _unescaped(before.split()[4])
            if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                best, kind = point, after.split()[0]
    return kind


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn what sqlite3 raises into cronguard's own failures."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise LedgerUnavailable(f"the ledger {where} is locked by another process") from None
        if "is full" in text or "disk I/O" in text:
            raise LedgerUnavailable(f"the ledger {where} cannot be written: {text}") from None
        if "not a database" in text or "malformed" in text:
            raise CronguardError(f"{where} is not an SQLite database; move it away, or name another file") from None
        if "readonly" in text or "unable to open" in text:
            raise CronguardError(
                f"the ledger {where} cannot be opened for writing; check its owner and mode, or name another file"
            ) from None
        raise CronguardError(f"the ledger {where} failed: {text}") from None


def _remember(lock: int, path: Path) -> None:
    """A full disk is no reason to fail after all that went well."""
    with suppress(OSError):
        if not os.fstat(lock).st_size and path.stat().st_size:
            os.write(lock, KEPT)


def _lock_within(lock: int, limit: float, where: str) -> None:
    """Ask again and again, less and less often: 500 that ask without a pause starve the one that has the lock."""
    give_up_at, longest = time.monotonic() + limit, SHORTEST_PAUSE
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > give_up_at:
            raise LedgerUnavailable(f"the ledger {where} is locked by another process")
        time.sleep(random.uniform(0, longest))  # noqa: S311  jitter, not a secret
        longest = min(2 * longest, LONGEST_PAUSE)


def _unescaped(field: str) -> str:
    """A path as proc(5) writes it, blanks and the like in octal."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)
