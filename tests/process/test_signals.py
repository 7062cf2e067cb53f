"""Rows 14, 31 to 33, 35, 39, 40 and 42 to 45 of the event table: what is sent to cronguard, without a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.guard import Guard
from tests.rig.processes import alive, stopped
from tests.rig.supervised import (
    ENDLESS,
    KEY,
    LONG_LEASE,
    PATIENT,
    SHORT_LEASE,
    TICKING,
    attempt,
    ended,
    kill,
    moves,
    nobody_left,
    run,
    stands_still,
    start,
    wait_until_ended,
)
from tests.rig.waiting import wait_until

STOP = {"TERM": signal.SIGTERM, "INT": signal.SIGINT, "HUP": signal.SIGHUP, "QUIT": signal.SIGQUIT}
HEARD = "trap 'echo {0} >> heard' {0}"


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_row_14_signal_while_waiting_for_the_lease_ends_the_wait_by_that_signal(sqlite_guard: Guard, name: str) -> None:
    start(sqlite_guard, "exec sleep 60")
    standby = sqlite_guard.start(*KEY, "--if-held", "wait", "--", "touch", "started")
    wait_until(lambda: has_children(standby.pid), saying="the stand-by has its worker")
    kill(standby.pid, signum=STOP[name])
    assert standby.wait(PATIENT) == -STOP[name]
    assert not (sqlite_guard.folder / "started").exists()
    assert len(sqlite_guard.show("job")["attempts"]) == 1


def has_children(pid: int) -> bool:
    return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


@pytest.mark.parametrize(
    ("row", "before", "code"),
    [
        pytest.param(31, ":", "own", id="row_31_dies_of_it"),
        pytest.param(31, "trap 'exit 3' {}", "3", id="row_31_exits_with_a_code_of_its_own"),
        pytest.param(32, "trap 'exit 0' {}", "own", id="row_32_exits_with_0"),
    ],
)
@pytest.mark.parametrize("name", STOP)
def test_rows_31_32_told_to_stop_the_command_is_told_and_the_run_is_pending(
    sqlite_guard: Guard, name: str, row: int, before: str, code: str
) -> None:
    """An exit 0 after that is no success: 128+n, by that signal itself. There is no --graceful-ok."""
    job = start(sqlite_guard, ENDLESS, before=before.format(name))
    kill(job.guardian, signum=STOP[name])
    assert job.status() == (3 if code == "3" else -STOP[name])
    nobody_left(sqlite_guard.folder, within=0.1)
    assert ended(sqlite_guard) == ("pending", "interrupted")
    assert f"SIG{name}" in attempt(sqlite_guard)["note"]
    assert (run(sqlite_guard, "touch again").code, (sqlite_guard.folder / "again").exists()) == (0, True)


def test_row_31_command_that_ignores_it_is_killed_after_the_grace(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, ENDLESS, "--stop-grace", "0.5s", before="trap '' TERM")
    kill(job.guardian, signum=signal.SIGTERM)
    assert job.status() == -signal.SIGTERM
    assert (ended(sqlite_guard), attempt(sqlite_guard)["signal"]) == (("pending", "interrupted"), signal.SIGKILL)


def test_row_31_helpers_in_the_commands_group_are_told_as_well(sqlite_guard: Guard) -> None:
    helper = f"sh -c 'trap \"echo helper >> heard; exit\" TERM; touch helps; {ENDLESS}' &"
    job = start(sqlite_guard, ENDLESS, before=f"{helper} until [ -e helps ]; do sleep 0.02; done; trap 'exit 0' TERM")
    kill(job.guardian, signum=signal.SIGTERM)
    assert job.code() == 143
    assert sqlite_guard.lines("heard") == ["helper"]


def test_row_33_third_request_kills_at_once(sqlite_guard: Guard) -> None:
    """Every one of them is passed on: the command has heard the first two."""
    job = start(sqlite_guard, ENDLESS, "--stop-grace", "30s", "--lease", "60s", before=HEARD.format("TERM"))
    for number in (1, 2):
        kill(job.guardian, signum=signal.SIGTERM)
        sqlite_guard.wait_for_line("heard", number)
        assert alive(job.command)
    kill(job.guardian, signum=signal.SIGTERM)
    assert job.status(within=20) == -signal.SIGTERM
    nobody_left(sqlite_guard.folder, job.command, within=0.1)
    assert ended(sqlite_guard) == ("pending", "interrupted")


def test_row_35_int_sent_to_cronguard_is_passed_on_once(sqlite_guard: Guard) -> None:
    script = "while :; do [ -e go ] && exit 4; sleep 0.05; done"
    job = start(sqlite_guard, script, before=HEARD.format("INT"))
    kill(job.guardian, signum=signal.SIGINT)
    sqlite_guard.wait_for_line("heard")
    (sqlite_guard.folder / "go").touch()
    assert job.status() == 4
    assert sqlite_guard.lines("heard") == ["INT"]
    assert ended(sqlite_guard) == ("pending", "interrupted")


def test_row_39_tstp_stops_the_tree_while_the_lease_is_kept_and_cont_lets_it_go_on(sqlite_guard: Guard) -> None:
    helper = "setsid sh -c 'while :; do echo tick >> helper; sleep 0.05; done' &"
    job = start(sqlite_guard, TICKING, *LONG_LEASE, before=helper)
    moves(sqlite_guard.folder / "helper")
    kill(job.guardian, signum=signal.SIGTSTP)
    wait_until(lambda: stopped(job.command), saying="the command is stopped")
    wait_until(lambda: stands_still(sqlite_guard.folder / "helper", 0.3), saying="the helper is stopped as well")
    first = sqlite_guard.show("job")["lease_until"]
    wait_until(lambda: sqlite_guard.show("job")["lease_until"] > first, every=0.3, saying="the lease is renewed")
    kill(job.guardian, signum=signal.SIGCONT)
    for name in ("ticks", "helper"):
        moves(sqlite_guard.folder / name)
    kill(job.guardian, signum=signal.SIGTERM)
    assert job.code() == 143


def test_row_39_deadline_reaches_a_tree_that_was_stopped(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, ENDLESS, "--complete-by", "5s", before="trap 'exit 7' TERM")
    kill(job.guardian, signum=signal.SIGTSTP)
    assert job.code() == 124
    assert (ended(sqlite_guard), attempt(sqlite_guard)["exit_code"]) == (("timed_out", "timed_out"), 7)


def test_row_40_stopped_guardian_loses_nothing_the_worker_keeps_lease_and_deadline(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, ENDLESS, *SHORT_LEASE, "--complete-by", "15s", before="trap '' TERM")
    kill(job.guardian, signum=signal.SIGSTOP)
    first = sqlite_guard.show("job")["lease_until"]
    wait_until(lambda: sqlite_guard.show("job")["lease_until"] > first, every=0.3, saying="the lease is renewed")
    assert wait_until_ended(sqlite_guard) == ("timed_out", "timed_out")
    nobody_left(sqlite_guard.folder / "nobody", job.command, within=0.1)
    kill(job.guardian, signum=signal.SIGCONT)
    assert job.code() == 124


def test_row_41_hang_up_is_passed_on_to_a_command_in_a_session_of_its_own(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, ENDLESS)
    kill(job.guardian, signum=signal.SIGHUP)
    assert job.status() == -signal.SIGHUP
    assert ended(sqlite_guard) == ("pending", "interrupted")


def test_row_42_ignored_hang_up_stays_ignored_for_us_and_for_the_command(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard.under("nohup"), TICKING)
    for pid in (job.guardian, job.worker, job.command):
        kill(pid, signum=signal.SIGHUP)
    for _ in range(2):
        moves(sqlite_guard.folder / "ticks")
    assert [signal.SIGHUP in ignored_by(pid) for pid in (job.guardian, job.worker, job.command)] == [True] * 3


@pytest.mark.parametrize("name", ["USR1", "USR2", "WINCH"])
def test_row_43_signals_with_a_meaning_of_the_commands_own_are_passed_on_and_stop_nothing(
    sqlite_guard: Guard, name: str
) -> None:
    """HUP ends the run, with or without a terminal: there is no telling a live session from one that has ended."""
    job = start(sqlite_guard, ENDLESS, "--stop-grace", "0.1s", before=HEARD.format(name))
    for number in (1, 2):
        kill(job.guardian, signum=signal.Signals[f"SIG{name}"])
        sqlite_guard.wait_for_line("heard", number)
    assert stands_still(sqlite_guard.folder / "heard", 0.3)
    assert alive(job.command)


def test_row_44_quit_never_ends_us_before_the_tree_is_dead(sqlite_guard: Guard) -> None:
    """Core dumps are off, for ours: the signal is died of like any other."""
    job = start(sqlite_guard, ENDLESS, "--stop-grace", "0.5s", before="trap '' QUIT")
    kill(job.guardian, signum=signal.SIGQUIT)
    wait_until(lambda: not alive(job.command), saying="the command is killed")
    assert job.status() == -signal.SIGQUIT
    assert (ended(sqlite_guard), attempt(sqlite_guard)["signal"]) == (("pending", "interrupted"), signal.SIGKILL)


def test_row_45_pipe_and_file_size_signals_have_their_defaults_back_in_the_command(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, "exec sleep 60")
    assert not ignored_by(job.command) & {signal.SIGPIPE, signal.SIGXFSZ}
    assert blocked_by(job.command) == set()


def test_row_45_what_the_caller_had_ignored_or_blocked_stays_so_for_the_command(sqlite_guard: Guard) -> None:
    script = (
        "import os, signal, sys; signal.pthread_sigmask(0, {12}); signal.signal(2, signal.SIG_IGN); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    python = Path(f"/proc/{os.getpid()}/exe").readlink()
    job = start(sqlite_guard.under(str(python), "-ISc", script), "exec sleep 60")
    assert (blocked_by(job.command), signal.SIGINT in ignored_by(job.command)) == ({signal.SIGUSR2}, True)


def test_row_45_ignored_sigchld_hides_no_exit_code(sqlite_guard: Guard) -> None:
    script = "import os, signal, sys; signal.signal(17, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    python = Path(f"/proc/{os.getpid()}/exe").readlink()
    assert run(sqlite_guard.under(str(python), "-ISc", script), "exit 6").code == 6


def ignored_by(pid: int) -> set[int]:
    return _mask_of(pid, "SigIgn:")


def blocked_by(pid: int) -> set[int]:
    return _mask_of(pid, "SigBlk:")


def _mask_of(pid: int, name: str) -> set[int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = int(next(line.split()[1] for line in lines if line.startswith(name)), 16)
    return {number for number in range(1, 32) if mask & 1 << (number - 1)}


# --- What starts no command -------------------------------------------------------------------------------------------

LOST = """
import os, signal, sys
from cronguard.errors import Interrupted
from cronguard.process.signals import interrupting
try:
    with interrupting():
        {body}
        while True:
            signal.pause()
except Interrupted as told:
    sys.exit(told.signum)
"""
IN_AN_EXCEPT = "try: os.kill(os.getpid(), 15)\n        except Exception: print('swallowed')"
IN_AN_IMPORT = "import told"
TOLD = "import os\nos.kill(os.getpid(), 15)\nprint('whole')\n"


@pytest.mark.parametrize(("body", "said"), [(IN_AN_EXCEPT, "swallowed"), (IN_AN_IMPORT, "whole")])
def test_word_to_stop_is_not_lost_in_an_except_and_breaks_no_import(tmp_path: Path, body: str, said: str) -> None:
    (tmp_path / "told.py").write_text(TOLD)
    script = LOST.format(body=body)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout.split(), done.stderr) == (signal.SIGTERM, [said], "")
