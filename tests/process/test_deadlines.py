"""Rows 15 to 19 and 53 of the event table: complete-by, whatever the command or its reader does."""

from __future__ import annotations

import os
import signal
import time
from itertools import count

import pytest

from tests.rig.guard import Guard
from tests.rig.processes import alive, stopped
from tests.rig.supervised import ENDLESS, PATIENT, attempt, ended, kill, nobody_left, run, start
from tests.rig.waiting import in_time, wait_until

# Late enough for the command to have begun, and to be stopped by somebody: its process may get no CPU for a while.
SOON = ("--complete-by", "5s")
SHORT_GRACE, LONG_GRACE = ("--stop-grace", "0.5s"), ("--stop-grace", "20s")


@pytest.mark.parametrize(
    ("row", "before", "exit_code", "signum"),
    [
        pytest.param(15, ":", None, signal.SIGTERM, id="row_15_dies_of_term"),
        pytest.param(15, "trap 'exit 3' TERM", 3, None, id="row_15_exits_by_itself"),
        pytest.param(16, "trap 'exit 0' TERM", 0, None, id="row_16_exits_0_in_the_grace"),
        pytest.param(17, "trap '' TERM", None, signal.SIGKILL, id="row_17_has_to_be_killed"),
    ],
)
def test_rows_15_16_17_deadline_is_124_and_timed_out_however_the_command_takes_it(
    sqlite_guard: Guard, row: int, before: str, exit_code: int | None, signum: int | None
) -> None:
    grace = SHORT_GRACE if row == 17 else LONG_GRACE
    result = run(sqlite_guard, f"{before}; {ENDLESS}", *SOON, *grace)
    assert (result.code, "complete-by" in result.err) == (124, True)
    assert ended(sqlite_guard) == ("timed_out", "timed_out")
    last = attempt(sqlite_guard)
    assert (last["exit_code"], last["signal"]) == (exit_code, signum)
    nobody_left(sqlite_guard.folder)


@pytest.mark.parametrize(
    "signum",
    [
        pytest.param(signal.SIGSTOP, id="row_18_stopped"),
        pytest.param(signal.SIGTTIN, id="row_53_waiting_for_a_terminal"),
        pytest.param(signal.SIGTTOU, id="row_53_writing_to_a_terminal"),
    ],
)
def test_rows_18_53_deadline_reaches_a_command_that_is_stopped(sqlite_guard: Guard, signum: int) -> None:
    """It hears the request, for it is continued: its own exit code is there. TTIN and TTOU are not reported apart."""
    job = start(sqlite_guard, ENDLESS, *SOON, *LONG_GRACE, before="trap 'exit 7' TERM")
    # A process in a group without a parent in its session cannot be stopped by a terminal's signals but by SIGSTOP.
    kill(job.command, signum=signum)
    if signum == signal.SIGSTOP:
        wait_until(lambda: stopped(job.command), saying="the command is stopped")
    assert job.code() == 124
    assert (ended(sqlite_guard), attempt(sqlite_guard)["exit_code"]) == (("timed_out", "timed_out"), 7)


def test_row_19_deadline_is_kept_while_nobody_reads_our_output(sqlite_guard: Guard) -> None:
    """3.0 s is enforced by 3.3 s."""
    numbers = count(1)
    in_time(lambda: _seconds_until_it_was_stopped(sqlite_guard, next(numbers)), 3.3)


def _seconds_until_it_was_stopped(guard: Guard, number: int) -> float:
    reader, writer = os.pipe()
    script = "echo $$ >> pids; exec cat /dev/zero"
    options = ("--every", "run", "--complete-by", "3s", "--stop-grace", "0.1s")
    process = guard.start("run", "--key", "job", *options, "--", "sh", "-c", script, stdout=writer)
    command = int(guard.wait_for_line("pids", number)[-1])
    begun = time.monotonic()  # a moment after the claim, by which the seconds are counted
    wait_until(lambda: not alive(command), PATIENT, every=0.005, saying="the command is stopped")
    took = time.monotonic() - begun
    for descriptor in (reader, writer):
        os.close(descriptor)
    assert process.wait(PATIENT) == 124
    return took


def test_row_19_deadline_kills_who_ignores_the_request_while_nobody_reads_our_output(sqlite_guard: Guard) -> None:
    reader, writer = os.pipe()
    job = start(sqlite_guard, "cat /dev/zero", *SOON, *SHORT_GRACE, before="trap '' TERM", stdout=writer)
    assert job.code() == 124
    notes = attempt(sqlite_guard)["note"]
    assert "complete-by" in notes and "drain_timeout" in notes
    for descriptor in (reader, writer):
        os.close(descriptor)
