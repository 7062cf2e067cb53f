"""A person at a terminal: an interactive bash on a pseudo-terminal, keys, and what can be read on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.rig.processes import kill_tree
from tests.rig.waiting import wait_until

CTRL_C, CTRL_D, CTRL_Z, CTRL_BACKSLASH = b"\x03", b"\x04", b"\x1a", b"\x1c"
PROMPT = "ready> "
PATIENT = 60.0  # seconds for what is shown at once where the machine is idle


class Terminal:
    """The shell runs in the folder; words that a test waits for must not stand in what it types."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 500, 0, 0))
        self.shell = subprocess.Popen(
            ["setsid", "--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i"],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder,
            env={**environment, "PS1": PROMPT, "TERM": "dumb", "HISTFILE": ""},
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""  # since the last `read`
        self.read(PROMPT)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shell.poll() is None:
            kill_tree(self.shell.pid)
        self.shell.wait(30)
        self.hang_up()

    def type(self, line: str) -> None:
        os.write(self._ours, line.encode() + b"\n")

    def press(self, key: bytes) -> None:
        os.write(self._ours, key)

    def read(self, pattern: str, within: float = PATIENT) -> re.Match[str]:
        """Read on until the screen has shown this since the last time; what came behind it is kept for the next."""
        until = time.monotonic() + within
        while not (found := re.search(pattern, self.seen)):
            left = until - time.monotonic()
            assert left > 0, f"not within {within:g} s on the terminal: {pattern!r} in {self.seen!r}"
            if select.select([self._ours], [], [], left)[0]:
                self.seen += self._receive()
        self.seen = self.seen[found.end() :]
        return found

    def stays_silent(self, for_seconds: float) -> bool:
        """Whether not a byte is written to the screen for that long; what was is kept for the next `read`."""
        if select.select([self._ours], [], [], for_seconds)[0]:
            self.seen += self._receive()
            return False
        return True

    def do(self, line: str, within: float = PATIENT) -> str:
        """Type a line, wait for the next prompt, and return what was shown between them."""
        self.type(line)
        return self.read(f"{re.escape(line)}\r\n((?s:.*?)){PROMPT}", within)[1].replace("\r\n", "\n")

    def last_code(self) -> int:
        """The exit code of what ran last, as the shell sees it."""
        return int(self.do("echo $?"))

    def foreground(self) -> int:
        """The process group that the keyboard talks to."""
        return os.tcgetpgrp(self._ours)

    def wait_for_foreground(self, group: int, within: float = PATIENT) -> None:
        wait_until(lambda: self.foreground() == group, within, saying=f"{group} is in the foreground")

    def hang_up(self) -> None:
        """The window is closed."""
        if self._ours >= 0:
            os.close(self._ours)
        self._ours = -1

    def _receive(self) -> str:
        with suppress(OSError):  # what Linux says when nobody is at the other side
            return os.read(self._ours, 65536).decode(errors="replace")
        return ""
