"""The replicas of a drill: real child processes, each with a log, and the marks that their commands make.

Whatever they leave comes up to us, as to a subreaper: "nobody is left" means
that waitpid(2) says ECHILD. So there must be no other children meanwhile.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cronguard.domain.witness import Course, course_of
from cronguard.errors import BadInput
from cronguard.process import marking
from cronguard.process.linux import become_subreaper
from cronguard.process.tree import Tree

CRONGUARD = (sys.executable, "-P", "-m", "cronguard")
SHORT_PLACE = "/tmp"  # noqa: S108  a folder with a name that nobody guesses is made there
LONGEST_WAY = 75  # bytes: with a number and the name of the socket less than the 107 of Linux
# As above, on a host whose clock goes wrong by so many seconds: they stand before the arguments.
CRONGUARD_OFF_BY = (
    sys.executable, "-P", "-c",
    "import sys, datetime as d; from cronguard import clock; now, off = clock.host_now, float(sys.argv.pop(1)); "
    "clock.host_now = lambda: now() + d.timedelta(seconds=off); from cronguard.__main__ import main; main()",
)  # fmt: skip


@dataclass(slots=True)
class Replica:
    """One of them: the process that was started, and what its command had written down at the last look."""

    number: int
    pid: int
    folder: Path
    code: int | None = None  # the exit code, once it is over
    course: Course | None = None  # None where no command was started

    @property
    def is_over(self) -> bool:
        return self.code is not None

    def read_marks(self) -> None:
        for path in self.folder.glob(f"{self.number}-*[0-9]"):
            self.course = course_of(self.number, path.read_text(encoding="ascii"))

    @property
    def complaint(self) -> str:
        """The last thing it said, if it said anything."""
        text = _log(self.folder, self.number).read_text(encoding="utf-8", errors="replace")
        return text.strip().rpartition("\n")[2]

    def tell_done(self) -> None:
        """Let its command come to its end."""
        if course := self.course:
            (self.folder / f"{self.number}-{course.pid}.done").touch()

    @property
    def guard(self) -> list[int]:
        """The pids of its guard, in the order of their birth; nobody's where the command is bare."""
        return [self.pid, self.course.parent] if self.course and self.course.pid != self.pid else []

    @property
    def everybody(self) -> list[int]:
        """Its guard and its command."""
        return [*self.guard, *([self.course.pid] if self.course else [])]


class Cast:
    """The replicas of one round, in a folder of its own."""

    def __init__(self, folder: Path, lifeline: Path) -> None:
        self.folder = folder
        self._lifeline = lifeline
        self.replicas: list[Replica] = []
        self.is_empty = True  # nobody is left of those who were started

    def command(self, number: int) -> list[str]:
        """What a replica is to guard."""
        return [sys.executable, "-I", "-S", marking.__file__, str(self._lifeline), str(self.folder), str(number)]

    def start(self, number: int, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """In a group of its own: out of the reach of a Ctrl-C, which is for us, but in our session.

        So it is also hung up on and continued by the kernel, should we be killed while it is frozen.
        """
        out = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            argv[0], list(argv), environment, setpgroup=0, setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            file_actions=(
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(_log(self.folder, number)), out, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ),
        )  # fmt: skip
        self.is_empty = False
        self.replicas.append(Replica(number, pid, self.folder))

    @property
    def courses(self) -> list[Course]:
        return [course for replica in self.replicas if (course := replica.course)]

    def look(self) -> None:
        """Take note of who has ended, and of all marks up to then."""
        self._reap()
        for replica in self.replicas:
            replica.read_marks()

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                for replica in self.replicas:
                    if replica.pid == ended[0]:
                        replica.code = os.waitstatus_to_exitcode(ended[1])
            return
        self.is_empty = True


class Stage:
    """Where the rounds take place: a folder for their files, which goes with everybody in it."""

    def __init__(self) -> None:
        self._folder = _folder_in(None)
        self._sockets: tempfile.TemporaryDirectory[str] | None = None  # made when the first is asked for
        self._rounds = self._places = 0
        self._lifeline = self.folder / "lifeline"
        os.mkfifo(self._lifeline, 0o600)
        self._held = os.open(self._lifeline, os.O_RDWR | os.O_CLOEXEC)  # its end tells everybody of ours
        become_subreaper()

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    def place_of_socket(self) -> Path:
        """A new folder for one. The path of a socket is a short one, that of the temporary files need not be."""
        if self._sockets is None:
            is_short = len(os.fsencode(self.folder)) <= LONGEST_WAY
            self._sockets = self._folder if is_short else self._folder_elsewhere()
        self._places += 1
        place = Path(self._sockets.name) / f"way-{self._places}"
        place.mkdir()
        return place

    def cast(self) -> Cast:
        """For one more round."""
        self._rounds += 1
        folder = self.folder / str(self._rounds)
        folder.mkdir()
        return Cast(folder, self._lifeline)

    def _folder_elsewhere(self) -> tempfile.TemporaryDirectory[str]:
        try:
            return _folder_in(SHORT_PLACE)
        except OSError as error:
            raise BadInput(
                f"TMPDIR: {self.folder.parent} is too long for the path of a socket, and {SHORT_PLACE} cannot be "
                f"written ({error.strerror}); name a folder with a shorter path"
            ) from None

    def clear(self) -> None:
        """Kill whoever is left of anything that was started here."""
        Tree(leader=0).kill()

    def close(self) -> None:
        self.clear()
        os.close(self._held)
        self._folder.cleanup()
        if self._sockets:
            self._sockets.cleanup()


def _folder_in(place: str | None) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="cronguard-drill-", dir=place)


def send(signum: int, pids: Sequence[int]) -> None:
    """To each of them, in this order, who is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)


def _log(folder: Path, number: int) -> Path:
    return folder / f"replica-{number}.log"
