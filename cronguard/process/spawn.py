"""Start the command as the caller would have: its descriptors, its signal mask, its ignored signals."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Python ignores these at its own start; what the caller had cannot be seen any more.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: argv, its environment, and where its output goes (None: where ours goes)."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    stdout: int | None = None
    stderr: int | None = None


def interactive(interrupt_was_ignored: bool) -> bool:
    """A person is at the terminal and we are in its foreground.

    `cmd &` in a script without job control looks like the foreground too, but
    there the shell had SIGINT ignored.
    """
    if interrupt_was_ignored or not _is_terminal(0):
        return False
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def spawn(command: Command, *, own_session: bool, mask: set[int]) -> int:
    """The pid of the started command; raises OSError with the exact errno of execve.

    A text file without #! is given to /bin/sh, as execvp(3), env(1) and
    timeout(1) do.
    """
    if not command.argv[0]:  # an argument that --expand emptied
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    try:
        return _spawn(command.argv[0], command.argv, command, own_session, mask)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        script = _found(command.argv[0], command.environment.get("PATH", os.defpath))
        return _spawn("/bin/sh", ["/bin/sh", script, *command.argv[1:]], command, own_session, mask)


def _spawn(program: str, argv: Sequence[str], command: Command, own_session: bool, mask: set[int]) -> int:
    return os.posix_spawnp(
        program,
        list(argv),
        dict(command.environment),
        file_actions=_file_actions(command, own_session),
        setsid=own_session,
        setsigmask=mask,
        setsigdef=_IGNORED_BY_PYTHON,
    )


def _file_actions(command: Command, own_session: bool) -> list[tuple[Any, ...]]:
    actions: list[tuple[Any, ...]] = []
    if own_session and _is_terminal(0):
        # In a session of its own it could still read what the user types to somebody else.
        actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
    for fd, target in ((1, command.stdout), (2, command.stderr)):
        if target is not None:
            actions.append((os.POSIX_SPAWN_DUP2, target, fd))
    return actions


def _found(program: str, path: str) -> str:
    if "/" in program:
        return program
    places = (Path(folder or ".") / program for folder in path.split(os.pathsep))
    return str(next((place for place in places if os.access(place, os.X_OK) and place.is_file()), program))


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False
