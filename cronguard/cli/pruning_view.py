"""What prune does once it is called."""

from __future__ import annotations

from typing import Any

from cronguard.cli.opening import opened
from cronguard.cli.options import ledger_options
from cronguard.cli.tell import remark
from cronguard.domain.pruning import Keep
from cronguard.render.printing import print_table
from cronguard.services.prune import Pruned, prune_ledger
from cronguard.services.results import deliver_what_can_be
from cronguard.settings import gather
from cronguard.settings.parsers import duration, naming, positive


def prune(said: dict[str, Any], keep: str, keep_last: str, *, dry_run: bool) -> int:
    settings, what_stays = gather(ledger_options(said)), _keep(keep, keep_last)
    with opened(settings, create=False) as it:
        deliver_what_can_be(it.spool, it.ledger)
        pruned = prune_ledger(it.ledger, what_stays, dry_run=dry_run)
    if dry_run:
        rows = [[key, str(count)] for key, count in pruned.runs.items()]
        print_table(("KEY", "RUNS"), [*rows, ["(skips without a run)", str(pruned.skips)]])
    else:
        remark(_done(pruned))
    return 0


def _keep(keep: str, keep_last: str) -> Keep:
    with naming("--keep"):
        for_ = duration(keep)
    with naming("--keep-last"):
        return Keep(for_, positive(keep_last))


def _done(pruned: Pruned) -> str:
    runs = sum(pruned.runs.values())
    return f"{runs} runs of {len(pruned.runs)} keys are gone, and {pruned.skips} skips without a run"
