"""A fleet that goes wrong in every way it can, against a real ledger, and a witness who believes nobody.

Workers claim, beat, act and finish as `cronguard run` does, by the product's own ledger and trust; their commands are
marks on one clock, and two steps that they leave undone now and then. They freeze for longer than their lease, die
without a word, come back on new connections; and supervisors pass over the ledger meanwhile. Afterwards
`Witness.complaints` says what should not have happened.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise

from cronguard.clock import boottime
from cronguard.domain.claim import Granted, LeaseTerms
from cronguard.domain.lifecycle import Ending, Standing
from cronguard.domain.run import Outcome
from cronguard.domain.stepping import Beginning
from cronguard.errors import CronguardError
from cronguard.ports import Store, SupervisedStore
from cronguard.process.heartbeat import Trust
from tests.rig.firings import FAILED, SUCCEEDED, firing, ledger_on
from tests.rig.steps import asked, begin, end
from tests.rig.waiting import pause
from tests.rig.watching import pass_over

LEASE = 0.9
MARGIN = 0.2
TERMS = LeaseTerms(*(timedelta(seconds=seconds) for seconds in (LEASE, 0.2, 0.1, MARGIN)))
KEYS = ("alpha", "beta", "gamma", "delta", "epsilon")
AT_ONCE = 2  # periods of a key that are asked for at one time: few, so that they meet
STEPS = ("pull", "mails")
EACH_FOR = 2.0  # seconds, until the next takes the place of the oldest
INTERRUPTED = Ending(Outcome.INTERRUPTED, signal=15)
ACCEPTED = (Standing.MINE, Standing.LATE, Standing.ALREADY_SO)


@dataclass(frozen=True)
class Grant:
    """What a worker was told when it asked; by boottime when it asked and when it heard."""

    held: Granted
    asked_at: float
    heard_at: float


@dataclass(frozen=True)
class Finish:
    """What a worker told the ledger of its attempt, and what the ledger said to that."""

    held: Granted
    outcome: Outcome
    standing: Standing
    asked_at: float
    heard_at: float


@dataclass(frozen=True)
class Stepped:
    """A step that a worker was let begin, or (`is_over`) whose success the ledger has taken down."""

    held: Granted
    name: str
    is_over: bool
    asked_at: float
    heard_at: float

    @property
    def which(self) -> tuple[str, str, str]:
        return self.held.run.key, self.held.run.period, self.name


@dataclass
class Witness:
    """Everything that the workers themselves have seen; written down by many threads."""

    acts: list[tuple[float, str, int]] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    finishes: list[Finish] = field(default_factory=list)
    stepped: list[Stepped] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def complaints(self) -> list[str]:
        """What should not have happened, in words; nothing where all promises were kept."""
        of_runs = (*self._two_at_once(), *self._falling_tokens(), *self._old_tokens(), *self._run_again())
        return [*self.failures, *of_runs, *self._steps_missing(), *self._steps_by_old_tokens(), *self._steps_again()]

    def _two_at_once(self) -> list[str]:
        """Once a later holder has acted, none before it acts any more."""
        found = []
        for key in KEYS:
            acts = sorted(act for act in list(self.acts) if act[1] == key)
            found += [f"two at once: {one} then {other}" for one, other in pairwise(acts) if other[2] < one[2]]
        return found

    def _falling_tokens(self) -> list[str]:
        found = []
        for key in KEYS:
            ours = sorted(
                (grant for grant in self.grants if grant.held.run.key == key), key=lambda it: it.held.run.token
            )
            for one, other in pairwise(ours):
                if other.held.run.token == one.held.run.token or other.heard_at < one.asked_at:
                    found.append(f"tokens that do not rise: {one.held.run} then {other.held.run}")
        return found

    def _old_tokens(self) -> list[str]:
        """Nothing is finished by a holder after whom another had been told that it may run."""
        return [
            f"finished by an old token: {finish.held.run} after {grant.held.run}"
            for finish in self.finishes
            for grant in self.grants
            if finish.standing in ACCEPTED and grant.heard_at < finish.asked_at and _outranks(grant.held, finish)
        ]

    def _run_again(self) -> list[str]:
        """A period that has succeeded is over."""
        return [
            f"run again after its success: {grant.held.run}"
            for finish in self.finishes
            for grant in self.grants
            if finish.outcome is Outcome.SUCCEEDED and finish.standing in ACCEPTED
            and grant.held.run.period == finish.held.run.period and grant.held.run.key == finish.held.run.key
            and grant.asked_at > finish.heard_at
        ]  # fmt: skip

    def _steps_missing(self) -> list[str]:
        """A run in which a step was begun and never done is no success."""
        done = {it.which for it in self.stepped if it.is_over}
        return [
            f"succeeded without its step {it.name}: {finish.held.run}"
            for finish in self.finishes
            for it in self.stepped
            if finish.outcome is Outcome.SUCCEEDED and finish.standing in ACCEPTED
            and it.held.run.key == finish.held.run.key and it.held.run.period == finish.held.run.period
            and it.which not in done
        ]  # fmt: skip

    def _steps_by_old_tokens(self) -> list[str]:
        return [
            f"step {it.name} by an old token: {it.held.run} after {grant.held.run}"
            for it in self.stepped
            for grant in self.grants
            if grant.heard_at < it.asked_at
            and grant.held.run.key == it.held.run.key and grant.held.run.token > it.held.run.token
        ]  # fmt: skip

    def _steps_again(self) -> list[str]:
        done = {it.which: it.heard_at for it in self.stepped if it.is_over}
        return [
            f"step {it.name} begun after it was done: {it.held.run}"
            for it in self.stepped
            if not it.is_over and it.asked_at > done.get(it.which, it.asked_at)
        ]


def _outranks(later: Granted, finish: Finish) -> bool:
    """A token above, of the same key; for a late success, which takes nothing from another period, of the same run."""
    run, other = finish.held.run, later.run
    is_rival = finish.standing is Standing.MINE or other.period == run.period
    return other.key == run.key and other.token > run.token and is_rival


@dataclass
class Fleet:
    """So many workers and supervisors, until `stop`."""

    new_store: Callable[[], Store]
    new_supervised: Callable[[], SupervisedStore]
    seed: int
    witness: Witness = field(default_factory=Witness)
    over: threading.Event = field(default_factory=threading.Event)
    late_finishes: float = 0.4  # the share of them that come when the lease is over
    endings: tuple[int, int, int] = (1, 4, 2)  # how often they succeed, fail and are interrupted
    left_steps: float = 0.2  # the share of steps that are begun and not done
    began_at: float = field(default_factory=boottime)

    def run(self, workers: int, supervisors: int, until: Callable[[], bool]) -> Witness:
        bodies = [self._work] * workers + [self._supervise] * supervisors
        threads = [
            threading.Thread(target=self._guarded, args=(body, random.Random(f"{self.seed} {number}")))
            for number, body in enumerate(bodies)
        ]
        for thread in threads:
            thread.start()
        while not until():
            pause(0.05)
        self.over.set()
        for thread in threads:
            thread.join(60)
        return self.witness

    def _guarded(self, body: Callable[[random.Random], None], dice: random.Random) -> None:
        while not self.over.is_set():
            try:
                body(dice)
            except CronguardError as error:
                if error.exit_code != 75:  # asked in vain is no wrong answer
                    self.witness.failures.append(repr(error))
            except Exception as error:
                self.witness.failures.append(repr(error))

    # ----------------------------------------------------------------------- a worker's life

    def _work(self, dice: random.Random) -> None:
        """One firing; on a connection of its own, as after a restart of its host."""
        store = self.new_store()
        wanted = firing(dice.choice(KEYS), period=self._some_period(dice), terms=TERMS, attempts=100, recoveries=100)
        asked_at = boottime()
        verdict = ledger_on(store).claim(wanted, lambda _key, _period: None)
        if not isinstance(verdict.answer, Granted):
            self.over.wait(dice.uniform(0, 0.1))
            return
        held = verdict.answer
        self.witness.grants.append(Grant(held, asked_at, boottime()))
        trust = Trust(TERMS, on_news=lambda: None)
        trust.renew(verdict.sent_at, held.now, held.lease.lease_until, None)
        if self._act(store, held, trust, dice) and dice.random() > 0.2:  # else it dies without a word
            self._finish(store, held, dice)

    def _some_period(self, dice: random.Random) -> str:
        days = int((boottime() - self.began_at) / EACH_FOR) + dice.randrange(AT_ONCE)
        return str(date(2026, 1, 1) + timedelta(days=days))

    def _act(self, store: Store, held: Granted, trust: Trust, dice: random.Random) -> bool:
        """What its command does, while it may; false when the ledger has named another holder."""
        for _ in range(dice.randrange(1, 12)):
            now = boottime()
            if now < trust.until:
                self.witness.acts.append((now, held.run.key, held.run.token))
            self.over.wait(dice.uniform(1.0, 2.5) * LEASE if dice.random() < 0.08 else dice.uniform(0, 0.08))
            sent_at = boottime()
            answer = ledger_on(store).beat(held, TERMS)
            if answer is None:
                return False
            trust.renew(sent_at, answer.now, answer.lease_until, None)
        return all(self._step(store, held, name, dice) for name in STEPS)

    def _step(self, store: Store, held: Granted, name: str, dice: random.Random) -> bool:
        """Begun, and mostly done; false when the ledger has named another holder."""
        step, asked_at = asked(name), boottime()
        begun = begin(store, held, step).answer
        if begun is Beginning.GRANTED:
            self.witness.stepped.append(Stepped(held, name, False, asked_at, boottime()))
            self.over.wait(dice.uniform(1.0, 2.5) * LEASE if dice.random() < 0.05 else 0)
            if dice.random() < self.left_steps:
                return True
            asked_at = boottime()
            standing = end(store, held, step)
            if standing in ACCEPTED:
                self.witness.stepped.append(Stepped(held, name, True, asked_at, boottime()))
            return standing in ACCEPTED
        return begun is not Beginning.LOST

    def _finish(self, store: Store, held: Granted, dice: random.Random) -> None:
        if dice.random() < self.late_finishes:
            self.over.wait(dice.uniform(1.2, 3.0) * LEASE)
        ending = dice.choices((SUCCEEDED, FAILED, INTERRUPTED), self.endings)[0]
        asked_at = boottime()
        standing = ledger_on(store).finish(held, ending, asked_at + 5)
        self.witness.finishes.append(Finish(held, ending.outcome, standing, asked_at, boottime()))

    # ----------------------------------------------------------------------- a supervisor's

    def _supervise(self, dice: random.Random) -> None:
        store = self.new_supervised()
        for _ in range(5):
            pass_over(store, host=f"supervisor-{dice.randrange(3)}", lease_for=TERMS.lease_for)
            self.over.wait(2 * LEASE if dice.random() < 0.1 else dice.uniform(0, 0.2))
