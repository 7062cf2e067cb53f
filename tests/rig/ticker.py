"""A command that says for itself when it ran: numbered lines with the boottime, to a file of its own and to stdout.

python ticker.py FILE         until the file `go` is there
python ticker.py FILE LINES   so many lines
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

EVERY = 0.02


def main(path: str, lines: int | None = None) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    number = 0
    while number != lines and not (lines is None and Path("go").exists()):
        number += 1
        line = b"%d %.6f\n" % (number, time.clock_gettime(time.CLOCK_BOOTTIME))
        os.write(file, line)
        os.write(1, line)
        time.sleep(EVERY)


def ticks_in(path: Path) -> list[float]:
    """The boottimes of all lines so far; the last one may be half written."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [float(line.split()[1]) for line in lines]


def command(path: str, lines: int | None = None) -> tuple[str, ...]:
    return sys.executable, "-ES", __file__, path, *([] if lines is None else [str(lines)])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
