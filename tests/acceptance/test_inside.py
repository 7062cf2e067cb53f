"""cronguard beat and cronguard extend, called by commands from inside their runs, as they would be."""

from __future__ import annotations

import sys
from datetime import datetime

import pytest

from tests.acceptance.looking import ledger_file, refusal
from tests.conftest import Database
from tests.rig.guard import Guard
from tests.rig.waiting import wait_until

CRONGUARD = f"'{sys.executable}' -m cronguard"
HOLDER = "7f0c1f3a-3f0e-4a52-9d5c-0a9e6f1f2a11"
KEY = ("run", "--key", "nightly")


def script(*lines: str) -> tuple[str, ...]:
    """A command whose `cronguard` is the one under test; the first line that fails ends it."""
    return ("--", "sh", "-ec", "\n".join([f'cronguard() {{ {CRONGUARD} "$@"; }}', *lines]))


def inside(guard: Guard, **facts: str) -> Guard:
    """Somebody who says that he is inside a run."""
    told = {"key": "nightly", "period": "2026-11-30", "token": "7", "holder": HOLDER} | facts
    return guard.with_env(**{f"CRONGUARD_{name.upper()}": fact or None for name, fact in told.items()})


def seconds_until(instant: str, start: str) -> float:
    return (datetime.fromisoformat(instant) - datetime.fromisoformat(start)).total_seconds()


# --- beat -------------------------------------------------------------------------------------------------------------


def test_progress_is_shown_while_the_command_runs_and_after_it(guard: Guard) -> None:
    lines = (
        "cronguard beat --progress 3/10 --note 'Zürich: from K on'",
        "echo >>said",
        "until [ -e go ]; do sleep 0.05; done",
    )
    job = guard.start(*KEY, *script(*lines))
    guard.wait_for_line("said")
    for state in ("running", "succeeded"):
        run = guard.show("nightly")
        assert (run["state"], run["progress"], run["progress_note"]) == (state, "3/10", "Zürich: from K on")
        assert run["progressed_at"] >= run["started_at"]
        assert guard.history("nightly")[0]["progress"] == "3/10"
        (guard.folder / "go").touch()
        assert job.wait(60) == 0
    shown = guard.run("show", "nightly").out
    assert "progress       3/10  (said 20" in shown
    assert "progress note  Zürich: from K on" in shown
    assert job.communicate() == ("", "")


def test_bare_beat_says_that_it_gets_on(guard: Guard) -> None:
    assert guard.run(*KEY, *script("cronguard beat")).code == 0
    run = guard.show("nightly")
    assert (run["progress"], run["progress_note"], bool(run["progressed_at"])) == (None, None, True)


def test_command_that_outlives_its_run_is_told_that_it_is_lost(guard: Guard) -> None:
    """A straggler, or a daemon that has kept the environment: whoever speaks under an older token is not heard."""
    told = 'for name in KEY PERIOD TOKEN HOLDER; do eval echo "\\$CRONGUARD_$name"; done >told'
    assert guard.run(*KEY, *script(told)).code == 0
    facts = dict(zip(("key", "period", "token", "holder"), guard.lines("told"), strict=True))
    before = guard.show("nightly")
    for command in (("beat", "--progress", "9/10"), ("extend", "10m")):
        result = inside(guard, **facts).run(*command)
        assert (result.code, result.out) == (76, "")
        assert f"has no live run under token {facts['token']}: it is over, or lost" in result.only_line
    assert guard.show("nightly") == before


def test_in_the_wrong_ledger_there_is_no_such_run_and_none_is_made(sqlite_guard: Guard) -> None:
    result = inside(sqlite_guard).run("beat")
    assert (result.code, result.out) == (76, "")
    assert f"nightly 2026-11-30: the ledger at {ledger_file(sqlite_guard)} has no live run" in result.only_line
    assert not ledger_file(sqlite_guard).exists()


@pytest.mark.parametrize("command", [("beat",), ("extend", "10m")])
def test_ledger_that_is_away_is_asked_again_for_db_wait(bare_guard: Guard, command: tuple[str, ...]) -> None:
    guard = inside(bare_guard).with_env(CRONGUARD_DSN="postgresql://127.0.0.1:1/ops", CRONGUARD_DB_WAIT="1s")
    result = guard.run(*command, within=25)  # less than without that setting
    assert (result.code, result.out) == (75, "")
    assert "127.0.0.1:1/ops cannot be reached: connection refused" in result.only_line


def test_ledger_that_comes_back_in_time_is_told(postgres_guard: Guard, database: Database) -> None:
    with database.server.connect() as superuser:
        superuser.execute(f"alter database {database.name} connection limit 0".encode())
        job = inside(postgres_guard).start("beat")
        wait_until(lambda: f'too many connections for database "{database.name}"' in database.server.den.log(), 30)
        superuser.execute(f"alter database {database.name} connection limit -1".encode())
    assert job.wait(60) == 76  # heard, and there is no such run


# --- stalling ---------------------------------------------------------------------------------------------------------


def test_command_that_gives_no_sign_is_stopped(guard: Guard) -> None:
    result = guard.run(*KEY, "--stall-after", "1s", "--stop-grace", "1s", "--", "sleep", "600")
    assert result.code == 124
    assert "stopped: neither output nor a beat for too long (--stall-after)" in result.only_line
    run = guard.show("nightly")
    assert (run["state"], run["attempts"][0]["outcome"]) == ("timed_out", "stalled")
    assert guard.run(*KEY, "--", "true").code == 124  # and stays so


