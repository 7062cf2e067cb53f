"""examples/billing: three replicas, one of which dies at a random moment, and nobody is sent two reminders."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.conftest import Database
from tests.rig import WISHES
from tests.rig.billing import EXAMPLE, KEY, Billing, holder, host_dies, kill_one, wait_for_all
from tests.rig.guard import Guard
from tests.rig.mailbox import Mailbox
from tests.rig.rounds import rounds, seeded
from tests.rig.waiting import wait_until

CUSTOMERS = 300 if "CRONGUARD_TEST_ROUNDS" in WISHES else 60
AT_MOST_UNKNOWN = {"python": 10, "cli": 10, "sql": 1}  # what each way has claimed and not confirmed at any moment
# A year for each, since they share the mail server; and how many rounds the suite can afford.
WAYS = [("python", 2023, 2), ("cli", 2024, 1), pytest.param("sql", 2025, 1, marks=pytest.mark.needs("psql"))]


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    with Mailbox() as mailbox:
        yield mailbox


@pytest.fixture
def billing(postgres_guard: Guard, mailbox: Mailbox) -> Billing:
    return Billing(postgres_guard, mailbox, CUSTOMERS)


def periods(count: int, of_year: int) -> list[str]:
    return [str(date(of_year, 1, 1) + timedelta(days=n)) for n in range(count)]


@pytest.mark.parametrize(("way", "year", "by_default"), WAYS)
def test_replica_dies_and_nobody_is_reminded_twice(billing: Billing, way: str, year: int, by_default: int) -> None:
    luck = seeded()
    for period in periods(rounds(by_default), year):
        replicas = billing.fire(way, period)
        killed = kill_one(billing, period, replicas, luck)
        ended = wait_for_all(replicas)
        tally = billing.tally(period)
        print(period, killed, f"unknown: {len(tally.unknown)}, of these sent: {len(tally.got.keys() & tally.unknown)}")
        assert sorted(code for code, _ in ended)[-2:] == [0, 0], (killed, ended)
        assert billing.guard.show(KEY, period)["state"] == "succeeded"
        assert tally.duplicates == 0, (killed, tally.got)
        assert not tally.unsent, (killed, tally.unsent)
        assert tally.got.keys() <= tally.everybody()
        assert len(tally.unknown) <= AT_MOST_UNKNOWN[way], (killed, tally.unknown)


@pytest.mark.parametrize(("step", "period"), [("pull", "2022-01-01"), ("balances", "2022-01-02")])
def test_replica_dies_in_a_step_before_the_mails_and_everybody_is_reminded_once(
    billing: Billing, database: Database, step: str, period: str
) -> None:
    """Who goes on passes over what is done, does this step again, and knows of every e-mail."""
    with database.connect() as blocker:
        blocker.execute("select pg_advisory_lock(hashtext('billing ' || %s))", [step])
        replicas = billing.fire("python", period)
        wait_until(lambda: step in running_steps(billing, period), 60, every=0.2, saying=f"{step} is running")
        host_dies(holder(replicas))
    wait_for_all(replicas)
    tally = billing.tally(period)
    assert tally.got == dict.fromkeys(tally.everybody(), 1)
    assert not tally.unknown
    attempts = {found["name"]: found["attempt"] for found in billing.guard.show(KEY, period)["steps"]}
    assert attempts == {"pull": 1, "balances": 1, "mails": 1} | {step: 2}


def running_steps(billing: Billing, period: str) -> list[str]:
    if not billing.guard.history(KEY):
        return []
    return [found["name"] for found in billing.guard.show(KEY, period)["steps"] if found["state"] == "running"]


def test_example_shows_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    words = [EXAMPLE / "run", "--customers", "100"]  # so many that its replica dies among them, and not behind them
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "duplicates:  0\nforgotten:   0\n" in done.stdout
    assert not list(tmp_path.iterdir())


def test_example_told_to_stop_takes_everything_along(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    with subprocess.Popen([EXAMPLE / "run"], env=environment, stdout=subprocess.PIPE, text=True) as example:
        assert example.stdout
        assert example.stdout.readline().startswith("300 customers, three replicas")
        example.terminate()
        assert example.wait(60) == 128 + 15
    assert not list(tmp_path.iterdir())
