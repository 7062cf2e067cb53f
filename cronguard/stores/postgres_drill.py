"""The fleet's ledger as a drill asks of it. Entered through `stores.open_drilled` only."""

from __future__ import annotations

from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo  # noqa: TID253  behind the door of stores.open_drilled

from cronguard.ports import Way
from cronguard.stores.postgres_supervision import SupervisedPostgres
from cronguard.stores.writing import ERASES


class DrilledPostgres(SupervisedPostgres):
    """A ledger in the schema `cronguard` of one database, for who causes failures, and removes their traces."""

    def lacking(self) -> str:
        with self._connection() as connection:
            answers = self._exchange(connection, ("schema", None), ("lacking_right", None))
        self._check_schema(answers)
        return str(answers["lacking_right"][0]["statement"] or "")

    def erase(self, key: str) -> None:
        asked = {"key": key}
        with self._connection() as connection:
            self._exchange(connection, *self._begin_page(), ("lock_job", asked), ("lock_leases", asked))
            self._commit(connection, [(name, asked) for name in ERASES])

    def way(self) -> Way:
        with self._connection() as connection:
            seen = connection.info
            return Way(seen.host if seen.host.startswith("/") else seen.hostaddr, seen.port)

    def by_way_of(self, detour: Way) -> str:
        """The host's name stays, where it has one: its certificate and the password file go by it."""
        with self._connection() as connection:
            host = connection.info.host
        changed = {"host": detour.host} if detour.is_local else {"host": host, "hostaddr": detour.host}
        given: dict[str, Any] = {name: value for name, value in conninfo_to_dict(self._dsn).items() if value}
        given.pop("hostaddr", None)
        return make_conninfo("", **given | changed | {"port": detour.port})
