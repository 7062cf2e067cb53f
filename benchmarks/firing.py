"""One firing of `true`, from the inside: what two_processes.py starts. It imports no more than cronguard itself does.

python -m benchmarks.firing two      as the product does it; stderr gets the moments of its two processes
python -m benchmarks.firing one      with the second process left out
python -m benchmarks.firing fork N   no firing: N times a fork and a wait, with the modules of a firing loaded
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from cronguard import __main__ as program
from cronguard.cli import opening
from cronguard.process.guardian import Worker, become_worker
from cronguard.process.link import Link
from cronguard.process.linux import become_subreaper
from cronguard.process.signals import SUSPEND, Caller, Signals


def main(how: str, *more: str) -> None:
    if how == "fork":
        _fork_often(int(more[0]))
        return
    vars(opening)["become_worker"] = _two if how == "two" else _one
    sys.argv = ["cronguard", "run", "--key", "bench", "--every", "run", "--", "true"]
    program.main()


def _fork_often(times: int) -> None:
    gc.disable()  # as while a firing is on its way to its command
    for _ in range(times):
        _note("forks")
        if (pid := os.fork()) == 0:
            os.setsid()
            become_subreaper()
            os._exit(0)
        os.waitpid(pid, 0)
        _note("has waited")


def _two(bury: Callable[[bytes], None]) -> Worker:
    """The product's own, with a look at the clock around its fork and at the end of either process."""
    fork = os.fork

    def noting_fork() -> int:
        os.fork = fork
        pid = fork()
        _note("guardian's first" if pid else "worker's first")
        _note_the_end("guardian leaves" if pid else "worker leaves")
        return pid

    os.fork = noting_fork
    _note("called")
    worker = become_worker(bury)
    _note("worker ready")
    return worker


def _note_the_end(what: str) -> None:
    leave = os._exit

    def noting_exit(status: int) -> NoReturn:
        _note(what)
        leave(status)

    os._exit = noting_exit


def _one(_bury: Callable[[bytes], None]) -> Worker:
    """What a worker has, without a guardian: nobody would pass a signal on, or be left after a kill -9."""
    caller, link = Caller(), Link()
    os.setsid()
    become_subreaper()
    signals = Signals(caller)
    signals.hang_on(link.lifeline)
    signals.install(*SUSPEND)
    return Worker(link, signals, foreground=None)


def _note(what: str) -> None:
    os.write(2, f"{what}={time.monotonic():.6f}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
