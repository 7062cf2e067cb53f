"""The thread that keeps the lease, and what the holder may believe meanwhile.

Trust is a local timer: it needs no answer from anybody. It counts from the
moment the last good beat was *sent*, on a clock that neither steps nor stops in
suspend, and ends a margin before the ledger would give the run to somebody else.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from cronguard.domain.claim import LeaseTerms
from cronguard.errors import CronguardError
from cronguard.ports import Beat
from cronguard.process.clock import boottime

AFTER_A_FAILURE = (0.3, 1.5)  # seconds before a beat that failed is tried again: soon, and not all at once


class Trust:
    """Until when, by this host's boottime, the command may act as the holder; moved on by good beats only."""

    def __init__(self, terms: LeaseTerms, on_news: Callable[[], None]) -> None:
        self._terms = terms
        self._on_news = on_news
        self.until = 0.0
        self.lost = False
        self.stop_requested: str | None = None

    @property
    def stop_at(self) -> float:
        """When to ask the command to stop, so that it is dead by `until`."""
        return self.until - self._terms.stop_grace.total_seconds()

    def renew(self, sent_at: float, now: datetime, lease_until: datetime) -> None:
        """A good answer to what was sent at boottime `sent_at`."""
        valid_for = lease_until - now - self._terms.margin
        self.until = max(self.until, sent_at + valid_for.total_seconds())

    def lose(self) -> None:
        """The ledger says that the lease is no longer ours."""
        self.lost = True
        self._on_news()

    def ask_to_stop(self, why: str) -> None:
        if self.stop_requested is None:
            self.stop_requested = why
            self._on_news()


class Heartbeat:
    """Beats until it is left. `beat` makes one try: an answer, None when the lease is lost, or it raises."""

    def __init__(self, beat: Callable[[], Beat | None], trust: Trust, every: float) -> None:
        self._beat = beat
        self._trust = trust
        self._every = every
        self._over = threading.Event()
        self._between_beats = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """No beat after this one; a beat on its way is not waited for, the guarded statement makes it harmless."""
        self._over.set()

    @contextmanager
    def still(self) -> Iterator[None]:
        """No beat inside: the lease is about to change its token."""
        with self._between_beats:
            yield

    def _run(self) -> None:
        pause = self._every
        while not self._over.wait(pause) and not self._trust.lost:
            with self._between_beats:
                pause = self._every if self._one_beat() else random.uniform(*AFTER_A_FAILURE)  # noqa: S311  jitter

    def _one_beat(self) -> bool:
        sent_at = boottime()
        try:
            answer = self._beat()
        except CronguardError:
            return False  # silence: the trust timer decides what it means
        if answer is None:
            self._trust.lose()
        else:
            self._trust.renew(sent_at, answer.now, answer.lease_until)
            if answer.stop_requested:
                self._trust.ask_to_stop(answer.stop_requested)
        return True
