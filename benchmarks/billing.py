"""Reminders sent twice, before and after: check, send, record against claim, send, confirm, with a replica killed in
each round: python -m benchmarks.billing."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from benchmarks.cases import CRONGUARD, DATABASE, clean_environment
from benchmarks.report import machine, print_table
from tests.rig.billing import Billing, Tally, kill_one, wait_for_all
from tests.rig.guard import Guard
from tests.rig.mailbox import Mailbox
from tests.rig.postgres import Server

TITLES = ("job", "rounds", "customers", "e-mails", "duplicates", "most to one", "unknown", "of these sent", "forgotten")
NO_GUARD = "no guard"
JOBS = {
    NO_GUARD: "before: three replicas, nobody guards; check, send, record",
    "naive": "half-way: cronguard run; check, send, record",
    "python": "after: cronguard run; claim, send, confirm from Python",
    "cli": "after: the same, from a shell",
    "sql": "after: the same, from psql",
}


@dataclass(frozen=True)
class Rounds:
    """What was seen of one way to send, over all its rounds."""

    way: str
    tallies: Sequence[Tally]

    def row(self) -> list[str]:
        got = [tally.got for tally in self.tallies]
        figures = [
            len(self.tallies),
            sum(tally.customers for tally in self.tallies),
            sum(sum(one.values()) for one in got),
            sum(tally.duplicates for tally in self.tallies),
            max(max(one.values(), default=0) for one in got),
            sum(len(tally.unknown) for tally in self.tallies),
            sum(len(tally.got.keys() & tally.unknown) for tally in self.tallies),
            sum(len(tally.unsent) for tally in self.tallies),
        ]
        return [JOBS[self.way], *(f"{figure:,}" for figure in figures)]


def main() -> None:
    options = _options()
    with a_billing(options.customers) as (billing, server):
        print(machine(server.execute("show server_version")[0][0].split()[0]))
        print(f"random seed {options.seed}", end="\n\n")
        rows = [play(billing, way, options.rounds, options.seed + n).row() for n, way in enumerate(options.ways)]
    print_table(TITLES, rows)


def play(billing: Billing, way: str, rounds: int, seed: int) -> Rounds:
    """The same moments of death for nobody: each way has its own speed, and its own luck."""
    luck = random.Random(seed)
    first = date(2000 + list(JOBS).index(way), 1, 1)
    return Rounds(way, [a_round(billing, way, str(first + timedelta(days=n)), luck) for n in range(rounds)])


def a_round(billing: Billing, way: str, period: str, luck: random.Random) -> Tally:
    """Three replicas fire at once, one is killed at a random moment, the others end by themselves."""
    replicas = billing.fire_unguarded(period) if way == NO_GUARD else billing.fire(way, period)
    killed = kill_one(billing, period, replicas, luck)
    ended = wait_for_all(replicas)
    tally = billing.tally(period)
    print(f"{way} {period}: {killed}; {tally.duplicates} duplicates, {len(tally.unknown)} unknown", file=sys.stderr)
    assert sum(code == 0 for code, _ in ended) >= len(replicas) - 1, ended
    return tally


@contextmanager
def a_billing(customers: int) -> Iterator[tuple[Billing, Server]]:
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronguard-bench-")))
        server = stack.enter_context(Server(fsync="on", full_page_writes="on"))
        mailbox = stack.enter_context(Mailbox())
        state = {"CRONGUARD_STATE_DIR": str(scratch / "state")}
        environment = (
            clean_environment(scratch) | state | {"CRONGUARD_DSN": server.dsn(server.create_database(DATABASE))}
        )
        guard = Guard(scratch, environment)
        stack.callback(guard.clean_up)
        subprocess.run([CRONGUARD, "init"], env=environment, check=True, capture_output=True)
        yield Billing(guard, mailbox, customers), server


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.billing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of each way, with a replica killed in each [10]")
    parser.add_argument("--customers", type=int, default=60, help="how many are to be reminded [60]")
    parser.add_argument("--ways", nargs="+", choices=JOBS, default=list(JOBS), metavar="WAY", help="[all of them]")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="of the luck [random]")
    return parser.parse_args()


if __name__ == "__main__":
    main()
