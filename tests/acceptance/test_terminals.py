"""Where cronguard speaks and where it is silent; and places with less than a terminal: no colour, no UTF-8, no home."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acceptance.looking import ON_A_TERMINAL_OF_ITS_OWN, STARTS, UNKNOWN_USER, change, refusal
from tests.rig.guard import Guard, Result

KEY = ("run", "--key", "nightly")
BOX_OR_COLOUR = re.compile("[\x1b\u2500-\u257f]")
ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def on_terminal(guard: Guard, *arguments: str, columns: int = 200) -> Result:
    """Run it at a terminal of its own, in the foreground; what the person sees is in `out`."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = guard.under(*ON_A_TERMINAL_OF_ITS_OWN, *guard.through).start(
        *arguments, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # what Linux says when the last process at the terminal has ended
        while piece := os.read(ours, 65536):
            seen += piece
    os.close(ours)
    return Result(process.wait(timeout=60), seen.decode().replace("\r\n", "\n"), "")


def silenced(guard: Guard, redirection: str) -> Guard:
    """Started by a shell with this redirection, such as `>&-`."""
    return guard.under("sh", "-c", f'exec "$@" {redirection}', "sh")


def remembers(guard: Guard, runs: int) -> None:
    """A ledger with that many runs, without having run them."""
    assert guard.run(*KEY, "--", "true").code == 0
    columns = "key, state, lane, attempt, failures, recoveries, attempts_allowed, recoveries_allowed, token, exit_code"
    change(
        guard,
        f"with recursive n(i) as (select 1 union all select i + 1 from n where i < ?) "
        f"insert into run (period, started_at, finished_at, {columns}) "
        f"select 'period-' || i, finished_at, finished_at, {columns} from n, run where period = ?",
        runs, datetime.now(UTC).date().isoformat(),
    )  # fmt: skip


# --- Words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("history",), ("show", "nightly"), (*KEY, "--dry-run", "--", "true"), ("--help",)])
def test_piped_output_has_neither_boxes_nor_colours(sqlite_guard: Guard, command: tuple[str, ...]) -> None:
    assert sqlite_guard.run(*KEY, "--", "true").code == 0
    result = sqlite_guard.with_env(FORCE_COLOR="1", TERM="xterm-256color", COLUMNS="20").run(*command)
    assert (result.code, result.err) == (0, "")
    assert not BOX_OR_COLOUR.search(result.out)


def test_piped_history_is_one_line_a_run_never_cut_off(sqlite_guard: Guard) -> None:
    key = "a-rather-long-name-of-a-job-" * 5
    assert sqlite_guard.run("run", "--key", key, "--", "true").code == 0
    header, line = sqlite_guard.with_env(COLUMNS="40").run("history").out.splitlines()
    assert header.split() == ["KEY", "PERIOD", "STATE", "ATTEMPT", "EXIT", "STARTED", "TOOK", "SKIPS", "HOST"]
    assert line.split()[0] == key


def test_at_a_terminal_a_skip_says_why_in_one_line(sqlite_guard: Guard) -> None:
    first = on_terminal(sqlite_guard, *KEY, "--", "echo", "hi")
    second = on_terminal(sqlite_guard, *KEY, "--", "echo", "hi")
    run = sqlite_guard.show("nightly")
    assert (first.code, first.out) == (0, "hi\n")
    assert second.code == 0
    finished_at = run["finished_at"][:19] + "Z"
    assert second.out == (
        f"cronguard: not run: nightly {run['period']}: already succeeded at {finished_at} on {run['host']}\n"
    )


