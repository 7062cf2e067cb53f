"""cronguard backfill: every period of a range once, in order, each a run of its own; again goes on where it ended."""

from __future__ import annotations

import shlex

import pytest

from tests.acceptance.looking import STARTS, records, refusal
from tests.rig.guard import PROGRAM, Guard, Result, code_of, host_dies, wait_dead
from tests.rig.terminal import Terminal
from tests.rig.waiting import wait_until

PATIENT = 30.0
SHORT_LEASE = ("--lease", "8s", "--stop-grace", "1s", "--beat-every", "0.5s")  # of which 5 s to start in
DAYS = [f"2026-03-{day:02}" for day in (28, 29, 30, 31)]
RANGE = ("--from", DAYS[0], "--to", DAYS[-1])
NOTE = "echo $CRONGUARD_PERIOD >> ran"


def backfill(guard: Guard, *options: str, script: str = NOTE) -> Result:
    return guard.run(*asked(*options, script=script))


def asked(*options: str, script: str = NOTE) -> tuple[str, ...]:
    return ("backfill", "--key", "job", "--tz", "Europe/Berlin", *RANGE, *options, "--", "sh", "-c", script)


def states(guard: Guard) -> dict[str, str]:
    return {run["period"]: run["state"] for run in guard.history("job")}


def test_each_period_is_run_in_order_with_what_a_run_of_it_would_be_given(guard: Guard) -> None:
    script = "echo $CRONGUARD_PERIOD $CRONGUARD_PERIOD_START $CRONGUARD_PERIOD_END $CRONGUARD_TZ >> ran"
    done = backfill(guard, script=script)
    assert (done.code, done.out, done.err) == (0, "", "")
    starts = ["2026-03-27T23:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z"]
    ends = [*starts[1:], "2026-03-31T22:00:00Z"]
    assert [line.split() for line in guard.lines("ran")] == [
        [*facts, "Europe/Berlin"] for facts in zip(DAYS, starts, ends, strict=True)
    ]
    runs = [guard.show("job", day) for day in DAYS]
    assert {(run["state"], run["attempt"]) for run in runs} == {("succeeded", 1)}
    assert all("@" in run["attempts"][0]["requested_by"] for run in runs)
    tokens = [run["token"] for run in runs]
    assert tokens == sorted(set(tokens))


def test_again_it_runs_nothing(guard: Guard) -> None:
    assert backfill(guard).code == 0
    before = records(guard)
    assert (backfill(guard).code, len(guard.lines("ran")), records(guard) == before) == (0, 4, True)
    assert (backfill(guard, "--rerun", "--force").code, len(guard.lines("ran"))) == (0, 8)


def test_it_stops_at_the_first_failure_and_goes_on_there_when_asked_again(guard: Guard) -> None:
    script = f"{NOTE}; [ -e mended ] || [ $CRONGUARD_PERIOD != {DAYS[1]} ] || exit 7"
    done = backfill(guard, script=script)
    assert done.code == 7
    assert done.only_line == (
        f"cronguard: job: 1 of 4 did not end well: {DAYS[1]} (exit 7); 2 are left: type the same again to go on"
    )
    assert guard.lines("ran") == DAYS[:2]
    (guard.folder / "mended").touch()
    assert (backfill(guard, script=script).code, guard.lines("ran")[2:]) == (0, DAYS[1:])


def test_keep_going_runs_the_others_and_does_not_read_as_a_success(guard: Guard) -> None:
    script = f"{NOTE}; case $CRONGUARD_PERIOD in {DAYS[0]}) exit 7;; {DAYS[2]}) kill -9 $$;; esac"
    done = backfill(guard, "--keep-going", script=script)
    assert (done.code, guard.lines("ran")) == (7, DAYS)
    assert done.only_line.endswith(f"2 of 4 did not end well: {DAYS[0]} (exit 7), {DAYS[2]} (exit 137)")
    assert backfill(guard, "--only-missing").code == 0
    assert (backfill(guard).code, guard.lines("ran")[4:]) == (0, [DAYS[0], DAYS[2]])


def test_it_is_resumed_after_its_host_has_died(guard: Guard) -> None:
    script = f"{NOTE}; [ -e again ] || [ $CRONGUARD_PERIOD != {DAYS[2]} ] || exec sleep 600"
    started = guard.start(*asked(*SHORT_LEASE, script=script))
    guard.wait_for_line("ran", 3)
    host_dies(started.pid)
    (guard.folder / "again").touch()
    assert backfill(guard, *SHORT_LEASE, script=script).code == 0  # it waits until the lease is over
    assert guard.lines("ran") == [*DAYS[:3], *DAYS[2:]]
    assert [one["outcome"] for one in guard.show("job", DAYS[2])["attempts"]] == ["lost", "succeeded"]


