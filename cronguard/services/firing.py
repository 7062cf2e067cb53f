"""One invocation's question, before the ledger's clock has told which period it is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

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

    @property
    def key(self) -> str:
        return self.spec.key

    def choose(self, stored: Job | None, now: datetime) -> tuple[Calendar, Chosen]:
        calendar = calendar_of(self.calendar, stored)
        return calendar, choose_period(self.request, calendar, now, nonce=self.holder.id[:4])

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
