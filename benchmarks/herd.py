"""Contenders for one key: python -m benchmarks.herd N KEY, with cronguard's own variables to say on which ledger.

Forked from one interpreter that has loaded everything, each goes the way of `cronguard run` up to its first question
to the ledger and waits there; then all are let go at once. So what is timed is the ledger, and not N starts of Python.
Prints one JSON line a contender: its verdict, after how many ms, how often it asked, and its exit code.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import cronguard.cli
import cronguard.cli.opening
import cronguard.services.retrying  # each host would load it on a processor of its own
import cronguard.stores.postgres
import cronguard.stores.sqlite
from cronguard.services.ledger import Ledger, _Question

DB_WAIT = "30s"


@dataclass
class Contender:
    """What one of the herd went through."""

    verdict: str = "failed"
    at: float = 0.0
    asked: int = 0
    why: str = ""
    exit_code: int = field(default=-1)


class Gate:
    """Where all wait: each says that it has come, and goes on when nobody holds the other end any more."""

    def __init__(self) -> None:
        self._wait, self._hold = os.pipe()
        self._seen, self._come = os.pipe()

    def pass_through(self) -> None:
        os.close(self._hold)
        os.write(self._come, b".")
        os.read(self._wait, 1)

    def open_for(self, count: int) -> float:
        """Wait until so many have come, and let them go; the moment of that."""
        while count:
            count -= len(os.read(self._seen, count))
        let_go_at = time.monotonic()
        os.close(self._hold)
        return let_go_at


def main(count: int, key: str) -> None:
    gate, (results, result) = Gate(), os.pipe()
    gc.freeze()  # the herd shares what is in memory now
    for _ in range(count):
        if os.fork() == 0:
            os.close(results)
            _contend(gate, result, key)
    os.close(result)
    let_go_at = gate.open_for(count)
    with os.fdopen(results) as lines:
        for line in lines:
            found = json.loads(line)
            print(json.dumps(found | {"ms": (found.pop("at") - let_go_at) * 1000}))
    for _ in range(count):
        os.wait()


def _contend(gate: Gate, result: int, key: str) -> None:
    """The life of one contender, to its end."""
    mine = Contender()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what it would say is in `why`
    try:
        _listen(gate, mine)
        mine.exit_code = cronguard.cli.main(["run", "--key", key, "--db-wait", DB_WAIT, "--", "true"])
    except BaseException as error:
        mine.why = repr(error)
    if not mine.asked:
        gate.pass_through()  # it never came that far; nobody is to wait for it
        mine.at, mine.why = time.monotonic(), mine.why or "it ended before its first question"
    os.write(result, (json.dumps(vars(mine) | {"why": mine.why[:200]}) + "\n").encode())
    os._exit(0)


def _listen(gate: Gate, mine: Contender) -> None:
    """Hold the contender at its first question, and note each question and the verdict."""
    claim, ask = Ledger.claim, _Question.ask

    def held_claim(*arguments: Any) -> Any:
        gate.pass_through()
        with _noted(mine):
            verdict = claim(*arguments)
        mine.verdict = type(verdict.answer).__name__.lower()
        return verdict

    def counted(*arguments: Any) -> Any:
        mine.asked += 1
        return ask(*arguments)

    _replace(Ledger, "claim", held_claim)
    _replace(_Question, "ask", counted)


@contextmanager
def _noted(mine: Contender) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        mine.why = str(error)
        raise
    finally:
        mine.at = time.monotonic()


def _replace(owner: type, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
