"""The three streams that the caller gave us, which may be closed, gone, or read by nobody."""

from __future__ import annotations

import os
import select
from contextlib import suppress

PATIENCE = 1.0  # seconds for which a reader may take nothing before it is given up
_NEVER_BLOCKS = 4096  # bytes that a pipe takes at once where poll(2) says that it takes any: PIPE_BUF


def open_closed() -> None:
    """Descriptors 0 to 2 that are closed become /dev/null, for the command too: else they were ours."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def write_patiently(descriptor: int, text: bytes) -> bool:
    """Write as long as the reader takes anything; false when it is stuck or gone, which is nobody's failure."""
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    rest = memoryview(text)
    with suppress(OSError):
        while rest and ready.poll(PATIENCE * 1000):
            with suppress(BlockingIOError):  # somebody made it non-blocking, which all its users share: we leave it so
                rest = rest[os.write(descriptor, rest[:_NEVER_BLOCKS]) :]
    return not rest
