"""run --only-pending and --catch-up: older periods of the key, each a run of its own, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta

from cronguard.clock import boottime
from cronguard.domain import backlog
from cronguard.domain.period import Chosen
from cronguard.domain.run import Exclusive, SkipReason
from cronguard.errors import SIGNALLED
from cronguard.services.firing import Firing
from cronguard.services.ledger import Ledger
from cronguard.services.results import deliver
from cronguard.services.run import Fired, Means, Order, ended_with, fire


def run_pending(order: Order, means: Means) -> int:
    """What is pending and nothing else; where nothing is, one question to the ledger and no more."""
    deliver(means.spool, means.ledger, means.tell.undelivered)
    fired = list(one_after_the_other(order, pending(order.firing, means.ledger), means))
    return ended_with(_told(fired) or Fired(0 if fired else order.skip_exit), means)


def run_catching_up(order: Order, means: Means) -> int:
    """Older periods first, then this firing's own, as decided before; who is told to stop starts no more of them."""
    deliver(means.spool, means.ledger, means.tell.undelivered)
    firing, behind = caught_up_by(order, means.ledger)
    fired = list(_at_most(order.catch_up, one_after_the_other(order, behind, means)))
    before = _told(fired)
    if before and before.told_to_stop:
        return ended_with(before, means)
    own = fire(replace(order, firing=firing), means)
    return ended_with(before if before and _is_no_failure(own, order) else own, means)


def pending(firing: Firing, ledger: Ledger) -> list[Chosen]:
    return backlog.waiting(ledger.backlog(firing.key))


def caught_up_by(order: Order, ledger: Ledger) -> tuple[Firing, list[Chosen]]:
    """This firing, its own period decided, and what it is to catch up with before, oldest first."""
    firing, within = order.firing, order.catch_up_within
    sight = ledger.backlog(firing.key, missed=True, within=within)
    elapsed = timedelta(seconds=boottime() - firing.started_at)
    stored = sight.job if sight.job and sight.job.cadence else None
    calendar, own = firing.choose(stored, sight.now - elapsed)
    behind = backlog.older(sight, own)
    due = backlog.expected(calendar, own, sight.now - within)
    if due:
        behind += backlog.never_recorded(due, ledger.recorded(firing.key, *backlog.labels_between(due)))
    return firing.decided(own), backlog.in_order(behind)


def one_after_the_other(order: Order, periods: Iterable[Chosen], means: Means) -> Iterator[Fired]:
    """Each by a lease and with a result of its own, until somebody stops us or nothing of the key can be had."""
    for chosen in periods:
        if signum := means.worker.signals.told_to_stop():
            yield Fired(SIGNALLED + signum, signum, told_to_stop=True)
            return
        fired = fire(replace(order, firing=order.firing.of(chosen), skip_exit=0, is_one_of_many=True), means)
        yield fired
        if fired.told_to_stop or _shuts_all(fired, order):
            return


def _at_most(most: int, fired: Iterator[Fired]) -> Iterator[Fired]:
    """As many runs; what was refused does not count."""
    for one in fired:
        yield one
        most -= one.skipped is None
        if most <= 0:
            return


def _shuts_all(fired: Fired, order: Order) -> bool:
    """Refused for the whole key, not for this one period of it."""
    held = fired.skipped is SkipReason.HELD and order.firing.spec.exclusive is Exclusive.KEY
    return held or fired.skipped is SkipReason.PAUSED


def _told(fired: list[Fired]) -> Fired | None:
    """What of these the exit code is about: that we were told to stop, else the first that did not end well."""
    stopped = next((one for one in fired if one.told_to_stop), None)
    return stopped or next((one for one in fired if one.exit_code), None)


def _is_no_failure(own: Fired, order: Order) -> bool:
    return not own.exit_code or (own.skipped is not None and own.exit_code == order.skip_exit)
