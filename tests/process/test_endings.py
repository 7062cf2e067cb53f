"""Rows 1 to 13 and 57 to 59 of the event table: how a command ends by itself, or does not begin."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Database
from tests.rig.guard import PROGRAM, Guard
from tests.rig.postgres import Server
from tests.rig.proxy import Proxy
from tests.rig.supervised import SHORT_LEASE, attempt, ended, run, start

KEY = ("run", "--key", "job")


def test_row_01_exit_0_is_a_success_and_the_lease_is_released(guard: Guard) -> None:
    result = run(guard, "echo out; echo err >&2")
    assert (result.code, result.out, result.err) == (0, "out\n", "err\n")
    assert ended(guard) == ("succeeded", "succeeded")
    assert guard.show("job")["lease_until"] is None


@pytest.mark.parametrize("code", [1, 75, 76, 124, 125, 143, 255])
def test_row_02_exit_codes_pass_verbatim_even_those_that_are_our_own_words(sqlite_guard: Guard, code: int) -> None:
    process = sqlite_guard.start(*KEY, "--", "sh", "-c", f"exit {code}")
    assert process.wait(20) == code  # never by a signal: the command has exited
    assert (ended(sqlite_guard), attempt(sqlite_guard)["exit_code"]) == (("failed", "failed"), code)


@pytest.mark.parametrize("signum", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE])
def test_row_03_cronguard_dies_of_the_signal_that_its_command_died_of(sqlite_guard: Guard, signum: int) -> None:
    """Whether the command dumped core is not recorded."""
    process = sqlite_guard.start(*KEY, "--", "sh", "-c", f"ulimit -c 0; kill -{signum:d} $$")
    assert process.wait(20) == -signum
    assert (ended(sqlite_guard), attempt(sqlite_guard)["signal"]) == (("failed", "failed"), signum)


def test_row_03_cronguard_leaves_no_core_of_its_own(sqlite_guard: Guard) -> None:
    argv = [*PROGRAM, *KEY, "--", "sh", "-c", "ulimit -c 0; kill -SEGV $$"]
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    try:
        pid = os.posix_spawn(argv[0], argv, dict(sqlite_guard.environment))
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limits)
    _, status = os.waitpid(pid, 0)
    assert (os.WTERMSIG(status), os.WCOREDUMP(status)) == (signal.SIGSEGV, False)


def test_row_04_command_killed_from_outside_as_by_the_oom_killer_is_137_and_has_failed(sqlite_guard: Guard) -> None:
    """That it was the kernel, for want of memory, is told from the cgroup's counter: see tests/unit/test_oom.py."""
    job = start(sqlite_guard, "exec sleep 60")
    os.kill(job.command, signal.SIGKILL)
    assert job.code() == 137
    assert (ended(sqlite_guard), attempt(sqlite_guard)["signal"]) == (("failed", "failed"), 9)


def test_row_05_killed_grandchild_that_the_shell_swallows_is_the_commands_own_affair(sqlite_guard: Guard) -> None:
    """Only a kill for want of memory would be noted, by the cgroup's counter: see tests/unit/test_oom.py."""
    assert run(sqlite_guard, "sh -c 'kill -9 $$'; exit 0").code == 0
    assert ended(sqlite_guard) == ("succeeded", "succeeded")


@pytest.mark.parametrize("command", ["no-such-command", "./no-such-file", "/no/such/folder/file"])
def test_row_06_command_that_is_not_there_is_127_and_named(sqlite_guard: Guard, command: str) -> None:
    result = sqlite_guard.run(*KEY, "--", command)
    assert (result.code, command in result.only_line, "not found" in result.only_line) == (127, True, True)
    assert (ended(sqlite_guard), attempt(sqlite_guard)["exit_code"]) == (("failed", "start_failed"), 127)


def made(folder: Path, name: str, content: bytes, mode: int = 0o755) -> str:
    (folder / name).write_bytes(content)
    (folder / name).chmod(mode)
    return f"./{name}"


def cannot_be_executed(folder: Path, why: str) -> str:
    match why:
        case "Permission denied":
            return made(folder, "plain", b"#!/bin/sh\n", 0o644)
        case "directory":
            (folder / "directory").mkdir()
            return "./directory"
        case "Too many levels of symbolic links":
            (folder / "loop").symlink_to("loop")
            return "./loop"
        case "Not a directory":
            return made(folder, "file", b"#!/bin/sh\n") + "/below"
        case _:
            return made(folder, "binary", b"\x7fELF\0\0\0\1garbage\0\n", 0o755)


@pytest.mark.parametrize(
    "why", ["Permission denied", "directory", "Too many levels of symbolic links", "Not a directory", "binary"]
)
def test_row_07_what_cannot_be_executed_is_126_with_the_systems_own_words(sqlite_guard: Guard, why: str) -> None:
    command = cannot_be_executed(sqlite_guard.folder, why)
    result = sqlite_guard.run(*KEY, "--", command)
    assert (result.code, command in result.only_line) == (126, True)
    assert {"directory": "Permission denied", "binary": ""}.get(why, why) in result.only_line
    assert ended(sqlite_guard) == ("failed", "start_failed")


