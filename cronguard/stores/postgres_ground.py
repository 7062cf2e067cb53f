"""What a Postgres says of itself to the role that asks, for `cronguard doctor`. It changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import psycopg  # noqa: TID253  behind the door of stores.open_ground
from psycopg.conninfo import make_conninfo  # noqa: TID253

from cronguard.domain.ground import Parameter, PostgresGround, Reading, Right, Schema, Slots
from cronguard.errors import CronguardError, LedgerUnavailable
from cronguard.stores import schema
from cronguard.stores.postgres_connection import Row, check, connect
from cronguard.stores.postgres_errors import translated
from cronguard.stores.statements import statements

LOOKS_AT_THE_CLOCK = 5  # of which the quickest counts: its answer is the most certain
APPLICATION = "cronguard:doctor"
SETTLED: tuple[str, Row] = ("settle_page", {"lock_for": "5s"})  # as for a claim


class GroundInPostgres:
    """A ledger in Postgres, looked at once; raises CronguardError when it does not answer at all."""

    def __init__(self, dsn: str, name: str, answer_within: float, host_clock: Callable[[], datetime]) -> None:
        check(dsn)
        self._dsn, self._name, self._answer_within = dsn, name, answer_within
        self._host_clock = host_clock
        self._sql = statements("postgres")

    def look(self, zone: str | None, instants: Sequence[datetime]) -> PostgresGround:
        connection, takes_writes = self._connection()
        try:
            return self._seen(connection, takes_writes, zone, instants)
        finally:
            connection.close()

    def _connection(self) -> tuple[psycopg.Connection[Row], bool]:
        """As a run makes it; where the server takes no writes, one that asks for none, to find out why."""
        try:
            with translated(self._name):
                return connect(self._dsn, APPLICATION, self._answer_within), True
        except LedgerUnavailable as refused:
            with suppress(CronguardError), translated(self._name):
                reading = make_conninfo(self._dsn, target_session_attrs="any")
                return connect(reading, APPLICATION, self._answer_within), False
            raise refused from None

    def _seen(
        self, connection: psycopg.Connection[Row], takes_writes: bool, zone: str | None, instants: Sequence[datetime]
    ) -> PostgresGround:
        with translated(self._name):
            (session,) = self._asked(connection, "ground_session")
            can_write = takes_writes and not session["is_read_only"]
            slots = self._tried(connection, "ground_connections")
            return PostgresGround(
                name=self._name,
                **session,
                takes_writes=takes_writes,
                schema=self._schema(connection),
                reading=self._reading(connection),
                parameters={row.pop("name"): Parameter(**row) for row in self._asked(connection, "ground_parameters")},
                missing=tuple(Right(**row) for row in self._tried(connection, "ground_rights")),
                slots=Slots(**slots[0]) if slots else None,
                standbys=tuple(row["name"] for row in self._tried(connection, "ground_standbys")),
                connected_to=connection.info.backend_pid,
                transaction_refused=self._transaction_refused() if can_write else "",
                hold_refused=self._hold_refused() if can_write else "",
                offsets=self._offsets(connection, zone, instants),
            )

    def _schema(self, connection: psycopg.Connection[Row]) -> Schema:
        (seen,) = self._asked(connection, "ground_schema")
        found = self._tried(connection, "schema") if seen["is_readable"] else []
        return Schema(schema.VERSION, **seen, **(found[0] if found else {}))

    def _reading(self, connection: psycopg.Connection[Row]) -> Reading:
        def look() -> Reading:
            sent_at = self._host_clock()
            (answer,) = self._asked(connection, "clock", {"now": None})
            return Reading(sent_at, answer["now"], self._host_clock())

        return min((look() for _ in range(LOOKS_AT_THE_CLOCK)), key=lambda reading: abs(reading.uncertainty))

    def _hold_refused(self) -> str:
        """Try out what --lock advisory relies on; why it cannot be relied on."""
        from cronguard.stores.postgres_advisory import PostgresHold  # noqa: PLC0415

        try:
            PostgresHold(self._dsn, self._name, APPLICATION, self._answer_within, lambda: None, SETTLED).release()
        except LedgerUnavailable:
            return ""  # no answer is no refusal
        except CronguardError as refused:
            return str(refused).partition(f"relied on at {self._name}: ")[2].partition("; ")[0]
        return ""

    def _transaction_refused(self) -> str:
        """Begin as a claim does, and let go; a pooler that allows none cuts the connection, which is one for this."""
        with translated(self._name):
            connection = connect(self._dsn, APPLICATION, self._answer_within)
        try:
            with connection.pipeline():
                for name, row in (("begin_page", None), SETTLED):
                    connection.execute(self._sql[name].encode(), row)
            connection.execute(self._sql["rollback"].encode())
        except psycopg.Error as error:
            return (error.diag.message_primary or "the connection was cut").partition("\n")[0]
        finally:
            connection.close()
        return ""

    def _offsets(
        self, connection: psycopg.Connection[Row], zone: str | None, instants: Sequence[datetime]
    ) -> tuple[timedelta, ...] | None:
        if zone is None:
            return None
        found = self._tried(connection, "ground_offsets", {"zone": zone, "instants": list(instants)})
        return tuple(timedelta(seconds=row["seconds"]) for row in found) or None

    # ----------------------------------------------------------------------- one statement at a time

    def _asked(self, connection: psycopg.Connection[Row], name: str, row: Row | None = None) -> list[dict[str, Any]]:
        return connection.execute(self._sql[name].encode(), row).fetchall()

    def _tried(self, connection: psycopg.Connection[Row], name: str, row: Row | None = None) -> list[dict[str, Any]]:
        """Nothing where the server refuses it: that says nothing about the rest."""
        try:
            return self._asked(connection, name, row)
        except psycopg.Error:
            if connection.closed:
                raise
            return []
