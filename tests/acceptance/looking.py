"""What these tests look at besides the program's own words: the ledger's tables, and what a refusal must be like."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import Any

import psycopg

from cronguard.stores.dsn import Address, parse_dsn
from tests.conftest import Database
from tests.rig.guard import Guard, Result

STARTS = ("--", "touch", "started")  # a command whose start leaves a trace in the guard's folder
# Beats that bring a word soon, on a lease that no busy machine loses; and a lease that ends soon when its holder dies,
# and not because its holder has had no CPU for a few seconds.
QUICK_BEATS = ("--stop-grace", "1s", "--beat-every", "0.5s")
MORTAL_LEASE = ("--lease", "8s", *QUICK_BEATS)
RECORDS = ("attempt", "effect", "intervention", "lease", "run", "skip", "step")

# Root may read and write everything; without its capabilities it is a user like any other, to whom modes apply.
POWERLESS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
# A uid that no passwd knows, the caller's own as far as files go.
UNKNOWN_USER = ("unshare", "--user", "--map-user=54321", "--map-group=54321")
ON_A_TERMINAL_OF_ITS_OWN = ("setsid", "--ctty", "--wait")


def script(*lines: str) -> tuple[str, ...]:
    """A command whose `cronguard` is the one under test; the first line that fails ends it."""
    return ("--", "sh", "-ec", "\n".join([f"cronguard() {{ '{sys.executable}' -m cronguard \"$@\"; }}", *lines]))


def refusal(guard: Guard, *arguments: str | bytes, **options: Any) -> str:
    """Fire what must be refused, and return the one line that says why: nothing starts, nothing is recorded."""
    return refused(guard, guard.run(*map(os.fsdecode, arguments), **options))


def refused(guard: Guard, result: Result, code: int = 125) -> str:
    """The one line of a refusal."""
    assert (result.code, result.out) == (code, ""), result
    assert not (guard.folder / "started").exists()
    assert records(guard) == {}
    return result.only_line


def records(guard: Guard) -> dict[str, list[tuple[Any, ...]]]:
    """What the ledger has recorded, by table; empty tables and a ledger that is not there are left out."""
    return {name: rows for name, rows in tables(guard).items() if name in RECORDS and rows}


def tables(guard: Guard) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table of the ledger."""
    dsn = guard.environment.get("CRONGUARD_DSN", "")
    return _in_postgres(dsn) if dsn.startswith("postgresql://app@/test_") else _in_sqlite(ledger_file(guard))


def ledger_file(guard: Guard) -> Path:
    return Path(guard.environment.get("CRONGUARD_STATE_DIR", "/nowhere")) / "ledger.db"


def address_of(guard: Guard) -> Address:
    """The ledger, for whoever talks to it without the program."""
    state = guard.environment["CRONGUARD_STATE_DIR"]
    return parse_dsn(guard.environment.get("CRONGUARD_DSN") or f"sqlite://{state}/ledger.db")


def announced(database: Database, listening: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    """Every notification of a request so far: a word of our own is committed after them all, and comes last."""
    with database.connect() as connection:
        connection.execute("notify cronguard, 'no more'")
    payloads = (notice.payload for notice in listening.notifies(timeout=60))
    return [json.loads(payload) for payload in takewhile(lambda payload: payload != "no more", payloads)]


def change(guard: Guard, statement: str, *values: object) -> None:
    """Do with the ledger what no command does (yet)."""
    with closing(sqlite3.connect(ledger_file(guard), timeout=30)) as ledger, ledger:
        ledger.execute(statement, values)


def configured(guard: Guard, tmp_path: Path, text: str | bytes, line: int = 1) -> tuple[Guard, str]:
    """The guard with this configuration, and how a message names that line of it."""
    path = tmp_path / "cronguard.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return guard.with_env(CRONGUARD_CONFIG=str(path)), f"{path} line {line}"


def _in_sqlite(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    if not path.is_file():
        return {}
    with closing(sqlite3.connect(path, timeout=30)) as ledger:
        try:
            names = [name for (name,) in ledger.execute("select name from sqlite_master where type = 'table'")]
        except sqlite3.DatabaseError:  # some tests put something else in its place
            return {}
        return {name: ledger.execute(f'select * from "{name}"').fetchall() for name in names}


def _in_postgres(dsn: str) -> dict[str, list[tuple[Any, ...]]]:
    with psycopg.connect(dsn, autocommit=True) as ledger:
        names = ledger.execute("select tablename from pg_tables where schemaname = 'cronguard'").fetchall()
        return {name: ledger.execute(f'select * from cronguard."{name}"').fetchall() for (name,) in names}  # type: ignore[call-overload]
