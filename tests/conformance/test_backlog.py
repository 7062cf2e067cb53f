"""What waits of a key, on every store: what a look at its older periods shows, and what is offered of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronguard.domain import backlog
from cronguard.domain.lifecycle import Ending
from cronguard.domain.run import Change, Outcome, Run, State
from cronguard.ports import Store
from tests.conftest import Clock
from tests.rig.firings import claim, finish, firing, granted, ledger_on, refusal, state

INTERRUPTED = Ending(Outcome.INTERRUPTED, exit_code=143)
DAYS = ("2026-11-26", "2026-11-27", "2026-11-28", "2026-11-29")


def pending(store: Store, *periods: str) -> None:
    for period in periods:
        finish(store, granted(claim(store, period=period)), INTERRUPTED)


def labels(store: Store, **asked: object) -> list[str]:
    return [run.period for run in store.backlog("job", **asked).runs]  # type: ignore[arg-type]


def test_ledger_that_knows_nothing_of_a_key_has_no_backlog(store: Store, clock: Clock) -> None:
    sight = store.backlog("job", missed=True, within=timedelta(days=7))
    assert (sight.now, sight.job, sight.runs, sight.leases) == (clock.now, None, (), ())
    assert store.recorded("job", "2026-11-01", "2026-11-30").runs == ()


def test_backlog_is_what_is_pending_or_running_oldest_first_of_this_key_alone(store: Store) -> None:
    pending(store, DAYS[2], DAYS[0])
    finish(store, granted(claim(store, period=DAYS[1])))
    finish(store, granted(claim(store, key="other", period=DAYS[1])), INTERRUPTED)
    held = granted(claim(store, period=DAYS[3]))
    assert labels(store) == [DAYS[0], DAYS[2], DAYS[3]]
    sight = store.backlog("job")
    assert sight.leases == (held.lease,)
    assert [chosen.period.label for chosen in backlog.waiting(sight)] == [DAYS[0], DAYS[2]]


def test_run_whose_lease_is_over_or_gone_waits_too(store: Store, clock: Clock) -> None:
    granted(claim(store, period=DAYS[0]))
    assert backlog.waiting(store.backlog("job")) == []
    clock.forward(seconds=61)
    (chosen,) = backlog.waiting(store.backlog("job"))
    assert chosen.period.label == DAYS[0]
    offered = firing().of(chosen)
    again = granted(claim(store, offered))
    assert (again.run.attempt, again.run.recoveries) == (2, 1)


def test_missed_ones_and_a_window_are_left_to_whoever_asks_for_them(store: Store, clock: Clock) -> None:
    pending(store, *DAYS)
    with store.page("job", DAYS[1]) as page:
        page.write(Change(runs=(replace(page.sight.runs[0], state=State.MISSED),)))
    assert labels(store) == [DAYS[0], DAYS[2], DAYS[3]]
    assert labels(store, missed=True) == list(DAYS)
    within = clock.now - datetime(2026, 11, 28, tzinfo=UTC)  # when the 27th ended, to the second
    assert labels(store, missed=True, within=within) == list(DAYS[1:])
    assert labels(store, missed=True, within=within - timedelta(seconds=1)) == list(DAYS[2:])


def test_recorded_are_the_runs_between_two_labels_and_the_last_one_before(store: Store) -> None:
    pending(store, *DAYS)
    found = store.recorded("job", DAYS[2], DAYS[3]).runs
    assert sorted(run.period for run in found) == list(DAYS[1:])
    assert [run.period for run in store.recorded("job", "2026-11-01", DAYS[0]).runs] == [DAYS[0]]


def test_offered_period_is_run_as_its_row_says_and_changes_nothing_of_it(store: Store) -> None:
    finish(store, granted(claim(store, period=DAYS[0], tz="Asia/Tokyo")), INTERRUPTED)
    before = store.backlog("job").runs[0]
    (chosen,) = backlog.waiting(store.backlog("job"))
    again = granted(claim(store, firing(every=None, tz="UTC").of(chosen))).run
    edges = [(run.period, run.period_start, run.period_end, run.zone, run.cadence) for run in (before, again)]
    assert edges[0] == edges[1]


def test_offered_period_that_is_refused_leaves_no_skip(store: Store) -> None:
    pending(store, DAYS[0])
    chosen = backlog.as_recorded(store.backlog("job").runs[0])
    held = granted(claim(store, period=DAYS[1]))
    assert refusal(claim(store, firing().of(chosen))) == "held"
    finish(store, held)
    finish(store, granted(claim(store, firing().of(chosen))))
    assert refusal(claim(store, firing().of(chosen))) == "already_succeeded"
    record = store.show("job", DAYS[0])
    assert record and record.skips == 0


def test_period_that_was_asked_for_by_its_name_makes_no_echo_of_the_next_firing(store: Store, clock: Clock) -> None:
    clock.now = datetime(2026, 11, 30, 0, 0, 1, tzinfo=UTC)
    finish(store, granted(claim(store, period=DAYS[0])))
    clock.forward(seconds=5)
    finish(store, granted(claim(store)))
    assert state(store, "job", "2026-11-30") == "succeeded"


@pytest.mark.parametrize("tries", [1, 2])
def test_tries_in_place_of_an_older_period_make_no_echo_either(store: Store, clock: Clock, tries: int) -> None:
    clock.now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    finish(store, granted(claim(store)))
    clock.now = datetime(2026, 11, 30, 0, 0, 1, tzinfo=UTC)
    held = granted(claim(store, period=DAYS[0], attempts=2))
    for _ in range(tries):
        held = ledger_on(store).retry(held, float("inf")) or held
    finish(store, held)
    assert granted(claim(store)).run.period == "2026-11-30"


def test_what_was_never_recorded_is_due_only_since_the_key_is_known(store: Store) -> None:
    pending(store, DAYS[1], DAYS[3])
    due = [backlog.as_recorded(Run("job", day, State.MISSED)) for day in (*DAYS, "2026-11-30")]
    sight = store.recorded("job", *backlog.labels_between(due))
    assert [one.period.label for one in backlog.never_recorded(due, sight)] == [DAYS[2], "2026-11-30"]
    assert backlog.never_recorded(due, store.recorded("other", DAYS[0], DAYS[3])) == []
