"""What a command says from inside its run, on every store: under its live token, and under no other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cronguard.clock import boottime
from cronguard.domain.claim import Granted
from cronguard.domain.progress import Extended, Extension, Inside
from cronguard.ports import Store
from tests.conftest import Clock
from tests.rig.firings import FAILED, TERMS, MakeStore, claim, finish, granted, ledger_on
from tests.rig.waiting import in_background

TODAY = "2026-11-30"
MINUTE = timedelta(minutes=1)


def inside(held: Granted) -> Inside:
    return Inside(held.run.key, held.run.period, held.run.token, held.lease.holder.id)


def say(store: Store, held: Granted, text: str | None = None, note: str | None = None) -> bool:
    return ledger_on(store).progress(inside(held), text, note)


def extend(store: Store, held: Granted, minutes: int) -> Extension:
    return ledger_on(store).extend(inside(held), minutes * MINUTE)


def start(store: Store, **options: object) -> Granted:
    return granted(claim(store, complete_by="1h", extend_max=15 * MINUTE, **options))


def test_next_beat_brings_what_the_command_said(store: Store, clock: Clock) -> None:
    held = start(store)
    beat = store.beat(held.lease, TERMS.lease_for, TERMS.slack)
    assert beat and (beat.progressed_at, beat.complete_by) == (None, held.run.complete_by)
    said_at = clock.forward(seconds=5)
    assert say(store, held, "3/10", "customers from K on")
    clock.forward(seconds=5)
    beat = store.beat(held.lease, TERMS.lease_for, TERMS.slack)
    assert beat and beat.progressed_at == said_at
    record = store.show("job", TODAY)
    assert record and record.run and record.run.progress
    assert (record.run.progress.text, record.run.progress.note) == ("3/10", "customers from K on")


def test_progress_stays_with_the_run_when_it_ends_and_goes_when_it_runs_again(store: Store, clock: Clock) -> None:
    held = start(store, attempts=3)
    say(store, held, "3/10")
    finish(store, held, FAILED)
    assert (record := store.show("job", TODAY)) and record.run and record.run.progress
    again = start(store, attempts=3)
    assert (record := store.show("job", TODAY)) and record.run and record.run.progress is None
    say(store, again, "9/10")
    clock.forward(seconds=61)  # and dies
    claim(store, attempts=3, period="2026-11-29")
    assert (record := store.show("job", TODAY)) and record.run and record.run.progress
    assert (record.run.state, record.run.progress.text) == ("pending", "9/10")


def test_extension_is_recorded_capped_and_moves_how_long_the_lease_may_last(store: Store, clock: Clock) -> None:
    held = start(store)
    complete_by = held.run.complete_by
    assert complete_by
    assert extend(store, held, 10).complete_by == complete_by + 10 * MINUTE
    capped = extend(store, held, 10)
    assert (capped.answer, capped.by, capped.complete_by) == (Extended.GRANTED, 5 * MINUTE, complete_by + 15 * MINUTE)
    assert extend(store, held, 1).answer is Extended.SPENT
    record = store.show("job", TODAY)
    assert record and record.run
    assert (record.run.complete_by, record.run.extended_for) == (complete_by + 15 * MINUTE, 15 * MINUTE)
    clock.now = complete_by
    beat = store.beat(held.lease, TERMS.lease_for, TERMS.slack)
    assert beat and (beat.lease_until, beat.complete_by) == (complete_by + TERMS.lease_for, complete_by + 15 * MINUTE)
    clock.forward(minutes=15)
    beat = store.beat(held.lease, TERMS.lease_for, TERMS.slack)
    assert beat and beat.lease_until == complete_by + 15 * MINUTE + TERMS.slack


def test_end_of_a_run_says_how_far_it_was_extended(store: Store) -> None:
    held = start(store)
    extend(store, held, 10)
    finish(store, held)
    record = store.show("job", TODAY)
    assert record and record.run and record.run.extended_for == 10 * MINUTE
    assert record.attempts[0].note == "extended by 10m"


def test_try_in_place_keeps_the_extended_complete_by_and_fences_off_the_one_before(store: Store, clock: Clock) -> None:
    held = start(store, attempts=2)
    extend(store, held, 10)
    say(store, held, "3/10")
    ledger, until = ledger_on(store), boottime() + 5
    ledger.fail_and_hold(held, FAILED, until)
    clock.forward(seconds=10)
    again = ledger.retry(held, until)
    assert again and again == ledger.retry(held, until)
    assert (again.run.complete_by, again.run.progress) == (again.lease.complete_by, None)
    assert again.lease.extended_for == 10 * MINUTE
    assert not say(store, held, "4/10")
    assert say(store, again, "1/10")


@pytest.mark.parametrize("how", ["taken over", "over"])
def test_overtaken_command_changes_nothing_any_more(store: Store, clock: Clock, how: str) -> None:
    late = start(store)
    if how == "over":
        finish(store, late)
    else:
        clock.forward(seconds=61)
        start(store, host="beta")
    before = store.look("job", TODAY)
    assert not say(store, late, "3/10")
    assert extend(store, late, 1).answer is Extended.LOST
    assert store.look("job", TODAY) == before


def test_not_every_run_may_be_extended(store: Store) -> None:
    assert extend(store, granted(claim(store, key="plain")), 1).answer is Extended.NOT_ALLOWED
    endless = granted(claim(store, key="endless", complete_by="never", extend_max=15 * MINUTE))
    assert extend(store, endless, 1).answer is Extended.NEVER_ENDS


def test_question_to_the_wrong_ledger_leaves_no_trace_in_it(store: Store) -> None:
    stranger = Inside("job", TODAY, 7, "7f0c1f3a-3f0e-4a52-9d5c-0a9e6f1f2a11")
    assert not ledger_on(store).progress(stranger, "1", None)
    assert ledger_on(store).extend(stranger, MINUTE).answer is Extended.LOST
    assert store.look("job", TODAY).job is None


def test_many_that_extend_at_once_get_no_more_than_is_allowed(make_store: MakeStore) -> None:
    held = start(make_store())
    asking = [in_background(lambda: extend(make_store(), held, 4)) for _ in range(6)]
    answers = [future.result(30) for future in asking]
    assert sum((answer.by for answer in answers), timedelta()) == 15 * MINUTE
    assert [answer.answer for answer in answers].count(Extended.SPENT) == 2
