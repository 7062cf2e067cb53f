"""From settings to what the services take: the job, the firing, the order."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from cronguard.settings.parsers import utf8

if TYPE_CHECKING:
    from cronguard.domain.step import StepList
    from cronguard.settings.step_list import Listed

_HANDED_ON = ("dsn", "dsn_file", "state_dir", "config", "capture")

RUN = "cronguard run --key KEY -- CMD [ARG…]"
BACKFILL = "cronguard backfill --key KEY --from A --to B -- CMD [ARG…]"


def order_of(settings: Settings, argv: Sequence[str], started_at: float) -> Order:
    """What `cronguard run` is to do; raises BadInput for what does not go together."""
    argv = _command(settings, argv, RUN)
    _check_what_goes_together(settings)
    order = _order(settings, argv, firing_of(settings, started_at))
    return replace(
        order,
        only_pending=settings["only_pending"],
        catch_up=_catch_up(settings),
        catch_up_within=settings["catch_up_window"],
    )


def backfill_order_of(settings: Settings, argv: Sequence[str], started_at: float) -> Order:
    """What `cronguard backfill` is to do for each of its periods; each is asked for by a person."""
    argv = _command(settings, argv, BACKFILL)
    _refuse_leaving_stragglers(settings, "backfill")
    firing = firing_of(settings, started_at)
    spec = replace(firing.spec, requested_by=person(settings.environment))
    return _order(settings, argv, replace(firing, spec=spec))


def _order(settings: Settings, argv: Sequence[str], firing: Firing) -> Order:
    return Order(
        firing=firing,
        argv=argv,
        environment=_environment(settings),
        retry_delay=settings["retry_delay"],
        skip_exit=settings["skip_exit"],
        expand=settings["expand"] and not firing.spec.steps,  # each step fills in its own command
        quiet=settings["quiet"],
        on_silence=OnSilence(settings["on_silence"]),
        stragglers=Stragglers(settings["stragglers"]),
        capture=settings["capture"],
        stall_after=settings["stall_after"],
    )


def _command(settings: Settings, argv: Sequence[str], form: str) -> Sequence[str]:
    """The command line's, or what the configuration lists; never one of them in the place of the other."""
    listed = settings.listed
    if listed and argv:
        raise BadInput(f"{listed.origin} says already what this job runs; leave the command out, or change it there")
    if listed:
        return listed.command or _command_of_list(settings, listed)
    if not argv:
        raise BadInput(f"there is no command; type: {form}")
    if not argv[0]:
        raise BadInput(f"the command is an empty word; type: {form}")
    return argv


def _command_of_list(settings: Settings, listed: Listed) -> Sequence[str]:
    from cronguard.settings.step_order import command_of_list, orders_of  # noqa: PLC0415  most jobs have no list

    orders_of(listed.steps, settings, listed.origin)
    return command_of_list(listed.steps, expand=settings["expand"])


def _environment(settings: Settings) -> Mapping[str, str]:
    """The caller's; where an option said which ledger it is, `cronguard beat` in the command asks the same one.

    And what may be kept of the run's output, may be kept of its steps'.
    """
    by_option = {name for name in _HANDED_ON if settings.setting(name).rank == 0}
    by_option |= {"durable"} if settings["durable"] else set()  # what is said of this one job, the command cannot know
    kept = dict(settings.environment)
    for name in ("dsn", "dsn_file") if by_option & {"dsn", "dsn_file"} else ():
        kept.pop(BY_NAME[name].variable, None)
    said = {name: settings.setting(name).text or "" for name in by_option}
    paths = {name: str(Path(value).absolute()) for name, value in said.items() if BY_NAME[name].is_path}
    return kept | {BY_NAME[name].variable: value for name, value in (said | paths).items()}


ABOUT_ONE_PERIOD = ("period", "scheduled_at", "job_name", "rerun", "force")
NOT_TO_CATCH_UP = ("period", "rerun", "force")  # a nominal time is that of a firing, which may well catch up


def _check_what_goes_together(settings: Settings) -> None:
    if settings["only_pending"]:
        _refuse_beside(settings, "only_pending", ABOUT_ONE_PERIOD, "its periods are those that wait in the ledger")
        if settings.setting("catch_up").rank == 0:
            _refuse_beside(settings, "only_pending", ("catch_up",), "it runs all that is pending as it is")
    if settings.setting("catch_up").rank == 0 and settings["catch_up"]:
        _refuse_beside(settings, "catch_up", NOT_TO_CATCH_UP, "who asks for one period gets that one")
    if settings["only_pending"] or _catch_up(settings):
        _refuse_leaving_stragglers(settings, "--only-pending" if settings["only_pending"] else "--catch-up")


def _refuse_leaving_stragglers(settings: Settings, several: str) -> None:
    if settings["stragglers"] == "leave":
        place = settings.setting("stragglers").place
        raise BadInput(f"{place}: leave does not go with {several}: what one run leaves would be part of the next")


def _refuse_beside(settings: Settings, name: str, others: Sequence[str], why: str) -> None:
    other = next((settings.setting(other) for other in others if settings.setting(other).is_set), None)
    if other:
        option = settings.setting(name).knob.option
        raise BadInput(f"{other.place}: it does not go with {option}: {why}; leave one of them out")


def _catch_up(settings: Settings) -> int:
    """None where a person asks for one period, whatever the configuration says of the job."""
    about_one = any(settings.setting(name).is_set for name in NOT_TO_CATCH_UP)
    return 0 if about_one or settings["only_pending"] else int(settings["catch_up"])


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
        claim_within=settings["claim_within"],
        lock=settings["lock"],
        steps=_steps(settings),
        accept_changed_steps=settings["accept_changed_steps"],
    )


def _steps(settings: Settings) -> StepList | None:
    if settings.listed is None or not settings.listed.steps:
        return None
    from cronguard.domain.step import list_of  # noqa: PLC0415

    return list_of([(step.name, [utf8(word) for word in step.command]) for step in settings.listed.steps])


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
