"""What the recent runs of a key tell about its complete-by.

The advice is twice the p99 of the runs that succeeded, rounded up, and never
more than the interval. The usual rule of thumb for a time limit is two to
three times the p99 of what it limits; Jenkins' build-timeout plugin, too,
takes a percentage of the recent builds that did not fail. The lower figure is
taken because a run that hangs holds its key until its complete-by. The other
figures are cronguard's own: five runs, since fewer say nothing about a p99, and
four fifths of the interval, since a run that needs more has no room for one try
again, or for a slow day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from cronguard.domain.overview import percentile
from cronguard.domain.text import format_duration

TIMES_P99 = 2
FEWEST = 5  # runs that succeeded
NEAR = 0.8  # of the interval
SHORTEST = timedelta(seconds=10)
_STEPS = (  # up to this long, rounded up to whole ones of these
    (timedelta(minutes=1), timedelta(seconds=5)),
    (timedelta(minutes=10), timedelta(seconds=30)),
    (timedelta(hours=1), timedelta(minutes=1)),
    (timedelta(hours=6), timedelta(minutes=5)),
)
_LONGEST_STEP = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Advice:
    """The complete-by that would fit, and what is wrong with things as they are, a sentence each."""

    complete_by: timedelta | None = None  # None: too few runs to tell
    warnings: tuple[str, ...] = ()


def advise(
    lengths: Sequence[timedelta], complete_by: timedelta | None, interval: timedelta | None, timed_out: int = 0
) -> Advice:
    """From how long the runs that succeeded took, how long they may take, and how often the key is due."""
    if len(lengths) < FEWEST:
        return Advice()
    p95, p99 = (percentile(lengths, percent) or timedelta() for percent in (95, 99))
    fitting = max(_rounded_up(p99 * TIMES_P99), SHORTEST)
    warnings = (_too_short(p99, complete_by, timed_out), _too_near(p95, interval))
    return Advice(min(fitting, interval) if interval else fitting, tuple(filter(None, warnings)))


def _too_short(p99: timedelta, complete_by: timedelta | None, timed_out: int) -> str:
    if complete_by is None or p99 < complete_by:
        return ""
    stopped = f"; {timed_out} were stopped at it" if timed_out else ""
    return f"its complete-by of {_s(complete_by)} is shorter than what runs really take (p99 {_s(p99)}){stopped}"


def _too_near(p95: timedelta, interval: timedelta | None) -> str:
    if interval is None or p95 < interval * NEAR:
        return ""
    return f"its runs come near their interval of {_s(interval)} (p95 {_s(p95)}): the next firing finds the key held"


def _rounded_up(length: timedelta) -> timedelta:
    step = next((step for up_to, step in _STEPS if length <= up_to), _LONGEST_STEP)
    return -(-length // step) * step


def _s(length: timedelta) -> str:
    return format_duration(timedelta(seconds=round(length.total_seconds(), 1)))
