"""The rules of effects: what may be claimed again, who is believed, and what a person may say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from cronguard.domain.effect import (
    EFFECT_TRANSITIONS,
    Effect,
    EffectEvent,
    EffectState,
    Said,
    Sender,
    abandon,
    claim_again,
    confirm,
    first_claim,
    parse_effect_period,
    parse_subject,
    release,
    resolve,
)
from cronguard.domain.progress import Inside
from cronguard.errors import BadInput

NOW = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
MINE = Inside("job", "2026-11-30", 7, "me")
SENDER = Sender("mail", "2026-11-30", "call-1", inside=MINE)
SENDING, SENT, RELEASED, UNKNOWN = EffectState


def effect(state: EffectState = SENDING, *, idempotent: bool = False, sender: Sender = SENDER) -> Effect:
    claimed = replace(first_claim(replace(sender, idempotent=idempotent), NOW), subject="ada", effect_token="t")
    return replace(claimed, state=state, finished_at=None if state is SENDING else NOW)


def other(*, idempotent: bool = False) -> Sender:
    return replace(SENDER, claim_id="call-2", idempotent=idempotent, inside=replace(MINE, token=8))


@pytest.mark.parametrize("state", EffectState)
@pytest.mark.parametrize("theirs", [False, True])
@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("now", [NOW, LATER])
def test_what_may_be_claimed_again(state: EffectState, theirs: bool, ours: bool, now: datetime) -> None:
    again = claim_again(effect(state, idempotent=theirs), other(idempotent=ours), now)
    abandoned = state is UNKNOWN or (state is SENDING and now is LATER)
    assert (again is not None) is (state is RELEASED or (abandoned and theirs and ours))
    if again:
        assert (again.state, again.effect_token, again.token, again.claim_id) == (SENDING, "t", 8, "call-2")
        assert (again.claimed_at, again.send_by, again.finished_at) == (now, now + SENDER.send_within, None)


def test_claim_whose_answer_was_lost_is_still_that_callers() -> None:
    assert claim_again(effect(), SENDER, NOW) == effect()
    assert claim_again(effect(), SENDER, LATER) == effect()
    assert claim_again(effect(SENT), SENDER, NOW) is None


@pytest.mark.parametrize("state", EffectState)
def test_only_what_is_being_sent_past_its_time_is_abandoned(state: EffectState) -> None:
    assert abandon(effect(state), NOW) is None
    left = abandon(effect(state), LATER)
    assert (left is not None) is (state is SENDING)
    if left:
        assert (left.state, left.finished_at, left.effect_token) == (UNKNOWN, LATER, "t")


@pytest.mark.parametrize("state", EffectState)
def test_whoever_says_that_it_was_done_is_believed(state: EffectState) -> None:
    said, after = confirm(effect(state), "no. 12", LATER)
    assert after.state is SENT
    assert said is (Said.ALREADY_SO if state is SENT else Said.WRITTEN)


@pytest.mark.parametrize("state", [SENDING, UNKNOWN])
@pytest.mark.parametrize(
    ("claim_id", "inside", "may"),
    [
        ("call-1", MINE, True),
        (None, MINE, True),
        ("call-2", MINE, False),
        (None, replace(MINE, token=8), False),
        (None, replace(MINE, key="other"), False),
        (None, None, False),
    ],
)
def test_only_its_sender_can_say_that_it_was_not(
    state: EffectState, claim_id: str | None, inside: Inside | None, may: bool
) -> None:
    said, after = release(effect(state), claim_id, inside, LATER)
    assert (said, after.state) == ((Said.WRITTEN, RELEASED) if may else (Said.NOT_YOURS, state))


@pytest.mark.parametrize("state", [SENDING, UNKNOWN])
@pytest.mark.parametrize("by_once", [False, True])
@pytest.mark.parametrize("now", [NOW, LATER])
def test_outside_of_a_run_only_the_call_itself_can_say_so_of_what_is_unknown_or_being_done(
    state: EffectState, by_once: bool, now: datetime
) -> None:
    there = effect(state, sender=replace(SENDER, inside=None, by_once=by_once))
    assert release(there, "call-1", None, now)[0] is Said.WRITTEN
    assert release(there, "call-2", None, now)[0] is Said.NOT_YOURS
    abandoned = state is UNKNOWN or now is LATER
    expected = Said.IS_UNKNOWN if abandoned else Said.BEING_SENT if by_once else Said.WRITTEN
    said, after = release(there, None, None, now)
    assert (said, after == there) == (expected, expected is not Said.WRITTEN)
    assert release(replace(there, key=MINE.key, token=MINE.token), None, MINE, now)[0] is Said.WRITTEN


def test_what_was_sent_is_not_released_and_what_was_released_is_so_already() -> None:
    assert release(effect(SENT), None, MINE, NOW)[0] is Said.WAS_SENT
    assert release(effect(RELEASED), None, None, NOW)[0] is Said.ALREADY_SO


@pytest.mark.parametrize(
    ("state", "sent", "now", "said"),
    [
        (UNKNOWN, True, NOW, Said.WRITTEN),
        (UNKNOWN, False, NOW, Said.WRITTEN),
        (SENDING, True, NOW, Said.BEING_SENT),
        (SENDING, False, NOW, Said.BEING_SENT),
        (SENDING, False, LATER, Said.WRITTEN),
        (RELEASED, True, NOW, Said.WRITTEN),
        (RELEASED, False, NOW, Said.ALREADY_SO),
        (SENT, True, NOW, Said.ALREADY_SO),
        (SENT, False, NOW, Said.WAS_SENT),
    ],
)
def test_what_a_person_may_say(state: EffectState, sent: bool, now: datetime, said: Said) -> None:
    answer, after = resolve(effect(state), sent, "ada@alpha", "asked the provider", now)
    assert answer is said
    if said is Said.WRITTEN:
        assert (after.state, after.resolved_by) == (SENT if sent else RELEASED, "ada@alpha")
    else:
        assert after == effect(state)


def test_nothing_leads_away_from_sent() -> None:
    ways = product([None, *EffectState], EffectEvent)
    assert [event for state, event in ways if state is SENT and (state, event) in EFFECT_TRANSITIONS] == []


@pytest.mark.parametrize("text", ["a", "ada@example.com", "Zürich, 2. Stock", "two\nlines", " ", "x" * 1000, "ü" * 500])
def test_subjects(text: str) -> None:
    assert parse_subject(text) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("x" * 1001, "is longer than 1000 bytes"),
        ("ü" * 501, "is longer than 1000 bytes"),
        ("x" * 10_000_000, "is longer than 1000 bytes"),
        ("a\udcffb", "has bytes that are not UTF-8"),
        ("a\0b", "has a NUL in it"),
    ],
)
def test_no_subjects(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        parse_subject(text)


@pytest.mark.parametrize("text", ["current", "previous", "", "a\nb"])
def test_no_periods_of_an_effect(text: str) -> None:
    with pytest.raises(BadInput):
        parse_effect_period(text)
