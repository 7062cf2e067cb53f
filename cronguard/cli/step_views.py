"""What step and settle do once they are called, and what they say about it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Any

from cronguard.cli.opening import opened
from cronguard.cli.tell import SayOnStderr, complain, remark
from cronguard.domain.progress import Inside, parse_note
from cronguard.domain.run import parse_key, parse_name
from cronguard.domain.step import Step
from cronguard.domain.stepping import Beginning, Begun, Settled
from cronguard.domain.text import format_instant
from cronguard.errors import SUCCESS, BadInput, LedgerRefused, LedgerUnavailable
from cronguard.process.command import Ended, Stopped
from cronguard.process.inside import become_worker_of_a_run
from cronguard.services.steps import StepOrder, run_listed, run_step
from cronguard.settings import Settings, gather
from cronguard.settings.host import person
from cronguard.settings.knobs import BY_NAME
from cronguard.settings.parsers import naming, utf8
from cronguard.settings.step_list import StepTexts
from cronguard.settings.step_order import order_of_step, orders_of_list, settings_of_run


def step(options: dict[str, Any], name: str, command: Sequence[str], said: dict[str, Any]) -> int:
    settings, inside = settings_of_run(options, "step")
    if not command or not command[0]:
        raise BadInput("there is no command; type: cronguard step NAME -- CMD [ARG…]")
    texts = StepTexts(parse_name(utf8(name), "step's name"), tuple(command), **said)
    order = order_of_step(texts, settings, lambda knob: BY_NAME[knob].option)
    worker = become_worker_of_a_run()
    with opened(settings, worker.signals, create=False) as it, _Naming(inside, order):
        return run_step(order, inside, it.ledger, worker, SayOfSteps(settings, inside, it.store.name))


def step_sequence(text: str) -> int:
    """What the command of a listed job does: one step after the other."""
    settings, inside = settings_of_run({}, "step")
    orders = orders_of_list(text, settings)
    worker = become_worker_of_a_run()
    with opened(settings, worker.signals, create=False) as it:
        return run_listed(orders, inside, it.ledger, worker, SayOfSteps(settings, inside, it.store.name))


def settle(
    options: dict[str, Any], which: tuple[str, str, str], *, succeeded: bool, again: bool, reason: str | None
) -> int:
    key, period, name = (utf8(text) for text in which)
    parse_key(key), parse_name(period, "period"), parse_name(name, "step's name")
    if succeeded == again:
        raise BadInput("say how the step ended: --succeeded, or --again to have it run again")
    settings, why = gather(options), _reason(reason)
    word = f"settled as {'succeeded' if succeeded else 'to be run again'} by {person(settings.environment)}: {why}"
    with opened(settings, create=False) as it:
        settled = it.ledger.settle_step(key, period, name, succeeded=succeeded, word=word)
    return _tell_settled(settled, key, period, name, it.store.name)


def _reason(text: str | None) -> str:
    if text is None:
        raise BadInput("say how you know, for whoever reads it later: --reason TEXT")
    with naming("--reason"):
        return parse_note(utf8(text))


def _tell_settled(settled: Settled, key: str, period: str, name: str, ledger: str) -> int:
    what = f"{key} {period}: step {name}"
    match settled:
        case Settled.NO_SUCH_STEP:
            raise BadInput(f"{what}: the ledger at {ledger} has no such step; see: {shlex.join(_show(key, period))}")
        case Settled.LIVE:
            raise BadInput(f"{what}: it is running; how it ends will be seen")
        case Settled.SUCCEEDED:
            raise BadInput(f"{what}: it has succeeded; to run it all again: cronguard run --rerun --force")
        case Settled.ALREADY_SO:
            remark(f"{what}: it has succeeded already")
        case Settled.SETTLED:
            remark(f"{what}: settled")
    return SUCCESS


class _Naming:
    """A ledger that is away: which step it is that has not begun."""

    def __init__(self, inside: Inside, order: StepOrder) -> None:
        self._what = f"{inside.key} {inside.period}: step {order.name}"

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if isinstance(error, LedgerUnavailable | LedgerRefused):
            raise type(error)(f"{self._what}: {error}") from None


class SayOfSteps:
    """What `step` says, and to whom: success and passing over only at a terminal."""

    def __init__(self, settings: Settings, inside: Inside, ledger: str) -> None:
        self._inside = inside
        self._ledger = ledger
        self._of_commands = SayOnStderr(settings.environment.get("PATH", os.defpath))

    def not_begun(self, name: str, begun: Begun) -> None:
        what, found = self._what(name), begun.step
        match begun.answer:
            case Beginning.PASSED_OVER:
                at = f" at {_time(found)}" if found and found.finished_at else ""
                remark(f"{what}: passed over: it succeeded{at}")
            case Beginning.UNKNOWN:
                complain(f"{what}: it must be done once, and nobody knows whether it was; {self._how_to_settle(name)}")
            case Beginning.BUSY:
                complain(f"{what}: it is running already, in this very run")
            case Beginning.OTHER_COMMAND:
                complain(
                    f"{what}: this name has been done by this attempt already, with another command: give each step a "
                    "name of its own"
                )
            case Beginning.TOO_LATE:
                complain(f"{what}: not started: its complete-by has passed")
            case _:
                token = self._inside.token
                complain(
                    f"{what}: the ledger at {self._ledger} has no live run under token {token}: it is over, or lost"
                )

    def not_started(self, command: str, ended: Ended) -> None:
        self._of_commands.not_started(command, ended)

    def stopped(self, name: str, ended: Ended) -> None:
        if ended.stopped is Stopped.DEADLINE:
            complain(f"{self._what(name)}: stopped at its complete-by")
        else:
            remark(f"{self._what(name)}: stopped by a signal")

    def trying_again(self, step: Step, delay: float) -> None:
        remark(f"{self._what(step.name)}: it failed; next try in {delay:.0f}s")

    def lost(self, name: str) -> None:
        complain(f"{self._what(name)}: its run is over, or lost; this end of it does not count")

    def not_told(self, name: str) -> None:
        complain(f"{self._what(name)}: the ledger could not be told how it ended")

    def left(self, name: str, exit_code: int, names: Sequence[str]) -> None:
        after = f"; not started: {', '.join(names)}" if names else ""
        complain(f"{self._what(name)}: not done (exit {exit_code}){after}")

    def _what(self, name: str) -> str:
        return f"{self._inside.key} {self._inside.period}: step {name}"

    def _how_to_settle(self, name: str) -> str:
        words = shlex.join(("cronguard", "settle", self._inside.key, self._inside.period, name))
        return f"to say it, type: {words} --succeeded (or --again) --reason TEXT"


def _time(step: Step) -> str:
    return format_instant(step.finished_at.replace(microsecond=0)) if step.finished_at else ""


def _show(key: str, period: str) -> tuple[str, ...]:
    return ("cronguard", "show", key, period)
