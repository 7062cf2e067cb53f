"""From settings to what the services take: the job, the firing, the order."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence

from cronguard.domain.calendar import CalendarAsked
from cronguard.domain.claim import JobSpec, LeaseTerms
from cronguard.domain.period import PeriodRequest
from cronguard.domain.run import Holder
from cronguard.errors import BadInput
from cronguard.services.firing import Firing
from cronguard.services.run import Order
from cronguard.settings import Settings
from cronguard.settings.host import host_name, host_zone, person


def order_of(settings: Settings, argv: Sequence[str], started_at: float) -> Order:
    """What `cronguard run` is to do; raises BadInput for what does not go together."""
    if not argv:
        raise BadInput("there is no command; type: cronguard run --key KEY -- CMD [ARG…]")
    if not argv[0]:
        raise BadInput("the command is an empty word; type: cronguard run --key KEY -- CMD [ARG…]")
    return Order(
        firing=firing_of(settings, started_at),
        argv=argv,
        environment=settings.environment,
        retry_delay=settings["retry_delay"],
        skip_exit=settings["skip_exit"],
        expand=settings["expand"],
        quiet=settings["quiet"],
    )


def firing_of(settings: Settings, started_at: float) -> Firing:
    if not settings["key"]:
        raise BadInput("there is no key; name the job, the same on every host: cronguard run --key daily_digest -- CMD")
    return Firing(
        spec=_job_spec(settings),
        calendar=_calendar(settings),
        request=PeriodRequest(settings["period"], settings["scheduled_at"], settings["job_name"]),
        holder=Holder(str(uuid.uuid4()), host_name(), os.getpid()),
        started_at=started_at,
        waits=settings["if_held"] == "wait",
    )


def _job_spec(settings: Settings) -> JobSpec:
    if settings["force"] and not settings["rerun"]:
        raise BadInput(
            settings.places("force") + "--force goes with --rerun; type both to run a period that has succeeded"
        )
    return JobSpec(
        key=settings["key"],
        terms=_terms(settings),
        complete_by=settings["complete_by"],
        start_by=settings["start_by"],
        exclusive=settings["exclusive"],
        attempts=settings["attempts"],
        recoveries=settings["recoveries"],
        rerun=settings["rerun"],
        force=settings["force"],
        requested_by=person(settings.environment) if settings["rerun"] else None,
    )


def _terms(settings: Settings) -> LeaseTerms:
    try:
        return LeaseTerms.of(settings["lease"], settings["stop_grace"], settings["beat_every"])
    except BadInput as error:
        raise BadInput(settings.places("lease", "beat_every", "stop_grace") + str(error)) from None


def _calendar(settings: Settings) -> CalendarAsked:
    return CalendarAsked(
        host_zone=host_zone(settings.environment),
        cadence=settings["every"],
        zone=settings["tz"],
        schedule=settings["schedule"],
    )
