"""What a person can say about a key or one of its runs, and what the ledger keeps of it: who, why and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Verb(StrEnum):
    """What a person can ask of the ledger."""

    RESET = "reset"
    CANCEL = "cancel"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Intervention:
    """One word of a person's, as it was taken; without a period it is about the key as a whole."""

    key: str
    period: str | None
    verb: Verb
    said_by: str  # user@host
    reason: str | None
    said_at: datetime


def because(said_by: str | None, reason: str | None) -> str:
    """Who and why, in words: `by ada@db1: disk full`."""
    return f"by {said_by or 'somebody'}" + (f": {reason}" if reason else "")
