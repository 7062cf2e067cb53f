"""A host whose packets to the ledger are lost, in a network namespace of its own: nobody refuses, nobody answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cronguard.clock import boottime
from tests.rig import marks
from tests.rig.guard import Guard, code_of
from tests.rig.network import Network
from tests.rig.postgres import Server
from tests.rig.waiting import wait_until
from tests.rig.witness import attempts_in, judge

pytestmark = pytest.mark.needs("namespaces", "ip")
PATIENT = 60.0
LEASE = 8.0  # seconds: a holder that gets no CPU for some of them keeps it
JOB = ("run", "--key", "job", "--period", "2026-11-30", "--lease", "8s", "--stop-grace", "0.5s", "--beat-every", "0.5s")


@dataclass
class Fleet:
    """`near` is behind the network, `far` beside the ledger."""

    near: Guard
    far: Guard
    network: Network
    folder: Path

    def command(self) -> tuple[str, ...]:
        return "--", *marks.command(self.folder, self.folder / "go")

    def wait(self, seconds: float) -> None:
        until = boottime() + seconds
        wait_until(lambda: boottime() > until, seconds + PATIENT, saying=f"{seconds} s have passed")


@pytest.fixture
def fleet(bare_guard: Guard, tmp_path: Path) -> Iterator[Fleet]:
    with Network() as network, Server(listen_addresses="*") as server:
        database = server.create_database()
        far = bare_guard.with_env(CRONGUARD_DSN=server.dsn(database), CRONGUARD_STATE_DIR=str(tmp_path / "far"))
        assert far.run("init").code == 0
        there = server.dsn(database, "tcp").replace("127.0.0.1", network.address)
        near = far.with_env(CRONGUARD_DSN=there, CRONGUARD_STATE_DIR=str(tmp_path / "near")).under(*network.near)
        (tmp_path / "marks").mkdir()
        server.admit(f"{network.address}/24")
        wait_until(lambda: near.run("history").code == 0, PATIENT, saying="the server lets it in")
        yield Fleet(near, far, network, tmp_path / "marks")
        bare_guard.clean_up()


def begun(fleet: Fleet) -> Callable[[], int]:
    """A run behind the network; to be asked for its exit code."""
    process = fleet.near.start(*JOB, *fleet.command())
    wait_until(lambda: attempts_in(fleet.folder), PATIENT, saying="it runs")
    return lambda: code_of(process, PATIENT)


def test_loss_of_less_than_a_lease_is_a_pause(fleet: Fleet) -> None:
    code = begun(fleet)
    fleet.network.lose()
    fleet.wait(LEASE / 2)
    fleet.network.restore()
    (fleet.folder / "go").touch()
    assert code() == 0
    assert fleet.near.run(*JOB, *fleet.command()).code == 0  # had its trust run out, its result would wait for this
    assert (fleet.far.show("job")["state"], len(attempts_in(fleet.folder))) == ("succeeded", 1)


def test_loss_of_more_than_a_lease_is_another_hosts_chance_and_never_two_at_once(fleet: Fleet) -> None:
    code = begun(fleet)
    fleet.network.lose()
    other = fleet.far.start(*JOB, "--if-held", "wait", "--", *marks.command(fleet.folder, 1))
    assert code_of(other, PATIENT) == 0
    fleet.network.restore()
    assert code() == 76
    attempts = attempts_in(fleet.folder)
    assert ([attempt.exit_code for attempt in attempts], judge(attempts).complaints) == ([None, 0], [])


def test_result_that_is_lost_on_its_way_is_kept_and_delivered(fleet: Fleet) -> None:
    code = begun(fleet)
    fleet.network.lose()
    (fleet.folder / "go").touch()
    assert code() == 0
    fleet.network.restore()
    assert fleet.near.run(*JOB, *fleet.command()).code == 0
    assert (fleet.far.show("job")["state"], len(attempts_in(fleet.folder))) == ("succeeded", 1)
