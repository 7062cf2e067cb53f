"""Claiming a long list of subjects, against a shell loop of one INSERT a process: python -m benchmarks.effects."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cases import CRONGUARD, DATABASE, clean_environment
from benchmarks.report import machine, print_table
from tests.rig.postgres import Server
from tests.rig.proxy import Proxy

TITLES = ("what", "subjects", "won", "each once", "seconds", "subjects/s", "round trips", "peak MB")
INSERT = "insert into sent values ('customer-$n@example.com') on conflict do nothing"
NOT_ASKED = "-"


@dataclass(frozen=True)
class World:
    """A list, and the ledgers that it is claimed in, by their environments."""

    subjects: Path
    count: int
    claimers: int
    processes: int
    server: Server
    environments: Mapping[str, dict[str, str]]


@dataclass(frozen=True)
class Cost:
    seconds: float
    peak: float  # MB, of the largest process
    won: int
    distinct: int


def main() -> None:
    options = _options()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronguard-bench-")))
        server = stack.enter_context(Server(fsync="on", full_page_writes="on"))
        proxy = stack.enter_context(Proxy(server.port))
        server.create_database(DATABASE)
        subjects = scratch / "subjects"
        with subjects.open("w") as lines:
            lines.writelines(f"customer-{n:08}@example.com\n" for n in range(options.subjects))
        base = clean_environment(scratch) | {"CRONGUARD_STATE_DIR": str(scratch / "state")}
        environments = {
            "Postgres": base | {"CRONGUARD_DSN": server.dsn(DATABASE)},
            "SQLite": base,
            "proxy": base | {"CRONGUARD_DSN": server.dsn(DATABASE, "tcp", port=proxy.port)},
        }
        world = World(subjects, options.subjects, options.claimers, options.processes, server, environments)
        print(machine(server.execute("show server_version")[0][0].split()[0]), end="\n\n")
        print_table(TITLES, list(_rows(world, proxy, options.ledgers)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.effects", description=__doc__)
    parser.add_argument("--subjects", type=int, default=1_000_000, help="how many there are [1000000]")
    parser.add_argument("--ledgers", nargs="+", default=["Postgres", "SQLite"], help="[Postgres SQLite]")
    parser.add_argument("--claimers", type=int, default=8, help="how many claim one list at once; 0: none [8]")
    parser.add_argument("--processes", type=int, default=100, help="turns of the shell loop, then extrapolated [100]")
    return parser.parse_args()


def _rows(world: World, proxy: Proxy, ledgers: Sequence[str]) -> Iterator[list[str]]:
    for ledger in ledgers:
        subprocess.run([CRONGUARD, "init"], env=world.environments[ledger], check=True, capture_output=True)
        first = _run(world, ledger, "claim", "one")
        yield _row(world, f"{ledger}: claim", first, _round_trips(world, proxy) if ledger == "Postgres" else NOT_ASKED)
        yield _row(world, f"{ledger}: claim again", _run(world, ledger, "claim", "one"))
        yield _row(world, f"{ledger}: confirm", _run(world, ledger, "confirm", "one"))
        if world.claimers:
            crowd = _run(world, ledger, "claim", "crowd", world.claimers)
            yield _row(world, f"{ledger}: {world.claimers} at once", crowd)
        print(f"{ledger} is done", file=sys.stderr)
    yield _loop(world)


def _run(world: World, ledger: str, command: str, kind: str, processes: int = 1) -> Cost:
    """So many processes at once, each over the whole list."""
    argv = [CRONGUARD, command, kind, "--period", "2026-11", "--file", str(world.subjects)]
    outputs = [world.subjects.with_name(f"{command}-{kind}-{n}") for n in range(processes)]
    started_at = time.monotonic()
    pids = [_start(argv, world.environments[ledger], output) for output in outputs]
    try:
        ended = [os.wait4(pid, 0) for pid in pids]
    except BaseException:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        raise
    seconds = time.monotonic() - started_at
    assert all(status == 0 for _, status, _ in ended), ended
    peak = max(used.ru_maxrss for _, _, used in ended) / 1024
    return Cost(seconds, peak, _lines("cat", outputs), _lines("sort -u", outputs))


def _lines(through: str, outputs: Sequence[Path]) -> int:
    """Counted elsewhere: what this process holds in memory would count towards the peak of those that it starts."""
    command = ["sh", "-c", f'{through} -- "$@" | wc -l', "sh", *map(str, outputs)]
    done = subprocess.run(command, env={"LC_ALL": "C", "PATH": os.defpath}, capture_output=True, check=True)
    return int(done.stdout)


def _start(argv: list[str], environment: dict[str, str], output: Path) -> int:
    to = (os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    return os.posix_spawn(argv[0], argv, environment, file_actions=[to])


def _round_trips(world: World, proxy: Proxy) -> str:
    """Of the same once more, with those of logging in, through a proxy that counts; not timed."""
    before = proxy.round_trips
    _run(world, "proxy", "claim", "counted")
    return str(proxy.round_trips - before)


def _row(world: World, what: str, cost: Cost, round_trips: str = NOT_ASKED) -> list[str]:
    once = "yes" if cost.distinct == cost.won else "NO"
    rate = f"{world.count / cost.seconds:,.0f}"
    return [
        what, f"{world.count:,}", f"{cost.won:,}", once, f"{cost.seconds:.1f}", rate, round_trips,
        f"{cost.peak:.0f}",
    ]  # fmt: skip


def _loop(world: World) -> list[str]:
    """As such jobs are written: for each subject a psql that connects, inserts, and ends."""
    psql = shutil.which("psql")
    if psql is None:
        return ["psql is not installed here", *[NOT_ASKED] * (len(TITLES) - 1)]
    with world.server.connect(DATABASE, user="app") as connection:
        connection.execute("create table sent (subject text primary key)")
    line = f'for n in $(seq {world.processes}); do {psql} -qAtX "$DSN" -c "{INSERT}"; done'
    environment = world.environments["Postgres"] | {"DSN": world.server.dsn(DATABASE)}
    started_at = time.monotonic()
    subprocess.run(["sh", "-c", line], env=environment, check=True)
    each = (time.monotonic() - started_at) / world.processes
    whole = each * world.count
    what = f"psql in a loop, extrapolated from {world.processes}"
    return [what, f"{world.count:,}", NOT_ASKED, NOT_ASKED, f"{whole:.0f}", f"{1 / each:,.0f}", NOT_ASKED, NOT_ASKED]


if __name__ == "__main__":
    main()