def test_told_to_stop_it_stops_with_the_period_that_is_running(guard: Guard) -> None:
    started = guard.start(*asked(script=f"{NOTE}; exec sleep 600"))
    guard.wait_for_line("ran")
    started.terminate()
    assert code_of(started, PATIENT) == 143
    assert (guard.lines("ran"), states(guard)) == (DAYS[:1], {DAYS[0]: "pending"})


def test_it_waits_while_somebody_else_has_the_key_and_passes_over_what_that_one_did(guard: Guard) -> None:
    script = f"{NOTE}; until [ -e go ]; do sleep 0.1; done"
    of_one = ("run", "--key", "job", "--tz", "Europe/Berlin", "--period", DAYS[0])
    holder = guard.start(*of_one, "--", "sh", "-c", script)
    guard.wait_for_line("ran")
    started = guard.start(*asked())
    (guard.folder / "go").touch()
    assert (code_of(holder, PATIENT), code_of(started, PATIENT)) == (0, 0)
    assert guard.lines("ran") == DAYS


def test_dry_run_lists_each_period_and_why_and_changes_nothing(guard: Guard) -> None:
    assert guard.run("run", "--key", "job", "--tz", "Europe/Berlin", "--period", DAYS[1], "--", "true").code == 0
    assert guard.run("run", "--key", "job", "--period", DAYS[2], "--", "sh", "-c", "exit 3").code == 3
    before = records(guard)
    said = [line.split(maxsplit=2) for line in backfill(guard, "--only-missing", "--dry-run").out.splitlines()]
    assert said[:2] == [["PERIOD", "WOULD", "WHY"], [DAYS[0], "run", "no run yet"]]
    assert [line[:3] for line in (one.split() for one in backfill(guard, "--dry-run").out.splitlines()[1:])] == [
        [DAYS[0], "run", "no"], [DAYS[1], "not", "run"], [DAYS[2], "run", "failed"], [DAYS[3], "run", "no"]
    ]  # fmt: skip
    assert said[3][:2] == [DAYS[2], "not"]
    assert said[3][2].startswith("run  failed (exit 3) at ")
    assert records(guard) == before


def test_dry_run_makes_no_ledger(sqlite_guard: Guard) -> None:
    assert len(backfill(sqlite_guard, "--dry-run").out.splitlines()) == 5
    assert sqlite_guard.lines("../state/ledger.db") == []


def test_calendar_is_the_key_s_own_and_is_not_changed_on_the_way(guard: Guard) -> None:
    schedule = ("--schedule", "0 6 * * 1-5", "--tz", "Europe/Berlin")
    assert guard.run("run", "--key", "job", *schedule, "--period", DAYS[-1], "--", "true").code == 0
    assert guard.run("backfill", "--key", "job", *RANGE, "--", "sh", "-c", NOTE).code == 0
    assert guard.lines("ran") == [DAYS[2]]  # a Monday: the two days before are a weekend
    refused = guard.run("backfill", "--key", "job", "--every", "month", *RANGE, "--", "true")
    assert refused.code == 125
    assert "this would change its cadence from day to month" in refused.only_line


def test_progress_is_told_at_a_terminal_only(guard: Guard) -> None:
    with Terminal(guard.folder, guard.environment) as terminal:
        said = terminal.do(shlex.join([*PROGRAM, *asked()]), within=60).splitlines()
    told = [f"cronguard: job {day}: {number} of 4" for number, day in enumerate(DAYS, 1)]
    assert said == [*told, "cronguard: job: 4 run, 0 passed over"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "there is no --from; type: cronguard backfill --key KEY --from A --to B -- CMD"),
        (("--from", "2026-03-28"), "there is no --to; type: cronguard backfill"),
        (("--from", "2026-03-28", "--to", ""), "there is no --to"),
        (("--from", "2026-03-28", "--to", "2026-03-27"), "--from, --to: 2026-03-28 comes after 2026-03-27; swap them"),
        (
            ("--from", "2026-W12", "--to", "current"),
            "--from: '2026-W12' is not a day; write the period like 2026-11-30",
        ),
        (("--from", "2026-03-28", "--to", "9000-01-01"), "--to: 9000-01-01 has not begun yet"),
        (("--from", "1990-01-01", "--to", "current"), "the range has more than 10000 periods of cadence day"),
        ((*RANGE, "--force"), "--force goes with --rerun"),
        ((*RANGE, "--only-missing", "--rerun"), "--only-missing and --rerun contradict each other"),
        ((*RANGE, "--stragglers", "leave"), "--stragglers: leave does not go with backfill"),
        ((*RANGE, "--period", "2026-03-28"), "no such option: --period"),
        ((*RANGE, "--lease", "9s"), "--lease: a lease of 9s is too short"),
    ],
)
def test_what_makes_no_sense_is_refused(sqlite_guard: Guard, options: tuple[str, ...], said: str) -> None:
    assert said in refusal(sqlite_guard, "backfill", "--key", "job", *options, *STARTS)


