"""A command that bears witness: when it began, that it lives, how it ended, each on one clock, in a file of its own.

    python -ISE marks.py FOLDER UNTIL [CODE]

UNTIL is a number of seconds, or a file that will be there; then it exits with CODE (0). Which key, period and token
it runs for it takes from MARK_KEY, MARK_PERIOD and MARK_TOKEN, or else from what cronguard tells its commands.
A death leaves no end mark; how long it had lived tell the marks between. tests/rig/witness.py reads them.
"""

from __future__ import annotations

import os
import sys
import time

EVERY = 0.05  # seconds between two signs of life
LONGEST = 600  # seconds; nobody is left behind for ever by a test that was killed


def main(folder: str, until: str, code: int = 0) -> None:
    began = now()
    fields = [os.environ.get(f"MARK_{name}") or os.environ.get(f"CRONGUARD_{name}", "") for name in NAMES]
    file = os.open(f"{folder}/{began}-{os.getpid()}.marks", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
    mark(file, "start", began, *fields, os.getpid())
    while not is_over(until, began):
        time.sleep(EVERY)
        mark(file, "alive", now())
    mark(file, "end", now(), code)
    os._exit(code)


NAMES = ("KEY", "PERIOD", "TOKEN")


def now() -> int:
    """Nanoseconds since boot, suspend included: one clock for every process of this machine, which never steps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def mark(file: int, *fields: object) -> None:
    """One write, so that no other mark can stand in the midst of it."""
    os.write(file, ("\t".join(map(str, fields)) + "\n").encode())


def is_over(until: str, began: int) -> bool:
    try:
        return now() >= began + float(until) * 1e9
    except ValueError:
        return os.path.exists(until) or now() >= began + LONGEST * 1e9


def command(folder: str | os.PathLike[str], until: str | float | os.PathLike[str], code: int = 0) -> tuple[str, ...]:
    """What to give to whatever starts it."""
    return sys.executable, "-ISE", __file__, os.fspath(folder), str(until), str(code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
