"""Whole keys, on every store: at a glance, counted, and pruned; by a ledger's clock moved by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronguard.domain.intervention import Wish, intervene
from cronguard.domain.lifecycle import Ending
from cronguard.domain.overview import named, status_of
from cronguard.domain.pruning import Keep
from cronguard.domain.run import Change, Outcome, State
from cronguard.domain.said import Verb
from cronguard.domain.stats import stats_of
from cronguard.ports import Store, SupervisedStore
from cronguard.services.prune import RUNS_AT_ONCE, Pruned, prune_ledger
from tests.conftest import Clock
from tests.rig.firings import FAILED, MakeStore, claim, finish, granted, ledger_on, refusal, state
from tests.rig.sending import sender, states, won
from tests.rig.steps import do
from tests.rig.waiting import in_background

TODAY = "2026-11-30"
DAY = timedelta(days=1)
KEEP = Keep(30 * DAY, 2)


def daily_runs(store: Store, clock: Clock, days: int, key: str = "job") -> None:
    """One run a day that succeeds, up to yesterday."""
    clock.now -= timedelta(days=days)
    for _ in range(days):
        finish(store, granted(claim(store, key=key)))
        clock.forward(days=1)


def state_of(store: Store, key: str = "job") -> str:
    (glance,) = store.glances([key])
    return str(status_of(glance).state)


def prune(store: Store, keep: Keep = KEEP, *, dry_run: bool = False) -> Pruned:
    return prune_ledger(ledger_on(store), keep, dry_run=dry_run)


# --- at a glance ------------------------------------------------------------------------------------------------------


def test_keys_come_with_their_calendars_in_order(store: Store) -> None:
    granted(claim(store, key="b", every="hour", tz="Europe/Berlin"))
    granted(claim(store, key="a", every=None, schedule="*/15 * * * *"))
    jobs = store.jobs()
    assert [(job.key, job.cadence, job.zone, job.schedule) for job in jobs] == [
        ("a", "minute", "UTC", "*/15 * * * *"), ("b", "hour", "Europe/Berlin", None),
    ]  # fmt: skip
    assert [job.key for job in named(jobs, ["b*"])] == ["b"]


def test_glance_sees_when_a_key_last_went_well_and_badly_and_how_long_it_takes(store: Store, clock: Clock) -> None:
    held = granted(claim(store))
    good = clock.forward(minutes=7)
    finish(store, held)
    clock.forward(days=1)
    failing = granted(claim(store))
    bad = clock.forward(minutes=2)
    finish(store, failing, FAILED)
    clock.forward(days=1)
    granted(claim(store))
    (glance,) = store.glances(["job"])
    assert (glance.last_success_at, glance.last_failure_at) == (good, bad)
    assert (glance.lengths, glance.now, len(glance.leases)) == ((timedelta(minutes=7),), clock.now, 1)
    assert state_of(store) == "running"


def test_glance_follows_a_run_from_its_start_to_its_death(store: Store, clock: Clock) -> None:
    granted(claim(store, recoveries=0))
    assert state_of(store) == "running"
    clock.forward(seconds=61)
    assert state_of(store) == "stale"
    claim(store, recoveries=0)
    assert state_of(store) == "dead"


def test_rerun_of_an_old_period_leaves_the_newest_one_in_sight(store: Store, clock: Clock) -> None:
    finish(store, granted(claim(store)), FAILED)
    clock.forward(minutes=5)
    finish(store, granted(claim(store, period="2026-11-01")))
    (glance,) = store.glances(["job"])
    assert {run.period for run in glance.runs} == {TODAY, "2026-11-01"}
    assert state_of(store) == "failed"


def test_glances_come_in_the_order_they_are_asked_for_and_unknown_keys_are_left_out(store: Store) -> None:
    for key in ("a", "b", "c"):
        granted(claim(store, key=key))
    assert [glance.job.key for glance in store.glances(["c", "nobody", "a"])] == ["c", "a"]
    assert store.glances([]) == []


def test_period_that_was_cancelled_beforehand_does_not_hide_the_one_of_today(store: Store, clock: Clock) -> None:
    finish(store, granted(claim(store)), FAILED)
    clock.forward(minutes=5)
    finish(store, granted(claim(store, period="2026-11-01")))
    wish = Wish(Verb.CANCEL, "job", "2026-12-24", "ada@alpha")
    ledger_on(store).change("job", "2026-12-24", lambda sight: intervene(wish, sight))
    assert state_of(store) == "failed"


# --- counted ----------------------------------------------------------------------------------------------------------


def test_tally_counts_runs_attempts_and_skips_by_host(store: Store, clock: Clock) -> None:
    held = granted(claim(store, host="alpha", attempts=2))
    assert refusal(claim(store, host="beta")) == "held"
    clock.forward(minutes=1)
    finish(store, held, FAILED)
    finish(store, granted(claim(store, host="beta", attempts=2)))
    assert refusal(claim(store, host="alpha")) == "already_succeeded"
    counts = store.counts("job", 1000)
    assert counts
    stats = stats_of(counts)
    assert (stats.runs, stats.outcomes, stats.prevented) == (1, {"failed": 1, "succeeded": 1}, 2)
    assert [(host.host, host.attempts, host.succeeded, host.skips) for host in stats.hosts] == [
        ("alpha", 1, 0, 1), ("beta", 1, 1, 1),
    ]  # fmt: skip


def test_tally_is_of_the_last_runs_only(store: Store, clock: Clock) -> None:
    daily_runs(store, clock, 5)
    counts = store.counts("job", 3)
    assert counts and [run.period for run in counts.runs] == ["2026-11-29", "2026-11-28", "2026-11-27"]
    assert counts.attempts == (("alpha", Outcome.SUCCEEDED, 3),)
    assert store.counts("nobody", 3) is None


# --- pruned -----------------------------------------------------------------------------------------------------------


def test_old_runs_go_with_their_attempts_and_skips_and_the_young_stay(store: Store, clock: Clock) -> None:
    daily_runs(store, clock, 40)
    assert refusal(claim(store, period="2026-10-25")) == "already_succeeded"
    assert prune(store, dry_run=True) == Pruned({"job": 10}, 0)
    assert store.show("job", "2026-10-25")
    assert prune(store) == Pruned({"job": 10}, 0)
    assert store.show("job", "2026-10-30") is None
    assert store.show("job", "2026-10-31")
    assert store.show("job", "2026-10-25") is None  # no skip of it either
    assert prune(store) == Pruned({}, 0)


def test_steps_of_a_run_go_with_it_and_its_effects_stay(supervised: SupervisedStore, clock: Clock) -> None:
    clock.now -= timedelta(days=40)
    held = granted(claim(supervised))
    assert do(supervised, held, "pull") == "succeeded"
    assert won(supervised, "ada", by=sender(held)) == ["ada"]
    finish(supervised, held)
    clock.forward(days=38)
    daily_runs(supervised, clock, 2)
    assert prune(supervised) == Pruned({"job": 1}, 0)
    assert (supervised.steps_of("job", held.run.period), states(supervised)) == ([], {"ada": "sending"})


def test_pruned_period_is_refused_for_ever_and_the_next_one_is_not(store: Store, clock: Clock) -> None:
    daily_runs(store, clock, 40)
    prune(store)
    for asked in ({}, {"rerun": True, "force": True}, {"tz": "Pacific/Kiritimati"}, {"tz": "Pacific/Midway"}):
        assert refusal(claim(store, period="2026-10-30", **asked)) == "pruned"
    assert refusal(claim(store, period="2026-10-31")) == "already_succeeded"
    assert refusal(claim(store, period="2020-01-01")) == "pruned"  # nobody can tell any more
    assert granted(claim(store)).run.period == TODAY


def test_newest_runs_stay_however_old_they_are(store: Store, clock: Clock) -> None:
    daily_runs(store, clock, 5)
    clock.forward(days=1000)
    assert prune(store).runs == {"job": 3}
    assert [record.period for record in store.history("job", 9)] == ["2026-11-29", "2026-11-28"]
    assert prune(store, Keep(DAY, 1)).runs == {"job": 1}
    assert prune(store, Keep(DAY, 1)).runs == {}


def test_pending_and_running_are_never_pruned_nor_refused_because_of_it(store: Store, clock: Clock) -> None:
    clock.now = datetime(2026, 9, 1, 6, tzinfo=UTC)
    finish(store, granted(claim(store)), Ending(Outcome.INTERRUPTED, signal=15))
    clock.forward(days=1)
    granted(claim(store, key="live", complete_by="never", every="day"))
    clock.forward(days=1)
    daily = datetime(2026, 11, 30, 6, tzinfo=UTC)
    while clock.now < daily:
        finish(store, granted(claim(store)))
        clock.forward(days=1)
    assert prune(store).runs["job"] > 30
    assert (state(store, "job", "2026-09-01"), state(store, "live", "2026-09-02")) == ("pending", "running")
    assert granted(claim(store, period="2026-09-01")).run.attempt == 2


def test_old_period_that_ran_lately_stays(store: Store, clock: Clock) -> None:
    daily_runs(store, clock, 5)
    finish(store, granted(claim(store, period="2026-01-01")))
    clock.forward(days=20)
    daily = prune(store, Keep(22 * DAY, 1)).runs
    assert daily == {"job": 3}
    assert store.show("job", "2026-01-01")


def test_free_labels_are_never_pruned(store: Store, clock: Clock) -> None:
    options = {"key": "free", "every": "run"}
    finish(store, granted(claim(store, period="release 1.2", **options)))
    clock.forward(days=100)
    for _ in range(4):
        clock.forward(minutes=1)
        finish(store, granted(claim(store, **options)))
    clock.forward(days=100)
    made = store.history("free", 9)[-2].period
    assert prune(store).runs == {"free": 2}
    assert refusal(claim(store, period="release 1.2", **options)) == "already_succeeded"
    assert refusal(claim(store, period=made, **options)) == "pruned"  # a label that the cadence made itself
    granted(claim(store, period="release 1.3", **options))


def test_pruning_takes_as_many_transactions_as_it_needs(store: Store, clock: Clock) -> None:
    held = granted(claim(store, every="minute"))
    finish(store, held)
    finished = replace(held.run, state=State.SUCCEEDED, exit_code=0, finished_at=clock.now)
    starts = [clock.now - timedelta(days=100, minutes=number) for number in range(RUNS_AT_ONCE + 4)]
    with store.page("job", TODAY) as page:
        page.write(Change(runs=tuple(
            replace(finished, period=f"{start}", period_start=start, started_at=start, finished_at=start)
            for start in starts
        )))  # fmt: skip
    with store.pruning_page("job", KEEP, RUNS_AT_ONCE) as page:
        assert len(page.aged.runs) == RUNS_AT_ONCE
    assert prune(store).runs == {"job": RUNS_AT_ONCE + 3}
    assert len(store.history("job", 9)) == 2


def test_skips_of_periods_that_nobody_ran_go_when_they_are_old(store: Store, clock: Clock) -> None:
    finish(store, granted(claim(store)))
    clock.forward(minutes=10)
    assert refusal(claim(store, period="2026-11-29", start_by="2026-11-30T06:05:00Z")) == "too_late"
    assert prune(store).skips == 0
    clock.forward(days=31)
    assert prune(store, dry_run=True).skips == 1
    assert prune(store).skips == 1
    assert store.show("job", "2026-11-29") is None


def test_pruning_at_once_by_several_hosts_takes_nothing_twice(make_store: MakeStore, clock: Clock) -> None:
    daily_runs(make_store(), clock, 60)
    pruning = [in_background(lambda: prune(make_store())) for _ in range(4)]
    assert sum(sum(future.result(60).runs.values()) for future in pruning) == 30


@pytest.mark.parametrize("keep", [Keep(DAY, 1), Keep(timedelta(seconds=1), 1)])
def test_mark_stays_when_the_key_runs_on(store: Store, clock: Clock, keep: Keep) -> None:
    daily_runs(store, clock, 5)
    prune(store, keep)
    finish(store, granted(claim(store)))
    clock.forward(days=1)
    granted(claim(store))
    assert refusal(claim(store, period="2026-11-25")) == "pruned"
