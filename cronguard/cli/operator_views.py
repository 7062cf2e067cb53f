"""What reset, cancel, stop, pause and resume do once they are called: look, ask, step in, say what it means."""

from __future__ import annotations

import shlex
from typing import Any

from cronguard.cli.asking import agreed, refuse_without_a_yes
from cronguard.cli.opening import opened
from cronguard.cli.options import ledger_options
from cronguard.cli.tell import complain, remark
from cronguard.domain.intervention import Answer, Reply, Wish
from cronguard.domain.progress import parse_note
from cronguard.domain.run import Run, parse_key, parse_name
from cronguard.domain.said import Verb, because
from cronguard.domain.text import format_instant
from cronguard.errors import CRONGUARD_FAILED, SUCCESS
from cronguard.services.intervening import preview
from cronguard.services.intervening import step_in as decide_and_write
from cronguard.settings import gather
from cronguard.settings.host import person
from cronguard.settings.parsers import naming, utf8

_HARMLESS = (Answer.DONE, Answer.ALREADY_SO, Answer.NOT_LIVE)


def step_in(said: dict[str, Any], verb: str, key: str, period: str | None, reason: str | None, *, yes: bool) -> int:
    settings = gather(ledger_options(said))
    key, period = parse_key(utf8(key)), parse_name(utf8(period), "period") if period is not None else None
    wish = Wish(Verb(verb), key, period, person(settings.environment), _reason(reason))
    refuse_without_a_yes(f"{verb} {_named(wish)}", yes=yes)
    with opened(settings, create=False) as it:
        reply = preview(it.ledger, it.spool, wish)
        if reply.answer is Answer.DONE:
            if not agreed(_question(wish, reply), yes=yes):
                complain("nothing was changed")
                return CRONGUARD_FAILED
            reply = decide_and_write(it.ledger, wish)
    return _tell(wish, reply, it.store.name)


def _reason(text: str | None) -> str | None:
    with naming("--reason"):
        return None if text is None else parse_note(utf8(text), "reason")


def _tell(wish: Wish, reply: Reply, ledger: str) -> int:
    """Of what was done only at a terminal; of what was not done, always, and what to type instead."""
    match reply.answer:
        case Answer.DONE:
            remark(_done(wish, reply))
        case Answer.ALREADY_SO:
            remark(_already_so(wish, reply))
        case Answer.NOT_LIVE:
            remark(f"nothing of {_named(wish)} is live: there is nothing to stop")
        case _:
            complain(_refusal(wish, reply, ledger))
    return SUCCESS if reply.answer in _HARMLESS else CRONGUARD_FAILED


# --------------------------------------------------------------------------- words


def _question(wish: Wish, reply: Reply) -> str:
    how = f"{_named(wish)} {_stands(reply.run)}"
    match wish.verb:
        case Verb.RESET:
            return f"{how}: make it pending, so that the next firing of this period runs it?"
        case Verb.CANCEL:
            return f"{how}: cancel it, so that no firing runs it?"
        case Verb.STOP:
            return f"{_live(reply)}: ask it to end?"
        case Verb.PAUSE:
            return f"start nothing of {wish.key} any more, on any host?"
        case Verb.RESUME:
            return f"{_paused(reply)}: let it run again?"


def _done(wish: Wish, reply: Reply) -> str:
    period = reply.run.period if reply.run else wish.period or ""
    match wish.verb:
        case Verb.RESET:
            return f"{_named(wish)} is pending; the next firing of this period runs it, or: {_run(wish)} -- COMMAND"
        case Verb.CANCEL:
            return f"{_named(wish)} is cancelled; to run it after all: {_run(wish)} --rerun -- COMMAND"
        case Verb.STOP:
            return (
                f"{wish.key} {period} was asked to end: its holder stops it at its next beat, and then it is pending; "
                f"so that no firing runs it again: {_typed('cancel', wish.key, period)}"
            )
        case Verb.PAUSE:
            return f"{wish.key} is paused: its firings are skipped until {_typed('resume', wish.key)}"
        case Verb.RESUME:
            return f"{wish.key} runs again from its next firing on"


def _already_so(wish: Wish, reply: Reply) -> str:
    match wish.verb:
        case Verb.STOP:
            return f"{_live(reply)}, and was asked to end already ({reply.leases[0].stop_requested})"
        case Verb.PAUSE:
            return f"{_paused(reply)} already"
        case Verb.RESUME:
            return f"{wish.key} is not paused"
        case _:
            return f"{_named(wish)} {_stands(reply.run)} already"


def _refusal(wish: Wish, reply: Reply, ledger: str) -> str:
    match reply.answer:
        case Answer.NO_KEY:
            return f"the ledger at {ledger} has no key {wish.key}; see: cronguard keys"
        case Answer.NO_RUN:
            return f"the ledger at {ledger} has no run of {_named(wish)}; see: {_typed('history', wish.key)}"
        case Answer.LIVE:
            instead = _typed("stop", wish.key, wish.period or "")
            return f"{_live(reply)}: a live run is never {_PARTICIPLE[wish.verb]}; ask it to end with: {instead}"
        case Answer.SEVERAL:
            runs = ", ".join(f"{lease.period} on {lease.holder.host}" for lease in reply.leases)
            return f"several runs of {wish.key} are live ({runs}); name one: {_typed('stop', wish.key)} PERIOD"
        case _ if wish.verb is Verb.CANCEL:
            return f"{_named(wish)} succeeded: there is nothing to cancel"
        case _:
            return f"{_named(wish)} succeeded; to run it again: {_run(wish)} --rerun --force -- COMMAND"


_PARTICIPLE = {Verb.RESET: "reset", Verb.CANCEL: "cancelled"}


def _named(wish: Wish) -> str:
    return f"{wish.key} {wish.period}" if wish.period else wish.key


def _stands(run: Run | None) -> str:
    if run is None:
        return "has not been run"
    state = f"is {str(run.state).replace('_', ' ')}"
    where = f" (on {run.holder.host}, attempt {run.attempt})" if run.holder else ""
    return state + where


def _live(reply: Reply) -> str:
    lease = reply.leases[0]
    return f"{lease.key} {lease.period} is running on {lease.holder.host} (pid {lease.holder.pid})"


def _paused(reply: Reply) -> str:
    job = reply.job
    if job is None or job.paused_at is None:
        return "it is not paused"
    since = format_instant(job.paused_at.replace(microsecond=0))
    return f"{job.key} is paused since {since}, {because(job.paused_by, job.pause_reason)}"


def _typed(*words: str) -> str:
    return shlex.join(["cronguard", *filter(None, words)])


def _run(wish: Wish) -> str:
    return _typed("run", "--key", wish.key, "--period", wish.period or "")
