"""cronguard run: claim, run the command while the lease is kept, write how it ended, exit accordingly."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from cronguard.clock import NEVER, boottime
from cronguard.domain.claim import Claim, Granted, Skipped
from cronguard.domain.lifecycle import Ending, Standing
from cronguard.domain.run import Outcome, SkipReason
from cronguard.errors import CRONGUARD_FAILED, LEASE_LOST, CronguardError, StepsChanged
from cronguard.ports import Beat
from cronguard.process.command import Ended, Limits, OnSilence, Stopped, Stragglers, supervise
from cronguard.process.guardian import Worker
from cronguard.process.heartbeat import Heartbeat, Trust
from cronguard.process.output import Output
from cronguard.process.spawn import Command, Stub
from cronguard.services.briefing import environment_of, expanded
from cronguard.services.firing import Firing
from cronguard.services.judging import DIED, ending_of, exit_code_of, exit_code_of_skip, signal_of
from cronguard.services.ledger import Ledger, Verdict
from cronguard.services.results import Spool, deliver, result_waiting

RETRY_JITTER = (0.5, 1.5)  # of the delay, so that a fleet does not try again in step
GUARDIAN_WAITS = 1.0  # seconds past the worker's own limit, half the margin of the lease
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
    capture: int = 16 * 1024  # bytes of output to remember
    on_silence: OnSilence = OnSilence.FREEZE
    stragglers: Stragglers = Stragglers.KILL
    stall_after: timedelta | None = None
    only_pending: bool = False
    catch_up: int = 0
    catch_up_within: timedelta = timedelta(days=7)
    is_one_of_many: bool = False  # others are to follow, by the same worker


class Teller(Protocol):
    """Whoever says our few words to the person at the terminal."""

    def refused(self, why: StepsChanged) -> None: ...
    def granted(self, verdict: Verdict) -> None: ...
    def skipped(self, skipped: Skipped, claim: Claim, exit_code: int) -> None: ...
    def not_started(self, command: str, ended: Ended) -> None: ...
    def stopped(self, ended: Ended, held: Granted) -> None: ...
    def trying_again(self, held: Granted, delay: float) -> None: ...
    def unfinished(self, held: Granted) -> None: ...
    def lost(self, held: Granted) -> None: ...
    def recalled(self, held: Granted) -> None: ...
    def kept(self, place: str, failure: Exception) -> None: ...
    def not_kept(self, failure: Exception, reason: OSError) -> None: ...
    def undelivered(self, name: str, reason: Exception) -> None: ...


@dataclass(frozen=True, slots=True)
class Means:
    """What it takes to carry out an order."""

    ledger: Ledger
    spool: Spool
    worker: Worker
    tell: Teller


@dataclass(frozen=True, slots=True)
class Fired:
    """How one firing went: what to exit with, and whether anything more may be started after it."""

    exit_code: int
    signum: int = 0  # the signal that the exit code stands for
    skipped: SkipReason | None = None
    told_to_stop: bool = False


def run(order: Order, means: Means) -> int:
    """One firing, from the question to the exit code."""
    deliver(means.spool, means.ledger, means.tell.undelivered)
    return ended_with(fire(order, means), means)


def fire(order: Order, means: Means) -> Fired:
    """Ask for the run, and run it if it is granted."""
    means.worker.link.is_waiting = True
    try:
        verdict = means.ledger.claim(order.firing, lambda key, period: result_waiting(means.spool, key, period))
    except StepsChanged as why:  # of this period: others may be run after it
        means.tell.refused(why)
        return Fired(why.exit_code)
    if isinstance(verdict.answer, Skipped):
        return _skip(verdict.answer, verdict.claim, order, means.tell)
    means.tell.granted(verdict)
    return _Holding(order, verdict, verdict.answer, means).to_the_end()


def ended_with(fired: Fired, means: Means) -> int:
    """The exit code of the whole; the guardian dies of the signal that is in it."""
    means.worker.link.died_of = fired.signum
    return fired.exit_code


def _skip(skipped: Skipped, claim: Claim, order: Order, tell: Teller) -> Fired:
    exit_code = exit_code_of_skip(skipped, order.skip_exit)
    tell.skipped(skipped, claim, exit_code)
    return Fired(exit_code, skipped=skipped.reason)


class _Holding:
    """A granted run: its attempts, one after the other, on one lease."""

    def __init__(self, order: Order, verdict: Verdict, held: Granted, means: Means) -> None:
        self._order, self._ledger, self._spool = order, means.ledger, means.spool
        self._worker, self._tell = means.worker, means.tell
        self._output = Output(capture=0, quiet=False)
        self._terms = order.firing.spec.terms
        self._is_running = False
        self._reported: Ended | None = None
        self._trust = Trust(self._terms, on_news=self._tell_guardian)
        self._hold_besides = verdict.hold
        is_cut = verdict.hold.is_cut if verdict.hold else None
        self._heartbeat = Heartbeat(self._beat, self._trust, self._terms.beat_every.total_seconds(), is_cut)
        self._hold(held, verdict.sent_at)

    def to_the_end(self) -> Fired:
        ended = self._attempt()
        while self._is_worth_another_try(ended) and self._next_attempt(ended):
            ended = self._attempt()
        return self._finish(ended)

    def _hold(self, held: Granted, sent_at: float) -> None:
        """From here on this attempt is ours; the guardian can say so if we cannot any more."""
        self._held = held
        self._worker.link.holding = self._spool.packed(held, DIED)
        self._trust.renew(sent_at, held.now, held.lease.lease_until, held.run.complete_by)

    def _attempt(self) -> Ended:
        """Run the command once, unless it is too late for that already."""
        if refused := self._refused_start():
            return refused
        with self._giving_back_what_cannot_start():
            self._output = self._new_output()
            stub = Stub(self._command(self._output), self._worker)  # forked while there is no other thread
            self._output.start()
            self._heartbeat.start()
        return self._supervised(stub, self._output)

    @contextmanager
    def _giving_back_what_cannot_start(self) -> Iterator[None]:
        """Too many processes or files on this host: the run waits for a host that can, not for our lease to end."""
        try:
            yield
        except (OSError, RuntimeError) as failure:  # the latter is a thread's
            why = (failure.strerror if isinstance(failure, OSError) else None) or str(failure)
            self._output.abandon()
            with suppress(CronguardError):
                ending = Ending(Outcome.INTERRUPTED, note=f"this host could not start it: {why}")
                self._ledger.finish(self._held, ending, self._trust.until)
            self._worker.link.holding = b""
            what = f"{self._held.run.key} {self._held.run.period}"
            raise CronguardError(f"{what}: nothing was started: this host has no room for one more: {why}") from None

    def _new_output(self) -> Output:
        order = self._order
        return Output(order.capture, order.quiet, watched=order.stall_after is not None)

    def _supervised(self, stub: Stub, output: Output) -> Ended:
        order = self._order
        limits = Limits(
            self._trust, self._terms.stop_grace.total_seconds(), order.on_silence, order.stragglers, order.stall_after
        )
        self._is_running = True
        self._tell_guardian()
        try:
            return supervise(stub, output, limits, self._worker)
        finally:
            self._is_running = False
            self._worker.link.kill_at = NEVER

    def _command(self, output: Output) -> Command:
        order = self._order
        return Command(
            argv=expanded(order.argv, self._held) if order.expand else order.argv,
            environment=environment_of(self._held, order.environment),
            stdout=output.stdout,
            stderr=output.stderr,
        )

    def _refused_start(self) -> Ended | None:
        """Told to stop, or the lease nearly over, before the command was even started."""
        if signum := self._worker.signals.told_to_stop():
            return Ended(stopped=Stopped.SIGNAL, stop_signal=signum)
        return Ended(stopped=Stopped.SILENCE) if boottime() >= self._trust.stop_at else None

    def _tell_guardian(self) -> None:
        """News of the lease: until when the guardian lets us live without any more of it."""
        if self._is_running and self._order.on_silence is not OnSilence.CONTINUE:
            self._worker.link.kill_at = self._trust.until + GUARDIAN_WAITS
        self._worker.signals.wake()

    def _report(self, ended: Ended) -> None:
        """Once the ledger knows: who reads us may be stuck. --quiet lets only a failure be heard."""
        if ended is self._reported:
            return
        self._reported = ended
        if self._order.quiet and exit_code_of(ended):
            self._output.print_held_back()
        self._output = Output(capture=0, quiet=False)  # a try that is refused its start has none to print
        if ended.start_errno is not None:
            self._tell.not_started(self._order.argv[0], ended)
        elif ended.stopped:
            self._tell.stopped(ended, self._held)

    # ----------------------------------------------------------------------- another try in place

    def _is_worth_another_try(self, ended: Ended) -> bool:
        failed = ending_of(ended).outcome in (Outcome.FAILED, Outcome.START_FAILED)
        return failed and self._held.run.failures + 1 < self._order.firing.spec.attempts

    def _next_attempt(self, ended: Ended) -> bool:
        """Close the attempt that failed, wait, and start the next under a new token, if there is time and leave."""
        delay = self._delay()
        if boottime() + delay >= self._trust.complete_at:
            return False
        try:
            self._ledger.fail_and_hold(self._held, ending_of(ended), self._trust.stop_at)
            self._report(ended)
            self._tell.trying_again(self._held, delay)
            return self._may_go_on_after(delay) and self._take_next_token()
        except CronguardError:
            return False

    def _delay(self) -> float:
        growth: int = 2**self._held.run.failures
        return self._order.retry_delay.total_seconds() * growth * random.uniform(*RETRY_JITTER)  # noqa: S311  jitter

    def _may_go_on_after(self, delay: float) -> bool:
        self._worker.link.is_waiting = True
        until, signals, trust = boottime() + delay, self._worker.signals, self._trust
        while boottime() < until:
            trust.supervised_at = boottime()
            signals.wait(until)
            if signals.told_to_stop() or trust.lost or trust.stop_requested:
                return False
        return boottime() < trust.stop_at

    def _take_next_token(self) -> bool:
        """No beat meanwhile: it would be one for a token that is no longer ours, and look like a loss."""
        self._heartbeat.stop(wait=True)
        sent_at = boottime()
        granted = self._ledger.retry(self._held, self._trust.stop_at)
        if granted:
            self._hold(granted, sent_at)
        return granted is not None

    def _beat(self) -> Beat | None:
        return self._ledger.beat(self._held, self._terms, self._hold_besides)

    # ----------------------------------------------------------------------- the end

    def _finish(self, ended: Ended) -> Fired:
        """Tell the ledger, for as long as the lease lasts; else keep the result for the next command to deliver."""
        ending = self._ending_of(ended)
        until = boottime() + TRIES_AFTER_KILL if ending.outcome is Outcome.LOST else self._trust.until
        standing = Standing.MINE
        try:
            standing = self._ledger.finish(self._held, ending, until)
        except CronguardError as failure:  # also where it refuses: the result is ours, and there is no other copy of it
            self._keep(ending, failure)
        self._let_go()
        self._worker.link.holding = b""
        self._report(ended)
        return self._fired(ended, ending, standing)

    def _ending_of(self, ended: Ended) -> Ending:
        """Where a lock besides was lost, the lease may be ours yet: nobody need wait for its end."""
        ending = ending_of(ended)
        if self._hold_besides and ended.stopped is Stopped.LOST and not ended.survivors:
            return replace(ending, note="killed: the lease or its advisory lock was lost", proven=True)
        return ending

    def _let_go(self) -> None:
        """After the result is told: who finds the lock free finds the lease gone too."""
        self._heartbeat.stop(wait=self._order.is_one_of_many or self._hold_besides is not None)
        if self._hold_besides:
            self._hold_besides.release()

    def _fired(self, ended: Ended, ending: Ending, standing: Standing) -> Fired:
        told_to_stop = ended.stop_signal is not None or ended.stopped in (Stopped.ASKED, Stopped.ORPHANED)
        if standing is Standing.LOST and ending.outcome is not Outcome.LOST:
            self._tell.lost(self._held)
            return Fired(LEASE_LOST, told_to_stop=told_to_stop)
        if standing is Standing.FORGOTTEN:
            self._tell.recalled(self._held)
        if standing is Standing.UNFINISHED:
            self._tell.unfinished(self._held)
            return Fired(CRONGUARD_FAILED, told_to_stop=told_to_stop)
        code = exit_code_of(ended)
        return Fired(code, signal_of(ended, code), told_to_stop=told_to_stop)

    def _keep(self, ending: Ending, failure: Exception) -> None:
        try:
            self._tell.kept(self._spool.keep(self._held, ending), failure)
        except OSError as reason:
            self._tell.not_kept(failure, reason)
