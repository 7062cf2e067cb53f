"""Nine situations of a prefix with a real process tree; prefixes.py prints what was seen in each.

Each is a function of a stage, where one tool starts one command; it answers with what it saw, in the words of a cell.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.rig.den import at_home
from tests.rig.processes import alive, descendants, kill_tree
from tests.rig.waiting import wait_until
from tests.rig.zoo import ANIMALS, Zoo

PATIENCE = 10.0  # seconds after which something hangs
GRACE = "0.5"  # seconds between TERM and KILL, where a tool has both
BLOCK, BLOCKS = 1 << 20, 100
SEEN_EVERY = 0.02


@dataclass(frozen=True)
class Tool:
    """A prefix; in its words `{folder}` becomes the stage's, and `{job}` the name of what is fired."""

    name: str
    program: str
    prefix: Sequence[str]
    with_deadline: Sequence[str] = ()  # none: it knows no deadlines

    @property
    def installed(self) -> bool:
        return shutil.which(self.program) is not None


@dataclass
class Stage:
    """A folder of its own for one situation with one tool: whoever is started here has it as working directory."""

    tool: Tool
    folder: Path
    environment: Mapping[str, str]
    zoo: Zoo = field(init=False)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started_at: float = 0.0

    def __post_init__(self) -> None:
        self.zoo = Zoo(self.folder / "zoo")

    def start(
        self, *command: str, job: str = "job", prefix: Sequence[str] = (), **popen: Any
    ) -> subprocess.Popen[bytes]:
        """In a session of its own, with nothing on stdin, as cron does."""
        prefix = prefix or self.tool.prefix
        words = [word.replace("{folder}", str(self.folder)).replace("{job}", job) for word in prefix]
        plumbing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **popen}
        self.started_at = time.monotonic()
        self.started.append(
            subprocess.Popen(
                [*words, *command], cwd=self.folder, env=dict(self.environment), start_new_session=True, **plumbing
            )
        )
        return self.started[-1]

    def start_zoo(self) -> subprocess.Popen[bytes]:
        process = self.start(*self.zoo.command())
        wait_until(self.zoo.is_complete, saying="the zoo has come up")
        return process

    def pid(self, name: str) -> int:
        """What the command has written to a file."""
        return int(wait_until(lambda: (self.folder / name).exists() and (self.folder / name).read_text().strip()))

    def clear(self) -> None:
        """Nobody stays: neither who is at home here, nor an animal that has moved out."""
        for process in self.started:
            if process.poll() is None:
                kill_tree(process.pid)
            process.wait(PATIENCE)
        while left := [pid for pid in {*at_home(self.folder), *self.zoo.pids().values()} if alive(pid)]:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


# --------------------------------------------------------------------------- the prefix is told to go


def killed(stage: Stage) -> str:
    process = stage.start_zoo()
    process.kill()
    time.sleep(1)
    return _animals_left(stage)


def asked_to_stop(stage: Stage) -> str:
    process = stage.start_zoo()
    process.terminate()
    time.sleep(3)
    return _animals_left(stage)


def _animals_left(stage: Stage) -> str:
    return f"{sum(map(alive, stage.zoo.pids().values()))} of {len(ANIMALS)} alive"


# --------------------------------------------------------------------------- deadlines


def deaf_command(stage: Stage) -> str:
    script = "trap '' TERM; setsid sleep 60 & while :; do sleep 0.05; done"
    return _at_deadline(stage, "sh", "-c", script)


def stuck_reader(stage: Stage) -> str:
    """Stdout and stderr lead into one pipe, as under cron; it is full at once, and nobody reads it."""
    source, sink = os.pipe()
    try:
        return _at_deadline(stage, "cat", "/dev/zero", stdout=sink, stderr=sink)
    finally:
        os.close(source)
        os.close(sink)


def _at_deadline(stage: Stage, *command: str, **popen: Any) -> str:
    """From the start of the prefix: when it ends, and when nobody of the command is left."""
    if not stage.tool.with_deadline:
        return "no deadline"
    process = stage.start(*command, prefix=stage.tool.with_deadline, **popen)
    wait_until(lambda: _of_command(stage), saying="the command runs")
    ended, dead = _moments(lambda: process.poll() is not None, lambda: not _of_command(stage), since=stage.started_at)
    left = len(_of_command(stage))
    return f"{end_of(process)} {ended}, " + (f"{left} alive after {PATIENCE:.0f} s" if left else f"all dead {dead}")


def _of_command(stage: Stage) -> list[int]:
    """Those at home here that bear the name of a command; a prefix on its way to one does not yet."""
    return [pid for pid in at_home(stage.folder) if alive(pid) and _name(pid) in ("sh", "cat", "sleep")]


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _moments(*conditions: Callable[[], bool], since: float) -> list[str]:
    """When each came true."""
    moments: dict[int, str] = {}

    def all_true() -> bool:
        for n, condition in enumerate(conditions):
            if n not in moments and condition():
                moments[n] = f"in {time.monotonic() - since:.1f} s"
        return len(moments) == len(conditions)

    with suppress(AssertionError):
        wait_until(all_true, PATIENCE)
    return [moments.get(n, f"> {PATIENCE:.0f} s") for n in range(len(conditions))]


