"""Put together what one command needs: settings, the ledger, the spool, signals, somebody who speaks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cronguard.cli.tell import SayOnStderr, remark, warn
from cronguard.clock import boottime, host_now
from cronguard.errors import LedgerRefused, LedgerUnavailable
from cronguard.ports import DrilledStore, Groundwork, Store, SupervisedStore
from cronguard.process.guardian import become_worker
from cronguard.process.signals import Signals
from cronguard.services.firing import Firing
from cronguard.services.ledger import Ledger
from cronguard.services.results import bury, result_waiting
from cronguard.services.run import Means, Order, run
from cronguard.settings import Settings, gather
from cronguard.settings.order import order_of
from cronguard.settings.parsers import naming
from cronguard.settings.place import dsn_of, local_ledger, spool_folders
from cronguard.stores import open_drilled, open_effects, open_ground, open_store, open_supervised
from cronguard.stores.dsn import Address, local_address, parse_dsn
from cronguard.stores.spool import FileSpool

if TYPE_CHECKING:  # a run has none
    from cronguard.services.effects import Effects

BEATS_OUTLAST = 3  # one try of a beat may take this fraction of a lease, so that another fits in
SHORTEST_ANSWER, LONGEST_ANSWER = 2.0, 15.0  # seconds


AnyStore = TypeVar("AnyStore", bound=Store)


@dataclass(frozen=True, slots=True)
class Opened(Generic[AnyStore]):
    """An open ledger and what goes with it."""

    store: AnyStore
    spool: FileSpool
    ledger: Ledger
    signals: Signals


def run_from(options: dict[str, Any], argv: Sequence[str]) -> int:
    """cronguard run."""
    started_at = boottime()
    settings = gather(options)
    order = order_of(settings, argv, started_at)
    worker = become_worker(buried_by(settings))
    with worker.dying_of_interruptions(), opened(settings, worker.signals) as it, naming(_period_place(settings)):
        tell = SayOnStderr(path=settings.environment.get("PATH", os.defpath))
        with _naming_what_did_not_start(order.firing.key):
            return _use_of(order)(order, Means(it.ledger, it.spool, worker, tell))


def _use_of(order: Order) -> Callable[[Order, Means], int]:
    if not (order.only_pending or order.catch_up):
        return run
    from cronguard.services import backlog  # noqa: PLC0415  most firings are about their own period only

    return backlog.run_pending if order.only_pending else backlog.run_catching_up


def buried_by(settings: Settings) -> Callable[[bytes], None]:
    """For the guardian's short-lived child: tell the ledger of the worker that died."""

    def tell(held: bytes) -> None:
        with opened(settings) as it:
            bury(held, it.spool, it.ledger)

    return tell


def explain_from(options: dict[str, Any], argv: Sequence[str]) -> int:
    """cronguard run --dry-run."""
    from cronguard.cli.explain import explain  # noqa: PLC0415  a run does not need it

    started_at = boottime()
    settings = gather(options)
    order = order_of(settings, argv, started_at)
    with opened(settings, create=False) as it, naming(_period_place(settings)):
        firing = _explain_backlog(order, it.ledger)
        if order.only_pending:
            return 0
        verdict, sight = it.ledger.preview(firing, lambda key, period: result_waiting(it.spool, key, period))
        steps = firing.spec.steps
        what = f"its steps {', '.join(steps.names)}" if steps else shlex.join(order.argv)
        explain(verdict, sight, settings, what, it.store.name)
    return 0


def _explain_backlog(order: Order, ledger: Ledger) -> Firing:
    """What else would be run, before its own period or in its place."""
    if not (order.only_pending or order.catch_up):
        return order.firing
    from cronguard.cli.explain import explain_backlog  # noqa: PLC0415
    from cronguard.services.backlog import caught_up_by, pending  # noqa: PLC0415

    if order.only_pending:
        explain_backlog(order.firing.key, pending(order.firing, ledger))
        return order.firing
    firing, behind = caught_up_by(order, ledger)
    explain_backlog(order.firing.key, behind[: order.catch_up])
    return firing


