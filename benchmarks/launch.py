"""A small process that starts programs and says what each one cost: one JSON line in, one out.

It is a process of its own because the kernel counts what a program's starter held in memory towards the program's
peak: started from here that is this small interpreter, whose own peak is the least that can be told.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(cost_of(**json.loads(line))), flush=True)


def cost_of(argv: list[str], environment: dict[str, str], words: str) -> dict[str, float]:
    """Wall and CPU time in ms of the program and everything it waited for; the peak of the largest of them in MB."""
    quiet = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
    ]
    started_at = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, environment, file_actions=quiet)
    _, status, used = os.wait4(pid, 0)
    return {
        "wall": (time.perf_counter() - started_at) * 1000,
        "cpu": (used.ru_utime + used.ru_stime) * 1000,
        "rss": used.ru_maxrss / 1024,
        "exit_code": os.waitstatus_to_exitcode(status),
    }


if __name__ == "__main__":
    main()
