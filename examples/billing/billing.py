"""Billing: three replicas fire a job in three steps, one is killed midway, and everybody's e-mails are counted.

`run` starts this file. The story is `play`; the job is `job.sh`; what plays it, here and in the tests, is
tests/rig/billing.py.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.rig.billing import KEY, KIND, Billing, Tally, at_work, holder, host_dies
from tests.rig.guard import Guard, code_of
from tests.rig.mailbox import Mailbox
from tests.rig.postgres import Server
from tests.rig.waiting import wait_until

NAMES = ("alpha", "beta", "gamma")
UP_WITHIN = 60  # seconds
OVER_WITHIN = 300


def main() -> int:
    parser = argparse.ArgumentParser(prog="run", description="Three replicas, one billing job, one kill -9.")
    parser.add_argument(
        "--by", choices=("python", "cli", "sql"), default="python", help="how e-mails are sent (python)"
    )
    parser.add_argument("--customers", type=_customers, default=300, metavar="N", help="how many there are (300)")
    options = parser.parse_args()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    if options.by == "sql" and not shutil.which("psql"):
        return cannot("there is no psql; on Debian type: apt-get install postgresql-client")
    try:
        with Mailbox() as mailbox, a_ledger() as guard:
            return play(Billing(guard, mailbox, options.customers), options.by, str(datetime.now(UTC).date()))
    except (RuntimeError, AssertionError) as reason:  # of the rig: what did not start, what took too long
        return cannot(str(reason))


def play(billing: Billing, way: str, period: str) -> int:
    """Fire three replicas, kill the one that works when half of the e-mails are out, wait for the others, count."""
    say(f"{billing.customers} customers, three replicas, e-mails by {way}; half-way the one that works is killed\n")
    replicas = dict(zip(NAMES, billing.fire(way, period), strict=True))
    billing.wait_for_mails(period, billing.customers // 2, list(replicas.values()))
    works = holder(list(replicas.values()))
    victim = next(name for name, replica in replicas.items() if replica is works)
    host_dies(works)
    say(f"{victim} runs the job, has sent {billing.sent(period)} e-mails, and is killed with -9; no other has sent any")
    heir = who_took_over(replicas, victim)
    codes = {name: code_of(replica, OVER_WITHIN) for name, replica in replicas.items()}
    say(f"{heir} took over when the lease was over, and passed over the steps that were done")
    say(f"exit codes: {', '.join(f'{name} {code}' for name, code in codes.items())}")
    view(billing, "show", KEY, period)
    tally = billing.tally(period)
    view(billing, "effects", KIND, "--period", period, "--state", "unknown")
    return verdict(tally)


def who_took_over(replicas: dict[str, subprocess.Popen[str]], victim: str) -> str:
    """Whoever of the others is the first to run the job."""
    others = {name: replica for name, replica in replicas.items() if name != victim}
    works = wait_until(lambda: [name for name in others if at_work(others[name])], UP_WITHIN, saying="another runs it")
    return works[0]


def verdict(tally: Tally) -> int:
    """Per customer: how many e-mails the mail server took, and what the ledger says."""
    once = sum(count == 1 and who not in tally.unknown for who, count in tally.got.items())
    arrived = len(tally.got.keys() & tally.unknown)
    say(f"\nsent once:   {once}")
    say(f"unknown:     {len(tally.unknown)}  (of these the mail server took {arrived}; a person looks)")
    say(f"duplicates:  {tally.duplicates}")
    say(f"forgotten:   {len(tally.unsent)}")
    right = not tally.duplicates and not tally.unsent
    say(f"\nVERDICT: {'RIGHT, nobody got two, and nobody was forgotten without a word' if right else 'WRONG'}")
    return 0 if right else 1


# --- What it takes ----------------------------------------------------------------------------------------------------


@contextmanager
def a_ledger() -> Iterator[Guard]:
    """cronguard, on a Postgres that is started here and removed afterwards, with whoever still runs."""
    folder = Path(tempfile.mkdtemp(prefix="billing-"))
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LANG": "C.UTF-8", "TZ": "UTC"}
    try:
        with Server() as server:
            dsn = server.dsn(server.create_database(KEY))
            guard = Guard(folder, environment | {"CRONGUARD_DSN": dsn, "CRONGUARD_STATE_DIR": str(folder / "state")})
            made = guard.run("init")
            if made.code:
                raise RuntimeError(f"the ledger cannot be prepared; {made.err.strip()}")
            try:
                yield guard
            finally:
                guard.clean_up()
    finally:
        shutil.rmtree(folder)


def view(billing: Billing, *arguments: str) -> None:
    """Print what cronguard prints, below what was typed."""
    result = billing.guard.run(*arguments)
    say(f"\n$ cronguard {' '.join(arguments)}\n{(result.out or result.err).rstrip()}")


def say(text: str) -> None:
    print(text, flush=True)


def cannot(why: str) -> int:
    print(f"billing: cannot run here: {why}", file=sys.stderr)
    return 2


def _customers(text: str) -> int:
    if not text.isdigit() or not 2 <= int(text) <= 9999:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 2 to 9999")
    return int(text)


def _leave(number: int, _frame: object) -> None:
    """End as by the signal, but tear everything down first, undisturbed."""
    for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
