"""One invocation's question, before the ledger's clock has told which period it is about."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from cronguard.clock import boottime
from cronguard.domain.calendar import CalendarAsked, calendar_of
from cronguard.domain.claim import Claim, JobSpec
from cronguard.domain.period import Calendar, Chosen, PeriodRequest, choose_period
from cronguard.domain.run import Exclusive, Holder, Job, Sight, SkipReason
from cronguard.ports import Foregone


@dataclass(frozen=True, slots=True)
class Firing:
    """What was asked for, by whom, and when (boottime of this host)."""

    spec: JobSpec
    calendar: CalendarAsked
    request: PeriodRequest
    holder: Holder
    started_at: float = field(compare=False)
    waits: bool = False
    chosen: Chosen | None = None  # where it is known already which period this is about
    is_called: bool = True  # somebody fired this very period; else it is only offered, and a refusal is not noted

    @property
    def key(self) -> str:
        return self.spec.key

    def choose(self, stored: Job | None, now: datetime) -> tuple[Calendar, Chosen]:
        calendar = self.calendar_by(stored)
        if self.chosen:
            return calendar, self.chosen
        return calendar, choose_period(self.request, calendar, now, nonce=self.holder.id[:4])

    def calendar_by(self, stored: Job | None) -> Calendar:
        """What this invocation says of the key's calendar, else what the ledger has stored of it."""
        return calendar_of(self.calendar, stored)

    def decided(self, chosen: Chosen) -> Firing:
        """The same, and its period stays this one, however long something else runs before it."""
        return replace(self, chosen=replace(chosen, valid_from=None, valid_until=None))

    def of(self, chosen: Chosen) -> Firing:
        """A firing of another period, here and now: by a holder of its own, waiting for nobody."""
        holder = replace(self.holder, id=str(uuid.uuid4()))
        return replace(self, chosen=chosen, holder=holder, started_at=boottime(), waits=False, is_called=False)

    def claim(self, sight: Sight, fired_at: datetime) -> Claim:
        """The claim that this firing makes, now that the ledger has told its time and the key's calendar."""
        stored = sight.job if sight.job and sight.job.cadence else None
        calendar, chosen = self.choose(stored, fired_at)
        return Claim(self.spec, self.holder, calendar, chosen, fired_at)

    def foregone(self, calendar: Calendar, chosen: Chosen, elapsed: timedelta) -> Foregone:
        """What the store may note by itself while it looks, if the guess of the period turns out right."""
        spec, stored_may_differ = self.spec, not self.calendar.is_complete
        schedule = calendar.schedule.expression if calendar.schedule else None
        return Foregone(
            if_succeeded=None if spec.rerun and spec.force else SkipReason.ALREADY_SUCCEEDED,
            if_held=None if self.waits else SkipReason.HELD,
            lanes=None if spec.exclusive is Exclusive.KEY else ("", chosen.period.label),
            host=self.holder.host,
            pid=self.holder.pid,
            valid_from=chosen.valid_from and chosen.valid_from + elapsed,
            valid_until=chosen.valid_until and chosen.valid_until + elapsed,
            cadence=calendar.cadence.name if stored_may_differ else None,
            zone=calendar.zone.key if stored_may_differ else None,
            schedule=schedule if stored_may_differ else None,
        )
