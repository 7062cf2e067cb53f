"""What other prefixes do where cronguard has something to do: python -m benchmarks.prefixes [--only N ...].

`timeout`, `tini -g`, `dumb-init`, `flock` and `chronic` beside cronguard in nine situations, each with a real process
tree. The table tells what was seen. None of them sets out to do all nine: `tini` is an init for containers, `chronic`
is about mail, and a cell that looks bad may be about something that the tool never promised.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.cases import CRONGUARD, clean_environment
from benchmarks.report import machine
from benchmarks.situations import GRACE, SITUATIONS, Stage, Tool

_CRONGUARD = (CRONGUARD, "run", "--key", "{job}", "--state-dir", "{folder}/state", "--stop-grace", f"{GRACE}s")
TOOLS = (
    Tool("cronguard", CRONGUARD, (*_CRONGUARD, "--"), (*_CRONGUARD, "--complete-by", "1s", "--")),
    Tool("timeout", "timeout", ("timeout", "-k", GRACE, "60"), ("timeout", "-k", GRACE, "1")),
    Tool("tini -s -g", "tini", ("tini", "-s", "-g", "--")),
    Tool("dumb-init", "dumb-init", ("dumb-init", "--")),
    Tool("flock -n", "flock", ("flock", "-n", "{folder}/{job}.lock")),
    Tool("chronic", "chronic", ("chronic",)),
)
SITUATION_WIDTH, CELL_WIDTH = 22, 13


def main() -> None:
    numbers = _options().only
    cells: dict[str, list[str]] = {}
    for situation in SITUATIONS:
        if not numbers or int(situation.partition(".")[0]) in numbers:
            print(situation, file=sys.stderr, flush=True)
            cells[situation] = [_seen(tool, situation) for tool in TOOLS]
    _print(cells)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prefixes", description=__doc__)
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="these situations only, by number")
    return parser.parse_args()


def _seen(tool: Tool, situation: str) -> str:
    if not tool.installed:
        return "NOT INSTALLED"
    with tempfile.TemporaryDirectory(prefix="cronguard-bench-") as name:
        folder = Path(name)
        stage = Stage(tool, folder, clean_environment(folder))
        try:
            return SITUATIONS[situation](stage)
        finally:
            stage.clear()


# --------------------------------------------------------------------------- the table


def _print(cells: Mapping[str, Sequence[str]]) -> None:
    """Plain text with cells of several lines, which Markdown has not."""
    print(f"{machine('-')}\n")
    rule = "-+-".join("-" * width for width in (SITUATION_WIDTH, *(CELL_WIDTH for _ in TOOLS)))
    _print_row(["", *(tool.name for tool in TOOLS)])
    for situation, row in cells.items():
        print(rule)
        _print_row([situation, *row])
    missing = [tool.name for tool in TOOLS if not tool.installed]
    print(f"\nNOT INSTALLED, and so not measured: {', '.join(missing)}" if missing else "\nAll of them are installed.")


def _print_row(row: Sequence[str]) -> None:
    widths = (SITUATION_WIDTH, *(CELL_WIDTH for _ in TOOLS))
    wrapped = [textwrap.wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
    for n in range(max(map(len, wrapped))):
        line = [(lines[n] if n < len(lines) else "").ljust(width) for lines, width in zip(wrapped, widths, strict=True)]
        print(" | ".join(line).rstrip())


if __name__ == "__main__":
    main()
