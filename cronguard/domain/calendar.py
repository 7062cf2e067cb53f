"""Which calendar a firing goes by: what it says, else what the key has stored, else the built-in one.

Cadence, zone and schedule belong to the key. What an invocation leaves open is
the key's, so that two hosts whose own zones differ still agree on the period,
and a person who reruns a date by hand need not know the cadence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from cronguard.domain.cadence import Cadence
from cronguard.domain.period import Calendar
from cronguard.domain.run import Job
from cronguard.errors import BadInput

if TYPE_CHECKING:
    from cronguard.domain.schedule import Schedule

NO_SCHEDULE = "none"  # what to type to take a stored schedule away
DEFAULT_CADENCE = "day"


@dataclass(frozen=True, slots=True)
class CalendarAsked:
    """What this invocation says; None where it says nothing."""

    host_zone: ZoneInfo
    cadence: Cadence | None = None
    zone: ZoneInfo | None = None
    schedule: str | None = None

    @property
    def is_complete(self) -> bool:
        return None not in (self.cadence, self.zone, self.schedule)


def calendar_of(asked: CalendarAsked, stored: Job | None) -> Calendar:
    """The calendar of this firing; raises BadInput for a schedule that never ticks."""
    zone = asked.zone or (_stored_zone(stored.zone) if stored and stored.zone else asked.host_zone)
    schedule = _schedule(asked, stored, zone)
    return Calendar(_cadence(asked, stored, schedule), zone, schedule)


def _stored_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # a zone that is not there is a KeyError
        raise BadInput(f"the key's zone {name} is not known on this host; install tzdata, or give --tz") from None


def _schedule(asked: CalendarAsked, stored: Job | None, zone: ZoneInfo) -> Schedule | None:
    expression = asked.schedule or (stored.schedule if stored else None)
    if expression is None or expression == NO_SCHEDULE:
        return None
    from cronguard.domain.schedule import Schedule  # noqa: PLC0415  cronsim, only where there is a schedule

    return Schedule.parse(expression, zone)


def _cadence(asked: CalendarAsked, stored: Job | None, schedule: Schedule | None) -> Cadence:
    if asked.cadence:
        return asked.cadence
    new_schedule = schedule and not (stored and stored.schedule == schedule.expression)
    if stored and stored.cadence and not new_schedule:
        return Cadence.parse(stored.cadence)
    return schedule.natural_cadence() if schedule else Cadence.parse(DEFAULT_CADENCE)


def changes(stored: Job | None, calendar: Calendar) -> list[str]:
    """What this firing changes of the key's stored calendar, in words."""
    if stored is None or stored.cadence is None:
        return []
    expression = calendar.schedule.expression if calendar.schedule else None
    was_and_is = (
        ("cadence", stored.cadence, calendar.cadence.name),
        ("zone", stored.zone, calendar.zone.key),
        ("schedule", stored.schedule, expression),
    )
    return [f"{name} from {was or 'none'} to {now or 'none'}" for name, was, now in was_and_is if was != now]
