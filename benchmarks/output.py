"""How fast output comes through, and what it costs to remember its ends: python -m benchmarks.output [--rounds N].

The yardstick is the plain loop that reads 64 KiB and writes them, through a pipe of the same size, without a thread
and without remembering anything.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.cases import CRONGUARD
from benchmarks.report import machine, print_table
from cronguard.process.output import Output

AIM_SPEED, AIM_MB = 0.8, 60.0
CAPTURE = 16 << 10
MIB = 1 << 20
HANDED_ON, PLAIN, CAPTURED = "handed on as it is", "plain loop in Python", "captured, 16k"
QUIET, WHOLE = "held back and printed", "cronguard run, captured, 16k"
CASES = (HANDED_ON, PLAIN, CAPTURED, QUIET, WHOLE)
READERS = {"/dev/null": [], "a pipe": ["cat"]}


def main() -> None:
    options = _options()
    samples: dict[tuple[str, str], list[dict[str, float]]] = {
        (name, reader): [] for name in CASES for reader in READERS
    }
    for _ in range(options.rounds):
        for name, reader in samples:  # interleaved: whatever disturbs the machine disturbs all alike
            samples[name, reader].append(_measured(name, READERS[reader], options.mib))
    sums = {name: _checksum(name, options.mib) for name in CASES}
    _report(samples, sums, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.output", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each case is run [5]")
    parser.add_argument("--mib", type=int, default=1024, help="how much the command says, in MiB [1024]")
    parser.add_argument("--as", dest="name", help=argparse.SUPPRESS)
    return parser.parse_args()


# --------------------------------------------------------------------------- one measurement


def _measured(name: str, reader: Sequence[str], mib: int) -> dict[str, float]:
    """Seconds from the start of the command to its end and that of its output; the peak of whoever passed it on."""
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "wb") as null:
        if not reader:
            return _cost(name, mib, null.fileno(), folder)
        with subprocess.Popen(reader, stdin=subprocess.PIPE, stdout=null) as process:
            assert process.stdin
            cost = _cost(name, mib, process.stdin.fileno(), folder)
            process.stdin.close()
        return cost


def _checksum(name: str, mib: int) -> str:
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(["sha256sum"], stdin=subprocess.PIPE,
                                                                   stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        _cost(name, mib, process.stdin.fileno(), folder)
        process.stdin.close()
        return process.stdout.read().decode().split()[0]


def _cost(name: str, mib: int, stdout: int, folder: str) -> dict[str, float]:
    if name == WHOLE:
        return _whole_cost(mib, stdout, folder)
    argv = [sys.executable, "-m", "benchmarks.output", "--as", name, "--mib", str(mib)]
    done = subprocess.run(argv, stdout=stdout, stderr=subprocess.PIPE, check=True)
    cost: dict[str, float] = json.loads(done.stderr)
    return cost


def _whole_cost(mib: int, stdout: int, folder: str) -> dict[str, float]:
    """Start, claim and finish included."""
    environment = {**os.environ, "CRONGUARD_STATE_DIR": folder}
    started_at = time.perf_counter()
    argv = [CRONGUARD, "run", "--key", "bench", "--", *_speaker(mib)]
    pid = os.posix_spawn(argv[0], argv, environment, file_actions=[(os.POSIX_SPAWN_DUP2, stdout, 1)])
    _, status, used = os.wait4(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return {"seconds": time.perf_counter() - started_at, "mb": used.ru_maxrss / 1024}


# --------------------------------------------------------------------------- in a process of its own


def _speaker(mib: int) -> list[str]:
    return [
        sys.executable,
        "-S",
        "-c",
        f"""
import os, random
block = random.Random(7).randbytes({MIB})
for n in range({mib}):
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(1, rest):]
""",
    ]


def _pass_on(name: str, mib: int) -> None:
    ways: dict[str, Callable[[list[str]], None]] = {
        HANDED_ON: _hand_on,
        PLAIN: _plain_loop,
        CAPTURED: lambda command: _through(Output(CAPTURE, quiet=False), command),
        QUIET: lambda command: _through(Output(CAPTURE, quiet=True), command),
    }
    started_at = time.perf_counter()
    ways[name](_speaker(mib))
    seconds, peak = time.perf_counter() - started_at, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "mb": peak / 1024}), file=sys.stderr)


def _hand_on(command: list[str]) -> None:
    subprocess.run(command, check=True)


def _plain_loop(command: list[str]) -> None:
    source, end = os.pipe()
    fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, MIB)
    with subprocess.Popen(command, stdout=end):
        os.close(end)
        while piece := os.read(source, 64 << 10):
            while piece:
                piece = piece[os.write(1, piece) :]


def _through(output: Output, command: list[str]) -> None:
    with subprocess.Popen(command, stdout=output.stdout, stderr=output.stderr) as process:
        output.start()
        process.wait()
    assert output.finish(10).notes == ()
    output.print_held_back()


# --------------------------------------------------------------------------- the table


def _report(
    samples: dict[tuple[str, str], list[dict[str, float]]], sums: dict[str, str], options: argparse.Namespace
) -> None:
    print(f"{options.mib} MiB, median of {options.rounds}; {machine('-')}\n")
    for reader in READERS:
        plain = _median(samples[PLAIN, reader], "seconds")
        rows = []
        for name in CASES:
            seconds, mb = (_median(samples[name, reader], what) for what in ("seconds", "mb"))
            right = "yes" if sums[name] == _right_sum(options.mib) else "NO"
            rows.append([name, f"{options.mib / 1024 / seconds:.2f}", f"{plain / seconds:.2f}", f"{mb:.0f}", right])
        print_table([f"to {reader}", "GiB/s", "of the plain loop", "peak MB", "identical"], rows)
        speed, peak = plain / _median(samples[CAPTURED, reader], "seconds"), _median(samples[WHOLE, reader], "mb")
        print(f"{'met' if speed >= AIM_SPEED else 'MISSED'}: at least {AIM_SPEED} of the plain loop ({speed:.2f})")
        print(f"{'met' if peak < AIM_MB else 'MISSED'}: a peak of less than {AIM_MB:.0f} MB ({peak:.0f})\n")


def _median(samples: list[dict[str, float]], what: str) -> float:
    return median(sample[what] for sample in samples)


def _right_sum(mib: int) -> str:
    import random

    block, digest = random.Random(7).randbytes(MIB), hashlib.sha256()
    for _ in range(mib):
        digest.update(block)
    return digest.hexdigest()


if __name__ == "__main__":
    asked = _options()
    if asked.name:
        _pass_on(asked.name, asked.mib)
    else:
        os.chdir(Path(__file__).resolve().parent.parent)
        main()
