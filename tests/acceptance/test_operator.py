"""A person steps in, through the program: reset, cancel, stop, pause, resume; on a terminal, and in a script."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.looking import QUICK_BEATS, change, ledger_file, refusal
from tests.rig.guard import PROGRAM, Guard
from tests.rig.supervised import start
from tests.rig.terminal import CTRL_C, PROMPT, Terminal

KEY = ("run", "--key", "job")
HOST = os.uname().nodename
VERBS = (("reset", "job", "2026-11-28"), ("cancel", "job", "2026-11-28"), ("stop", "job"), ("pause", "job"),
         ("resume", "job"))  # fmt: skip


def failed(guard: Guard, period: str = "2026-11-28") -> None:
    assert guard.run(*KEY, "--period", period, "--", "sh", "-c", "exit 3").code == 3


def tomorrow() -> str:
    return (datetime.now(UTC).date() + timedelta(days=1)).isoformat()


def said(guard: Guard, period: str | None = None) -> list[tuple[str, str | None]]:
    return [(word["verb"], word["reason"]) for word in guard.show("job", period)["said"]]


# --- what they do -----------------------------------------------------------------------------------------------------


def test_failed_run_is_reset_and_runs_again_and_show_tells_who_and_why(guard: Guard) -> None:
    failed(guard)
    assert guard.run(*KEY, "--period", "2026-11-28", "--", "true").code == 3
    reset = guard.with_env(USER="ada").run("reset", "job", "2026-11-28", "--yes", "--reason", "disk was full")
    assert (reset.code, reset.out, reset.err) == (0, "", "")
    assert guard.show("job")["state"] == "pending"
    assert guard.run(*KEY, "--period", "2026-11-28", "--", "true").code == 0
    run = guard.show("job")
    assert (run["state"], run["attempt"]) == ("succeeded", 2)
    (word,) = run["said"]
    assert (word["verb"], word["said_by"], word["reason"]) == ("reset", f"ada@{HOST}", "disk was full")
    shown = guard.run("show", "job").out
    assert f"reset  ada@{HOST}  disk was full" in shown
    assert "SAID AT" in shown


def test_cancelled_period_is_not_run_until_somebody_asks_for_it(guard: Guard) -> None:
    failed(guard)
    assert guard.run("cancel", "job", "2026-11-28", "--yes").code == 0
    assert guard.run(*KEY, "--period", "2026-11-28", "--", "touch", "started").code == 0
    assert not (guard.folder / "started").exists()
    assert [skip["reason"] for skip in guard.show("job")["skipped"]] == ["cancelled"]
    assert guard.run(*KEY, "--period", "2026-11-28", "--rerun", "--", "touch", "started").code == 0
    assert (guard.folder / "started").exists()


def test_period_that_has_not_come_can_be_cancelled(guard: Guard) -> None:
    failed(guard)
    assert guard.run("cancel", "job", tomorrow(), "--yes", "--reason", "maintenance").code == 0
    run = guard.show("job", tomorrow())
    assert (run["state"], run["attempt"], run["started_at"]) == ("cancelled", 0, None)
    assert said(guard, tomorrow()) == [("cancel", "maintenance")]


def test_paused_key_starts_nothing_until_it_is_resumed(guard: Guard) -> None:
    failed(guard)
    assert guard.run("pause", "job", "-y", "--reason", "month end").code == 0
    for _ in range(2):
        result = guard.run(*KEY, "--period", "current", "--", "touch", "started")
        assert (result.code, result.err) == (0, "")
    assert not (guard.folder / "started").exists()
    dry = guard.run(*KEY, "--dry-run", "--", "true").out
    assert "paused: by " in dry and ": month end" in dry
    assert guard.run("resume", "job", "-y").code == 0
    assert guard.run(*KEY, "--period", "current", "--", "touch", "started").code == 0
    assert (guard.folder / "started").exists()
    assert said(guard) == [("resume", None), ("pause", "month end")]


@pytest.mark.parametrize("is_named", [False, True])
def test_live_run_is_asked_to_stop_and_its_holder_stops_it(guard: Guard, is_named: bool) -> None:
    run = start(guard, "sleep 600", "--period", "current", *QUICK_BEATS)
    period = [guard.show("job")["period"]] if is_named else []
    assert guard.run("stop", "job", *period, "--yes", "--reason", "wrong data").code == 0
    assert run.code() == 143
    assert f"the ledger asked for it (by {_me()}: wrong data)" in run.said()
    shown = guard.show("job")
    assert (shown["state"], shown["attempts"][0]["outcome"]) == ("pending", "interrupted")
    assert shown["attempts"][0]["note"].startswith(f"asked to stop: by {_me()}: wrong data")
    again = guard.run("stop", "job", "--yes")
    assert (again.code, again.err) == (0, "")
    assert said(guard) == [("stop", "wrong data")]


def _me() -> str:
    return f"uid {os.getuid()}@{HOST}"


# --- what they refuse -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["reset", "cancel"])
def test_live_run_is_never_reset_or_cancelled(guard: Guard, verb: str) -> None:
    run = start(guard, "sleep 600", "--period", "2026-11-28", *QUICK_BEATS)
    result = guard.run(verb, "job", "2026-11-28", "--yes")
    assert (result.code, result.out) == (125, "")
    words = {"reset": "reset", "cancel": "cancelled"}[verb]
    assert f"is running on {HOST} (pid" in result.only_line
    assert result.only_line.endswith(f"a live run is never {words}; ask it to end with: cronguard stop job 2026-11-28")
    assert guard.show("job")["state"] == "running"
    assert said(guard) == []
    assert guard.run("stop", "job", "--yes").code == 0
    assert run.code() == 143


@pytest.mark.parametrize("command", VERBS)
def test_without_a_terminal_it_takes_a_yes(sqlite_guard: Guard, command: tuple[str, ...]) -> None:
    failed(sqlite_guard)
    before = sqlite_guard.show("job")
    result = sqlite_guard.run(*command)
    assert (result.code, result.out) == (125, "")
    assert result.only_line == (
        f"cronguard: {' '.join(command)}: there is no terminal to ask at; nothing was changed; to do it, add --yes"
    )
    assert sqlite_guard.show("job") == before


@pytest.mark.parametrize("command", VERBS)
def test_key_that_is_not_there_is_a_slip_and_makes_no_ledger(sqlite_guard: Guard, command: tuple[str, ...]) -> None:
    line = refusal(sqlite_guard, *command, "--yes")
    assert "has no key job; see: cronguard keys" in line
    assert not ledger_file(sqlite_guard).exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("reset", "job", "2026-11-20"), "has no run of job 2026-11-20; see: cronguard history job"),
        (("stop", "job", "2026-11-20"), "has no run of job 2026-11-20; see: cronguard history job"),
        (("cancel", "job", "yesterday"), "'yesterday' is not a day; write the period like 2026-11-30"),
        (("reset", "job", "2026-11-27"), "cronguard run --key job --period 2026-11-27 --rerun --force -- COMMAND"),
        (("cancel", "job", "2026-11-27"), "job 2026-11-27 succeeded: there is nothing to cancel"),
        (("pause", "job", "--reason", ""), "--reason: it is empty; write a line, or leave it out"),
        (("pause", "job", "--reason", "a\nb"), "--reason: the reason has control characters"),
        (("pause", " job"), "begins or ends with a blank"),
    ],
)
def test_refusals_are_one_line_that_says_what_to_type(
    sqlite_guard: Guard, command: tuple[str, ...], words: str
) -> None:
    assert sqlite_guard.run(*KEY, "--period", "2026-11-27", "--", "true").code == 0
    before = sqlite_guard.show("job")
    result = sqlite_guard.run(*command, "--yes")
    assert (result.code, result.out) == (125, "")
    assert words in result.only_line
    assert sqlite_guard.show("job") == before


@pytest.mark.parametrize("command", [("pause", "job"), ("cancel", "job", "2026-11-28")])
def test_said_twice_is_taken_down_once(sqlite_guard: Guard, command: tuple[str, ...]) -> None:
    failed(sqlite_guard)
    for _ in range(2):
        result = sqlite_guard.run(*command, "--yes")
        assert (result.code, result.err) == (0, "")
    assert len(said(sqlite_guard)) == 1


def test_one_of_several_live_runs_must_be_named(sqlite_guard: Guard) -> None:
    side_by_side = ("--exclusive", "period", *QUICK_BEATS)
    runs = [start(sqlite_guard, "sleep 600", "--period", f"2026-11-{day}", *side_by_side) for day in (27, 28)]
    line = sqlite_guard.run("stop", "job", "--yes").only_line
    assert line.endswith("name one: cronguard stop job PERIOD")
    assert "2026-11-27 on" in line
    assert sqlite_guard.run("stop", "job", "2026-11-27", "--yes").code == 0
    assert runs[0].code() == 143
    assert sqlite_guard.show("job", "2026-11-28")["state"] == "running"


# --- at a terminal ----------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal(sqlite_guard: Guard) -> Iterator[Terminal]:
    with Terminal(sqlite_guard.folder, sqlite_guard.environment) as terminal:
        yield terminal


def typed(*arguments: str) -> str:
    return shlex.join([*PROGRAM, *arguments])


def test_terminal_is_asked_and_a_yes_does_it(sqlite_guard: Guard, terminal: Terminal) -> None:
    failed(sqlite_guard)
    terminal.type(typed("reset", "job", "2026-11-28"))
    terminal.read(r"job 2026-11-28 is failed \(on .*, attempt 1\): make it pending, .*\? \[y/N\] ")
    terminal.type("y")
    terminal.read(r"job 2026-11-28 is pending; .* or: cronguard run --key job --period 2026-11-28 -- COMMAND")
    terminal.read(PROMPT)
    assert terminal.last_code() == 0
    assert sqlite_guard.show("job")["state"] == "pending"


@pytest.mark.parametrize("answer", ["", "n", "no", "yess", "maybe"])
def test_anything_but_a_yes_changes_nothing(sqlite_guard: Guard, terminal: Terminal, answer: str) -> None:
    failed(sqlite_guard)
    terminal.type(typed("pause", "job"))
    terminal.read(r"start nothing of job any more, on any host\? \[y/N\] ")
    terminal.type(answer)
    terminal.read("cronguard: nothing was changed")
    terminal.read(PROMPT)
    assert terminal.last_code() == 125
    assert said(sqlite_guard) == []


def test_ctrl_c_at_the_question_changes_nothing(sqlite_guard: Guard, terminal: Terminal) -> None:
    failed(sqlite_guard)
    terminal.type(typed("cancel", "job", "2026-11-28"))
    terminal.read(r"cancel it, so that no firing runs it\? \[y/N\] ")
    terminal.press(CTRL_C)
    terminal.read(PROMPT)
    assert terminal.last_code() == 130
    assert "Traceback" not in terminal.seen
    assert sqlite_guard.show("job")["state"] == "failed"


def test_refusal_comes_before_the_question(sqlite_guard: Guard, terminal: Terminal) -> None:
    failed(sqlite_guard)
    assert "has no run of job 2026-11-20" in terminal.do(typed("reset", "job", "2026-11-20"))
    assert "[y/N]" not in terminal.seen


def test_pause_tells_what_it_means_and_by_whom_it_was_done(sqlite_guard: Guard, terminal: Terminal) -> None:
    failed(sqlite_guard)
    done = terminal.do(typed("pause", "job", "--yes", "--reason", "month end"))
    assert "job is paused: its firings are skipped until cronguard resume job" in done
    assert f"by {_me()}: month end already" in terminal.do(typed("pause", "job", "--yes"))
    assert f"not run: job 2026-11-29: paused: by {_me()}: month end" in terminal.do(
        typed(*KEY, "--period", "2026-11-29", "--", "true")
    )


# --- the holder died --------------------------------------------------------------------------------------------------


def test_stale_run_can_be_reset_and_is_recovered_on_the_way(sqlite_guard: Guard) -> None:
    run = start(sqlite_guard, "sleep 600", "--period", "2026-11-28", "--lease", "30s", "--beat-every", "10s")
    change(sqlite_guard, "update lease set lease_until = 0")
    assert sqlite_guard.run("reset", "job", "2026-11-28", "--yes").code == 0
    shown = sqlite_guard.show("job", "2026-11-28")
    assert (shown["state"], shown["recoveries"], shown["attempts"][0]["outcome"]) == ("pending", 0, "lost")
    assert run.code() == 76  # its next beat tells it that the lease is gone
