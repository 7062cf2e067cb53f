"""Fixtures for every test: a clean environment, and the rig's servers and networks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.rig.pgbouncer import PgBouncer
from tests.rig.postgres import Server
from tests.rig.proxy import Proxy
from tests.rig.requirements import Requirements

# Whoever runs the tests may use the product, or Postgres: nothing of that may steer a test.
for _name in [name for name in os.environ if name.startswith(("CRONGUARD_", "PG"))]:
    del os.environ[_name]


def pytest_configure(config: pytest.Config) -> None:
    """Let `needs` and the ban of skips take part in the session."""
    config.pluginmanager.register(Requirements(config), "requirements")


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
