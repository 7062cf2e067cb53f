"""The checkup: facts about the ground in, what they mean out. All rules are in the tables of the *_checks modules.

The bounds of the clock are those of an echo: a second, because cron fires at
the second, and above it a firing at the edge of a period may be in the one
before; and the echo window of an every-minute job, past which two hosts that
name two periods for one firing are not recognised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronguard.domain.cadence import Cadence
from cronguard.domain.diagnosis import Diagnosis
from cronguard.domain.ground import Asked, Host, Ledger, Output, PostgresGround, State, Unreached, Zone
from cronguard.domain.host_checks import HOST_RULES, output_checked, settings_checked, state_checked, zone_checked
from cronguard.domain.postgres_checks import POSTGRES_RULES, clock_checked
from cronguard.domain.sqlite_checks import SQLITE_RULES, unreached_checked

CLOCK_WARNING = timedelta(seconds=1)
CLOCK_PROBLEM = Cadence.parse("minute").echo_window
ZONE_SAMPLES, ZONE_STEP = 104, timedelta(days=7)  # two years: each change of clocks lies between two of them


@dataclass(frozen=True, slots=True)
class Ground:
    """All that was found."""

    asked: Asked
    ledger: Ledger
    zone: Zone
    state: State
    host: Host
    output: Output


def checked(ground: Ground) -> Iterator[Diagnosis]:
    """Every rule on every fact."""
    yield from settings_checked(ground.asked)
    yield from _ledger_checked(ground)
    at_ledger = ground.ledger.offsets if isinstance(ground.ledger, PostgresGround) else None
    yield from zone_checked(ground.zone, at_ledger)
    yield from state_checked(ground.state)
    for rule in HOST_RULES:
        yield from rule(ground.host)
    yield from output_checked(ground.output)


def _ledger_checked(ground: Ground) -> Iterator[Diagnosis]:
    it = ground.ledger
    if isinstance(it, Unreached):
        yield unreached_checked(it)
    elif isinstance(it, PostgresGround):
        for postgres_rule in POSTGRES_RULES:
            yield from postgres_rule(it, ground.asked)
        yield clock_checked(it, CLOCK_WARNING, CLOCK_PROBLEM)
    else:
        for sqlite_rule in SQLITE_RULES:
            yield from sqlite_rule(it, ground.asked)


def sampled_instants(now: datetime) -> list[datetime]:
    """At which zone data are compared."""
    return [now + step * ZONE_STEP for step in range(ZONE_SAMPLES)]
