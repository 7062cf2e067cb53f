"""One host's ledger, for whoever acts on the outside. Entered through `stores.open_effects` only."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from uuid import uuid4

from cronguard.domain.effect import Effect, EffectState, Listing
from cronguard.domain.progress import Inside
from cronguard.stores.effect_rows import effect_of, effect_row, inside_row
from cronguard.stores.sqlite import Row, SqliteStore, open_as


class SqliteEffectPage:
    """The ledger, with its write lock held; without one (None), nothing is in it."""

    def __init__(self, do: Callable[[str, Row], sqlite3.Cursor] | None, now: datetime, *, is_live: bool) -> None:
        self._there = do is not None
        self._do = do or _nothing
        self.now = now
        self.is_live = is_live

    def add(self, claimed: Effect, subjects: Sequence[str]) -> dict[str, str]:
        row = effect_row(claimed)
        new = {subject: str(uuid4()) for subject in subjects}
        added = (self._do("add_effects", row | {"subject": who, "effect_token": token}) for who, token in new.items())
        return {subject: new[subject] for subject, cursor in zip(new, added, strict=True) if cursor.rowcount > 0}

    def claimable(self, claimed: Effect, subjects: Sequence[str]) -> Sequence[Effect]:
        return self._each("claimable_effects", effect_row(claimed), subjects)

    def find(self, kind: str, period: str, subjects: Sequence[str]) -> Sequence[Effect]:
        return self._each("find_effects", {"kind": kind, "period": period}, subjects)

    def overdue(self, limit: int) -> Sequence[Effect]:
        return self._all("overdue_effects", {"limit": limit, "now": self.now})

    def unreported(self, limit: int) -> Sequence[Effect]:
        return self._all("unreported_effects", {"limit": limit})

    def change(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self._do("change_effects", effect_row(effect))

    def _each(self, name: str, asked: Row, subjects: Sequence[str]) -> list[Effect]:
        return [effect for subject in subjects for effect in self._all(name, asked | {"subject": subject})]

    def _all(self, name: str, asked: Row) -> list[Effect]:
        return [effect_of(row) for row in self._do(name, asked).fetchall()] if self._there else []


class SqliteEffects(SqliteStore):
    """A ledger in one file, and the effects in it."""

    @contextmanager
    def effects(self, inside: Inside | None = None) -> Iterator[SqliteEffectPage]:
        """A ledger that is not there has no live run in it and no effect, and is not made for the question."""
        if not self.exists():
            yield SqliteEffectPage(None, self._clock(), is_live=False)
            return
        with self._writing() as connection:
            self._check_schema(connection)
            is_live = inside is None or self._one(connection, "hold_run", inside_row(inside)) is not None
            yield SqliteEffectPage(lambda name, row: self._do(connection, name, row), self._clock(), is_live=is_live)
            connection.execute(self._sql["commit"])

    def list_effects(self, kind: str | None, period: str | None, state: EffectState | None, limit: int) -> Listing:
        now = self._clock()
        if not self.exists():
            return Listing(now)
        asked = {"kind": kind, "period": period, "state": state and str(state), "limit": limit, "now": now}
        is_unknown = state is EffectState.UNKNOWN
        name, counting = ("unknown_effects", "count_unknown") if is_unknown else ("list_effects", "count_effects")
        with self._connection() as connection:
            self._check_schema(connection)
            found = tuple(map(effect_of, self._all(connection, name, asked)))
            if len(found) < limit:
                return Listing(now, found, len(found))
            return Listing(now, found, self._all(connection, counting, asked)[0]["count"])

    def has_kind(self, kind: str) -> bool:
        if not self.exists():
            return False
        with self._connection() as connection:
            self._check_schema(connection)
            return self._one(connection, "kind_there", {"kind": kind}) is not None

    def abandoned_effects(self, limit: int) -> Sequence[Effect]:
        if not self.exists():
            return []
        with self._connection() as connection:
            self._check_schema(connection)
            asked = {"limit": limit, "now": self._clock()}
            return [effect_of(row) for row in self._all(connection, "abandoned_effects", asked)]


def open_sqlite_effects(
    path: str, answer_within: float, clock: Callable[[], datetime] | None = None, *, create: bool = True
) -> SqliteEffects:
    return open_as(SqliteEffects, path, answer_within, clock, create=create)


def _nothing(name: str, _asked: Row) -> sqlite3.Cursor:
    raise AssertionError(f"{name} is asked of a ledger that is not there")
