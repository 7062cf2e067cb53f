"""What once, claim, confirm, release, effects and resolve do once they are called."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from cronguard.cli.opening import address_of, opened_effects
from cronguard.cli.subjects import batches, hand_over, opened_list, refuse_closed_output
from cronguard.cli.tell import SayOnStderr, complain, remark, warn
from cronguard.domain.effect import (
    SEND_WITHIN,
    EffectState,
    Said,
    Sender,
    parse_effect_period,
    parse_kind,
    parse_subject,
)
from cronguard.domain.progress import Inside, parse_note
from cronguard.domain.text import format_duration
from cronguard.errors import CRONGUARD_FAILED, LEASE_LOST, SUCCESS, BadInput, CronguardError
from cronguard.process.command import Ended
from cronguard.process.signals import Signals
from cronguard.render.effects import show_effects
from cronguard.render.printing import meter
from cronguard.services.effects import Effects, Tally
from cronguard.services.once import Errand
from cronguard.services.once import once as do_once
from cronguard.settings import Settings, gather
from cronguard.settings.host import person
from cronguard.settings.inside import inside_if_any
from cronguard.settings.parsers import duration, exit_code, naming, one_of, positive, utf8, whole

Asked = Mapping[str, Any]


def once(options: dict[str, Any], asked: Asked, argv: Sequence[str]) -> int:
    settings = gather(options)
    errand = _errand(settings, asked, argv)
    signals = Signals()
    signals.install()
    with opened_effects(settings, signals, create=errand.sender.inside is None) as it:
        return do_once(errand, it, signals, _Teller(settings))


def claim(options: dict[str, Any], asked: Asked) -> int:
    settings = gather(options)
    inside = inside_if_any(settings, "claim")
    terms = _terms(settings, asked, inside)
    refuse_closed_output()

    def take(it: Effects, subjects: Sequence[str]) -> bool:
        sender = Sender(claim_id=str(uuid4()), **terms)
        won = it.claim(sender, subjects)
        if won is not None:
            hand_over(it, sender, won, _separator(asked), tokens=asked["tokens"])
        return won is not None

    is_live = _by_the_batch(settings, asked, take, create=inside is None)
    return SUCCESS if is_live or inside is None else _lost(inside, address_of(settings).name)


def confirm(options: dict[str, Any], asked: Asked) -> int:
    return _say(options, asked, "confirm", lambda it, kind, period, subjects, _: it.confirm(kind, period, subjects))


def release(options: dict[str, Any], asked: Asked) -> int:
    return _say(
        options,
        asked,
        "release",
        lambda it, kind, period, subjects, inside: it.release(kind, period, subjects, inside),
    )


def effects(options: dict[str, Any], asked: Asked) -> int:
    settings, kind = gather(options), None if asked["kind"] is None else _kind(asked)
    period = _read("--period", asked["period"], lambda text: parse_effect_period(utf8(text)))
    state = _read("--state", asked["state"], lambda text: EffectState(one_of(text, *EffectState)))
    limit = _read("-n", asked["limit"], positive)
    if kind is None and state not in (None, EffectState.UNKNOWN):
        raise BadInput(f"--state {state}: name the KIND; without it only what is unknown is listed")
    state = EffectState.UNKNOWN if kind is None else state
    with opened_effects(settings, create=False) as it:
        if kind is not None and not it.knows(kind):
            raise _unheard_of(settings, kind)
        found = it.listed(kind, period, state, limit)
    show_effects(found, as_json=asked["json"])
    if len(found.effects) < found.total and not asked["json"]:
        warn(f"{len(found.effects)} of {found.total} are shown; to see all: -n {found.total}")
    return SUCCESS


def resolve(options: dict[str, Any], asked: Asked) -> int:
    settings, kind = gather(options), _kind(asked)
    if (asked["subject"] is None) is (asked["file"] is None):
        raise BadInput("name one SUBJECT, or a list of them by --file")
    subject = None if asked["subject"] is None else parse_subject(utf8(asked["subject"]))
    verdict = _verdict(settings, asked)
    with opened_effects(settings, create=False) as it:
        if not it.knows(kind):
            raise _unheard_of(settings, kind)
        if subject is not None:
            period = _period(settings, asked, inside_if_any(settings, "resolve"))
            (said,) = it.resolve(kind, period, [subject], **verdict).counts
            return _tell_resolved(f"{kind} {subject} {period}", said)

    def say(it: Effects, kind: str, period: str, subjects: Sequence[str], _: object) -> Tally:
        return it.resolve(kind, period, subjects, **verdict)

    return _say(options, asked, "resolve", say, _NOT_RESOLVED)


# ----------------------------------------------------------------------- from what was typed


def _errand(settings: Settings, asked: Asked, argv: Sequence[str]) -> Errand:
    """The exit code of a skip is by its option only: a variable for the run around it is about that run's own skips."""
    if not argv:
        raise BadInput("no command is given; put it at the end, after --")
    inside = inside_if_any(settings, "once")
    return Errand(
        sender=Sender(claim_id=str(uuid4()), by_once=True, **_terms(settings, asked, inside)),
        subject=parse_subject(utf8(asked["subject"])),
        argv=argv,
        environment=settings.environment,
        released_on=_read("--released-on", asked["released_on"], lambda text: whole(text, 1, 255)),
        skip_exit=_read("--skip-exit", asked["skip_exit"], exit_code) or SUCCESS,
    )


def _terms(settings: Settings, asked: Asked, inside: Inside | None) -> dict[str, Any]:
    return {
        "kind": _kind(asked),
        "period": _period(settings, asked, inside),
        "send_within": _read("--send-within", asked["send_within"], duration) or SEND_WITHIN,
        "idempotent": asked["provider_idempotent"],
        "inside": inside,
    }