def test_without_a_command_or_a_key_nothing_is_run(sqlite_guard: Guard) -> None:
    assert "there is no command; type: cronguard backfill" in refusal(sqlite_guard, "backfill", "--key", "job", *RANGE)
    assert "there is no key" in refusal(sqlite_guard, "backfill", *RANGE, *STARTS)


# --- Several at once --------------------------------------------------------------------------------------------------

SIDE_BY_SIDE = ("--exclusive", "period", "--jobs")


def test_several_at_once_run_each_period_once(guard: Guard) -> None:
    """All four are seen to be running at the same time."""
    script = f"{NOTE}; until [ $(wc -l < ran) = 4 ]; do sleep 0.05; done; echo $CRONGUARD_PERIOD >> ended"
    done = backfill(guard, *SIDE_BY_SIDE, "4", script=script)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (sorted(guard.lines("ran")), sorted(guard.lines("ended"))) == (DAYS, DAYS)
    assert states(guard) == dict.fromkeys(DAYS, "succeeded")
    assert (backfill(guard, *SIDE_BY_SIDE, "4", script=script).code, len(guard.lines("ran"))) == (0, 4)


def test_several_at_once_start_no_more_after_a_failure_and_let_the_others_end(guard: Guard) -> None:
    script = (
        f"{NOTE}; if [ $CRONGUARD_PERIOD = {DAYS[0]} ]; then "
        "until [ $(wc -l < ran) -gt 1 ]; do sleep 0.05; done; exit 7; fi; "
        "until [ -e failed ]; do sleep 0.05; done; sleep 2; echo x >> ended"
    )
    started = guard.start(*asked(*SIDE_BY_SIDE, "2", script=script))
    wait_until(lambda: states(guard).get(DAYS[0]) == "failed", PATIENT)
    (guard.folder / "failed").touch()
    assert code_of(started, PATIENT) == 7
    began = guard.lines("ran")
    assert sorted(began) in (DAYS[:2], DAYS[:3])  # the other lane may have taken one more before it was told
    assert len(guard.lines("ended")) == len(began) - 1


def test_several_at_once_are_told_to_stop_together(guard: Guard) -> None:
    started = guard.start(*asked(*SIDE_BY_SIDE, "2", script="echo $$ >> pids; exec sleep 600"))
    commands = [int(pid) for pid in guard.wait_for_line("pids", 2)]
    started.terminate()
    assert code_of(started, PATIENT) == 143
    for pid in commands:
        wait_dead(pid)
    assert set(states(guard).values()) == {"pending"}
    assert len(guard.lines("pids")) == 2


def test_several_at_once_end_with_whoever_started_them(guard: Guard) -> None:
    started = guard.start(*asked(*SIDE_BY_SIDE, "2", script="echo $$ >> pids; exec sleep 600"))
    commands = [int(pid) for pid in guard.wait_for_line("pids", 2)]
    started.kill()
    for pid in commands:
        wait_dead(pid, PATIENT)
    wait_until(lambda: set(states(guard).values()) == {"pending"}, PATIENT)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--jobs", "2"), "--jobs: runs of one key would only wait for each other; add --exclusive period"),
        (("--jobs", "0"), "--jobs: '0' is not a whole number from 1 to 64"),
        (("--jobs", "65", "--exclusive", "period"), "--jobs: '65' is not a whole number from 1 to 64"),
        ((*SIDE_BY_SIDE, "2", "--from", "2026-W12"), "--from: '2026-W12' is not a day"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(sqlite_guard: Guard, options: tuple[str, ...], said: str) -> None:
    assert said in refusal(sqlite_guard, "backfill", "--key", "job", *RANGE, *options, *STARTS)
