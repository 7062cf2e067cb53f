"""Figures of every key, for a metrics file: what a graph, and an alarm, is drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from cronguard.domain.run import Run, SkipReason, State
from cronguard.domain.supervision import Supervisor


@dataclass(slots=True)
class KeyMetrics:
    """One key: its last start, success and end; and its newest runs, counted."""

    key: str
    started_at: datetime | None = None
    succeeded_at: datetime | None = None
    is_paused: bool = False
    last: Run | None = None  # the newest that has ended
    in_progress: int = 0
    overdue: int = 0  # past its complete-by, or a tick that is late
    runs: dict[State, int] = field(default_factory=dict)
    skips: dict[SkipReason, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Metrics:
    """The ledger's figures at one instant of its clock."""

    now: datetime
    keys: tuple[KeyMetrics, ...] = ()
    supervisor: Supervisor | None = None
    unknown_effects: int = 0  # of all kinds together: there may be any number of these
