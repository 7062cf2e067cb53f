"""The pauses between one failed question to the ledger and the next: random, growing, bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential  # noqa: TID253

from cronguard.errors import LedgerUnavailable

Answer = TypeVar("Answer")

LONGEST_PAUSE = 3.0  # seconds; 500 contenders for 100 connections on two cores were all answered within 17 s


def ask_again(
    ask: Callable[[], Answer], within: float, pause: Callable[[float], None], failure: LedgerUnavailable
) -> Answer:
    """Go on asking for `within` seconds; raises the last failure."""
    pauses = wait_random_exponential(multiplier=0.2, min=0.1, max=LONGEST_PAUSE)
    retrying = Retrying(
        retry=retry_if_exception_type(LedgerUnavailable),
        wait=lambda state: min(pauses(state), max(0.0, within - (state.seconds_since_start or 0.0))),
        stop=stop_after_delay(within),
        sleep=pause,
        reraise=True,
    )
    failures = [failure]

    def first_the_known_failure() -> Answer:
        if failures:
            raise failures.pop()
        return ask()

    return retrying(first_the_known_failure)
