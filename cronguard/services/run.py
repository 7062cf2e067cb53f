"""cronguard run: claim, run the command while the lease is kept, write how it ended, exit accordingly."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from cronguard.domain.claim import Claim, Granted, Skipped
from cronguard.domain.lifecycle import Ending, Standing
from cronguard.domain.run import Outcome
from cronguard.errors import LEASE_LOST, Interrupted, LedgerUnavailable
from cronguard.ports import Beat
from cronguard.process.clock import boottime
from cronguard.process.command import NEVER, Ended, Limits, Stopped, supervise
from cronguard.process.heartbeat import Heartbeat, Trust
from cronguard.process.quiet import HeldBack
from cronguard.process.signals import Signals
from cronguard.process.spawn import Command
from cronguard.services.briefing import environment_of, expanded
from cronguard.services.firing import Firing
from cronguard.services.judging import ending_of, exit_code_of, exit_code_of_skip
from cronguard.services.ledger import Ledger, Verdict
from cronguard.services.results import Spool, deliver, result_waiting

RETRY_JITTER = (0.5, 1.5)  # of the delay, so that a fleet does not try again in step
TRIES_AFTER_KILL = 2.0  # seconds to tell the ledger of an attempt whose lease is gone: nothing depends on it


@dataclass(frozen=True, slots=True)
class Order:
    """Everything that one `cronguard run` was asked to do."""

    firing: Firing
    argv: Sequence[str]
    environment: Mapping[str, str]
    retry_delay: timedelta
    skip_exit: int = 0
    expand: bool = False
    quiet: bool = False


class Teller(Protocol):
    """Whoever says our few words to the person at the terminal."""

    def granted(self, verdict: Verdict) -> None: ...
    def skipped(self, skipped: Skipped, claim: Claim, exit_code: int) -> None: ...
    def not_started(self, command: str, ended: Ended) -> None: ...
    def stopped(self, ended: Ended, held: Granted) -> None: ...
    def trying_again(self, held: Granted, delay: float) -> None: ...
    def lost(self, held: Granted) -> None: ...
    def kept(self, place: str, failure: Exception) -> None: ...
    def not_kept(self, failure: Exception, reason: OSError) -> None: ...
    def undelivered(self, name: str, reason: Exception) -> None: ...


def run(order: Order, ledger: Ledger, spool: Spool, signals: Signals, tell: Teller) -> int:
    """One firing, from the question to the exit code."""
    deliver(spool, ledger, tell.undelivered)
    verdict = ledger.claim(order.firing, lambda key, period: result_waiting(spool, key, period))
    if isinstance(verdict.answer, Skipped):
        return _skip(verdict.answer, verdict.claim, order, tell)
    tell.granted(verdict)
    return _Held(order, verdict, verdict.answer, ledger, spool, signals, tell).to_the_end()


def _skip(skipped: Skipped, claim: Claim, order: Order, tell: Teller) -> int:
    exit_code = exit_code_of_skip(skipped, order.skip_exit)
    tell.skipped(skipped, claim, exit_code)
    return exit_code


class _Held:
    """A granted run: its attempts, one after the other, under one heartbeat."""

    def __init__(
        self,
        order: Order,
        verdict: Verdict,
        held: Granted,
        ledger: Ledger,
        spool: Spool,
        signals: Signals,
        tell: Teller,
    ) -> None:
        self._order, self._ledger, self._spool, self._signals, self._tell = order, ledger, spool, signals, tell
        self._held = held
        self._sent_at = verdict.sent_at
        self._terms = order.firing.spec.terms
        self._trust = Trust(self._terms, on_news=signals.wake)
        self._trust.renew(verdict.sent_at, held.now, held.lease.lease_until)

    def to_the_end(self) -> int:
        with Heartbeat(self._beat, self._trust, self._terms.beat_every.total_seconds()) as heartbeat:
            ended = self._attempt()
            while self._is_worth_another_try(ended) and self._next_attempt(ended, heartbeat):
                ended = self._attempt()
        return self._finish(ended)

    def _attempt(self) -> Ended:
        """Run the command once, unless it is too late for that already; --quiet lets only a failure be heard."""
        if refused := self._refused_start():
            return refused
        order, held_back = self._order, HeldBack() if self._order.quiet else None
        command = Command(
            argv=expanded(order.argv, self._held) if order.expand else order.argv,
            environment=environment_of(self._held, order.environment),
            stdout=held_back.stdout if held_back else None,
            stderr=held_back.stderr if held_back else None,
        )
        ended = supervise(command, self._limits(), self._signals)
        if held_back and exit_code_of(ended):
            held_back.print()
        self._say(command, ended)
        return ended

    def _refused_start(self) -> Ended | None:
        """Told to stop, or the lease nearly over, before the command was even started."""
        if signum := self._signals.told_to_stop():
            return Ended(stopped=Stopped.SIGNAL, stop_signal=signum)
        return Ended(stopped=Stopped.SILENCE) if boottime() >= self._trust.stop_at else None

    def _limits(self) -> Limits:
        complete_by = self._held.run.complete_by
        complete_at = self._boottime_of(complete_by) if complete_by else NEVER
        return Limits(self._trust, self._terms.stop_grace.total_seconds(), complete_at)

    def _boottime_of(self, instant: datetime) -> float:
        """An instant of the ledger's clock on this host's; never later than it really is."""
        return self._sent_at + (instant - self._held.now).total_seconds()

    def _say(self, command: Command, ended: Ended) -> None:
        if ended.start_errno is not None:
            self._tell.not_started(command.argv[0], ended)
        elif ended.stopped:
            self._tell.stopped(ended, self._held)

    # ----------------------------------------------------------------------- another try in place

    def _is_worth_another_try(self, ended: Ended) -> bool:
        failed = ending_of(ended).outcome in (Outcome.FAILED, Outcome.START_FAILED)
        return failed and self._held.run.failures + 1 < self._order.firing.spec.attempts

    def _next_attempt(self, ended: Ended, heartbeat: Heartbeat) -> bool:
        """Close the attempt that failed, wait, and start the next under a new token, if there is time and leave."""
        delay = self._delay()
        if boottime() + delay >= self._limits().complete_at:
            return False
        try:
            self._ledger.fail_and_hold(self._held, ending_of(ended), self._trust.stop_at)
            self._tell.trying_again(self._held, delay)
            return self._may_go_on_after(delay) and self._take_next_token(heartbeat)
        except (LedgerUnavailable, Interrupted):
            return False

    def _delay(self) -> float:
        growth: int = 2**self._held.run.failures
        return self._order.retry_delay.total_seconds() * growth * random.uniform(*RETRY_JITTER)  # noqa: S311  jitter

    def _may_go_on_after(self, delay: float) -> bool:
        until = boottime() + delay
        while boottime() < until:
            self._signals.wait(until)
            if self._signals.told_to_stop() or self._trust.lost or self._trust.stop_requested:
                return False
        return boottime() < self._trust.stop_at

    def _take_next_token(self, heartbeat: Heartbeat) -> bool:
        with heartbeat.still():
            sent_at = boottime()
            granted = self._ledger.retry(self._held, self._trust.stop_at)
            if granted:
                self._held, self._sent_at = granted, sent_at
        return granted is not None

    def _beat(self) -> Beat | None:
        held, terms = self._held, self._terms
        complete_by = held.run.complete_by
        at_most = complete_by + terms.stop_grace + terms.margin if complete_by else None
        return self._ledger.beat(held, terms.lease_for, at_most)

    # ----------------------------------------------------------------------- the end

    def _finish(self, ended: Ended) -> int:
        """Tell the ledger, for as long as the lease lasts; else keep the result for the next command to deliver."""
        ending = ending_of(ended)
        until = boottime() + TRIES_AFTER_KILL if ending.outcome is Outcome.LOST else self._trust.until
        try:
            standing = self._ledger.finish(self._held, ending, until)
        except (LedgerUnavailable, Interrupted) as failure:
            self._keep(ending, failure)
            return exit_code_of(ended)
        if standing is Standing.LOST and ending.outcome is not Outcome.LOST:
            self._tell.lost(self._held)
        return LEASE_LOST if standing is Standing.LOST else exit_code_of(ended)

    def _keep(self, ending: Ending, failure: Exception) -> None:
        try:
            self._tell.kept(self._spool.keep(self._held, ending), failure)
        except OSError as reason:
            self._tell.not_kept(failure, reason)
