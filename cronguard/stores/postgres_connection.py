"""How cronguard connects to Postgres: what it asks of libpq, and how long it waits for an answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from typing import Any

import psycopg  # noqa: TID253  behind the door of stores.open_store
from psycopg.conninfo import conninfo_to_dict  # noqa: TID253
from psycopg.rows import dict_row  # noqa: TID253
from psycopg.types.string import TextLoader  # noqa: TID253

from cronguard.errors import BadInput

Row = dict[str, Any]

# Each only where the DSN or libpq's own environment says nothing. No `options`: poolers refuse it.
CONNECTION_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 5,  # seconds, for each address; less where there are many
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds; keepalives alone do not end a wait for an answer on its way
    "target_session_attrs": "read-write",
    "gssencmode": "disable",
}

PLACE = ("host", "hostaddr", "port")  # each a list in libpq's way, as long as the others; one port is that of all
_answered: dict[str, int] = {}  # DSN -> which of its servers this process was connected to last

# What the driver logs by itself (an aborted pipeline, with host and user) would be one line too many.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class NoAnswer(psycopg.OperationalError):
    """The server has taken the question, and not answered it in time."""


class ImpatientConnection(psycopg.Connection[Row]):
    """A connection that gives up an exchange after a while: a frozen backend on a live host is invisible to TCP."""

    answer_within = 15.0  # seconds

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        return super().wait(_bounded(gen, self.answer_within), *args, **kwargs)


def check(dsn: str) -> None:
    """Raise BadInput for what libpq could not even read; its own words would show the DSN."""
    try:
        conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        raise BadInput("the DSN is malformed; a libpq string is written like: host=db dbname=ops user=app") from None


def connect(dsn: str, application: str, answer_within: float) -> ImpatientConnection:
    """A new connection in autocommit, so that every transaction is one that we began ourselves.

    The server that answered last is asked first: one before it that is silent, and
    does not even refuse, would cost every question some seconds. All of them
    together get no longer than an answer, or libpq's least for each.
    """
    given = conninfo_to_dict(dsn)
    servers = _servers(given)
    options = {key: value for key, value in CONNECTION_DEFAULTS.items() if key not in given}
    each = max(2, int(answer_within / len(servers)))
    options["connect_timeout"] = min(CONNECTION_DEFAULTS["connect_timeout"], each)
    options.setdefault("application_name", application)
    given |= _with_first(_answered.get(dsn, 0), servers)
    connection = ImpatientConnection.connect(
        **(options | given), autocommit=True, prepare_threshold=None, row_factory=dict_row
    )
    if len(servers) > 1:
        _answered[dsn] = _which(connection, servers)
    connection.answer_within = answer_within
    connection.adapters.register_loader("uuid", TextLoader)  # a holder is text everywhere else
    return connection


def _servers(given: dict[str, Any]) -> list[dict[str, str]]:
    """The servers that a DSN names, in its order; at least one, and only one where libpq would refuse the lists."""
    lists = {name: given[name].split(",") for name in PLACE if name in given}
    count = max(map(len, lists.values()), default=1)
    if len(lists.get("port", [])) == 1:
        lists["port"] *= count
    if any(len(values) != count for values in lists.values()):
        return [{}]
    return [{name: values[at] for name, values in lists.items()} for at in range(count)]


def _with_first(first: int, servers: list[dict[str, str]]) -> dict[str, str]:
    ordered = [servers[first], *servers[:first], *servers[first + 1 :]]
    return {name: ",".join(server[name] for server in ordered) for name in servers[0]}


def _which(connection: psycopg.Connection[Row], servers: list[dict[str, str]]) -> int:
    """Where nothing is written, libpq takes its default."""
    found = {name: str(getattr(connection.info, name)) for name in PLACE}
    fits = (
        at for at, server in enumerate(servers) if all(value in ("", found[name]) for name, value in server.items())
    )
    return next(fits, 0)


def _bounded(exchange: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """psycopg's own waiting, with a limit: the driver reports each idle tenth of a second as a false `ready`."""
    give_up_at = time.monotonic() + seconds
    try:
        wanted = next(exchange)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > give_up_at:
                raise NoAnswer("timeout: the server did not answer")
            wanted = exchange.send(ready)
    except StopIteration as done:
        return done.value
