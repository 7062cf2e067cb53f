"""What a supervisor does to a ledger, on every store, by a clock moved by hand: it tells each thing once."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from cronguard.domain.claim import Granted
from cronguard.domain.lifecycle import Ending
from cronguard.domain.recovery import Recovery
from cronguard.domain.run import Outcome, State
from cronguard.domain.supervision import Supervisor
from cronguard.ports import Store, SupervisedStore
from cronguard.services.supervise import Observes
from cronguard.stores.dsn import Address
from cronguard.stores.statements import statements
from tests.conftest import Clock
from tests.rig.firings import FAILED, TERMS, MakeStore, claim, finish, granted, refusal, state
from tests.rig.hands import change, spoil
from tests.rig.sending import sender, states, won
from tests.rig.steps import asked, begin, do
from tests.rig.waiting import in_background, still_waits
from tests.rig.watching import Listener, found, pass_over

TODAY, TOMORROW = "2026-11-30", "2026-12-01"
RECOVERY, HOUR = [("recovery", TODAY)], timedelta(hours=1)


def die(store: Store, clock: Clock, **options: Any) -> Granted:
    """A run whose holder never comes back; its lease is over."""
    held = granted(claim(store, **options))
    clock.forward(seconds=61)
    return held


def open_requests(store: SupervisedStore, period: str = TODAY, key: str = "job") -> tuple[Recovery, ...]:
    return store.glance(key, [period]).requests


# --------------------------------------------------------------------------- runs that died


def test_stale_run_is_recovered_once_and_whoever_comes_takes_the_request(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    dead = die(store, clock)
    assert found(pass_over(supervised)) == RECOVERY
    (request,) = open_requests(supervised)
    assert (request.token, request.cause, request.requested_by) == (dead.run.token, "lease_over", "omega")
    assert (request.claim_by, request.announced_at) == (clock.now + HOUR, clock.now)
    assert found(pass_over(supervised)) == []
    record = store.show("job", TODAY)
    assert record and record.run and (record.run.state, record.run.claim_by) == ("pending", request.claim_by)
    assert [str(attempt.outcome) for attempt in record.attempts] == ["lost"]
    taken = granted(claim(store, host="beta"))
    assert (taken.run.attempt, taken.run.claim_by, open_requests(supervised)) == (2, None, ())
    assert found(pass_over(supervised)) == []


def test_run_that_recovers_its_own_key_makes_the_same_request_and_takes_it_at_once(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    die(store, clock)
    granted(claim(store, host="beta"))
    assert open_requests(supervised) == ()
    assert found(pass_over(supervised)) == []
    clock.forward(seconds=61)
    assert found(pass_over(supervised)) == RECOVERY  # and the second death is a request of its own


def test_run_of_another_period_that_a_firing_recovers_is_announced_by_the_next_pass(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    clock.now = datetime(2026, 11, 30, 23, 58, tzinfo=UTC)
    die(store, clock)
    clock.forward(minutes=5)
    assert granted(claim(store, host="beta")).run.period == TOMORROW
    (request,) = open_requests(supervised)
    assert (request.requested_by, request.announced_at) == ("beta", None)
    assert found(pass_over(supervised)) == RECOVERY
    assert found(pass_over(supervised)) == []


@pytest.mark.parametrize(("ending", "cause"), [
    (Ending(Outcome.INTERRUPTED, signal=15), "stopped"), (Ending(Outcome.LOST, proven=True), "cut_short"),
])  # fmt: skip
def test_run_that_its_own_host_gave_back_is_waited_for_as_well(
    store: Store, supervised: SupervisedStore, clock: Clock, ending: Ending, cause: str
) -> None:
    finish(store, granted(claim(store)), ending)
    (request,) = open_requests(supervised)
    assert (request.cause, request.claim_by) == (cause, clock.now + HOUR)
    assert found(pass_over(supervised)) == RECOVERY
    clock.forward(minutes=61)
    assert found(pass_over(supervised)) == [("unclaimed", TODAY)]


def test_run_whose_recoveries_are_spent_is_dead_and_told_once(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    die(store, clock, recoveries=0)
    assert found(pass_over(supervised)) == [("dead", TODAY)]
    assert (state(store, "job", TODAY), open_requests(supervised)) == ("dead", ())
    assert found(pass_over(supervised)) == []


def test_run_that_a_firing_gave_up_is_told_by_the_next_pass(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    die(store, clock, recoveries=0)
    assert refusal(claim(store)) == "recoveries_spent"
    assert [found(pass_over(supervised)) for _ in range(2)] == [[("dead", TODAY)], []]


def test_live_lease_is_left_alone_and_its_holder_can_go_on(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    held = granted(claim(store))
    clock.forward(seconds=60)
    before = store.look("job", TODAY)
    assert found(pass_over(supervised)) == []
    assert store.look("job", TODAY) == before
    assert store.beat(held.lease, TERMS.lease_for, TERMS.slack)
    assert finish(store, held) == "mine"


def test_holder_that_was_recovered_is_lost_but_its_success_counts_until_somebody_comes(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    held = die(store, clock)
    pass_over(supervised)
    assert store.beat(held.lease, TERMS.lease_for, TERMS.slack) is None
    assert finish(store, held) == "late"
    assert state(store, "job", TODAY) == "succeeded"


def test_success_that_is_delivered_after_the_run_was_missed_still_counts(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    held = die(store, clock)
    pass_over(supervised)
    clock.forward(minutes=61)
    assert found(pass_over(supervised)) == [("unclaimed", TODAY)]
    assert finish(store, held) == "late"
    assert state(store, "job", TODAY) == "succeeded"


def test_overdue_run_is_asked_to_stop_and_its_next_beat_tells_it(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    held = granted(claim(store, complete_by="30s"))
    clock.forward(seconds=31)
    assert found(pass_over(supervised)) == [("overdue", TODAY)]
    assert found(pass_over(supervised)) == []
    beat = store.beat(held.lease, TERMS.lease_for, TERMS.slack)
    assert beat and beat.stop_requested
    assert finish(store, held, Ending(Outcome.TIMED_OUT, signal=15)) == "mine"


# --------------------------------------------------------------------------- runs that ended badly


def test_failed_run_is_told_once_and_again_after_it_has_failed_again(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    finish(store, granted(claim(store)), FAILED)
    assert [found(pass_over(supervised)) for _ in range(2)] == [[("failed", TODAY)], []]
    finish(store, granted(claim(store, rerun=True)), FAILED)
    assert [found(pass_over(supervised)) for _ in range(2)] == [[("failed", TODAY)], []]


def test_run_that_timed_out_with_attempts_left_is_asked_for_until_they_are_spent(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    timed_out = Ending(Outcome.TIMED_OUT, signal=15)
    finish(store, granted(claim(store, attempts=2)), timed_out)
    assert found(pass_over(supervised)) == RECOVERY
    assert state(store, "job", TODAY) == "pending"
    second = granted(claim(store, attempts=2))
    assert (second.run.attempt, second.run.failures) == (2, 1)
    finish(store, second, timed_out)
    assert found(pass_over(supervised)) == [("timed_out", TODAY)]


# --------------------------------------------------------------------------- nobody came, nobody ran it


def test_nobody_comes_and_that_is_told_once_and_louder(store: Store, supervised: SupervisedStore, clock: Clock) -> None:
    die(store, clock, claim_within=timedelta(minutes=10))
    first = pass_over(supervised)
    assert (found(first), first.needs_a_person) == (RECOVERY, False)
    clock.forward(minutes=10)
    assert found(pass_over(supervised)) == []
    clock.forward(seconds=1)
    second = pass_over(supervised)
    assert (found(second), second.needs_a_person) == ([("unclaimed", TODAY)], True)
    assert [found(pass_over(supervised)) for _ in range(3)] == [[], [], []]
    assert state(store, "job", TODAY) == "missed"
    assert granted(claim(store)).run.attempt == 2  # late is better than never


def scheduled(store: Store, clock: Clock, schedule: str = "0 6 * * *", **options: Any) -> None:
    finish(store, granted(claim(store, schedule=schedule, every=options.pop("every", None), **options)))


def test_day_on_which_nobody_fired_is_missed_once_and_shown_where_it_belongs(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    scheduled(store, clock, start_by="2h")
    clock.forward(days=1, hours=1, minutes=59)
    assert found(pass_over(supervised)) == []
    clock.forward(minutes=2)
    assert found(pass_over(supervised)) == [("missed", TOMORROW)]
    assert [found(pass_over(supervised)) for _ in range(3)] == [[], [], []]
    assert [record.period for record in store.history("job", 9)] == [TOMORROW, TODAY]
    assert (newest := store.show("job", None)) and newest.run and newest.run.state is State.MISSED
    clock.forward(hours=1)
    late = claim(store, schedule="0 6 * * *", every=None)  # without a start-by, late is better than never
    assert granted(late).run.period == TOMORROW


def test_days_that_were_run_cost_nothing_and_one_left_out_between_them_is_found(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    for day in (30, 1, 3):
        clock.now = datetime(2026, 12 if day < 30 else 11, day, 6, 0, 1, tzinfo=UTC)
        scheduled(store, clock, start_by="2h")
    assert found(pass_over(supervised)) == [("missed", "2026-12-02")]
    job = store.look("job", TODAY).job
    assert job and job.expected_until == datetime(2026, 12, 2, 6, tzinfo=UTC)
    clock.forward(hours=3)
    assert found(pass_over(supervised)) == []


@pytest.mark.parametrize(("zone", "night"), [
    ("Europe/Berlin", "2026-10-25"), ("Europe/Berlin", "2026-03-29"),
    ("America/New_York", "2026-11-01"), ("America/New_York", "2026-03-08"),
])  # fmt: skip
def test_night_when_clocks_change_is_missed_once(
    store: Store, supervised: SupervisedStore, clock: Clock, zone: str, night: str
) -> None:
    clock.now = datetime.fromisoformat(f"{night}T12:00:00+00:00") - timedelta(days=1)
    scheduled(store, clock, "30 2 * * *", tz=zone)
    seen = []
    for _ in range(36):
        seen += found(pass_over(supervised))
        clock.forward(hours=1)
    assert seen == []  # it is late after one cadence
    for _ in range(24):
        clock.forward(hours=1)
        seen += found(pass_over(supervised))
    assert seen == [("missed", night)]


def test_key_that_was_off_for_ninety_days_is_told_of_its_last_week(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    scheduled(store, clock)
    clock.forward(days=90)
    told = [period for _, period in found(pass_over(supervised))]
    assert told == [f"2027-02-{day}" for day in range(21, 28)]
    assert found(pass_over(supervised)) == []
    clock.forward(days=1)
    assert found(pass_over(supervised)) == [("missed", "2027-02-28")]


def test_minutely_key_that_was_off_for_ninety_days_does_not_fill_the_ledger(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    scheduled(store, clock, "* * * * *", every="minute")
    clock.forward(days=90)
    assert len(found(pass_over(supervised))) == 100
    assert found(pass_over(supervised)) == []


def test_paused_days_are_not_missed(store: Store, supervised: SupervisedStore, clock: Clock, address: Address) -> None:
    scheduled(store, clock, start_by="2h")
    change(address, "update {}job set paused_at = ?", clock.forward(hours=12))
    clock.forward(days=3)
    assert found(pass_over(supervised)) == []
    change(address, "update {}job set paused_at = null")
    assert found(pass_over(supervised)) == []
    clock.forward(days=1)
    assert [what for what, _ in found(pass_over(supervised))] == ["missed"]


# --------------------------------------------------------------------------- brakes


def test_when_most_leases_are_over_at_once_it_is_said_and_waited_for_one_lease(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    held = [granted(claim(store, key=f"job{number}")) for number in range(4)]
    clock.forward(seconds=61)
    first = pass_over(supervised)
    assert (found(first), first.observes, first.needs_a_person) == ([("mass_expiry", "")], Observes.MASS_EXPIRY, True)
    clock.forward(seconds=59)
    assert (found(second := pass_over(supervised)), second.observes) == ([], Observes.MASS_EXPIRY)
    assert store.beat(held[0].lease, TERMS.lease_for, TERMS.slack)  # who is still there is heard of again
    clock.forward(seconds=1)
    assert [finding.key for finding in pass_over(supervised).findings] == ["job1", "job2", "job3"]
    clock.forward(seconds=1)
    assert pass_over(supervised).observes is None


def test_passes_of_hosts_that_never_pass_again_share_one_brake(
    store: Store, supervised: SupervisedStore, clock: Clock
) -> None:
    """Each pass may be a container of its own: it is said once, waited for once, and then acted on."""
    for number in range(4):
        granted(claim(store, key=f"job{number}"))
    clock.forward(seconds=61)
    assert found(pass_over(supervised, host="pod-1")) == [("mass_expiry", "")]
    clock.forward(seconds=30)
    assert found(second := pass_over(supervised, host="pod-2")) == [] and second.observes
    clock.forward(seconds=30)
    assert len(found(pass_over(supervised, host="pod-3"))) == 4
    clock.forward(seconds=1)
    pass_over(supervised, host="pod-4")
    for number in range(4):
        granted(claim(store, key=f"job{number}"))
    clock.forward(seconds=61)
    assert found(pass_over(supervised, host="pod-5")) == [("mass_expiry", "")]  # another one is news again


def test_pass_after_its_own_long_pause_only_observes(store: Store, supervised: SupervisedStore, clock: Clock) -> None:
    die(store, clock)
    passed = pass_over(supervised, late=True)
    assert (found(passed), passed.observes, state(store, "job", TODAY)) == ([], Observes.OWN_PAUSE, "running")
    assert found(pass_over(supervised)) == RECOVERY


def test_what_was_seen_a_lease_ago_is_not_acted_on(store: Store, supervised: SupervisedStore, clock: Clock) -> None:
    die(store, clock)
    assert found(pass_over(supervised, lease_for=timedelta())) == []
    assert state(store, "job", TODAY) == "running"


# --------------------------------------------------------------------------- what it asks, and of whom


def test_dry_run_finds_the_same_and_changes_nothing(store: Store, supervised: SupervisedStore, clock: Clock) -> None:
    scheduled(store, clock, key="etl")
    die(store, clock)
    clock.forward(days=2)
    before = [store.look(key, TODAY) for key in ("job", "etl")]
    told = Listener()
    dry = found(pass_over(supervised, told, dry_run=True))
    assert dry == found(pass_over(supervised, dry_run=True)) == [("missed", TOMORROW), *RECOVERY]
    assert [store.look(key, TODAY) for key in ("job", "etl")] == before
    assert told.heard == []
    assert found(pass_over(supervised)) == dry


def test_pass_over_some_keys_leaves_the_others(store: Store, supervised: SupervisedStore, clock: Clock) -> None:
    for key in ("etl_a", "etl%b", "etl_", "mail[x]", "mailx"):
        granted(claim(store, key=key))
        clock.forward(seconds=1)
    clock.forward(seconds=61)
    assert pass_over(supervised).observes is Observes.MASS_EXPIRY
    clock.forward(seconds=61)
    told = {
        glob: [finding.key for finding in pass_over(supervised, keys=glob, dry_run=True).findings]
        for glob in ("etl_?", "etl_*", "*%*", "mail[x]", "ETL*")
    }
    assert told == {
        "etl_?": ["etl_a"],
        "etl_*": ["etl_", "etl_a"],
        "*%*": ["etl%b"],
        "mail[x]": ["mail[x]"],
        "ETL*": [],
    }


def test_last_pass_is_known_and_hosts_that_are_gone_are_forgotten(
    supervised: SupervisedStore, clock: Clock, address: Address
) -> None:
    assert supervised.survey(None, HOUR, 9).supervisor is None
    pass_over(supervised)
    at = clock.now
    last = supervised.survey(None, HOUR, 9).supervisor
    assert last == Supervisor("omega", at, at)
    clock.forward(minutes=1)
    pass_over(supervised, host="psi")
    assert (last := supervised.survey(None, HOUR, 9).supervisor) and (last.host, last.finished_at) == ("psi", clock.now)
    clock.forward(hours=25)
    pass_over(supervised, host="chi")
    change(address, "delete from {}supervisor where host = 'chi'")
    assert supervised.survey(None, HOUR, 9).supervisor is None


def test_page_that_somebody_has_is_left_to_them(
    make_store: MakeStore, supervised: SupervisedStore, clock: Clock, address: Address
) -> None:
    store = make_store()
    die(store, clock)
    with store.page("job", TODAY):
        passing = in_background(lambda: found(pass_over(supervised)))
        if address.store == "sqlite":  # one lock for all keys, had for milliseconds: it is waited for
            assert still_waits(passing, 0.3)
        else:
            assert passing.result(30) == []
    assert passing.result(30) + found(pass_over(supervised)) == RECOVERY


# --------------------------------------------------------------------------- one bad row


def test_row_that_cannot_be_changed_is_told_and_the_others_are_settled(
    store: Store, supervised: SupervisedStore, clock: Clock, address: Address
) -> None:
    for key in ("a", "bad", "c"):
        granted(claim(store, key=key))
    clock.forward(seconds=61)
    spoil(address, "bad")
    passed = pass_over(supervised)
    assert [(str(f.found), f.key) for f in passed.findings] == [
        ("trouble", "bad"),
        ("recovery", "a"),
        ("recovery", "c"),
    ]
    assert "a bad row" in passed.findings[0].detail
    assert (passed.failure, passed.needs_a_person) == (None, True)


def test_key_whose_schedule_makes_no_sense_is_told_and_the_others_are_judged(
    store: Store, supervised: SupervisedStore, clock: Clock, address: Address
) -> None:
    for key in ("a", "bad", "c"):
        scheduled(store, clock, key=key)
    change(address, "update {}job set schedule = 'every full moon' where key = 'bad'")
    clock.forward(days=2)
    passed = pass_over(supervised)
    told = [(str(finding.found), finding.key) for finding in passed.findings]
    assert told == [("trouble", "bad"), ("missed", "a"), ("missed", "c")]
    assert "every full moon" in passed.findings[0].detail


# --------------------------------------------------------------------------- however many runs there are


WALKS_THROUGH_ALL = {
    "sqlite": r"SCAN (r|k|run|skip|s)\b(?! USING INDEX run_one_running)",
    "postgres": r"Seq Scan on (run|skip)",
}
ASKED = {"keys": None, "looked_back": HOUR, "limit": 9, "runs": 9, "now": None}


@pytest.mark.parametrize("name", ["survey_candidates", "metrics_keys", "metrics_last", "metrics_runs", "metrics_skips"])
def test_no_pass_walks_through_all_runs(address: Address, name: str) -> None:
    statement = statements(address.store)[name]
    assert not re.search(WALKS_THROUGH_ALL[address.store], plan(address, statement, ASKED))


def plan(address: Address, statement: str, asked: dict[str, Any]) -> str:
    """How the ledger would go about it; Postgres as if its tables were not nearly empty."""
    if address.store == "sqlite":
        numbers = {name: 9 if name != "keys" else None for name in asked}
        with closing(sqlite3.connect(address.target)) as ledger:
            return "\n".join(row[3] for row in ledger.execute(f"explain query plan {statement}", numbers))
    with psycopg.connect(address.target) as ledger:
        ledger.execute("set enable_seqscan = off")
        return "\n".join(line for (line,) in ledger.execute(f"explain {statement}".encode(), asked))


# --------------------------------------------------------------------------- steps and effects


def test_finding_names_the_step_that_the_run_stood_at(store: Store, supervised: SupervisedStore, clock: Clock) -> None:
    held = granted(claim(store))
    assert do(store, held, "pull") == "succeeded"
    assert begin(store, held, asked("mails")).answer == "granted"
    clock.forward(seconds=61)
    (finding,) = pass_over(supervised).findings
    assert finding.step and (finding.found, finding.step.name) == ("recovery", "mails")


def test_finding_names_the_step_that_failed(store: Store, supervised: SupervisedStore) -> None:
    held = granted(claim(store))
    assert [do(store, held, "pull"), do(store, held, "mails", FAILED)] == ["succeeded", "failed"]
    assert finish(store, held, FAILED) == "mine"
    (finding,) = pass_over(supervised).findings
    assert finding.step and (finding.found, finding.step.name) == ("failed", "mails")


def test_effect_that_nobody_confirmed_is_told_once_and_never_by_who_watches_some_keys(
    supervised: SupervisedStore, clock: Clock
) -> None:
    assert won(supervised, "ada") == ["ada"]
    assert found(pass_over(supervised)) == []
    clock.forward(minutes=16)
    assert (found(pass_over(supervised, keys="*")), states(supervised)) == ([], {"ada": "sending"})
    assert found(pass_over(supervised, dry_run=True)) == [("unknown_effect", TODAY)]
    assert states(supervised) == {"ada": "sending"}
    told = Listener()
    passed = pass_over(supervised, told)
    assert (found(passed), passed.needs_a_person, len(told.heard)) == ([("unknown_effect", TODAY)], True, 1)
    assert states(supervised) == {"ada": "unknown"}
    assert found(pass_over(supervised)) == found(pass_over(supervised, dry_run=True)) == []


def test_effect_of_a_run_is_told_with_its_key(store: Store, supervised: SupervisedStore, clock: Clock) -> None:
    held = granted(claim(store))
    assert won(supervised, "ada", by=sender(held)) == ["ada"]
    assert finish(store, held) == "mine"
    clock.forward(minutes=16)
    (finding,) = pass_over(supervised).findings
    assert finding.effect and (finding.key, finding.effect.subject) == ("job", "ada")
