"""--lock advisory in Postgres: a session lock on a connection of its own, which dies with its holder.

Only a session that is really ours keeps it: a pooler gives sessions to others,
and the locks that were taken in them. So both ends of the connection are asked
who they are, and the lock is looked for where it was taken, before it is relied
on, and at every beat.
"""

from __future__ import annotations

import secrets
import select
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg  # noqa: TID253  behind the door of stores.open_store

from cronguard.domain.run import Lease
from cronguard.errors import CronguardError
from cronguard.ports import Beat
from cronguard.stores import rows
from cronguard.stores.postgres_connection import Row, connect
from cronguard.stores.postgres_errors import confirmed, translated
from cronguard.stores.statements import statements

LOOKED_FOR = 3  # times, in a transaction each: a pooler may give another session to any of them
TAKEN_WITHIN = 0.5  # seconds: the server takes a moment to see that the last holder has closed its connection
A_MOMENT = 0.05
SESSION_ENDED = ("57P01", "57P02", "57P03", "57P05", "08")  # shutdown, crash, idle_session_timeout, cut


class PostgresHold:
    """One session lock at most, for as long as its connection lives. To be used by one thread at a time."""

    def __init__(
        self,
        dsn: str,
        name: str,
        application: str,
        answer_within: float,
        now: Callable[[], datetime | None],
        settled: tuple[str, Row],
    ) -> None:
        self._name = name
        self._settled = settled
        self._now = now
        self._sql = statements("postgres")
        self._number: int | None = None
        with translated(name):
            self._connection = connect(dsn, application, answer_within)
        try:
            self._settle()
        except BaseException:
            self._connection.close()
            raise

    def take(self, number: int) -> bool:
        if self._number == number:  # asked again, since the claim's acknowledgement was lost
            return True
        give_up_at = time.monotonic() + TAKEN_WITHIN
        while not self._asked("try_lock", {"lock": number}):
            if time.monotonic() > give_up_at:
                return False
            time.sleep(A_MOMENT)
        self._number = number
        return True

    def is_cut(self) -> bool:
        """Without asking the server: an idle connection has something to say only when it is over."""
        if self._connection.closed:
            return True
        if not select.select([self._connection.fileno()], [], [], 0)[0]:
            return False
        try:
            self._connection.pgconn.consume_input()
        except psycopg.Error:
            return True
        return self._connection.closed

    def beat(self, lease: Lease, lease_for: timedelta, slack: timedelta) -> Beat | None:
        """Renew the lease over the very connection that holds the lock; None when either is gone."""
        asked = rows.lease_row(lease) | {"lease_for": lease_for, "slack": slack, "now": self._now()}
        try:
            found = self._beaten(asked)
        except psycopg.Error as error:
            if self._connection.closed or (error.sqlstate or "08").startswith(SESSION_ENDED):
                return None  # an answer that does not come in time leaves nothing to rely on either
            with translated(self._name):
                raise
        _, _, answers, _, locks = found
        return Beat(**answers[0]) if answers and locks[0]["answer"] else None

    def _beaten(self, asked: Row) -> list[list[Row]]:
        with confirmed(self._connection, self._name):
            return self._exchange(
                ("begin_page", None), self._settled, ("beat", asked), ("commit", None),
                ("has_lock", {"lock": self._number}),
            )  # fmt: skip

    def release(self) -> None:
        self._connection.close()

    # ----------------------------------------------------------------------- whether it can be relied on

    def _settle(self) -> None:
        with translated(self._name):
            self._exchange(("settle_session", None))
            self._refuse_pooler(self._asked("backend", None))
            self._test_itself()

    def _refuse_pooler(self, answered_by: int) -> None:
        """A pooler's own word for who it is may be any number, and tells nobody anything."""
        if self._connection.info.backend_pid != answered_by:
            raise self._refusal(
                "another process answers than the one that the connection was made to: there is a pooler between"
            )

    def _test_itself(self) -> None:
        number = secrets.randbits(62)
        seen = [self._asked("try_lock", {"lock": number})]
        seen += [self._looked_for(number) for _ in range(LOOKED_FOR)]
        seen.append(self._asked("unlock", {"lock": number}))
        if not all(seen):
            raise self._refusal("a session lock is not found again in the session that took it")

    def _looked_for(self, number: int) -> bool:
        """In a transaction of its own, for which a pooler may choose another session."""
        _, found, _ = self._exchange(("begin", None), ("has_lock", {"lock": number}), ("commit", None))
        return bool(found[0]["answer"])

    def _refusal(self, why: str) -> CronguardError:
        return CronguardError(
            f"--lock advisory cannot be relied on at {self._name}: {why}; use --lock claim, "
            "or a DSN that leads to the server itself"
        )

    # ----------------------------------------------------------------------- one exchange with the server

    def _asked(self, name: str, row: Row | None) -> Any:
        with translated(self._name):
            ((answer,),) = self._exchange((name, row))
        return answer["answer"]

    def _exchange(self, *asked: tuple[str, Row | None]) -> list[list[Row]]:
        with self._connection.pipeline():
            cursors = [self._connection.execute(self._sql[name].encode(), row) for name, row in asked]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]
