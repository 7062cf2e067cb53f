"""The exit code says how the period's run ended, to the caller that ran it and to every later one."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.acceptance.looking import STARTS
from tests.rig.guard import Guard, code_of

KEY = ("run", "--key", "nightly")


def runs(guard: Guard) -> int:
    """How often the command was started: each of these tests' commands writes a line first."""
    return len(guard.lines("starts"))


def shell(script: str) -> tuple[str, ...]:
    """A command for the tests; what the shell itself says of signals is not cronguard's affair."""
    return ("--", "sh", "-c", f"exec 2>>/dev/null; echo >>starts; {script}")


@pytest.mark.parametrize("code", [0, 1, 2, 77, 125, 126, 127, 255])
def test_status_of_the_command_passes_unchanged_and_stays_the_periods(sqlite_guard: Guard, code: int) -> None:
    """Fired again, a failed period is not run, and still reads as failed: a Kubernetes Job must not turn green."""
    command = (*KEY, *shell(f"exit {code}"))
    for _ in range(2):
        result = sqlite_guard.run(*command)
        assert (result.code, result.out, result.err) == (code, "", "")
    assert runs(sqlite_guard) == 1
    run = sqlite_guard.show("nightly")
    assert (run["state"], run["exit_code"], run["skips"]) == ("failed" if code else "succeeded", code, 1)


@pytest.mark.parametrize("name", ["KILL", "TERM", "SEGV", "ABRT", "ALRM", "USR1", "PIPE"])
def test_signal_death_is_128_and_the_signals_number(sqlite_guard: Guard, name: str) -> None:
    number = signal.Signals[f"SIG{name}"]
    command = (*KEY, *shell(f"ulimit -c 0; kill -{name} $$"))
    assert [sqlite_guard.run(*command).code for _ in range(2)] == [128 + number] * 2
    assert runs(sqlite_guard) == 1
    run = sqlite_guard.show("nightly")
    assert (run["state"], run["exit_code"], run["signal"]) == ("failed", None, number)


def test_failed_period_reads_the_same_in_postgres(postgres_guard: Guard) -> None:
    command = (*KEY, *shell("kill -KILL $$"))
    assert [postgres_guard.run(*command).code for _ in range(2)] == [137, 137]
    assert runs(postgres_guard) == 1


@pytest.mark.parametrize("ends", ["by itself", "trapping", "by force"])
def test_command_stopped_at_its_complete_by_is_124(sqlite_guard: Guard, ends: str) -> None:
    """Whatever it says itself on the way out."""
    script = {"by itself": "", "trapping": "trap 'exit 3' TERM; ", "by force": "trap '' TERM; "}[ends]
    terms = ("--complete-by", "4s", "--stop-grace", "0.5s")  # long enough for the command to have begun
    result = sqlite_guard.run(*KEY, *terms, *shell(f"{script}while :; do sleep 0.1; done"))
    assert result.code == 124
    assert result.only_line.endswith(": stopped at its complete-by")
    again = sqlite_guard.run(*KEY, *terms, *shell("true"))
    assert (again.code, again.err, runs(sqlite_guard)) == (124, "", 1)
    assert sqlite_guard.show("nightly")["state"] == "timed_out"


def test_firing_too_late_to_start_is_124(sqlite_guard: Guard) -> None:
    result = sqlite_guard.run(*KEY, "--start-by", "2020-01-01T00:00:00Z", *STARTS)
    assert result.code == 124
    assert sqlite_guard.lines("started") == []
    assert not (sqlite_guard.folder / "started").exists()


# --- Commands that do not start ---------------------------------------------------------------------------------------


def made(folder: Path, name: str, text: str, mode: int) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(mode)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("./plain", 126, "./plain: cannot be executed: Permission denied"),
        ("./folder", 126, "./folder: cannot be executed: Permission denied"),
        ("./absent", 127, "./absent: not found, or the interpreter that its first line names is not there"),
        ("./orphan", 127, "./orphan: not found, or the interpreter that its first line names is not there"),
        ("no-such-command", 127, "no-such-command: not found in PATH (/bin:/usr/bin)"),
        ("echo hi", 127, "not found in PATH (/bin:/usr/bin); give the command and its arguments as separate words"),
    ],
)
def test_command_that_cannot_be_started(sqlite_guard: Guard, command: str, code: int, said: str) -> None:
    folder = sqlite_guard.folder
    made(folder, "plain", "#!/bin/sh\n", 0o644)
    made(folder, "orphan", "#!/no/such/interpreter\n", 0o755)
    (folder / "folder").mkdir()
    guard = sqlite_guard.with_env(PATH="/bin:/usr/bin")
    result = guard.run(*KEY, "--", command)
    assert result.code == code
    assert said in result.only_line
    again = guard.run(*KEY, "--", command)
    assert (again.code, again.err) == (code, "")
    run = guard.show("nightly")
    assert (run["state"], run["exit_code"], run["attempts"][0]["outcome"]) == ("failed", code, "start_failed")


