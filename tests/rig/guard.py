"""cronguard as its users start it: the real program, with an environment of the test's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.rig.processes import alive, descendants, kill_tree
from tests.rig.waiting import wait_until

PROGRAM = (sys.executable, "-m", "cronguard")


@dataclass(frozen=True)
class Guard:
    """Runs `cronguard …` against one ledger, in one folder; `host(...)` gives the same as another host would see it."""

    folder: Path
    environment: Mapping[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    through: tuple[str, ...] = ()  # a prefix of its own, such as setpriv or a shell that closes descriptors

    def run(self, *arguments: str | os.PathLike[str], within: float = 60, **options: Any) -> Result:
        """Run to the end; stdin is /dev/null, as under cron."""
        done = subprocess.run(
            [*self.through, *PROGRAM, *map(os.fsdecode, arguments)],
            env=dict(self.environment), cwd=self.folder, timeout=within, capture_output=True, text=True,
            stdin=options.pop("stdin", subprocess.DEVNULL), **options,
        )  # fmt: skip
        return Result(shell_code(done.returncode), done.stdout, done.stderr)

    def start(self, *arguments: str | os.PathLike[str], **options: Any) -> subprocess.Popen[str]:
        """Start and return at once; killed at the end of the test, with its process group, if it still runs."""
        process = subprocess.Popen(
            [*self.through, *PROGRAM, *map(os.fsdecode, arguments)],
            env=dict(self.environment), cwd=self.folder, text=options.pop("text", True), start_new_session=True,
            stdin=options.pop("stdin", subprocess.DEVNULL), stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE), **options,
        )  # fmt: skip
        self.started.append(process)
        return process

    def under(self, *prefix: str) -> Guard:
        """The same, started by another program."""
        return replace(self, through=prefix)

    def with_env(self, **variables: str | None) -> Guard:
        """The same, with variables set or (None) unset."""
        merged = {**self.environment, **{name: value for name, value in variables.items() if value is not None}}
        kept = {name: value for name, value in merged.items() if variables.get(name, "") is not None}
        return replace(self, environment=kept)

    # --- what the ledger says, by the program's own JSON

    def history(self, key: str | None = None, limit: int = 1000) -> list[dict[str, Any]]:
        """The runs, newest first."""
        asked = ["history", *([key] if key else []), "-n", str(limit), "--json"]
        return list(self._json(*asked)["runs"])

    def show(self, key: str, period: str | None = None) -> dict[str, Any]:
        """One run with its attempts and skips."""
        return self._json("show", key, *([period] if period else []), "--json")

    def _json(self, *arguments: str) -> dict[str, Any]:
        result = self.run(*arguments)
        assert result.code == 0, result.err
        return dict(json.loads(result.out))

    # --- files that commands write, and processes they are

    def lines(self, name: str) -> list[str]:
        """What the commands have written to this file of the folder so far."""
        with suppress(FileNotFoundError):
            return (self.folder / name).read_text().splitlines()
        return []

    def wait_for_line(self, name: str, count: int = 1, within: float = 40) -> list[str]:
        """Wait until a file of the folder has that many lines."""
        wait_until(lambda: len(self.lines(name)) >= count, within, saying=f"{count} lines in {name}")
        return self.lines(name)

    def clean_up(self) -> None:
        """No process of the test outlives it."""
        for process in self.started:
            if process.poll() is None:
                kill_tree(process.pid)
            process.communicate(timeout=30)


def shell_code(returncode: int) -> int:
    """An exit code as a shell tells it: 128+n for a program that died of signal n, as its command did."""
    return 128 - returncode if returncode < 0 else returncode


def code_of(process: subprocess.Popen[str], within: float = 30) -> int:
    """Wait for a program's end; its exit code as a shell tells it."""
    return shell_code(process.wait(within))


@dataclass(frozen=True)
class Result:
    """How one `cronguard …` ended."""

    code: int
    out: str
    err: str

    @property
    def only_line(self) -> str:
        """The one line on stderr; the test fails when it says more, or less, or shows a traceback."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[0]


def host_dies(guardian: int) -> None:
    """Guardian, worker and command at once, as when the power fails: nobody can tell the ledger."""
    everybody = descendants(guardian)
    for signum, pids in ((signal.SIGSTOP, everybody), (signal.SIGKILL, [guardian, *everybody])):
        for pid in pids:
            with suppress(ProcessLookupError):  # a command's helpers come and go
                os.kill(pid, signum)


def wait_dead(pid: int, within: float = 30) -> None:
    wait_until(lambda: not alive(pid), within, saying=f"process {pid} is dead")
