"""What cronguard's second process costs, in memory and in time: python -m benchmarks.two_processes [--rounds N].

A run is two processes, a guardian and a worker. Memory: what a guardian has to itself while a command runs. Time: a
fork and a wait alone; what the second process takes within a firing, at its start and at its end; and the whole firing
against one with the second process left out, for which `firing.py` has a stand-in: the product has no such switch.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles

from benchmarks.cases import CRONGUARD, clean_environment
from benchmarks.report import machine, print_table
from tests.rig import processes
from tests.rig.waiting import wait_until

AIM_MB, AIM_MS = 6.0, 10.0
GUARDS, FORKS = 5, 50
TOP = Path(__file__).resolve().parent.parent
Figures = Sequence[Mapping[str, float]]


def main() -> None:
    rounds = _options().rounds
    with tempfile.TemporaryDirectory(prefix="cronguard-bench-") as folder:
        environment = {**clean_environment(Path(folder)), "CRONGUARD_STATE_DIR": folder}
        _firing(environment, "two")  # not counted: it makes the ledger and writes bytecode
        memory = [_memory(environment, f"memory-{n}") for n in range(GUARDS)]
        forks = _forks(environment)
        firings: dict[str, list[dict[str, float]]] = {"one": [], "two": []}
        for _ in range(rounds):  # interleaved: whatever disturbs the machine disturbs both alike
            for how, costs in firings.items():
                costs.append(_firing(environment, how))
    _report(memory, forks, firings["one"], firings["two"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.two_processes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="firings with and without the second process [50]")
    return parser.parse_args()


# --------------------------------------------------------------------------- memory


def _memory(environment: Mapping[str, str], key: str) -> dict[str, float]:
    """MB of guardian and worker while the command runs, after two beats. A key of its own: it ends by a kill."""
    argv = [CRONGUARD, "run", "--key", key, "--every", "run", "--lease", "12s", "--stop-grace", "1s"]
    process = subprocess.Popen([*argv, "--", "sleep", "600"], env=environment, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _sleeping(process.pid), saying="cronguard runs its command")
        time.sleep(4.5)
        worker = processes.children(process.pid)[0]
        return {"guardian": _private(process.pid), "worker": _private(worker), "RSS": _kept(process.pid, "Rss")}
    finally:
        processes.kill_tree(process.pid)
        process.wait()


def _sleeping(pid: int) -> bool:
    with suppress(OSError):  # gone meanwhile
        return any(Path(f"/proc/{one}/comm").read_text() == "sleep\n" for one in processes.descendants(pid))
    return False


def _private(pid: int) -> float:
    """What nobody else has a share in: it would be free if only this process went."""
    return _kept(pid, "Private_Clean") + _kept(pid, "Private_Dirty")


def _kept(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) / 1024


# --------------------------------------------------------------------------- time


def _firing(environment: Mapping[str, str], how: str) -> dict[str, float]:
    """Milliseconds: of the whole process, by the clock and of CPU, and the moments that it noted in between."""
    started_at, used = time.monotonic(), _cpu_of_children()
    done = _inside(environment, how)
    costs = {"wall": (time.monotonic() - started_at) * 1000, "cpu": (_cpu_of_children() - used) * 1000}
    return costs | {what: float(at) * 1000 for what, _, at in (line.partition("=") for line in done.splitlines())}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _forks(environment: Mapping[str, str]) -> list[float]:
    """Milliseconds from each fork to the end of its wait."""
    at = [float(line.partition("=")[2]) for line in _inside(environment, "fork", str(FORKS)).splitlines()]
    return [(waited - forked) * 1000 for forked, waited in zip(at[::2], at[1::2], strict=True)]


def _inside(environment: Mapping[str, str], *words: str) -> str:
    argv = [sys.executable, "-m", "benchmarks.firing", *words]
    return subprocess.run(argv, env=environment, cwd=TOP, stderr=subprocess.PIPE, text=True, check=True).stderr


# --------------------------------------------------------------------------- the report


def _report(memory: Figures, forks: Sequence[float], one: Figures, two: Figures) -> None:
    print(f"medians of {len(memory)} guards, {len(forks)} forks, {len(two)} firings; {machine('-')}\n")
    titles = {"guardian": "guardian, private", "worker": "worker, private", "RSS": "guardian, RSS (most of it shared)"}
    print_table(("memory", "MB"), [[text, f"{median(it[what] for it in memory):.1f}"] for what, text in titles.items()])
    parts = {
        "in a firing: from the call to the worker's first instruction": _between(two, "called", "worker's first"),
        "in a firing: from there until the worker is ready": _between(two, "worker's first", "worker ready"),
        "in a firing: from the worker's exit to the guardian's": _between(two, "worker leaves", "guardian leaves"),
    }
    added = [sum(three) for three in zip(*parts.values(), strict=True)]
    rows = {
        "fork, setsid, subreaper, exit and wait, alone": forks,
        **parts,
        "in a firing: these three together": added,
        "whole firing with two processes: wall": [it["wall"] for it in two],
        "whole firing with two processes: CPU": [it["cpu"] for it in two],
        "two processes less one, round by round: wall": _more(one, two, "wall"),
        "two processes less one, round by round: CPU": _more(one, two, "cpu"),
    }
    print_table(("time", "ms", "middle half"), [[name, *_middle(values)] for name, values in rows.items()])
    _judge(median(it["guardian"] for it in memory), median(added))


def _between(firings: Figures, first: str, last: str) -> list[float]:
    return [it[last] - it[first] for it in firings]


def _more(one: Figures, two: Figures, what: str) -> list[float]:
    return [b[what] - a[what] for a, b in zip(one, two, strict=True)]


def _middle(values: Sequence[float]) -> tuple[str, str]:
    low, _, high = quantiles(values, n=4)
    return f"{median(values):.1f}", f"{low:.1f} to {high:.1f}"


def _judge(mb: float, inside: float) -> None:
    """Whole firings are not judged: they vary by more than the aim."""
    aims = (
        ("MB that the guardian has to itself", AIM_MB, mb),
        ("ms that it adds, by the clock inside a firing", AIM_MS, inside),
    )
    rows = [[what, f"{aim:.0f}", f"{found:.1f}", "yes" if found <= aim else "NO"] for what, aim, found in aims]
    print_table(("aim", "at most", "measured", "met"), rows)


if __name__ == "__main__":
    os.chdir(TOP)
    main()
