"""examples/three-hosts: three real crons fire the same line every minute, and it runs once a minute."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import Database
from tests.rig.guard import Guard
from tests.rig.processes import descendants
from tests.rig.waiting import wait_until

RUN = Path(__file__).parents[2] / "examples" / "three-hosts" / "run"
HOSTS = {"alpha", "beta", "gamma"}
TOLD_NOT_TO = {"held", "already_succeeded"}
UP_WITHIN = 120  # seconds: it may have to make a Postgres, and to wait for the minute to turn
TICKS = 2
OVER_WITHIN = 60 * TICKS + 60

pytestmark = pytest.mark.needs("cron", "namespaces")


class Example:
    """The example, running, in an environment of its own."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self._words, self._temporary = folder / "words", folder / "temporary"
        self._temporary.mkdir()
        self._mounts = mounts(self._temporary)
        self._held: list[int] = []
        with self._words.open("wb") as words:
            self.process = subprocess.Popen(
                [RUN, *arguments],
                env={"PATH": os.environ["PATH"], "TMPDIR": str(self._temporary), **environment},
                stdin=subprocess.DEVNULL, stdout=words, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def said(self) -> str:
        return self._words.read_text()

    def wait_until_up(self) -> None:
        """Wait for its three crons, and remember whatever must be gone afterwards."""
        wait_until(lambda: "are up" in self.said() or self.process.poll() is not None, UP_WITHIN, saying="crons are up")
        assert self.process.poll() is None, self.said()
        tree = descendants(self.process.pid)
        self.spaces = {kind: {*self._hold(tree, kind)} - {space_of("self", kind)} for kind in SPACES}
        # The dens of its own Postgres; the checkout itself may lie below /tmp too.
        self.dens = {home for pid in tree if "/cronguard-pg-" in str(home := home_of(pid))}

    def _hold(self, pids: list[int], kind: str) -> Iterator[str]:
        """Their namespaces, held open: what is given to others is the number of one that is quite gone."""
        for pid in pids:
            with suppress(OSError):  # it has ended
                self._held.append(os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY))
                yield f"{kind}:[{os.fstat(self._held[-1]).st_ino}]"

    def exit_code(self, within: float) -> int:
        return self.process.wait(timeout=within)

    def assert_nothing_is_left(self) -> None:
        """No process in its namespaces, so none of their mounts either; no mount of the real system; no file."""
        left = [pid for pid in os.listdir("/proc") if pid.isdigit() and self._lives_in(pid)]
        assert not left
        assert mounts(self._temporary) == self._mounts
        assert not list(self._temporary.iterdir())
        assert not [den for den in self.dens if den.exists()]

    def _lives_in(self, pid: str) -> bool:
        return any(space_of(pid, kind) in spaces for kind, spaces in self.spaces.items())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=30)
        while self._held:
            os.close(self._held.pop())


SPACES = ("mnt", "pid", "uts")


def space_of(pid: int | str, kind: str) -> str:
    """The namespace that a process is in; '' for one that is gone."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    return ""


def home_of(pid: int) -> Path:
    """The working directory of a process; / for one that is gone."""
    with suppress(OSError):
        return Path(os.readlink(f"/proc/{pid}/cwd"))
    return Path("/")


def mounts(ours: Path) -> list[str]:
    """Where something is mounted, as this process sees it, but for what other tests have for a while."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    of_others = (tempfile.gettempdir() + "/", "/run/netns", "/var/run/netns")
    return [place for place in places if place.startswith(f"{ours}/") or not place.startswith(of_others)]


@pytest.fixture
def start_example(tmp_path: Path) -> Iterator[Callable[..., Example]]:
    """`start_example(*arguments, **environment)`: the example, killed at the end of the test if it still runs."""
    started: list[Example] = []

    def start(*arguments: str, **environment: str) -> Example:
        started.append(Example(tmp_path, *arguments, **environment))
        return started[-1]

    yield start
    for example in started:
        example.kill()


def test_three_crons_fire_and_the_job_runs_once_a_minute(
    start_example: Callable[..., Example], database: Database, postgres_guard: Guard
) -> None:
    example = start_example("--minutes", str(TICKS), CRONGUARD_DSN=database.dsn)
    example.wait_until_up()
    assert {kind: len(spaces) for kind, spaces in example.spaces.items()} == dict.fromkeys(SPACES, len(HOSTS))
    assert example.exit_code(OVER_WITHIN) == 0, example.said()
    example.assert_nothing_is_left()

    first = example.said().partition("the first tick is ")[2].partition(",")[0]
    # Three crons that were up within the last second of a minute may have fired in the one before the first, too.
    runs = [run for run in postgres_guard.history("three_hosts") if run["period"] >= first]
    assert len({run["period"] for run in runs}) == len(runs) == TICKS
    for run in runs:
        assert_one_ran_and_two_were_told_not_to(postgres_guard, run["period"])

    written = [line.split() for line in example.said().splitlines() if line.startswith("20") and line.endswith("Z")]
    ran = {(run["period"], run["host"]) for run in runs}
    assert sorted((period, host) for period, host, _ in written if period >= first) == sorted(ran)
    assert "VERDICT: RIGHT" in example.said().splitlines()[-1]


def assert_one_ran_and_two_were_told_not_to(guard: Guard, period: str) -> None:
    run = guard.show("three_hosts", period)
    assert (run["state"], run["exit_code"], run["skips"], len(run["attempts"])) == ("succeeded", 0, 2, 1)
    assert {skip["reason"] for skip in run["skipped"]} <= TOLD_NOT_TO
    assert sorted([run["host"], *(skip["host"] for skip in run["skipped"])]) == sorted(HOSTS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_it_takes_its_own_postgres_and_its_hosts_along(
    number: signal.Signals, start_example: Callable[..., Example]
) -> None:
    example = start_example()
    example.wait_until_up()
    assert example.dens
    example.process.send_signal(number)
    assert example.exit_code(60) == 128 + number
    assert "VERDICT" not in example.said()
    example.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("spoil", "missing"),
    [
        (["setpriv", "--bounding-set=-sys_admin"], "this machine forbids namespaces"),
        (["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null "$0" && exec "$@"', "/usr/sbin/cron"], "no cron;"),
        (["setpriv", "--reuid=65534", "--clear-groups"], "take root; type: sudo"),
    ],
)
def test_where_it_cannot_run_it_says_what_is_missing_and_exits_2(spoil: list[str], missing: str) -> None:
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run([*spoil, RUN], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert done.stderr.startswith("three-hosts: cannot run here: ")
    assert missing in done.stderr
