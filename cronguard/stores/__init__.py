"""THE CELLAR: SQL and drivers. `open_store` is the one door; a driver is loaded only when its store is opened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from cronguard.ports import DrilledStore, EffectStore, Groundwork, Store, SupervisedStore
from cronguard.stores.dsn import Address


def open_store(
    address: Address,
    key: str = "",
    *,
    answer_within: float = 15.0,
    create: bool = True,
    clock: Callable[[], datetime] | None = None,
    durable: bool = False,
) -> Store:
    """The ledger at this address. Nothing is asked of it yet, but that a local file is there.

    `key` names the connection for a database administrator; `answer_within` is
    how many seconds one exchange may take; without `create` a local ledger that
    is not there reads as empty; `clock` is for tests. With `durable` a change in
    Postgres counts once a synchronous standby has it; a file always syncs.
    """
    if address.store == "sqlite":
        from cronguard.stores.sqlite import open_sqlite  # noqa: PLC0415

        return open_sqlite(address.target, answer_within, clock, create=create)
    from cronguard.stores.postgres import PostgresStore  # noqa: PLC0415  psycopg is half of the start-up time

    return PostgresStore(address.target, address.name, key, answer_within, clock, durable=durable)


def open_supervised(
    address: Address,
    *,
    answer_within: float = 15.0,
    create: bool = True,
    clock: Callable[[], datetime] | None = None,
    durable: bool = False,
) -> SupervisedStore:
    """The same ledger as `open_store` opens, as a supervisor sees it."""
    if address.store == "sqlite":
        from cronguard.stores.sqlite_supervision import open_supervised_sqlite  # noqa: PLC0415

        return open_supervised_sqlite(address.target, answer_within, clock, create=create)
    from cronguard.stores.postgres_supervision import SupervisedPostgres  # noqa: PLC0415

    return SupervisedPostgres(address.target, address.name, "supervise", answer_within, clock, durable=durable)


def open_drilled(address: Address, *, answer_within: float = 15.0) -> DrilledStore:
    """The same ledger as `open_store` opens, as a drill sees it."""
    if address.store == "sqlite":
        from cronguard.stores.sqlite_drill import open_drilled_sqlite  # noqa: PLC0415

        return open_drilled_sqlite(address.target, answer_within)
    from cronguard.stores.postgres_drill import DrilledPostgres  # noqa: PLC0415

    return DrilledPostgres(address.target, address.name, "drill", answer_within, None)


def open_effects(
    address: Address,
    *,
    answer_within: float = 15.0,
    create: bool = True,
    clock: Callable[[], datetime] | None = None,
    durable: bool = False,
) -> EffectStore:
    """The same ledger as `open_store` opens, for whoever acts on the outside."""
    if address.store == "sqlite":
        from cronguard.stores.sqlite_effects import open_sqlite_effects  # noqa: PLC0415

        return open_sqlite_effects(address.target, answer_within, clock, create=create)
    from cronguard.stores.postgres_effects import PostgresEffects  # noqa: PLC0415

    return PostgresEffects(address.target, address.name, "effects", answer_within, clock, durable=durable)


def open_ground(address: Address, *, answer_within: float, host_clock: Callable[[], datetime]) -> Groundwork:
    """The same ledger, to be looked at as it is: nothing is made or upgraded; `host_clock` is compared with its own."""
    if address.store == "sqlite":
        from cronguard.stores.sqlite_ground import GroundInSqlite  # noqa: PLC0415

        return GroundInSqlite(address.target, answer_within)
    from cronguard.stores.postgres_ground import GroundInPostgres  # noqa: PLC0415

    return GroundInPostgres(address.target, address.name, answer_within, host_clock)


def schema_script(store: str) -> str:
    """The SQL that `cronguard init` would run on an empty ledger, for a database administrator to read and run."""
    from cronguard.stores.script import script_of  # noqa: PLC0415

    return script_of(store)


def application_grants(role: str) -> str:
    """The SQL that lets a job's own role call the functions of the schema in Postgres, and nothing else."""
    from cronguard.stores.script import application_grants_of  # noqa: PLC0415

    return application_grants_of(role)
