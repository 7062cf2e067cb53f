"""From settings to what the services take: the job, the firing, the order."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from cronguard.domain.calendar import CalendarAsked
from cronguard.domain.claim import JobSpec, LeaseTerms
from cronguard.domain.period import PeriodRequest
from cronguard.domain.run import Holder
from cronguard.errors import BadInput
from cronguard.process.command import OnSilence, Stragglers
from cronguard.services.firing import Firing
from cronguard.services.run import Order
from cronguard.settings import Settings
from cronguard.settings.host import host_name, host_zone, person
from cronguard.settings.knobs import BY_NAME

_WHICH_LEDGER = ("dsn", "dsn_file", "state_dir", "config")


def order_of(settings: Settings, argv: Sequence[str], started_at: float) -> Order:
    """What `cronguard run` is to do; raises BadInput for what does not go together."""
    if not argv:
        raise BadInput("there is no command; type: cronguard run --key KEY -- CMD [ARG…]")
    if not argv[0]:
        raise BadInput("the command is an empty word; type: cronguard run --key KEY -- CMD [ARG…]")
    return Order(
        firing=firing_of(settings, started_at),
        argv=argv,
        environment=_environment(settings),
        retry_delay=settings["retry_delay"],
        skip_exit=settings["skip_exit"],
        expand=settings["expand"],
        quiet=settings["quiet"],
        on_silence=OnSilence(settings["on_silence"]),
        stragglers=Stragglers(settings["stragglers"]),
        capture=settings["capture"],
        stall_after=settings["stall_after"],
    )


def _environment(settings: Settings) -> Mapping[str, str]:
    """The caller's; where an option said which ledger it is, `cronguard beat` in the command asks the same one."""
    by_option = {name for name in _WHICH_LEDGER if settings.setting(name).rank == 0}
    kept = dict(settings.environment)
    for name in ("dsn", "dsn_file") if by_option & {"dsn", "dsn_file"} else ():
        kept.pop(BY_NAME[name].variable, None)
    said = {name: settings[name] for name in by_option}
    paths = {name: str(Path(value).absolute()) for name, value in said.items() if BY_NAME[name].is_path}
    return kept | {BY_NAME[name].variable: value for name, value in (said | paths).items()}


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
        extend_max=settings["extend_max"],
    )


def _terms(settings: Settings) -> LeaseTerms:
    names = ("lease", "stop_grace", "beat_every", "stall_after")
    try:
        return LeaseTerms.of(*(settings[name] for name in names))
    except BadInput as error:
        raise BadInput(settings.places(*names) + str(error)) from None


def _calendar(settings: Settings) -> CalendarAsked:
    return CalendarAsked(
        host_zone=host_zone(settings.environment),
        cadence=settings["every"],
        zone=settings["tz"],
        schedule=settings["schedule"],
    )