@pytest.mark.parametrize("how", ["by path", "in PATH"])
def test_text_without_an_interpreter_line_is_run_by_the_shell(sqlite_guard: Guard, how: str) -> None:
    made(sqlite_guard.folder, "job", 'echo "$0: $*"\nexit 7\n', 0o755)
    guard = sqlite_guard.with_env(PATH=f"{sqlite_guard.folder}:/bin:/usr/bin")
    command = "./job" if how == "by path" else "job"
    result = guard.run(*KEY, "--", command, "a b", "c")
    path = command if how == "by path" else f"{guard.folder}/job"
    assert (result.code, result.out) == (7, f"{path}: a b c\n")


# --- Nothing was to be done -------------------------------------------------------------------------------------------


def test_skip_exit_is_for_a_period_that_has_succeeded(guard: Guard) -> None:
    assert guard.run(*KEY, "--skip-exit", "99", *shell("true")).code == 0
    assert guard.run(*KEY, "--skip-exit", "99", *shell("true")).code == 99
    assert guard.run(*KEY, *shell("true")).code == 0
    assert runs(guard) == 1


def test_skip_exit_is_for_a_run_that_is_held_elsewhere(guard: Guard) -> None:
    holder = guard.start(*KEY, *shell("read _; exit 5"), stdin=-1)
    guard.wait_for_line("starts")
    assert guard.run(*KEY, "--skip-exit", "99", *shell("true")).code == 99
    assert guard.run(*KEY, *shell("true")).code == 0
    assert guard.run(*KEY, "--period", "2020-01-01", "--skip-exit", "99", *shell("true")).code == 99
    holder.communicate("\n")
    assert (holder.returncode, runs(guard)) == (5, 1)


def test_skip_exit_does_not_hide_a_failure(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run(*KEY, *shell("exit 3")).code == 3
    assert sqlite_guard.run(*KEY, "--skip-exit", "99", *shell("true")).code == 3


def test_rerun_is_run_again_and_its_end_is_the_periods(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run(*KEY, *shell("exit 3")).code == 3
    assert sqlite_guard.run(*KEY, "--rerun", *shell("exit 4")).code == 4
    assert sqlite_guard.run(*KEY, *shell("true")).code == 4
    assert sqlite_guard.run(*KEY, "--rerun", *shell("true")).code == 0
    assert sqlite_guard.run(*KEY, "--rerun", "--skip-exit", "99", *shell("exit 5")).code == 99
    assert sqlite_guard.run(*KEY, "--rerun", "--force", *shell("exit 6")).code == 6
    assert runs(sqlite_guard) == 4


# --- cronguard is told to stop ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exec sleep 60", 143),
        ("trap 'echo heard >>heard; exit 0' TERM; while :; do sleep 0.1; done", 143),
        ("trap 'echo heard >>heard; exit 3' TERM; while :; do sleep 0.1; done", 3),
        ("trap '' TERM; while :; do sleep 0.1; done", 143),
    ],
)
def test_told_to_stop_it_stops_the_command_and_is_no_success(sqlite_guard: Guard, script: str, code: int) -> None:
    """The period is not over: the next firing runs it."""
    traps, _, _ = script.rpartition("; while")
    grace = "1s" if "trap ''" in script else "30s"  # it is run out by whoever does not hear, and by nobody else
    process = sqlite_guard.start(*KEY, "--stop-grace", grace, *shell(f"{traps or ':'}; echo >>ready; {script}"))
    sqlite_guard.wait_for_line("ready")
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == ("", "")
    assert code_of(process) == code
    assert sqlite_guard.lines("heard") == (["heard"] if "heard" in script else [])
    assert sqlite_guard.show("nightly")["state"] == "pending"
    assert sqlite_guard.run(*KEY, *shell("true")).code == 0
    assert runs(sqlite_guard) == 2


def test_other_signals_are_passed_on_and_stop_nothing(sqlite_guard: Guard) -> None:
    script = "trap 'echo heard >>heard; exit 9' USR1; echo >>ready; while :; do sleep 0.1; done"
    process = sqlite_guard.start(*KEY, *shell(script))
    sqlite_guard.wait_for_line("ready")
    process.send_signal(signal.SIGUSR1)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 9
    assert sqlite_guard.lines("heard") == ["heard"]
    assert sqlite_guard.show("nightly")["state"] == "failed"