@pytest.mark.parametrize(
    ("sign", "options"),
    [("cronguard beat", ()), ("echo I am well", ()), ("echo well", ("--quiet",)), ("echo well", ("--capture", "0"))],
)
def test_command_that_gives_signs_is_not(guard: Guard, sign: str, options: tuple[str, ...]) -> None:
    """It runs for longer than it may be silent; each sign comes long before it is due."""
    lines = (f"for n in 1 2 3 4 5 6 7 8; do {sign}; sleep 0.8; done",)
    quick = ("--beat-every", "0.5s")  # which bring the word to who waits for it
    assert guard.run(*KEY, "--stall-after", "6s", *quick, *options, *script(*lines)).code == 0


# --- extend -----------------------------------------------------------------------------------------------------------


def test_run_is_extended_by_its_command_and_lives_that_long(guard: Guard) -> None:
    lines = ("cronguard extend 30s", "sleep 8.5", "echo >>lived")
    result = guard.run(*KEY, "--complete-by", "8s", "--extend-max", "1m", *script(*lines))
    assert (result.code, result.out, result.err, guard.lines("lived")) == (0, "", "", [""])
    run = guard.show("nightly")
    assert seconds_until(run["complete_by"], run["started_at"]) == pytest.approx(38, abs=0.01)
    assert (run["extended_seconds"], run["attempts"][0]["note"]) == (30.0, "extended by 30s")
    assert "(extended by 30s)" in guard.run("show", "nightly").out


def test_run_is_extended_no_further_than_is_allowed(guard: Guard) -> None:
    lines = ("set +e", "for by in 10m 10m 1s; do cronguard extend $by; echo $? >>codes; done")
    result = guard.run(*KEY, "--complete-by", "1h", "--extend-max", "15m", *script(*lines))
    capped, spent = result.err.splitlines()
    assert guard.lines("codes") == ["0", "0", "125"]
    assert "warning: nightly" in capped and "extended by 5m only, which is all that --extend-max (15m) leaves" in capped
    assert "it has been extended by all that --extend-max allows (15m)" in spent
    assert guard.show("nightly")["extended_seconds"] == 900.0


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), "125", "it may not be extended; give cronguard run --extend-max to allow it"),
        (("--complete-by", "never"), "0", "it has no complete-by; there is nothing to extend"),
        (("--complete-by", "never", "--extend-max", "1h"), "0", "it has no complete-by; there is nothing to extend"),
    ],
)
def test_run_that_is_not_extended(guard: Guard, options: tuple[str, ...], code: str, said: str) -> None:
    result = guard.run(*KEY, *options, *script("set +e", "cronguard extend 10m; echo $? >>codes"))
    assert (result.code, guard.lines("codes")) == (0, [code])
    assert said in result.only_line
    assert guard.show("nightly")["extended_seconds"] == 0.0


# --- What makes no sense ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["key", "period", "token", "holder"])
@pytest.mark.parametrize("command", [("beat",), ("extend", "10m")])
def test_outside_of_a_run_there_is_nothing_to_say(sqlite_guard: Guard, name: str, command: tuple[str, ...]) -> None:
    line = refusal(inside(sqlite_guard, **{name: ""}), *command)
    variable = f"CRONGUARD_{name.upper()}"
    assert line.startswith(
        f"cronguard: {variable} is not set: cronguard {command[0]} is for a command that runs inside"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("beat", "--progress", "three"), "--progress: 'three' is no progress; write it like 3/10, 40% or 3"),
        (("beat", "--progress", ""), "--progress: '' is no progress; write it like 3/10, 40% or 3"),
        (("beat", "--progress", "3/"), "--progress: '3/' is no progress"),
        (("beat", "--progress", "-3"), "--progress: '-3' is no progress"),
        (("beat", "--progress", b"\xff"), r"--progress: '\udcff' is no progress"),
        (("beat", "--progress", "11/10"), "--progress: '11/10' is more than the whole; write it like"),
        (("beat", "--progress", "101%"), "--progress: '101%' is more than the whole"),
        (("beat", "--note", ""), "--note: it is empty; write a line, or leave it out"),
        (("beat", "--note", "x" * 1001), "--note: the note is longer than 1000 characters; shorten it"),
        (("beat", "--note", "a\nb"), "--note: the note has control characters; write one line of plain text"),
        (("beat", "--note", "\x1b[2J"), "--note: the note has control characters"),
        (("beat", "--note", b"\xff"), "--note: the note has control characters"),
        (("beat", "3/10"), "got unexpected extra argument(s) (3/10); see cronguard beat --help"),
        (("extend",), "missing argument 'DURATION'; see cronguard extend --help"),
        (("extend", "10"), "'10' is not a duration; write it like 90s, 15m, 1h30m, 2d or 1w"),
        (("extend", "0s"), "'0s' is no time at all"),
        (("extend", "--", "-5m"), "'-5m' is not a duration"),
        (("extend", ""), "'' is not a duration"),
    ],
)
def test_what_makes_no_sense_is_refused(sqlite_guard: Guard, arguments: tuple[str | bytes, ...], said: str) -> None:
    assert said in refusal(inside(sqlite_guard), *arguments)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"token": "seven"}, "CRONGUARD_TOKEN: 'seven' is no token; leave it as cronguard run has set it"),
        ({"token": "9" * 19}, "is no token"),
        ({"key": "a\nb"}, r"the key 'a\nb' has control or unprintable characters"),
        ({"period": " x"}, "the period ' x' begins or ends with a blank"),
    ],
)
def test_facts_that_no_run_has_told(sqlite_guard: Guard, facts: dict[str, str], said: str) -> None:
    assert said in refusal(inside(sqlite_guard, **facts), "beat")
