"""The fleet's ledger, in Postgres. Entered through `stores.open_store` only; it loads psycopg.

A connection lasts for one question, or for as long as `connected()` says.
Statements go out together, in pipelines: a look is one round trip, a change two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import psycopg  # noqa: TID253  this is the one module that talks to Postgres

from cronguard.domain.run import Change, Lease, Record, Sight, Skip, SkipReason
from cronguard.ports import Beat, Foregone, Hold
from cronguard.stores import rows, schema
from cronguard.stores.postgres_connection import Row, check, connect
from cronguard.stores.postgres_errors import confirmed, told_by_version, translated
from cronguard.stores.postgres_overview import PostgresOverview
from cronguard.stores.postgres_pruning import PostgresPruning
from cronguard.stores.postgres_steps import PostgresSteps
from cronguard.stores.statements import migrations, statements
from cronguard.stores.writing import writes_of

LOCK_FOR = 5.0  # seconds at most to wait for a row that somebody else has
MIGRATIONS_LOCK = 0x63726F6E67756172  # "cronguar", for pg_advisory_xact_lock; never change it


class PostgresPage:
    """One key, locked in an open transaction; the change is written when the page closes."""

    def __init__(self, sight: Sight) -> None:
        self.sight = sight
        self.change = Change()

    def write(self, change: Change) -> None:
        self.change = change


class PostgresStore(PostgresOverview, PostgresPruning, PostgresSteps):
    """A ledger in the schema `cronguard` of one database.

    `clock` puts a clock of the caller's in the place of the server's, for tests.
    With `durable` a change counts once a synchronous standby has it.
    """

    def __init__(
        self,
        dsn: str,
        name: str,
        key: str,
        answer_within: float,
        clock: Callable[[], datetime] | None = None,
        *,
        durable: bool = False,
    ) -> None:
        check(dsn)
        self.name = name
        self.stands_alone = False
        self._durable = durable
        self._in_doubt = False  # whether a commit of ours may be in the server, and not confirmed
        self._answer_within = answer_within
        self._dsn = dsn
        self._application = f"cronguard:{key}".encode()[:63].decode(errors="ignore")
        self._clock = clock
        self._kept = threading.local()  # the beats' thread has its own connections
        self._sql = statements("postgres")

    @contextmanager
    def connected(self) -> Iterator[None]:
        with self._connection() as connection:
            self._kept.connection = connection
            try:
                yield
            finally:
                self._kept.connection = None

    def look(self, key: str, period: str, foregone: Foregone | None = None) -> Sight:
        asked: list[tuple[str, Row | None]] = [("begin_look", None), ("settle_look", None), *self._view(key, period)]
        if foregone:
            asked.append(("note_foregone", self._foregone(key, period, foregone)))
        with self._connection() as connection:
            answers = self._exchange(connection, *asked, ("commit", None))
        return self._sight(answers, answers["note_foregone"] if foregone else [])

    @contextmanager
    def page(self, key: str, period: str, runs: Sequence[str] = ()) -> Iterator[PostgresPage]:
        with self._connection() as connection:
            parameters = {"key": key, "periods": list(runs)}
            locks = [(name, parameters) for name in ("lock_job", *(["lock_runs"] if runs else []), "lock_leases")]
            answers = self._exchange(
                connection, *self._begin_page(), ("add_job", parameters), *locks, *self._view(key, period)
            )
            with self._opened(connection, self._sight(answers, [])) as page:
                yield page

    def beat(self, lease: Lease, lease_for: timedelta, slack: timedelta) -> Beat | None:
        parameters = rows.lease_row(lease) | {"lease_for": lease_for, "slack": slack, "now": self._now()}
        with self._connection() as connection:
            answers = self._exchange(
                connection, ("begin_page", None), self._settled("settle_beat"), ("beat", parameters), ("commit", None)
            )
        return Beat(**answers["beat"][0]) if answers["beat"] else None

    def hold(self) -> Hold:
        from cronguard.stores.postgres_advisory import PostgresHold  # noqa: PLC0415  only for --lock advisory

        settled = self._settled("settle_beat")
        return PostgresHold(self._dsn, self.name, self._application, self._answer_within, self._now, settled)

    def note(self, skip: Skip) -> None:
        with self._connection() as connection:
            self._exchange(connection, ("note_skip", rows.skip_row(skip)))

    def history(self, key: str | None, limit: int) -> Sequence[Record]:
        name = "history_of_key" if key else "history"
        with self._connection() as connection:
            answers = self._exchange(
                connection, ("schema", None), (name, {"key": key, "limit": limit, "now": self._now()})
            )
        self._check_schema(answers)
        return [rows.record_of(row) for row in answers[name]]

    def show(self, key: str, period: str | None) -> Record | None:
        with self._connection() as connection:
            asked = {"key": key, "period": period, "now": self._now()}
            answers = self._exchange(connection, ("schema", None), ("show", asked))
            self._check_schema(answers)
            if not answers["show"]:
                of_any = {"key": key, "period": period, "limit": rows.SKIPS_SHOWN}
                alone = self._exchange(connection, ("skips_of_run", of_any), ("clock", asked))
                return rows.skips_alone(alone["skips_of_run"], alone["clock"][0]["now"])
            found = rows.record_of(answers["show"][0])
            of_run = {"key": key, "period": found.period, "limit": rows.SKIPS_SHOWN}
            said = {**of_run, "limit": rows.INTERVENTIONS_SHOWN}
            names = ("attempts_of_run", "skips_of_run", "interventions_of_run", "steps_of_run")
            more = self._exchange(
                connection, ("attempts_of_run", of_run), ("skips_of_run", of_run), ("interventions_of_run", said),
                ("steps_of_run", of_run),
            )  # fmt: skip
        return rows.with_details(found, *(more[name] for name in names))

    def backlog(self, key: str, *, missed: bool = False, within: timedelta | None = None) -> Sight:
        return self._runs(key, "backlog", {"key": key, "missed": missed, "within": within, "now": self._now()})

    def recorded(self, key: str, first: str, last: str) -> Sight:
        return self._runs(key, "recorded", {"key": key, "first": first, "last": last})

    def migrate(self) -> tuple[int, int]:
        with self._connection() as connection, translated(self.name), connection.transaction():
            connection.execute(self._sql["migrations_lock"].encode(), {"lock": MIGRATIONS_LOCK})
            before = self._version(connection)
            for version, script in migrations("postgres"):
                if version > before:
                    connection.execute(script.encode())
                    step = {"version": version, "min_reader": schema.MIN_READER[version]}
                    connection.execute(self._sql["record_migration"].encode(), step)
            return before, max(before, schema.VERSION)

    def close(self) -> None:
        """Connections are closed where they were opened."""

    # ----------------------------------------------------------------------- one exchange with the server

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Row]]:
        kept = getattr(self._kept, "connection", None)
        if kept is not None:
            yield kept
            return
        with translated(self.name):
            connection = connect(self._dsn, self._application, self._answer_within)
        try:
            yield connection
        finally:
            connection.close()

    def _exchange(self, connection: psycopg.Connection[Row], *asked: tuple[str, Row | None]) -> dict[str, list[Row]]:
        """All of these statements in one round trip; the answers by statement name."""
        committing = self._in_doubt or (asked[-1][0] == "commit" and asked[0][0] != "begin_look")
        with (
            translated(self.name, committing=committing),
            confirmed(connection, self.name),
            told_by_version(connection, lambda: self._check_schema({"schema": self._schema(connection)})),
        ):
            with connection.pipeline():
                cursors = [(name, connection.execute(self._sql[name].encode(), row)) for name, row in asked]
            answers = {name: cursor.fetchall() if cursor.description else [] for name, cursor in cursors}
        if "settle_durably" in answers:
            self.stands_alone = answers["settle_durably"][0]["alone"]
        return answers

    def _begin_page(self, lock_for: float = LOCK_FOR) -> list[tuple[str, Row | None]]:
        return [("begin_page", None), self._settled("settle_page", lock_for)]

    def _settled(self, name: str, lock_for: float = LOCK_FOR) -> tuple[str, Row]:
        """A lock that others have is given up before we give up its server, which would go on waiting for it."""
        lock_for = min(lock_for, 0.8 * self._answer_within)
        return "settle_durably" if self._durable else name, {"lock_for": f"{lock_for * 1000:.0f}ms"}

    def _commit(self, connection: psycopg.Connection[Row], writes: Iterable[tuple[str, Row]] = ()) -> None:
        self._in_doubt = True
        self._exchange(connection, *writes, ("commit", None))
        self._in_doubt = False

    @contextmanager
    def _opened(self, connection: psycopg.Connection[Row], sight: Sight) -> Iterator[PostgresPage]:
        """The page of a key that is locked; what is written is committed on leaving, or nothing is.

        Where it may show what an earlier commit of ours has left, that must be confirmed before it is relied on: a
        commit with nothing in it waits for all that came before.
        """
        page = PostgresPage(sight)
        try:
            yield page
        except BaseException:
            self._let_go(connection)
            raise
        is_known = sight.job is not None and sight.job.token > 0  # else nothing of ours can be there
        if page.change or (is_known and (self._durable or self._in_doubt)):
            self._commit(connection, writes_of(page.change))
        else:
            self._let_go(connection)

    def _let_go(self, connection: psycopg.Connection[Row]) -> None:
        with translated(self.name):
            if not connection.closed:
                connection.execute(self._sql["rollback"].encode())

    # ----------------------------------------------------------------------- asking and reading

    def _now(self) -> datetime | None:
        return self._clock() if self._clock else None

    def _view(self, key: str, period: str) -> list[tuple[str, Row | None]]:
        parameters = {"key": key, "period": period}
        return [
            ("schema", None), ("clock", {"now": self._now()}),
            ("read_job", parameters), ("read_leases", parameters), ("read_runs", parameters),
            ("read_steps", parameters),
        ]  # fmt: skip

    def _runs(self, key: str, name: str, asked: Row) -> Sight:
        """What a look shows, with the runs that this statement finds."""
        view = [question for question in self._view(key, "") if question[0] != "read_runs"]
        with self._connection() as connection:
            answers = self._exchange(
                connection, ("begin_look", None), ("settle_look", None), *view, (name, asked), ("commit", None)
            )
        return self._sight(answers | {"read_runs": answers[name]}, [])

    def _foregone(self, key: str, period: str, foregone: Foregone) -> Row:
        known = {name: getattr(foregone, name) for name in foregone.__slots__ if name != "lanes"}
        lanes = list(foregone.lanes) if foregone.lanes is not None else None
        return known | {"key": key, "period": period, "lanes": lanes, "now": self._now()}

    def _check_schema(self, answers: dict[str, list[Row]]) -> None:
        found = answers["schema"][0] if answers["schema"] else {"version": None, "min_reader": None}
        schema.check(found["version"], found["min_reader"], self.name)

    def _sight(self, answers: dict[str, list[Row]], noted: list[Row]) -> Sight:
        self._check_schema(answers)
        return Sight(
            now=answers["clock"][0]["now"],
            job=rows.job_of(answers["read_job"][0]) if answers["read_job"] else None,
            leases=tuple(rows.lease_of(row) for row in answers["read_leases"]),
            runs=tuple(rows.run_of(row) for row in answers["read_runs"]),
            noted=SkipReason(noted[0]["reason"]) if noted else None,
            steps=tuple(rows.step_of(row) for row in answers["read_steps"]),
        )

    def _version(self, connection: psycopg.Connection[Row]) -> int:
        """The schema's version; 0 after making the place where it will be recorded."""
        there = connection.execute(self._sql["has_schema"].encode()).fetchone()
        if not (there and there["there"]):
            connection.execute(self._sql["create_schema"].encode())
        found = self._schema(connection)
        return int(found[0]["version"]) if found else 0

    def _schema(self, connection: psycopg.Connection[Row]) -> list[Row]:
        return connection.execute(self._sql["schema"].encode()).fetchall()
