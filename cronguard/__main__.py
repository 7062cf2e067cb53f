"""python -m cronguard, and the console script."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn


def main() -> NoReturn:
    """Run, and leave at once: nothing of what the interpreter tidies up at its end is worth the time."""
    _open_closed_descriptors()
    gc.disable()  # loading modules makes no garbage, only work; on again where there is a command to wait for
    from cronguard.cli import main as cli  # noqa: PLC0415  after the descriptors

    code = cli(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _open_closed_descriptors() -> None:
    """Descriptors 0 to 2 that are closed become /dev/null: else a file of ours would take their numbers."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    main()
