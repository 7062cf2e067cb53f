"""Asking the ledger again: how long, and with what pauses, is decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cronguard.clock import boottime
from cronguard.errors import LedgerUnavailable

Answer = TypeVar("Answer")


def patiently(
    ask: Callable[[], Answer],
    until: float,
    pause: Callable[[float], None],
    on_failure: Callable[[LedgerUnavailable], None],
) -> Answer:
    """Ask until the ledger answers or boottime `until` has come; then the last failure is raised.

    `pause` waits that many seconds, and may raise to end the asking; `on_failure`
    is told of the first failure. The library that does the retrying is loaded
    only then: most asking succeeds.
    """
    try:
        return ask()
    except LedgerUnavailable as failure:
        left = until - boottime()
        if left <= 0:
            raise
        on_failure(failure)
        from cronguard.services.retrying import ask_again  # noqa: PLC0415

        return ask_again(ask, left, pause, failure)
