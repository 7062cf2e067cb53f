"""An effect: something done to the outside once for each kind, subject and period, and claimed before it is done.

    (none) --claim--> sending --confirm--> sent
    sending --release--> released         known not to have been done: it may be claimed again
    sending --abandon--> unknown          its send-by has passed, and nobody said how it went
    unknown --confirm--> sent             its sender, or a person, knows after all
    unknown --release--> released         likewise

An effect is never done again by itself. Who died between claim and confirm may
have done it or not: a person looks and says which, unless the provider is
idempotent. Such a provider is given the effect's own token, which is the same
on each try, and does nothing twice under it; so what was abandoned there may be
claimed again.

In Postgres the functions of the schema repeat these rules for jobs that call
them in transactions of their own; one test asks both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from cronguard.domain.progress import Inside
from cronguard.domain.run import parse_name
from cronguard.errors import BadInput

LONGEST_SUBJECT = 1000  # bytes; the schema repeats it: a key of an index cannot be much longer
SEND_WITHIN = timedelta(minutes=15)


class EffectState(StrEnum):
    """How far an effect is, as the ledger knows it."""

    SENDING = "sending"
    SENT = "sent"
    RELEASED = "released"
    UNKNOWN = "unknown"


class EffectEvent(StrEnum):
    """What can happen to an effect."""

    CLAIM = "claim"
    CONFIRM = "confirm"
    RELEASE = "release"
    ABANDON = "abandon"


EFFECT_TRANSITIONS: dict[tuple[EffectState | None, EffectEvent], EffectState] = {
    (None, EffectEvent.CLAIM): EffectState.SENDING,
    (EffectState.RELEASED, EffectEvent.CLAIM): EffectState.SENDING,
    (EffectState.SENDING, EffectEvent.CLAIM): EffectState.SENDING,  # abandoned, at an idempotent provider
    (EffectState.UNKNOWN, EffectEvent.CLAIM): EffectState.SENDING,  # likewise
    (EffectState.SENDING, EffectEvent.CONFIRM): EffectState.SENT,
    (EffectState.UNKNOWN, EffectEvent.CONFIRM): EffectState.SENT,
    (EffectState.RELEASED, EffectEvent.CONFIRM): EffectState.SENT,  # it was done after all: not once more, then
    (EffectState.SENDING, EffectEvent.RELEASE): EffectState.RELEASED,
    (EffectState.UNKNOWN, EffectEvent.RELEASE): EffectState.RELEASED,
    (EffectState.SENDING, EffectEvent.ABANDON): EffectState.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Sender:
    """Who claims, by one call, and on what terms: from inside a run, or (None) outside of any."""

    kind: str
    period: str
    claim_id: str  # of the call: it may ask again when its answer was lost
    send_within: timedelta = SEND_WITHIN
    idempotent: bool = False
    inside: Inside | None = None
    by_once: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """The ledger's record of one kind, period and subject; it shows its latest claim."""

    kind: str
    period: str
    subject: str
    state: EffectState
    effect_token: str  # for the provider: the same on each try
    idempotent: bool
    claim_id: str
    claimed_at: datetime
    send_by: datetime
    key: str | None = None
    token: int | None = None
    finished_at: datetime | None = None
    note: str | None = None
    resolved_by: str | None = None
    reason: str | None = None
    reported_at: datetime | None = None
    by_once: bool = False  # one process claimed it, and waits for the end of what it started

    def is_abandoned(self, now: datetime) -> bool:
        overdue = self.state is EffectState.SENDING and self.send_by < now
        return overdue or self.state is EffectState.UNKNOWN


@dataclass(frozen=True, slots=True)
class Listing:
    """The first of the effects that were asked for, at this instant of the ledger's clock."""

    now: datetime
    effects: tuple[Effect, ...] = ()
    total: int = 0  # how many there are


class Said(StrEnum):
    """What became of a word about an effect."""

    WRITTEN = "written"
    ALREADY_SO = "already_so"
    NOT_CLAIMED = "not_claimed"
    NOT_YOURS = "not_yours"
    BEING_SENT = "being_sent"
    IS_UNKNOWN = "is_unknown"
    WAS_SENT = "was_sent"


def first_claim(sender: Sender, now: datetime) -> Effect:
    """What each subject's effect is when this sender has claimed it, but for the subject and the effect's token."""
    inside = sender.inside
    return Effect(
        kind=sender.kind,
        period=sender.period,
        subject="",
        state=EFFECT_TRANSITIONS[None, EffectEvent.CLAIM],
        effect_token="",
        idempotent=sender.idempotent,
        claim_id=sender.claim_id,
        claimed_at=now,
        send_by=now + sender.send_within,
        key=inside.key if inside else None,
        token=inside.token if inside else None,
        by_once=sender.by_once,
    )


