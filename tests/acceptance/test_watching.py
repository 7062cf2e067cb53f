"""Watching: at a terminal and elsewhere, nothing is written when nothing changes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import pytest

from tests.acceptance.looking import QUICK_BEATS
from tests.acceptance.test_inside import script
from tests.acceptance.test_terminals import ASCII
from tests.conftest import Database
from tests.rig.guard import PROGRAM, Guard, code_of
from tests.rig.supervised import start
from tests.rig.terminal import CTRL_C, PROMPT, Terminal
from tests.rig.waiting import wait_until

KEY = ("run", "--key", "job")
SILENT_FOR = 5.0  # seconds: more than two looks
ROW = "job +succeeded"


@pytest.fixture
def terminal(sqlite_guard: Guard) -> Iterator[Terminal]:
    with Terminal(sqlite_guard.folder, sqlite_guard.environment) as terminal:
        yield terminal


def typed(*arguments: str, **environment: str) -> str:
    return shlex.join(["env", *(f"{name}={value}" for name, value in environment.items()), *PROGRAM, *arguments])


# --- status --watch, at a terminal ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environment", [{"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}, {**ASCII, "TERM": "xterm"}]
)
def test_status_that_is_watched_is_drawn_once_and_again_only_when_something_happens(
    sqlite_guard: Guard, terminal: Terminal, environment: dict[str, str]
) -> None:
    assert sqlite_guard.run(*KEY, "--every", "run", "--", "true").code == 0  # never due: the hours to go would change
    terminal.do("stty cols 80")
    terminal.type(typed("status", "--watch", **environment))
    terminal.read(ROW)
    terminal.read(r"\n")
    while not terminal.stays_silent(0.5):
        pass  # the rest of the table
    terminal.seen = ""
    assert terminal.stays_silent(SILENT_FOR), terminal.seen
    assert sqlite_guard.run("pause", "job", "--yes", "--reason", "month end").code == 0
    drawn = terminal.read(r"(?s)(.*)job +paused")[1]
    assert ("\x1b[" in drawn) == (environment["TERM"] != "dumb")
    terminal.read("month end")
    if "NO_COLOR" in environment:
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", drawn)
    terminal.press(CTRL_C)
    terminal.read(PROMPT)
    assert terminal.last_code() == 130
    assert "Traceback" not in terminal.seen


def test_table_is_drawn_in_the_place_of_the_last_one(sqlite_guard: Guard, terminal: Terminal) -> None:
    assert sqlite_guard.run(*KEY, "--", "true").code == 0
    terminal.type(typed("status", "--watch", TERM="xterm"))
    shown = terminal.read(rf"(?s)status --watch\r\n(.*{ROW}[^\n]*\n)")[1]
    assert sqlite_guard.run("pause", "job", "--yes").code == 0
    up = int(terminal.read(r"\x1b\[(\d+)A\r\x1b\[J")[1])
    assert up == shown.count("\n")


def test_more_keys_than_the_window_has_lines_are_cut_not_scrolled(sqlite_guard: Guard, terminal: Terminal) -> None:
    for number in range(9):
        assert sqlite_guard.run("run", "--key", f"job{number}", "--", "true").code == 0
    terminal.do("stty rows 6")
    terminal.type(typed("status", "--watch", TERM="xterm"))
    terminal.read(r"job0 +succeeded")
    assert int(terminal.read(r"\.\.\. and (\d+) more lines")[1]) >= 6
    assert "job8" not in terminal.seen


# --- status --watch, elsewhere ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_off_a_terminal_only_what_has_changed_is_written(guard: Guard, form: tuple[str, ...]) -> None:
    for key in ("job", "other"):
        assert guard.run("run", "--key", key, "--", "true").code == 0
    with (guard.folder / "watched").open("w") as file:
        watching = guard.start("status", "--watch", *form, stdout=file)
    first = 1 if form else 3  # one document; or the header and both keys
    assert len(guard.wait_for_line("watched", first)) == first
    assert guard.run("pause", "job", "--yes").code == 0
    assert guard.run("status", *form).code == 0
    lines = guard.wait_for_line("watched", first + 1)
    assert len(lines) == first + 1
    if form:
        assert {line["key"]: line["state"] for line in json.loads(lines[-1])["keys"]} == {
            "job": "paused", "other": "succeeded",
        }  # fmt: skip
    else:
        assert re.match(r"job +paused", lines[-1])
    watching.terminate()
    assert code_of(watching) == 143


# --- watch ------------------------------------------------------------------------------------------------------------


def told(out: str) -> list[str]:
    """The lines without when, and without pids and durations."""
    lines = (line.partition("  ")[2] for line in out.splitlines())
    return [re.sub(r" \(pid \d+\)| after [\dms.]+", "", line) for line in lines]


@pytest.mark.parametrize(
    ("ending", "code", "words"), [("true", 0, "succeeded (exit 0)"), ("exit 3", 3, "failed (exit 3)")]
)
def test_run_is_followed_to_its_end_and_its_code_is_ours(guard: Guard, ending: str, code: int, words: str) -> None:
    lines = ("cronguard beat --progress 1/2 --note 'from A on'", "while [ ! -e go ]; do sleep 0.1; done", ending)
    run = guard.start(*KEY, "--period", "2026-11-28", *QUICK_BEATS, *script("touch begun", *lines))
    wait_until((guard.folder / "begun").exists, 30)
    with (guard.folder / "watched").open("w") as file:
        watching = guard.start("watch", "job", "--exit-status", stdout=file)
    wait_until(lambda: any("progress" in line for line in guard.lines("watched")), 30)
    (guard.folder / "go").touch()
    assert (code_of(run), code_of(watching)) == (code, code)
    out = (guard.folder / "watched").read_text()
    host = guard.show("job")["host"]
    assert told(out) == [
        f"job 2026-11-28  running, attempt 1 on {host}", "job 2026-11-28  progress 1/2: from A on",
        f"job 2026-11-28  {words}",
    ]  # fmt: skip


def test_note_that_a_job_gave_by_sql_moves_no_cursor(postgres_guard: Guard, database: Database) -> None:
    guard = postgres_guard
    run = start(guard, "until [ -e go ]; do sleep 0.05; done", "--period", "2026-11-28", *QUICK_BEATS)
    with (guard.folder / "watched").open("w") as file:
        watching = guard.start("watch", "job", stdout=file)
    guard.wait_for_line("watched")
    with database.connect() as connection:
        said = ("job", guard.show("job")["token"], "a\x1b[31mRED\nsecond line")
        assert connection.execute("select cronguard.beat(%s, %s, %s)", said).fetchone() == (True,)
    seen = "a^[[31mRED\\nsecond line"
    wait_until(lambda: any(line.endswith(f"progress {seen}") for line in guard.lines("watched")))
    assert f"progress note  {seen}\n" in guard.run("show", "job").out
    (guard.folder / "go").touch()
    assert (run.code(), code_of(watching)) == (0, 0)


def test_run_that_is_over_is_told_at_once(guard: Guard) -> None:
    assert guard.run(*KEY, "--period", "2026-11-28", "--", "sh", "-c", "exit 3").code == 3
    for options, code in (((), 0), (("--exit-status",), 3)):
        result = guard.run("watch", "job", *options)
        assert (result.code, told(result.out)) == (code, ["job 2026-11-28  failed (exit 3)"])


def test_stop_and_what_comes_of_it_are_told(sqlite_guard: Guard) -> None:
    run = start(sqlite_guard, "sleep 600", "--period", "2026-11-28", *QUICK_BEATS)
    with (sqlite_guard.folder / "watched").open("w") as file:
        watching = sqlite_guard.start("watch", "job", "2026-11-28", "--exit-status", stdout=file)
    sqlite_guard.wait_for_line("watched")
    assert sqlite_guard.run("stop", "job", "--yes", "--reason", "wrong data").code == 0
    assert run.code() == 143
    assert sqlite_guard.run("cancel", "job", "2026-11-28", "--yes").code == 0
    assert code_of(watching) == 143  # the attempt's own; only a success is 0
    words = told((sqlite_guard.folder / "watched").read_text())
    assert any(": wrong data" in line and " stop by " in line for line in words)
    assert "cancelled" in words[-1]


def test_run_that_was_cancelled_before_it_ran_is_no_success(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run(*KEY, "--period", "2026-11-28", "--", "true").code == 0
    assert sqlite_guard.run("cancel", "job", "2026-12-24", "--yes").code == 0
    result = sqlite_guard.run("watch", "job", "2026-12-24", "--exit-status")
    assert (result.code, told(result.out)) == (1, ["job 2026-12-24  cancelled"])


def test_live_run_is_followed_rather_than_what_came_later(sqlite_guard: Guard) -> None:
    run = start(sqlite_guard, "sleep 600", "--period", "2026-11-28", *QUICK_BEATS)
    assert sqlite_guard.run("cancel", "job", "2026-12-24", "--yes").code == 0
    with (sqlite_guard.folder / "watched").open("w") as file:
        sqlite_guard.start("watch", "job", stdout=file)
    assert "2026-11-28  running" in sqlite_guard.wait_for_line("watched")[0]
    assert sqlite_guard.run("stop", "job", "--yes").code == 0
    assert run.code() == 143


def test_what_is_not_there_cannot_be_watched(sqlite_guard: Guard) -> None:
    result = sqlite_guard.run("watch", "job")
    assert (result.code, result.out) == (125, "")
    assert "has no run of job; see: cronguard history" in result.only_line


def test_watch_writes_nothing_while_nothing_happens_and_ctrl_c_ends_it(sqlite_guard: Guard, terminal: Terminal) -> None:
    run = start(sqlite_guard, "sleep 600", "--period", "2026-11-28")
    terminal.type(typed("watch", "job"))
    terminal.read(r"running, attempt 1 on [^\n]*\n")
    assert terminal.stays_silent(SILENT_FOR), terminal.seen
    terminal.press(CTRL_C)
    terminal.read(PROMPT)
    assert terminal.last_code() == 130
    assert "Traceback" not in terminal.seen
    assert sqlite_guard.show("job")["state"] == "running"
    run.process.terminate()
    assert run.code() == 143
