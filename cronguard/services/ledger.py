"""Look, decide, write: every change of the ledger that `run` makes, asked for with patience.

A change is one short transaction around one pure decision of `domain`. A loser
decides on a plain read and takes no lock; only who may win locks the page, and
decides again on what it shows then.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import uuid4

from cronguard.clock import NEVER, boottime, host_now
from cronguard.domain import lifecycle
from cronguard.domain.admission import decide
from cronguard.domain.calendar import changes
from cronguard.domain.claim import Claim, Granted, LeaseTerms, Skipped
from cronguard.domain.lifecycle import Ending, Standing
from cronguard.domain.progress import Extension, Inside, extend, progress
from cronguard.domain.run import Change, Record, Run, Sight, Skip, SkipReason, State
from cronguard.domain.step import Step
from cronguard.domain.stepping import Begun, Settled, StepAsked, begin, end, settle
from cronguard.errors import BadInput, LedgerUnavailable
from cronguard.ports import Beat, Hold, Store
from cronguard.services.doubts import ABANDONED_AFTER, Doubts
from cronguard.services.firing import Firing
from cronguard.services.patience import patiently

_Told = TypeVar("_Told")

STAND_BY_LOOKS = (0.5, 1.5)  # seconds between two looks of a stand-by


@dataclass(frozen=True, slots=True)
class Verdict:
    """The ledger's answer to a firing; `sent_at` is the boottime when the question that it answers was sent."""

    answer: Granted | Skipped
    claim: Claim
    sent_at: float
    changed: tuple[str, ...] = ()  # what the winner changes of the key's calendar, in words
    hold: Hold | None = None  # the winner's, with --lock advisory
    stands_alone: bool = False  # the winner asked for --durable, and there is no standby to wait for


