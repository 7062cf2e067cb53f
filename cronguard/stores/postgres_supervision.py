"""The fleet's ledger as a supervisor asks of it. Entered through `stores.open_supervised` only.

A page is had only if nobody has it: any number of supervisors may pass over one
ledger, and none waits for another. Each page has a connection of its own, so
that a row that fails takes nothing with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from cronguard.domain.metrics import Metrics
from cronguard.domain.run import Sight
from cronguard.domain.supervision import Supervisor, Survey
from cronguard.stores.postgres import PostgresPage
from cronguard.stores.postgres_connection import Row
from cronguard.stores.postgres_effects import PostgresEffects
from cronguard.stores.supervision_rows import metrics_of, supervisor_row, survey_of, with_requests


class SupervisedPostgres(PostgresEffects):
    """A ledger in the schema `cronguard` of one database, for whoever watches over all of it."""

    def survey(self, keys: str | None, looked_back: timedelta, limit: int) -> Survey:
        asked = {"keys": _like(keys), "looked_back": looked_back, "limit": limit, "now": self._now()}
        with self._connection() as connection:
            answers = self._exchange(
                connection, ("begin_look", None), ("settle_look", None), ("schema", None), ("clock", asked),
                ("survey_leases", asked), ("survey_candidates", asked), ("survey_expected", asked),
                ("read_supervisor", asked), ("commit", None),
            )  # fmt: skip
        self._check_schema(answers)
        return survey_of(answers)

    def glance(self, key: str, periods: Sequence[str]) -> Sight:
        with self._connection() as connection:
            answers = self._exchange(connection, ("begin_look", None), *self._view_of(key, periods), ("commit", None))
        return self._sight_of(answers)

    @contextmanager
    def page_if_free(self, key: str, periods: Sequence[str], wait_for: timedelta) -> Iterator[PostgresPage | None]:
        """The leases are waited for, once the key is had: a beat that is on its way must be seen."""
        asked = {"key": key}
        with self._connection() as connection:
            found = self._exchange(connection, *self._begin_page(wait_for.total_seconds()), ("lock_job_if_free", asked))
            if not found["lock_job_if_free"]:
                self._let_go(connection)
                yield None
                return
            answers = self._exchange(connection, ("lock_leases", asked), *self._view_of(key, periods))
            with self._opened(connection, self._sight_of(answers)) as page:
                yield page

    def record_pass(self, done: Supervisor, kept_for: timedelta) -> None:
        asked = supervisor_row(done) | {"kept_for": kept_for, "now": self._now()}
        with self._connection() as connection:
            self._exchange(connection, ("forget_supervisors", asked), ("record_pass", asked))

    def metrics(self, keys: str | None, runs: int) -> Metrics:
        asked = {"keys": _like(keys), "runs": runs, "kind": None, "period": None, "now": self._now()}
        with self._connection() as connection:
            answers = self._exchange(
                connection, ("begin_look", None), ("schema", None), ("clock", asked), ("metrics_keys", asked),
                ("metrics_last", asked), ("metrics_runs", asked), ("metrics_skips", asked), ("metrics_leases", asked),
                ("read_supervisor", asked), ("count_unknown", asked), ("commit", None),
            )  # fmt: skip
        self._check_schema(answers)
        return metrics_of(answers)

    def _view_of(self, key: str, periods: Sequence[str]) -> list[tuple[str, Row | None]]:
        asked = {"key": key, "periods": list(periods)}
        return [
            ("schema", None), ("clock", {"now": self._now()}), ("read_job", asked), ("read_leases", asked),
            ("read_runs_of", asked), ("read_requests_of", asked), ("read_steps_of", asked),
        ]  # fmt: skip

    def _sight_of(self, answers: dict[str, list[Row]]) -> Sight:
        found = {"read_runs": answers["read_runs_of"], "read_steps": answers["read_steps_of"]}
        return with_requests(self._sight(answers | found, []), answers["read_requests_of"])


def _like(keys: str | None) -> str | None:
    """A name with * and ? as LIKE has it."""
    if keys is None:
        return None
    literal = keys.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return literal.replace("*", "%").replace("?", "_")