def _kind(asked: Asked) -> str:
    return parse_kind(utf8(asked["kind"]))


def _period(settings: Settings, asked: Asked, inside: Inside | None) -> str:
    """As it is named; else, inside a run, that of the run. The clock is never asked: tomorrow it would say another."""
    named = _read("--period", asked["period"], lambda text: parse_effect_period(utf8(text)))
    if named is None and inside is None:
        raise BadInput("outside of a run the period must be named: add --period, such as --period 2026-11")
    return str(named or (inside and inside.period))


def _verdict(settings: Settings, asked: Asked) -> dict[str, Any]:
    """What a person says, who that is, and how they know."""
    if asked["sent"] is asked["released"]:
        raise BadInput("say which it was: --sent or --released")
    if asked["reason"] is None:
        raise BadInput("--reason is missing: say how you know, for whoever asks")
    reason = _read("--reason", asked["reason"], parse_note)
    return {"sent": asked["sent"], "by": person(settings.environment), "reason": reason}


def _unheard_of(settings: Settings, kind: str) -> BadInput:
    return BadInput(f"the ledger at {address_of(settings).name} has no effect of kind {kind}")


def _read(option: str, text: str | None, parse: Any) -> Any:
    with naming(option):
        return None if text is None else parse(text)


# ----------------------------------------------------------------------- many at once


def _by_the_batch(settings: Settings, asked: Asked, take: Any, *, create: bool) -> bool:
    """One transaction a batch; what was taken is taken, also when a later line makes no sense."""
    gc.enable()  # off while cronguard started; a list may be long
    with (
        opened_list(asked["file"]) as (descriptor, name),
        opened_effects(settings, create=create) as it,
        meter(_kind(asked), None) as advance,
    ):
        for subjects in batches(descriptor, name, _separator(asked)):
            if not take(it, subjects):
                return False
            advance(len(subjects))
    return True


def _say(
    options: dict[str, Any], asked: Asked, command: str, say: Any, not_said: Mapping[Said, str] | None = None
) -> int:
    settings, kind = gather(options), _kind(asked)
    inside = inside_if_any(settings, command)
    period, told = _period(settings, asked, inside), Tally()

    def take(it: Effects, subjects: Sequence[str]) -> bool:
        told.take(say(it, kind, period, subjects, inside))
        return True

    _by_the_batch(settings, asked, take, create=False)
    return _tell_of(f"{kind} {period}", told, not_said or _NOT_SAID)


def _separator(asked: Asked) -> bytes:
    return b"\0" if asked["null"] else b"\n"


# ----------------------------------------------------------------------- what is said


class _Teller(SayOnStderr):
    def __init__(self, settings: Settings) -> None:
        super().__init__(path=settings.environment.get("PATH", os.defpath))
        self._ledger = address_of(settings).name

    def run_is_lost(self, errand: Errand) -> None:
        if errand.sender.inside:
            _lost(errand.sender.inside, self._ledger)

    def claimed_already(self, errand: Errand) -> None:
        remark(f"not run: {_name(errand)} was claimed before; see: cronguard effects {errand.sender.kind}")

    def left_open(self, errand: Errand, ended: Ended) -> None:
        within = format_duration(errand.sender.send_within)
        remark(f"{_name(errand)}: whether it was done is not known; in {within} it is for a person to resolve")

    def untold(self, errand: Errand, failure: CronguardError) -> None:
        warn(f"{_name(errand)}: {failure}; how it ended is not recorded, and will read as unknown")


def _name(errand: Errand) -> str:
    return f"{errand.sender.kind} {errand.subject!a} {errand.sender.period}"


def _lost(inside: Inside, ledger: str) -> int:
    what = f"{inside.key} {inside.period}"
    complain(f"{what}: the ledger at {ledger} has no live run under token {inside.token}: nothing was claimed")
    return LEASE_LOST


_NOT_SAID = {
    Said.NOT_CLAIMED: "never claimed",
    Said.NOT_YOURS: "claimed by another run, which alone can release it, or a person by cronguard resolve",
    Said.WAS_SENT: "sent already",
    Said.BEING_SENT: "being done by cronguard once, which alone can release it",
    Said.IS_UNKNOWN: "unknown: whoever has looked says which by cronguard resolve",
}
_NOT_RESOLVED = {
    Said.NOT_CLAIMED: "never claimed",
    Said.WAS_SENT: "sent, and what was done cannot be undone",
    Said.BEING_SENT: "being sent, and may yet be confirmed",
}
_NOT_RESOLVED_ONE = {
    Said.NOT_CLAIMED: "it was never claimed; see: cronguard effects",
    Said.WAS_SENT: "it was sent; what was done cannot be undone",
    Said.BEING_SENT: "it is being sent, and may yet be confirmed; once its time is over it reads as unknown",
}


def _tell_of(what: str, told: Tally, not_said: Mapping[Said, str]) -> int:
    """Only of what could not be written."""
    wrong = [said for said in not_said if told.counts[said]]
    parts = [f"{told.counts[said]} {not_said[said]} (first {told.first[said]!a})" for said in wrong]
    if not parts:
        return SUCCESS
    complain(f"{what}: of {told.counts.total()}, {'; '.join(parts)}")
    return CRONGUARD_FAILED


def _tell_resolved(what: str, said: Said) -> int:
    if said in _NOT_RESOLVED_ONE:
        raise BadInput(f"{what}: {_NOT_RESOLVED_ONE[said]}")
    remark(f"{what}: {'it was so already' if said is Said.ALREADY_SO else 'resolved'}")
    return SUCCESS
