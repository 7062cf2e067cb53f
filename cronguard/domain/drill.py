"""A drill: the failures that are caused on purpose, how long they take, and what they have shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from math import ceil
from statistics import median

from cronguard.domain.claim import LeaseTerms
from cronguard.domain.text import format_duration
from cronguard.domain.witness import Course, duplicates, is_lost, overlaps
from cronguard.errors import BadInput

TERMS = LeaseTerms.of(timedelta(seconds=5), timedelta(seconds=1), timedelta(seconds=0.5))
PERIOD = "drill"
LEAST_REPLICAS, MOST_REPLICAS, MOST_ROUNDS = 2, 20, 1000

_STARTS = 3.0  # seconds for all to be started, to ask, to work and to be gone; on a host that is not idle
_NOTICED = 1.5  # seconds between two looks of a stand-by, at most
_KEY = re.compile(r"drill-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(-\d+)?", re.ASCII)


class Harm(StrEnum):
    """What is done to whoever got the run."""

    NONE = "none"
    HOST_DIES = "host_dies"  # both processes of the guard and the command at once, as when the power fails
    GUARD_DIES = "guard_dies"  # one process of the guard; the other one is there to end it all
    FREEZE = "freeze"  # all three stand still until somebody else runs
    CUT = "cut"  # its way to the ledger, until somebody else runs


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of failure."""

    name: str
    meaning: str
    harm: Harm = Harm.NONE
    takes: float = _STARTS  # seconds of a round
    is_ahead: bool = False  # one replica's clock is a day ahead, and nobody names the period
    is_supervised: bool = False  # nobody stands by: supervisors request the recovery
    not_on: str = ""  # why it does not apply to a ledger on one host


_BY_LEASE = _STARTS + _NOTICED + TERMS.lease_for.total_seconds()

SCENARIOS = (
    Scenario("contention", "all replicas fire the same period at once"),
    Scenario("kill-holder", "the holder's host dies: guard and command at once", Harm.HOST_DIES, _BY_LEASE),
    Scenario("kill-guard", "kill -9 of one process of the holder's guard", Harm.GUARD_DIES, _STARTS + _NOTICED),
    Scenario("freeze", "the holder stands still past its lease, and goes on", Harm.FREEZE, _BY_LEASE),
    Scenario(
        "skewed-clock", "one replica's clock is a day ahead", is_ahead=True,
        not_on="on one host there is one clock",
    ),
    Scenario(
        "cut", "the holder's connection is cut past its lease", Harm.CUT, _BY_LEASE,
        not_on="a ledger in a file has no connection",
    ),
    Scenario(
        "two-supervisors", "the holder's host dies, and two supervise at once", Harm.HOST_DIES, _BY_LEASE,
        is_supervised=True,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Order:
    """One drill: under which key, what, by how many, how often."""

    key: str
    scenarios: tuple[Scenario, ...]
    replicas: int
    rounds: int
    on_one_host: bool  # the ledger is a file

    def applies(self, scenario: Scenario) -> bool:
        return not (self.on_one_host and scenario.not_on)

    @property
    def takes(self) -> timedelta:
        """About how long it takes, in whole seconds; the leases have to be waited for, so never much less."""
        seconds = sum(scenario.takes for scenario in self.scenarios if self.applies(scenario))
        return timedelta(seconds=ceil(seconds) * self.rounds)

    @property
    def amount(self) -> str:
        """How much there is to do, in words."""
        return f"{_many(len(self.scenarios), 'scenario')} of {_many(self.rounds, 'round')}"


def chosen(names: Sequence[str]) -> tuple[Scenario, ...]:
    """The scenarios of these names, in their own order; all of them where none is named. Raises BadInput."""
    known = [scenario.name for scenario in SCENARIOS]
    for name in names:
        if name not in known:
            raise BadInput(f"there is no scenario {name!r}; name one of {', '.join(known)}")
    return tuple(scenario for scenario in SCENARIOS if not names or scenario.name in names)


def check_time(order: Order, within: timedelta) -> None:
    """Raise BadInput where there is less time than the leases need."""
    if within < order.takes:
        needs = format_duration(order.takes)
        raise BadInput(
            f"{format_duration(within)} is less than what the leases need: {order.amount} take about {needs}; "
            "allow that, or ask for less by --rounds or --only"
        )


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def key_of_round(key: str, number: int) -> str:
    """Each round has a key of its own: what one leaves behind changes nothing for the next."""
    return f"{key}-{number}"


def is_drill_key(key: str) -> bool:
    """Whether only a drill can have made this key."""
    return _KEY.fullmatch(key) is not None


# --------------------------------------------------------------------------- what is seen meanwhile


class Seen(StrEnum):
    """What a replica is doing."""

    WAITS = "waits"  # starts, asks, or stands by
    RUNS = "runs"
    FROZEN = "frozen"
    CUT = "cut off"
    KILLED = "killed"
    DONE = "has run it"
    OVER = "gone"  # it had nothing to do, or was told to stop


# --------------------------------------------------------------------------- what was seen


@dataclass(frozen=True, slots=True)
class Round:
    """One round, with guard or without: the commands' own courses, and what else was wrong."""

    courses: tuple[Course, ...]
    recovered_in: float | None = None  # seconds from the harm to the next start
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tally:
    """One scenario, all its rounds."""

    scenario: Scenario
    bare: tuple[Round, ...] = ()
    guarded: tuple[Round, ...] = ()
    not_applied: str = ""

    @property
    def started(self) -> int:
        return sum(len(one.courses) for one in self.guarded)

    @property
    def duplicates_without_guard(self) -> int:
        return sum(duplicates(one.courses) for one in self.bare)

    @property
    def duplicates(self) -> int:
        return sum(duplicates(one.courses) for one in self.guarded)

    @property
    def overlaps(self) -> int:
        return sum(overlaps(one.courses) for one in self.guarded)

    @property
    def lost(self) -> int:
        return sum(is_lost(one.courses) for one in self.guarded)

    @property
    def recoveries(self) -> list[float]:
        """Seconds, in order."""
        return sorted(one.recovered_in for one in self.guarded if one.recovered_in is not None)

    @property
    def median_recovery(self) -> float | None:
        return median(self.recoveries) if self.recoveries else None

    @property
    def broken(self) -> tuple[str, ...]:
        """Which promises did not hold, in words; none where all did."""
        counted = ((self.overlaps, "two at once"), (self.duplicates - self.overlaps, "run again after its success"))
        lost = ((self.lost, "nobody ran it to its end"),)
        said = [f"{words} ({count})" for count, words in (*counted, *lost) if count > 0]
        return tuple([*said, *dict.fromkeys(_complaints(self.guarded))])


def is_kept(tallies: Iterable[Tally]) -> bool:
    return not any(tally.broken for tally in tallies)


def _complaints(rounds: Sequence[Round]) -> Iterable[str]:
    return (complaint for one in rounds for complaint in one.complaints)
