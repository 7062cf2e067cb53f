"""python -m cronguard, and the console script."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Descriptors 0 to 2 that are closed become /dev/null first: else a file of ours would take their numbers."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    from cronguard.cli import main as cli  # noqa: PLC0415

    return cli(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
