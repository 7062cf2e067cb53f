"""This host's clocks. What is shared goes by the ledger's clock; these are for waiting, and for one guess."""

from __future__ import annotations

import time
from datetime import UTC, datetime

NEVER = float("inf")  # a boottime that does not come
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # counts suspend, where the system has it


def boottime() -> float:
    """Seconds since boot, suspend included. Never steps."""
    return time.clock_gettime(_BOOTTIME)


def host_now() -> datetime:
    """The wall clock, good for a guess that the ledger's clock will confirm or correct."""
    return datetime.now(UTC)
