"""examples/billing, played: three replicas fire the job, one dies, and everybody's e-mails are counted."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.rig.guard import Guard
from tests.rig.mailbox import Mailbox
from tests.rig.processes import descendants, kill_tree
from tests.rig.waiting import pause, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "billing"
KEY, KIND = "billing", "reminder"
REPLICAS = 3
SEND_WITHIN = 2  # seconds
# What a test can wait for when its holder dies, and what a holder that has no CPU for a while does not lose.
SHORT_LEASE = ("--lease", "8s", "--stop-grace", "1s", "--beat-every", "0.5s")
OVER_WITHIN = 300.0
BEFORE_THE_MAILS = 2.0  # seconds in which a round that dies early has come to pull, or to balances


@dataclass(frozen=True)
class Tally:
    """What became of one period's e-mails."""

    customers: int
    got: dict[str, int]
    unknown: frozenset[str]

    @property
    def duplicates(self) -> int:
        """E-mails too many."""
        return sum(count - 1 for count in self.got.values())

    @property
    def unsent(self) -> set[str]:
        """Who got none, and is not reported either."""
        return self.everybody() - self.got.keys() - self.unknown

    def everybody(self) -> set[str]:
        return {f"customer-{n:04}@example.com" for n in range(1, self.customers + 1)}


@dataclass(frozen=True)
class Billing:
    """The example on one ledger, with one mail server; each round is a period of its own."""

    guard: Guard
    mailbox: Mailbox
    customers: int

    def by(self, way: str, **variables: str) -> Guard:
        """A host on which the job finds what it needs, and sends its e-mails in this way."""
        path = os.pathsep.join([str(Path(sys.executable).parent), self.guard.environment["PATH"]])
        told = {"BILLING_DSN": self.guard.environment["CRONGUARD_DSN"], "BILLING_SMTP": self.mailbox.address}
        told |= {"BILLING_CUSTOMERS": str(self.customers), "BILLING_SEND_WITHIN": str(SEND_WITHIN)}
        return self.guard.with_env(PATH=path, BILLING_BY=way, **told, **variables)

    def fire(self, way: str, period: str) -> list[subprocess.Popen[str]]:
        """All replicas at once; those that find the run held stand by."""
        words = ["run", "--key", KEY, "--period", period, *SHORT_LEASE, "--if-held", "wait", "--"]
        return [self.by(way).start(*words, EXAMPLE / "job.sh") for _ in range(REPLICAS)]

    def fire_unguarded(self, period: str) -> list[subprocess.Popen[str]]:
        """All replicas at once, and cronguard nowhere."""
        host = self.by("naive", CRONGUARD_PERIOD=period)
        started = [
            subprocess.Popen(
                [EXAMPLE / "unguarded.sh"], env=dict(host.environment), cwd=host.folder, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            ) for _ in range(REPLICAS)
        ]  # fmt: skip
        self.guard.started.extend(started)
        return started

    def sent(self, period: str) -> int:
        """How many e-mails have gone out so far."""
        return self.mailbox.taken(subject_of(period)).total()

    def wait_for_mails(self, period: str, count: int, replicas: Sequence[subprocess.Popen[str]] = ()) -> None:
        """Wait until so many have gone out, or all replicas have ended without."""

        def over() -> bool:
            return bool(replicas) and all(one.poll() is not None for one in replicas)

        wait_until(lambda: self.sent(period) >= count or over(), OVER_WITHIN, saying=f"{count} e-mails")

    def tally(self, period: str) -> Tally:
        """Once whatever was abandoned reads as unknown."""
        wait_until(lambda: not self.effects(period, "sending"), 60, every=0.2, saying="no effect is on its way")
        got = dict(self.mailbox.taken(subject_of(period)))
        return Tally(self.customers, got, frozenset(self.effects(period, "unknown")))

    def effects(self, period: str, state: str) -> list[str]:
        """The customers whose reminder is in this state, as the program tells it."""
        asked = ("effects", KIND, "--period", period, "--state", state, "-n", "10000", "--json")
        result = self.guard.run(*asked)
        assert result.code == 0, result.err
        return [found["subject"] for found in json.loads(result.out)["effects"]]


def subject_of(period: str) -> str:
    return f"Your balance of {period}"


def holder(replicas: Sequence[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """The one that runs the job: those that stand by have a worker, and nothing below it."""
    return max(replicas, key=lambda one: len(descendants(one.pid)))


def at_work(replica: subprocess.Popen[str]) -> bool:
    return len(descendants(replica.pid)) > 1


def host_dies(replica: subprocess.Popen[str]) -> None:
    """Guardian, worker and whatever the job has started, at once; it forks so often that one look is not enough."""
    kill_tree(replica.pid)
    replica.wait(30)


def kill_one(billing: Billing, period: str, replicas: Sequence[subprocess.Popen[str]], luck: random.Random) -> str:
    """A random replica, most often the one that works, at a random moment: before the e-mails or among them."""
    moment = luck.randrange(-billing.customers // 3, billing.customers)
    if moment < 0:
        pause(luck.uniform(0, BEFORE_THE_MAILS))
    else:
        billing.wait_for_mails(period, moment, replicas)
    works = holder(replicas)
    victim = luck.choice([works, works, works, *replicas])
    what = f"{'the holder' if victim is works else 'a stand-by'} after {billing.sent(period)} e-mails"
    host_dies(victim)
    return what


def wait_for_all(replicas: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """How each ended, and what it said."""
    said = [one.communicate(timeout=OVER_WITHIN)[1] for one in replicas]
    return [(one.returncode, words) for one, words in zip(replicas, said, strict=True)]
