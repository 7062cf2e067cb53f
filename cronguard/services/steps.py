"""cronguard step: begin, run the command by its own deadline, write how it ended, exit accordingly."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol
from uuid import uuid4

from cronguard.clock import NEVER, boottime
from cronguard.domain.deadline import Deadline
from cronguard.domain.lifecycle import Standing
from cronguard.domain.progress import Inside
from cronguard.domain.run import Outcome
from cronguard.domain.step import Step, hash_of
from cronguard.domain.stepping import Beginning, Begun, StepAsked
from cronguard.errors import CRONGUARD_FAILED, LEASE_LOST, OUT_OF_TIME, SIGNALLED, SUCCESS, Interrupted
from cronguard.process.command import Ended, Stopped, supervise
from cronguard.process.guardian import Worker
from cronguard.process.inside import deadline_only
from cronguard.process.output import Output
from cronguard.process.spawn import Command, Stub
from cronguard.services.judging import ending_of, exit_code_of
from cronguard.services.ledger import Ledger

RETRY_JITTER = (0.5, 1.5)

EXIT_CODE_OF = {
    Beginning.PASSED_OVER: SUCCESS,
    Beginning.UNKNOWN: CRONGUARD_FAILED,
    Beginning.BUSY: CRONGUARD_FAILED,
    Beginning.OTHER_COMMAND: CRONGUARD_FAILED,
    Beginning.TOO_LATE: OUT_OF_TIME,
    Beginning.LOST: LEASE_LOST,
}


@dataclass(frozen=True, slots=True)
class StepOrder:
    """Everything that one step was asked to do."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    once: bool
    complete_by: Deadline | None
    attempts: int
    retry_delay: timedelta
    stop_grace: timedelta
    capture: int  # bytes of output to remember


class StepTeller(Protocol):
    """Whoever says our few words about steps to the person who reads them."""

    def not_begun(self, name: str, begun: Begun) -> None: ...
    def not_started(self, command: str, ended: Ended) -> None: ...
    def stopped(self, name: str, ended: Ended) -> None: ...
    def trying_again(self, step: Step, delay: float) -> None: ...
    def lost(self, name: str) -> None: ...
    def not_told(self, name: str) -> None: ...
    def left(self, name: str, exit_code: int, names: Sequence[str]) -> None: ...


def run_listed(orders: Sequence[StepOrder], inside: Inside, ledger: Ledger, worker: Worker, tell: StepTeller) -> int:
    """One step after the other, until one of them does not succeed; its exit code."""
    for number, order in enumerate(orders, 1):
        if signum := worker.signals.told_to_stop():
            return SIGNALLED + signum
        if code := run_step(order, inside, ledger, worker, tell):
            tell.left(order.name, code, [later.name for later in orders[number:]])
            return code
    return SUCCESS


def run_step(order: StepOrder, inside: Inside, ledger: Ledger, worker: Worker, tell: StepTeller) -> int:
    """One step, from the question to the exit code."""
    asked = StepAsked(order.name, str(uuid4()), order.once, order.complete_by, hash_of(order.argv))
    begun = ledger.begin_step(inside, asked)
    if begun.answer is not Beginning.GRANTED or begun.step is None:
        tell.not_begun(order.name, begun)
        return EXIT_CODE_OF[begun.answer]
    return _Doing(order, inside, ledger, worker, tell).to_the_end(asked, begun, begun.step)


class _Doing:
    """A step that was granted: its tries, one after the other, by one deadline."""

    def __init__(self, order: StepOrder, inside: Inside, ledger: Ledger, worker: Worker, tell: StepTeller) -> None:
        self._order, self._inside, self._ledger, self._worker, self._tell = order, inside, ledger, worker, tell
        self._complete_at = NEVER

    def to_the_end(self, asked: StepAsked, begun: Begun, step: Step) -> int:
        if step.complete_by:  # its tries share it
            self._complete_at = boottime() + (step.complete_by - begun.now).total_seconds()
            asked = replace(asked, complete_by=Deadline("", instant=step.complete_by))
        tries = 1
        while True:
            ended = self._try()
            if failed := self._write(asked, ended):
                return failed
            self._report(ended)
            again = self._next_try(asked, step, ended, tries)
            if again is None:
                return exit_code_of(ended)
            asked, tries = again, tries + 1

    def _write(self, asked: StepAsked, ended: Ended) -> int:
        """How the try ended, into the ledger; 0, or the exit code where that cannot be."""
        try:
            standing = self._ledger.end_step(self._inside, asked, ending_of(ended))
        except Interrupted as told:
            self._tell.not_told(self._order.name)
            return told.exit_code
        if standing is Standing.LOST:
            self._tell.lost(self._order.name)
        return LEASE_LOST if standing is Standing.LOST else SUCCESS

    def _try(self) -> Ended:
        """Run the command once, unless it is too late for that already."""
        signals = self._worker.signals
        if signum := signals.told_to_stop():
            return Ended(stopped=Stopped.SIGNAL, stop_signal=signum)
        order = self._order
        output = Output(order.capture, quiet=False)
        stub = Stub(Command(order.argv, order.environment, output.stdout, output.stderr), self._worker)
        output.start()
        return supervise(stub, output, deadline_only(self._complete_at, order.stop_grace), self._worker)

    def _report(self, ended: Ended) -> None:
        if ended.start_errno is not None:
            self._tell.not_started(self._order.argv[0], ended)
        elif ended.stopped:
            self._tell.stopped(self._order.name, ended)

    def _next_try(self, asked: StepAsked, step: Step, ended: Ended, tries: int) -> StepAsked | None:
        """Wait, and begin once more, if it failed and there is time and leave."""
        if ending_of(ended).outcome not in (Outcome.FAILED, Outcome.START_FAILED) or tries >= self._order.attempts:
            return None
        delay = self._delay(tries)
        if boottime() + delay >= self._complete_at:
            return None
        self._tell.trying_again(step, delay)
        again = replace(asked, call=str(uuid4()))
        try:
            self._worker.signals.pause(delay)
            begun = self._ledger.begin_step(self._inside, again)
        except Interrupted:
            return None
        return again if begun.answer is Beginning.GRANTED else None

    def _delay(self, tries: int) -> float:
        growth: int = 2 ** (tries - 1)
        return self._order.retry_delay.total_seconds() * growth * random.uniform(*RETRY_JITTER)  # noqa: S311  jitter
