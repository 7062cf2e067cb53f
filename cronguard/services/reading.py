"""What the ledger knows, after this host has delivered what it still owed: runs, and whole keys."""

from __future__ import annotations

from collections.abc import Sequence

from cronguard.domain.overview import Standing, Status, named, problems_first, status_of
from cronguard.domain.run import Job, Record
from cronguard.domain.stats import Stats, stats_of
from cronguard.services.ledger import Ledger
from cronguard.services.results import Spool, deliver_what_can_be

RUNS_COUNTED = 1000  # of each key, for its figures


def history_of(ledger: Ledger, spool: Spool, key: str | None, limit: int) -> Sequence[Record]:
    deliver_what_can_be(spool, ledger)
    return ledger.history(key, limit)


def record_of(ledger: Ledger, spool: Spool, key: str, period: str | None) -> Record | None:
    deliver_what_can_be(spool, ledger)
    return ledger.show(key, period)


def record_to_follow(ledger: Ledger, spool: Spool, key: str, period: str | None) -> Record | None:
    """Without a period the run by which its key stands: one that is live goes before what came after it."""
    if period is None:
        glances = ledger.asked(lambda store: store.glances([key]))
        shown = status_of(glances[0]).run if glances else None
        period = shown.period if shown else None
    return record_of(ledger, spool, key, period)


def keys_of(ledger: Ledger, spool: Spool) -> Sequence[Job]:
    deliver_what_can_be(spool, ledger)
    return ledger.asked(lambda store: store.jobs())


def statuses_of(ledger: Ledger, spool: Spool, patterns: Sequence[str]) -> list[Status]:
    """A line for each key that these keys and globs name, problems first."""
    keys = [job.key for job in named(keys_of(ledger, spool), patterns)]
    return problems_first(map(status_of, ledger.asked(lambda store: store.glances(keys))))


def standing_of(ledger: Ledger, spool: Spool, patterns: Sequence[str]) -> Standing:
    """The same, and what is unknown: told of once, it would else be seen by nobody any more."""
    lines = statuses_of(ledger, spool, patterns)
    return Standing(lines, None if patterns else ledger.asked(lambda store: store.unknown_effects()))


def figures_of(ledger: Ledger, spool: Spool, patterns: Sequence[str]) -> list[Stats]:
    """Key by key: of thousands, never more than one is held at a time."""
    found = []
    for job in named(keys_of(ledger, spool), patterns):
        counts = ledger.asked(lambda store, key=job.key: store.counts(key, RUNS_COUNTED))  # type: ignore[misc]
        found += [stats_of(counts)] if counts else []
    return found
