"""What doctor does once it is called: who is examined, one service call, one view."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from cronguard.cli.opening import ground_of
from cronguard.domain.diagnosis import is_sound
from cronguard.domain.ground import Asked, State
from cronguard.domain.zone import parse_zone
from cronguard.errors import BadInput
from cronguard.ports import Groundwork
from cronguard.render.doctor import show_checkup
from cronguard.services.doctor import Subject, examined, examined_under_cron
from cronguard.settings import Settings, gather
from cronguard.settings.cron import under_cron
from cronguard.settings.host import host_zone
from cronguard.settings.knobs import KNOBS
from cronguard.settings.place import orchestrator_of, spool_folders, state_dir
from cronguard.stores.folder import look_at
from cronguard.stores.spool import FileSpool

# What a run tells its command, and a supervisor its hook, besides what names a setting.
TOLD = frozenset({
    "CRONGUARD_ATTEMPT", "CRONGUARD_CAUSE", "CRONGUARD_CLAIM_BY", "CRONGUARD_EFFECT_TOKEN", "CRONGUARD_FOUND",
    "CRONGUARD_HOLDER", "CRONGUARD_PERIOD_END", "CRONGUARD_PERIOD_START", "CRONGUARD_RAN_ON", "CRONGUARD_STATE",
    "CRONGUARD_TOKEN",
})  # fmt: skip
WITHOUT_ZONE_DATA = ("tz", "schedule")  # cannot be read, which is a finding and no slip of the caller's
PROBLEM_FOUND = 1


def doctor(options: dict[str, Any], *, cron: bool, as_json: bool) -> int:
    settings = gather(options, unread=WITHOUT_ZONE_DATA)
    found = examined(_subject(settings))
    if cron:
        it, environment = under_cron(settings)
        found = examined_under_cron(it, _typed(options), environment, found)
    show_checkup(found, as_json=as_json)
    return 0 if is_sound(found) else PROBLEM_FOUND


def _typed(options: Mapping[str, Any]) -> list[str]:
    """The options once more, as they were typed."""
    return [word for name, value in options.items() if value for word in (f"--{name.replace('_', '-')}", value)]


def _subject(settings: Settings) -> Subject:
    zone, zone_failure = _zone(settings)
    ledger, name, place = _way(settings)
    return Subject(
        asked=_asked(settings),
        ledger=ledger,
        ledger_place=place,
        state=_state(settings, name),
        zone=zone,
        zone_failure=zone_failure,
    )


def _way(settings: Settings) -> tuple[Groundwork | str, str, str]:
    """To the ledger, its name, and where it was set. An address that was typed and makes no sense is a slip."""
    try:
        return ground_of(settings)
    except BadInput as error:
        if 0 in (settings.setting("dsn").rank, settings.setting("dsn_file").rank):
            raise
        return str(error), "", ""


def _zone(settings: Settings) -> tuple[ZoneInfo | None, str]:
    """The one that is configured, else the host's; why there is none."""
    setting = settings.setting("tz")
    try:
        return (parse_zone(setting.text) if setting.text else host_zone(settings.environment)), ""
    except BadInput as error:
        return None, f"{setting.place}: {error}" if setting.text else str(error)


def _asked(settings: Settings) -> Asked:
    return Asked(
        settings["lock"],
        settings["durable"],
        settings["lease"],
        str(settings.config) if settings.config else None,
        orchestrator_of(settings.environment),
        _unknown(settings.environment),
    )


def _unknown(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that look like ours and are none, each with the one that may have been meant."""
    known = [knob.variable for knob in KNOBS]
    unknown = sorted(name for name in environment if name.startswith("CRONGUARD_") and name not in (*known, *TOLD))
    return {name: next(iter(difflib.get_close_matches(name, known, 1, 0.8)), "") for name in unknown}


def _state(settings: Settings, ledger: str) -> State:
    folders, failure = spool_folders(settings), ""
    try:
        state_dir(settings)
    except BadInput as error:
        failure = str(error)
    spool = FileSpool(folders, ledger)
    waiting = tuple(f"{held.run.key} {held.run.period}" for _, held, _ in spool.waiting())
    return State(tuple(map(look_at, folders)), failure, waiting, spool.count() - len(waiting))
