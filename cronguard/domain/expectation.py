"""When a key with a schedule is expected to run, and how far it has been judged whether it did.

A tick is late once its start-by has passed, or one cadence where none is given.
Each granted firing moves the key's mark on when it is for the very next tick,
so that a healthy key costs a supervisor nothing; only where a tick was left out
the mark stays behind, for a supervisor to find.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from cronguard.domain.calendar import CalendarAsked, calendar_of
from cronguard.domain.period import Calendar, Period, period_at
from cronguard.domain.run import Job

if TYPE_CHECKING:
    from cronguard.domain.deadline import Deadline
    from cronguard.domain.schedule import Schedule

# A key that was off for months, with nobody watching, shall not fill the ledger: what was due in the last days counts.
LOOKED_BACK = timedelta(days=7)
JUDGED_AT_ONCE = 100  # ticks, the newest


@dataclass(frozen=True, slots=True)
class Expectation:
    """Which ticks are expected of a key, and when each of them is late."""

    calendar: Calendar
    schedule: Schedule
    one_cadence: timedelta
    start_by: Deadline | None

    @classmethod
    def of(cls, calendar: Calendar, start_by: Deadline | None) -> Expectation | None:
        """None where nothing is expected: no schedule, or each invocation is a period of its own."""
        if calendar.schedule is None or calendar.cadence.length is None:
            return None
        return cls(calendar, calendar.schedule, calendar.cadence.length, start_by)

    def late_at(self, tick: datetime) -> datetime:
        """When this tick is missed, unless somebody has run it. A start-by that is an instant is about one firing."""
        by = None
        if self.start_by and self.start_by.instant is None:
            by = self.start_by.resolve(tick, tick, self.calendar.zone)
        return by or tick + self.one_cadence

    def next_late_at(self, until: datetime) -> datetime:
        return self.late_at(self.schedule.next_tick(until))

    def period(self, tick: datetime) -> Period:
        return period_at(self.calendar.cadence, self.calendar.zone, tick)

    def late(self, until: datetime, now: datetime) -> tuple[list[datetime], datetime]:
        """The ticks after `until` that are late by `now`, in order, and up to where all ticks are judged with them.

        Of the last days only, and the newest of those: what lies further back is passed over.
        """
        since = max(until, now - LOOKED_BACK - self.one_cadence)
        late = list(takewhile(lambda tick: self.late_at(tick) <= now, self.schedule.ticks_between(since, now)))
        told = [tick for tick in late if self.late_at(tick) > now - LOOKED_BACK]
        return told[-JUDGED_AT_ONCE:], late[-1] if late else since


def expectation_of(job: Job) -> Expectation | None:
    """What is expected of a key as the ledger has it; raises BadInput where that makes no sense."""
    from cronguard.domain.deadline import Deadline  # noqa: PLC0415  a granted firing has its own

    if job.schedule is None:
        return None
    calendar = calendar_of(CalendarAsked(ZoneInfo("UTC")), job)
    return Expectation.of(calendar, Deadline.parse(job.start_by) if job.start_by else None)


def expected_from(job: Job, now: datetime) -> Job:
    """What was due before, as in a pause, is not waited for any more."""
    expectation = expectation_of(job)
    return replace(job, expected_until=now, expected_by=expectation.next_late_at(now)) if expectation else job


def expecting(before: Job, after: Job, expectation: Expectation | None, slot: datetime | None, now: datetime) -> Job:
    """The key as a granted firing leaves it: expected from its first one on, and anew when its calendar changes."""
    if expectation is None:
        return replace(after, expected_until=None, expected_by=None)
    until = before.expected_until
    if until is None or _calendar(before) != _calendar(after):
        until = max(slot or now, now)
    elif slot and expectation.schedule.next_tick(until) == slot:
        until = slot
    return replace(after, expected_until=until, expected_by=expectation.next_late_at(until))


def _calendar(job: Job) -> tuple[str | None, ...]:
    return job.cadence, job.zone, job.schedule
