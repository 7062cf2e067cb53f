"""The command's process: forked early, while there are no threads yet, and given its program late.

It gets what the caller would have given it: descriptors, signal mask, ignored
signals. What execve(2) says comes back as it was said.
"""

from __future__ import annotations

import errno
import os
import signal
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from cronguard.process.guardian import Worker
from cronguard.process.linux import die_with_parent
from cronguard.process.terminal import is_terminal

_GO = b"g"
_NOT_HERE = (errno.ENOENT, errno.ENOTDIR)
_FIRST_LINE = 256  # bytes of it that the kernel, and shells, look at
_ERRNO = struct.Struct("i")


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: argv, its environment, and where its output goes (None: where ours goes)."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    stdout: int | None = None
    stderr: int | None = None


class Stub:
    """A process that waits for its program. Killed with us, whatever happens: nothing has been started yet."""

    def __init__(self, command: Command, worker: Worker) -> None:
        opened: list[int] = []
        try:
            wait_here, self._go = opened[:2] = os.pipe2(os.O_CLOEXEC)
            self._errors, report_here = opened[2:] = os.pipe2(os.O_CLOEXEC)
            parent = os.getpid()
            worker.link.is_waiting = False  # from here on it hears a terminal by itself
            self.pid = os.fork()
        except OSError:
            for descriptor in opened:  # what little room there is will be needed to say so
                os.close(descriptor)
            raise
        if self.pid == 0:
            _become(command, worker, parent, wait_here, report_here)
        os.close(wait_here)
        os.close(report_here)

    def start(self) -> int:
        """Let it become the command; 0, or the errno with which it could not."""
        with suppress(BrokenPipeError):
            os.write(self._go, _GO)
        os.close(self._go)
        answer = os.read(self._errors, _ERRNO.size)  # its end comes with the exec, or with the stub
        os.close(self._errors)
        return int(_ERRNO.unpack(answer)[0]) if answer else 0


def _become(command: Command, worker: Worker, parent: int, wait_here: int, report_here: int) -> NoReturn:
    code = errno.ECANCELED
    try:
        _leave_the_worker(command, worker, parent)
        if os.read(wait_here, 1) != _GO:
            os._exit(0)
        execute(command)
    except OSError as error:
        code = error.errno or errno.EINVAL
    except ValueError:
        code = errno.EINVAL
    finally:
        os.write(report_here, _ERRNO.pack(code))
        os._exit(127)


def _leave_the_worker(command: Command, worker: Worker, parent: int) -> None:
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # it died before it could be listened for
        os._exit(0)
    if worker.foreground is None:
        os.setsid()
    else:
        os.setpgid(0, worker.foreground)
    _descriptors(command, in_own_session=worker.foreground is None)
    worker.signals.caller.restore()


def _descriptors(command: Command, *, in_own_session: bool) -> None:
    if in_own_session and is_terminal(0):
        # In a session of its own it could still read what the user types to somebody else.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, target in ((1, command.stdout), (2, command.stderr)):
        if target is not None:
            os.dup2(target, descriptor)


def execute(command: Command) -> None:
    """As execvp(3) looks for it: on the first place in PATH that has it and lets us."""
    program = command.argv[0]
    if not program:  # an argument that --expand emptied
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    path = command.environment.get("PATH", os.defpath)
    refusals: list[OSError] = []
    for place in [program] if "/" in program else [f"{folder or '.'}/{program}" for folder in path.split(":")]:
        try:
            _execute_at(place, command)
        except OSError as error:
            refusals.append(error)
            if error.errno not in (*_NOT_HERE, errno.EACCES):
                break
    raise next((error for error in reversed(refusals) if error.errno not in _NOT_HERE), refusals[0])


def _execute_at(place: str, command: Command) -> None:
    """A text file without #! is given to /bin/sh, as execvp(3), env(1) and timeout(1) do; musl's execvp does not."""
    try:
        os.execve(place, list(command.argv), dict(command.environment))  # noqa: S606  argv, as it was given
    except OSError as error:
        if error.errno != errno.ENOEXEC or _is_binary(place):
            raise
        os.execve("/bin/sh", ["/bin/sh", place, *command.argv[1:]], dict(command.environment))  # noqa: S606


def _is_binary(place: str) -> bool:
    """A program for another machine, a damaged one: as shells judge it, by a NUL in its first line."""
    with Path(place).open("rb") as file:
        return b"\0" in file.readline(_FIRST_LINE)
