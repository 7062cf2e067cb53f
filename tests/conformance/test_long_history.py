"""What every firing asks is found by the index that leads to it, not by reading all that its key has ever run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cronguard.stores import open_store
from cronguard.stores.dsn import parse_dsn
from cronguard.stores.statements import statements
from tests.conftest import Database

ASKED = {
    "key": "job", "period": "7", "periods": ["7"], "missed": True, "within": None, "now": None,
    "keys": None, "runs": 100, "after": 0, "limit": 1000,
}  # fmt: skip
LEADS_THERE = {"read_runs": "run_pkey", "read_runs_of": "run_pkey", "backlog": "run_waiting"}
HISTORY = """
insert into cronguard.job (key, token) values ('job', 1);
insert into cronguard.run (key, period, state, lane, attempt, failures, recoveries, attempts_allowed,
                           recoveries_allowed, token, period_start, started_at, finished_at, exit_code)
select 'job', n, 'succeeded', '', 1, 0, 0, 1, 3, n, t, t, t, 0
  from generate_series(1, 3000) n cross join lateral (select to_timestamp(n * 60) as t) t;
insert into cronguard.skip (key, period, reason, seen_at, host, pid)
select key, period, 'held', started_at, 'alpha', 1 from cronguard.run;
analyze cronguard.job, cronguard.run, cronguard.skip
"""


@pytest.fixture
def lived_in(database: Database) -> Database:
    """A ledger of one key with a history, as the planner knows it."""
    open_store(parse_dsn(database.dsn)).migrate()
    with database.connect() as connection:
        connection.execute(HISTORY.encode())
    return database


def plan(database: Database, name: str) -> str:
    with database.connect() as connection:
        return "\n".join(
            line for (line,) in connection.execute(f"explain {statements('postgres')[name]}".encode(), ASKED)
        )


@pytest.mark.parametrize("name", LEADS_THERE)
def test_runs_are_found_by_the_index_that_leads_to_them(lived_in: Database, name: str) -> None:
    found = plan(lived_in, name)
    assert f"{LEADS_THERE[name]} on run r " in found, found


def test_last_success_is_found_without_sorting_a_history(lived_in: Database) -> None:
    found = plan(lived_in, "metrics_keys")
    assert "Index Scan using run_recent on run r" in found and "Aggregate" not in found, found


def test_skips_are_counted_run_by_run(lived_in: Database) -> None:
    found = plan(lived_in, "metrics_skips")
    assert "skip_of_run" in found and "Join" not in found, found


def test_runs_are_not_read_into_a_hash_to_look_at_skips(lived_in: Database) -> None:
    assert "hashed" not in plan(lived_in, "skips_after")
    assert "Seq Scan on run" not in plan(lived_in, "skips_after")


@pytest.mark.parametrize(
    ("name", "index"),
    [("read_runs", "sqlite_autoindex_run_1 (key=? AND period=?)"), ("backlog", "run_waiting (key=?)")],
)
def test_runs_in_a_file_are_found_so_too(tmp_path: Path, name: str, index: str) -> None:
    address = parse_dsn(f"sqlite://{tmp_path}/ledger.db")
    open_store(address).migrate()
    with closing(sqlite3.connect(address.target)) as ledger:
        steps = ledger.execute(f"explain query plan {statements('sqlite')[name]}", ASKED).fetchall()
    assert f"SEARCH r USING INDEX {index}" in [step for *_, step in steps]
