"""Time zones: which one a name means, and which instant a wall clock there means.

Two nights of the year make the second question hard: in one an hour is
missing, in the other it comes twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronguard.errors import BadInput

_NAME = re.compile(r"[A-Z0-9_+-]+(/[A-Z0-9_+-]+)*", re.ASCII | re.IGNORECASE)
# The zone database knows these too, but they are another zone on each host, or count leap seconds.
_UNFIT = re.compile(r"localtime|posixrules|posix/.*|right/.*")


def parse_zone(name: str) -> ZoneInfo:
    """The IANA zone called `name`, capitals and all. Raises BadInput, with the name it is near to."""
    try:
        if _NAME.fullmatch(name) and not _UNFIT.fullmatch(name):
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # unknown; a file, but no zone; a directory such as Europe
        pass
    if not available_timezones():
        raise BadInput("there is no time zone data; install Debian's tzdata, or the Python package tzdata")
    near = _nearest(name)
    advice = f"did you mean {near}?" if near else "write it like Europe/Berlin or UTC"
    raise BadInput(f"{name!r} is not an IANA time zone; {advice}")


def at_wall_clock(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant, in UTC, at which clocks in `zone` show `wall` (naive, whole seconds).

    A time that comes twice means the first; a time that is skipped means the end of the gap. So a later
    `wall` never means an earlier instant, and the midnights of a zone cut all time into days.
    """
    late = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    early = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    # Only in a gap (PEP 495) is the first reading later than the second, the gap's end being between the two.
    return _change_of_offset(early, late, zone) if early < late else late


def _change_of_offset(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    offset = after.astimezone(zone).utcoffset()
    seconds = range(int((after - before).total_seconds()))

    def changed(second: int) -> bool:
        return (before + timedelta(seconds=second)).astimezone(zone).utcoffset() == offset

    return before + timedelta(seconds=bisect_left(seconds, True, key=changed))


def _nearest(name: str) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - costs a run that made no mistake nothing

    known = {zone.casefold(): zone for zone in available_timezones() if not _UNFIT.fullmatch(zone)}
    near = get_close_matches(name.casefold()[:64], known, n=1, cutoff=0.7)
    return known[near[0]] if near else None
