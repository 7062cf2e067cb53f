"""cronguard supervise, started by cron, by a service and by a person: what it says, to whom, and what it leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cronguard.process.hook import Hook
from cronguard.stores import open_store
from cronguard.stores.dsn import Address, parse_dsn
from cronguard.stores.spool import FileSpool
from tests.acceptance.test_terminals import on_terminal
from tests.conftest import Database
from tests.rig.firings import SUCCEEDED, claim, granted
from tests.rig.guard import Guard, code_of, wait_dead
from tests.rig.waiting import wait_until

PERIOD = "2026-11-29"


def address_of(guard: Guard) -> Address:
    state = guard.environment["CRONGUARD_STATE_DIR"]
    return parse_dsn(guard.environment.get("CRONGUARD_DSN") or f"sqlite://{state}/ledger.db")


def died(guard: Guard, key: str = "job", minutes_ago: float = 2, **options: Any) -> None:
    """A run of yesterday whose holder was last heard of so long ago: the ledger as it would be then."""
    guard.run("init")
    then = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    granted(claim(open_store(address_of(guard), clock=lambda: then), key=key, period=PERIOD, **options))


def failed(guard: Guard, key: str = "mail") -> None:
    assert guard.run("run", "--key", key, "--period", PERIOD, "--", "sh", "-c", "exit 3").code == 3


def report(guard: Guard, *options: str) -> list[list[str]]:
    """The lines below the header, cell by cell."""
    result = guard.run("supervise", *options)
    assert (result.code, result.err) == (0, "")
    return [re.split(r"\s{2,}", line) for line in result.out.splitlines()[1:]]


# --------------------------------------------------------------------------- what it says


def test_report_has_the_worst_first_and_ends_with_what_to_type(guard: Guard) -> None:
    died(guard, "etl load")
    died(guard, "spent", recoveries=0)
    failed(guard)
    lines = report(guard)
    assert [line[:3] for line in lines] == [
        ["dead", "spent", PERIOD], ["failed", "mail", PERIOD], ["recovery", "etl load", PERIOD],
    ]  # fmt: skip
    assert lines[1][3:] == [f"it ended with exit 3 on {os.uname().nodename}, and has no attempt left",
                            f"cronguard show mail {PERIOD}"]  # fmt: skip
    assert "its holder on alpha was not heard of for a lease; somebody should run it by 20" in lines[2][3]
    assert lines[2][4] == f"cronguard run --key 'etl load' --period {PERIOD} -- CMD"
    assert report(guard) == []  # told once


def test_what_is_to_be_typed_does_what_it_says(guard: Guard) -> None:
    died(guard)
    ((*_, command),) = report(guard)
    typed = command.removeprefix("cronguard ").replace("CMD", "true").split(" ")
    assert guard.run(*typed).code == 0
    assert guard.show("job", PERIOD)["state"] == "succeeded"


def test_unknown_effect_is_told_with_how_to_resolve_it(guard: Guard) -> None:
    once = ("once", "mail", "ada b", "--period", PERIOD)
    assert guard.run(*once, "--send-within", "1s", "--", "false").code == 1
    ((what, key, period, why, command),) = wait_until(lambda: report(guard))
    assert (what, key, period) == ("unknown_effect", "-", PERIOD)
    assert why.startswith("mail ada b: claimed ") and why.endswith("whether it was done")
    assert command == f"cronguard resolve mail 'ada b' --period {PERIOD} --sent (or --released) --reason TEXT"
    assert report(guard) == []


ODD = ("two\nlines", "esc\x1b[2J, it's 7 \\ é", "--sent", "\u202etfel")


def test_effect_with_an_odd_name_can_be_resolved_by_what_is_told(guard: Guard) -> None:
    for number, subject in enumerate(ODD):
        (guard.folder / "odd").write_text(subject)
        claim = ("claim", f"mail {number}", "--period", PERIOD, "--send-within", "1s", "-0", "--file", "odd")
        assert guard.run(*claim).code == 0
    lines: list[list[str]] = []
    wait_until(lambda: lines.extend(report(guard)) or len(lines) == len(ODD), within=30)
    assert all(cell.isprintable() for line in lines for cell in line)
    for *_, command in lines:
        typed = command.removeprefix("cronguard").replace("(or --released)", "").replace("TEXT", "seen")
        assert guard.under("bash", "-c", f'"$@" {typed}', "bash").run().code == 0
    for number, subject in enumerate(ODD):
        (found,) = json.loads(guard.run("effects", f"mail {number}", "--json").out)["effects"]
        assert (found["subject"], found["state"]) == (subject, "sent")


def test_nothing_to_say_is_said_to_a_person_only(guard: Guard) -> None:
    quiet = guard.run("supervise")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    seen = on_terminal(guard, "supervise")
    assert (seen.code, seen.out.strip()) == (0, "cronguard: nothing to do; live leases: 0")


def test_json_is_one_document_a_pass_also_when_there_is_nothing(guard: Guard) -> None:
    died(guard)
    first, second = (json.loads(guard.run("supervise", "--json").out) for _ in range(2))
    assert (first["schema"], first["dry_run"], first["observes"]) == ("cronguard.supervise/1", False, None)
    (finding,) = first["findings"]
    assert {name: finding[name] for name in ("found", "key", "period", "state", "cause", "needs_a_person")} == {
        "found": "recovery", "key": "job", "period": PERIOD, "state": "pending", "cause": "lease_over",
        "needs_a_person": False,
    }  # fmt: skip
    assert finding["claim_by"] > finding["requested_at"] > first["at"][:10]
    assert (second["findings"], second["needs_a_person"]) == ([], False)


def test_exit_status_is_1_if_anything_needs_a_person(guard: Guard) -> None:
    died(guard)
    assert guard.run("supervise", "--exit-status").code == 0
    died(guard, "spent", recoveries=0)
    assert guard.run("supervise", "--exit-status", "--dry-run").code == 1
    assert guard.run("supervise", "--exit-status", "--key", "job*").code == 0
    assert guard.run("supervise", "--exit-status").code == 1
    assert guard.run("supervise", "--exit-status").code == 0


def test_dry_run_says_it_and_changes_nothing(guard: Guard) -> None:
    died(guard)
    before = guard.show("job", PERIOD)
    hook = ("--on-request", "touch hooked")
    assert [line[0] for line in report(guard, "--dry-run", *hook)] == ["recovery"]
    assert guard.show("job", PERIOD) == before | {"state": "stale"}
    assert not (guard.folder / "hooked").exists()


def test_dry_run_makes_no_ledger(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run("supervise", "--dry-run").code == 0
    assert not Path(sqlite_guard.environment["CRONGUARD_STATE_DIR"]).exists()


@pytest.mark.parametrize(("options", "said"), [
    (("--every", "soon"), "--every: 'soon' is not a duration"), (("--key", ""), "--key: the key is empty"),
    (("--metrics", ""), "--metrics: it is empty"), (("--on-request", ""), "--on-request: it is empty"),
])  # fmt: skip
def test_option_that_makes_no_sense_is_named(guard: Guard, options: tuple[str, ...], said: str) -> None:
    result = guard.run("supervise", *options)
    assert result.code == 125
    assert result.only_line.startswith(f"cronguard: {said}")


# --------------------------------------------------------------------------- again and again


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_loop_finds_what_dies_meanwhile_and_ends_at_once_when_told(guard: Guard, signum: signal.Signals) -> None:
    guard.run("init")
    loop = guard.start("supervise", "--every", "1s", "--json", "--metrics", "figures")
    wait_until(lambda: (guard.folder / "figures").exists(), saying="the first pass is over")
    died(guard)
    wait_until(lambda: guard.show("job", PERIOD)["state"] == "pending", saying="a later pass has recovered it")
    told_at = time.monotonic()
    loop.send_signal(signum)
    assert code_of(loop, 5) == 128 + signum
    assert time.monotonic() - told_at < 2
    assert loop.stderr and loop.stderr.read() == ""


def test_loop_that_waits_for_its_hook_ends_at_once_too_and_takes_the_hook_with_it(guard: Guard) -> None:
    died(guard)
    loop = guard.start("supervise", "--every", "1s", "--on-request", "echo $$ >> pids; exec sleep 600")
    hook = int(guard.wait_for_line("pids")[0])
    loop.send_signal(signal.SIGTERM)
    assert code_of(loop, 5) == 143
    wait_dead(hook)
    assert loop.stdout and "recovery" in loop.stdout.read()  # it was told of, and will not be again


def test_loop_outlives_an_outage_and_says_so(database: Database, postgres_guard: Guard, proxy: Any) -> None:
    way = proxy(database.server)
    guard = postgres_guard.with_env(CRONGUARD_DSN=database.through(way), CRONGUARD_DB_WAIT="1s")
    way.cut()
    loop = guard.start("supervise", "--every", "1s", "--metrics", "figures")
    wait_until(lambda: "ledger_up 0" in figures(guard), saying="it says that the ledger is away")
    way.restore()
    wait_until(lambda: "ledger_up 1" in figures(guard), 30, saying="it says that the ledger is back")
    loop.terminate()
    assert code_of(loop, 10) == 143
    assert loop.stderr and "the ledger at" in loop.stderr.read()


# --------------------------------------------------------------------------- the metrics file


def figures(guard: Guard) -> str:
    path = guard.folder / "figures"
    return path.read_text() if path.exists() else ""


def test_metrics_are_of_every_key_and_for_everybody_to_read(guard: Guard) -> None:
    died(guard, 'a"b\\c')
    failed(guard)
    for _ in range(2):
        assert guard.run("run", "--key", "good", "--", "true").code == 0
    assert guard.under("sh", "-c", 'umask 077; exec "$@"', "sh").run("supervise", "--metrics", "figures").code == 0
    assert (guard.folder / "figures").stat().st_mode & 0o777 == 0o644
    assert os.listdir(guard.folder) == ["figures"]
    text = figures(guard)
    for line in (
        "cronguard_ledger_up 1", 'cronguard_last_exit_code{key="mail"} 3', 'cronguard_last_exit_code{key="good"} 0',
        'cronguard_runs{key="good",state="succeeded"} 1', 'cronguard_skips{key="good",reason="already_succeeded"} 1',
        'cronguard_runs{key="a\\"b\\\\c",state="pending"} 1', 'cronguard_in_progress{key="good"} 0',
        'cronguard_missed{key="mail"} 0', 'cronguard_overdue{key="mail"} 0',
    ):  # fmt: skip
        assert f"{line}\n" in text
    names = re.findall(r"^# TYPE cronguard_(\w+) gauge$", text, re.MULTILINE)
    assert {"last_pass_timestamp_seconds", "last_success_timestamp_seconds", "last_start_timestamp_seconds"} <= set(
        names
    )
    assert all(
        re.fullmatch(r'cronguard_\w+(\{(\w+="(\\.|[^"\\])*",?)+\})? \S+|# .*', line) for line in text.splitlines()
    )


def test_metrics_say_that_the_ledger_cannot_be_reached(bare_guard: Guard, tmp_path: Path) -> None:
    guard = bare_guard.with_env(CRONGUARD_DSN="postgresql://app@127.0.0.1:1/none", CRONGUARD_STATE_DIR=str(tmp_path))
    result = guard.run("supervise", "--db-wait", "1s", "--metrics", "figures")
    assert (result.code, figures(guard).splitlines()[-1]) == (75, "cronguard_ledger_up 0")


def test_metrics_that_cannot_be_written_are_one_line_after_the_report(guard: Guard) -> None:
    died(guard)
    result = guard.run("supervise", "--metrics", "nowhere/figures")
    assert (result.code, result.only_line) == (
        125, "cronguard: the metrics file nowhere/figures cannot be written: No such file or directory",
    )  # fmt: skip
    assert "recovery" in result.out


# --------------------------------------------------------------------------- who else is told


def test_hook_is_told_the_facts_of_each_request_and_of_what_nobody_will_run(guard: Guard) -> None:
    died(guard)
    died(guard, "spent", recoveries=0)
    failed(guard)
    facts = "echo $CRONGUARD_KEY $CRONGUARD_PERIOD $CRONGUARD_FOUND $CRONGUARD_STATE $CRONGUARD_CAUSE $CRONGUARD_RAN_ON"
    result = guard.run("supervise", "--on-request", f"{facts} ${{CRONGUARD_TOKEN-none}} >> told; echo to whom")
    assert guard.lines("told") == [
        f"job {PERIOD} recovery pending lease_over alpha none", f"spent {PERIOD} dead dead alpha none",
    ]  # fmt: skip
    assert (result.code, result.err) == (0, "to whom\n" * 2)  # stdout is the report's


def test_hook_finds_the_request_in_the_ledger_and_may_answer_it(guard: Guard) -> None:
    """It is called once the request is committed, and in it cronguard run needs no key and no period."""
    died(guard)
    command = f"{sys.executable} -m cronguard run -- touch came"
    assert guard.run("supervise", "--on-request", command).code == 0
    assert guard.show("job", PERIOD)["state"] == "succeeded"


def test_hook_that_fails_is_said_and_the_pass_goes_on(guard: Guard) -> None:
    died(guard, "a")
    died(guard, "b")
    result = guard.run("supervise", "--on-request", "exit 7")
    assert [line.partition(": ")[2] for line in result.err.splitlines()] == [
        f"warning: {key} {PERIOD}: the hook of --on-request ended with exit 7" for key in "ab"
    ]
    assert (result.code, result.out.count("recovery")) == (0, 2)


def test_hook_has_its_time_and_nothing_of_it_is_left_after_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    hook = Hook(f"sleep 600 & echo $! > {pids}; wait", within=1.0)
    assert hook.run({"PATH": os.environ["PATH"]}) == "was killed after 1s"
    wait_dead(int(pids.read_text()))


def test_each_request_is_also_a_notification_whoever_makes_it(database: Database, postgres_guard: Guard) -> None:
    guard = postgres_guard
    with database.connect() as listening:
        listening.execute("listen cronguard")
        died(guard)
        guard.run("supervise", "--dry-run")
        guard.run("supervise")
        died(guard, "other")
        guard.run("run", "--key", "other", "--period", "2026-11-28", "--", "true")  # recovers it on its way
        died(guard, "own")
        guard.run("run", "--key", "own", "--period", PERIOD, "--", "true")  # requests and takes it: nobody is asked
        guard.run("supervise")
        told = [json.loads(notice.payload) for notice in listening.notifies(timeout=1)]
    assert [(one["schema"], one["key"], one["period"], one["cause"]) for one in told] == [
        ("cronguard.recovery/1", "job", PERIOD, "lease_over"), ("cronguard.recovery/1", "other", PERIOD, "lease_over"),
    ]  # fmt: skip
    assert told[0]["requested_by"] == os.uname().nodename


def test_result_that_waits_on_this_host_is_delivered_before_anything_is_judged(guard: Guard) -> None:
    guard.run("init")
    address = address_of(guard)
    then = datetime.now(UTC) - timedelta(minutes=2)
    held = granted(claim(open_store(address, clock=lambda: then), key="job", period=PERIOD))
    FileSpool([Path(guard.environment["CRONGUARD_STATE_DIR"]) / "spool"], address.name).keep(held, SUCCEEDED)
    assert report(guard) == []
    assert guard.show("job", PERIOD)["state"] == "succeeded"


def test_role_with_the_printed_grants_may_supervise(database: Database, bare_guard: Guard) -> None:
    owner = bare_guard.with_env(CRONGUARD_DSN=database.dsn, CRONGUARD_STATE_DIR=str(bare_guard.folder))
    died(owner)
    grants = [line.removeprefix("-- ") for line in owner.run("init", "--print-sql").out.splitlines()
              if line.startswith("-- grant ")]  # fmt: skip
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        connection.execute("drop role if exists ops_role")
        connection.execute("create role ops_role login")
        connection.execute("\n".join(grants).encode())
    guard = owner.with_env(CRONGUARD_DSN=database.server.dsn(database.name, user="ops_role"))
    assert [line[0] for line in report(guard, "--metrics", "figures")] == ["recovery"]
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        connection.execute("drop owned by ops_role; drop role ops_role")


def test_old_runs_are_forgotten_after_the_pass_if_that_is_asked_for(guard: Guard) -> None:
    for day in ("2019-03-01", "2019-03-02"):
        assert guard.run("run", "--key", "job", "--period", day, "--", "true").code == 0
    assert guard.run("supervise", "--prune").code == 0
    assert len(guard.history("job")) == 2  # ran today, and among the newest 50
    refused = guard.run("supervise", "--prune", "--key", "j*")
    assert (refused.code, "cronguard prune" in refused.only_line) == (125, True)
