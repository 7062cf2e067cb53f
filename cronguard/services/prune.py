"""Forgetting what is old: key by key, a small transaction at a time, so that no claim ever waits long for one.

May be stopped at any moment, and run by any number of hosts at once: what one
has taken away, the others do not find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cronguard.domain.pruning import Keep, prune
from cronguard.ports import Store
from cronguard.services.ledger import Ledger

RUNS_AT_ONCE = 200  # with their attempts and skips: with thirty hosts some thousands of rows
SKIPS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went, or would go."""

    runs: dict[str, int]  # by key; those of which nothing went are left out
    skips: int  # of periods that nobody ran


def prune_ledger(ledger: Ledger, keep: Keep, keys: Sequence[str] | None = None, *, dry_run: bool = False) -> Pruned:
    """All of these keys (None: all there are), and the skips that belong to no run."""
    known = [job.key for job in ledger.asked(lambda store: store.jobs())]
    chosen = known if keys is None else [key for key in known if key in keys]
    of_key = _count if dry_run else _prune_key
    runs = {key: of_key(ledger, key, keep) for key in chosen}
    skips = _prune_skips(ledger, keep, dry_run=dry_run) if keys is None else 0
    return Pruned({key: count for key, count in runs.items() if count}, skips)


def _count(ledger: Ledger, key: str, keep: Keep) -> int:
    return ledger.asked(lambda store: store.count_aged(key, keep))


def _prune_key(ledger: Ledger, key: str, keep: Keep) -> int:
    total, went = 0, RUNS_AT_ONCE
    while went == RUNS_AT_ONCE:
        went = ledger.asked(lambda store: _one_batch(store, key, keep))
        total += went
    return total


def _one_batch(store: Store, key: str, keep: Keep) -> int:
    with store.pruning_page(key, keep, RUNS_AT_ONCE) as page:
        pruning = prune(page.aged, keep)
        page.write(pruning)
    return len(pruning.periods)


def _prune_skips(ledger: Ledger, keep: Keep, *, dry_run: bool) -> int:
    total = 0
    go_on: int | None = 0
    while go_on is not None:
        after = go_on

        def one_batch(store: Store, after: int = after) -> tuple[int, int | None]:
            return store.prune_skips(keep, after, SKIPS_AT_ONCE, dry_run=dry_run)

        went, go_on = ledger.asked(one_batch)
        total += went
    return total