def end_of(process: subprocess.Popen[bytes]) -> str:
    """As whoever waits for it is told."""
    code = process.poll()
    if code is None:
        return "hangs"
    return f"exit {code}" if code >= 0 else f"dies of {signal.Signals(-code).name}"


# --------------------------------------------------------------------------- what the caller gets


def daemon_left(stage: Stage) -> str:
    """The caller reads until the end of the output, as cron does: as long as that does not come, it waits."""
    script = "setsid sleep 60 & echo $! > daemon; sleep 0.3"  # until the daemon has left the command's group
    process = stage.start("sh", "-c", script, stdout=subprocess.PIPE)
    reader = threading.Thread(target=_read_to_the_end, args=(process.stdout,), daemon=True)
    reader.start()
    ended, read = _moments(lambda: process.poll() is not None, lambda: not reader.is_alive(), since=stage.started_at)
    daemon = "alive" if alive(stage.pid("daemon")) else "dead"
    return f"{end_of(process)} {ended}, end of output {read}, daemon {daemon}"


def _read_to_the_end(source: IO[bytes]) -> None:
    while source.read(BLOCK):
        pass


def dies_of_signal(stage: Stage) -> str:
    process = stage.start("sh", "-c", "ulimit -c 0; kill -SEGV $$")
    process.wait(PATIENCE)
    return end_of(process)


def cannot_start(stage: Stage) -> str:
    """There is no such command; it may not be executed; it is a text that does not say by what."""
    for name, mode in (("locked", 0o644), ("text", 0o755)):
        (stage.folder / name).write_text("echo has run > text.ran\n")
        (stage.folder / name).chmod(mode)
    ends = []
    for name in ("absent", "locked", "text"):
        process = stage.start(str(stage.folder / name), job=name)
        process.wait(PATIENCE)
        ends.append(str(process.returncode))
    return f"exit {', '.join(ends)}; the text {'ran' if (stage.folder / 'text.ran').exists() else 'did not run'}"


def much_output(stage: Stage) -> str:
    """100 MB, then exit 3: what has come through, and how large the largest process of the prefix has become."""
    process = stage.start(sys.executable, "-ESc", SPEAKER, stdout=subprocess.PIPE)
    assert process.stdout
    source, digest, peaks = process.stdout, hashlib.sha256(), dict[int, int]()

    def read() -> None:
        while piece := source.read(BLOCK):
            digest.update(piece)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    until = time.monotonic() + 60
    while reader.is_alive() and time.monotonic() < until:
        _look_at(process.pid, peaks)
        reader.join(SEEN_EVERY)
    process.wait(PATIENCE)
    peaks.pop(stage.pid("speaker"), None)
    right = "intact" if digest.hexdigest() == spoken() else "NOT intact"
    return f"{right}, {end_of(process)}, peak {max(peaks.values()) / 1024:.0f} MB"


def _look_at(pid: int, peaks: dict[int, int]) -> None:
    for one in (pid, *descendants(pid)):
        with suppress(OSError, StopIteration):  # gone meanwhile, or a zombie without memory
            lines = Path(f"/proc/{one}/status").read_text().splitlines()
            peaks[one] = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


SPEAKER = f"""
import os, random
open("speaker", "w").write(str(os.getpid()))
block = random.Random(7).randbytes({BLOCK} - 8)
for n in range({BLOCKS}):
    rest = memoryview(n.to_bytes(8, "big") + block)
    while rest:
        rest = rest[os.write(1, rest):]
os._exit(3)
"""


def spoken() -> str:
    """The checksum of what the speaker says."""
    import random

    block, digest = random.Random(7).randbytes(BLOCK - 8), hashlib.sha256()
    for n in range(BLOCKS):
        digest.update(n.to_bytes(8, "big") + block)
    return digest.hexdigest()


# --------------------------------------------------------------------------- twice


def fired_twice(stage: Stage) -> str:
    both = [stage.start("sh", "-c", "echo >> ran; sleep 1") for _ in range(2)]
    for process in both:
        process.wait(PATIENCE)
    return f"{len((stage.folder / 'ran').read_text().splitlines())} ran, {' and '.join(map(end_of, both))}"


SITUATIONS: Mapping[str, Callable[[Stage], str]] = {
    "1. kill -9 of the prefix: after 1 s": killed,
    "2. SIGTERM to the prefix: after 3 s": asked_to_stop,
    "3. deadline of 1 s, command ignores TERM and has a setsid child": deaf_command,
    "4. deadline of 1 s, nobody reads the output": stuck_reader,
    "5. command leaves a daemon that holds the pipe": daemon_left,
    "6. command dies of SIGSEGV: the caller sees": dies_of_signal,
    "7. command not found, not executable, text without #!": cannot_start,
    "8. 100 MB of output, then exit 3": much_output,
    "9. fired twice at once": fired_twice,
}
