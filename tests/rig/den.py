"""A den: a directory for a server's files and processes, all of which go when their owner ends, however it ends.

Run as a program it is the watchdog: it waits for the end of its standard input, which comes even when the owner
was killed with -9, and then sweeps the directory given to it. So it imports nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from functools import cache
from pathlib import Path
from typing import Any

USER = "nobody" if os.geteuid() == 0 else None  # Postgres refuses to run as root


class Den:
    """A directory under /tmp, a watchdog for it, and the processes whose working directory it is."""

    def __init__(self, label: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"cronguard-{label}-", dir="/tmp"))  # short: socket paths have a limit
        self.path.chmod(0o755)
        if USER:
            os.chown(self.path, pwd.getpwnam(USER).pw_uid, pwd.getpwnam(USER).pw_gid)
        self._owner = os.getpid()
        # A session of its own: Ctrl-C at the terminal must not reach it.
        self._watchdog = subprocess.Popen(
            [sys.executable, "-ES", __file__, str(self.path)], stdin=subprocess.PIPE, start_new_session=True
        )

    def popen(self, *command: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        """Start a command in the den, unprivileged, with an environment of its own and its words in `log`."""
        if USER:
            options |= {"user": USER, "group": pwd.getpwnam(USER).pw_gid, "extra_groups": []}
        with (self.path / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.path,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **options,
            )

    def run(self, *command: str | Path) -> None:
        """Run a command in the den to its end; RuntimeError with its words if it fails."""
        if self.popen(*command).wait(timeout=120):
            raise RuntimeError(f"{command[0]} failed:\n{self.log()}")

    def log(self) -> str:
        """What the processes said."""
        return (self.path / "log").read_text(errors="replace")

    def pids(self) -> list[int]:
        """The processes at home here."""
        return at_home(self.path)

    def close(self) -> None:
        """Kill and remove everything; a fork of the owner that ends does not."""
        if os.getpid() != self._owner:
            return
        self._watchdog.kill()
        self._watchdog.communicate()
        sweep(self.path)


_taking_turns = threading.Lock()


def free_port() -> int:
    """A free port outside the range the kernel gives to clients, so that it stays free across a restart.

    Nobody else who asks here is given it meanwhile: each process has ports of its own, and gives them in turn.
    """
    with _taking_turns:  # some tests ask from several threads
        _, ports = _own_ports()
        for _ in range(len(ports)):
            ports.rotate()
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", ports[0]))
                return ports[0]
    raise RuntimeError(f"no free port among {len(ports)} from {min(ports)} on")


@cache
def _own_ports() -> tuple[socket.socket, deque[int]]:
    """Ports that are ours for as long as this process has the socket, whose name no two can have at once."""
    slices = range(20000, 32000, 500)
    for first in random.SystemRandom().sample(slices, len(slices)):
        held = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            held.bind(f"\0cronguard ports from {first}")
            return held, deque(random.SystemRandom().sample(range(first, first + 500), 500))
        held.close()
    raise RuntimeError(f"{len(slices)} others have all ports between 20000 and 32000")


def at_home(directory: Path) -> list[int]:
    """The processes whose working directory is in `directory`: Postgres' backends have no other common mark."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):  # gone meanwhile, somebody else's, not a process
            pid, cwd = int(entry), Path(os.readlink(f"/proc/{entry}/cwd"))
            if cwd.is_relative_to(directory):
                found.append(pid)
    return sorted(found)


def sweep(directory: Path) -> None:
    """Kill what is at home in the directory, give back its shared memory, remove it."""
    while pids := at_home(directory):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError, IndexError):  # only a killed Postgres leaves this file and the segment behind
        segment = (directory / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
        subprocess.run(["ipcrm", "-m", segment], stderr=subprocess.DEVNULL, check=False)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.stdin.read()
    sweep(Path(sys.argv[1]))
