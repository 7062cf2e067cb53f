"""Effects on every store: each subject is won once, under a live token only, and what is abandoned becomes unknown."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from datetime import timedelta

import pytest

from cronguard.domain.effect import Effect, EffectState, Said, first_claim
from cronguard.ports import EffectStore
from cronguard.stores.dsn import Address
from cronguard.stores.statements import statements
from tests.conformance.test_supervision import plan
from tests.conftest import Clock
from tests.rig.firings import claim as claim_run
from tests.rig.firings import finish, granted
from tests.rig.sending import KIND, PERIOD, MakeEffects, effects_on, inside, sender, states, won
from tests.rig.waiting import in_background

MINUTE = timedelta(minutes=1)


@pytest.fixture
def store(make_effects: MakeEffects) -> EffectStore:
    return make_effects()


def test_each_is_won_once(store: EffectStore) -> None:
    assert won(store, "b", "a", "b") == ["b", "a"]
    assert won(store, "a", "c") == ["c"]
    assert won(store, "a", "b", "c") == []
    assert states(store) == {"a": "sending", "b": "sending", "c": "sending"}


def test_another_kind_or_period_is_another_effect(store: EffectStore) -> None:
    assert won(store, "a") == ["a"]
    assert won(store, "a", by=sender(kind="letter")) == ["a"]
    assert won(store, "a", by=replace(sender(), period="2026-12-01")) == ["a"]


def test_what_is_written_is_read_back_unchanged(store: EffectStore, clock: Clock) -> None:
    won(store, "a", by=sender(granted(claim_run(store)), idempotent=True))
    (first,) = store.list_effects(KIND, PERIOD, None, 10).effects
    full = replace(
        first, state=EffectState.SENT, finished_at=clock.forward(minutes=1), note="no. 12", resolved_by="ada@alpha",
        reason="asked", reported_at=clock.now, by_once=True,
    )  # fmt: skip
    assert all(getattr(full, field.name) is not None for field in fields(Effect))
    with store.effects() as page:
        page.change([full])
    assert store.list_effects(KIND, PERIOD, EffectState.SENT, 10).effects == (full,)


def test_page_left_by_an_error_leaves_no_trace(store: EffectStore) -> None:
    with pytest.raises(ZeroDivisionError), store.effects() as page:
        assert list(page.add(first_claim(sender(), page.now), ["a"])) == ["a"]
        raise ZeroDivisionError
    assert states(store) == {}


def test_claim_whose_answer_was_lost_may_be_asked_again(store: EffectStore) -> None:
    asking = sender()
    first = effects_on(store).claim(asking, ["a", "b"])
    assert first == effects_on(store).claim(asking, ["a", "b"])
    assert won(store, "a") == []


@pytest.mark.parametrize("how", ["over", "taken over", "of another holder"])
def test_claim_holds_under_a_live_token_only(store: EffectStore, clock: Clock, how: str) -> None:
    held = granted(claim_run(store))
    if how == "over":
        finish(store, held)
    elif how == "taken over":
        clock.forward(seconds=61)
        claim_run(store, host="beta")
    else:
        held = replace(held, lease=replace(held.lease, holder=replace(held.lease.holder, id="somebody else")))
    assert won(store, "a", by=sender(held)) is None
    assert states(store) == {}


def test_claim_from_inside_notes_its_run(store: EffectStore) -> None:
    held = granted(claim_run(store))
    assert won(store, "a", by=sender(held)) == ["a"]
    (effect,) = store.list_effects(KIND, PERIOD, None, 10).effects
    assert (effect.key, effect.token) == ("job", held.run.token)


def test_what_was_released_may_be_claimed_again_under_the_same_effect_token(store: EffectStore) -> None:
    first = effects_on(store).claim(sender(), ["a", "b"])
    effects_on(store).release(KIND, PERIOD, ["a"], None)
    again = effects_on(store).claim(sender(), ["a", "b"])
    assert first and again == {"a": first["a"]}


def test_what_nobody_confirmed_in_time_becomes_unknown_and_is_not_claimed_again(
    store: EffectStore, clock: Clock
) -> None:
    won(store, "a", "b", by=sender(within=MINUTE))
    effects_on(store).confirm(KIND, PERIOD, ["b"])
    clock.forward(seconds=61)
    assert won(store, "a", "b") == []
    assert states(store) == {"a": "unknown", "b": "sent"}


def test_abandoned_is_marked_by_whoever_looks_and_reported_once(store: EffectStore, clock: Clock) -> None:
    won(store, "a", "b", by=sender(within=MINUTE))
    won(store, "c")
    assert list(effects_on(store).report_abandoned()) == []
    clock.forward(seconds=61)
    assert won(store, "a") == []  # marks that one
    reported = effects_on(store).report_abandoned()
    assert [(effect.subject, str(effect.state)) for effect in reported] == [("a", "unknown"), ("b", "unknown")]
    assert list(effects_on(store).report_abandoned()) == []
    assert states(store) == {"a": "unknown", "b": "unknown", "c": "sending"}


def test_abandoned_is_seen_as_unknown_by_looking_which_writes_nothing(store: EffectStore, clock: Clock) -> None:
    won(store, "a", by=sender(within=MINUTE))
    won(store, "b")
    clock.forward(seconds=61)
    asked = {state: effects_on(store).listed(KIND, PERIOD, state, 10).effects for state in (None, *EffectState)}
    assert [(effect.subject, str(effect.state)) for effect in asked[None]] == [("b", "sending"), ("a", "unknown")]
    assert [effect.subject for effect in asked[EffectState.SENDING]] == ["b"]
    assert [effect.subject for effect in asked[EffectState.UNKNOWN]] == ["a"]
    assert states(store) == {"a": "sending", "b": "sending"}


def test_what_was_told_already_is_not_read_again(address: Address) -> None:
    """By its plan: what is unknown may be there for years, and a supervisor passes every minute."""
    assert "effect_to_be_told" in plan(address, statements(address.store)["unreported_effects"], {"limit": 9})


@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True)])
def test_abandoned_is_claimed_again_at_an_idempotent_provider_only(
    store: EffectStore, clock: Clock, first: bool, second: bool
) -> None:
    tokens = effects_on(store).claim(sender(within=MINUTE, idempotent=first), ["a", "b"])
    assert won(store, "a", by=sender(idempotent=second)) == []
    clock.forward(seconds=61)
    effects_on(store).report_abandoned()
    again = effects_on(store).claim(sender(idempotent=second), ["a"])
    assert tokens and again == ({"a": tokens["a"]} if first and second else {})


def test_late_word_of_the_sender_is_believed(store: EffectStore, clock: Clock) -> None:
    asking = sender(within=MINUTE)
    won(store, "a", "b", by=asking)
    clock.forward(seconds=61)
    effects_on(store).report_abandoned()
    told = effects_on(store).confirm(KIND, PERIOD, ["a", "nobody"], "no. 12")
    assert (told.counts[Said.WRITTEN], told.first[Said.NOT_CLAIMED]) == (1, "nobody")
    assert effects_on(store).release(KIND, PERIOD, ["b"], None, asking.claim_id).counts[Said.WRITTEN] == 1
    assert states(store) == {"a": "sent", "b": "released"}


def test_stranger_outside_of_a_run_releases_neither_what_once_is_about_nor_what_is_unknown(
    store: EffectStore, clock: Clock
) -> None:
    once = replace(sender(), by_once=True)
    won(store, "a", by=once)
    won(store, "b", by=sender(within=MINUTE))
    assert effects_on(store).release(KIND, PERIOD, ["a"], None).counts[Said.BEING_SENT] == 1
    clock.forward(seconds=61)
    assert effects_on(store).release(KIND, PERIOD, ["b"], None).counts[Said.IS_UNKNOWN] == 1  # not marked yet
    assert effects_on(store).report_abandoned()
    assert effects_on(store).release(KIND, PERIOD, ["b"], None).counts[Said.IS_UNKNOWN] == 1
    assert effects_on(store).release(KIND, PERIOD, ["a"], None, once.claim_id).counts[Said.WRITTEN] == 1
    assert won(store, "a") == ["a"]  # by claim, this time
    assert effects_on(store).release(KIND, PERIOD, ["a"], None).counts[Said.WRITTEN] == 1
    assert states(store) == {"a": "released", "b": "unknown"}


def test_attempt_that_was_overtaken_can_confirm_what_it_did_and_release_nothing_of_others(
    store: EffectStore, clock: Clock
) -> None:
    late = granted(claim_run(store))
    won(store, "a", "b", by=sender(late))
    clock.forward(seconds=61)
    claim_run(store, host="beta")  # recovers, and runs it again
    again = granted(claim_run(store, key="other"))
    won(store, "c", by=sender(again))
    told = effects_on(store).release(KIND, PERIOD, ["a", "c"], inside(late))
    assert (told.counts[Said.WRITTEN], told.counts[Said.NOT_YOURS]) == (1, 1)
    assert effects_on(store).confirm(KIND, PERIOD, ["b"]).counts[Said.WRITTEN] == 1
    assert states(store) == {"a": "released", "b": "sent", "c": "sending"}


def test_person_resolves_what_is_unknown(store: EffectStore, clock: Clock) -> None:
    won(store, "a", by=sender(within=MINUTE))
    say = {"sent": False, "by": "ada@alpha", "reason": "asked the provider"}
    assert effects_on(store).resolve(KIND, PERIOD, ["a"], **say).counts == {Said.BEING_SENT: 1}  # type: ignore[arg-type]
    clock.forward(seconds=61)
    assert effects_on(store).resolve(KIND, PERIOD, ["a"], **say).counts == {Said.WRITTEN: 1}  # type: ignore[arg-type]
    assert effects_on(store).resolve(KIND, PERIOD, ["z"], **say).counts == {Said.NOT_CLAIMED: 1}  # type: ignore[arg-type]
    (effect,) = store.list_effects(KIND, None, EffectState.RELEASED, 10).effects
    assert (effect.resolved_by, effect.reason) == ("ada@alpha", "asked the provider")
    assert won(store, "a") == ["a"]
    (effect,) = store.list_effects(KIND, None, EffectState.SENDING, 10).effects
    assert (effect.resolved_by, effect.reason, effect.finished_at) == (None, None, None)


def test_list_is_of_one_kind_and_the_latest_periods_come_first(store: EffectStore) -> None:
    for period in ("2026-11-28", "2026-11-30", "2026-11-29"):
        effects_on(store).claim(replace(sender(), period=period), ["a"])
    won(store, "a", by=sender(kind="letter"))
    found = effects_on(store).listed(KIND, None, None, 2).effects
    assert [effect.period for effect in found] == ["2026-11-30", "2026-11-29"]
    assert [effect.period for effect in effects_on(store).listed(KIND, "2026-11-28", None, 2).effects] == ["2026-11-28"]
    assert effects_on(store).listed(KIND, None, EffectState.UNKNOWN, 2).effects == ()
    assert (effects_on(store).knows(KIND), effects_on(store).knows("nothing")) == (True, False)


def test_many_claimers_of_one_list_win_each_subject_once(make_effects: MakeEffects) -> None:
    subjects = [f"customer {n}" for n in range(600)]

    def take(turn: int) -> list[str]:
        store, mine = make_effects(), subjects[turn * 70 :] + subjects[: turn * 70]  # each begins elsewhere
        return [who for at in range(0, 600, 50) for who in won(store, *mine[at : at + 50]) or ()]

    taking = [in_background(lambda turn=turn: take(turn)) for turn in range(8)]  # type: ignore[misc]
    counts = Counter(subject for future in taking for subject in future.result(60))
    assert (len(counts), set(counts.values())) == (600, {1})


def test_fence_in_a_wrong_ledger_leaves_no_trace_in_it(store: EffectStore) -> None:
    held = granted(claim_run(store))
    stranger = replace(sender(held), inside=replace(inside(held), key="nowhere"))
    assert effects_on(store).claim(stranger, ["a"]) is None
    assert states(store) == {}
