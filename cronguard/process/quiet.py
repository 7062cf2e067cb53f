"""--quiet: the command's output goes to files without a name, and is passed on only if it fails."""

from __future__ import annotations

import os
import select
import tempfile
from contextlib import suppress
from typing import IO


class HeldBack:
    """Two unnamed files, one for each stream; they vanish with the process, however it ends."""

    def __init__(self) -> None:
        self._stdout = _unnamed_file()
        self._stderr = _unnamed_file()
        self.stdout = self._stdout.fileno()
        self.stderr = self._stderr.fileno()

    def print(self) -> None:
        """Pass both streams on, bytes unchanged."""
        for source, target in ((self._stdout, 1), (self._stderr, 2)):
            with suppress(OSError):  # the reader is gone: there is nobody to tell
                _copy(source, target)


def _unnamed_file() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(buffering=0)
    except OSError:  # a read-only container without a /tmp
        return os.fdopen(os.memfd_create("cronguard-output"), "w+b", buffering=0)


def _copy(source: IO[bytes], target: int) -> None:
    source.seek(0)
    while piece := source.read(65536):
        while piece:
            piece = piece[_written(target, piece) :]


def _written(target: int, piece: bytes) -> int:
    """How much of it went out; somebody else may have made the descriptor non-blocking, which all its users share."""
    try:
        return os.write(target, piece)
    except BlockingIOError:
        select.select([], [target], [])
        return 0