def test_at_a_terminal_spent_attempts_say_how_to_run_it_again(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run(*KEY, "--", "sh", "-c", "exit 3").code == 3
    result = on_terminal(sqlite_guard, *KEY, "--", "true")
    assert result.code == 3
    assert result.out.endswith(": it failed already (exit 3); to run it again, add --rerun\n")
    assert len(result.out.splitlines()) == 1


def test_at_a_terminal_history_is_a_table_and_no_color_is_heeded(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run(*KEY, "--", "true").code == 0
    guard = sqlite_guard.with_env(TERM="xterm-256color")
    with_colour = on_terminal(guard, "history")
    assert (with_colour.code, "\x1b[" in with_colour.out, "succeeded" in with_colour.out) == (0, True, True)
    without = on_terminal(guard.with_env(NO_COLOR="1"), "history")
    assert without.code == 0
    assert not re.search("\x1b\\[[0-9;]*3[0-9]m", without.out)
    dumb = on_terminal(sqlite_guard.with_env(TERM="dumb"), "history")
    assert not BOX_OR_COLOUR.search(dumb.out)


def test_narrow_terminal_cuts_nothing_off(sqlite_guard: Guard) -> None:
    key = "a-rather-long-name-of-a-job"
    assert sqlite_guard.run("run", "--key", key, "--", "true").code == 0
    for columns, drawn in ((60, False), (120, True)):
        result = on_terminal(sqlite_guard.with_env(TERM="xterm"), "history", columns=columns)
        assert (result.code, BOX_OR_COLOUR.search(result.out) is not None) == (0, drawn)
        assert f"{key}  {sqlite_guard.show(key)['period']}  succeeded" in result.out


# --- An ASCII locale --------------------------------------------------------------------------------------------------


def test_key_is_the_same_bytes_in_every_locale(sqlite_guard: Guard) -> None:
    """Else two hosts that fire `täglich` would run two jobs."""
    ascii_guard = sqlite_guard.with_env(**ASCII)
    script = 'printf %s "$CRONGUARD_KEY" >"$1"'
    first = ascii_guard.run("run", "--key", "täglich", "--expand", "--", "sh", "-c", script, "sh", "{key}.txt")
    assert (first.code, first.err) == (0, "")
    assert (sqlite_guard.folder / "täglich.txt").read_text() == "täglich"
    assert sqlite_guard.run("run", "--key", "täglich", *STARTS).code == 0
    assert not (sqlite_guard.folder / "started").exists()
    assert [run["key"] for run in sqlite_guard.history("täglich")] == ["täglich"]
    assert [run["key"] for run in ascii_guard.history("täglich")] == ["täglich"]


def test_ascii_locale_gets_escapes_and_no_traceback(sqlite_guard: Guard, tmp_path: Path) -> None:
    guard = sqlite_guard.with_env(**ASCII, CRONGUARD_STATE_DIR=str(tmp_path / "zustände"))
    assert guard.run("run", "--key", "täglich", "--", "true").code == 0
    assert (tmp_path / "zustände" / "ledger.db").exists()
    for command in (("history",), ("show", "täglich"), ("run", "--key", "täglich", "--dry-run", "--", "true")):
        result = guard.run(*command)
        assert (result.code, result.err) == (0, "")
        assert "t\\xe4glich" in result.out
    assert "no run of t\\xe4gig" in guard.run("show", "tägig").only_line
    assert "t\\xe4glich: not found in PATH" in guard.run("run", "--key", "b", "--", "täglich").only_line.replace(
        "\\udcc3\\udca4", "\\xe4"
    )


@pytest.mark.parametrize("command", [(), ("run",), ("history",)])
def test_help_is_told_in_an_ascii_locale_too(bare_guard: Guard, command: tuple[str, ...]) -> None:
    result = bare_guard.with_env(**ASCII).run(*command, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Usage: cronguard ")


def test_ascii_terminal_gets_escapes_and_no_traceback(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run("run", "--key", "täglich", "--", "true").code == 0
    guard = sqlite_guard.with_env(**ASCII, TERM="xterm")
    for command in (("history",), ("show", "täglich"), ("run", "--key", "täglich", "--", "true")):
        result = on_terminal(guard, *command)
        assert result.code == 0
        assert "t\\xe4glich" in result.out


# --- Closed and broken streams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"])
def test_closed_streams_change_neither_the_run_nor_its_exit_code(sqlite_guard: Guard, redirection: str) -> None:
    guard = silenced(sqlite_guard, redirection)
    assert guard.run(*KEY, "--", "sh", "-c", "touch started; exit 3").code == 3
    assert guard.run(*KEY, "--", "true").code == 3
    assert guard.run("run", "--key", "b", "--lease", "1 hour", "--", "true").code == 125
    assert [run["exit_code"] for run in sqlite_guard.history()] == [3]


@pytest.mark.parametrize(
    ("redirection", "out", "err"),
    [(">&-", "", "err\n"), ("2>&-", "out\n", ""), (">&- 2>&-", "", ""), (">/dev/full", "", "err\n")],
)
def test_quiet_with_nowhere_to_print_keeps_the_exit_code(
    sqlite_guard: Guard, redirection: str, out: str, err: str
) -> None:
    result = silenced(sqlite_guard, redirection).run(
        *KEY, "--quiet", "--", "sh", "-c", "echo out; echo err >&2; exit 3"
    )
    assert (result.code, result.out, result.err) == (3, out, err)


@pytest.mark.parametrize("command", [("history",), ("history", "--json"), ("show", "nightly"), ("--help",)])
def test_views_on_a_closed_stdout_say_nothing(sqlite_guard: Guard, command: tuple[str, ...]) -> None:
    assert sqlite_guard.run(*KEY, "--", "true").code == 0
    result = silenced(sqlite_guard, ">&-").run(*command)
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("command", [("history",), ("--help",), ("--version",), (*KEY, "--dry-run", "--", "true")])
def test_full_disk_is_one_line_and_no_success(sqlite_guard: Guard, command: tuple[str, ...]) -> None:
    result = silenced(sqlite_guard, ">/dev/full").run(*command)
    assert result.code == 125
    assert "No space left on device" in result.only_line


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_reader_that_goes_away_is_no_traceback(sqlite_guard: Guard, form: tuple[str, ...]) -> None:
    """`cronguard history | head -1`: the code is that of a program that died of SIGPIPE."""
    remembers(sqlite_guard, 3000)
    process = sqlite_guard.start("history", "-n", "5000", *form)
    assert process.stdout
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr
    assert (process.wait(timeout=60), process.stderr.read()) == (141, "")


def test_history_shows_as_many_runs_as_it_was_asked_for(sqlite_guard: Guard) -> None:
    remembers(sqlite_guard, 30)
    assert len(sqlite_guard.run("history").out.splitlines()) == 1 + 20
    assert len(sqlite_guard.run("history", "-n", "3").out.splitlines()) == 1 + 3
    assert len(sqlite_guard.run("history", "--limit", "100").out.splitlines()) == 1 + 31


# --- No home, no name -------------------------------------------------------------------------------------------------


@pytest.mark.needs("namespaces")
def test_unknown_user_without_a_home_needs_only_a_place_for_the_ledger(sqlite_guard: Guard) -> None:
    guard = sqlite_guard.with_env(HOME=None).under(*UNKNOWN_USER)
    result = guard.run(*KEY, "--", "sh", "-c", "id -u; exit 3")
    assert (result.code, result.out, result.err) == (3, "54321\n", "")
    assert guard.run(*KEY, "--rerun", "--", "true").code == 0
    requested_by = guard.show("nightly")["attempts"][-1]["requested_by"]
    assert requested_by == f"uid 54321@{os.uname().nodename}"


@pytest.mark.needs("namespaces")
def test_ledger_of_a_user_lies_in_the_home_or_where_xdg_says(bare_guard: Guard, tmp_path: Path) -> None:
    guard = bare_guard.under(*UNKNOWN_USER)
    assert guard.run(*KEY, "--", "true").code == 0
    assert (tmp_path / "home" / ".local" / "state" / "cronguard" / "ledger.db").exists()
    assert guard.with_env(XDG_STATE_HOME=str(tmp_path / "xdg")).run(*KEY, "--", "true").code == 0
    assert (tmp_path / "xdg" / "cronguard" / "ledger.db").exists()


@pytest.mark.needs("namespaces")
def test_user_with_no_place_for_the_ledger_is_told_what_to_set(bare_guard: Guard) -> None:
    line = refusal(bare_guard.with_env(HOME=None).under(*UNKNOWN_USER), *KEY, *STARTS)
    assert line == (
        "cronguard: HOME is not set, so there is no place for the ledger; set CRONGUARD_STATE_DIR or CRONGUARD_DSN"
    )


@pytest.mark.needs("namespaces")
def test_user_with_a_home_that_cannot_be_written_is_told_what_to_set(bare_guard: Guard, tmp_path: Path) -> None:
    (tmp_path / "home").chmod(0o555)
    line = refusal(bare_guard.under(*UNKNOWN_USER), *KEY, *STARTS)
    assert line == (
        f"cronguard: the ledger {tmp_path}/home/.local/state/cronguard/ledger.db cannot be made: Permission denied; "
        "set CRONGUARD_STATE_DIR to a folder that can be written, or CRONGUARD_DSN to a Postgres"
    )


@pytest.mark.needs("namespaces")
def test_home_that_cannot_be_written_is_no_matter_with_a_ledger_elsewhere(
    postgres_guard: Guard, tmp_path: Path
) -> None:
    (tmp_path / "home").chmod(0o555)
    guard = postgres_guard.with_env(CRONGUARD_STATE_DIR=None).under(*UNKNOWN_USER)
    for where in (guard, guard.with_env(HOME=None)):
        result = where.run(*KEY, "--rerun", "--force", "--", "echo", "hi")
        assert (result.code, result.out, result.err) == (0, "hi\n", "")


def test_name_of_the_user_that_is_no_text_is_no_reason_to_fail(sqlite_guard: Guard) -> None:
    guard = sqlite_guard.with_env(USER=os.fsdecode(b"\xff"))
    assert guard.run(*KEY, "--rerun", "--", "true").code == 0
    assert guard.show("nightly")["attempts"][0]["requested_by"].startswith("\\udcff@")


def test_bare_environment_is_enough(sqlite_guard: Guard) -> None:
    """As cron or a container may start it: no PATH, no locale, no TERM."""
    environment = {"CRONGUARD_STATE_DIR": sqlite_guard.environment["CRONGUARD_STATE_DIR"]}
    guard = Guard(sqlite_guard.folder, environment)
    result = guard.run(*KEY, "--", "sh", "-c", "echo hi")
    assert (result.code, result.out, result.err) == (0, "hi\n", "")
