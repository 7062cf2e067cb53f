"""python -m tests.faults.lab: every fault at every moment, and the table of what the witness said."""

from __future__ import annotations

import argparse
import random
import shlex
import sys
import traceback
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.batch import Batch, Tally
from tests.faults.faults import FAULTS, MOMENTS, Fault

AT_ONCE = 20  # keys in one batch
PROMISES = Path(__file__).resolve().parents[2] / "docs" / "guarantees.md"
BEGIN, END = "<!-- printed by python -m tests.faults.lab --write -->", "<!-- end of what it printed -->"


def main(argv: list[str]) -> int:
    """The exit code: 1 where anything broke."""
    asked = _parsed(argv)
    print(f"seed {asked.seed}", file=sys.stderr)
    table: dict[str, dict[str, Tally]] = {}
    with ThreadPoolExecutor(asked.side_by_side) as pool:
        futures = {
            fault.name: pool.submit(rounds_of, fault, moments, asked.rounds, asked.seed)
            for fault, moments in _chosen(asked.only)
        }
        for name, future in futures.items():
            table[name] = row_of(future)
            print(name, *(f"    {moment}: {tally}" for moment, tally in table[name].items()), sep="\n", file=sys.stderr)
    text = markdown(table, shlex.join(["python", "-m", "tests.faults.lab", *argv]), asked.seed)
    print(text)
    if asked.write:
        write(text)
    broken = [f"{name}, {moment}: {one}" for name, row in table.items() for moment in row for one in row[moment].broken]
    print(*broken, sep="\n", file=sys.stderr)
    return 1 if broken else 0


def row_of(future: Future[dict[str, Tally]]) -> dict[str, Tally]:
    """A laboratory that breaks down has not held either."""
    try:
        return future.result()
    except Exception as error:
        traceback.print_exception(error)
        return {moment: Tally(1, [f"the laboratory broke down: {error!r}"]) for moment in MOMENTS}


def rounds_of(fault: type[Fault], moments: Sequence[str], rounds: int, seed: int) -> dict[str, Tally]:
    """So many rounds of a fault at each of these moments; the same seed gives the same dice."""
    dice = random.Random(f"{seed} {fault.name}")
    tallies = {moment: Tally() for moment in moments}
    due = [moment for _ in range(rounds) for moment in moments]
    at_once = max(len(moments), AT_ONCE // len(moments) * len(moments))
    batches = deque((number, due[first : first + at_once]) for number, first in enumerate(range(0, len(due), at_once)))
    while batches:
        it = fault()
        with it.scene() as scene:
            while batches:
                for moment, tally in Batch(it, scene, *batches.popleft(), dice).run().items():
                    tallies[moment].add(tally)
                if it.uses_up_its_scene:
                    break
    return tallies


def markdown(table: dict[str, dict[str, Tally]], command: str, seed: int) -> str:
    """As docs/guarantees.md has it."""
    head = ("fault", *MOMENTS)
    rows = [(name, *(str(row.get(moment, "")) for moment in MOMENTS)) for name, row in table.items()]
    lines = (f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows))
    return "\n".join([f"{datetime.now(UTC):%Y-%m-%d}, `{command}`, seed {seed}:", "", *lines])


def write(text: str, path: Path = PROMISES) -> None:
    """Put it where the promises have it."""
    before, begin, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{begin}\n{text}\n{END}{after}")


def _chosen(only: str | None) -> Iterable[tuple[type[Fault], Sequence[str]]]:
    name, _, moment = (only or "").partition("/")
    for fault in FAULTS:
        if not name or fault.name == name:
            yield fault, [moment] if moment else list(MOMENTS)


def _parsed(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.lab", description="Every fault at every moment.")
    parser.add_argument("--rounds", type=int, default=20, help="of each cell (20)")
    parser.add_argument("--only", metavar="FAULT[/MOMENT]", help=f"one of: {'; '.join(it.name for it in FAULTS)}")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--write", action="store_true", help="put the table into docs/guarantees.md")
    parser.add_argument("--side-by-side", type=int, default=1, metavar="N", help="so many faults at once (1)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
