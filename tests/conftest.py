"""Fixtures for every test: a clean environment, and the rig's servers and networks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest

from cronguard.ports import EffectStore, Store, SupervisedStore
from cronguard.stores import open_effects, open_store, open_supervised
from cronguard.stores.dsn import Address, parse_dsn
from tests.rig import WISHES
from tests.rig.guard import Guard
from tests.rig.pgbouncer import PgBouncer
from tests.rig.postgres import Server
from tests.rig.proxy import Proxy
from tests.rig.requirements import Requirements
from tests.rig.waiting import wait_until

# Whoever runs the tests may use the product, or Postgres: nothing of that may steer a test.
for _name in [name for name in os.environ if name.startswith(("CRONGUARD_", "PG"))]:
    del os.environ[_name]

# A shell's `&` and nohup have these ignored, which every program that a test starts would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _signum in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_signum, signal.SIG_DFL)

# How long an example takes, and how long it takes to think of one, is the machine's affair.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """Let `needs` and the ban of skips take part in the session."""
    config.pluginmanager.register(Requirements(config), "requirements")


@pytest.fixture(autouse=True)
def _room_in_the_day() -> None:
    """No test begins just before midnight: whoever fires twice and names no period means one day."""
    wait_until(lambda: _left_of_the_day() > ROOM, ROOM.total_seconds() + 60, every=0.5, saying="it is past midnight")


ROOM = timedelta(seconds=90)


def _left_of_the_day() -> timedelta:
    now = datetime.now(UTC)
    return datetime(now.year, now.month, now.day, tzinfo=UTC) + timedelta(days=1) - now


# --- The rig ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Database:
    """A fresh database, and the ways to it; `app` owns it and is no superuser."""

    name: str
    server: Server

    @property
    def dsn(self) -> str:
        """As `app` over the Unix socket, without a password."""
        return self.server.dsn(self.name)

    @property
    def tcp_dsn(self) -> str:
        """As `app` over TCP, with its password."""
        return self.server.dsn(self.name, "tcp")

    @property
    def superuser_dsn(self) -> str:
        """As the superuser over the Unix socket."""
        return self.server.dsn(self.name, user="postgres")

    def through(self, way: Proxy | PgBouncer) -> str:
        """As `app` over TCP, through a proxy or a pooler."""
        return self.server.dsn(self.name, "tcp", port=way.port)

    def connect(self) -> psycopg.Connection[Any]:
        """An autocommit connection as `app` over the socket."""
        return self.server.connect(self.name, user="app")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The session's Postgres: do not stop, pause or kill it, take `own_postgres` for that."""
    with Server(max_connections=200) as server:
        yield server


@pytest.fixture
def own_postgres() -> Iterator[Server]:
    """A Postgres of this test's own, to be treated as badly as you like."""
    with Server() as server:
        yield server


@pytest.fixture
def database(postgres: Server) -> Iterator[Database]:
    """A fresh database in the session's Postgres."""
    name = postgres.create_database()
    yield Database(name, postgres)
    postgres.drop_database(name)


@pytest.fixture
def proxy() -> Iterator[Callable[[Server], Proxy]]:
    """`proxy(server)`: a TCP proxy before a server, with any number a test."""
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(Proxy(server.port))


@pytest.fixture
def pgbouncer() -> Iterator[Callable[..., PgBouncer]]:
    """`pgbouncer(server, mode="transaction", **settings)`: a pooler; the test must be marked `needs("pgbouncer")`."""
    with ExitStack() as stack:
        yield lambda server, mode="transaction", **settings: stack.enter_context(PgBouncer(server, mode, **settings))


# --- The product: fixtures for cronguard itself go below this line ----------------------------------------------------


@pytest.fixture
def bare_guard(tmp_path: Path) -> Iterator[Guard]:
    """cronguard with nothing configured but a home of its own."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8", "TZ": "UTC"}
    if tree := WISHES.get("CRONGUARD_TEST_TREE"):
        environment["PYTHONPATH"] = tree
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    guard = Guard(tmp_path / "work", environment)
    yield guard
    guard.clean_up()


@pytest.fixture
def sqlite_guard(bare_guard: Guard, tmp_path: Path) -> Guard:
    """cronguard on a ledger of this host."""
    return bare_guard.with_env(CRONGUARD_STATE_DIR=str(tmp_path / "state"))


@pytest.fixture
def postgres_guard(bare_guard: Guard, tmp_path: Path, database: Database) -> Guard:
    """cronguard on a ledger in Postgres, initialised."""
    guard = bare_guard.with_env(CRONGUARD_DSN=database.dsn, CRONGUARD_STATE_DIR=str(tmp_path / "state"))
    assert guard.run("init").code == 0
    return guard


@pytest.fixture(params=["sqlite", "postgres"])
def guard(request: pytest.FixtureRequest) -> Guard:
    """cronguard on each ledger in turn."""
    found: Guard = request.getfixturevalue(f"{request.param}_guard")
    return found


class Clock:
    """A ledger's clock that the test moves by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **duration: float) -> datetime:
        self.now += timedelta(**duration)
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def pooler(postgres: Server) -> Iterator[PgBouncer]:
    """A pooler before the session's Postgres, which gives each transaction whatever session is free."""
    with PgBouncer(postgres) as pooler:
        yield pooler


POOLED = pytest.param("pooled", marks=pytest.mark.needs("pgbouncer"))


@pytest.fixture(params=["sqlite", "postgres", POOLED])
def address(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Address:
    """Where a fresh ledger is, of each kind in turn."""
    return _migrated(request.param, request, tmp_path, clock)


@pytest.fixture(params=["sqlite", "postgres"])
def direct_address(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Address:
    """The same without a pooler: for locks that belong to a session."""
    return _migrated(request.param, request, tmp_path, clock)


def _migrated(kind: str, request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Address:
    if kind == "sqlite":
        address = parse_dsn(f"sqlite://{tmp_path}/ledger.db")
    else:
        database = request.getfixturevalue("database")
        pooled = kind == "pooled"
        address = parse_dsn(database.through(request.getfixturevalue("pooler")) if pooled else database.dsn)
    open_store(address, clock=clock).migrate()
    return address


@pytest.fixture
def make_store(address: Address, clock: Clock) -> Callable[[], Store]:
    """`make_store()`: one more store on the same ledger, all by the same hand-moved clock; each kind in turn."""
    return lambda: open_store(address, clock=clock)


@pytest.fixture
def make_effects(address: Address, clock: Clock) -> Callable[[], EffectStore]:
    """`make_effects()`: like `make_store()`, a ledger for whoever acts on the outside."""
    return lambda: open_effects(address, clock=clock)


@pytest.fixture
def make_direct_store(direct_address: Address, clock: Clock) -> Callable[[], Store]:
    """The same without a pooler."""
    return lambda: open_store(direct_address, clock=clock)


@pytest.fixture
def supervised(address: Address, clock: Clock) -> SupervisedStore:
    """The same ledger as a supervisor sees it."""
    return open_supervised(address, clock=clock)


@pytest.fixture
def store(make_store: Callable[[], Store]) -> Store:
    return make_store()
