"""The steps of runs, in the fleet's ledger: a part of the store in postgres.py."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import psycopg  # noqa: TID253  behind the door of stores.open_store

from cronguard.domain.step import Step
from cronguard.stores import rows
from cronguard.stores.postgres_connection import Row


class Asking(Protocol):
    """What the store itself lends to this part."""

    def _connection(self) -> AbstractContextManager[psycopg.Connection[Row]]: ...
    def _exchange(
        self, connection: psycopg.Connection[Row], *asked: tuple[str, Row | None]
    ) -> dict[str, list[Row]]: ...
    def _check_schema(self, answers: dict[str, list[Row]]) -> None: ...


class PostgresSteps:
    """The named parts of runs."""

    def steps_of(self: Asking, key: str, period: str) -> Sequence[Step]:
        of_run = {"key": key, "period": period}
        with self._connection() as connection:
            answers = self._exchange(connection, ("schema", None), ("steps_of_run", of_run))
        self._check_schema(answers)
        return [rows.step_of(row) for row in answers["steps_of_run"]]
