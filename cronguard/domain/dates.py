"""The calendar's own cadences (day, week, month, quarter, year) as plain dates, no clock and no zone.

A period of theirs is known by its first day, and called after it.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

from cronguard.domain.cadence import Cadence
from cronguard.domain.text import YEARS

_SHAPES = {
    "day": re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII),
    "week": re.compile(r"(\d{4})-W(\d\d)", re.ASCII),
    "month": re.compile(r"(\d{4})-(\d\d)", re.ASCII),
    "quarter": re.compile(r"(\d{4})-Q([1-4])", re.ASCII),
    "year": re.compile(r"(\d{4})", re.ASCII),
}


def first_day(cadence: Cadence, day: date) -> date:
    """The first day of the period that `day` is in."""
    match cadence.name:
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=day.month - (day.month - 1) % 3, day=1)
        case "year":
            return day.replace(month=1, day=1)
    return day


def next_first_day(cadence: Cadence, first: date) -> date:
    """The first day of the period after the one that begins on `first`."""
    # The length is the longest there is: from a first day it reaches the next period, and never the one after.
    return first_day(cadence, first + (cadence.length or timedelta()))


def date_label(cadence: Cadence, first: date) -> str:
    """What the period that begins on `first` is called; weeks and their years as ISO 8601 counts them."""
    match cadence.name:
        case "week":
            return "{}-W{:02}".format(*first.isocalendar())
        case "month":
            return f"{first:%Y-%m}"
        case "quarter":
            return f"{first.year}-Q{(first.month + 2) // 3}"
        case "year":
            return f"{first.year}"
    return first.isoformat()


def first_day_called(cadence: Cadence, label: str) -> date | None:
    """The first day of the period called `label`; None when nothing of this cadence is called so."""
    shape = _SHAPES[cadence.name].fullmatch(label)
    if shape is None or int(shape[1]) not in YEARS:
        return None
    year, *rest = (int(number) for number in shape.groups())
    try:
        return _first_day_of(cadence, year, rest)
    except ValueError:  # the 30th of February, a 53rd week in a year of 52
        return None


def _first_day_of(cadence: Cadence, year: int, rest: list[int]) -> date:
    match cadence.name, rest:
        case "week", [week]:
            return date.fromisocalendar(year, week, 1)
        case "quarter", [quarter]:
            return date(year, 3 * quarter - 2, 1)
        case _, [month]:
            return date(year, month, 1)
        case _, [month, day]:
            return date(year, month, day)
    return date(year, 1, 1)
