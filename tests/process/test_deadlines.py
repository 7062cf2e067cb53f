"""Rows 15 to 19 and 53 of the event table: complete-by, whatever the command or its reader does."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.rig.guard import Guard
from tests.rig.processes import alive, stopped
from tests.rig.supervised import ENDLESS, attempt, ended, kill, nobody_left, run, start
from tests.rig.waiting import wait_until

SOON = ("--complete-by", "1s", "--stop-grace", "0.5s")


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
    result = run(sqlite_guard, f"{before}; {ENDLESS}", *SOON)
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
    job = start(sqlite_guard, ENDLESS, "--complete-by", "2s", "--stop-grace", "5s", before="trap 'exit 7' TERM")
    # A process in a group without a parent in its session cannot be stopped by a terminal's signals but by SIGSTOP.
    kill(job.command, signum=signum)
    if signum == signal.SIGSTOP:
        wait_until(lambda: stopped(job.command), saying="the command is stopped")
    assert job.code() == 124
    assert (ended(sqlite_guard), attempt(sqlite_guard)["exit_code"]) == (("timed_out", "timed_out"), 7)


def test_row_19_deadline_is_kept_while_nobody_reads_our_output(sqlite_guard: Guard) -> None:
    """1.0 s is enforced by 1.3 s. The machine may be busy: of three measurements one has to be good."""
    taken = []
    for number in range(3):
        taken.append(_seconds_until_it_was_stopped(sqlite_guard, number + 1))
        if taken[-1] <= 1.3:
            break
    assert min(taken) <= 1.3, taken


def _seconds_until_it_was_stopped(guard: Guard, count: int) -> float:
    reader, writer = os.pipe()
    script = "echo $$ >> pids; exec cat /dev/zero"
    options = ("--every", "run", "--complete-by", "1s", "--stop-grace", "0.1s")
    process = guard.start("run", "--key", "job", *options, "--", "sh", "-c", script, stdout=writer)
    command = int(guard.wait_for_line("pids", count)[-1])
    begun = time.monotonic()  # a moment after the claim, by which the second is counted
    wait_until(lambda: not alive(command), 20, every=0.005, saying="the command is stopped")
    took = time.monotonic() - begun
    for descriptor in (reader, writer):
        os.close(descriptor)
    assert process.wait(20) == 124
    return took


def test_row_19_deadline_kills_who_ignores_the_request_while_nobody_reads_our_output(sqlite_guard: Guard) -> None:
    reader, writer = os.pipe()
    job = start(sqlite_guard, "cat /dev/zero", *SOON, before="trap '' TERM", stdout=writer)
    assert job.code() == 124
    notes = attempt(sqlite_guard)["note"]
    assert "complete-by" in notes and "drain_timeout" in notes
    for descriptor in (reader, writer):
        os.close(descriptor)
