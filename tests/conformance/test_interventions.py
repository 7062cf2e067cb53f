"""A person steps in, on every store: what it changes, that it is taken down, and that it stays with the key."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cronguard.clock import boottime
from cronguard.domain.intervention import Answer, Wish, intervene
from cronguard.domain.lifecycle import Ending
from cronguard.domain.run import Outcome
from cronguard.domain.said import Verb
from cronguard.ports import Store, SupervisedStore
from tests.conftest import Clock
from tests.rig.firings import FAILED, TERMS, MakeStore, claim, finish, granted, ledger_on, refusal, state
from tests.rig.waiting import in_background
from tests.rig.watching import found, pass_over

TODAY, TOMORROW = "2026-11-30", "2026-12-01"


def say(store: Store, verb: Verb, period: str | None = None, reason: str | None = "disk was full") -> str:
    wish = Wish(verb, "job", period, "ada@alpha", reason)
    return str(ledger_on(store).change("job", period or "", lambda sight: intervene(wish, sight)).answer)


def said(store: Store, period: str = TODAY) -> list[tuple[str, str | None]]:
    record = store.show("job", period)
    return [(str(word.verb), word.period) for word in record.said] if record else []


def test_run_that_failed_is_reset_and_runs_again(store: Store) -> None:
    finish(store, granted(claim(store)), FAILED)
    assert refusal(claim(store)) == "attempts_spent"
    assert say(store, Verb.RESET, TODAY) == "done"
    assert state(store, "job", TODAY) == "pending"
    again = granted(claim(store))
    assert (again.run.attempt, again.run.failures) == (2, 0)
    finish(store, again)
    assert said(store) == [("reset", TODAY)]


def test_what_was_said_is_kept_with_who_why_and_when(store: Store, clock: Clock) -> None:
    finish(store, granted(claim(store)), FAILED)
    at = clock.forward(minutes=5)
    say(store, Verb.RESET, TODAY)
    record = store.show("job", TODAY)
    assert record
    (word,) = record.said
    assert (word.said_by, word.reason, word.said_at) == ("ada@alpha", "disk was full", at)


def test_live_run_is_neither_reset_nor_cancelled(store: Store) -> None:
    held = granted(claim(store))
    before = store.look("job", TODAY)
    assert (say(store, Verb.RESET, TODAY), say(store, Verb.CANCEL, TODAY)) == ("live", "live")
    assert store.look("job", TODAY) == before
    assert finish(store, held) == "mine"
    assert said(store) == []


def test_stale_run_is_reset_and_its_holder_comes_too_late(store: Store, clock: Clock) -> None:
    late = granted(claim(store))
    clock.forward(seconds=61)
    assert say(store, Verb.RESET, TODAY) == "done"
    assert granted(claim(store, host="beta")).run.recoveries == 0
    assert finish(store, late, FAILED) == "lost"


def test_cancelled_run_is_refused_until_somebody_asks_for_it(store: Store) -> None:
    finish(store, granted(claim(store)), FAILED)
    assert say(store, Verb.CANCEL, TODAY) == "done"
    assert refusal(claim(store)) == "cancelled"
    assert granted(claim(store, rerun=True)).run.attempt == 2


def test_period_that_nobody_has_run_can_be_cancelled(store: Store, clock: Clock) -> None:
    finish(store, granted(claim(store)))
    assert say(store, Verb.CANCEL, TOMORROW) == "done"
    clock.forward(days=1)
    assert refusal(claim(store)) == "cancelled"
    assert said(store, TOMORROW) == [("cancel", TOMORROW)]
    assert say(store, Verb.RESET, TOMORROW) == "done"
    assert granted(claim(store)).run.period == TOMORROW


def test_stale_run_that_was_cancelled_is_not_made_a_success_by_its_holder(store: Store, clock: Clock) -> None:
    late = granted(claim(store))
    clock.forward(seconds=61)
    assert say(store, Verb.CANCEL, TODAY) == "done"
    assert finish(store, late) == "lost"
    assert state(store, "job", TODAY) == "cancelled"
    record = store.show("job", TODAY)
    assert record and record.attempts[0].note == "ended (succeeded) after the lease was lost"


def test_holder_reads_at_its_next_beat_that_it_shall_stop(store: Store) -> None:
    held = granted(claim(store))
    assert say(store, Verb.STOP) == "done"
    beat = store.beat(held.lease, TERMS.lease_for, TERMS.slack)
    assert beat and beat.stop_requested == "by ada@alpha: disk was full"
    assert say(store, Verb.STOP) == "already_so"
    finish(store, held, Ending(Outcome.INTERRUPTED, signal=15))
    assert (state(store, "job", TODAY), say(store, Verb.STOP)) == ("pending", "not_live")
    assert said(store) == [("stop", TODAY)]


def test_wish_that_a_run_shall_stop_outlives_what_its_command_says_and_its_tries_in_place(
    store: Store, clock: Clock
) -> None:
    held = granted(claim(store, attempts=3))
    say(store, Verb.STOP)
    ledger, until = ledger_on(store), boottime() + 5
    ledger.fail_and_hold(held, FAILED, until)
    clock.forward(seconds=5)
    again = ledger.retry(held, until)
    assert again
    beat = store.beat(again.lease, TERMS.lease_for, TERMS.slack)
    assert beat and beat.stop_requested


def test_paused_key_starts_nothing_and_what_is_live_goes_on(store: Store, clock: Clock) -> None:
    held = granted(claim(store))
    assert say(store, Verb.PAUSE) == "done"
    assert store.beat(held.lease, TERMS.lease_for, TERMS.slack)
    assert finish(store, held) == "mine"
    clock.forward(days=1)
    assert refusal(claim(store)) == "paused"
    assert say(store, Verb.PAUSE) == "already_so"
    assert say(store, Verb.RESUME) == "done"
    granted(claim(store))
    assert said(store) == [("resume", None), ("pause", None)]


def test_pause_survives_the_claims_and_ends_of_other_periods(store: Store, clock: Clock) -> None:
    """Every claim writes the key's row: what an operator said must stay in it."""
    held = granted(claim(store))
    say(store, Verb.PAUSE)
    ledger, until = ledger_on(store), boottime() + 5
    ledger.fail_and_hold(held, FAILED, until)
    assert ledger.retry(held, until)
    job = store.look("job", TODAY).job
    assert job and (job.paused_by, job.pause_reason) == ("ada@alpha", "disk was full")
    assert job.paused_at == clock.now


