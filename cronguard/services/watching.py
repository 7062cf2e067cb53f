"""Following: the same question again and again, and only what is new is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from cronguard.domain.following import News, is_over, news
from cronguard.domain.run import Record, Run, State
from cronguard.errors import SUCCESS
from cronguard.services.judging import exit_code_of_run
from cronguard.services.ledger import Ledger

LOOKS_EVERY = 1.0  # seconds
NEVER_RAN = 1  # the exit code of a run that ended without having run: cancelled, missed

_Seen = TypeVar("_Seen")


def until_it_ends(ledger: Ledger, first: Record, pause: Callable[[float], None]) -> Iterator[News]:
    """What is new of this one run, as it comes, up to its end."""
    before: Record | None = None
    record: Record | None = first
    while record:
        yield from news(before, record)
        if is_over(record):
            return
        pause(LOOKS_EVERY)
        before, record = record, ledger.show(first.key, first.period)


def for_ever(look: Callable[[], _Seen], pause: Callable[[float], None], every: float) -> Iterator[_Seen]:
    while True:
        yield look()
        pause(every)


def exit_code_of_end(run: Run) -> int:
    """That of the run; only what succeeded is a success."""
    return SUCCESS if run.state is State.SUCCEEDED else exit_code_of_run(run) or NEVER_RAN
