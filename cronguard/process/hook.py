"""A hook: a command of the user's that is told of something. It has its time, and is killed after it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

TIME_BUDGET = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Hook:
    """One line for /bin/sh, as in a crontab. What it prints goes to stderr: stdout is ours."""

    line: str
    within: float = TIME_BUDGET

    def run(self, environment: Mapping[str, str]) -> str:
        """What went wrong, in words; nothing when nothing did."""
        import subprocess

        process = subprocess.Popen(
            ["/bin/sh", "-c", self.line], env=dict(environment), stdin=subprocess.DEVNULL, stdout=2,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(self.within)
        except subprocess.TimeoutExpired:
            return f"was killed after {self.within:g}s"
        finally:
            _kill_group(process.pid)
            process.wait()
        return f"died of signal {-code}" if code < 0 else f"ended with exit {code}" if code else ""


def _kill_group(leader: int) -> None:
    """Also what it left behind: nothing of a hook outlives it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
