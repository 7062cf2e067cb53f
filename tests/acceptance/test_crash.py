"""The holder dies, or is frozen past its lease and wakes: who runs then, and what the ledger says."""

from __future__ import annotations

import signal

from tests.acceptance.looking import ledger_file
from tests.rig.guard import Guard, code_of, host_dies, wait_dead
from tests.rig.hands import between_two_writes
from tests.rig.processes import alive, children, freeze_tree
from tests.rig.supervised import kill
from tests.rig.waiting import wait_until

# What a test can wait for; less its grace (1 s) and its margin (2 s), 5 s to start in.
SHORT_LEASE = ("--lease", "8s", "--stop-grace", "1s", "--beat-every", "0.5s")
PATIENT = 60.0


def running_job(guard: Guard, *options: str, script: str = "echo $$ >> pids; exec sleep 600") -> tuple[int, int]:
    """(cronguard's pid, the command's) of a run that will not end by itself."""
    started = guard.start("run", "--key", "job", *SHORT_LEASE, *options, "--", "sh", "-c", script)
    return started.pid, int(guard.wait_for_line("pids")[-1])


def fire(guard: Guard, *options: str) -> int:
    return guard.run("run", "--key", "job", *SHORT_LEASE, *options, "--", "sh", "-c", "echo ran >> marks").code


def states(guard: Guard) -> list[str | None]:
    return [attempt["outcome"] for attempt in guard.show("job")["attempts"]]


def test_host_that_died_is_taken_over_after_the_lease(guard: Guard) -> None:
    wrapper, _ = running_job(guard)
    token = guard.show("job")["token"]
    host_dies(wrapper)
    assert fire(guard) == 0
    assert guard.lines("marks") == []  # held: the lease is not over yet
    wait_until(lambda: fire(guard) == 0 and guard.lines("marks"), PATIENT, every=0.5, saying="a firing takes over")
    run = guard.show("job")
    assert (run["state"], run["attempt"], run["recoveries"], run["token"] > token) == ("succeeded", 2, 1, True)
    assert states(guard) == ["lost", "succeeded"]


def test_frozen_holder_wakes_after_a_takeover_and_does_nothing_more(guard: Guard) -> None:
    """Its command is dead before it does anything, it exits 76, and it changes no row but its attempt's."""
    script = "echo $$ >> pids; while :; do echo tick >> ticks; sleep 0.05; done"
    started = guard.start("run", "--key", "job", *SHORT_LEASE, "--", "sh", "-c", script)
    command = int(guard.wait_for_line("pids")[0])
    guard.wait_for_line("ticks", 3)
    with between_two_writes(ledger_file(guard)):
        host = freeze_tree(started.pid)
    wait_until(lambda: fire(guard) == 0 and guard.lines("marks"), PATIENT, every=0.5, saying="a firing takes over")
    before, ticks = guard.show("job"), len(guard.lines("ticks"))
    kill(*(set(host) - {command}), signum=signal.SIGCONT)  # it must kill a command that cannot even hear a signal
    assert code_of(started, PATIENT) == 76
    wait_dead(command)
    assert len(guard.lines("ticks")) == ticks
    after = guard.show("job")
    assert after["attempts"][1:] == before["attempts"][1:]
    assert {**after, "attempts": 0} == {**before, "attempts": 0}
    assert after["attempts"][0]["outcome"] == "lost"


def test_whole_host_frozen_past_its_lease_wakes_up_to_76(guard: Guard) -> None:
    """Holder and command go on together, as after a suspend: at most a moment's work is left to do."""
    script = "echo $$ >> pids; while :; do echo tick >> ticks; sleep 0.5; done"
    started = guard.start("run", "--key", "job", *SHORT_LEASE, "--", "sh", "-c", script)
    command = int(guard.wait_for_line("pids")[0])
    with between_two_writes(ledger_file(guard)):
        host = freeze_tree(started.pid)
    wait_until(lambda: fire(guard) == 0 and guard.lines("marks"), PATIENT, every=0.5, saying="a firing takes over")
    kill(*reversed(host), signum=signal.SIGCONT)
    assert code_of(started, PATIENT) == 76
    wait_dead(command)
    assert states(guard) == ["lost", "succeeded"]


def test_stop_signal_is_passed_on_and_the_run_is_claimable_at_once(guard: Guard) -> None:
    started = guard.start("run", "--key", "job", "--", "sh", "-c", "echo $$ >> pids; exec sleep 600")
    command = int(guard.wait_for_line("pids")[0])
    started.terminate()
    assert code_of(started, PATIENT) == 143
    assert not alive(command)
    assert (guard.show("job")["state"], states(guard)) == ("pending", ["interrupted"])
    assert (fire(guard), guard.lines("marks")) == (0, ["ran"])
    assert guard.show("job")["recoveries"] == 0


def test_command_that_ignores_the_stop_signal_is_killed_after_the_grace(guard: Guard) -> None:
    script = "trap '' TERM; echo $$ >> pids; while :; do sleep 1; done"
    started = guard.start("run", "--key", "job", "--stop-grace", "1s", "--", "sh", "-c", script)
    guard.wait_for_line("pids")
    started.terminate()
    assert code_of(started, PATIENT) == 143
    assert children(started.pid) == []