def test_word_about_a_key_that_is_not_there_leaves_no_trace(store: Store) -> None:
    assert say(store, Verb.PAUSE) == "no_key"
    assert store.look("job", TODAY).job is None


def test_cancel_and_claim_at_once_have_one_winner(make_store: MakeStore) -> None:
    finish(make_store(), granted(claim(make_store(), period="2026-11-29")))
    for day in range(1, 21):
        period = f"2026-11-{day:02}"
        cancelling = in_background(lambda period=period: say(make_store(), Verb.CANCEL, period))
        answer = claim(make_store(), period=period)
        cancelled = cancelling.result(30)
        assert (cancelled == "done") == (not hasattr(answer, "lease")), (cancelled, answer)
        if hasattr(answer, "lease"):
            assert cancelled == "live"
            finish(make_store(), granted(answer))


def test_reset_of_a_lease_that_ends_this_instant_is_refused(store: Store, clock: Clock) -> None:
    granted(claim(store))
    clock.forward(seconds=60)
    assert say(store, Verb.RESET, TODAY) == "live"
    clock.now += timedelta(microseconds=1)
    assert say(store, Verb.RESET, TODAY) == str(Answer.DONE)


@pytest.mark.parametrize("reason", [None, "täglich, 日本"])
def test_reason_is_any_text_or_none(store: Store, reason: str | None) -> None:
    granted(claim(store))
    say(store, Verb.PAUSE, reason=reason)
    job = store.look("job", TODAY).job
    assert job and job.pause_reason == reason


def test_what_was_due_in_a_pause_is_not_reported_when_it_is_over(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    """Also where no supervisor has looked meanwhile; from then on the key is expected again."""
    finish(store, granted(claim(store, schedule="0 * * * *", every="hour")))
    say(store, Verb.PAUSE)
    clock.forward(days=3)
    say(store, Verb.RESUME)
    assert found(pass_over(supervised)) == []
    clock.forward(hours=2.5)
    assert [what for what, _ in found(pass_over(supervised))] == ["missed"]
