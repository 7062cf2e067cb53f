"""Some keys, each held at its moment; one fault for all of them; a second host; and the witness at the end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from cronguard.clock import NEVER, boottime
from cronguard.domain.run import Outcome, Record
from tests.faults.faults import MOMENTS, TERMS, Fault
from tests.faults.scene import Scene
from tests.rig import marks
from tests.rig.den import at_home
from tests.rig.host import Fired, Host
from tests.rig.processes import alive
from tests.rig.waiting import wait_until
from tests.rig.witness import Attempt, Told, attempts_in, boottime_of, judge, overlapping

PATIENT = 90.0  # seconds
FIRINGS_TO_SETTLE = 4


@dataclass
class Tally:
    """What came out of the rounds of one cell."""

    rounds: int = 0
    broken: list[str] = field(default_factory=list)
    done_again: int = 0
    beside: list[float] = field(default_factory=list)  # seconds that a known hole has lasted

    def __str__(self) -> str:
        held = f"held {self.rounds - len(self.broken)}/{self.rounds}"
        again = f", {self.done_again} done again" if self.done_again else ""
        beside = f", {len(self.beside)} beside another for {max(self.beside):.2f} s at most" if self.beside else ""
        return f"{'**BROKE** ' if self.broken else ''}{held}{again}{beside}"

    def add(self, other: Tally) -> None:
        self.rounds += other.rounds
        self.broken += other.broken
        self.done_again += other.done_again
        self.beside += other.beside


@dataclass
class Batch:
    """`number` tells it from the others in its scene; `moments` are those of its keys, one each."""

    fault: Fault
    scene: Scene
    number: int
    moments: Sequence[str]
    dice: random.Random

    def __post_init__(self) -> None:
        self.folder = self.scene.folder / f"batch-{self.number}"
        self.marks, self.holds = self.folder / "marks", self.folder / "holds"
        for folder in (self.marks, self.holds):
            folder.mkdir(parents=True)
        self.keys = {f"b{self.number}k{place:02}": moment for place, moment in enumerate(self.moments)}
        self.began_at = datetime.now(UTC)
        self.complaints: list[str] = []

    def run(self) -> dict[str, Tally]:
        """From the first firing to the verdict on each moment."""
        self.fault.prepare(self.scene)
        struck = self._fire_and_hold()
        standing_by = self._stand_by() if self.fault.is_awaited else []
        self.fault.strike(self.scene, struck, self.dice)
        heal_at = boottime() + self.fault.lasts(self.dice)
        self._let_go()
        standing_by = standing_by or self._stand_by()
        wait_until(lambda: boottime() >= heal_at, PATIENT, saying="the fault is over")
        self.healed_at = boottime()
        self.fault.heal(self.scene, struck)
        (self.folder / "go").touch()
        self._wait_for(self.scene.far, standing_by)
        self._wait_for(self.scene.near, struck)
        self._settle()
        self._look_for_leftovers()
        return self._judged()

    # ----------------------------------------------------------------------- until it strikes

    def _fire_and_hold(self) -> list[Fired]:
        """Who holds a claim that nothing renews comes last: its lease is running out."""
        last = [key for key, moment in self.keys.items() if moment == "between claim and start"]
        first = [key for key in self.keys if key not in last]
        struck: dict[str, Fired] = {}
        for keys in filter(None, (first, last)):
            struck.update({key: self._fire_near(key) for key in keys})
            wait_until(partial(self._held, keys, struck), PATIENT, saying="all are held")
        return list(struck.values())

    def _held(self, keys: Sequence[str], struck: dict[str, Fired]) -> bool:
        """A busy machine may need so long for a claim that the command is not even started: then it is fired again."""
        begun = {attempt.key for attempt in attempts_in(self.marks)}
        running = {key for key in begun if self.keys[key] == "running"}
        left = [key for key in keys if key not in running and not (self.holds / f"{key}.held").exists()]
        struck.update({key: self._fire_near(key) for key in left if struck[key].code is not None})
        return not left

    def _fire_near(self, key: str) -> Fired:
        moment = self.keys[key]
        lab = {"LAB_HOLD": MOMENTS[moment], "LAB_HOLDS": str(self.holds)} if MOMENTS[moment] else {}
        until = self.folder / "go" if moment == "running" else 0.1
        more = self.fault.environment_of(self.scene, moment)
        return self.scene.near.fire(*self._run(key), "--", *marks.command(self.marks, until), **lab, **more)

    def _run(self, key: str, *options: str) -> tuple[str, ...]:
        return ("run", "--key", key, *self.fault.period, *TERMS, *options)

    # ----------------------------------------------------------------------- from there on

    def _let_go(self) -> None:
        for key in self.keys:
            (self.holds / f"{key}.go").touch()

    def _stand_by(self) -> list[Fired]:
        """The far host wants every one of them, as soon as it may."""
        return [self._fire_far(key, "--if-held", "wait") for key in self.keys]

    def _fire_far(self, key: str, *options: str) -> Fired:
        run, more = self._run(key, *options, "--db-wait", "30s"), self.fault.environment_of_far(self.scene)
        return self.scene.far.fire(*run, "--", *marks.command(self.marks, 0.1), **more)

    def _wait_for(self, host: Host, fired: Sequence[Fired]) -> None:
        """Who has died with a host that was rebooted has no exit code. That nobody is at home there says nothing: an
        order that was given a moment ago may not have been heard yet."""
        try:
            wait_until(lambda: all(map(host.is_over, fired)), PATIENT, every=0.05)
        except AssertionError:
            self.complaints.append(f"still there: {[one.said for one in fired if not host.is_over(one)]}")

    def _settle(self) -> None:
        """Both hosts fire again, until every period has succeeded, and then once more, when nobody may run it."""
        for _ in range(FIRINGS_TO_SETTLE):
            left = self._unsettled()
            self._wait_for(self.scene.far, [self._fire_far(key, "--if-held", "wait") for key in left])
            near = [self.scene.near.fire(*self._run(key), "--", *marks.command(self.marks, 0)) for key in self.keys]
            self._wait_for(self.scene.near, near)
            if not left:
                return
        self.complaints += [f"never settled: {key}" for key in self._unsettled()]

    def _unsettled(self) -> list[str]:
        store = self.scene.store()
        return [
            key
            for key in self.keys
            if not any(one.run and one.run.state == "succeeded" for one in store.history(key, 10))
        ]

    # ----------------------------------------------------------------------- the verdict

    def _judged(self) -> dict[str, Tally]:
        attempts, store = attempts_in(self.marks), self.scene.store()
        self._look_at_what_was_said()
        tallies: dict[str, Tally] = {}
        for key, moment in self.keys.items():
            records = [store.show(key, one.period) for one in store.history(key, 10)]
            of_key = [attempt for attempt in attempts if attempt.key == key]
            told = [told_by(record, self.fault.moves_the_ledgers_clock) for record in records if record]
            verdict = judge(of_key, told, forgiven=self._is_known_hole)
            found = [*verdict.complaints, *self._wrong_periods(of_key), *self._about(key)]
            broken = ["; ".join(found)] if found else []
            beside = [self._beside(*pair) for pair in overlapping(of_key) if self._is_known_hole(*pair)]
            tallies.setdefault(moment, Tally()).add(Tally(1, broken, len(verdict.done_again), beside))
        return tallies

    def _is_known_hole(self, older: Attempt, newer: Attempt) -> bool:
        return 0 <= self._beside(older, newer) < self.fault.hole

    def _beside(self, older: Attempt, newer: Attempt) -> float:
        """Seconds that one has acted although another might; who was frozen has not acted meanwhile."""
        since = max(newer.began_at, self.healed_at) if self.fault.freezes else newer.began_at
        return older.last_seen_at - since

    def _wrong_periods(self, attempts: Sequence[Attempt]) -> list[str]:
        """What no label names is named by the ledger's clock, whatever a host's says."""
        if "--every" not in self.fault.period:
            return []
        right = {f"{at:%Y-%m-%dT%H}:00Z" for at in (self.began_at, datetime.now(UTC))}
        return [f"a wrong period: {attempt}" for attempt in attempts if attempt.period not in right]

    def _look_for_leftovers(self) -> None:
        """Whoever was killed, nothing of it lives on."""
        for host in (self.scene.near, self.scene.far):
            with suppress(AssertionError):
                wait_until(lambda host=host: not any(map(alive, at_home(host.folder))), 30, every=0.1)
                continue
            self.complaints.append(f"left alive: {at_home(host.folder)}")

    def _look_at_what_was_said(self) -> None:
        for host in (self.scene.near, self.scene.far):
            for fired in host.fired:
                if "Traceback" in fired.said or "internal error" in fired.said:
                    self.complaints.append(f"it crashed: {fired.said}")
            self.complaints += filter(None, [host.said()])

    def _about(self, key: str) -> list[str]:
        """What concerns the whole batch is told with its first key."""
        return self.complaints if key == next(iter(self.keys)) else []


def told_by(record: Record, by_a_wrong_clock: bool = False) -> Told:
    """What the ledger says of one period."""
    succeeded = tuple(
        (str(one.token), NEVER if by_a_wrong_clock else boottime_of(one.finished_at.timestamp()))
        for one in record.attempts
        if one.outcome is Outcome.SUCCEEDED and one.finished_at
    )
    return Told(record.key, record.period, str(record.run.state) if record.run else "(none)", succeeded)
