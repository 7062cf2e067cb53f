"""How lengths of time and instants are written, and instants read.

A free duration is read in `duration`; writing one needs nothing but this page.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from cronguard.errors import BadInput

# Of those that datetime can hold, some are kept free at the far end: the next period must still have an end.
YEARS = range(1970, 9900)

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(?P<offset>Z|[+-]\d\d:\d\d)?", re.ASCII)
_INSTANT_EXAMPLE = "2026-11-30T06:00:00Z"
_UNITS = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)))


def parse_instant(text: str) -> datetime:
    """The instant that `text` names, in UTC.

    RFC 3339, and like it strict about the offset: a time without one means something else on every host.
    The seconds may be left out, as period labels do. Raises BadInput.
    """
    shape = _RFC3339.fullmatch(text.upper())
    if shape and not shape["offset"]:
        raise BadInput(f"{text!r} has no offset from UTC; write it like {_INSTANT_EXAMPLE}")
    try:
        instant = datetime.fromisoformat(text.upper()).astimezone(UTC) if shape else None
    except (ValueError, OverflowError):  # the 30th of February, 25 o'clock, the year 0
        instant = None
    if instant is None or instant.year not in YEARS:
        raise BadInput(f"{text!r} is not an instant; write it like {_INSTANT_EXAMPLE}")
    return instant


def format_instant(instant: datetime) -> str:
    """`instant` in UTC as RFC 3339: 2026-11-30T06:00:00Z, with milliseconds only when there are any."""
    precision = "milliseconds" if instant.microsecond >= 1000 else "seconds"
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def format_duration(length: timedelta) -> str:
    """`length` in days, hours, minutes and seconds, the empty ones left out: 15m, 1h30m, 1d, 0.5s.

    What it writes for a positive length, `duration.parse_duration` reads back unchanged, to the microsecond.
    """
    if length < timedelta():
        return "-" + format_duration(-length)
    parts, rest = "", length
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        parts += f"{count}{unit}" if count else ""
    if rest or not parts:
        parts += _format_seconds(rest) + "s"
    return parts


def _format_seconds(rest: timedelta) -> str:
    if not rest.microseconds:
        return str(rest.seconds)
    return f"{rest.seconds}.{rest.microseconds:06}".rstrip("0")
