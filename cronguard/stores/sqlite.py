"""One host's ledger, in an SQLite file. Entered through `stores.open_store` only.

Rollback journal and synchronous=FULL: a few writes a minute, none of them to be
lost in a power cut. Writers queue at a kernel lock file (sqlite_file.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from cronguard.domain.run import Change, Lease, Record, Sight, Skip
from cronguard.errors import CronguardError
from cronguard.ports import Beat, Foregone, Hold
from cronguard.stores import rows, schema
from cronguard.stores.sqlite_advisory import SqliteHold, lock_is_free
from cronguard.stores.sqlite_file import (
    has_been_kept,
    queued,
    refuse_network_file_system,
    refuse_to_begin_anew,
    translated,
)
from cronguard.stores.sqlite_overview import SqliteOverview
from cronguard.stores.sqlite_steps import SqliteSteps
from cronguard.stores.statements import migrations, statements
from cronguard.stores.writing import writes_of

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANTS = frozenset({
    "now", "last_started_at", "pruned_before", "paused_at", "lease_until", "period_start", "period_end", "slot",
    "started_at", "finished_at", "complete_by", "seen_at", "progressed_at", "expected_until", "expected_by", "claim_by",
    "reported_at", "requested_at", "announced_at", "taken_at", "missed_at", "mass_expiry_at",
    "said_at", "last_success_at", "last_failure_at", "claimed_at", "send_by",
})  # fmt: skip
LENGTHS = frozenset({"extend_max", "extended_for", "claim_within"})

Row = dict[str, Any]


class SqlitePage:
    """The ledger, with its write lock held; the change is written when the page closes."""

    def __init__(self, sight: Sight) -> None:
        self.sight = sight
        self.change = Change()

    def write(self, change: Change) -> None:
        self.change = change


class SqliteStore(SqliteOverview, SqliteSteps):
    """A ledger in one file. `clock` puts a clock of the caller's in the place of the host's, for tests."""

    def __init__(self, path: str, answer_within: float, clock: Callable[[], datetime] | None = None) -> None:
        self.name = path
        self.stands_alone = False
        self._answer_within = answer_within
        self._path = Path(path)
        self._clock = clock or (lambda: datetime.now(UTC))
        self._sql = statements("sqlite")

    @contextmanager
    def connected(self) -> Iterator[None]:
        yield  # opening a file costs nothing worth keeping

    def look(self, key: str, period: str, foregone: Foregone | None = None) -> Sight:
        if not self.exists():
            return Sight(self._clock())
        with self._connection() as connection:
            connection.execute(self._sql["begin"])
            return self._sight(connection, key, period)

    @contextmanager
    def page(self, key: str, period: str, runs: Sequence[str] = ()) -> Iterator[SqlitePage]:
        with self._writing() as connection:
            self._do(connection, "add_job", {"key": key})
            page = SqlitePage(self._sight(connection, key, period))
            yield page
            self._commit(connection, page.change)

    def beat(self, lease: Lease, lease_for: timedelta, slack: timedelta) -> Beat | None:
        with self._writing() as connection:
            asked = rows.lease_row(lease) | {"now": self._clock(), "lease_for": lease_for, "slack": slack}
            if not self._do(connection, "beat", asked).rowcount:
                return None
            answer = self._one(connection, "beat_answer", asked)
            connection.execute(self._sql["commit"])
        return Beat(**answer) if answer else None

    def hold(self) -> Hold:
        return SqliteHold(self._path, self.beat)

    def note(self, skip: Skip) -> None:
        with self._writing() as connection:
            self._do(connection, "note_skip", rows.skip_row(skip))
            connection.execute(self._sql["commit"])

    def history(self, key: str | None, limit: int) -> Sequence[Record]:
        if not self.exists():
            return []
        asked = {"key": key, "limit": limit, "now": self._clock()}
        with self._connection() as connection:
            self._check_schema(connection)
            return [rows.record_of(row) for row in self._all(connection, "history_of_key" if key else "history", asked)]

    def show(self, key: str, period: str | None) -> Record | None:
        if not self.exists():
            return None
        with self._connection() as connection:
            self._check_schema(connection)
            now = self._clock()
            row = self._one(connection, "show", {"key": key, "period": period, "now": now})
            if row is None:
                of_key = {"key": key, "period": period, "limit": rows.SKIPS_SHOWN}
                return rows.skips_alone(self._all(connection, "skips_of_run", of_key), now)
            of_run = {"key": key, "period": row["period"], "limit": rows.SKIPS_SHOWN}
            said = {**of_run, "limit": rows.INTERVENTIONS_SHOWN}
            asked = (
                ("attempts_of_run", of_run), ("skips_of_run", of_run), ("interventions_of_run", said),
                ("steps_of_run", of_run),
            )  # fmt: skip
            return rows.with_details(rows.record_of(row), *(self._all(connection, *question) for question in asked))

    def backlog(self, key: str, *, missed: bool = False, within: timedelta | None = None) -> Sight:
        return self._runs(key, "backlog", {"key": key, "missed": missed, "within": within, "now": self._clock()})

    def recorded(self, key: str, first: str, last: str) -> Sight:
        return self._runs(key, "recorded", {"key": key, "first": first, "last": last})

    def migrate(self) -> tuple[int, int]:
        with self._writing() as connection:
            before = self._version(connection)
            for version, script in migrations("sqlite"):
                if version > before:
                    _run_script(connection, script)
                    step = {"version": version, "min_reader": schema.MIN_READER[version], "now": self._clock()}
                    self._do(connection, "record_migration", step)
            connection.execute(self._sql["commit"])
        return before, max(before, schema.VERSION)

    def exists(self) -> bool:
        return self._path.exists()

    def is_behind(self) -> bool:
        """An empty file, or an older schema. A database of somebody else's is neither, and is left alone."""
        was_kept = has_been_kept(self._path)
        if not self.exists():
            return self._may_begin(was_kept)
        with self._connection() as connection:
            if not self._has_schema(connection):
                return not self._one(connection, "any_table", {}) and self._may_begin(was_kept)
            found = self._one(connection, "schema", {})
            return not found or found["version"] < schema.VERSION

    def close(self) -> None:
        """Connections are closed where they were opened."""

    def _may_begin(self, was_kept: bool) -> bool:
        if was_kept:
            refuse_to_begin_anew(self._path)
        return True

    # ----------------------------------------------------------------------- the file and its lock

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with translated(self.name):
            connection = sqlite3.connect(self._path, timeout=self._answer_within, isolation_level=None)
            try:
                connection.row_factory = _row
                connection.execute(self._sql["settle"])
                yield connection
            finally:
                connection.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with queued(self._path, self._answer_within), self._connection() as connection:
            connection.execute(self._sql["begin_page"])
            yield connection

    def _commit(self, connection: sqlite3.Connection, change: Change) -> None:
        for name, row in writes_of(change):
            self._do(connection, name, row)
        connection.execute(self._sql["commit" if change else "rollback"])

    # ----------------------------------------------------------------------- asking and reading

    def _do(self, connection: sqlite3.Connection, name: str, row: Row) -> sqlite3.Cursor:
        return connection.execute(self._sql[name], {key: _stored(value) for key, value in row.items()})

    def _all(self, connection: sqlite3.Connection, name: str, row: Row) -> list[Row]:
        return self._do(connection, name, row).fetchall()

    def _one(self, connection: sqlite3.Connection, name: str, row: Row) -> Row | None:
        return next(iter(self._all(connection, name, row)), None)

    def _sight(self, connection: sqlite3.Connection, key: str, period: str) -> Sight:
        self._check_schema(connection)
        asked = {"key": key, "period": period}
        job = self._one(connection, "read_job", asked)
        return Sight(
            now=self._clock(),
            job=rows.job_of(job) if job else None,
            leases=tuple(self._lease_of(row) for row in self._all(connection, "read_leases", asked)),
            runs=tuple(rows.run_of(row) for row in self._all(connection, "read_runs", asked)),
            steps=tuple(rows.step_of(row) for row in self._all(connection, "read_steps", asked)),
        )

    def _lease_of(self, row: Row) -> Lease:
        number = row["advisory_lock"]
        return rows.lease_of(row | {"is_abandoned": number is not None and lock_is_free(self._path, number)})

    def _runs(self, key: str, name: str, asked: Row) -> Sight:
        """What a look shows, with the runs that this statement finds."""
        if not self.exists():
            return Sight(self._clock())
        with self._connection() as connection:
            connection.execute(self._sql["begin"])
            sight = self._sight(connection, key, "")
            return replace(sight, runs=tuple(rows.run_of(row) for row in self._all(connection, name, asked)))

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        if not self._has_schema(connection):
            schema.check(None, None, self.name)
        found = self._one(connection, "schema", {})
        schema.check(found["version"] if found else None, found["min_reader"] if found else None, self.name)

    def _version(self, connection: sqlite3.Connection) -> int:
        if not self._has_schema(connection):
            connection.execute(self._sql["create_schema"])
        found = self._one(connection, "schema", {})
        return int(found["version"]) if found else 0

    def _has_schema(self, connection: sqlite3.Connection) -> bool:
        there = self._one(connection, "has_schema", {})
        return bool(there and there["there"])