class Ledger:
    """The store, asked until it answers: for `db_wait` seconds before a start, for as long as is left after it."""

    def __init__(
        self,
        store: Store,
        db_wait: float,
        pause: Callable[[float], None],
        on_failure: Callable[[LedgerUnavailable], None] = lambda _failure: None,
    ) -> None:
        self._store = store
        self._db_wait = db_wait
        self._pause = pause
        self._on_failure = on_failure

    # ----------------------------------------------------------------------- before the command

    def claim(self, firing: Firing, result_waiting: Callable[[str, str], Ending | None]) -> Verdict:
        """May this firing run? A stand-by asks until nobody holds what it waits for.

        `result_waiting` knows whether this host still owes the ledger the result of a run.
        """
        question = _Question(self._store, firing, result_waiting)
        with question.letting_go_unless_granted():
            while True:
                verdict = self._ask(question.ask, boottime() + self._db_wait)
                if question.has_doubts(verdict.answer):
                    self._pause(ABANDONED_AFTER)
                elif _stands_by(firing, verdict.answer):
                    self._pause(random.uniform(*STAND_BY_LOOKS))  # noqa: S311  jitter, not a secret
                else:
                    return verdict

    def preview(self, firing: Firing, result_waiting: Callable[[str, str], Ending | None]) -> tuple[Verdict, Sight]:
        """What `claim` would answer now; nothing is claimed or noted."""
        question = _Question(self._store, firing, result_waiting)
        return self._ask(question.preview, boottime() + self._db_wait)

    def backlog(self, key: str, *, missed: bool = False, within: timedelta | None = None) -> Sight:
        """What may wait of a key."""
        until = boottime() + self._db_wait
        return self._ask(lambda: self._store.backlog(key, missed=missed, within=within), until)

    def recorded(self, key: str, first: str, last: str) -> Sight:
        """What the ledger has of the periods between two labels."""
        return self._ask(lambda: self._store.recorded(key, first, last), boottime() + self._db_wait)

    # ----------------------------------------------------------------------- about the ledger itself

    def ask(self, question: Callable[[], _Told]) -> _Told:
        """Any question that may safely be asked again, as patiently as before a start."""
        return self._ask(question, boottime() + self._db_wait)

    def history(self, key: str | None, limit: int) -> Sequence[Record]:
        return self.asked(lambda store: store.history(key, limit))

    def show(self, key: str, period: str | None) -> Record | None:
        return self.asked(lambda store: store.show(key, period))

    def migrate(self) -> tuple[int, int]:
        """Create or upgrade the schema; its version before (0: none) and after."""
        return self._ask(self._store.migrate, boottime() + self._db_wait)

    # ----------------------------------------------------------------------- while it runs, and after

    def beat(self, held: Granted, terms: LeaseTerms, hold: Hold | None = None) -> Beat | None:
        """One try to renew; the heartbeat tries again by itself."""
        return (hold or self._store).beat(held.lease, terms.lease_for, terms.slack)

    def finish(self, held: Granted, ending: Ending, until: float) -> Standing:
        """The attempt and its run are over; raises LedgerUnavailable when boottime `until` came first."""
        return self._change(held, lambda sight: lifecycle.finish(held, ending, sight), until)

    def finish_late(self, held: Granted, ending: Ending) -> Standing:
        """Deliver a result that waited on this host; before the command that comes by does anything else."""
        return self.finish(held, ending, boottime() + self._db_wait)

    def fail_and_hold(self, held: Granted, ending: Ending, until: float) -> Standing:
        """The attempt failed, and another will follow in place."""
        return self._change(held, lambda sight: lifecycle.fail_and_hold(held, ending, sight), until)

    def retry(self, held: Granted, until: float) -> Granted | None:
        """The next attempt in place; None when the run is no longer ours."""
        return self._change(held, lambda sight: lifecycle.retry(held, sight), until)

    # ----------------------------------------------------------------------- from inside the command

    def progress(self, inside: Inside, text: str | None, note: str | None) -> bool:
        """How far the command is; False when its run is no longer live."""
        return self.change(inside.key, inside.period, lambda sight: progress(inside, text, note, sight))

    def extend(self, inside: Inside, by: timedelta) -> Extension:
        """The command needs more time."""
        call = str(uuid4())  # one for all the times that it may have to be asked
        return self.change(inside.key, inside.period, lambda sight: extend(inside, by, call, sight))

    def begin_step(self, inside: Inside, asked: StepAsked) -> Begun:
        """May this step start?"""
        return self.change(inside.key, inside.period, lambda sight: begin(inside, asked, sight))

    def end_step(self, inside: Inside, asked: StepAsked, ending: Ending) -> Standing:
        """The step is over. Told for as long as it takes: whoever guards the run decides how long that may be."""
        decision: Callable[[Sight], tuple[Standing, Change]] = lambda sight: end(inside, asked, ending, sight)  # noqa: E731
        return self._ask(lambda: self._write(inside.key, inside.period, decision), NEVER)

    # ----------------------------------------------------------------------- about steps, from outside

    def steps_of(self, key: str, period: str) -> Sequence[Step]:
        """The steps of one run; `domain.step.step_at` tells which of them it stands or died at."""
        return self.asked(lambda store: store.steps_of(key, period))

    def settle_step(self, key: str, period: str, name: str, *, succeeded: bool, word: str) -> Settled:
        """A person says how a step ended that nobody saw end."""
        return self.change(key, period, lambda sight: settle(name, period, succeeded, word, sight))

    # ----------------------------------------------------------------------- whoever else asks

    def asked(self, question: Callable[[Store], _Told]) -> _Told:
        """The store's answer; what it changes must bear to be asked for again."""
        return self._ask(lambda: question(self._store), boottime() + self._db_wait)

    def change(self, key: str, period: str, decision: Callable[[Sight], tuple[_Told, Change]]) -> _Told:
        """Refused by a plain read that locks nothing, and makes no ledger where there is none; else written."""

        def once(store: Store) -> _Told:
            with store.connected():
                told, change = decision(store.look(key, period))
                return self._write(key, period, decision, [run.period for run in change.runs]) if change else told

        return self.asked(once)

    # ----------------------------------------------------------------------- how it is asked

    def pause(self, seconds: float) -> None:
        """Wait; raises Interrupted when told to stop meanwhile."""
        self._pause(seconds)

    def _ask(self, ask: Callable[[], _Told], until: float) -> _Told:
        return patiently(ask, until, self._pause, self._on_failure)

    def _change(self, held: Granted, decision: Callable[[Sight], tuple[_Told, Change]], until: float) -> _Told:
        return self._ask(lambda: self._write(held.run.key, held.run.period, decision), until)

    def _write(
        self, key: str, period: str, decision: Callable[[Sight], tuple[_Told, Change]], runs: Sequence[str] = ()
    ) -> _Told:
        with self._store.page(key, period, runs) as page:
            told, change = decision(page.sight)
            page.write(change)
        return told