def test_standby_takes_over_when_the_holder_s_host_dies(guard: Guard) -> None:
    wrapper, _ = running_job(guard)
    standby = guard.start(
        "run", "--key", "job", *SHORT_LEASE, "--if-held", "wait", "--", "sh", "-c", "echo ran >> marks"
    )
    host_dies(wrapper)
    assert code_of(standby, PATIENT) == 0
    assert (guard.lines("marks"), states(guard)) == (["ran"], ["lost", "succeeded"])


def test_standby_ends_well_without_running_when_the_holder_succeeds(guard: Guard) -> None:
    holder = guard.start(
        "run", "--key", "job", "--", "sh", "-c", "echo $$ >> pids; until [ -e go ]; do sleep 0.1; done"
    )
    guard.wait_for_line("pids")
    standby = guard.start("run", "--key", "job", "--if-held", "wait", "--", "sh", "-c", "echo ran >> marks")
    wait_until(lambda: standby.poll() is not None or b"python" in cmdline(standby.pid))
    (guard.folder / "go").touch()
    assert (code_of(holder, PATIENT), code_of(standby, PATIENT)) == (0, 0)
    assert guard.lines("marks") == []
    assert [skip["reason"] for skip in guard.show("job")["skipped"]] == ["already_succeeded"]


def test_standby_ends_with_the_code_of_a_holder_that_failed(guard: Guard) -> None:
    holder = guard.start("run", "--key", "job", "--", "sh", "-c", "until [ -e go ]; do sleep 0.1; done; exit 9")
    wait_until(lambda: guard.history("job"), PATIENT, saying="the holder has its run")
    standby = guard.start("run", "--key", "job", "--if-held", "wait", "--", "true")
    (guard.folder / "go").touch()
    assert (code_of(holder, PATIENT), code_of(standby, PATIENT)) == (9, 9)


def test_standby_that_is_told_to_stop_stops_at_once(guard: Guard) -> None:
    running_job(guard)
    standby = guard.start("run", "--key", "job", "--if-held", "wait", "--", "true")
    wait_until(lambda: handles_term(standby.pid), PATIENT, saying="the stand-by has its handlers")
    standby.terminate()
    assert code_of(standby, PATIENT) == 143


def cmdline(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


def handles_term(pid: int) -> bool:
    """Whether a handler for SIGTERM is installed, as the kernel sees it."""
    with open(f"/proc/{pid}/status") as file:
        caught = next(line for line in file if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1))


def test_job_longer_than_its_interval_makes_the_next_firing_a_visible_skip(guard: Guard) -> None:
    options = ("--period", "2026-11-29")
    holder = guard.start("run", "--key", "job", *options, "--", "sh", "-c", "until [ -e go ]; do sleep 0.1; done")
    wait_until(lambda: guard.history("job"), PATIENT, saying="the holder has its run")
    late = guard.run("run", "--key", "job", "--period", "2026-11-30", "--skip-exit", "9", "--", "touch", "no")
    assert (late.code, (guard.folder / "no").exists()) == (9, False)
    (guard.folder / "go").touch()
    assert code_of(holder, PATIENT) == 0
    shown = guard.run("show", "job", "2026-11-29")
    assert "succeeded" in shown.out
    assert guard.run("run", "--key", "job", "--period", "2026-11-30", "--", "true").code == 0
    skipped = guard.show("job", "2026-11-30")["skipped"]
    assert [skip["reason"] for skip in skipped] == ["held"]


def test_complete_by_stops_the_whole_group(guard: Guard) -> None:
    script = "sleep 600 & echo $! >> pids; wait"
    done = guard.run("run", "--key", "job", "--complete-by", "4s", "--stop-grace", "1s", "--", "sh", "-c", script)
    assert done.code == 124
    assert "complete-by" in done.only_line
    wait_dead(int(guard.lines("pids")[0]))
    run = guard.show("job")
    assert (run["state"], run["attempts"][0]["outcome"], run["signal"]) == ("timed_out", "timed_out", 15)


def test_command_that_ends_well_after_its_deadline_has_still_run_out_of_time(guard: Guard) -> None:
    script = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    assert guard.run("run", "--key", "job", "--complete-by", "4s", "--", "sh", "-c", script).code == 124
    run = guard.show("job")
    assert (run["state"], run["exit_code"]) == ("timed_out", 0)


def test_failing_command_is_tried_again_in_place_each_try_an_attempt(guard: Guard) -> None:
    script = "echo $CRONGUARD_ATTEMPT $CRONGUARD_TOKEN >> tries; [ $(wc -l < tries) -ge 3 ]"
    options = ("--attempts", "3", "--retry-delay", "0.2s")
    assert guard.run("run", "--key", "job", *options, "--", "sh", "-c", script).code == 0
    tries = [line.split() for line in guard.lines("tries")]
    assert [number for number, _ in tries] == ["1", "2", "3"]
    assert len({token for _, token in tries}) == 3
    run = guard.show("job")
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["failed", "failed", "succeeded"]
    assert [str(attempt["token"]) for attempt in run["attempts"]] == [token for _, token in tries]


def test_tries_in_place_end_at_the_last_with_its_code(guard: Guard) -> None:
    options = ("--attempts", "2", "--retry-delay", "0.2s")
    assert guard.run("run", "--key", "job", *options, "--", "sh", "-c", "exit 5").code == 5
    run = guard.show("job")
    assert (run["state"], run["attempt"], run["failures"]) == ("failed", 2, 2)
