"""cronguard doctor: gather the facts, say what they mean; and the same once more under cron's environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from cronguard.clock import host_now
from cronguard.domain.checkup import Ground, checked, sampled_instants
from cronguard.domain.cron_checks import cron_checked
from cronguard.domain.diagnosis import Diagnosis, diagnosis_in, in_order
from cronguard.domain.ground import Asked, Ledger, State, UnderCron, Unreached, Zone
from cronguard.errors import CronguardError
from cronguard.ports import Groundwork
from cronguard.process.again import run_again
from cronguard.process.ground import host_seen, output_seen


@dataclass(frozen=True, slots=True)
class Subject:
    """Who is examined: what the settings say, and the way to the ledger."""

    asked: Asked
    ledger: Groundwork | str  # or why its address makes no sense
    ledger_place: str  # where its address was set
    state: State
    zone: ZoneInfo | None
    zone_failure: str = ""


def examined(subject: Subject) -> list[Diagnosis]:
    """One checkup. The host comes first: it forks, for which there must be no connection yet."""
    host, output = host_seen(), output_seen()
    instants = sampled_instants(host_now())
    ledger = _looked_at(subject, instants)
    ground = Ground(subject.asked, ledger, _zone_seen(subject, instants), subject.state, host, output)
    return in_order(checked(ground))


def _looked_at(subject: Subject, instants: Sequence[datetime]) -> Ledger:
    """That it cannot be reached is a finding too."""
    if isinstance(subject.ledger, str):
        return Unreached(subject.ledger, is_nonsense=True)
    try:
        return subject.ledger.look(subject.zone.key if subject.zone else None, instants)
    except CronguardError as error:
        return Unreached(str(error), subject.ledger_place)


def _zone_seen(subject: Subject, instants: Sequence[datetime]) -> Zone:
    zone = subject.zone
    if zone is None:
        return Zone("", subject.zone_failure)
    offsets = (instant.astimezone(zone).utcoffset() or timedelta() for instant in instants)
    return Zone(zone.key, offsets=tuple(offsets))


def examined_under_cron(
    it: UnderCron, arguments: Sequence[str], environment: Mapping[str, str], here: Sequence[Diagnosis]
) -> list[Diagnosis]:
    """The same checkup by a process of its own, which has no more than cron would give it."""
    there: list[Diagnosis] = []
    try:
        said, complaint = run_again(["doctor", "--json", *arguments], environment)
        there = [diagnosis_in(document) for document in json.loads(said)["findings"]]
    except OSError as error:
        it = replace(it, failure=str(error))
    except (ValueError, KeyError):
        lines = complaint.strip().splitlines()
        it = replace(it, failure=lines[-1] if lines else "the checkup says nothing")
    return in_order([*here, *cron_checked(it, here, there)])
