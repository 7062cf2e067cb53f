"""A recovery: the request that somebody run a run again, one for each run and token, and by when.

Nobody is made to come. Whoever fires the key may take it; if nobody has by
`claim_by`, the run is missed, and that is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from cronguard.domain.cadence import Cadence

CLAIM_WITHIN = timedelta(hours=1)
CLAIM_WITHIN_AT_LEAST = timedelta(minutes=1)  # cron's own step: nobody who comes by cron can come sooner


class Cause(StrEnum):
    """Why a run is to be run again."""

    LEASE_OVER = "lease_over"  # its holder was not heard of for a lease
    CUT_SHORT = "cut_short"  # killed, and proven dead by its own host
    STOPPED = "stopped"  # its worker was told to stop
    FAILED = "failed"  # and has attempts left
    TIMED_OUT = "timed_out"  # and has attempts left


@dataclass(frozen=True, slots=True)
class Recovery:
    """One request, by the token under which the run was held before; and what became of it."""

    key: str
    period: str
    token: int
    cause: Cause
    requested_at: datetime
    requested_by: str  # a host
    claim_by: datetime
    announced_at: datetime | None = None  # by a supervisor, which may not be the one that asked
    taken_at: datetime | None = None
    missed_at: datetime | None = None


def claim_within_of(cadence: Cadence) -> timedelta:
    """How soon somebody should come, where the key does not say: an hour, or half a cadence where that is less."""
    half = cadence.length / 2 if cadence.length else CLAIM_WITHIN
    return max(CLAIM_WITHIN_AT_LEAST, min(CLAIM_WITHIN, half))
