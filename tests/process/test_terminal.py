"""Rows 18, 34 to 38, 41, 44, 53 and 54 of the event table: a person at a terminal, in a shell with job control."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.rig.guard import PROGRAM, Guard
from tests.rig.processes import alive, stopped
from tests.rig.supervised import (
    AT_ONCE,
    ENDLESS,
    LONG_LEASE,
    PATIENT,
    PERIOD,
    TICKING,
    attempt,
    ended,
    kill,
    moves,
    nobody_left,
    parent_of,
    stands_still,
    start,
    wait_until_ended,
    worker_of,
)
from tests.rig.terminal import CTRL_BACKSLASH, CTRL_C, CTRL_D, CTRL_Z, PROMPT, Terminal
from tests.rig.waiting import wait_until


@pytest.fixture
def terminal(sqlite_guard: Guard) -> Iterator[Terminal]:
    with Terminal(sqlite_guard.folder, sqlite_guard.environment) as terminal:
        yield terminal


@dataclass(frozen=True)
class Job:
    """What the person has started: by their pids."""

    guardian: int
    worker: int
    command: int


def typed(script: str, *options: str) -> str:
    return shlex.join([*PROGRAM, "run", "--key", "job", *options, "--", "sh", "-c", script])


@pytest.fixture
def begun(terminal: Terminal, sqlite_guard: Guard) -> Callable[..., Job]:
    """`begun(script, *options, before=…)`: typed, and running."""

    def begin(script: str, *options: str, before: str = ":") -> Job:
        terminal.type(typed(f"{before}; echo $$ >> pids; {script}", *options))
        command = int(sqlite_guard.wait_for_line("pids")[-1])
        worker = parent_of(command)
        return Job(parent_of(worker), worker, command)

    return begin


HEARD = "trap 'echo {0} >> heard' {0}"


def test_row_34_ctrl_c_reaches_the_command_and_the_run_has_failed(
    sqlite_guard: Guard, terminal: Terminal, begun: Callable[..., Job]
) -> None:
    """Failed and not pending: the person is there. cronguard dies of it as its command did, so that loops end too."""
    job = begun(ENDLESS)
    terminal.wait_for_foreground(job.guardian)
    terminal.press(CTRL_C)
    terminal.read(PROMPT)
    assert terminal.last_code() == 130
    nobody_left(sqlite_guard.folder / "nobody", job.guardian, job.worker, job.command)
    assert (ended(sqlite_guard), attempt(sqlite_guard)["signal"]) == (("failed", "failed"), signal.SIGINT)


@pytest.mark.parametrize(("key", "signum"), [(CTRL_C, signal.SIGINT), (CTRL_BACKSLASH, signal.SIGQUIT)])
def test_row_14_key_that_interrupts_ends_the_wait_for_the_lease(
    sqlite_guard: Guard, terminal: Terminal, key: str, signum: int
) -> None:
    """No command is there to hear it: cronguard does, and dies of it."""
    held = start(sqlite_guard, ENDLESS, *LONG_LEASE)
    terminal.type(typed("echo >> ran", "--period", PERIOD, "--if-held", "wait"))
    wait_until(lambda: worker_of(terminal.foreground()), saying="cronguard has its worker")
    terminal.press(key)
    terminal.read(PROMPT)
    assert terminal.last_code() == 128 + signum
    kill(held.command)
    assert held.code() == 137
    assert not (sqlite_guard.folder / "ran").exists()


def test_row_34_ctrl_c_between_two_tries_ends_them(sqlite_guard: Guard, terminal: Terminal) -> None:
    terminal.type(typed("echo >> tries; exit 3", "--attempts", "2", "--retry-delay", "10m"))
    terminal.read("next try in")
    terminal.press(CTRL_C)
    terminal.read(PROMPT)
    assert terminal.last_code() == 3
    assert len(sqlite_guard.lines("tries")) == 1
    assert ended(sqlite_guard) == ("failed", "failed")


def test_row_34_ctrl_c_ends_a_loop_of_the_shell_as_it_would_without_us(sqlite_guard: Guard, terminal: Terminal) -> None:
    command = typed("echo $$ >> pids; exec sleep 60", "--every", "run")
    terminal.type(f"while :; do {command}; done")
    sqlite_guard.wait_for_line("pids")
    terminal.press(CTRL_C)
    terminal.read(PROMPT)
    assert len(sqlite_guard.lines("pids")) == 1


def test_row_34_command_that_takes_ctrl_c_for_a_request_ends_with_its_own_code(
    sqlite_guard: Guard, terminal: Terminal, begun: Callable[..., Job]
) -> None:
    begun(ENDLESS, before="trap 'exit 5' INT")
    terminal.press(CTRL_C)
    terminal.read(PROMPT)
    assert terminal.last_code() == 5
    assert (ended(sqlite_guard), attempt(sqlite_guard)["exit_code"]) == (("failed", "failed"), 5)


def test_row_35_int_sent_to_cronguard_alone_is_passed_on_once(
    sqlite_guard: Guard, begun: Callable[..., Job], terminal: Terminal
) -> None:
    """The terminal has given nothing to the command: this one is told apart from Ctrl-C."""
    job = begun(ENDLESS, "--stop-grace", "30s", before=HEARD.format("INT"))
    kill(job.guardian, signum=signal.SIGINT)
    sqlite_guard.wait_for_line("heard")
    assert stands_still(sqlite_guard.folder / "heard", 0.5)
    kill(job.command)
    terminal.read(PROMPT)
    assert sqlite_guard.lines("heard") == ["INT"]


def test_row_36_command_that_goes_on_after_ctrl_c_hears_it_once(
    sqlite_guard: Guard, terminal: Terminal, begun: Callable[..., Job]
) -> None:
    """As a REPL does; however often, nothing is counted and nothing killed."""
    job = begun("until [ -e go ]; do sleep 0.05; done; exit 0", "--stop-grace", "0.2s", before=HEARD.format("INT"))
    for number in range(1, 5):
        terminal.press(CTRL_C)
        sqlite_guard.wait_for_line("heard", number)
    assert stands_still(sqlite_guard.folder / "heard", 0.6)
    assert alive(job.command)
    (sqlite_guard.folder / "go").touch()
    terminal.read(PROMPT)
    assert terminal.last_code() == 0
    assert (ended(sqlite_guard), len(sqlite_guard.lines("heard"))) == (("succeeded", "succeeded"), 4)


def test_row_36_interpreter_at_the_terminal_can_be_used(sqlite_guard: Guard, terminal: Terminal) -> None:
    """It reads what is typed, survives Ctrl-C, and sees a terminal on all three descriptors."""
    terminal.type(shlex.join([*PROGRAM, "run", "--key", "job", "--", "bash", "--norc", "--noediting", "-i"]))
    terminal.read(PROMPT)
    terminal.press(CTRL_C)
    terminal.read(PROMPT)
    assert terminal.do("test -t 0 && test -t 1 && test -t 2 && echo $((40 + 2))") == "42\n"
    assert terminal.do("sh -c 'echo inner > /dev/tty'") == "inner\n"
    terminal.press(CTRL_D)
    terminal.read(PROMPT)
    assert terminal.do("echo $((50 + 3))") == "53\n"
    assert ended(sqlite_guard) == ("succeeded", "succeeded")


def test_rows_37_38_ctrl_z_gives_the_shell_back_while_the_lease_is_kept_and_fg_goes_on(
    sqlite_guard: Guard, terminal: Terminal, begun: Callable[..., Job]
) -> None:
    job = begun(TICKING, *LONG_LEASE)
    moves(sqlite_guard.folder / "ticks")
    terminal.press(CTRL_Z)
    terminal.read(f"Stopped(?s:.*){PROMPT}")
    wait_until(lambda: stopped(job.command) and stopped(job.guardian), saying="both are stopped")
    assert stands_still(sqlite_guard.folder / "ticks", 0.3)
    seen = {sqlite_guard.show("job")["lease_until"]}
    wait_until(
        lambda: seen.add(sqlite_guard.show("job")["lease_until"]) or len(seen) > 2,
        every=0.2, saying="the lease is renewed twice",
    )  # fmt: skip
    terminal.type("fg")
    moves(sqlite_guard.folder / "ticks")
    terminal.press(CTRL_C)
    terminal.read(PROMPT)
    assert terminal.last_code() == 130
    assert ended(sqlite_guard) == ("failed", "failed")


def test_row_38_bg_lets_it_go_on_and_end_in_the_background(
    sqlite_guard: Guard, terminal: Terminal, begun: Callable[..., Job]
) -> None:
    begun("until [ -e go ]; do echo tick >> ticks; sleep 0.05; done; exit 3")
    moves(sqlite_guard.folder / "ticks")
    terminal.press(CTRL_Z)
    terminal.read(f"Stopped(?s:.*){PROMPT}")
    terminal.type("bg")
    terminal.read(PROMPT)  # before which it would be told of a job that has ended, and know it no more
    moves(sqlite_guard.folder / "ticks")
    (sqlite_guard.folder / "go").touch()
    terminal.type("wait %1; echo code=$?")
    assert terminal.read(r"code=(\d+)")[1] == "3"
    assert ended(sqlite_guard) == ("failed", "failed")


def test_row_18_deadline_reaches_a_command_that_ctrl_z_has_stopped(
    sqlite_guard: Guard, terminal: Terminal, begun: Callable[..., Job]
) -> None:
    """The worker alone does it: guardian and shell need not do anything."""
    job = begun(ENDLESS, "--complete-by", "8s", before="trap 'exit 7' TERM")
    terminal.press(CTRL_Z)
    terminal.read(f"Stopped(?s:.*){PROMPT}")
    assert wait_until_ended(sqlite_guard) == ("timed_out", "timed_out")
    assert attempt(sqlite_guard)["exit_code"] == 7
    assert not alive(job.command)
    terminal.type("fg; echo code=$?")
    assert terminal.read(r"code=(\d+)")[1] == "124"


def test_row_41_closed_terminal_ends_the_command_and_the_run_is_pending(
    sqlite_guard: Guard, terminal: Terminal, begun: Callable[..., Job]
) -> None:
    job = begun(ENDLESS, before="trap 'echo HUP >> heard; exit 0' HUP")
    terminal.wait_for_foreground(job.guardian)
    terminal.hang_up()
    nobody_left(sqlite_guard.folder / "nobody", job.guardian, job.worker, job.command, within=PATIENT)
    assert set(sqlite_guard.lines("heard")) == {"HUP"}
    assert ended(sqlite_guard) == ("pending", "interrupted")


def test_row_41_closed_terminal_ends_even_a_command_that_ignores_it(
    sqlite_guard: Guard, terminal: Terminal, begun: Callable[..., Job]
) -> None:
    job = begun(ENDLESS, "--stop-grace", "0.5s", before="trap '' HUP")
    terminal.wait_for_foreground(job.guardian)
    terminal.hang_up()
    nobody_left(sqlite_guard.folder / "nobody", job.guardian, job.worker, job.command, within=PATIENT)
    assert ended(sqlite_guard) == ("pending", "interrupted")


def test_row_44_ctrl_backslash_is_the_commands_own_end(
    sqlite_guard: Guard, terminal: Terminal, begun: Callable[..., Job]
) -> None:
    begun(ENDLESS, before="ulimit -c 0")
    terminal.press(CTRL_BACKSLASH)
    terminal.read(PROMPT)
    assert terminal.last_code() == 131
    assert (ended(sqlite_guard), attempt(sqlite_guard)["signal"]) == (("failed", "failed"), signal.SIGQUIT)


def test_row_53_command_that_was_stopped_for_using_the_terminal_still_has_its_deadline(
    sqlite_guard: Guard, terminal: Terminal, begun: Callable[..., Job]
) -> None:
    """A background process group that reads the terminal: no layout of ours makes one, but a shell inside may."""
    script = "set -m; (echo $BASHPID > reader; read -r line < /dev/tty) & set +m; while :; do sleep 0.1; done"
    job = begun(f"exec bash -c {shlex.quote(script)}", "--complete-by", "8s", "--stop-grace", "0.5s")
    reader = int(sqlite_guard.wait_for_line("reader")[0])
    wait_until(lambda: stopped(reader), saying="it is stopped by the terminal")
    terminal.read("complete-by")
    terminal.read(PROMPT)
    assert terminal.last_code() == 124
    nobody_left(sqlite_guard.folder / "nobody", job.command, reader, within=0.1)


def test_row_54_background_job_of_a_person_gets_no_keyboard(sqlite_guard: Guard, terminal: Terminal) -> None:
    """In a session of its own it could read what is typed for somebody else."""
    terminal.type(typed("readlink /proc/self/fd/0 > stdin; cat > read") + " & wait %1; echo code=$?")
    assert terminal.read(r"code=(\d+)")[1] == "0"
    assert sqlite_guard.lines("stdin") == ["/dev/null"]
    assert sqlite_guard.lines("read") == []
    assert ended(sqlite_guard) == ("succeeded", "succeeded")


def test_terminal_stays_what_it_was_after_a_kill_of_cronguard(
    sqlite_guard: Guard, terminal: Terminal, begun: Callable[..., Job]
) -> None:
    """Nothing had been changed that would have to be restored: the shell has its terminal back."""
    job = begun(ENDLESS)
    kill(job.guardian)
    terminal.read(f"Killed(?s:.*){PROMPT}")
    nobody_left(sqlite_guard.folder / "nobody", job.worker, job.command, within=AT_ONCE)
    assert terminal.do("echo $((40 + 2))") == "42\n"
    assert wait_until_ended(sqlite_guard) == ("pending", "lost")
