"""What drill does once it is called: it says how long it will take, holds it, and shows what it has shown."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from cronguard.cli.opening import opened_for_drill
from cronguard.cli.options import ledger_options
from cronguard.cli.tell import announce, remark, warn
from cronguard.clock import boottime
from cronguard.domain.drill import Order, Scenario, Seen, is_kept
from cronguard.domain.text import format_duration
from cronguard.errors import SUCCESS
from cronguard.process.replicas import Stage
from cronguard.process.signals import Signals
from cronguard.render.drill import COLUMNS, Lanes, document_of, rows_of
from cronguard.render.printing import print_json, print_table, terminal_width
from cronguard.render.screen import Screen
from cronguard.services import drill as service
from cronguard.services.drill_round import Means
from cronguard.services.ledger import Ledger
from cronguard.settings import Settings, gather
from cronguard.settings.drill_order import drill_order_of, new_key, surroundings
from cronguard.stores.spool import FileSpool

BROKEN = 1
ERASED_WITHIN = 15.0  # seconds for which the ledger is asked to forget, also when a signal has come
DRAWN_EVERY = 0.2  # seconds


def drill(options: dict[str, Any]) -> int:
    settings = gather(ledger_options(options))
    asked = (options["replicas"], options["rounds"], options["only"] or (), options["within"])
    order = drill_order_of(settings, *asked)
    tell = _Live(order) if _can_move(settings) and not options["json"] else _Silent(order)
    with _means(settings, tell) as means:
        shown = service.drill(order, means)
        tell.over()
    if shown.tallies:
        _show(order, means.store.name, shown, as_json=options["json"])
    if shown.cut_short_by:
        raise shown.cut_short_by
    return SUCCESS if is_kept(shown.tallies) else BROKEN


def _show(order: Order, ledger: str, shown: service.Shown, *, as_json: bool) -> None:
    if as_json:
        why = str(shown.cut_short_by) if shown.cut_short_by else None
        print_json(document_of(order, ledger, shown.tallies, cut_short_by=why))
    else:
        print_table(COLUMNS, rows_of(shown.tallies, order.rounds))


def clean_up(options: dict[str, Any]) -> int:
    with opened_for_drill(gather(ledger_options(options)), Signals()) as it:
        left = service.clean(it.store, it.ledger, new_key())
    remark(f"keys of drills that are gone: {len(left)}")
    return SUCCESS


@contextmanager
def _means(settings: Settings, tell: _Silent) -> Iterator[Means]:
    """All of it on a stage that is empty again afterwards. A signal is heard where something is waited for."""
    signals, stage = Signals(), Stage()
    try:
        signals.install()
        with opened_for_drill(settings, signals) as it:
            patient = Ledger(it.store, ERASED_WITHIN, time.sleep)
            spool = FileSpool([stage.folder / "spool"], it.store.name)
            around = surroundings(settings, stage.folder)
            yield Means(it.store, it.ledger, patient, spool, stage, signals.pause, around, tell)
    finally:
        stage.close()


def _can_move(settings: Settings) -> bool:
    return terminal_width() > 0 and settings.environment.get("TERM", "dumb") != "dumb"


# --------------------------------------------------------------------------- while it is on


class _Silent:
    """Off a terminal there is only the table in the end."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def may_begin(self, ledger: str, left: Sequence[str]) -> None:
        if left:
            warn(f"keys of another drill are there ({left[0]}); unless it is under way, type: cronguard drill --clean")
        order = self._order
        announce(
            f"drill: {order.amount} with {order.replicas} replicas on the ledger at {ledger}, under the key "
            f"{order.key}: about {format_duration(order.takes)}"
        )

    def begins(self, scenario: Scenario, number: int, *, guarded: bool) -> None: ...

    def looks(self, lanes: Sequence[Seen]) -> None: ...

    def over(self) -> None: ...

    def left_behind(self, key: str, reason: Exception) -> None:
        warn(f"{reason}; the key {key} is left there; remove it with: cronguard drill --clean")


class _Live(_Silent):
    """At a terminal: one lane a replica, in its place."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._screen = Screen(can_move=True)
        self._lanes = Lanes("")
        self._began_at = self._drawn_at = boottime()

    def begins(self, scenario: Scenario, number: int, *, guarded: bool) -> None:
        how = "with guard" if guarded else "without guard"
        self._lanes = Lanes(f"{how}, round {number} of {self._order.rounds}, {scenario.name}: {scenario.meaning}")

    def looks(self, lanes: Sequence[Seen]) -> None:
        now = boottime()
        if now - self._drawn_at >= DRAWN_EVERY:
            self._drawn_at = now
            self._lanes.add(lanes)
            passed = format_duration(timedelta(seconds=int(now - self._began_at)))
            foot = f"{passed} of about {format_duration(self._order.takes)}"
            self._screen.show(self._lanes.on_terminal(terminal_width(), foot))

    def over(self) -> None:
        self._screen.show("")
