"""The steps of runs, in one host's ledger: a part of the store in sqlite.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from cronguard.domain.step import Step
from cronguard.stores import rows

Row = dict[str, Any]


class Asking(Protocol):
    """What the store itself lends to this part."""

    def exists(self) -> bool: ...
    def _connection(self) -> AbstractContextManager[sqlite3.Connection]: ...
    def _check_schema(self, connection: sqlite3.Connection) -> None: ...
    def _all(self, connection: sqlite3.Connection, name: str, row: Row) -> list[Row]: ...


class SqliteSteps:
    """The named parts of runs."""

    def steps_of(self: Asking, key: str, period: str) -> Sequence[Step]:
        if not self.exists():
            return []
        with self._connection() as connection:
            self._check_schema(connection)
            return [rows.step_of(row) for row in self._all(connection, "steps_of_run", {"key": key, "period": period})]