_Store = TypeVar("_Store", bound=SqliteStore)


def open_sqlite(
    path: str, answer_within: float, clock: Callable[[], datetime] | None = None, *, create: bool = True
) -> SqliteStore:
    """The ledger in this file, as every run asks of it."""
    return open_as(SqliteStore, path, answer_within, clock, create=create)


def open_as(
    kind: type[_Store], path: str, answer_within: float, clock: Callable[[], datetime] | None, *, create: bool
) -> _Store:
    """The ledger in this file, made or brought up to date if need be: on one host nobody else would do it.

    Without `create` a file that is not there is not made: it reads as an empty ledger.
    """
    store = kind(path, answer_within, clock)
    refuse_network_file_system(path)
    if not create and not store.exists():
        return store
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CronguardError(
            f"the ledger {path} cannot be made: {error.strerror}; set CRONGUARD_STATE_DIR to a folder that "
            "can be written, or CRONGUARD_DSN to a Postgres"
        ) from None
    if store.is_behind():
        store.migrate()
    return store


def _run_script(connection: sqlite3.Connection, script: str) -> None:
    """Statement by statement: executescript would commit first, and the steps belong to one transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def _row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    names = (column[0] for column in cursor.description)
    return {name: _read(name, value) for name, value in zip(names, values, strict=True)}


def _read(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in INSTANTS:
        return EPOCH + value * MICROSECOND
    return value * MICROSECOND if name in LENGTHS else value


def _stored(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // MICROSECOND
    return value // MICROSECOND if isinstance(value, timedelta) else value
