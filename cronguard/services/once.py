"""cronguard once: claim an effect, have it done, say how it went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cronguard.domain.effect import Sender
from cronguard.errors import LEASE_LOST, CronguardError
from cronguard.process.command import Ended, Stopped
from cronguard.process.errand import run_errand
from cronguard.process.signals import Signals
from cronguard.process.spawn import Command
from cronguard.services.effects import Effects
from cronguard.services.judging import exit_code_of

EFFECT_TOKEN = "CRONGUARD_EFFECT_TOKEN"  # noqa: S105  what an idempotent provider is given


@dataclass(frozen=True, slots=True)
class Errand:
    """Everything that one `cronguard once` was asked to do."""

    sender: Sender
    subject: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    released_on: int | None = None
    skip_exit: int = 0


class Teller(Protocol):
    """Whoever says our few words to the person at the terminal."""

    def run_is_lost(self, errand: Errand) -> None: ...
    def claimed_already(self, errand: Errand) -> None: ...
    def not_started(self, command: str, ended: Ended) -> None: ...
    def left_open(self, errand: Errand, ended: Ended) -> None: ...
    def untold(self, errand: Errand, failure: CronguardError) -> None: ...


def once(errand: Errand, effects: Effects, signals: Signals, tell: Teller) -> int:
    """From the claim to the exit code, which is the command's own."""
    won = effects.claim(errand.sender, [errand.subject])
    if won is None:
        tell.run_is_lost(errand)
        return LEASE_LOST
    if not won:
        tell.claimed_already(errand)
        return errand.skip_exit
    ended = _done(errand, won[errand.subject], signals)
    if ended.start_errno is not None:
        tell.not_started(errand.argv[0], ended)
    _say_how_it_went(errand, ended, effects, tell)
    return exit_code_of(ended)


def environment_of(errand: Errand, effect_token: str) -> dict[str, str]:
    told = {EFFECT_TOKEN: effect_token} if errand.sender.idempotent else {}
    return dict(errand.environment) | told


def _done(errand: Errand, effect_token: str, signals: Signals) -> Ended:
    """Unless we were told to stop while it was being claimed."""
    if signum := signals.told_to_stop():
        return Ended(stopped=Stopped.SIGNAL, stop_signal=signum)
    return run_errand(Command(errand.argv, environment_of(errand, effect_token)), signals)


def _say_how_it_went(errand: Errand, ended: Ended, effects: Effects, tell: Teller) -> None:
    """What is not certain is not said: it stays as it is, and becomes unknown."""
    sender, subjects = errand.sender, [errand.subject]
    try:
        if ended.exit_code == 0:
            effects.confirm(sender.kind, sender.period, subjects)
        elif _is_certainly_undone(errand, ended):
            effects.release(sender.kind, sender.period, subjects, sender.inside, sender.claim_id)
        else:
            tell.left_open(errand, ended)
    except CronguardError as failure:
        tell.untold(errand, failure)


def _is_certainly_undone(errand: Errand, ended: Ended) -> bool:
    never_began = ended.start_errno is not None or ended.stopped is Stopped.SIGNAL
    return never_began or (ended.exit_code is not None and ended.exit_code == errand.released_on)
