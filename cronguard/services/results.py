"""Results that could not be delivered: kept on this host, and delivered by the next command that comes by.

A result is guarded by its token, so delivering it twice, or after somebody else
has taken over, does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from cronguard.domain.claim import Granted
from cronguard.domain.lifecycle import Ending
from cronguard.errors import CronguardError, LedgerUnavailable, RowHeld, SchemaMismatch
from cronguard.services.ledger import Ledger


class Spool(Protocol):
    """Where results wait, on this host and for this ledger."""

    def keep(self, held: Granted, ending: Ending) -> str:
        """Store a result durably; where it lies. Raises OSError when nowhere can be written."""

    def packed(self, held: Granted, ending: Ending) -> bytes:
        """A result as `keep` would write it."""

    def unpacked(self, text: bytes) -> tuple[Granted, Ending] | None:
        """What `packed` has packed; None for anything else."""

    def waiting(self) -> list[tuple[str, Granted, Ending]]:
        """(name, what was held, how it ended), oldest first; cheap when there are none."""

    def forget(self, name: str) -> None:
        """The result has been delivered."""


def deliver(spool: Spool, ledger: Ledger, undelivered: Callable[[str, Exception], None]) -> None:
    """Tell the ledger what it has not been told; one result that it will not take does not keep back the others.

    Raises LedgerUnavailable or SchemaMismatch when the ledger takes nothing at all.
    """
    for name, held, ending in spool.waiting():
        try:
            ledger.finish_late(held, ending)
        except RowHeld as error:
            undelivered(name, error)
        except (LedgerUnavailable, SchemaMismatch):
            raise
        except CronguardError as error:
            undelivered(name, error)
        else:
            spool.forget(name)


def bury(text: bytes, spool: Spool, ledger: Ledger) -> None:
    """Tell the ledger of a worker that died; kept on this host when the ledger does not take it."""
    found = spool.unpacked(text)
    if found is None:
        return
    try:
        ledger.finish_late(*found)
    except CronguardError:
        spool.keep(*found)


def deliver_what_can_be(spool: Spool, ledger: Ledger) -> None:
    """For commands that only read: one pass, and no fuss."""
    with suppress(CronguardError):
        deliver(spool, ledger, lambda _name, _error: None)


def result_waiting(spool: Spool, key: str, period: str) -> Ending | None:
    """A result of this very run that could not be delivered; such a run is not run again by this host."""
    found = (ending for _, held, ending in spool.waiting() if (held.run.key, held.run.period) == (key, period))
    return next(found, None)
