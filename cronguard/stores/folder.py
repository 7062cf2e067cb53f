"""What a directory of ours is like: tried out where it is there, judged by what is above it where it is not."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from cronguard.domain.ground import Folder


def look_at(path: Path) -> Folder:
    """Whether files can be made in it, and how much room there is; leaves nothing behind, and makes no directory."""
    above = next((place for place in (path, *path.parents) if os.path.lexists(place)), Path("/"))
    failure = _tried(path) if above == path else _judged(above)
    try:
        room = os.statvfs(above)
    except OSError:
        return Folder(str(path), above == path, failure)
    files = room.f_favail if room.f_files else None  # some file systems count none
    return Folder(str(path), above == path, failure, room.f_bavail * room.f_frsize, files)


def _tried(path: Path) -> str:
    """Why no file can be made there: by making one, as a result is made."""
    trial = path / f".doctor-{os.getpid()}"
    try:
        if not path.is_dir():
            return "it is not a directory"
        if path.stat().st_uid != os.geteuid() and path.name == "spool":
            return "it belongs to somebody else"
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return error.strerror or "it cannot be written"
    with suppress(OSError):
        trial.unlink()
    return ""


def _judged(above: Path) -> str:
    """Why it could not be made below this directory."""
    if not above.is_dir():
        return f"{above} is not a directory"
    if os.access(above, os.W_OK | os.X_OK, effective_ids=True):
        return ""
    read_only = bool(os.statvfs(above).f_flag & os.ST_RDONLY)
    return f"{above} {'is on a read-only file system' if read_only else 'cannot be written by this user'}"
