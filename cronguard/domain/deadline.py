"""By when: the value of --complete-by and --start-by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from cronguard.domain.text import parse_instant
from cronguard.domain.zone import at_wall_clock
from cronguard.errors import BadInput

_WALL_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?", re.ASCII)
_DATED = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment that is known once the run is: at most one of the three is set, and with none it never comes."""

    text: str  # as it was typed, for display
    within: timedelta | None = None
    wall_clock: time | None = None
    instant: datetime | None = None

    @classmethod
    def parse(cls, text: str) -> Deadline:
        """A duration (15m), a wall clock (07:00, 07:00:30), an RFC 3339 instant or `never`. Raises BadInput."""
        if text == "never":
            return cls(text)
        if _WALL_CLOCK.fullmatch(text):
            return cls(text, wall_clock=time.fromisoformat(text))
        if _DATED.match(text):
            return cls(text, instant=parse_instant(text))
        return cls(text, within=_duration(text))

    def resolve(self, started: datetime, anchor: datetime, zone: ZoneInfo) -> datetime | None:
        """The moment itself, in UTC; None if it never comes.

        A duration counts from `started`. A wall clock is the first such time in `zone` strictly after `anchor`;
        when clocks change, one that is skipped means the end of the gap and one that comes twice the first.
        """
        if self.within is not None:
            return (started + self.within).astimezone(UTC)
        if self.wall_clock is not None:
            return _first_after(anchor, self.wall_clock, zone)
        return self.instant


def _duration(text: str) -> timedelta:
    from cronguard.domain.duration import parse_duration  # noqa: PLC0415 - the other forms must not load its library

    try:
        return parse_duration(text)
    except BadInput:
        forms = "15m, 07:00, 2026-11-30T06:00:00Z or never"
        raise BadInput(f"{text!r} is not a deadline; write it like {forms}") from None


def _first_after(anchor: datetime, wall_clock: time, zone: ZoneInfo) -> datetime:
    today = anchor.astimezone(zone).date()
    # One day to spare on either side: where clocks go back over midnight, a date can come a second time.
    days = (today + timedelta(days=offset) for offset in (-1, 0, 1, 2))
    moments = (at_wall_clock(datetime.combine(day, wall_clock), zone) for day in days)
    return next(moment for moment in moments if moment > anchor)
