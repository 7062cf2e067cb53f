"""The fleet's ledger, for whoever acts on the outside. Entered through `stores.open_effects` only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from cronguard.domain.effect import Effect, EffectState, Listing
from cronguard.domain.progress import Inside
from cronguard.stores.effect_rows import effect_columns, effect_of, effect_row, inside_row
from cronguard.stores.postgres import PostgresStore
from cronguard.stores.postgres_connection import Row


class PostgresEffectPage:
    """An open transaction. No two of them wait for each other, but where both claim one subject."""

    def __init__(self, ask: Callable[[str, Row], list[Row]], now: datetime, *, is_live: bool) -> None:
        self._ask = ask
        self.now = now
        self.is_live = is_live
        self.has_written = False

    def add(self, claimed: Effect, subjects: Sequence[str]) -> dict[str, str]:
        found = self._ask("add_effects", effect_row(claimed) | {"subjects": list(subjects)})
        self.has_written = self.has_written or bool(found)
        return {row["subject"]: row["effect_token"] for row in found}

    def claimable(self, claimed: Effect, subjects: Sequence[str]) -> Sequence[Effect]:
        return self._all("claimable_effects", effect_row(claimed) | {"subjects": list(subjects)})

    def find(self, kind: str, period: str, subjects: Sequence[str]) -> Sequence[Effect]:
        return self._all("find_effects", {"kind": kind, "period": period, "subjects": list(subjects)})

    def overdue(self, limit: int) -> Sequence[Effect]:
        return self._all("overdue_effects", {"limit": limit, "now": self.now})

    def unreported(self, limit: int) -> Sequence[Effect]:
        return self._all("unreported_effects", {"limit": limit})

    def change(self, effects: Sequence[Effect]) -> None:
        if effects:
            self.has_written = True
            self._ask("change_effects", effect_columns(effects))

    def _all(self, name: str, asked: Row) -> list[Effect]:
        return [effect_of(row) for row in self._ask(name, asked)]


class PostgresEffects(PostgresStore):
    """A ledger in the schema `cronguard` of one database, and the effects in it."""

    @contextmanager
    def effects(self, inside: Inside | None = None) -> Iterator[PostgresEffectPage]:
        """The run's row is held, and neither its job's nor its lease's: beats go on, and only a recovery waits."""
        asked: list[tuple[str, Row | None]] = [*self._begin_page(), ("schema", None)]
        asked += [("hold_run", inside_row(inside))] if inside else []
        with self._connection() as connection:
            answers = self._exchange(connection, *asked, ("clock", {"now": self._now()}))
            self._check_schema(answers)
            page = PostgresEffectPage(
                lambda name, row: self._exchange(connection, (name, row))[name],
                answers["clock"][0]["now"],
                is_live=inside is None or bool(answers["hold_run"]),
            )
            try:
                yield page
            except BaseException:
                self._let_go(connection)
                raise
            self._close(connection, page)

    def _close(self, connection: Any, page: PostgresEffectPage) -> None:
        if page.has_written or self._durable or self._in_doubt:
            self._commit(connection)
        else:
            self._let_go(connection)

    def list_effects(self, kind: str | None, period: str | None, state: EffectState | None, limit: int) -> Listing:
        is_unknown = state is EffectState.UNKNOWN
        name, counting = ("unknown_effects", "count_unknown") if is_unknown else ("list_effects", "count_effects")
        with self._connection() as connection:
            answers = self._exchange(connection, ("schema", None), ("clock", {"now": self._now()}))
            self._check_schema(answers)
            now = answers["clock"][0]["now"]
            asked = {"kind": kind, "period": period, "state": state and str(state), "limit": limit, "now": now}
            found = tuple(map(effect_of, self._exchange(connection, (name, asked))[name]))
            if len(found) < limit:
                return Listing(now, found, len(found))
            return Listing(now, found, self._exchange(connection, (counting, asked))[counting][0]["count"])

    def has_kind(self, kind: str) -> bool:
        with self._connection() as connection:
            answers = self._exchange(connection, ("schema", None), ("kind_there", {"kind": kind}))
        self._check_schema(answers)
        return bool(answers["kind_there"])

    def abandoned_effects(self, limit: int) -> Sequence[Effect]:
        asked = {"limit": limit, "now": self._now()}
        with self._connection() as connection:
            answers = self._exchange(connection, ("schema", None), ("abandoned_effects", asked))
        self._check_schema(answers)
        return [effect_of(row) for row in answers["abandoned_effects"]]
