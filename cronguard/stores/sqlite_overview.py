"""What people ask one host's ledger about whole keys, and how it forgets: a part of the store in sqlite.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from cronguard.domain.run import Job
from cronguard.stores import rows

if TYPE_CHECKING:
    from cronguard.domain.overview import Glance
    from cronguard.domain.pruning import Aged, Keep, Pruning
    from cronguard.domain.stats import Counts

Row = dict[str, Any]

GLANCE = ("read_job", "read_leases", "latest_runs", "last_ends", "recent_successes")


class Asking(Protocol):
    """What the store itself lends to its parts."""

    _clock: Callable[[], datetime]
    _sql: dict[str, str]

    def exists(self) -> bool: ...
    def _connection(self) -> AbstractContextManager[sqlite3.Connection]: ...
    def _writing(self) -> AbstractContextManager[sqlite3.Connection]: ...
    def _do(self, connection: sqlite3.Connection, name: str, row: Row) -> sqlite3.Cursor: ...
    def _all(self, connection: sqlite3.Connection, name: str, row: Row) -> list[Row]: ...
    def _check_schema(self, connection: sqlite3.Connection) -> None: ...


class SqlitePruningPage:
    """One key, with the ledger's write lock held; what goes is taken away when the page closes."""

    def __init__(self, aged: Aged) -> None:
        self.aged = aged
        self.pruning: Pruning | None = None

    def write(self, pruning: Pruning) -> None:
        self.pruning = pruning


class SqliteOverview:
    """Whole keys, each read by a bounded number of rows. A ledger that is not there has none."""

    def jobs(self: Asking) -> Sequence[Job]:
        if not self.exists():
            return []
        with self._connection() as connection:
            self._check_schema(connection)
            return [rows.job_of(row) for row in self._all(connection, "jobs", {})]

    def glances(self: Asking, keys: Sequence[str]) -> Sequence[Glance]:
        from cronguard.stores import overview_rows  # noqa: PLC0415  a run needs none of this

        if not self.exists():
            return []
        with self._connection() as connection:
            self._check_schema(connection)
            connection.execute(self._sql["begin"])
            now = self._clock()
            asked = [overview_rows.asked_of(key, now) for key in keys]
            found = [{name: self._all(connection, name, row) for name in GLANCE} for row in asked]
            return [overview_rows.glance_of(parts, now) for parts in found if parts["read_job"]]

    def counts(self: Asking, key: str, last: int) -> Counts | None:
        from cronguard.stores import overview_rows  # noqa: PLC0415  a run needs none of this

        if not self.exists():
            return None
        names = ("read_job", "recent_runs", "count_attempts", "count_skips")
        with self._connection() as connection:
            self._check_schema(connection)
            connection.execute(self._sql["begin"])
            found = {name: self._all(connection, name, {"key": key, "limit": last}) for name in names}
            return overview_rows.counts_of(found, self._clock())

    def unknown_effects(self: Asking) -> int:
        if not self.exists():
            return 0
        with self._connection() as connection:
            self._check_schema(connection)
            asked = {"kind": None, "period": None, "now": self._clock()}
            return int(self._all(connection, "count_unknown", asked)[0]["count"])

    def count_aged(self: Asking, key: str, keep: Keep) -> int:
        if not self.exists():
            return 0
        asked = {"key": key, "before": self._clock() - keep.for_, "last": keep.last}
        with self._connection() as connection:
            self._check_schema(connection)
            return int(self._all(connection, "count_aged", asked)[0]["count"])

    @contextmanager
    def pruning_page(self: Asking, key: str, keep: Keep, at_most: int) -> Iterator[SqlitePruningPage]:
        from cronguard.stores import overview_rows  # noqa: PLC0415  a run needs none of this

        with self._writing() as connection:
            self._check_schema(connection)
            now = self._clock()
            asked = {"key": key, "before": now - keep.for_, "last": keep.last, "limit": at_most}
            jobs, runs = self._all(connection, "read_job", asked), self._all(connection, "aged_runs", asked)
            page = SqlitePruningPage(overview_rows.aged_of(key, now, jobs, runs))
            yield page
            for name, row in overview_rows.prunings_of(page.pruning) if page.pruning else ():
                self._do(connection, name, row)
            connection.execute(self._sql["commit"])

    def prune_skips(
        self: Asking, keep: Keep, after: int, at_most: int, *, dry_run: bool = False
    ) -> tuple[int, int | None]:
        from cronguard.stores import overview_rows  # noqa: PLC0415  a run needs none of this

        if not self.exists():
            return 0, None
        with self._writing() as connection:
            self._check_schema(connection)
            found = self._all(connection, "skips_after", {"after": after, "limit": at_most})
            going, go_on = overview_rows.aged_skips(found, self._clock(), keep, at_most)
            for number in going if not dry_run else ():
                self._do(connection, "drop_skip", {"id": number})
            connection.execute(self._sql["commit"])
        return len(going), go_on
