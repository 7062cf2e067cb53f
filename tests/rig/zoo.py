"""Nine descendants, each with a way of its own to outlive whoever started it; and a family that never stands still.

As a program it is the zoo: each animal writes its pid to a file and then a byte to another, over and over, so that
"alive" can be judged from /proc and from that counter standing still. It needs nothing but the standard library.

    python zoo.py nine FOLDER         the leader runs until it is killed
    python zoo.py tame FOLDER SECONDS the leader writes `end` after that long, all others leave, it exits 0
    python zoo.py respawn FOLDER LINES PAUSE  each process forks its heir and exits, for LINES families at once
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

ANIMALS = (
    "leader", "plain", "ignores_term", "setpgid", "setsid", "double_forked",
    "daemon", "daemon_without_descriptors", "daemon_without_environment",
)  # fmt: skip
EVERY = 0.02  # seconds between two beats
AT_MOST = 120.0  # seconds: what a failing test leaves behind goes by itself
POLITE_REQUESTS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


class Zoo:
    """The zoo as a test sees it from outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def command(self, *kind: str) -> tuple[str, ...]:
        """What to put behind `--`; without a kind, all nine, for ever."""
        what, *more = kind or ("nine",)
        return sys.executable, "-ES", __file__, what, str(self.folder), *more

    def pids(self) -> dict[str, int]:
        """Who has come up so far."""
        found = {}
        for path in self.folder.glob("*.pid"):
            with contextlib.suppress(ValueError):  # just being written
                found[path.stem] = int(path.read_text())
        return found

    def is_complete(self) -> bool:
        return set(self.pids()) == set(ANIMALS) and all(self.beats().get(name) for name in ANIMALS)

    def beats(self) -> dict[str, int]:
        """How often each has beaten."""
        return {path.stem: path.stat().st_size for path in self.folder.glob("*.beats")}

    def has_ended_well(self) -> bool:
        """The leader's own mark, its last act before it exits with 0."""
        return (self.folder / "end").exists()


# --------------------------------------------------------------------------- the program


def nine(folder: Path) -> None:
    """Everybody but the leader comes to life; in the order of their names, so that the log of a failure can be read."""
    starts: dict[str, Callable[[], None]] = {
        "plain": lambda: None,
        "ignores_term": _ignore,
        "setpgid": lambda: os.setpgid(0, 0),
        "setsid": os.setsid,
        "double_forked": _fork_away,
        "daemon": _daemonize,
        "daemon_without_descriptors": lambda: (_daemonize(), _close_all(), os.chdir("/"))[-1],
        "daemon_without_environment": lambda: (_daemonize(), _ignore(), _exec_without_environment(folder))[0],
    }
    for name, become in starts.items():
        if os.fork() == 0:
            become()
            _live(folder, name)


def _ignore() -> None:
    for signum in POLITE_REQUESTS:
        signal.signal(signum, signal.SIG_IGN)


def _fork_away() -> None:
    if os.fork():
        os._exit(0)


def _daemonize() -> None:
    _fork_away()
    os.setsid()
    _fork_away()


def _close_all() -> None:
    os.closerange(0, 256)


def _exec_without_environment(folder: Path) -> None:
    name = "daemon_without_environment"
    os.execve(sys.executable, ["anything", "-ES", __file__, "live", str(folder), name], {})


def _live(folder: Path, name: str, until: Callable[[], bool] = lambda: False) -> None:
    """Beat by an interval timer, which goes on over a SIGSTOP, until it is over or the zoo closes."""
    _write_pid(folder, name)
    counter = os.open(folder / f"{name}.beats", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    closes_at = time.monotonic() + AT_MOST
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    while not (until() or (folder / "closed").exists() or time.monotonic() > closes_at):
        os.write(counter, b".")
        signal.pause()
    signal.setitimer(signal.ITIMER_REAL, 0)
    if name != "leader":
        os._exit(0)


def _write_pid(folder: Path, name: str) -> None:
    path = folder / f"{name}.new"
    path.write_text(str(os.getpid()))
    path.rename(folder / f"{name}.pid")


def tame(folder: Path, seconds: float) -> None:
    """A job that ends well, whose helpers leave with it."""
    nine(folder)
    over = time.monotonic() + seconds
    _live(folder, "leader", lambda: time.monotonic() > over)
    (folder / "end").touch()
    (folder / "closed").touch()
    os._exit(0)


def respawn(folder: Path, lines: int, pause: float) -> None:
    """Each generation forks the next one and exits: whoever walks through /proc meets nobody twice."""
    over = time.monotonic() + AT_MOST
    counter = os.open(folder / "generations.beats", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(lines):
        if os.fork() == 0:
            while time.monotonic() < over:
                os.write(counter, b".")
                time.sleep(pause)
                with contextlib.suppress(BlockingIOError):
                    _fork_away()
            os._exit(0)
    _live(folder, "leader")


def main(kind: str, folder: Path, *more: str) -> None:
    if kind == "nine":
        nine(folder)
        _live(folder, "leader")
    elif kind == "tame":
        tame(folder, float(more[0]))
    elif kind == "live":
        _live(folder, more[0])
    elif kind == "respawn":
        respawn(folder, int(more[0]), float(more[1]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
