"""A command without a lease, for `cronguard once`: started here, given the signals that come, waited for to its end.

It stays in our process group, so that a terminal's signals reach it by
themselves, and dies with us.
"""

from __future__ import annotations

import errno
import os
import signal
import struct
from contextlib import suppress
from typing import NoReturn

from cronguard.clock import boottime
from cronguard.process.command import Ended
from cronguard.process.linux import die_with_parent
from cronguard.process.signals import LONGEST_WAIT, Signals
from cronguard.process.spawn import Command, execute
from cronguard.process.terminal import is_interactive

SENT_BY_TERMINALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH)
_ERRNO = struct.Struct("i")


def run_errand(command: Command, signals: Signals) -> Ended:
    """Run it to its end; or the errno with which it could not be started."""
    read, write = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(command, signals, parent, write)
    os.close(write)
    refusal = os.read(read, _ERRNO.size)  # its end comes with the exec
    os.close(read)
    code = os.waitstatus_to_exitcode(_wait(pid, signals))
    if refusal:
        return Ended(start_errno=int(_ERRNO.unpack(refusal)[0]))
    return Ended(exit_code=code) if code >= 0 else Ended(signal=-code)


def _become(command: Command, signals: Signals, parent: int, report_here: int) -> NoReturn:
    code = errno.ECANCELED
    try:
        die_with_parent(signal.SIGKILL)
        if os.getppid() == parent:  # else it died before it could be listened for
            signals.caller.restore()
            execute(command)
    except OSError as error:
        code = error.errno or errno.EINVAL
    except ValueError:
        code = errno.EINVAL
    finally:
        os.write(report_here, _ERRNO.pack(code))
        os._exit(127)


def _wait(pid: int, signals: Signals) -> int:
    """What a terminal sends has reached the command already: a second one would be one too many."""
    heard = SENT_BY_TERMINALS if is_interactive(signals.caller) else ()
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        while (signum := signals.take()) is not None:
            if signum not in heard:
                with suppress(ProcessLookupError):
                    os.kill(pid, signum)
        signals.wait(boottime() + LONGEST_WAIT)
