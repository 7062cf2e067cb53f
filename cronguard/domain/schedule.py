"""When a key is due: a cron schedule, read as Debian's cron reads it, in the key's zone.

On the nights when clocks change, a time of day that is skipped ticks at the
end of the gap and one that comes twice ticks at the first; a schedule with a
star for its hour or minute follows the real hours.

The library is only ever asked what comes next, never what came before, where
its answers do not mirror each other. Every tick is handed out in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError  # noqa: TID253 - its one home: whoever has a schedule enters by this module

from cronguard.domain.cadence import Cadence
from cronguard.domain.period import period_at
from cronguard.errors import BadInput

_EXAMPLE = "write it like '30 2 * * *' (minute, hour, day, month, weekday)"
_NICKNAMES = {  # crontab(5), and what a Kubernetes CronJob accepts
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_EARLY_AT_MOST = timedelta(seconds=60)
_SMALLEST_GAP = timedelta(minutes=1)  # five fields: every tick is a whole minute
# Near first, so that a tick every minute costs no walk of a year; the rarest there are (a fifth Monday in February,
# a leap day on a Sunday) are forty years apart.
_LOOK_BACK = tuple(timedelta(days=days) for days in (1 / 24, 1, 8, 32, 367, 5 * 366, 50 * 366))
# A fixed stretch of time to judge a schedule by: every host, on every day, judges alike.
_JUDGED_FROM = datetime(2026, 1, 1, tzinfo=UTC)
_JUDGED_DAYS = 2 * 366


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression of five fields, or a nickname such as @daily, in a zone. `parse` makes sure that it ticks."""

    expression: str
    zone: ZoneInfo

    @classmethod
    def parse(cls, expression: str, zone: ZoneInfo) -> Schedule:
        """The schedule that `expression` means in `zone`. Raises BadInput when it is malformed or never ticks."""
        schedule = cls(expression, zone)
        if len(schedule._fields().split()) != 5:
            raise BadInput(f"{expression!r} is not a cron schedule of five fields; {_EXAMPLE}")
        try:
            schedule.next_tick(_JUDGED_FROM)
        except CronSimError as error:
            raise BadInput(f"{expression!r} is not a cron schedule ({str(error).lower()}); {_EXAMPLE}") from None
        return schedule

    def latest_tick(self, now: datetime) -> datetime:
        """The tick that a firing at `now` is for: the latest that is past, or due within its early tolerance."""
        last, coming = self._last_by(now), self.next_tick(now)
        return coming if coming - _tolerance(last, coming) <= now else last

    def next_tick(self, after: datetime) -> datetime:
        """The first tick later than `after`."""
        for tick in self._ticks(after):
            return tick
        raise BadInput(f"{self.expression!r} never ticks; {_EXAMPLE}")

    def tick_before(self, moment: datetime) -> datetime:
        """The last tick earlier than `moment`."""
        return self._last_by(moment - timedelta(microseconds=1))

    def early_tolerance(self, tick: datetime) -> timedelta:
        """How long before `tick` a firing is already for it: a host's clock may be fast.

        A minute, or a tenth of the gap that `tick` ends where that is less, since it is the tick before
        whose firings could be mistaken.
        """
        return _tolerance(self.tick_before(tick), tick)

    def ticks_between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The ticks later than `after` and not later than `until`, in order."""
        return takewhile(lambda tick: tick <= until, self._ticks(after))

    def natural_cadence(self) -> Cadence:
        """The longest of day, hour and minute of which no period ever holds two ticks."""
        for name in ("day", "hour"):
            cadence = Cadence.parse(name)
            if all(self._one_each(cadence, day) for day in self._telling_days()):
                return cadence
        return Cadence.parse("minute")

    def _fields(self) -> str:
        return _NICKNAMES.get(self.expression, self.expression)

    def _ticks(self, after: datetime) -> Iterator[datetime]:
        for tick in CronSim(self._fields(), after.astimezone(self.zone)):
            moment = tick.astimezone(UTC)
            # Asked in the second of two equal hours, the library begins with the tick of the first.
            if moment > after:
                yield moment

    def _last_by(self, moment: datetime) -> datetime:
        return self._last_within(self._some_tick_by(moment), moment)

    def _some_tick_by(self, moment: datetime) -> datetime:
        for span in _LOOK_BACK:
            tick = self.next_tick(moment - span)
            if tick <= moment:
                return tick
        raise BadInput(f"{self.expression!r} has not ticked in fifty years; {_EXAMPLE}")

    def _last_within(self, tick: datetime, until: datetime) -> datetime:
        """The last tick up to `until`, of which `tick` is one: found by halving what lies between."""
        while until - tick >= _SMALLEST_GAP:
            middle = tick + (until - tick) / 2
            following = self.next_tick(middle)
            if following <= until:
                tick = following
            else:
                until = middle
        return tick

    def _telling_days(self) -> Iterator[datetime]:
        """Days to judge by: one with a tick, like all such days but those on which clocks change; and these."""
        yield self.next_tick(_JUDGED_FROM)
        days = (_JUDGED_FROM + timedelta(days=day) for day in range(_JUDGED_DAYS))
        for day, next_day in pairwise(days):
            if day.astimezone(self.zone).utcoffset() != next_day.astimezone(self.zone).utcoffset():
                yield next_day

    def _one_each(self, cadence: Cadence, day: datetime) -> bool:
        ticks = self.ticks_between(day - timedelta(days=2), day + timedelta(days=2))
        periods = (period_at(cadence, self.zone, tick) for tick in ticks)
        return all(one != other for one, other in pairwise(periods))


def _tolerance(last: datetime, tick: datetime) -> timedelta:
    return min(_EARLY_AT_MOST, (tick - last) / 10)
