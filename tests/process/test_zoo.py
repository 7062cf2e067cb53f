"""The zoo of nine descendants: whatever ends the run, none of them outlives it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.acceptance.looking import change
from tests.rig.guard import Guard
from tests.rig.processes import alive
from tests.rig.supervised import (
    AT_ONCE,
    LONG_LEASE,
    PATIENT,
    Supervised,
    ended,
    kill,
    nobody_left,
    parent_of,
    stands_still,
)
from tests.rig.waiting import wait_until
from tests.rig.zoo import ANIMALS, Zoo


@pytest.fixture
def zoo(sqlite_guard: Guard) -> Iterator[Zoo]:
    """Closed at the end of the test, whatever it has left of it."""
    zoo = Zoo(sqlite_guard.folder / "zoo")
    yield zoo
    kill(*[pid for pid in zoo.pids().values() if alive(pid)])


def opened(guard: Guard, zoo: Zoo, *options: str, kind: tuple[str, ...] = ()) -> Supervised:
    """All nine are there and beat."""
    process = guard.start("run", "--key", "job", *options, "--", *zoo.command(*kind))
    if kind:
        wait_until(lambda: zoo.beats().get("generations", 0) > 50, saying="the family is on its way")
        wait_until(lambda: "leader" in zoo.pids(), saying="its leader is there")
    else:
        wait_until(zoo.is_complete, PATIENT, saying="all nine are there")
    leader = zoo.pids()["leader"]
    return Supervised(process, parent_of(leader), leader)


def all_dead(guard: Guard, zoo: Zoo, within: float = AT_ONCE) -> None:
    """From /proc, and from every counter standing still."""
    nobody_left(guard.folder, *zoo.pids().values(), within=within)
    assert all(stands_still(zoo.folder / f"{name}.beats", 0.05) for name in zoo.beats())


def guardian_killed(running: Supervised) -> None:
    kill(running.guardian)


def worker_killed(running: Supervised) -> None:
    kill(running.worker)


@pytest.mark.parametrize(("death", "code"), [(guardian_killed, 137), (worker_killed, 76)])
def test_zoo_is_dead_at_once_when_one_of_the_two_is_killed(
    sqlite_guard: Guard, zoo: Zoo, death: Callable[[Supervised], None], code: int
) -> None:
    running = opened(sqlite_guard, zoo)
    assert len(zoo.pids()) == len(ANIMALS) == 9
    death(running)
    all_dead(sqlite_guard, zoo)
    assert running.code() == code
    wait_until(lambda: ended(sqlite_guard) == ("pending", "lost"), every=0.2)


def test_zoo_is_dead_after_complete_by(sqlite_guard: Guard, zoo: Zoo) -> None:
    """Some of them ignore the request to stop."""
    running = opened(sqlite_guard, zoo, "--complete-by", "10s", "--stop-grace", "0.5s")
    assert running.code() == 124
    all_dead(sqlite_guard, zoo, within=0.1)
    assert ended(sqlite_guard) == ("timed_out", "timed_out")


def test_zoo_is_dead_after_the_lease_was_lost(sqlite_guard: Guard, zoo: Zoo) -> None:
    running = opened(sqlite_guard, zoo, *LONG_LEASE)
    change(sqlite_guard, "update lease set token = token + 1, holder = 'somebody else'")
    assert running.code() == 76
    all_dead(sqlite_guard, zoo, within=0.1)
    assert sqlite_guard.show("job")["attempts"][0]["outcome"] == "lost"


def test_zoo_is_dead_after_a_request_to_stop(sqlite_guard: Guard, zoo: Zoo) -> None:
    running = opened(sqlite_guard, zoo, "--stop-grace", "0.5s")
    kill(running.guardian, signum=signal.SIGTERM)
    assert running.code() == 143
    all_dead(sqlite_guard, zoo, within=0.1)
    assert ended(sqlite_guard) == ("pending", "interrupted")


@pytest.mark.parametrize("family", [("3", "0.01"), ("3", "0.001"), ("8", "0.0005")], ids="-".join)
@pytest.mark.parametrize("death", [guardian_killed, worker_killed])
def test_processes_that_fork_faster_than_one_can_look_are_dead_as_well(
    sqlite_guard: Guard, zoo: Zoo, death: Callable[[Supervised], None], family: tuple[str, ...]
) -> None:
    running = opened(sqlite_guard, zoo, kind=("respawn", *family))
    death(running)
    nobody_left(sqlite_guard.folder, running.command, within=AT_ONCE)
    assert stands_still(zoo.folder / "generations.beats", 0.2)


def test_processes_that_fork_faster_than_one_can_look_are_dead_after_complete_by(sqlite_guard: Guard, zoo: Zoo) -> None:
    running = opened(sqlite_guard, zoo, "--complete-by", "8s", "--stop-grace", "0.5s", kind=("respawn", "8", "0.0005"))
    assert running.code() == 124
    assert stands_still(zoo.folder / "generations.beats", 0.2)
    assert os.path.exists(zoo.folder)
