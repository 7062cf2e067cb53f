"""run --only-pending and --catch-up: older periods are run as what they are, in order, and no more than asked."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.looking import STARTS, refusal
from tests.rig.guard import Guard, code_of, host_dies
from tests.rig.processes import children
from tests.rig.waiting import wait_until

SHORT_LEASE = ("--lease", "8s", "--stop-grace", "1s", "--beat-every", "0.5s")  # of which 5 s to start in
PATIENT = 30.0
FACTS = "echo $CRONGUARD_PERIOD $CRONGUARD_PERIOD_START $CRONGUARD_PERIOD_END $CRONGUARD_TZ"


def day(ago: int) -> str:
    """Counted from today, which may not be the day on which the tests were begun."""
    return (datetime.now(UTC).date() - timedelta(days=ago)).isoformat()


def interrupted(guard: Guard, *periods: str, key: str = "job", tz: str = "UTC") -> None:
    """These periods were begun, and cronguard was told to stop: they are pending."""
    for period in periods:
        count = len(guard.lines("begun"))
        script = "echo $CRONGUARD_PERIOD >> begun; exec sleep 600"
        started = guard.start("run", "--key", key, "--tz", tz, "--period", period, "--", "sh", "-c", script)
        guard.wait_for_line("begun", count + 1)
        started.terminate()
        assert code_of(started, PATIENT) == 143


def only_pending(guard: Guard, script: str = f"{FACTS} >> ran", *options: str) -> int:
    return guard.run("run", "--key", "job", *SHORT_LEASE, *options, "--only-pending", "--", "sh", "-c", script).code


def catch_up(guard: Guard, count: int, *options: str, script: str = "echo $CRONGUARD_PERIOD >> ran") -> int:
    asked = ("run", "--key", "job", "--catch-up", str(count), *options, "--", "sh", "-c", script)
    return guard.run(*asked).code


# --- Only what is pending ---------------------------------------------------------------------------------------------


def test_nothing_pending_is_a_quiet_end_that_records_nothing(guard: Guard) -> None:
    asked = ("run", "--key", "job", "--only-pending", "--", "touch", "started")
    for recorded in (0, 1):
        done = guard.run(*asked)
        assert (done.code, done.out, done.err) == (0, "", "")
        assert len(guard.history()) == recorded
        assert guard.run("run", "--key", "job", "--", "true").code == 0
    assert guard.run(*asked[:-3], "--skip-exit", "9", *asked[-3:]).code == 9
    assert guard.show("job")["skips"] == 1
    assert not (guard.folder / "started").exists()


def test_what_was_interrupted_is_run_oldest_first_as_the_ledger_has_it(guard: Guard) -> None:
    """Label, edges and zone are those of the row, whatever zone the key has by now."""
    interrupted(guard, day(1), day(3), day(2), tz="Asia/Tokyo")
    assert guard.run("run", "--key", "job", "--tz", "UTC", "--period", day(0), "--", "true").code == 0
    assert only_pending(guard) == 0
    midnight = [f"{day(ago + 1)}T15:00:00Z" for ago in (3, 2, 1, 0)]
    expected = [(day(ago), midnight[3 - ago], midnight[4 - ago], "Asia/Tokyo") for ago in (3, 2, 1)]
    assert [tuple(line.split()) for line in guard.lines("ran")] == expected
    assert {run["state"] for run in guard.history("job")} == {"succeeded"}


def test_host_that_died_is_picked_up_on_another_one_once(guard: Guard) -> None:
    script = "echo $$ >> pids; exec sleep 600"
    started = guard.start("run", "--key", "job", *SHORT_LEASE, "--period", day(1), "--", "sh", "-c", script)
    guard.wait_for_line("pids")
    host_dies(started.pid)
    assert (only_pending(guard), guard.lines("ran")) == (0, [])  # its lease is not over yet
    wait_until(lambda: only_pending(guard) == 0 and guard.lines("ran"), PATIENT, every=0.3, saying="it is picked up")
    run = guard.show("job", day(1))
    assert (run["state"], [one["outcome"] for one in run["attempts"]]) == ("succeeded", ["lost", "succeeded"])
    assert (only_pending(guard), len(guard.lines("ran")), run["skips"]) == (0, 1, 0)


def test_one_that_fails_does_not_keep_the_others_back_and_is_not_tried_again(guard: Guard) -> None:
    interrupted(guard, day(3), day(2), day(1))
    script = f"echo $CRONGUARD_PERIOD >> ran; [ $CRONGUARD_PERIOD != {day(3)} ] || exit 7"
    assert only_pending(guard, script) == 7
    assert guard.lines("ran") == [day(3), day(2), day(1)]
    assert (only_pending(guard, script), len(guard.lines("ran"))) == (0, 3)


def test_told_to_stop_starts_no_more_of_them(guard: Guard) -> None:
    interrupted(guard, day(2), day(1))
    script = "echo $CRONGUARD_PERIOD >> ran; exec sleep 600"
    started = guard.start("run", "--key", "job", "--only-pending", "--", "sh", "-c", script)
    guard.wait_for_line("ran")
    started.terminate()
    assert code_of(started, PATIENT) == 143
    assert guard.lines("ran") == [day(2)]
    assert {run["state"] for run in guard.history("job")} == {"pending"}


def test_signal_that_comes_between_two_of_them_or_in_the_end_of_one_stops_all(guard: Guard) -> None:
    """The command ends well by itself while its whole group is told to stop."""
    interrupted(guard, day(2), day(1))
    script = "trap 'exit 0' TERM; echo $CRONGUARD_PERIOD >> ran; while :; do sleep 0.1; done"
    started = guard.start("run", "--key", "job", "--only-pending", "--", "sh", "-c", script)
    guard.wait_for_line("ran")
    started.terminate()
    assert code_of(started, PATIENT) == 143
    assert guard.lines("ran") == [day(2)]


def test_worker_that_is_killed_in_the_second_of_them_is_told_of_as_that_one(guard: Guard) -> None:
    """What the guardian says of it is about the run that was running then; the one before has its result."""
    interrupted(guard, day(2), day(1))
    script = f"echo $CRONGUARD_PERIOD >> ran; [ $CRONGUARD_PERIOD = {day(2)} ] || exec sleep 600"
    started = guard.start("run", "--key", "job", "--only-pending", "--", "sh", "-c", script)
    guard.wait_for_line("ran", 2)
    (worker,) = children(started.pid)
    os.kill(worker, signal.SIGKILL)
    assert code_of(started, PATIENT) == 76
    runs = [guard.show("job", day(ago)) for ago in (2, 1)]
    assert [run["state"] for run in runs] == ["succeeded", "pending"]
    assert [run["attempts"][-1]["outcome"] for run in runs] == ["succeeded", "lost"]
    assert "worker was killed" in runs[1]["attempts"][-1]["note"]


def test_guardian_dies_of_the_signal_that_the_exit_code_is_about(guard: Guard) -> None:
    interrupted(guard, day(2), day(1))
    script = f"[ $CRONGUARD_PERIOD != {day(2)} ] || kill -KILL $$"
    started = guard.start("run", "--key", "job", "--only-pending", "--", "sh", "-c", script)
    assert started.wait(PATIENT) == -signal.SIGKILL


def test_each_has_a_result_and_an_attempt_of_its_own(guard: Guard) -> None:
    interrupted(guard, day(2), day(1))
    assert only_pending(guard, "echo hello from $CRONGUARD_PERIOD") == 0
    for ago in (2, 1):
        last = guard.show("job", day(ago))["attempts"][-1]
        assert (last["outcome"], last["output_head"]) == ("succeeded", f"hello from {day(ago)}\n")


def test_dry_run_lists_what_waits(guard: Guard) -> None:
    asked = ("run", "--key", "job", "--only-pending", "--dry-run", "--", "true")
    assert guard.run(*asked).out == "waiting  nothing\n"
    interrupted(guard, day(1))
    assert guard.run(*asked).out == f"waiting  job {day(1)}: it was pending: it is run now\n"
    assert guard.show("job")["state"] == "pending"


# --- Catching up ------------------------------------------------------------------------------------------------------


def test_older_periods_come_first_oldest_first_and_no_more_than_asked(guard: Guard) -> None:
    interrupted(guard, day(1), day(3), day(2))
    assert catch_up(guard, 2) == 0
    assert guard.lines("ran") == [day(3), day(2), day(0)]
    assert guard.show("job", day(1))["state"] == "pending"
    assert catch_up(guard, 2) == 0
    assert guard.lines("ran")[3:] == [day(1)]


def test_only_what_ended_within_the_window_is_caught_up_with(guard: Guard) -> None:
    interrupted(guard, day(9), day(2))
    assert catch_up(guard, 5) == 0
    assert guard.lines("ran") == [day(2), day(0)]
    assert catch_up(guard, 5, "--catch-up-window", "30d") == 0
    assert guard.lines("ran")[2:] == [day(9)]


def test_with_a_schedule_what_nobody_ever_ran_is_caught_up_with_but_nothing_before_the_key_was_new(
    guard: Guard,
) -> None:
    schedule = ("--schedule", "0 0 * * *", "--tz", "UTC")
    assert catch_up(guard, 5, *schedule) == 0
    assert guard.lines("ran") == [day(0)]
    (guard.folder / "ran").unlink()
    assert guard.run("run", "--key", "job", *schedule, "--period", day(4), "--", "true").code == 0
    assert guard.run("run", "--key", "job", *schedule, "--period", day(2), "--", "true").code == 0
    assert catch_up(guard, 5, *schedule) == 0
    assert guard.lines("ran") == [day(3), day(1)]
    run = guard.show("job", day(3))
    assert (run["source"], run["slot"], run["period_start"]) == ("label", f"{day(3)}T00:00:00Z", run["slot"])


def test_own_period_is_decided_before_and_is_no_echo_of_what_was_caught_up_with(guard: Guard) -> None:
    interrupted(guard, day(1))
    assert catch_up(guard, 1) == 0
    assert guard.lines("ran") == [day(1), day(0)]
    assert guard.show("job", day(0))["source"] == "clock"


@pytest.mark.parametrize(("bad", "code"), [(1, 7), (0, 7), (9, 0)])
def test_exit_code_is_that_of_the_own_period_unless_only_an_older_one_failed(guard: Guard, bad: int, code: int) -> None:
    interrupted(guard, day(2), day(1))
    script = f"[ $CRONGUARD_PERIOD != {day(bad)} ] || exit {code}; echo x >> ran"
    assert catch_up(guard, 3, script=script) == code
    assert len(guard.lines("ran")) == (3 if bad == 9 else 2)


def test_held_key_catches_up_with_nothing_and_its_own_firing_is_the_one_skip(guard: Guard) -> None:
    interrupted(guard, day(2), day(1))
    holder = guard.start("run", "--key", "job", "--period", day(3), "--", "sh", "-c", "echo $$ >> pids; sleep 600")
    guard.wait_for_line("pids")
    assert (catch_up(guard, 5), guard.lines("ran")) == (0, [])
    assert [guard.show("job", day(ago))["skips"] for ago in (2, 1, 0)] == [0, 0, 1]
    holder.terminate()
    assert code_of(holder, PATIENT) == 143


def test_person_who_asks_for_one_period_gets_that_one_whatever_the_configuration_says(
    guard: Guard, tmp_path: Path
) -> None:
    interrupted(guard, day(2))
    config = tmp_path / "cronguard.toml"
    config.write_text('[jobs."job"]\ncatch_up = 3\n')
    guard = guard.with_env(CRONGUARD_CONFIG=str(config))
    script = ("--", "sh", "-c", "echo $CRONGUARD_PERIOD >> ran")
    assert guard.run("run", "--key", "job", "--period", day(1), *script).code == 0
    assert guard.lines("ran") == [day(1)]
    assert guard.run("run", "--key", "job", *script).code == 0
    assert guard.lines("ran")[1:] == [day(2), day(0)]


def test_dry_run_shows_what_comes_before_the_own_period(guard: Guard) -> None:
    interrupted(guard, day(2), day(1))
    said = guard.run("run", "--key", "job", "--catch-up", "1", "--dry-run", "--", "true").out.splitlines()
    assert said[0] == f"waiting  job {day(2)}: it was pending: it is run now"
    assert said[1].startswith("would")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--only-pending", "--period", "2026-11-28"), "--period: it does not go with --only-pending"),
        (("--only-pending", "--scheduled-at", "2026-11-28T00:00:00Z"), "--scheduled-at: it does not go with --only-p"),
        (("--only-pending", "--rerun"), "--rerun: it does not go with --only-pending: its periods are those that wait"),
        (("--only-pending", "--catch-up", "3"), "--catch-up: it does not go with --only-pending"),
        (("--catch-up", "3", "--period", "2026-11-28"), "--period: it does not go with --catch-up: who asks for one"),
        (("--catch-up", "3", "--rerun"), "--rerun: it does not go with --catch-up"),
        (("--catch-up", "3", "--stragglers", "leave"), "--stragglers: leave does not go with --catch-up: what one run"),
        (("--only-pending", "--stragglers", "leave"), "--stragglers: leave does not go with --only-pending"),
        (("--catch-up", "many"), "--catch-up: 'many' is not a whole number from 0"),
        (("--catch-up-window", "1 week"), "--catch-up-window: '1 week' is not a duration"),
    ],
)
def test_what_does_not_go_together_is_refused(sqlite_guard: Guard, options: tuple[str, ...], said: str) -> None:
    assert said in refusal(sqlite_guard, "run", "--key", "job", *options, *STARTS)


def test_window_with_far_too_many_periods_is_refused(sqlite_guard: Guard) -> None:
    options = ("--every", "minute", "--schedule", "* * * * *", "--catch-up", "1", "--catch-up-window", "30d")
    line = refusal(sqlite_guard, "run", "--key", "job", *options, *STARTS)
    assert "more than 10000 periods are to be caught up with; shorten --catch-up-window" in line
