"""One of three hosts dies in the middle of the job: one request, and another host's cron runs it to its end.

The hosts are those of examples/three-hosts: a real cron each, in namespaces of its own. This crontab also starts a
supervisor when the host comes up, and asks for what is pending more often than a minute, as users of cron do.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import Database
from tests.rig.guard import Guard
from tests.rig.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "three-hosts" / "three_hosts.py"
HOSTS = ("alpha", "beta", "gamma")
LEASE = 10.0
PASS_EVERY = 5.0  # seconds, of the supervisors, and between two looks for what is pending
PROCESSES_START_WITHIN = 10.0  # seconds, from a supervisor or a cron that acts in time to the job's first line
RESTARTED_WITHIN = LEASE + 2 * PASS_EVERY + PROCESSES_START_WITHIN
JOB_TAKES, KILLED_AFTER = 10.0, 2.0  # seconds
ROOM = 20  # seconds before the minute turns, in which three hosts come up for certain
FIRED_WITHIN = 120  # seconds: cron waits for the minute to turn
PATIENT = 40

JOB = f"""\
#!/bin/sh
say() {{ echo "$1 $CRONGUARD_PERIOD $CRONGUARD_ATTEMPT $(hostname) $(date +%s.%N)" >> "$0.lines"; }}
say start
sleep {JOB_TAKES:g}
say end
"""
CRONTAB = """\
CRONGUARD_DSN_FILE=/run/cronguard.dsn
CRONGUARD_STATE_DIR=/run/state
@reboot root {cronguard} supervise --every 5s >>/run/said 2>&1
* * * * * root {cronguard} run --key job --every minute {lease} -- {job} >>/run/said 2>&1
* * * * * root for i in 1 2 3 4 5 6 7 8 9 10 11; do {cronguard} run --key job --only-pending {lease} -- {job}; \
sleep 5; done >>/run/said 2>&1
"""
SHORT_LEASE = f"--lease {LEASE:g}s --stop-grace 1s --beat-every 1s"

pytestmark = pytest.mark.needs("cron", "namespaces")


@dataclass(frozen=True)
class Line:
    """What the job wrote when it began, or was over."""

    what: str
    period: str
    attempt: str
    host: str
    at: float

    @classmethod
    def of(cls, text: str) -> Line:
        what, period, attempt, host, at = text.split()
        return cls(what, period, attempt, host, float(at))


class Fleet:
    """Three hosts, up, and what their crons and their job write."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self._example, self._folder, self._dsn = the_example(), folder, dsn
        self._job = folder / "job"
        self._job.write_text(JOB)
        self._job.chmod(0o755)
        self._up: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """All before the minute turns, so that all fire in the same one."""
        quoted = self._example.crontab_word
        words = {"cronguard": quoted(self._example.CRONGUARD), "job": quoted(str(self._job)), "lease": SHORT_LEASE}
        wait_until(lambda: 60 - time.time() % 60 > ROOM, within=ROOM + 10, saying="there is room in the minute")
        for name in HOSTS:
            home = self._folder / name
            self._up[name] = self._example.start_host(name, home, CRONTAB.format_map(words), self._dsn)
        is_up = self._example.is_up
        wait_until(lambda: all(is_up(self._up[name], self._folder / name) for name in HOSTS), 60, saying="all are up")

    def kill(self, host: str) -> None:
        """As when its power fails: its cron, its supervisor, and guardian, worker and command of each of its runs."""
        self._example.end_host(self._up.pop(host))

    def survivors(self) -> set[str]:
        return set(self._up)

    def end(self) -> None:
        for name in tuple(self._up):
            self.kill(name)

    def lines(self, period: str | None = None) -> list[Line]:
        """What the job wrote so far, for one period or for all."""
        path = Path(f"{self._job}.lines")
        lines = map(Line.of, path.read_text().splitlines()) if path.exists() else ()
        return [line for line in lines if period in (None, line.period)]

    def wait_for_lines(self, count: int, within: float, period: str | None = None) -> list[Line]:
        wait_until(lambda: len(self.lines(period)) >= count, within, saying=f"line {count} of the job; {self.said()}")
        return self.lines(period)

    def said(self) -> dict[str, str]:
        """The words of each host's crontab lines."""
        files = {name: self._folder / name / "run" / "said" for name in HOSTS}
        return {name: file.read_text() for name, file in files.items() if file.exists()}


def the_example() -> ModuleType:
    """examples/three-hosts as a module: its folder's name is no package's."""
    spec = spec_from_file_location("three_hosts", EXAMPLE)
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fleet(tmp_path: Path, database: Database) -> Iterator[Fleet]:
    """Three hosts that are not up yet; dead, with all they started, at the end of the test."""
    (tmp_path / "hosts").mkdir()
    fleet = Fleet(tmp_path / "hosts", database.dsn)
    try:
        yield fleet
    finally:
        fleet.end()


def test_job_of_a_host_that_dies_is_requested_once_and_run_to_its_end_by_another(
    fleet: Fleet, database: Database, postgres_guard: Guard
) -> None:
    fleet.start()
    first = fleet.wait_for_lines(1, FIRED_WITHIN)[0]
    wait_until(lambda: time.time() > first.at + KILLED_AFTER, saying="it is in the middle of the job")
    killed_at = time.time()
    fleet.kill(first.host)

    second = fleet.wait_for_lines(2, PATIENT, first.period)[1]
    print(f"from kill to restart: {second.at - killed_at:.1f} s, at most {RESTARTED_WITHIN:g}")
    assert second.at - killed_at <= RESTARTED_WITHIN
    wait_until(lambda: postgres_guard.show("job", first.period)["state"] == "succeeded", PATIENT, every=0.3)
    wait_until(everybody_has_passed_again(database, fleet.survivors()), PATIENT, every=0.3, saying=str(fleet.said()))

    written = [(line.what, line.attempt, line.host) for line in fleet.lines(first.period)]
    assert second.host in fleet.survivors()
    assert written == [("start", "1", first.host), ("start", "2", second.host), ("end", "2", second.host)]
    run = postgres_guard.show("job", first.period)
    assert (run["state"], run["exit_code"], run["recoveries"]) == ("succeeded", 0, 1)
    attempts = [(attempt["outcome"], attempt["host"]) for attempt in run["attempts"]]
    assert attempts == [("lost", first.host), ("succeeded", second.host)]
    assert_one_request(database, first.period, fleet.survivors())
    told = [name for name, words in fleet.said().items() if "recovery" in words]
    print(f"the supervisors that told of it: {told}")
    assert len(told) <= 1  # none where a survivor's run came by first: it asks nobody, it takes it


def everybody_has_passed_again(database: Database, hosts: set[str]) -> Callable[[], bool]:
    """Whether each of these hosts' supervisors has looked at the ledger since now."""
    now = ledger_says(database, "select clock_timestamp()")[0][0]
    passed = "select host from cronguard.supervisor where started_at > %s"
    return lambda: hosts <= {host for (host,) in ledger_says(database, passed, now)}


def assert_one_request(database: Database, period: str, survivors: set[str]) -> None:
    """Made by one of those who live, and taken."""
    asked = "select cause, requested_by, taken_at is not null from cronguard.recovery where key = 'job' and period = %s"
    ((cause, requested_by, is_taken),) = ledger_says(database, asked, period)
    assert (cause, requested_by in survivors, is_taken) == ("lease_over", True, True)


def ledger_says(database: Database, statement: str, *values: object) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return connection.execute(statement.encode(), values).fetchall()
