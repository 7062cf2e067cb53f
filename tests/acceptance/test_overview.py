"""Whole keys, through the program: status, keys, stats and prune, for people and for programs."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.looking import QUICK_BEATS, change, ledger_file, refusal
from tests.acceptance.test_terminals import ASCII, BOX_OR_COLOUR, on_terminal, silenced
from tests.rig.guard import Guard
from tests.rig.supervised import start
from tests.rig.waiting import wait_until

STATUS = ["KEY", "STATE", "PERIOD", "LAST SUCCESS", "LAST FAILURE", "DUE", "TOOK (P95)", "BY"]
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")


def ran(guard: Guard, key: str, script: str = "true", *options: str) -> None:
    guard.run("run", "--key", key, *options, "--", "sh", "-c", script)


def status(guard: Guard, *arguments: str) -> dict[str, dict[str, Any]]:
    result = guard.run("status", "--json", *arguments)
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    assert document["schema"] == "cronguard.status/1"
    return {line["key"]: line for line in document["keys"]}


def columns(line: str) -> list[str]:
    return re.split(r"  +", line.strip())


# --- status -----------------------------------------------------------------------------------------------------------


def test_status_is_a_line_a_key_problems_first(guard: Guard) -> None:
    ran(guard, "a", "true")
    ran(guard, "b", "exit 3")
    ran(guard, "c", "true")
    assert guard.run("pause", "c", "--yes", "--reason", "month end").code == 0
    result = guard.run("status")
    assert (result.code, result.err) == (0, "")
    header, *lines = map(columns, result.out.splitlines())
    assert header == STATUS
    assert [line[:2] for line in lines] == [["b", "FAILED"], ["c", "paused"], ["a", "succeeded"]]
    assert lines[1][-1].endswith(": month end")
    assert [key for key, line in status(guard).items() if line["problem"]] == ["b"]
    assert status(guard)["c"]["pause_reason"] == "month end"


def test_status_tells_last_success_last_failure_and_when_it_is_due(guard: Guard) -> None:
    ran(guard, "job", "true", "--period", "previous", "--every", "day", "--tz", "UTC")
    ran(guard, "job", "exit 3", "--period", "current")
    line = status(guard)["job"]
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert (line["state"], line["due_at"]) == ("failed", midnight.isoformat().replace("+00:00", "Z"))
    assert line["last_success_at"] < line["last_failure_at"]
    assert line["p95_seconds"] < 60


def test_status_of_these_keys_by_name_and_by_glob(sqlite_guard: Guard) -> None:
    for key in ("etl/a", "etl/b", "mail"):
        ran(sqlite_guard, key)
    assert list(status(sqlite_guard, "etl/*")) == ["etl/a", "etl/b"]
    assert list(status(sqlite_guard, "mail", "etl/b")) == ["etl/b", "mail"]
    result = sqlite_guard.run("status", "mail", "nail")
    assert (result.code, result.out) == (125, "")
    assert "has no key nail; see: cronguard keys" in result.only_line


def test_scheduled_key_that_nobody_fired_is_overdue(sqlite_guard: Guard) -> None:
    ran(sqlite_guard, "job", "true", "--schedule", "0 0 * * *", "--tz", "UTC", "--period", "2026-01-01")
    line = status(sqlite_guard)["job"]
    assert (line["state"], line["problem"], line["period"]) == ("overdue", True, "2026-01-01")


def test_run_that_is_live_is_running_and_stale_when_its_lease_is_over(guard: Guard) -> None:
    run = start(guard, "sleep 600", *QUICK_BEATS)
    assert status(guard)["job"]["state"] == "running"
    assert guard.run("stop", "job", "--yes").code == 0
    assert run.code() == 143
    assert status(guard)["job"]["state"] == "pending"


@pytest.mark.parametrize("command", [("status",), ("keys",), ("stats",), ("prune",), ("prune", "--dry-run")])
def test_ledger_that_is_not_there_is_empty_and_is_not_made(sqlite_guard: Guard, command: tuple[str, ...]) -> None:
    result = sqlite_guard.run(*command)
    assert (result.code, result.err) == (0, "")
    assert not ledger_file(sqlite_guard).exists()


@pytest.mark.parametrize("width", [200, 80, 40, 20])
def test_status_fits_the_terminal_and_says_what_it_leaves_out(sqlite_guard: Guard, width: int) -> None:
    for key in ("daily_digest", "billing/invoices"):
        ran(sqlite_guard, key, "exit 1" if "/" in key else "true")
    result = on_terminal(sqlite_guard.with_env(TERM="xterm"), "status", columns=width)
    table, _, notes = result.out.partition("\n\n")
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in table.splitlines()]
    assert max(map(len, lines)) <= max(width, len("billing/invoices  FAILED   "))
    assert any("FAILED" in line for line in lines)
    assert ("leave no room for" in notes) == (width < 100)
    assert "next: cronguard show billing/invoices" in notes.replace("\n", " ")


def test_eighty_columns_have_room_for_what_matters(sqlite_guard: Guard) -> None:
    ran(sqlite_guard, "daily_digest")
    out = on_terminal(sqlite_guard.with_env(TERM="xterm"), "status", columns=80).out
    for word in ("KEY", "STATE", "PERIOD", "SUCCESS", "FAILURE", "DUE", "TOOK", "<1m ago"):
        assert word in out


def test_problems_are_red_unless_colour_is_not_wanted(sqlite_guard: Guard) -> None:
    ran(sqlite_guard, "job", "exit 1")
    assert COLOUR.search(on_terminal(sqlite_guard.with_env(TERM="xterm"), "status").out)
    for environment in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
        result = on_terminal(sqlite_guard.with_env(**environment), "status")
        assert not COLOUR.search(result.out)
        assert "FAILED" in result.out


@pytest.mark.parametrize("command", [("status",), ("keys",), ("stats",), ("stats", "täglich")])
def test_piped_views_have_no_boxes_and_an_ascii_locale_gets_escapes(
    sqlite_guard: Guard, command: tuple[str, ...]
) -> None:
    ran(sqlite_guard, "täglich")
    piped = sqlite_guard.with_env(FORCE_COLOR="1", TERM="xterm-256color", COLUMNS="20").run(*command)
    assert (piped.code, piped.err) == (0, "")
    assert "täglich" in piped.out
    assert not BOX_OR_COLOUR.search(piped.out)
    for told in (
        sqlite_guard.with_env(**ASCII).run(*command),
        on_terminal(sqlite_guard.with_env(**ASCII, TERM="xterm"), *command),
    ):
        assert told.code == 0
        assert "t\\xe4glich" in told.out


@pytest.mark.parametrize("command", ["status", "keys", "stats"])
def test_closed_stdout_gets_nothing(sqlite_guard: Guard, command: str) -> None:
    ran(sqlite_guard, "job")
    result = silenced(sqlite_guard, ">&-").run(command)
    assert (result.code, result.err) == (0, "")


# --- keys and stats ---------------------------------------------------------------------------------------------------


def test_keys_are_listed_with_their_calendars_and_who_paused_them(guard: Guard) -> None:
    ran(guard, "a", "true", "--schedule", "*/5 * * * *", "--tz", "Europe/Berlin")
    ran(guard, "b", "true", "--every", "week", "--tz", "UTC")
    assert guard.with_env(USER="ada").run("pause", "b", "--yes").code == 0
    document = json.loads(guard.run("keys", "--json").out)
    assert document["schema"] == "cronguard.keys/1"
    a, b = document["keys"]
    assert (a["key"], a["cadence"], a["zone"], a["schedule"]) == ("a", "minute", "Europe/Berlin", "*/5 * * * *")
    assert (b["cadence"], b["schedule"], b["paused_by"].partition("@")[0]) == ("week", None, "ada")
    lines = guard.run("keys").out.splitlines()
    assert columns(lines[0]) == ["KEY", "CADENCE", "ZONE", "SCHEDULE", "LAST PERIOD", "LAST STARTED", "PAUSED"]
    assert "by ada@" in lines[2]


def test_stats_count_what_was_prevented_and_by_whom(guard: Guard) -> None:
    for script in ("true", "true", "true"):
        ran(guard, "job", script)
    document = json.loads(guard.run("stats", "--json").out)
    assert document["schema"] == "cronguard.stats/1"
    (stats,) = document["keys"]
    assert (stats["runs"], stats["states"], stats["outcomes"]) == (1, {"succeeded": 1}, {"succeeded": 1})
    assert (stats["skips"], stats["duplicates_prevented"]) == ({"already_succeeded": 2}, 2)
    assert (stats["hosts"][0]["attempts"], stats["hosts"][0]["skips"]) == (1, 2)
    assert stats["advised_complete_by_seconds"] is None
    in_full = guard.run("stats", "job").out
    assert re.search(r"^duplicates prevented +2$", in_full, re.MULTILINE)
    assert "too few runs to tell" in in_full


def test_stats_advise_a_complete_by_and_warn_of_one_that_is_too_short(sqlite_guard: Guard) -> None:
    for number in range(6):
        ran(sqlite_guard, "job", "true", "--every", "run", "--period", f"n{number}", "--complete-by", "1h")
    change(sqlite_guard, "update run set started_at = finished_at - 7200000000, complete_by = finished_at - 3600000000")
    stats = json.loads(sqlite_guard.run("stats", "job", "--json").out)["keys"][0]
    assert stats["advised_complete_by_seconds"] == 4 * 3600
    warning = "its complete-by of 1h is shorter than what runs really take (p99 2h)"
    assert stats["warnings"] == [warning]
    assert f"warning               {warning}" in sqlite_guard.run("stats", "job").out
    assert "advised               --complete-by 4h" in sqlite_guard.run("stats", "job").out
    assert sqlite_guard.run("stats").out.splitlines()[-1] == f"job: {warning}"


def test_stats_of_a_key_that_is_not_there_is_refused(sqlite_guard: Guard) -> None:
    assert "has no key nobody; see: cronguard keys" in refusal(sqlite_guard, "stats", "nobody")


# --- prune ------------------------------------------------------------------------------------------------------------

PERIODS = ("2026-01-01", "2026-01-02", "2026-01-03")


def aged(guard: Guard) -> None:
    """Three daily runs of long ago that have ended more than a second ago."""
    for period in PERIODS:
        ran(guard, "job", "echo ran >>log", "--period", period, "--every", "day", "--tz", "UTC")
    dry = ("prune", "--keep", "1s", "--keep-last", "1", "--dry-run")
    wait_until(lambda: re.search(r"^job +2$", guard.run(*dry).out, re.MULTILINE), 60, every=0.2)


def test_pruned_period_is_refused_with_its_reason_and_does_not_run_again(guard: Guard) -> None:
    aged(guard)
    assert len(guard.history("job")) == 3  # a dry run takes nothing
    pruned = guard.run("prune", "--keep", "1s", "--keep-last", "1")
    assert (pruned.code, pruned.out, pruned.err) == (0, "", "")
    assert [run["period"] for run in guard.history("job")] == ["2026-01-03"]
    for options in ((), ("--rerun", "--force")):
        for period in PERIODS[:2]:
            result = guard.run("run", "--key", "job", "--period", period, *options, "--", "sh", "-c", "echo ran >>log")
            assert result.code == 125
            assert result.only_line == (
                f"cronguard: job {period}: this period is older than what the ledger remembers; it is not run again"
            )
    assert len(guard.lines("log")) == 3
    assert guard.show("job", "2026-01-01")["skipped"][0]["reason"] == "pruned"
    assert guard.run("run", "--key", "job", "--period", "2026-01-03", "--", "true").code == 0
    assert guard.show("job", "2026-01-03")["skips"] == 1  # already succeeded: it is still known


def test_prune_by_default_keeps_what_is_young_and_the_newest(sqlite_guard: Guard) -> None:
    aged(sqlite_guard)
    assert sqlite_guard.run("prune").code == 0
    assert len(sqlite_guard.history("job")) == 3


@pytest.mark.parametrize(
    ("option", "words"),
    [(("--keep", "400"), "--keep: '400' is not a duration"), (("--keep-last", "0"), "--keep-last: '0' is not a whole")],
)
def test_prune_refuses_what_makes_no_sense(sqlite_guard: Guard, option: tuple[str, str], words: str) -> None:
    assert words in refusal(sqlite_guard, "prune", *option)


def test_prune_without_the_right_to_is_refused_in_one_line(postgres_guard: Guard, database: Any) -> None:
    """The runtime role of `init --print-sql` may not delete history."""
    aged(postgres_guard)
    with database.connect() as connection:
        connection.execute("revoke delete on cronguard.run from app")
    result = postgres_guard.run("prune", "--keep", "1s", "--keep-last", "1")
    assert result.code == 75
    assert "permission denied" in result.only_line
    assert len(postgres_guard.history("job")) == 3