@pytest.mark.parametrize("how", ["by path", "in PATH"])
def test_row_08_text_without_an_interpreter_line_is_run_by_the_shell(sqlite_guard: Guard, how: str) -> None:
    made(sqlite_guard.folder, "script", b'echo "$1"; exit 5\n')
    guard = sqlite_guard.with_env(PATH=f"{sqlite_guard.folder}:/bin:/usr/bin")
    result = guard.run(*KEY, "--", "./script" if how == "by path" else "script", "a b")
    assert (result.code, result.out) == (5, "a b\n")


@pytest.mark.parametrize("first", [b"#!/no/such/interpreter\n", b"#!/bin/sh\r\n"], ids=["missing", "CRLF"])
def test_row_09_missing_interpreter_is_127_and_says_that_it_is_that(sqlite_guard: Guard, first: bytes) -> None:
    command = made(sqlite_guard.folder, "script", first + b"exit 0\n")
    result = sqlite_guard.run(*KEY, "--", command)
    assert (result.code, command in result.only_line, "interpreter" in result.only_line) == (127, True, True)
    assert ended(sqlite_guard) == ("failed", "start_failed")


def test_row_10_empty_command_is_refused_before_anything_is_claimed(sqlite_guard: Guard) -> None:
    """There is no --chdir; a NUL cannot come in by an argument."""
    result = sqlite_guard.run(*KEY, "--", "")
    assert (result.code, "empty" in result.only_line) == (125, True)
    assert sqlite_guard.history() == []


def test_row_10_argument_that_grows_too_big_is_126(sqlite_guard: Guard) -> None:
    """One that is too big from the start cannot even reach cronguard."""
    key = "k" * 200
    result = sqlite_guard.run("run", "--key", key, "--expand", "--", "echo", "{key}" * 700)
    assert (result.code, "too long" in result.only_line) == (126, True)
    assert sqlite_guard.show(key)["attempts"][0]["outcome"] == "start_failed"


def test_row_11_one_word_with_blanks_is_127_with_a_hint(sqlite_guard: Guard) -> None:
    """There is no --shell: the hint names separate words."""
    result = sqlite_guard.run(*KEY, "--", "echo hello")
    assert (result.code, "separate words" in result.only_line) == (127, True)


@pytest.mark.parametrize("wrong", [("--no-such-option",), ("--lease", "soon"), ("--lease", "1s", "--stop-grace", "8s")])
def test_row_12_usage_error_is_125_in_one_line_and_starts_nothing(sqlite_guard: Guard, wrong: tuple[str, ...]) -> None:
    result = sqlite_guard.run(*KEY, *wrong, "--", "touch", "started")
    assert (result.code, bool(result.only_line)) == (125, True)
    assert not (sqlite_guard.folder / "started").exists()
    assert sqlite_guard.history() == []


def test_row_12_unreachable_ledger_is_75_and_starts_nothing(bare_guard: Guard) -> None:
    guard = bare_guard.with_env(CRONGUARD_DSN="postgresql://127.0.0.1:1/x", CRONGUARD_STATE_DIR=str(bare_guard.folder))
    result = guard.run(*KEY, "--db-wait", "0.3s", "--", "touch", "started")
    assert (result.code, bool(result.only_line)) == (75, True)
    assert not (guard.folder / "started").exists()


def test_row_13_run_held_elsewhere_is_a_silent_skip_with_the_exit_code_of_ones_choice(sqlite_guard: Guard) -> None:
    """--skip-exit is what we have for --conflict-exit."""
    start(sqlite_guard, "exec sleep 60")
    for options, code in ((), 0), (("--skip-exit", "99"), 99):
        result = run(sqlite_guard, "touch started", *options)
        assert (result.code, result.out, result.err) == (code, "", "")
    assert not (sqlite_guard.folder / "started").exists()
    assert [skip["reason"] for skip in sqlite_guard.show("job")["skipped"]] == ["held", "held"]


def test_row_57_silent_command_that_succeeds_makes_no_mail(sqlite_guard: Guard) -> None:
    result = run(sqlite_guard, ":")
    assert (result.code, result.out, result.err) == (0, "", "")


@pytest.mark.parametrize(("code", "heard"), [(0, False), (3, True)])
def test_row_58_quiet_lets_only_a_failure_be_heard(sqlite_guard: Guard, code: int, heard: bool) -> None:
    result = run(sqlite_guard, f"echo out; echo err >&2; exit {code}", "--quiet")
    assert (result.code, result.out, result.err) == (code, "out\n" * heard, "err\n" * heard)


def test_row_58_quiet_lets_a_deadline_be_heard(sqlite_guard: Guard) -> None:
    result = run(sqlite_guard, "echo out; exec sleep 60", "--quiet", "--complete-by", "5s")
    assert (result.code, result.out) == (124, "out\n")


def test_row_59_result_that_cannot_be_written_is_kept_and_changes_no_exit_code(
    database: Database, proxy: Callable[[Server], Proxy], postgres_guard: Guard
) -> None:
    way = proxy(database.server)
    guard = postgres_guard.with_env(CRONGUARD_DSN=database.through(way))
    job = start(guard, "until [ -e go ]; do sleep 0.05; done; exit 3", *SHORT_LEASE)
    way.cut()
    (guard.folder / "go").touch()
    assert job.status() == 3
    assert len(job.said().splitlines()) == 1
    way.restore()
    assert guard.run("history").code == 0  # delivers
    assert (ended(guard), attempt(guard)["exit_code"]) == (("failed", "failed"), 3)
