"""What waits of a key: the periods that nobody is running although somebody should, oldest first.

Whatever the ledger has a row of is run as that row says: its label, its edges
and its zone were decided when it was first fired, and are never worked out again.
"""

from __future__ import annotations

from datetime import datetime
from itertools import islice

from cronguard.domain.period import Calendar, Chosen, Period, PeriodSource, period_at
from cronguard.domain.run import Run, Sight, State
from cronguard.errors import BadInput

MOST_PERIODS = 10_000  # in one range: more is a slip of the cadence rather than a wish


def waiting(sight: Sight) -> list[Chosen]:
    """What only somebody to claim it is missing for: pending runs, and those whose holder is gone."""
    return [as_recorded(run) for run in sight.runs if run.state is State.PENDING or _is_stale(run, sight)]


def older(sight: Sight, own: Chosen) -> list[Chosen]:
    """What waits, or was missed, of the periods before `own`."""
    missed = [as_recorded(run) for run in sight.runs if run.state is State.MISSED]
    found = [chosen for chosen in (*waiting(sight), *missed) if _is_before(chosen.period, own.period)]
    return in_order(found)


def expected(calendar: Calendar, own: Chosen, since: datetime) -> list[Chosen]:
    """The periods before `own` that ended after `since` and in which the schedule ticks; none without a schedule."""
    if calendar.schedule is None or own.period.start is None:
        return []
    ticks = calendar.schedule.ticks_between(since, own.period.start)
    found: dict[str, Chosen] = {}
    for tick in islice(ticks, MOST_PERIODS + 1):
        chosen = Chosen(period_at(calendar.cadence, calendar.zone, tick), PeriodSource.LABEL, tick, note=_why("missed"))
        if _is_before(chosen.period, own.period):
            found.setdefault(chosen.period.label, chosen)
    if len(found) > MOST_PERIODS:
        raise BadInput(f"more than {MOST_PERIODS} periods are to be caught up with; shorten --catch-up-window")
    return list(found.values())


def never_recorded(due: list[Chosen], sight: Sight) -> list[Chosen]:
    """Of what was due, what the ledger knows nothing of; a key that is new was not due before its first period."""
    known = {run.period for run in sight.runs}
    pruned_before = sight.job.pruned_before if sight.job else None
    first = min(known, default=None)
    return [
        chosen
        for chosen in due
        if first is not None and first < chosen.period.label not in known
        and not (pruned_before and chosen.period.start and chosen.period.start < pruned_before)
    ]  # fmt: skip


def in_order(periods: list[Chosen]) -> list[Chosen]:
    """Oldest first; a period that a person named stands in no order, and comes first."""
    return sorted(
        periods, key=lambda chosen: (chosen.period.start is not None, chosen.period.start, chosen.period.label)
    )


def as_recorded(run: Run) -> Chosen:
    """A period as its row in the ledger has it. Asked for by its label, it answers no tick."""
    period = Period(run.period, run.period_start, run.period_end)
    return Chosen(period, PeriodSource.LABEL, run.slot, note=_why(str(run.state)))


def _why(state: str) -> str:
    return f"it was {'left running by a holder that died' if state == State.RUNNING else state}: it is run now"


def _is_stale(run: Run, sight: Sight) -> bool:
    """Running, although nobody has a live lease of it: a claim will take it back, by the same rule as ever."""
    if run.state is not State.RUNNING:
        return False
    return not any(lease.token == run.token and not lease.lapsed(sight.now) for lease in sight.leases)


def _is_before(period: Period, own: Period) -> bool:
    if period.label == own.label:
        return False
    return period.start is None or own.start is None or period.start < own.start


def labels_between(periods: list[Chosen]) -> tuple[str, str]:
    """Of one cadence the labels are in the order of time: the first and the last of them."""
    labels = [chosen.period.label for chosen in periods]
    return min(labels), max(labels)
