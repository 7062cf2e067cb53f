"""The accounts, in the job's own database: accounts.py pull | balances | due.

Each may be done again by whoever goes on after a host that died: that is all that a step asks of its command.
"""

from __future__ import annotations

import os
import sys

import psycopg

LOCK = "select pg_advisory_xact_lock(hashtext('billing ' || %s))"  # `if not exists` alone fails where two come at once
TABLES = """
create schema if not exists billing;
create table if not exists billing.account (name text primary key, billed int not null, paid int not null, balance int);
create table if not exists billing.reminded (name text not null, period text not null);
"""
PULL = """
insert into billing.account (name, billed, paid)
select 'customer-' || lpad(n::text, 4, '0') || '@example.com', 100, mod(n, 50)
  from generate_series(1, %s) n
    on conflict (name) do update set billed = excluded.billed, paid = excluded.paid
"""
BALANCES = "update billing.account set balance = paid - billed"
DUE = "select name from billing.account where balance < 0 order by name"


def main(what: str) -> None:
    with connect() as database:
        if what == "pull":
            database.execute(LOCK, [what])
            database.execute(TABLES)
            database.execute(PULL, [int(os.environ.get("BILLING_CUSTOMERS", "300"))])
        elif what == "balances":
            database.execute(LOCK, [what])
            database.execute(BALANCES)
        else:
            print(*due(database), sep="\n")


def connect() -> psycopg.Connection[tuple[str, ...]]:
    return psycopg.connect(os.environ["BILLING_DSN"])


def due(database: psycopg.Connection[tuple[str, ...]]) -> list[str]:
    """Who is to be reminded."""
    return [name for (name,) in database.execute(DUE)]


if __name__ == "__main__":
    main(sys.argv[1])
