"""As PID 1 of a container: reap whoever is orphaned, pass signals on, end as the guardian ends; nothing else.

The guardian must be an ordinary child, for the orphans of others (kubectl exec)
would come to it too, and a signal that it sends itself would do nothing.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import NoReturn

from cronguard.errors import SIGNALLED

LAST_WORDS_WITHIN = 20.0  # seconds for the worker of a guardian that was killed to tell the ledger


def leave_pid_1(forwarded: Iterable[int]) -> None:
    """Fork; returns in the child. PID 1 stays in here until the child ends."""
    forwarded = tuple(forwarded)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ours, theirs = os.pipe2(os.O_CLOEXEC)  # theirs stays open in guardian and worker, and in no command
    pid = os.fork()
    if pid:
        os.close(theirs)
        _as_pid_1(pid, forwarded, ours)


def _as_pid_1(child: int, forwarded: tuple[int, ...], ours: int) -> NoReturn:
    def pass_on(signum: int, _frame: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, signum)

    for signum in forwarded:
        signal.signal(signum, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, forwarded)
    code = os.waitstatus_to_exitcode(_reap_until(child))
    if code < 0:  # our end is the end of everybody, also of a worker that still has to say how it ended
        select.select([ours], [], [], LAST_WORDS_WITHIN)
    os._exit(code if code >= 0 else SIGNALLED - code)


def _reap_until(child: int) -> int:
    """Take the status of whoever has ended; the child's own."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status
