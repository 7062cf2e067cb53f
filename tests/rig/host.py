"""A host: it forks a `cronguard` whenever it is told to, as its cron would, with everything loaded beforehand.

`Host` is how a test has one; run as a program this page is the host itself. In a namespace of its own it takes all its
processes with it when it is killed, as a machine does, and what it has on disk is there when it comes back.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tests.rig.den import at_home
from tests.rig.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PATIENT = 60.0  # seconds
OWN_PIDS = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


@dataclass(frozen=True)
class Fired:
    """One `cronguard …` that the host was told to start, by the files that the host writes about it."""

    path: Path  # what they are called, without what follows

    @property
    def pid(self) -> int:
        """The guardian's, as the host sees it."""
        file = self.path.with_suffix(".pid")
        return int(wait_until(lambda: file.exists() and file.read_text(), PATIENT, saying=f"{file} is written"))

    @property
    def code(self) -> int | None:
        """As a shell tells it; None while it lives."""
        with suppress(OSError, ValueError):
            return int(self.path.with_suffix(".code").read_text())
        return None

    @property
    def said(self) -> str:
        """What it, or its command, wrote to stdout and stderr."""
        with suppress(OSError):
            return self.path.with_suffix(".log").read_text(errors="replace")
        return ""


@dataclass
class Host:
    """Its folder is its disk. `environment` is what its cron gives to every job."""

    folder: Path
    environment: Mapping[str, str]
    own_pids: bool = False
    fired: list[Fired] = field(default_factory=list)
    _dead: int = 0  # so many of these it has taken along

    def __post_init__(self) -> None:
        for name in ("home", "work", "fired"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._boot()

    def _boot(self) -> None:
        prefix = OWN_PIDS if self.own_pids else ()
        with (self.folder / "host.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "tests.rig.host"], cwd=ROOT, stdin=subprocess.PIPE, stdout=log,
                stderr=log, start_new_session=True, text=True,
            )  # fmt: skip

    def fire(self, *argv: str | os.PathLike[str], **variables: str) -> Fired:
        """Start `cronguard …` and return at once."""
        fired = Fired(self.folder / "fired" / f"{len(self.fired):04}")
        own = {"HOME": str(self.folder / "home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TZ": "UTC"}
        order = {
            "argv": [*map(os.fsdecode, argv)],
            "environment": {**own, **self.environment, **variables},
            "cwd": str(self.folder / "work"),
            "path": str(fired.path),
        }
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self.fired.append(fired)
        return fired

    def reboot(self) -> None:
        """Everything on it dies at one moment; its disk stays; whoever waits for an exit code waits in vain."""
        self.close()
        self._boot()

    def is_over(self, fired: Fired) -> bool:
        """Whether it has ended, by itself or with the host."""
        return fired.code is not None or fired in self.fired[: self._dead]

    def close(self) -> None:
        """End everything on it."""
        if self._process.returncode is None:  # else its number may be somebody else's by now
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENT)
        if self._process.stdin:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        wait_until(lambda: not [self._kill(pid) for pid in at_home(self.folder)], PATIENT, saying="the host is dead")
        self._dead = len(self.fired)

    def said(self) -> str:
        """What the host itself had to say: nothing, if all is well."""
        return (self.folder / "host.log").read_text()

    def _kill(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# --- The host itself --------------------------------------------------------------------------------------------------


def main() -> None:
    import cronguard.cli.opening  # what every guard would load by itself
    import cronguard.stores.postgres
    import cronguard.stores.sqlite  # noqa: F401

    guards: dict[int, Path] = {}
    orders = b""
    while True:
        if select.select([0], [], [], 0.02)[0]:
            if not (read := os.read(0, 65536)):
                return
            *lines, orders = (orders + read).split(b"\n")
            for order in map(json.loads, lines):
                guards[start(order)] = Path(order["path"])
        reap(guards)


def start(order: dict[str, Any]) -> int:
    if pid := os.fork():
        write(Path(order["path"]).with_suffix(".pid"), pid)
        return pid
    try:
        become(order)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(125)


def become(order: dict[str, Any]) -> NoReturn:
    """As after fork and exec, but for what is loaded."""
    os.setsid()
    os.chdir(order["cwd"])
    log = os.open(Path(order["path"]).with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(source, number)
    os.closerange(3, 64)
    os.environ.clear()
    os.environ.update(order["environment"])
    random.seed()  # else all guards of this host would have the same jitter
    sys.argv = ["cronguard", *order["argv"]]
    from cronguard.__main__ import main as cronguard
    from tests.rig import faulty

    faulty.install(os.environ)
    cronguard()


def reap(guards: dict[int, Path]) -> None:
    """Also, where this is process 1, whoever was left to it."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            code = os.waitstatus_to_exitcode(found[1])
            if path := guards.pop(found[0], None):
                write(path.with_suffix(".code"), code if code >= 0 else 128 - code)


def write(path: Path, number: int) -> None:
    """Whole, or not there."""
    path.with_suffix(".new").write_text(str(number))
    path.with_suffix(".new").rename(path)


if __name__ == "__main__":
    main()
