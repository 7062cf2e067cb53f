"""What goes wrong with each guard when something goes wrong: python -m benchmarks.side_by_side [--rounds 4].

`flock`, an advisory lock in psql, `dislock` and cronguard guard the same command through the same faults. The command
writes down when it began, that it lives, and how it ended (tests/rig/marks.py); what it wrote is all that counts, and
nothing that a tool says of itself (tests/rig/witness.py). All rounds of a fault are played at once, a key each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cases import CRONGUARD, DATABASE, clean_environment, installed_dislock
from benchmarks.guards import HOSTS, LEASE, TOOLS, Fire, Tool, World
from benchmarks.report import machine, print_table
from tests.rig import marks
from tests.rig.postgres import Server
from tests.rig.processes import descendants, kill_tree
from tests.rig.proxy import Proxy
from tests.rig.waiting import wait_until
from tests.rig.witness import Verdict, attempts_in, judge, overlapping

THIS, NEXT = "2026-11-28", "2026-11-29"


# --------------------------------------------------------------------------- one fault, some keys, one tool


@dataclass(frozen=True)
class Seen:
    """What the commands' own marks show of one fault."""

    verdict: Verdict
    beside: float  # seconds, the longest that two have acted at once

    def cell(self) -> str:
        """Runs, not incidents: how many were at once (and how long), done twice, never done."""
        verdict = self.verdict
        at_once, twice, lost = map(_runs, (verdict.overlaps, verdict.done_again, verdict.never_done))
        return f"{at_once}{f' ({self.beside:.1f} s)' if at_once else ''} / {twice} / {lost}"


def _runs(sentences: Sequence[str]) -> int:
    """How many keys they are about: each begins with its own."""
    return len({sentence.split()[0] for sentence in sentences})


@dataclass
class Stage:
    """Every step is taken for all keys before the next."""

    world: World
    fire_with: Fire
    keys: Sequence[str]
    folder: Path
    started: dict[tuple[str, str], subprocess.Popen[bytes]] = field(default_factory=dict)  # by host and key
    expected: list[tuple[str, str]] = field(default_factory=list)
    woken_at: float = 0.0  # when those who were frozen could act again

    def fire(self, hosts: str, lasting: float, period: str = THIS) -> None:
        """On each of these hosts; the command, where it is run, lasts so many seconds."""
        for key in self.keys:
            if (key, period) not in self.expected:
                self.expected.append((key, period))
            for host in hosts:
                argv, own = self.fire_with(self.world, host, key, period, marks.command(self.folder, lasting))
                self.started[host, key] = subprocess.Popen(
                    argv, env={**self.world.base, **own, "MARK_KEY": key, "MARK_PERIOD": period},
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )  # fmt: skip

    def wait_until_running(self) -> None:
        wait_until(
            lambda: {attempt.key for attempt in attempts_in(self.folder)} >= set(self.keys),
            within=60, saying="a command runs for each key",
        )  # fmt: skip

    def wait_for_ends(self) -> None:
        """Of all commands there are now, and of whoever guards them."""
        for process in self.started.values():
            process.wait(120)
        wait_until(lambda: not self._living(), within=120, saying="all commands are over")

    def guards(self, host: str) -> list[int]:
        return [self.started[host, key].pid for key in self.keys]

    def signal_trees(self, host: str, signum: signal.Signals) -> None:
        trees = [[pid, *descendants(pid)] for pid in self.guards(host)]
        for pid in (pid for tree in trees for pid in tree):
            with suppress(ProcessLookupError):
                os.kill(pid, signum)

    def seen(self) -> Seen:
        attempts = attempts_in(self.folder)
        beside = [
            older.last_seen_at - max(newer.began_at, self.woken_at)
            for key in self.keys
            for older, newer in overlapping([attempt for attempt in attempts if attempt.key == key])
        ]
        return Seen(judge(attempts, None, self.expected), max(beside, default=0.0))

    def clear(self) -> None:
        for process in self.started.values():
            if process.poll() is None:
                kill_tree(process.pid)
            process.wait(30)
        for pid in self._living():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _living(self) -> list[int]:
        """Commands that have outlived their guards too."""
        return [attempt.pid for attempt in attempts_in(self.folder) if _is_ours(attempt.pid, self.folder)]


def _is_ours(pid: int, folder: Path) -> bool:
    with suppress(OSError):
        return os.fsencode(folder) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False


# --------------------------------------------------------------------------- the faults


def none_one_host(stage: Stage) -> None:
    stage.fire("abc", lasting=3)


def fired_again(stage: Stage) -> None:
    stage.fire("a", lasting=1)
    stage.wait_until_running()
    stage.wait_for_ends()
    stage.fire("b", lasting=1)


def outlasts_its_interval(stage: Stage) -> None:
    """The next tick comes while it runs, and is fired once more when it is over."""
    stage.fire("a", lasting=5)
    stage.wait_until_running()
    _tick(stage)
    stage.fire("b", lasting=2, period=NEXT)
    stage.wait_for_ends()
    stage.fire("c", lasting=2, period=NEXT)