def claim_again(effect: Effect, sender: Sender, now: datetime) -> Effect | None:
    """An effect that is there already, as this sender has it now; None when it is not the sender's to have."""
    if effect.claim_id == sender.claim_id and effect.state is EffectState.SENDING:
        return effect
    repeatable = effect.idempotent and sender.idempotent and effect.is_abandoned(now)
    if effect.state is not EffectState.RELEASED and not repeatable:
        return None
    state = EFFECT_TRANSITIONS[effect.state, EffectEvent.CLAIM]
    claimed = first_claim(sender, now)
    return replace(claimed, subject=effect.subject, effect_token=effect.effect_token, state=state)


def abandon(effect: Effect, now: datetime) -> Effect | None:
    """Nobody said in time how it went; None where that is not so."""
    if effect.state is not EffectState.SENDING or not effect.is_abandoned(now):
        return None
    return replace(effect, state=EFFECT_TRANSITIONS[effect.state, EffectEvent.ABANDON], finished_at=now)


def as_seen(effect: Effect, now: datetime) -> Effect:
    """One that was abandoned reads as unknown, whether or not anybody has written that down yet."""
    return replace(effect, state=EffectState.UNKNOWN) if effect.is_abandoned(now) else effect


def confirm(effect: Effect, note: str | None, now: datetime) -> tuple[Said, Effect]:
    """It was done. That is believed of whoever says it, however late: the other way round it might be done twice."""
    if effect.state is EffectState.SENT:
        return Said.ALREADY_SO, effect
    state = EFFECT_TRANSITIONS[effect.state, EffectEvent.CONFIRM]
    return Said.WRITTEN, replace(effect, state=state, finished_at=now, note=note or effect.note)


def release(effect: Effect, claim_id: str | None, inside: Inside | None, now: datetime) -> tuple[Said, Effect]:
    """It was certainly not done. Only its sender can know: the call that claimed it, or another of the same attempt.

    Outside of a run nothing else tells one sender from another, so whoever is no call of its own is believed while the
    time that was asked for lasts, and not about what a process is doing.
    """
    if effect.state is EffectState.RELEASED:
        return Said.ALREADY_SO, effect
    if effect.state is EffectState.SENT:
        return Said.WAS_SENT, effect
    mine = (inside.key, inside.token) if inside else (None, None)
    if (effect.key, effect.token) != mine or claim_id not in (None, effect.claim_id):
        return Said.NOT_YOURS, effect
    if not inside and not claim_id and (effect.by_once or effect.is_abandoned(now)):
        return Said.IS_UNKNOWN if effect.is_abandoned(now) else Said.BEING_SENT, effect
    return Said.WRITTEN, replace(effect, state=EFFECT_TRANSITIONS[effect.state, EffectEvent.RELEASE], finished_at=now)


def resolve(effect: Effect, sent: bool, by: str, reason: str, now: datetime) -> tuple[Said, Effect]:
    """A person has looked, and says whether it was done."""
    event = EffectEvent.CONFIRM if sent else EffectEvent.RELEASE
    wanted = EffectState.SENT if sent else EffectState.RELEASED
    if effect.state is wanted:
        return Said.ALREADY_SO, effect
    if effect.state is EffectState.SENT:
        return Said.WAS_SENT, effect
    if effect.state is EffectState.SENDING and not effect.is_abandoned(now):
        return Said.BEING_SENT, effect
    state = EFFECT_TRANSITIONS[effect.state, event]
    return Said.WRITTEN, replace(effect, state=state, finished_at=now, resolved_by=by, reason=reason)


def parse_kind(text: str) -> str:
    return parse_name(text, "kind")


def parse_effect_period(text: str) -> str:
    """A label as it stands: a word that means something else tomorrow would let an effect happen once, for ever."""
    if text in ("current", "previous"):
        raise BadInput(f"{text!r} is no period of an effect; name it, such as 2026-11-30")
    return parse_name(text, "period")


def parse_subject(text: str) -> str:
    """Whom or what it is done to: anything of 1 to 1000 bytes of UTF-8."""
    if not text:
        raise BadInput("the subject is empty; name whom or what it is done to")
    if len(text) > LONGEST_SUBJECT or len(text.encode("utf-8", "surrogateescape")) > LONGEST_SUBJECT:
        raise BadInput(f"the subject is longer than {LONGEST_SUBJECT} bytes; name it by a number or a digest")
    if not _is_utf8(text):
        raise BadInput("the subject has bytes that are not UTF-8; name it by a number or a digest")
    if "\0" in text:
        raise BadInput("the subject has a NUL in it; name it by a number or a digest")
    return text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
