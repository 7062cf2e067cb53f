"""History and show: what the ledger knows, after this host has delivered what it still owed."""

from __future__ import annotations

from collections.abc import Sequence

from cronguard.domain.run import Record
from cronguard.services.ledger import Ledger
from cronguard.services.results import Spool, deliver_what_can_be


def history_of(ledger: Ledger, spool: Spool, key: str | None, limit: int) -> Sequence[Record]:
    deliver_what_can_be(spool, ledger)
    return ledger.history(key, limit)


def record_of(ledger: Ledger, spool: Spool, key: str, period: str | None) -> Record | None:
    deliver_what_can_be(spool, ledger)
    return ledger.show(key, period)
