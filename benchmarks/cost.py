"""What a firing costs, as a whole process, beside other ways to guard a job: python -m benchmarks.cost [--rounds N]."""

from __future__ import annotations

import argparse
import fcntl
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from benchmarks import launch
from benchmarks.cases import ADVISORY_LOCK, CRONGUARD, DATABASE, FLOOR, Case, all_cases, clean_environment
from benchmarks.report import machine, print_table
from tests.rig import processes
from tests.rig.postgres import Server
from tests.rig.proxy import Proxy
from tests.rig.waiting import wait_until

AIMS = {"skip_trips": 1, "grant_trips": 5, "start_up": 1.15, "waiting_mb": 40.0}
SKIP, GRANT = "cronguard, Postgres: skipped", "cronguard, Postgres: granted"


@dataclass
class World:
    """The servers and files that all cases share, and what was measured of each case."""

    server: Server
    proxy: Proxy
    scratch: Path
    environment: dict[str, str]
    launcher: subprocess.Popen[str]
    samples: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    trips: dict[str, tuple[int, int]] = field(default_factory=dict)


def main() -> None:
    options = _options()
    with _world() as world:
        cases = all_cases(world.server, world.proxy, world.scratch, dislock=not options.no_dislock)
        able = [case for case in cases if not case.unable]
        _prepare(world, able)
        for n in range(options.rounds):
            for case in able:  # interleaved: whatever disturbs the machine disturbs all alike
                world.samples.setdefault(case.name, []).append(_measured(world, case, f"round-{n}"))
        login = _login_trips(world)
        world.trips = {case.name: _trips(world, case, login) for case in able if case.tcp}
        memory = {case.name: _waiting(world, case) for case in able if case.waits}
        _report(world, cases, memory, options.rounds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="how often each case is run [15]")
    parser.add_argument("--no-dislock", action="store_true", help="do not install dislock to compare with it")
    return parser.parse_args()


# --------------------------------------------------------------------------- the world


