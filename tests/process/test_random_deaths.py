"""kill -9 of one of the two, at any moment: nobody outlives it, and what the ledger says is true."""

from __future__ import annotations

import random
import time
from datetime import date, timedelta
from typing import Any

from tests.rig.guard import Guard
from tests.rig.rounds import rounds, seeded
from tests.rig.supervised import AT_ONCE, PATIENT, SHORT_LEASE, kill, nobody_left, worker_of
from tests.rig.waiting import wait_until
from tests.rig.zoo import Zoo

LONGEST = 1.5  # seconds: from before the claim until after the end of the command


def test_kill_of_a_random_one_at_a_random_moment_leaves_nobody_and_the_truth(sqlite_guard: Guard) -> None:
    dice = seeded()
    for number in range(rounds(8)):
        zoo = Zoo(sqlite_guard.folder / f"zoo-{number}")
        period = str(date(2026, 1, 1) + timedelta(days=number))
        one_death(sqlite_guard, zoo, period, dice)
        is_true(record_of(sqlite_guard, period), zoo)
        can_be_had_again(sqlite_guard, period)


def one_death(guard: Guard, zoo: Zoo, period: str, dice: random.Random) -> None:
    process = guard.start(
        "run", "--key", "job", "--period", period, *SHORT_LEASE, "--", *zoo.command("tame", "0.3")
    )  # fmt: skip
    at = time.monotonic() + dice.uniform(0, LONGEST)
    wait_until(lambda: time.monotonic() >= at or process.poll() is not None, every=0.002)
    worker = worker_of(process.pid) if dice.random() < 0.5 else None
    kill(worker or process.pid)
    process.communicate(timeout=PATIENT)
    nobody_left(guard.folder / "nobody", *zoo.pids().values(), within=AT_ONCE)
    nobody_left(guard.folder, within=PATIENT)  # who tells the ledger may take a little longer


def record_of(guard: Guard, period: str) -> dict[str, Any] | None:
    return next((run for run in guard.history("job") if run["period"] == period), None)


def is_true(run: dict[str, Any] | None, zoo: Zoo) -> None:
    """Success was seen; nothing runs without a row; and what was cut short is not called anything else."""
    if run is None:
        assert not zoo.pids()
    elif run["state"] == "succeeded":
        assert zoo.has_ended_well()
    else:  # running: it was killed in the moment between its claim and the guardian's knowing of it
        assert run["state"] in ("pending", "running")


def can_be_had_again(guard: Guard, period: str) -> None:
    def succeeded() -> bool:
        assert guard.run("run", "--key", "job", "--period", period, *SHORT_LEASE, "--", "true").code == 0
        run = record_of(guard, period)
        return bool(run and run["state"] == "succeeded")

    wait_until(succeeded, PATIENT, every=0.5, saying=f"{period} succeeds in the end")