@contextmanager
def _naming_what_did_not_start(key: str) -> Iterator[None]:
    """In a log that many jobs share: which one is it, and that it has not begun."""
    try:
        yield
    except (LedgerUnavailable, LedgerRefused) as error:
        raise type(error)(f"{key}: nothing was started: {error}") from None


def opened(
    settings: Settings, signals: Signals | None = None, *, create: bool = True
) -> AbstractContextManager[Opened[Store]]:
    """The configured ledger, closed again afterwards; without `create` a local one that is not there is not made."""
    key, asked = settings["key"] or "", _asked_of_store(settings)
    return _opened_by(lambda where: open_store(where, key, create=create, **asked), settings, signals)


def opened_for_supervision(settings: Settings, *, create: bool) -> AbstractContextManager[Opened[SupervisedStore]]:
    asked = _asked_of_store(settings)
    return _opened_by(lambda where: open_supervised(where, create=create, **asked), settings, None)


def opened_for_drill(settings: Settings, signals: Signals) -> AbstractContextManager[Opened[DrilledStore]]:
    within = _answer_within(settings)
    return _opened_by(lambda where: open_drilled(where, answer_within=within), settings, signals)


@contextmanager
def _opened_by(
    open_it: Callable[[Address], AnyStore], settings: Settings, signals: Signals | None
) -> Iterator[Opened[AnyStore]]:
    address, origin = _located(settings)
    with naming(origin):
        store = open_it(address)
    signals = signals or Signals()
    ledger = Ledger(store, settings["db_wait"].total_seconds(), signals.pause, on_failure=_say_that_we_wait(settings))
    try:
        yield Opened(store, FileSpool(spool_folders(settings), address.name), ledger, signals)
    finally:
        store.close()


@contextmanager
def opened_effects(settings: Settings, signals: Signals | None = None, *, create: bool = True) -> Iterator[Effects]:
    """The effects of the configured ledger; without `create` a local one that is not there is not made."""
    from cronguard.services.effects import Effects  # noqa: PLC0415  a run has none

    address, origin = _located(settings)
    with naming(origin):
        store = open_effects(address, create=create, **_asked_of_store(settings))
    pause, db_wait = (signals or Signals()).pause, settings["db_wait"].total_seconds()
    try:
        yield Effects(store, db_wait, pause, on_failure=_say_that_we_wait(settings))
    finally:
        store.close()


def address_of(settings: Settings) -> Address:
    return _located(settings)[0]


def ground_of(settings: Settings) -> tuple[Groundwork, str, str]:
    """The ledger, to be looked at as it is; its name; and where its address was set."""
    address, origin = _located(settings)
    with naming(origin):
        ground = open_ground(address, answer_within=_answer_within(settings), host_clock=host_now)
    return ground, address.name, origin


def _located(settings: Settings) -> tuple[Address, str]:
    """Where the ledger is, and where that was set; says so when everybody on this host can read its password."""
    dsn, origin = dsn_of(settings)
    if dsn is None:
        return local_address(local_ledger(settings)), origin
    with naming(origin):
        address = parse_dsn(dsn)
    if address.has_password and origin == "--dsn":
        warn("everybody on this host can read the password in --dsn (ps); use CRONGUARD_DSN or CRONGUARD_DSN_FILE")
    return address, origin


def _period_place(settings: Settings) -> str:
    """Once all settings are read, only a period can still make no sense: the key's calendar had to be known first."""
    asked = (settings.setting(name) for name in ("period", "scheduled_at", "job_name"))
    return next((setting.place for setting in asked if setting.is_set), "")


def _asked_of_store(settings: Settings) -> dict[str, Any]:
    return {"answer_within": _answer_within(settings), "durable": settings["durable"]}


def _answer_within(settings: Settings) -> float:
    """How long one question may go unanswered before it is given up and asked again, in seconds."""
    longest: float = min(settings["db_wait"].total_seconds(), settings["lease"].total_seconds() / BEATS_OUTLAST)
    return min(max(longest, SHORTEST_ANSWER), LONGEST_ANSWER)


def _say_that_we_wait(settings: Settings) -> Callable[[LedgerUnavailable], None]:
    return lambda failure: remark(f"{failure}; trying again for {settings.setting('db_wait').text}")
