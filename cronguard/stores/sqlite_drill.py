"""One host's ledger as a drill asks of it. Entered through `stores.open_drilled` only."""

from __future__ import annotations

from collections.abc import Callable

from cronguard.ports import Way
from cronguard.stores.sqlite import open_as
from cronguard.stores.sqlite_supervision import SupervisedSqlite
from cronguard.stores.writing import ERASES


class DrilledSqlite(SupervisedSqlite):
    """A ledger in one file, for who causes failures, and removes their traces."""

    def lacking(self) -> str:
        return ""  # who may write the file may write all of it

    def erase(self, key: str) -> None:
        with self._writing() as connection:
            self._check_schema(connection)
            for name in ERASES:
                self._do(connection, name, {"key": key})
            connection.execute(self._sql["commit"])

    def by_way_of(self, detour: Callable[[Way], Way]) -> str | None:
        return None


def open_drilled_sqlite(path: str, answer_within: float) -> DrilledSqlite:
    """As `open_sqlite`."""
    return open_as(DrilledSqlite, path, answer_within, None, create=True)