def guard_killed(stage: Stage) -> None:
    stage.fire("a", lasting=12)
    stage.wait_until_running()
    for pid in stage.guards("a"):
        os.kill(pid, signal.SIGKILL)
    time.sleep(1)
    stage.fire("b", lasting=2)
    time.sleep(LEASE + 1)
    stage.fire("c", lasting=2)


def host_dies(stage: Stage) -> None:
    stage.fire("a", lasting=12)
    stage.wait_until_running()
    for pid in stage.guards("a"):
        kill_tree(pid)
    time.sleep(LEASE + 2)
    stage.fire("b", lasting=2)


def frozen_past_its_lease(stage: Stage) -> None:
    """All of the host: the guard and its command. It wakes while the next one is at work."""
    stage.fire("a", lasting=20)
    stage.wait_until_running()
    stage.signal_trees("a", signal.SIGSTOP)
    time.sleep(LEASE + 2)
    stage.fire("b", lasting=6)
    time.sleep(3)
    stage.woken_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    stage.signal_trees("a", signal.SIGCONT)


def connection_cut(stage: Stage) -> None:
    stage.fire("a", lasting=20)
    stage.wait_until_running()
    stage.world.ways["a"].cut()
    time.sleep(LEASE + 2)
    stage.fire("b", lasting=6)
    time.sleep(4)
    stage.world.ways["a"].restore()


def server_restarts(stage: Stage) -> None:
    stage.fire("a", lasting=10)
    stage.wait_until_running()
    stage.world.server.restart()
    time.sleep(1)
    stage.fire("b", lasting=3)


def _tick(stage: Stage) -> None:
    """dislock's slot ends with a tick of the clock; nobody waits for one here."""
    ended = "update key_value set expire_at = now() where key like 'cronjob-lock:schedule:%%'"
    stage.world.server.execute(ended, database=DATABASE)


@dataclass(frozen=True)
class Scenario:
    name: str
    play: Callable[[Stage], None]
    is_about_server: bool = False
    takes_a_fleet: bool = False  # told of hosts that share no disk


SCENARIOS = (
    Scenario("three fire at one tick", none_one_host),
    Scenario("the same, on three hosts", none_one_host, takes_a_fleet=True),
    Scenario("fired again, later in its period", fired_again),
    Scenario("outlasts its interval", outlasts_its_interval),
    Scenario("kill -9 of the guard", guard_killed),
    Scenario("kill -9 of all of the host", host_dies),
    Scenario(f"frozen for {LEASE + 5} s", frozen_past_its_lease),
    Scenario("connection cut", connection_cut, is_about_server=True),
    Scenario("server restarts", server_restarts, is_about_server=True),
)


# --------------------------------------------------------------------------- the table


def main() -> None:
    options = _options()
    with a_world() as world:
        print(machine(world.server.execute("show server_version")[0][0].split()[0]), end="\n\n")
        rows = [
            [scenario.name, *(_cell(world, tool, scenario, options.rounds) for tool in TOOLS)]
            for number, scenario in enumerate(SCENARIOS)
            if not options.only or number + 1 in options.only
        ]
    print(f"Of {options.rounds} runs each: at once / done twice / lost\n")
    print_table(("what happens", *(tool.name for tool in TOOLS)), rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.side_by_side", description=__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="keys that go through each fault at once [4]")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="these faults only, by number")
    return parser.parse_args()


def _cell(world: World, tool: Tool, scenario: Scenario, rounds: int) -> str:
    program = {"dislock": world.dislock, "cronguard": CRONGUARD}.get(tool.program, shutil.which(tool.program))
    if not program:
        return "NOT INSTALLED"
    if scenario.is_about_server and not tool.asks_server:
        return "-"
    seen = _played(world, tool, scenario, rounds)
    print(
        f"{scenario.name}, {tool.name}: {seen.cell()}", *seen.verdict.overlaps, sep="\n  ", file=sys.stderr, flush=True
    )
    return seen.cell()


def _played(world: World, tool: Tool, scenario: Scenario, rounds: int) -> Seen:
    folder = Path(tempfile.mkdtemp(prefix="marks-", dir=world.scratch))
    keys = [f"{folder.name}-{number}" for number in range(rounds)]
    fire = (tool.in_a_fleet if scenario.takes_a_fleet else None) or tool.fire
    stage = Stage(world, fire, keys, folder)
    try:
        scenario.play(stage)
        stage.wait_for_ends()
        return stage.seen()
    finally:
        stage.clear()


@contextmanager
def a_world() -> Iterator[World]:
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronguard-bench-")))
        server = stack.enter_context(Server(fsync="on", full_page_writes="on"))
        ways = {host: stack.enter_context(Proxy(server.port)) for host in HOSTS}
        base = clean_environment(scratch)
        server.create_database(DATABASE)
        table = "create table key_value (key text primary key, value text not null, expire_at timestamptz not null)"
        server.execute(table, database=DATABASE)
        server.execute("alter table key_value owner to app", database=DATABASE)
        program, why = installed_dislock(scratch / "dislock")
        print(why, end="\n" if why else "", file=sys.stderr)
        subprocess.run([CRONGUARD, "init", "--dsn", server.dsn(DATABASE)], env=base, check=True, capture_output=True)
        yield World(server, ways, scratch, base, program)


if __name__ == "__main__":
    main()