class _Question:
    """One firing, asking: the period is chosen at the first answer and stays, however long it goes on asking."""

    def __init__(self, store: Store, firing: Firing, result_waiting: Callable[[str, str], Ending | None]) -> None:
        self._store = store
        self._firing = firing
        self._result_waiting = result_waiting
        self._claim: Claim | None = None
        self._hold: Hold | None = None
        self._doubts = Doubts()
        self._is_granted = False

    @contextmanager
    def letting_go_unless_granted(self) -> Iterator[None]:
        """Whoever is not granted the run has no lock either."""
        try:
            yield
        finally:
            if self._hold and not self._is_granted:
                self._hold.release()

    def has_doubts(self, answer: Granted | Skipped) -> bool:
        """Whether its holder may be gone, which a second look will tell."""
        return isinstance(answer, Skipped) and answer.held_by is not None and answer.held_by.token in self._doubts

    def ask(self) -> Verdict:
        """One try; asking again is safe, since the ledger knows this holder by its UUID."""
        with self._store.connected():
            sent_at = boottime()
            claim, sight = self._look(noting=self._firing.is_called)
            sight = self._doubts.settled(sight)
            answer, change = self._refused_by_result(claim, sight) or decide(claim, sight)
            if isinstance(answer, Skipped) and not change:
                self._note(claim, answer, sight)
                return Verdict(answer, claim, sent_at)
            return self._decide_locked(claim)

    def preview(self) -> tuple[Verdict, Sight]:
        sent_at = boottime()
        claim, sight = self._look(noting=False)
        sight = self._doubts.settled(sight)
        changed = tuple(changes(sight.job, claim.calendar))
        answer, _ = self._refused_by_result(claim, sight) or decide(claim, sight)
        return Verdict(answer, claim, sent_at, changed), sight

    def _look(self, *, noting: bool) -> tuple[Claim, Sight]:
        """Guess the period on the host's clock and look; look again if the ledger's clock says another."""
        sent_at = boottime()
        elapsed = timedelta(seconds=sent_at - self._firing.started_at)
        guess = self._claim or self._guess(elapsed)
        if guess is None:
            sight = self._store.look(self._firing.key, "")
        else:
            foregone = self._firing.foregone(guess.calendar, guess.chosen, elapsed) if noting else None
            sight = self._store.look(guess.key, guess.period, foregone)
        claim = self._claim = self._claim or self._firing.claim(sight, sight.now - elapsed)
        right = guess is not None and claim.period == guess.period
        return claim, sight if right else self._store.look(claim.key, claim.period)

    def _guess(self, elapsed: timedelta) -> Claim | None:
        """None where only the ledger can tell: its clock, or the calendar that the key has stored."""
        with suppress(BadInput):
            return self._firing.claim(Sight(host_now()), host_now() - elapsed)
        return None

    def _refused_by_result(self, claim: Claim, sight: Sight) -> tuple[Skipped, Change] | None:
        """How this run ended is known on this host, but the ledger would not take it: it is not run again here."""
        ending = self._result_waiting(claim.key, claim.period)
        if ending is None:
            return None
        run = lifecycle.as_it_ended(Run(claim.key, claim.period, State.RUNNING), ending, sight.now)
        return Skipped(SkipReason.RESULT_WAITING, sight.now, run), Change()

    def _decide_locked(self, claim: Claim) -> Verdict:
        sent_at, hold = boottime(), self._hold_for(claim)
        with self._store.page(claim.key, claim.period) as page:
            answer, change = self._decided(claim, self._doubts.settled(page.sight), hold)
            if isinstance(answer, Skipped) and self._is_noted(answer):
                change = change.then(Change(skips=(skip_of(claim, answer.reason, answer.now),)))
            page.write(change)
        self._is_granted = isinstance(answer, Granted)
        changed = changes(page.sight.job, claim.calendar) if self._is_granted else ()
        return Verdict(answer, claim, sent_at, tuple(changed), hold, self._store.stands_alone)

    def _decided(self, claim: Claim, sight: Sight, hold: Hold | None) -> tuple[Granted | Skipped, Change]:
        """Both must be had: the claim, and the lock besides where there is to be one."""
        answer, change = decide(claim, sight)
        number = claim.advisory_lock
        if hold and number is not None and isinstance(answer, Granted) and not hold.take(number):
            return decide(claim, replace(sight, is_locked_out=True))
        return answer, change

    def _hold_for(self, claim: Claim) -> Hold | None:
        """Made before the page is opened, which others wait for; asked again, it is the same unless it was cut."""
        if claim.advisory_lock is None:
            return None
        if self._hold and self._hold.is_cut():
            self._hold.release()
            self._hold = None
        self._hold = self._hold or self._store.hold()
        return self._hold

    def _note(self, claim: Claim, answer: Skipped, sight: Sight) -> None:
        if sight.noted is not answer.reason and self._is_noted(answer):
            self._store.note(skip_of(claim, answer.reason, answer.now))

    def _is_noted(self, answer: Skipped) -> bool:
        """Once, when it is final, and where somebody fired this very period."""
        return self._firing.is_called and not _stands_by(self._firing, answer) and not self.has_doubts(answer)


def skip_of(claim: Claim, reason: SkipReason, seen_at: datetime) -> Skip:
    return Skip(claim.key, claim.period, reason, seen_at, claim.holder.host, claim.holder.pid)


def _stands_by(firing: Firing, answer: Granted | Skipped) -> bool:
    return firing.waits and isinstance(answer, Skipped) and answer.reason is SkipReason.HELD
