"""A command whose output goes through `Output`, in a process of its own with the streams that the test gives it."""

from __future__ import annotations

import base64
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cronguard.clock import boottime
from cronguard.domain.run import Captured
from cronguard.process.output import Output


@dataclass(frozen=True)
class Pumped:
    """What came out at the other side, and what `Output` said."""

    out: bytes
    err: bytes
    captured: Captured
    code: int  # the command's
    handed_on: list[bool]  # whether stdout and stderr were given to the command as they are
    pumped: bool
    seen: bool
    took: float  # seconds that `finish` took
    silent: float  # seconds from the last byte to the command's end
    descriptors: list[int]  # open ones, before and after
    grown_kb: int  # how much more memory the whole took


class Pumping:
    """Started, and to be waited for with `result`."""

    def __init__(self, *command: str, stdout: Any = subprocess.PIPE, stderr: Any = subprocess.PIPE, **options: Any):
        self._report = tempfile.TemporaryFile()  # noqa: SIM115  closed by `result`
        report = self._report.fileno()
        asked = json.dumps({"command": command, "capture": 16384, "quiet": False, "within": 5.0} | options)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.rig.pumping", str(report), asked],
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, pass_fds=(report,),
        )  # fmt: skip

    def result(self, within: float = 60) -> Pumped:
        out, err = self.process.communicate(timeout=within)
        with self._report as file:
            file.seek(0)
            said = json.load(file)
        head, tail, total, notes = said.pop("captured")
        captured = Captured(base64.b64decode(head), base64.b64decode(tail), total, tuple(notes))
        return Pumped(out or b"", err or b"", captured, **said)


def pumped(*command: str, **options: Any) -> Pumped:
    return Pumping(*command, **options).result()


def shell(script: str, **options: Any) -> Pumped:
    return pumped("sh", "-c", script, **options)


# --------------------------------------------------------------------------- in the process of its own


def main(report: int, asked: dict[str, Any]) -> None:
    os.set_inheritable(report, False)
    before, memory = _descriptors(), _memory()
    output = Output(asked["capture"], asked["quiet"])
    handed_on = [output.stdout is None, output.stderr is None]
    status = _run(asked["command"], output) if asked["command"] else 0
    finishing = boottime()
    captured = output.finish(asked["within"])
    took = boottime() - finishing
    silent = finishing - output.last_at  # asked for when the last byte has been seen for certain
    if asked.get("print"):
        output.print_held_back()
    known = {"pumped": output.pumped, "seen": output.seen, "took": took, "silent": silent, "handed_on": handed_on}
    del output
    document = {
        **known,
        "code": os.waitstatus_to_exitcode(status),
        "captured": [*map(_text, (captured.head, captured.tail)), captured.total, captured.notes],
        "descriptors": [before, _descriptors()],
        "grown_kb": _memory() - memory,
    }
    with os.fdopen(report, "w") as file:
        json.dump(document, file)
    os._exit(0)


def _run(command: Sequence[str], output: Output) -> int:
    pid = os.fork()
    if pid == 0:
        with suppress(OSError):
            for given, descriptor in ((output.stdout, 1), (output.stderr, 2)):
                if given is not None:
                    os.dup2(given, descriptor)
            os.execvp(command[0], command)
        os._exit(127)
    output.start()
    return os.waitpid(pid, 0)[1]


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
