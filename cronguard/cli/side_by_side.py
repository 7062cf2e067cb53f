"""backfill --jobs: as many lanes, each a guardian and a worker; here they are fed, heard and told to stop."""

from __future__ import annotations

from cronguard.cli.backfilling import SayHowFar, working
from cronguard.cli.opening import opened
from cronguard.domain.backfill import Planned, Range
from cronguard.errors import SUCCESS
from cronguard.process.lanes import Lanes, answered_by_a_child
from cronguard.process.signals import Signals
from cronguard.services.backfill import Tally, fired_of, of, planned, record_of, run_each
from cronguard.services.results import deliver_what_can_be
from cronguard.services.run import Fired, Order
from cronguard.settings import Settings


def backfill_side_by_side(
    settings: Settings, order: Order, asked: Range, jobs: int, keep_going: bool, tell: SayHowFar
) -> int:
    plans, failed = answered_by_a_child(lambda: _planned(settings, order, asked))
    if plans is None:
        return failed
    to_run, tally = of(plans)
    lanes = Lanes(jobs, len(to_run))
    if lanes.is_lane:
        return _in_a_lane(settings, order, asked, to_run, lanes, tell)
    return _heard(order.firing.key, to_run, tally, keep_going, lanes, tell)


def _planned(settings: Settings, order: Order, asked: Range) -> list[Planned]:
    with opened(settings) as it:
        deliver_what_can_be(it.spool, it.ledger)
        return planned(order.firing, asked, it.ledger)


def _in_a_lane(
    settings: Settings, order: Order, asked: Range, to_run: list[Planned], lanes: Lanes, tell: SayHowFar
) -> int:
    with working(settings) as means:
        for number, fired in run_each(order, asked, to_run, lanes.numbers(), means, tell):
            lanes.report(record_of(number, fired))
    return SUCCESS


def _heard(key: str, to_run: list[Planned], tally: Tally, keep_going: bool, lanes: Lanes, tell: SayHowFar) -> int:
    signals = Signals()
    signals.install()
    for record in lanes.records(signals):
        number, fired = fired_of(record)
        tally.count(to_run[number].label, fired)
        if tally.is_over(keep_going):
            lanes.start_no_more()
    for code in lanes.codes():
        if code:  # it could not even tell what of
            tally.failed.append(("a lane", Fired(code if code > 0 else 128 - code)))
    tell.ends(key, tally)
    return tally.verdict.exit_code
