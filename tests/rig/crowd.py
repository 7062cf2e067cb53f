"""Many hosts at once: a program that forks them all, lets them start together, and reports how each ended.

    python -m tests.rig.crowd 50 run --key job -- CMD

Each child is cronguard from its first question on; only the interpreter's start, which no barrier could make
simultaneous on two cores, is done before. Prints one exit code a line.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def main(count: int, arguments: list[str]) -> None:
    with suppress(ImportError):
        import cronguard.cli.opening  # what every child would load by itself
        import cronguard.stores.postgres
        import cronguard.stores.sqlite  # noqa: F401
    barrier, open_barrier = os.pipe()
    children = [_child(barrier, open_barrier, arguments) for _ in range(count)]
    os.close(open_barrier)
    for pid in children:
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _child(barrier: int, open_barrier: int, arguments: list[str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.close(open_barrier)
    os.read(barrier, 1)  # an end of file for all of them, at once
    code = 125
    try:
        from cronguard.cli import main as cronguard

        code = cronguard(arguments)
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
