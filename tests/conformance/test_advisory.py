"""--lock advisory, on every store: a lock besides the claim, free as soon as its holder is gone, and no sooner had."""

from __future__ import annotations

import pytest

from cronguard.domain.advisory import lock_number
from cronguard.domain.claim import Granted
from cronguard.domain.run import Exclusive, Lock
from cronguard.ports import Hold, Store
from cronguard.services.ledger import Verdict
from tests.conftest import Clock
from tests.rig.firings import (
    FAILED,
    TERMS,
    MakeStore,
    claim,
    finish,
    firing,
    granted,
    ledger_on,
    refusal,
    skips,
    state,
)
from tests.rig.waiting import wait_until

TODAY = "2026-11-30"
ADVISORY = {"lock": Lock.ADVISORY}


def holding(store: Store, **options: object) -> tuple[Granted, Hold]:
    """A granted run, and the lock that its holder has besides."""
    asked: Verdict = ledger_on(store).claim(firing(**ADVISORY | options), lambda _key, _period: None)  # type: ignore[arg-type]
    assert asked.hold
    return granted(asked.answer), asked.hold


def abandoned(store: Store) -> list[str]:
    """The periods whose lease is there, and whose lock is free."""
    return [lease.period for lease in store.look("job", TODAY).leases if lease.is_abandoned]


def let_go(store: Store, hold: Hold, period: str = TODAY) -> None:
    """As the kernel does when the process dies; the server may take a moment to see that."""
    hold.release()
    wait_until(lambda: period in abandoned(store), saying="its lock is free")


@pytest.fixture
def direct(make_direct_store: MakeStore) -> Store:
    return make_direct_store()


def test_number_of_a_lock_never_changes() -> None:
    """Two versions with two numbers would each have a lock of their own."""
    assert lock_number("daily_digest", "") == 5537139448469954774
    assert lock_number("daily_digest", TODAY) == 3145875314331261620


def test_lock_is_had_by_one_until_that_one_lets_go(make_direct_store: MakeStore) -> None:
    one, other = make_direct_store().hold(), make_direct_store().hold()
    assert [one.take(7), one.take(7), other.take(7), other.take(8)] == [True, True, False, True]
    one.release()
    third = make_direct_store().hold()
    assert third.take(7)
    for hold in (other, third):
        hold.release()


def test_run_is_held_by_both_and_its_beats_renew_the_lease(direct: Store, clock: Clock) -> None:
    held, hold = holding(direct)
    assert held.lease.advisory_lock == lock_number("job", "")
    assert refusal(claim(direct, host="beta")) == "held"
    assert refusal(claim(direct, host="beta", **ADVISORY)) == "held"
    now = clock.forward(seconds=30)
    beat = hold.beat(held.lease, TERMS.lease_for, TERMS.slack)
    assert beat and beat.lease_until == now + TERMS.lease_for
    assert not hold.is_cut()
    finish(direct, held)
    assert hold.beat(held.lease, TERMS.lease_for, TERMS.slack) is None  # the lease is gone
    hold.release()


@pytest.mark.parametrize("other", [ADVISORY, {}], ids=["advisory", "claim"])
def test_holder_that_is_gone_is_taken_over_at_once_whatever_the_newcomer_holds_by(
    direct: Store, other: dict[str, Lock]
) -> None:
    _, hold = holding(direct)
    let_go(direct, hold)
    verdict = ledger_on(direct).claim(firing(host="beta", **other), lambda _key, _period: None)
    again = granted(verdict.answer)
    assert (again.run.attempt, again.run.recoveries) == (2, 1)
    record = direct.show("job", TODAY)
    assert record and record.attempts[0].note == "its advisory lock was free"
    assert record.skips == 0  # that it looked twice is no skip
    if verdict.hold:
        verdict.hold.release()


def test_a_lock_just_let_go_is_doubted_until_its_holder_has_had_time_to_notice(direct: Store) -> None:
    held, hold = holding(direct)
    let_go(direct, hold)
    verdict, _ = ledger_on(direct).preview(firing(host="beta"), lambda _key, _period: None)
    assert refusal(verdict.answer) == "held"
    assert finish(direct, held) == "mine"  # it was faster: what it saw of its command counts
    assert state(direct, "job", TODAY) == "succeeded"


def test_holder_frozen_past_its_lease_keeps_a_newcomer_out_as_long_as_it_has_the_lock(
    direct: Store, clock: Clock
) -> None:
    _, frozen = holding(direct)
    clock.forward(seconds=61)
    assert refusal(claim(direct, host="beta", **ADVISORY)) == "held"
    assert (state(direct, "job", TODAY), skips(direct, "job", TODAY)) == ("pending", ["held"])
    frozen.release()
    again, hold = holding(direct, host="beta")
    assert again.run.attempt == 2
    hold.release()


def test_lease_that_is_over_gives_the_run_to_who_asks_for_no_lock(direct: Store, clock: Clock) -> None:
    _, frozen = holding(direct)
    clock.forward(seconds=61)
    assert granted(claim(direct, host="beta")).run.attempt == 2
    frozen.release()


def test_next_try_in_place_is_under_the_same_lock(direct: Store) -> None:
    held, hold = holding(direct, attempts=2)
    ledger_on(direct).fail_and_hold(held, FAILED, float("inf"))
    again = ledger_on(direct).retry(held, float("inf"))
    assert again and again.lease.advisory_lock == held.lease.advisory_lock
    assert refusal(claim(direct, host="beta", **ADVISORY)) == "held"
    assert hold.beat(again.lease, TERMS.lease_for, TERMS.slack)
    hold.release()


def test_runs_of_periods_that_do_not_exclude_each_other_have_a_lock_each(direct: Store) -> None:
    options = {"exclusive": Exclusive.PERIOD}
    _, one = holding(direct, period="2026-11-28", **options)
    _, other = holding(direct, period="2026-11-29", **options)
    let_go(direct, one, "2026-11-28")
    assert abandoned(direct) == ["2026-11-28"]
    other.release()
