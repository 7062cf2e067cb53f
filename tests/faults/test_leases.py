"""A lease is judged by the ledger's clock and by nothing else: not by a host's clock, and not by the age of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cronguard.clock import boottime
from tests.conftest import Database
from tests.rig import marks
from tests.rig.guard import Guard
from tests.rig.host import Fired, Host
from tests.rig.waiting import wait_until
from tests.rig.witness import attempts_in, judge

PATIENT = 60.0
LEASE = 8.0  # seconds: a holder that gets no CPU for some of them keeps it
JOB = ("run", "--key", "job", "--period", "2026-11-30", "--lease", "8s", "--stop-grace", "0.5s", "--beat-every", "0.5s")


@pytest.fixture
def hosts(postgres_guard: Guard, database: Database, tmp_path: Path) -> Iterator[list[Host]]:
    """Two of them on one ledger; the wall clock of the second may be wrong."""
    with ExitStack() as stack:
        made = []
        for name in ("right", "wrong"):
            environment = {"CRONGUARD_DSN": database.dsn, "CRONGUARD_STATE_DIR": str(tmp_path / name)}
            made.append(Host(tmp_path / name, environment))
            stack.callback(made[-1].close)
        yield made


def ended(fired: Fired) -> int:
    return wait_until(lambda: fired.code is not None and (fired.code, fired.said), PATIENT, saying="it ends")[0]


def running(host: Host, tmp_path: Path, **variables: str) -> Fired:
    fired = host.fire(*JOB, "--", *marks.command(tmp_path, tmp_path / "go"), **variables)
    wait_until(lambda: attempts_in(tmp_path), PATIENT, saying="it runs")
    return fired


def wait_past_the_lease() -> None:
    since = boottime()
    wait_until(lambda: boottime() > since + LEASE + 1, PATIENT, saying="more than a lease has passed")


@pytest.mark.parametrize("wrong_by", [3600, -3600])
@pytest.mark.parametrize("who", ["the holder", "the other"])
def test_hosts_clock_neither_ends_a_lease_nor_prolongs_it(
    hosts: list[Host], tmp_path: Path, wrong_by: int, who: str
) -> None:
    """Whoever's clock is wrong, by however much: while one runs, the other does not; and then it has succeeded."""
    clock = tmp_path / "clock"
    clock.write_text(str(wrong_by))
    right, wrong = {}, {"LAB_CLOCK": str(clock)}
    holder, other = (wrong, right) if who == "the holder" else (right, wrong)
    held = running(hosts[0], tmp_path, **holder)
    assert ended(hosts[1].fire(*JOB, "--", *marks.command(tmp_path, 0), **other)) == 0
    assert len(attempts_in(tmp_path)) == 1
    (tmp_path / "go").touch()
    assert ended(held) == 0
    assert ended(hosts[1].fire(*JOB, "--", *marks.command(tmp_path, 0), **other)) == 0
    assert len(attempts_in(tmp_path)) == 1


def test_run_that_is_older_than_its_lease_is_left_alone_while_it_beats(hosts: list[Host], tmp_path: Path) -> None:
    held = running(hosts[0], tmp_path)
    wait_past_the_lease()
    assert ended(hosts[1].fire(*JOB, "--", *marks.command(tmp_path, 0))) == 0
    (tmp_path / "go").touch()
    assert ended(held) == 0
    attempts = attempts_in(tmp_path)
    assert (len(attempts), judge(attempts).complaints, attempts[0].exit_code) == (1, [], 0)