@contextmanager
def _world() -> Iterator[World]:
    """A Postgres that writes to disk as one in production does; a launcher; locks that keep the busy cases busy."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronguard-bench-")))
        server = stack.enter_context(Server(fsync="on", full_page_writes="on"))
        server.create_database(DATABASE)
        proxy = stack.enter_context(Proxy(server.port))
        environment = clean_environment(scratch)
        launcher = stack.enter_context(_launcher(environment))
        busy = stack.enter_context((scratch / "busy.lock").open("w"))
        fcntl.flock(busy, fcntl.LOCK_EX)
        holder = stack.enter_context(server.connect(DATABASE))
        holder.execute("select pg_advisory_lock(%s)", [ADVISORY_LOCK + 1])
        yield World(server, proxy, scratch, environment, launcher)


@contextmanager
def _launcher(environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-I", "-S", launch.__file__]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as launcher:
        yield launcher


def _prepare(world: World, cases: Sequence[Case]) -> None:
    """Schemas, and one run of everything that is not counted: it writes bytecode, and is what later runs skip for."""
    for case in cases:
        if case.argv[0] == CRONGUARD:
            variables = case.variables(world.environment, 0)
            subprocess.run([CRONGUARD, "init"], env=variables, check=True, capture_output=True)
        _measured(world, case, "first")


# --------------------------------------------------------------------------- measuring


def _measured(world: World, case: Case, n: str, *, tcp: bool = False) -> dict[str, float]:
    words = world.scratch / "words"
    asked = {
        "argv": case.command(n),
        "environment": case.variables(world.environment, n, tcp=tcp),
        "words": str(words),
    }
    assert world.launcher.stdin and world.launcher.stdout
    world.launcher.stdin.write(json.dumps(asked) + "\n")
    cost: dict[str, float] = json.loads(world.launcher.stdout.readline())
    if cost["exit_code"] != case.exit_code:
        raise RuntimeError(f"{case.name}: exit code {cost['exit_code']}, not {case.exit_code}: {words.read_text()}")
    return cost


def _login_trips(world: World) -> int:
    """What a bare connect costs, by password over TCP."""
    before = world.proxy.round_trips
    psycopg.connect(world.server.dsn(DATABASE, "tcp", port=world.proxy.port)).close()
    return world.proxy.round_trips - before


def _trips(world: World, case: Case, login: int) -> tuple[int, int]:
    """Round trips without those of the logins, and connections."""
    trips, connections = world.proxy.round_trips, world.proxy.connections
    _measured(world, case, "tcp", tcp=True)
    made = world.proxy.connections - connections
    return world.proxy.round_trips - trips - made * login, made


def _waiting(world: World, case: Case) -> tuple[float, float]:
    """MB of a guard while its command runs, after its first beats: the peak of its largest process, the PSS of all."""
    argv = [*case.command("memory")[:-1], "sleep", "600"]
    if argv[0] == CRONGUARD:
        argv[2:2] = ["--lease", "12s", "--stop-grace", "1s"]
    guard = subprocess.Popen(argv, env=case.variables(world.environment, "memory"), stderr=subprocess.DEVNULL)
    try:
        command = wait_until(lambda: _sleeping(guard.pid), saying=f"{case.name} runs its command")
        time.sleep(5)  # two beats
        ours = [pid for pid in (guard.pid, *processes.descendants(guard.pid)) if pid != command]
        return max(_kept(pid, "status", "VmHWM") for pid in ours), sum(
            _kept(pid, "smaps_rollup", "Pss") for pid in ours
        )
    finally:
        processes.kill_tree(guard.pid)
        guard.wait()


def _sleeping(pid: int) -> int | None:
    for one in processes.descendants(pid):
        with suppress(OSError):  # it is gone
            if Path(f"/proc/{one}/comm").read_text() == "sleep\n":
                return one
    return None


def _kept(pid: int, file: str, name: str) -> float:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


# --------------------------------------------------------------------------- telling


def _report(world: World, cases: Sequence[Case], memory: Mapping[str, tuple[float, float]], rounds: int) -> None:
    server_version = world.server.execute("show server_version")[0][0].split()[0]
    print(f"{machine(server_version)}; medians of {rounds} rounds\n")
    least = _kept(world.launcher.pid, "status", "VmHWM")
    titles = (
        "firing of `true`",
        "wall ms",
        "CPU ms",
        "RSS MB",
        "round trips",
        "connections",
        "wall/floor",
        "CPU/floor",
    )
    print_table(titles, [_row(world, case, least) for case in cases])
    for case in cases:
        if case.unable:
            print(f"{case.name}: not measured: {case.unable}\n")
    rows = [(name, f"{peak:.1f}", f"{pss:.1f}") for name, (peak, pss) in memory.items()]
    print_table(("guard that waits for its command", "VmHWM MB", "PSS MB"), rows)
    print_table(("aim", "at most", "measured", "met"), list(_aims(world, memory)))


def _row(world: World, case: Case, least: float) -> list[str]:
    if case.unable:
        return [case.name, *["-"] * 7]
    samples = world.samples[case.name]
    rss = median(sample["rss"] for sample in samples)
    trips, connections = map(str, world.trips.get(case.name, ("-", "-")))
    return [
        case.name,
        *(f"{median(sample[what] for sample in samples):.0f}" for what in ("wall", "cpu")),
        f"{rss:.0f}" if rss > least + 1 else f"<{least + 1:.0f}",
        trips,
        connections,
        *(f"{_ratio(world, case.name, what):.2f}" for what in ("wall", "cpu")),
    ]


def _ratio(world: World, name: str, what: str) -> float:
    """The median of the ratios within each round, which a machine that is slow for a while does not touch."""
    pairs = zip(world.samples[name], world.samples[FLOOR], strict=True)
    return median(sample[what] / floor[what] for sample, floor in pairs)


def _aims(world: World, memory: Mapping[str, tuple[float, float]]) -> Iterator[list[str]]:
    figures: list[tuple[str, str, Any]] = [
        ("round trips of a skip after connecting", "skip_trips", world.trips[SKIP][0]),
        ("round trips of grant and finish after connecting", "grant_trips", world.trips[GRANT][0]),
        ("wall of a skip on Postgres, times the floor", "start_up", round(_ratio(world, SKIP, "wall"), 2)),
        ("VmHWM MB of a waiting guard on Postgres", "waiting_mb", round(memory[GRANT][0], 1)),
    ]
    for what, aim, measured in figures:
        yield [what, str(AIMS[aim]), str(measured), "yes" if measured <= AIMS[aim] else "NO"]


if __name__ == "__main__":
    main()
