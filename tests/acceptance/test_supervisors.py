"""Several supervisors at once, and one that was frozen: each row is settled once, and nobody is robbed of a run."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta

import psycopg

from cronguard.domain.claim import LeaseTerms
from cronguard.ports import Store
from cronguard.stores import open_store
from tests.acceptance.looking import MORTAL_LEASE, QUICK_BEATS, address_of, announced
from tests.acceptance.test_supervise import PATIENT, PERIOD, died
from tests.conftest import Database
from tests.rig.firings import claim, granted
from tests.rig.guard import Guard, code_of, host_dies
from tests.rig.processes import state
from tests.rig.rounds import rounds
from tests.rig.waiting import wait_until

SUPERVISORS = 6
LONG = LeaseTerms.of(timedelta(hours=1), timedelta(seconds=8))


def fleet(guard: Guard, stale: int, live: int, round_: int) -> tuple[set[str], dict[str, object]]:
    """So many runs whose holders are dead, and more that are well: the keys of the first, the leases of the others."""
    address, now = address_of(guard), datetime.now(UTC)
    then, today = (open_store(address, clock=lambda at=at: at) for at in (now - timedelta(minutes=2), now))
    dead = {f"dead-{round_}-{number}" for number in range(stale)}
    for key in dead:
        granted(claim(then, key=key, period=PERIOD))
    return dead, {key: lease_of(today, key) for key in (f"live-{round_}-{number}" for number in range(live))}


def lease_of(store: Store, key: str) -> object:
    return granted(claim(store, key=key, period=PERIOD, terms=LONG)).lease


def pass_at_once(guard: Guard, count: int) -> list[dict[str, str]]:
    """The findings of all of them together."""
    passing = [guard.start("supervise", "--json") for _ in range(count)]
    said = [process.communicate(timeout=120) for process in passing]
    assert [(process.returncode, err) for process, (_, err) in zip(passing, said, strict=True)] == [(0, "")] * count
    return [finding for out, _ in said for finding in json.loads(out)["findings"]]


def test_six_supervisors_make_exactly_one_request_for_each_stale_run(database: Database, postgres_guard: Guard) -> None:
    """No deadlock, no double, and no run with a live lease is touched."""
    for round_ in range(rounds(1)):
        dead, live = fleet(postgres_guard, 200, 201, round_)
        with database.connect() as listening:
            listening.execute("listen cronguard")
            findings = pass_at_once(postgres_guard, SUPERVISORS)
            notified = Counter(one["key"] for one in announced(database, listening))
            rows = listening.execute(
                "select key, count(*) from cronguard.recovery where key = any(%s) group by key", [list(dead)]
            ).fetchall()
        assert Counter(finding["key"] for finding in findings) == Counter(dead) == notified == dict(rows)
        assert {finding["found"] for finding in findings} == {"recovery"}
        store = open_store(address_of(postgres_guard))
        assert {key: store.look(key, PERIOD).leases for key in live} == {key: (lease,) for key, lease in live.items()}
        assert postgres_guard.run("supervise").out == ""
        release(database)


def release(database: Database) -> None:
    """The next round begins with an empty ledger."""
    with database.connect() as connection:
        connection.execute(
            "truncate cronguard.lease, cronguard.run, cronguard.attempt, cronguard.job, cronguard.recovery"
        )


def test_six_supervisors_on_one_host_make_exactly_one_request_for_each_stale_run(sqlite_guard: Guard) -> None:
    sqlite_guard.run("init")
    dead, _ = fleet(sqlite_guard, 20, 21, 0)
    findings = pass_at_once(sqlite_guard, SUPERVISORS)
    assert Counter(finding["key"] for finding in findings) == Counter(dead)


def test_supervisors_and_firings_that_come_at_once_make_one_request_and_one_run(postgres_guard: Guard) -> None:
    died(postgres_guard)
    passing = [postgres_guard.start("supervise") for _ in range(3)]
    firing = [
        postgres_guard.start("run", "--key", "job", "--period", PERIOD, "--", "sh", "-c", "echo ran >> marks")
        for _ in range(3)
    ]
    assert [code_of(process, PATIENT) for process in (*passing, *firing)] == [0] * 6
    run = postgres_guard.show("job", PERIOD)
    assert ([attempt["outcome"] for attempt in run["attempts"]], run["recoveries"]) == (["lost", "succeeded"], 1)
    assert postgres_guard.lines("marks") == ["ran"]


def test_supervisor_that_was_frozen_in_the_middle_of_its_pass_wakes_up_and_harms_nothing(guard: Guard) -> None:
    """It stands still for two leases with one row to go, which others settle, claim and hold meanwhile."""
    for key in ("a", "b"):
        died(guard, key)
    frozen = guard.with_env(CRONGUARD_LEASE="5s").start("supervise", "--on-request", "kill -STOP $PPID")
    wait_until(lambda: state(frozen.pid) == "T", PATIENT, saying="it is frozen by its own hook, after its first row")
    assert guard.run("supervise").out.count("recovery") == 1  # the other row
    job = guard.start("run", "--key", "b", "--period", PERIOD, *QUICK_BEATS, "--",
                      "sh", "-c", "echo $$ >> pids; until [ -e go ]; do sleep 0.1; done")  # fmt: skip
    guard.wait_for_line("pids")
    held = guard.show("b", PERIOD)
    woken_at = datetime.now(UTC) + timedelta(seconds=10)
    wait_until(lambda: datetime.now(UTC) > woken_at, within=PATIENT, saying="two leases have passed")
    os.kill(frozen.pid, signal.SIGCONT)
    assert code_of(frozen, PATIENT) == 0
    assert guard.show("b", PERIOD)["token"] == held["token"]
    (guard.folder / "go").touch()
    assert code_of(job) == 0
    run = guard.show("b", PERIOD)
    assert (run["state"], run["recoveries"], [attempt["outcome"] for attempt in run["attempts"]]) == (
        "succeeded", 1, ["lost", "succeeded"],
    )  # fmt: skip


def test_loop_that_was_frozen_only_looks_at_first_and_then_goes_on(guard: Guard) -> None:
    """It is frozen between two passes, for a lease longer than it would have waited."""
    guard.run("init")
    loop = guard.with_env(CRONGUARD_LEASE="5s").start("supervise", "--every", "5s", "--json", "--metrics", "figures")
    has_measured = (guard.folder / "figures").exists
    wait_until(lambda: has_measured() and state(loop.pid) == "S", PATIENT, saying="the first pass is over")
    os.kill(loop.pid, signal.SIGSTOP)
    died(guard)
    woken_at = datetime.now(UTC) + timedelta(seconds=11)
    wait_until(lambda: datetime.now(UTC) > woken_at, within=PATIENT, saying="it is late by a lease")
    os.kill(loop.pid, signal.SIGCONT)
    wait_until(lambda: guard.show("job", PERIOD)["state"] == "pending", PATIENT, saying="it has recovered the run")
    loop.terminate()
    out, _ = loop.communicate(timeout=PATIENT)
    passes = [json.loads(text) for text in out.replace("}\n{", "}\0{").split("\0")]
    observed = [one["observes"] for one in passes]
    assert observed.count("own_pause") == 1
    recovered = next(number for number, one in enumerate(passes) if one["findings"])
    assert observed.index("own_pause") < recovered


def test_run_that_dies_is_found_by_one_of_three_that_watch_and_run_by_whoever_comes(guard: Guard) -> None:
    watching = [guard.start("supervise", "--every", "1s") for _ in range(3)]
    job = guard.start("run", "--key", "job", "--period", PERIOD, *MORTAL_LEASE, "--",
                      "sh", "-c", "echo $$ >> pids; exec sleep 600")  # fmt: skip
    guard.wait_for_line("pids")
    host_dies(job.pid)
    wait_until(lambda: guard.show("job", PERIOD)["state"] == "pending", PATIENT, saying="one of them has recovered it")
    assert guard.run("run", "--key", "job", "--period", PERIOD, "--", "true").code == 0
    for process in watching:
        process.terminate()
    said = [process.communicate(timeout=PATIENT)[0] for process in watching]
    assert sum(out.count("recovery") for out in said) == 1
    run = guard.show("job", PERIOD)
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost", "succeeded"]


def test_row_whose_lock_is_not_had_in_time_does_not_keep_back_the_others(
    database: Database, postgres_guard: Guard
) -> None:
    """A deadlock, a cancel, a lock not had in time: the row is told as trouble, and found again by the next pass."""
    for key in ("a", "b", "c"):
        died(postgres_guard, key)
    with psycopg.connect(database.superuser_dsn) as locking:  # somebody sits on the lease, not on the key
        locking.execute("select from cronguard.lease where key = 'b' for update")
        first = json.loads(postgres_guard.run("supervise", "--json", "--db-wait", "5s").out)
    assert [(one["found"], one["key"]) for one in first["findings"]] == [
        ("trouble", "b"), ("recovery", "a"), ("recovery", "c"),
    ]  # fmt: skip
    second = json.loads(postgres_guard.run("supervise", "--json").out)
    assert [(one["found"], one["key"]) for one in second["findings"]] == [("recovery", "b")]


def test_open_transactions_of_jobs_keep_back_their_own_runs_only(database: Database, postgres_guard: Guard) -> None:
    """As those of a frozen host that has several: the runs after them are recovered, and effects are told of."""
    for key in ("x", "y", "z"):
        died(postgres_guard, key)
    assert postgres_guard.run("once", "mail", "ada", "--period", "p", "--send-within", "1s", "--", "false").code == 1
    wait_until(lambda: "unknown" in postgres_guard.run("effects", "mail").out, saying="its send-by is over")
    with psycopg.connect(database.dsn) as job:
        job.execute("select cronguard.assert_token(key, token) from cronguard.run where key in ('x', 'y')")
        first = postgres_guard.run("supervise", "--json")
    assert (first.code, first.err) == (0, "")
    findings = json.loads(first.out)["findings"]
    assert [(one["found"], one["key"]) for one in findings] == [
        ("trouble", "x"), ("trouble", "y"), ("unknown_effect", None), ("recovery", "z"),
    ]  # fmt: skip
    assert "a transaction of the job itself that called assert_token and is still open" in findings[0]["what"]
    second = json.loads(postgres_guard.run("supervise", "--json").out)
    assert [(one["found"], one["key"]) for one in second["findings"]] == [("recovery", key) for key in "xy"]
