"""The exam that every store sits: it looks, locks and writes what it is told, whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from cronguard.domain.run import (
    Attempt,
    AttemptEnd,
    Captured,
    Change,
    Holder,
    Job,
    Lease,
    Outcome,
    Progress,
    Run,
    Skip,
    SkipReason,
    State,
)
from cronguard.errors import CronguardError
from cronguard.ports import Store
from tests.conftest import Clock
from tests.rig.firings import MakeStore
from tests.rig.waiting import in_background, still_waits, wait_until

CALL = "5b1d0c2e-7a44-4b8e-9a5e-1f0d3c6b7a80"
HOLDER = Holder("7f0c1f3a-3f0e-4a52-9d5c-0a9e6f1f2a11", "alpha", 4711)
LEASE_FOR = timedelta(seconds=60)
SLACK = timedelta(seconds=10)


def running(clock: Clock, token: int = 7, period: str = "2026-11-30", lane: str = "") -> Change:
    """All that a grant writes, with every field filled."""
    run = Run(
        "job", period, State.RUNNING, lane=lane, attempt=2, failures=1, recoveries=1, attempts_allowed=3,
        recoveries_allowed=5, token=token, holder=HOLDER, period_start=clock.now, period_end=clock.now + LEASE_FOR,
        zone="Europe/Berlin", cadence="day", source="clock", slot=clock.now, started_at=clock.now,
        complete_by=clock.now + timedelta(hours=1, microseconds=1), extended_for=timedelta(minutes=10),
        progress=Progress(clock.now, "3/10", "customers from K on"),
    )  # fmt: skip
    job = Job("job", token, "day", "Europe/Berlin", "0 6 * * *", period, clock.now)
    attempt = Attempt("job", period, token, 2, HOLDER, clock.now, requested_by="ada@alpha")
    lease = Lease(
        "job", lane, period, token, HOLDER, clock.now + LEASE_FOR, complete_by=run.complete_by,
        extend_max=timedelta(days=1, microseconds=1), extended_for=timedelta(minutes=10), extension_id=CALL,
        progress=run.progress,
    )  # fmt: skip
    return Change(job=job, runs=(run,), opened=(attempt,), taken=(lease,))


def write(store: Store, change: Change) -> None:
    with store.page("job", "2026-11-30") as page:
        page.write(change)


def test_empty_ledger_shows_nothing_but_its_clock(store: Store, clock: Clock) -> None:
    sight = store.look("job", "2026-11-30")
    assert (sight.now, sight.job, sight.leases, sight.runs) == (clock.now, None, (), ())
    assert store.history(None, 10) == []
    assert store.show("job", None) is None


def test_what_is_written_is_read_back_unchanged(store: Store, clock: Clock) -> None:
    change = running(clock)
    write(store, change)
    sight = store.look("job", "2026-11-30")
    assert (sight.job, sight.runs, sight.leases) == (change.job, change.runs, change.taken)
    record = store.show("job", "2026-11-30")
    assert record is not None
    assert (record.run, record.attempts, record.lease_until) == (
        change.runs[0], change.opened, change.taken[0].lease_until,
    )  # fmt: skip


def test_look_shows_also_the_run_of_another_period_that_somebody_holds(store: Store, clock: Clock) -> None:
    write(store, running(clock))
    assert [run.period for run in store.look("job", "2026-12-01").runs] == ["2026-11-30"]


def test_page_left_by_an_error_leaves_no_trace(store: Store, clock: Clock) -> None:
    with pytest.raises(ZeroDivisionError), store.page("job", "2026-11-30") as page:
        page.write(running(clock))
        raise ZeroDivisionError
    assert store.look("job", "2026-11-30").job is None


def test_page_without_a_change_leaves_no_trace(store: Store) -> None:
    with store.page("job", "2026-11-30"):
        pass
    assert store.look("job", "2026-11-30").job is None


def test_second_page_of_a_key_waits_and_sees_what_the_first_wrote(make_store: MakeStore, clock: Clock) -> None:
    first, second = make_store(), make_store()

    def read_locked() -> int:
        with second.page("job", "2026-11-30") as page:
            return page.sight.job.token if page.sight.job else 0

    with first.page("job", "2026-11-30") as page:
        waiting = in_background(read_locked)
        assert still_waits(waiting, 0.5)
        page.write(running(clock, token=9))
    assert waiting.result(30) == 9


def test_beat_moves_the_lease_of_its_holder_and_no_further_than_its_run_may_last(store: Store, clock: Clock) -> None:
    change = running(clock)
    write(store, change)
    now = clock.forward(seconds=20)
    lease = change.taken[0]
    beat = store.beat(lease, LEASE_FOR, SLACK)
    assert beat and (beat.now, beat.lease_until, beat.stop_requested) == (now, now + LEASE_FOR, None)
    assert (beat.complete_by, beat.progressed_at) == (lease.complete_by, lease.progress and lease.progress.at)
    clock.forward(minutes=59, seconds=30)
    beat = store.beat(lease, LEASE_FOR, SLACK)
    assert beat and lease.complete_by and beat.lease_until == lease.complete_by + SLACK


def test_lease_of_a_run_that_never_ends_is_not_cut_short(store: Store, clock: Clock) -> None:
    lease = replace(running(clock).taken[0], complete_by=None, progress=None)
    write(store, replace(running(clock), taken=(lease,)))
    now = clock.forward(days=300)
    beat = store.beat(lease, LEASE_FOR, SLACK)
    assert beat and (beat.lease_until, beat.complete_by, beat.progressed_at) == (now + LEASE_FOR, None, None)


def test_updated_lease_keeps_how_long_it_lasts_and_is_only_the_one_that_was_meant(store: Store, clock: Clock) -> None:
    change = running(clock)
    write(store, change)
    said = Progress(clock.forward(seconds=1), "50%", None)
    update = replace(change.taken[0], lease_until=clock.now + timedelta(days=9), complete_by=clock.now, progress=said)
    write(store, Change(updated=(replace(update, token=6), replace(update, lane="x"))))
    assert store.look("job", "2026-11-30").leases == change.taken
    write(store, Change(updated=(update,)))
    assert store.look("job", "2026-11-30").leases == (replace(update, lease_until=change.taken[0].lease_until),)
    beat = store.beat(update, LEASE_FOR, SLACK)
    assert beat and (beat.lease_until, beat.progressed_at) == (clock.now + SLACK, said.at)


def test_history_and_show_tell_the_progress_of_the_lease_until_it_is_gone(store: Store, clock: Clock) -> None:
    change = running(clock)
    write(store, change)
    said = Progress(clock.forward(seconds=1), "4/10", None)
    write(store, Change(updated=(replace(change.taken[0], progress=said),)))
    for record in (store.show("job", None), store.history("job", 1)[0], store.history(None, 1)[0]):
        assert record and record.run and record.run.progress
        assert (record.run.progress.text, record.run.progress.at) == ("4/10", said.at)
    write(store, Change(dropped=change.taken))
    assert (record := store.show("job", None)) and record.run == change.runs[0]


@pytest.mark.parametrize(
    "other", [{"token": 8}, {"holder": replace(HOLDER, id="00000000-0000-4000-8000-000000000000")}, {"lane": "x"}]
)
def test_beat_under_another_token_or_holder_or_lane_is_refused(
    store: Store, clock: Clock, other: dict[str, object]
) -> None:
    change = running(clock)
    write(store, change)
    assert store.beat(replace(change.taken[0], **other), LEASE_FOR, SLACK) is None
    assert store.look("job", "2026-11-30").leases == change.taken


def test_beat_that_comes_late_holds_while_nobody_took_the_lease(store: Store, clock: Clock) -> None:
    change = running(clock)
    write(store, change)
    clock.forward(seconds=90)
    assert store.beat(change.taken[0], LEASE_FOR, SLACK)


def test_older_token_writes_nothing_at_all(store: Store, clock: Clock) -> None:
    write(store, running(clock, token=9))
    stale = replace(running(clock, token=8), taken=(), opened=())
    with pytest.raises(CronguardError):
        write(store, stale)
    assert [run.token for run in store.look("job", "2026-11-30").runs] == [9]


def test_two_running_runs_in_one_lane_are_refused_by_the_schema(store: Store, clock: Clock) -> None:
    write(store, running(clock, token=7))
    with pytest.raises(CronguardError):
        write(store, replace(running(clock, token=8, period="2026-12-01"), taken=()))
    write(store, running(clock, token=9, period="2026-12-02", lane="2026-12-02"))


def test_running_run_without_a_holder_is_refused_by_the_schema(store: Store, clock: Clock) -> None:
    run = replace(running(clock).runs[0], holder=None)
    with pytest.raises(CronguardError):
        write(store, Change(runs=(run,)))


def test_attempt_is_closed_once_but_lost_gives_way_to_what_its_holder_saw(store: Store, clock: Clock) -> None:
    write(store, running(clock))
    for outcome in (Outcome.LOST, Outcome.LOST, Outcome.FAILED, Outcome.SUCCEEDED):
        write(store, Change(closed=(AttemptEnd("job", 7, outcome, clock.now, exit_code=3),)))
    record = store.show("job", "2026-11-30")
    assert record and record.attempts[0].outcome is Outcome.FAILED


SAID = Captured(b"\0\xff head", b"tail\xc3", 5_000_000_000)


@pytest.mark.parametrize("said", [SAID, Captured(), None])
def test_output_of_an_attempt_is_read_back_byte_by_byte(store: Store, clock: Clock, said: Captured | None) -> None:
    write(store, running(clock))
    write(store, Change(closed=(AttemptEnd("job", 7, Outcome.FAILED, clock.now, exit_code=3, captured=said),)))
    record = store.show("job", "2026-11-30")
    assert record and record.attempts[0].captured == said


def test_output_that_is_known_is_kept_when_lost_is_written_again_and_comes_with_what_the_holder_saw(
    store: Store, clock: Clock
) -> None:
    write(store, running(clock))
    lost = AttemptEnd("job", 7, Outcome.LOST, clock.now)
    for end, known in ((lost, None), (replace(lost, captured=SAID), SAID), (lost, SAID)):
        write(store, Change(closed=(end,)))
        record = store.show("job", "2026-11-30")
        assert record and record.attempts[0].captured == known


def test_dropped_lease_is_only_the_one_that_was_meant(store: Store, clock: Clock) -> None:
    change = running(clock)
    write(store, change)
    write(store, Change(dropped=(replace(change.taken[0], token=6),)))
    assert store.look("job", "2026-11-30").leases == change.taken
    write(store, Change(dropped=change.taken))
    assert store.look("job", "2026-11-30").leases == ()


def test_skips_are_counted_and_shown_newest_first(store: Store, clock: Clock) -> None:
    write(store, running(clock))
    for reason in (SkipReason.HELD, SkipReason.ECHO):
        store.note(Skip("job", "2026-11-30", reason, clock.forward(seconds=1), "beta", 12))
    record = store.show("job", "2026-11-30")
    assert record and [skip.reason for skip in record.skipped] == [SkipReason.ECHO, SkipReason.HELD]
    assert store.history("job", 5)[0].skips == 2


def test_history_is_newest_first_and_show_without_a_period_is_the_newest(store: Store, clock: Clock) -> None:
    for day in ("2026-11-28", "2026-11-29", "2026-11-30"):
        clock.forward(minutes=1)
        change = running(clock, token=int(day[-2:]), period=day)
        write(store, change)
        over = replace(change.runs[0], state=State.SUCCEEDED, exit_code=0, finished_at=clock.now)
        write(store, Change(runs=(over,), dropped=change.taken))
    assert [record.period for record in store.history("job", 2)] == ["2026-11-30", "2026-11-29"]
    assert [record.period for record in store.history(None, 9)] == ["2026-11-30", "2026-11-29", "2026-11-28"]
    newest = store.show("job", None)
    assert newest and newest.period == "2026-11-30"


def test_calls_inside_connected_and_beats_from_another_thread_do_not_disturb_each_other(
    store: Store, clock: Clock
) -> None:
    change = running(clock)
    write(store, change)
    with store.connected():
        beat = in_background(lambda: store.beat(change.taken[0], LEASE_FOR, SLACK))
        assert store.look("job", "2026-11-30").job
        wait_until(beat.done)
    assert beat.result() is not None
