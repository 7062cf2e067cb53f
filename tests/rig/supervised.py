"""One `cronguard run` that is under way: its guardian, its worker and its command, each by its pid."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.rig.den import at_home
from tests.rig.guard import Guard, code_of
from tests.rig.processes import alive, children
from tests.rig.waiting import wait_until

LEASE = 8.0  # seconds, of SHORT_LEASE
# Its end can be waited for; and whichever process stands still for five seconds, at any moment, keeps its run.
SHORT_LEASE = ("--lease", "8s", "--stop-grace", "0.5s", "--beat-every", "0.5s")
# For who wants to see it renewed, and no end of it.
LONG_LEASE = ("--lease", "60s", "--stop-grace", "1s", "--beat-every", "0.5s")
PERIOD = datetime.now(UTC).date().isoformat()  # named, so that all firings of a test are about one, over midnight too
ENDLESS = "while :; do sleep 0.05; done"
TICKING = "while :; do echo tick >> ticks; sleep 0.05; done"
PATIENT = 40.0
AT_ONCE = 10.0  # seconds: nothing but a machine that is busy has to be waited for, and no usual lease comes to its end
KEY = ("run", "--key", "job", "--period", PERIOD)


@dataclass(frozen=True)
class Supervised:
    """The three processes of a run, and the one that a test waits for."""

    process: subprocess.Popen[str]
    worker: int
    command: int

    @property
    def guardian(self) -> int:
        """What the caller sees, and what it sends signals to."""
        return self.process.pid

    def code(self, within: float = PATIENT) -> int:
        """Its exit code as a shell tells it, once it has ended."""
        return code_of(self.process, within)

    def status(self, within: float = PATIENT) -> int:
        """Its exit code, or minus the signal that it died of."""
        return self.process.wait(within)

    def said(self) -> str:
        """What it wrote to stderr; to be asked once it has ended."""
        return self.process.communicate(timeout=PATIENT)[1]


def start(guard: Guard, script: str, *options: str, before: str = ":", **popen: Any) -> Supervised:
    """Run a shell script as the command; returns when `before` is done and `script` about to begin."""
    count = len(guard.lines("pids"))
    process = guard.start(*KEY, *options, "--", "sh", "-c", f"{before}\necho $$ >> pids; {script}", **popen)
    command = int(guard.wait_for_line("pids", count + 1)[-1])
    return Supervised(process, parent_of(command), command)


def run(guard: Guard, script: str, *options: str, **popen: Any) -> Any:
    """Run a shell script as the command, to its end."""
    return guard.run(*KEY, *options, "--", "sh", "-c", script, **popen)


def parent_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))


def worker_of(guardian: int) -> int | None:
    """None where there is none yet, or no more."""
    return next(iter(children(guardian)), None)


def ended(guard: Guard) -> tuple[str, str | None]:
    """The state of the run of `job`, and the outcome of its last attempt."""
    record = guard.show("job")
    return record["state"], record["attempts"][-1]["outcome"]


def attempt(guard: Guard) -> dict[str, Any]:
    """The last attempt of `job`."""
    return dict(guard.show("job")["attempts"][-1])


def wait_until_ended(guard: Guard, within: float = PATIENT) -> tuple[str, str | None]:
    """What the ledger says once the attempt is closed; for who cannot wait for cronguard itself."""
    return wait_until(lambda: (seen := ended(guard))[1] and seen, within, every=0.2, saying="the attempt is closed")


def nobody_left(folder: Path, *pids: int, within: float = 1.0) -> None:
    """Neither these nor anybody at home in the folder lives any more; who does is named, and killed."""
    left: list[int] = []

    def gone() -> bool:
        left[:] = [pid for pid in {*pids, *at_home(folder)} if alive(pid)]
        return not left

    try:
        wait_until(gone, within, saying="nobody is left")
    except AssertionError as error:
        names = {pid: _name_of(pid) for pid in left}
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"left alive: {names}") from error


def stands_still(file: Path, for_seconds: float) -> bool:
    """Whether the file does not grow for that long."""
    before = file.stat().st_size
    with suppress(AssertionError):
        wait_until(lambda: file.stat().st_size != before, for_seconds)
        return False
    return True


def moves(file: Path, within: float = PATIENT) -> None:
    """Wait until the file, which may not be there yet, grows."""
    wait_until(file.exists, within, saying=f"{file.name} is there")
    before = file.stat().st_size
    wait_until(lambda: file.stat().st_size != before, within, saying=f"{file.name} grows")


def kill(*pids: int, signum: int = signal.SIGKILL) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)


def _name_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:80]
    return "?"
