"""The thread that keeps the lease, and what the holder may believe meanwhile.

Trust is a local timer: it needs no answer from anybody. It counts from the
moment the last good beat was *sent*, on a clock that neither steps nor stops in
suspend, and ends a margin before the ledger would give the run to somebody else.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import datetime

from cronguard.clock import boottime
from cronguard.domain.claim import LeaseTerms
from cronguard.errors import CronguardError
from cronguard.ports import Beat

AFTER_A_FAILURE = (0.3, 1.5)  # seconds before a beat that failed is tried again: soon, and not all at once
LOOK_EVERY = 0.1  # seconds between two looks at a lock besides the lease
BEFORE_THE_END = 1.0  # seconds before complete-by at which it is asked once more whether it has moved


class Trust:
    """Until when, by this host's boottime, the command may act as the holder; moved on by good beats only."""

    def __init__(self, terms: LeaseTerms, on_news: Callable[[], None]) -> None:
        self._terms = terms
        self.on_news = on_news
        self.until = 0.0
        self.complete_at = float("inf")
        self.last_sign_at = boottime()  # when the command last said, by `cronguard beat`, that it gets on
        self.lost = False
        self.stop_requested: str | None = None
        self.supervised_at = boottime()  # when the supervising loop last came round
        self._progressed_at: datetime | None = None

    @property
    def stop_at(self) -> float:
        """When to ask the command to stop, so that it is dead by `until`."""
        return self.until - self._terms.stop_grace.total_seconds()

    @property
    def is_supervised(self) -> bool:
        """A beat vouches for the loop that would stop the command, never for its own thread alone."""
        return boottime() - self.supervised_at < self._terms.lease_for.total_seconds() / 2

    def renew(self, sent_at: float, now: datetime, lease_until: datetime, complete_by: datetime | None) -> None:
        """A good answer to what was sent at boottime `sent_at`."""
        valid_for = lease_until - now - self._terms.margin
        self.until = max(self.until, sent_at + valid_for.total_seconds())
        if complete_by:
            self.complete_at = sent_at + (complete_by - now).total_seconds()
        self.on_news()

    def progressed(self, at: datetime | None) -> None:
        if at and at != self._progressed_at:
            self._progressed_at, self.last_sign_at = at, boottime()

    def lose(self) -> None:
        """The ledger says that the lease is no longer ours."""
        self.lost = True
        self.on_news()

    def ask_to_stop(self, why: str) -> None:
        if self.stop_requested is None:
            self.stop_requested = why
            self.on_news()


class Heartbeat:
    """Beats between `start` and `stop`. `beat` makes one try: an answer, None when the lease is lost, or it raises."""

    def __init__(
        self,
        beat: Callable[[], Beat | None],
        trust: Trust,
        every: float,
        is_cut: Callable[[], bool] | None = None,  # the lock besides the lease, where there is one
    ) -> None:
        self._beat = beat
        self._is_cut = is_cut
        self._trust = trust
        self._every = every
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._over,), name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self, *, wait: bool = False) -> None:
        """No beat after this one. To wait for one on its way is for who is about to fork, or to change the token."""
        self._over.set()
        if wait and self._thread:
            self._thread.join()

    def _run(self, over: threading.Event) -> None:
        pause = self._pause()
        while not self._waited(over, pause) and not self._trust.lost:
            if self._trust.is_supervised:
                pause = self._pause() if self._one_beat() else random.uniform(*AFTER_A_FAILURE)  # noqa: S311  jitter

    def _waited(self, over: threading.Event, seconds: float) -> bool:
        """Whether it is over. Somebody else can have a lock at once that is lost: it is looked after meanwhile."""
        if self._is_cut is None:
            return over.wait(seconds)
        until = boottime() + seconds
        while (left := until - boottime()) > 0 and not self._trust.lost:
            if over.wait(min(left, LOOK_EVERY)):
                return True
            if self._is_cut():
                self._trust.lose()
        return over.is_set()

    def _pause(self) -> float:
        """Until the next beat is due; one comes just before complete-by, which `cronguard extend` may have moved."""
        until_the_end = self._trust.complete_at - boottime() - BEFORE_THE_END
        return min(self._every, until_the_end) if until_the_end > 0 else self._every

    def _one_beat(self) -> bool:
        sent_at = boottime()
        try:
            answer = self._beat()
        except CronguardError:
            return False  # silence: the trust timer decides what it means
        if answer is None:
            self._trust.lose()
            return True
        self._trust.progressed(answer.progressed_at)
        self._trust.renew(sent_at, answer.now, answer.lease_until, answer.complete_by)
        if answer.stop_requested:
            self._trust.ask_to_stop(answer.stop_requested)
        return True
