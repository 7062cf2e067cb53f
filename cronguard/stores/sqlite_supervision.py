"""One host's ledger as a supervisor asks of it. Entered through `stores.open_supervised` only."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from cronguard.domain.metrics import Metrics
from cronguard.domain.run import Sight
from cronguard.domain.supervision import Supervisor, Survey
from cronguard.stores.sqlite import Row, SqlitePage, open_as
from cronguard.stores.sqlite_effects import SqliteEffects
from cronguard.stores.supervision_rows import metrics_of, supervisor_row, survey_of, with_requests


class SupervisedSqlite(SqliteEffects):
    """A ledger in one file, for whoever watches over all of it."""

    def survey(self, keys: str | None, looked_back: timedelta, limit: int) -> Survey:
        if not self.exists():
            return Survey(self._clock())
        now = self._clock()
        asked = {"keys": _glob(keys), "looked_back": looked_back, "limit": limit, "now": now}
        with self._connection() as connection:
            connection.execute(self._sql["begin"])
            self._check_schema(connection)
            return survey_of({
                "clock": [{"now": now}],
                "survey_leases": self._all(connection, "survey_leases", asked),
                "survey_candidates": self._all(connection, "survey_candidates", asked),
                "survey_expected": self._all(connection, "survey_expected", asked),
                "read_supervisor": self._all(connection, "read_supervisor", asked),
            })  # fmt: skip

    def glance(self, key: str, periods: Sequence[str]) -> Sight:
        if not self.exists():
            return Sight(self._clock())
        with self._connection() as connection:
            connection.execute(self._sql["begin"])
            return self._sight_of(connection, key, periods)

    @contextmanager
    def page_if_free(self, key: str, periods: Sequence[str], wait_for: timedelta) -> Iterator[SqlitePage | None]:
        """There is one lock for all keys, had for milliseconds: it is waited for, and never refused."""
        with self._writing() as connection:
            page = SqlitePage(self._sight_of(connection, key, periods))
            yield page
            self._commit(connection, page.change)

    def record_pass(self, done: Supervisor, kept_for: timedelta) -> None:
        asked = supervisor_row(done) | {"kept_for": kept_for, "now": self._clock()}
        with self._writing() as connection:
            self._do(connection, "forget_supervisors", asked)
            self._do(connection, "record_pass", asked)
            connection.execute(self._sql["commit"])

    def metrics(self, keys: str | None, runs: int) -> Metrics:
        now = self._clock()
        if not self.exists():
            return Metrics(now)
        asked = {"keys": _glob(keys), "runs": runs, "kind": None, "period": None, "now": now}
        with self._connection() as connection:
            connection.execute(self._sql["begin"])
            self._check_schema(connection)
            return metrics_of({
                "clock": [{"now": now}],
                "metrics_keys": self._all(connection, "metrics_keys", asked),
                "metrics_last": self._all(connection, "metrics_last", asked),
                "metrics_runs": self._all(connection, "metrics_runs", asked),
                "metrics_skips": self._all(connection, "metrics_skips", asked),
                "metrics_leases": self._all(connection, "metrics_leases", asked),
                "count_unknown": self._all(connection, "count_unknown", asked),
                "read_supervisor": self._all(connection, "read_supervisor", asked),
            })  # fmt: skip

    def _sight_of(self, connection: sqlite3.Connection, key: str, periods: Sequence[str]) -> Sight:
        sights = [self._sight(connection, key, period) for period in periods]
        runs = {run.period: run for sight in sights for run in sight.runs}
        asked: list[Row] = [{"key": key, "period": period} for period in periods]
        requests = [row for one in asked for row in self._all(connection, "read_requests_of", one)]
        steps = tuple(step for sight in sights for step in sight.steps)
        return with_requests(replace(sights[0], runs=tuple(runs.values()), steps=steps), requests)


def open_supervised_sqlite(
    path: str, answer_within: float, clock: Callable[[], datetime] | None = None, *, create: bool = True
) -> SupervisedSqlite:
    """As `open_sqlite`."""
    return open_as(SupervisedSqlite, path, answer_within, clock, create=create)


def _glob(keys: str | None) -> str | None:
    """A name with * and ? as GLOB has it, where [ is special too."""
    return keys.replace("[", "[[]") if keys is not None else None
