"""A witness outside the product: what the commands themselves have written down, held against what a ledger says.

`attempts_in(folder)` reads the marks (tests/rig/marks.py); `judge(attempts, told)` is pure, and finds

    overlaps         two attempts of one key at once
    doubles          an attempt that began after the ledger had written that its period succeeded; two that succeeded
    done_again       a period that came to its end with exit 0 more than once: nobody had heard of the first one
    lost             a command ended with exit 0, but at the end neither the ledger nor any spool knows of a success
    false_successes  the ledger says that an attempt succeeded which has left no end mark with exit 0
    never_done       a period that was to be run, and never came to its end with exit 0

Whoever is judged without a ledger (flock, an advisory lock) is judged by overlaps, done_again and never_done.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar

Period = tuple[str, str]  # key, label


@dataclass(frozen=True, order=True)
class Attempt:
    """One process that ran a command, by its own marks; instants in seconds since boot."""

    began_at: float
    key: str
    period: str
    token: str
    pid: int
    last_seen_at: float
    exit_code: int | None = None  # None: no end mark; it was killed, or lives

    @property
    def ended_well(self) -> bool:
        return self.exit_code == 0

    def __str__(self) -> str:
        end = f"exit {self.exit_code}" if self.exit_code is not None else "no end"
        span = f"{self.began_at:.3f} to {self.last_seen_at:.3f}"
        return f"{self.key} {self.period} token {self.token or '-'} pid {self.pid} ({span}, {end})"


@dataclass(frozen=True)
class Told:
    """What the ledger says of one period at the end, or what a spool still has to tell it."""

    key: str
    period: str
    state: str  # succeeded, failed, …
    succeeded: tuple[tuple[str, float], ...] = ()  # the token of each attempt said to have succeeded; since when said
    spooled: bool = False  # a result of it waits on some host


@dataclass
class Verdict:
    """What should not have happened, a sentence each; `done_again` may be nobody's fault."""

    overlaps: list[str] = field(default_factory=list)
    doubles: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    false_successes: list[str] = field(default_factory=list)
    done_again: list[str] = field(default_factory=list)
    never_done: list[str] = field(default_factory=list)

    @property
    def complaints(self) -> list[str]:
        """Everything but `done_again`, each with its kind."""
        return [
            f"{kind.name}: {one}"
            for kind in fields(self)
            for one in getattr(self, kind.name)
            if kind.name != "done_again"
        ]


def attempts_in(folder: Path) -> list[Attempt]:
    """Every attempt that has left its marks in this folder, by its begin."""
    return sorted(attempt for path in folder.glob("*.marks") if (attempt := _attempt(path.read_text())))


def judge(
    attempts: Sequence[Attempt],
    told: Iterable[Told] | None = None,
    expected: Iterable[Period] = (),
    forgiven: Callable[[Attempt, Attempt], bool] = lambda _older, _newer: False,
) -> Verdict:
    """Hold the marks against what the ledger says (None: there is no ledger); `expected` was to be done.

    `forgiven` tells which overlaps are a hole that is known and bounded.
    """
    verdict = Verdict()
    of_key, of_period = _grouped(attempts, lambda it: it.key), _grouped(attempts, lambda it: (it.key, it.period))
    pairs = [pair for found in of_key.values() for pair in overlapping(found)]
    verdict.overlaps = [f"{older} and {newer}" for older, newer in pairs if not forgiven(older, newer)]
    well = {period: [it for it in found if it.ended_well] for period, found in of_period.items()}
    verdict.done_again = [f"{found[0]}, and again {found[1]}" for found in well.values() if len(found) > 1]
    verdict.never_done = [f"{key} {label}" for key, label in expected if not well.get((key, label))]
    if told is not None:
        _hold_against(verdict, of_period, {(one.key, one.period): one for one in told})
    return verdict


def _hold_against(verdict: Verdict, of_period: dict[Period, list[Attempt]], told: dict[Period, Told]) -> None:
    for period, found in of_period.items():
        ledger = told.get(period) or Told(*period, state="(unknown)")
        verdict.doubles += _doubles(found, ledger)
        well = [it for it in found if it.ended_well]
        if well and ledger.state != "succeeded" and not ledger.spooled:
            verdict.lost.append(f"{well[-1]}; the ledger says {ledger.state}")
    for period, ledger in told.items():
        seen = {it.token for it in of_period.get(period, []) if it.ended_well}
        unseen = [token for token, _ in ledger.succeeded if token not in seen]
        if unseen or (ledger.state == "succeeded" and not seen):
            verdict.false_successes.append(f"{ledger.key} {ledger.period} token {', '.join(unseen) or '-'}")


def overlapping(found: Iterable[Attempt]) -> list[tuple[Attempt, Attempt]]:
    """Those of one key that lived at once; each against whoever of those before was seen last."""
    pairs, latest = [], None
    for attempt in sorted(found):
        if latest and attempt.began_at < latest.last_seen_at:
            pairs.append((latest, attempt))
        latest = max(filter(None, (latest, attempt)), key=lambda it: it.last_seen_at)
    return pairs


def _doubles(found: Sequence[Attempt], ledger: Told) -> list[str]:
    said_at = min((at for _, at in ledger.succeeded), default=float("inf"))
    twice = [f"{ledger.key} {ledger.period} succeeded twice by the ledger itself"] * (len(ledger.succeeded) > 1)
    return twice + [f"{attempt}; succeeded at {said_at:.3f}" for attempt in found if attempt.began_at > said_at]


Group = TypeVar("Group")


def _grouped(attempts: Iterable[Attempt], by: Callable[[Attempt], Group]) -> dict[Group, list[Attempt]]:
    groups: dict[Group, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        groups[by(attempt)].append(attempt)
    return groups


def _attempt(text: str) -> Attempt | None:
    """None where even the first mark is not whole; the last one may be half written."""
    marks = [line.split("\t") for line in text.split("\n")[:-1]]
    if not marks:
        return None
    _, began, key, period, token, pid = marks[0]
    kind, last, *rest = marks[-1]
    code = int(rest[0]) if kind == "end" else None
    return Attempt(int(began) / 1e9, key, period, token, int(pid), int(last) / 1e9, code)


def boottime_of(wall: float) -> float:
    """A wall clock's instant (seconds since the epoch) of this machine on the clock of the marks."""
    return wall - time.time() + time.clock_gettime(time.CLOCK_BOOTTIME)
