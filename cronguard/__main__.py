"""python -m cronguard, and the console script."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

from cronguard import streams


def main() -> NoReturn:
    """Run, and leave at once: nothing of what the interpreter tidies up at its end is worth the time."""
    streams.open_closed()
    gc.disable()  # loading modules makes no garbage, only work; on again where there is a command to wait for
    from cronguard.cli import main as cli  # noqa: PLC0415  after the streams

    code = cli(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
