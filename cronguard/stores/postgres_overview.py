"""What people ask the fleet's ledger about whole keys: a part of the store in postgres.py."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import psycopg  # noqa: TID253  behind the door of stores.open_store

from cronguard.domain.run import Job
from cronguard.stores import rows
from cronguard.stores.postgres_connection import Row
from cronguard.stores.postgres_errors import translated

if TYPE_CHECKING:
    from cronguard.domain.overview import Glance
    from cronguard.domain.stats import Counts


GLANCE = ("read_job", "read_leases", "latest_runs", "last_ends", "recent_successes")


class Asking(Protocol):
    """What the store itself lends to its parts."""

    name: str
    _sql: dict[str, str]

    def _connection(self) -> AbstractContextManager[psycopg.Connection[Row]]: ...
    def _exchange(
        self, connection: psycopg.Connection[Row], *asked: tuple[str, Row | None]
    ) -> dict[str, list[Row]]: ...
    def _check_schema(self, answers: dict[str, list[Row]]) -> None: ...
    def _now(self) -> datetime | None: ...


class PostgresOverview:
    """Whole keys, each read by a bounded number of rows."""

    def jobs(self: Asking) -> Sequence[Job]:
        with self._connection() as connection:
            answers = self._exchange(connection, ("schema", None), ("jobs", None))
        self._check_schema(answers)
        return [rows.job_of(row) for row in answers["jobs"]]

    def glances(self: Asking, keys: Sequence[str]) -> Sequence[Glance]:
        """One snapshot for all of them, and one round trip, however many they are."""
        from cronguard.stores import overview_rows  # noqa: PLC0415  a run needs none of this

        with self._connection() as connection:
            begun = ("begin_look", None), ("settle_look", None), ("schema", None), ("clock", {"now": self._now()})
            answers = self._exchange(connection, *begun)
            self._check_schema(answers)
            now = answers["clock"][0]["now"]
            found = _of_each(connection, self._sql, [overview_rows.asked_of(key, now) for key in keys], self.name)
            self._exchange(connection, ("rollback", None))
        return [overview_rows.glance_of(parts, now) for parts in found if parts["read_job"]]

    def counts(self: Asking, key: str, last: int) -> Counts | None:
        from cronguard.stores import overview_rows  # noqa: PLC0415  a run needs none of this

        asked = {"key": key, "limit": last}
        with self._connection() as connection:
            answers = self._exchange(
                connection, ("begin_look", None), ("settle_look", None), ("schema", None),
                ("clock", {"now": self._now()}), ("read_job", asked), ("recent_runs", asked),
                ("count_attempts", asked), ("count_skips", asked), ("rollback", None),
            )  # fmt: skip
        self._check_schema(answers)
        return overview_rows.counts_of(answers, answers["clock"][0]["now"])

    def unknown_effects(self: Asking) -> int:
        asked = {"kind": None, "period": None, "now": self._now()}
        with self._connection() as connection:
            answers = self._exchange(connection, ("schema", None), ("count_unknown", asked))
        self._check_schema(answers)
        return int(answers["count_unknown"][0]["count"])


def _of_each(
    connection: psycopg.Connection[Row], sql: dict[str, str], keys: list[Row], where: str
) -> list[dict[str, list[Row]]]:
    with translated(where):
        with connection.pipeline():
            asked = [{name: connection.execute(sql[name].encode(), key) for name in GLANCE} for key in keys]
        return [{name: cursor.fetchall() for name, cursor in of_key.items()} for of_key in asked]
