"""Freeze, ask, decide: the ledger is silent for three leases, and nobody takes over, or somebody does."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import Database
from tests.rig import ticker
from tests.rig.guard import Guard, code_of
from tests.rig.postgres import Server
from tests.rig.proxy import Proxy
from tests.rig.rounds import rounds
from tests.rig.supervised import KEY, LEASE, PATIENT, SHORT_LEASE
from tests.rig.waiting import wait_until

JOB = (*KEY, *SHORT_LEASE)


@pytest.fixture
def far(database: Database, proxy: Callable[[Server], Proxy], postgres_guard: Guard) -> tuple[Guard, Proxy]:
    """A host with a network between itself and the ledger that the test may disturb."""
    way = proxy(database.server)
    return postgres_guard.with_env(CRONGUARD_DSN=database.through(way)), way


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def largest_gap(ticks: list[float]) -> tuple[float, float]:
    return max(pairwise(ticks), key=lambda gap: gap[1] - gap[0])


def test_outage_of_three_leases_is_a_pause_and_not_the_end_of_the_run(far: tuple[Guard, Proxy]) -> None:
    """Stopped before the lease is over, it goes on when the ledger answers: one attempt, and no line is missing."""
    guard, way = far
    ticks = guard.folder / "ticks"
    process = guard.start(*JOB, "--", *ticker.command(str(ticks)))
    wait_until(lambda: len(ticker.ticks_in(ticks)) > 5, saying="it runs")
    way.black_hole()
    silent_since = boottime()
    wait_until(lambda: boottime() > silent_since + 3 * LEASE, 4 * LEASE, saying="three leases have passed")
    way.restore()
    restored_at = boottime()
    wait_until(lambda: ticker.ticks_in(ticks)[-1] > restored_at, PATIENT, saying="it goes on")
    (guard.folder / "go").touch()
    out, _ = process.communicate(timeout=PATIENT)
    assert process.returncode == 0
    stopped_at, went_on_at = largest_gap(ticker.ticks_in(ticks))
    assert stopped_at < silent_since + LEASE
    assert went_on_at > silent_since + 3 * LEASE
    assert out == ticks.read_text()
    assert [int(line.split()[0]) for line in out.splitlines()] == list(range(1, len(out.splitlines()) + 1))
    run = guard.show("job")
    assert (run["state"], [one["outcome"] for one in run["attempts"]]) == ("succeeded", ["succeeded"])


@pytest.mark.parametrize("number", range(rounds(2)))
def test_another_host_that_takes_over_meanwhile_never_runs_at_the_same_time(
    far: tuple[Guard, Proxy], postgres_guard: Guard, number: int
) -> None:
    """By what the two commands themselves have written down, on one clock."""
    guard, way = far
    first, second = guard.folder / f"first-{number}", guard.folder / f"second-{number}"
    holder = guard.start(*JOB, "--", *ticker.command(str(first)))
    wait_until(lambda: len(ticker.ticks_in(first)) > 3, saying="it runs")
    way.black_hole()
    wait_until(lambda: taken_over(postgres_guard, second), PATIENT, saying="another host takes over")
    way.restore()
    assert code_of(holder, PATIENT) == 76
    assert ticker.ticks_in(first)[-1] < ticker.ticks_in(second)[0]
    run = guard.show("job")
    assert (run["state"], [one["outcome"] for one in run["attempts"]]) == ("succeeded", ["lost", "succeeded"])


def taken_over(guard: Guard, ticks: Path) -> bool:
    """One more firing, which runs if it may."""
    assert guard.run(*JOB, "--", *ticker.command(str(ticks), 20)).code == 0
    return ticks.exists()
