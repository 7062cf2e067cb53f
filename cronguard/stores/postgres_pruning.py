"""How the fleet's ledger forgets: a part of the store in postgres.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import psycopg  # noqa: TID253  behind the door of stores.open_store

from cronguard.stores.postgres_connection import Row
from cronguard.stores.postgres_overview import Asking

if TYPE_CHECKING:
    from cronguard.domain.pruning import Aged, Keep, Pruning


class Writing(Asking, Protocol):
    """What this part needs besides."""

    def _begin_page(self) -> list[tuple[str, dict[str, Any] | None]]: ...
    def _commit(self, connection: psycopg.Connection[Row], writes: Iterable[tuple[str, dict[str, Any]]]) -> None: ...
    def _let_go(self, connection: psycopg.Connection[Row]) -> None: ...


class PostgresPruningPage:
    """One key, locked in an open transaction; what goes is taken away when the page closes."""

    def __init__(self, aged: Aged) -> None:
        self.aged = aged
        self.pruning: Pruning | None = None

    def write(self, pruning: Pruning) -> None:
        self.pruning = pruning


class PostgresPruning:
    """The clock is asked first: as a parameter it bounds the walk of an index, as a function it could not."""

    def count_aged(self: Asking, key: str, keep: Keep) -> int:
        with self._connection() as connection:
            answers = self._exchange(connection, ("schema", None), ("clock", {"now": self._now()}))
            self._check_schema(answers)
            asked = {"key": key, "before": answers["clock"][0]["now"] - keep.for_, "last": keep.last}
            return int(self._exchange(connection, ("count_aged", asked))["count_aged"][0]["count"])

    @contextmanager
    def pruning_page(self: Writing, key: str, keep: Keep, at_most: int) -> Iterator[PostgresPruningPage]:
        from cronguard.stores import overview_rows  # noqa: PLC0415  a run needs none of this

        with self._connection() as connection:
            locked = self._exchange(
                connection, *self._begin_page(), ("schema", None),
                ("lock_job", {"key": key}), ("clock", {"now": self._now()}),
            )  # fmt: skip
            self._check_schema(locked)
            now = locked["clock"][0]["now"]
            asked = {"key": key, "before": now - keep.for_, "last": keep.last, "limit": at_most}
            found = self._exchange(connection, ("aged_runs", asked))["aged_runs"]
            page = PostgresPruningPage(overview_rows.aged_of(key, now, locked["lock_job"], found))
            try:
                yield page
            except BaseException:
                self._let_go(connection)
                raise
            if page.pruning:
                self._commit(connection, overview_rows.prunings_of(page.pruning))
            else:
                self._let_go(connection)

    def prune_skips(
        self: Writing, keep: Keep, after: int, at_most: int, *, dry_run: bool = False
    ) -> tuple[int, int | None]:
        from cronguard.stores import overview_rows  # noqa: PLC0415  a run needs none of this

        with self._connection() as connection:
            asked = {"after": after, "limit": at_most}
            answers = self._exchange(
                connection, *self._begin_page(), ("schema", None),
                ("clock", {"now": self._now()}), ("skips_after", asked),
            )  # fmt: skip
            self._check_schema(answers)
            going, go_on = overview_rows.aged_skips(answers["skips_after"], answers["clock"][0]["now"], keep, at_most)
            if going and not dry_run:
                self._commit(connection, [("drop_skip", {"id": number}) for number in going])
            else:
                self._let_go(connection)
        return len(going), go_on
