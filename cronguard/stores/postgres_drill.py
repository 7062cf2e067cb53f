"""The fleet's ledger as a drill asks of it. Entered through `stores.open_drilled` only."""

from __future__ import annotations

from collections.abc import Callable
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
        """A claim may be on its way whose job nobody can see yet: only who would add it too waits for its end."""
        asked = {"key": key}
        with self._connection() as connection:
            self._exchange(
                connection, *self._begin_page(), ("add_job", asked), ("lock_job", asked), ("lock_leases", asked)
            )
            self._commit(connection, [(name, asked) for name in ERASES])

    def by_way_of(self, detour: Callable[[Way], Way]) -> str:
        """The host's name stays, where it has one: its certificate goes by it. A password file goes by the port too."""
        with self._connection() as connection:
            host, address, port = connection.info.host, connection.info.hostaddr, connection.info.port
            secret = {"password": password} if (password := connection.info.password) else {}
        way = detour(Way(host if host.startswith("/") else address, port))
        changed = {"host": way.host} if way.is_local else {"host": host, "hostaddr": way.host}
        given: dict[str, Any] = {name: value for name, value in conninfo_to_dict(self._dsn).items() if value}
        given.pop("hostaddr", None)
        return make_conninfo("", **given | changed | secret | {"port": way.port})
