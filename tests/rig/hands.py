"""Hands in the ledger: what no command does (yet), and what should never be done."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from cronguard.stores.dsn import Address

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def change(address: Address, statement: str, *values: object) -> None:
    """One statement, in which `{}` stands before each table, and `?` for each value."""
    if address.store == "sqlite":
        with closing(sqlite3.connect(address.target)) as ledger, ledger:
            ledger.execute(statement.replace("{}", ""), [_micros(value) for value in values])
    else:
        with psycopg.connect(address.target, autocommit=True) as connection:
            connection.execute(statement.replace("{}", "cronguard.").replace("?", "%s").encode(), values or None)


def spoil(address: Address, key: str) -> None:
    """From here on no run of this key can be changed."""
    if address.store == "sqlite":
        change(address, f"create trigger bad before update on run when new.key = '{key}' "
                        "begin select raise(abort, 'a bad row'); end")  # fmt: skip
        return
    change(address, "create function {}bad() returns trigger language plpgsql as "
                    "$$ begin raise exception 'a bad row'; end $$")  # fmt: skip
    change(address, f"create trigger bad before update on {{}}run for each row when (new.key = '{key}') "
                    "execute function {}bad()")  # fmt: skip


@contextmanager
def between_two_writes(ledger: Path) -> Iterator[None]:
    """Nobody is in the midst of writing to a ledger in a file; where there is none, nothing is to be waited for.

    Who is frozen there keeps everybody away, and what is done to the file there ends otherwise than between two.
    """
    lock = Path(f"{ledger}.lock")
    if not lock.exists():
        yield
        return
    with lock.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _micros(value: object) -> object:
    return (value - EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value
