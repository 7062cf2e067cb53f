"""How often a key is due: the grid on which its periods lie.

From a day up the grid is the calendar of the key's zone, below it is UTC; a
free interval counts from the Unix epoch. `run` has no grid: every invocation
is a period of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from cronguard.domain.text import format_duration
from cronguard.errors import BadInput

_ECHO_AT_MOST = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often a key is due. Two cadences are the same when their names are."""

    name: str  # the canonical text: stored, compared and shown
    length: timedelta | None = field(compare=False)  # None for `run`; of a month, quarter or year the longest there is

    @classmethod
    def parse(cls, text: str) -> Cadence:
        """The cadence called `text`: a name, or a duration of whole seconds. Raises BadInput, listing the forms.

        A length that has a name gets it (60m is hour, 24h is day, 7d is week), so one cadence is stored as one text.
        """
        return _BY_NAME.get(text) or _interval(text)

    @property
    def on_calendar(self) -> bool:
        """Whether its periods are local dates (day, week, month, quarter, year) rather than instants."""
        return self.name in _ON_CALENDAR

    @property
    def echo_window(self) -> timedelta:
        """How soon after the start of one period the start of another is taken for its echo.

        Hosts whose clocks straddle an edge name two periods for one firing. A minute, or a tenth of the cadence
        where that is less; zero for `run`, whose invocations may follow at once.
        """
        return timedelta() if self.length is None else min(_ECHO_AT_MOST, self.length / 10)


_NAMED = (
    Cadence("minute", timedelta(minutes=1)),
    Cadence("hour", timedelta(hours=1)),
    Cadence("day", timedelta(days=1)),
    Cadence("week", timedelta(days=7)),
    Cadence("month", timedelta(days=31)),
    Cadence("quarter", timedelta(days=92)),
    Cadence("year", timedelta(days=366)),
    Cadence("run", None),
)
_BY_NAME = {cadence.name: cadence for cadence in _NAMED}
# Not all of them: a month is 31d at most, which does not make 31d a month.
_BY_LENGTH = {cadence.length: cadence for cadence in _NAMED if cadence.name in ("minute", "hour", "day", "week")}
_ON_CALENDAR = frozenset(("day", "week", "month", "quarter", "year"))


def _interval(text: str) -> Cadence:
    from cronguard.domain.duration import parse_duration  # noqa: PLC0415 - a named cadence must not load its library

    try:
        length = parse_duration(text)
    except BadInput:
        raise BadInput(f"{text!r} is not a cadence; write {', '.join(_BY_NAME)}, or an interval like 15m") from None
    if length % timedelta(seconds=1):
        raise BadInput(f"{text!r} is not a whole number of seconds; write a cadence like day, hour, 15m or 30s")
    return _BY_LENGTH.get(length) or Cadence(format_duration(length), length)
