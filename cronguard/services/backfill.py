"""cronguard backfill: each period of a range that is not done yet, in order, as a run of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from cronguard.domain.backfill import Planned, Range, periods_of, plan
from cronguard.domain.backlog import labels_between
from cronguard.domain.calendar import changes
from cronguard.domain.run import SkipReason
from cronguard.errors import CRONGUARD_FAILED, SIGNALLED, SUCCESS, BadInput
from cronguard.services.firing import Firing
from cronguard.services.ledger import Ledger
from cronguard.services.results import deliver
from cronguard.services.run import Fired, Means, Order, ended_with, fire


@dataclass(slots=True)
class Tally:
    """How far a backfill has come."""

    of: int
    passed_over: int
    ran: int = 0
    failed: list[tuple[str, Fired]] = field(default_factory=list)
    told_to_stop: bool = False

    @property
    def left(self) -> int:
        return self.of - self.ran - len(self.failed)

    @property
    def verdict(self) -> Fired:
        """What the exit code is about: the first that did not end well."""
        return self.failed[0][1] if self.failed else Fired(SUCCESS)

    def is_over(self, keep_going: bool) -> bool:
        return self.told_to_stop or bool(self.failed and not keep_going)

    def count(self, label: str, fired: Fired) -> None:
        self.told_to_stop = self.told_to_stop or fired.told_to_stop
        if fired.skipped is SkipReason.ALREADY_SUCCEEDED:  # by somebody else, since we looked
            self.passed_over, self.of = self.passed_over + 1, self.of - 1
        elif fired.exit_code:
            self.failed.append((label, fired))
        else:
            self.ran += 1


class BackfillTeller(Protocol):
    """Whoever tells the person at the terminal how far it is."""

    def begins(self, planned: Planned, number: int, of: int) -> None: ...
    def ends(self, key: str, tally: Tally) -> None: ...


def backfill(order: Order, asked: Range, keep_going: bool, means: Means, tell: BackfillTeller) -> int:
    """Done periods are passed over, so that the same words again go on where it ended."""
    deliver(means.spool, means.ledger, means.tell.undelivered)
    plans = planned(order.firing, asked, means.ledger)
    to_run, tally = of(plans)
    for number, fired in run_each(order, asked, to_run, range(len(to_run)), means, tell):
        tally.count(to_run[number].label, fired)
        if tally.is_over(keep_going):
            break
    tell.ends(order.firing.key, tally)
    return ended_with(tally.verdict, means)


def of(plans: list[Planned]) -> tuple[list[Planned], Tally]:
    to_run = [one for one in plans if one.is_run]
    return to_run, Tally(of=len(to_run), passed_over=len(plans) - len(to_run))


def planned(firing: Firing, asked: Range, ledger: Ledger) -> list[Planned]:
    """What would be done about each period of the range, by the key's own calendar."""
    sight = ledger.backlog(firing.key)
    calendar = firing.calendar_by(sight.job)
    if changed := changes(sight.job, calendar):
        raise BadInput(
            f"a backfill goes by the calendar that the key has, and this would change its {', its '.join(changed)}; "
            "leave that out, or run the job once to change it"
        )
    periods = periods_of(asked, calendar, sight.now)
    return plan(periods, asked, ledger.recorded(firing.key, *labels_between(periods))) if periods else []


def run_each(
    order: Order, asked: Range, to_run: list[Planned], numbers: Iterable[int], means: Means, tell: BackfillTeller
) -> Iterator[tuple[int, Fired]]:
    """One after the other by this worker, each when the key is free: somebody else's run of it is waited for."""
    for number in numbers:
        if signum := means.worker.signals.told_to_stop():
            yield number, Fired(SIGNALLED + signum, signum, told_to_stop=True)
            return
        tell.begins(to_run[number], number + 1, len(to_run))
        firing = _firing_of(order.firing, to_run[number], asked)
        fired = fire(replace(order, firing=firing, skip_exit=CRONGUARD_FAILED, is_one_of_many=True), means)
        yield number, fired
        if fired.told_to_stop:
            return


def _firing_of(firing: Firing, one: Planned, asked: Range) -> Firing:
    spec = replace(firing.spec, rerun=one.is_rerun, force=one.is_rerun and asked.force)
    return replace(firing.of(one.chosen), spec=spec, waits=True, is_called=True)


RAN, TOLD_TO_STOP, *_ = range(2 + len(SkipReason))
REASONS = list(SkipReason)


def record_of(number: int, fired: Fired) -> tuple[int, int, int, int]:
    """As four numbers, for who has only a pipe to hear it by."""
    how = TOLD_TO_STOP if fired.told_to_stop else RAN
    if fired.skipped:
        how = REASONS.index(fired.skipped) + 2
    return number, fired.exit_code, fired.signum, how


def fired_of(record: tuple[int, int, int, int]) -> tuple[int, Fired]:
    number, exit_code, signum, how = record
    skipped = REASONS[how - 2] if how >= 2 else None
    return number, Fired(exit_code, signum, skipped, told_to_stop=how == TOLD_TO_STOP)
