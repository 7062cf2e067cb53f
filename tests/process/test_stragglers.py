"""Rows 49 and 51 of the event table: processes that the command leaves behind."""

from __future__ import annotations

import time

import pytest

from tests.rig.guard import Guard
from tests.rig.processes import alive, descendants
from tests.rig.supervised import (
    AT_ONCE,
    ENDLESS,
    KEY,
    LEASE,
    PATIENT,
    SHORT_LEASE,
    attempt,
    ended,
    kill,
    nobody_left,
    run,
    start,
)
from tests.rig.waiting import in_time, wait_until
from tests.rig.zoo import Zoo

HELPER = "sh -c 'trap \"echo heard >> heard; exit\" TERM; echo $$ >> helpers; while :; do sleep 0.05; done'"
READY = "until [ -s helpers ]; do sleep 0.02; done"
AGAIN = ("--rerun", "--force")
PLAIN, ESCAPED = f"{HELPER} &\n{READY}", f"setsid -f {HELPER}\n{READY}"


@pytest.mark.parametrize(
    "left", [pytest.param(PLAIN, id="row_49_plain"), pytest.param(ESCAPED, id="row_51_escaped_by_setsid")]
)
@pytest.mark.parametrize("code", [0, 3])
def test_rows_49_51_what_is_left_gets_five_seconds_is_asked_and_killed_and_noted(
    sqlite_guard: Guard, left: str, code: int
) -> None:
    begun = time.monotonic()
    assert run(sqlite_guard, f"{left}\nexit {code}", "--stop-grace", "20s").code == code
    assert 5 <= time.monotonic() - begun < 5 + 20
    assert sqlite_guard.lines("heard") == ["heard"]
    nobody_left(sqlite_guard.folder, int(sqlite_guard.lines("helpers")[0]), within=0.1)
    assert ended(sqlite_guard) == (("failed", "failed") if code else ("succeeded", "succeeded"))
    assert "left" in attempt(sqlite_guard)["note"] and "behind" in attempt(sqlite_guard)["note"]


def test_row_49_what_ends_by_itself_in_time_costs_only_that_time_and_its_output_is_there(sqlite_guard: Guard) -> None:
    def taken() -> float:
        begun = time.monotonic()
        result = run(sqlite_guard, "(sleep 0.5; echo late) & echo early", *AGAIN)
        assert (result.code, result.out) == (0, "early\nlate\n")
        return time.monotonic() - begun

    in_time(taken, 4)


def test_row_49_who_ignores_the_request_is_killed_after_the_grace(sqlite_guard: Guard) -> None:
    ignoring = "(trap '' TERM HUP; echo $$ >> helpers; while :; do sleep 0.05; done) &"
    assert run(sqlite_guard, f"{ignoring}\n{READY}", "--stop-grace", "0.5s").code == 0
    nobody_left(sqlite_guard.folder, within=0.1)
    assert ended(sqlite_guard) == ("succeeded", "succeeded")


def test_row_49_stragglers_wait_waits_for_them_while_the_lease_is_kept(sqlite_guard: Guard) -> None:
    script = "(until [ -e go ]; do sleep 0.05; done; echo last words) & echo $! >> helpers; exit 4"
    process = sqlite_guard.start(*KEY, "--stragglers", "wait", *SHORT_LEASE, "--", "sh", "-c", script)
    helper = int(sqlite_guard.wait_for_line("helpers")[0])
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() > begun + LEASE + 1, saying="its five seconds and a lease have passed")
    assert alive(helper)
    assert sqlite_guard.show("job")["state"] == "running"
    (sqlite_guard.folder / "go").touch()
    out, _ = process.communicate(timeout=PATIENT)
    assert (process.returncode, out) == (4, "last words\n")
    assert ended(sqlite_guard) == ("failed", "failed")


def test_row_49_stragglers_wait_still_has_its_deadline(sqlite_guard: Guard) -> None:
    options = ("--stragglers", "wait", "--complete-by", "5s", "--stop-grace", "0.5s")
    result = run(sqlite_guard, f"{PLAIN}\nexit 0", *options)
    assert result.code == 124
    nobody_left(sqlite_guard.folder, within=0.1)
    assert ended(sqlite_guard) == ("timed_out", "timed_out")


@pytest.mark.parametrize("left", [PLAIN, ESCAPED], ids=["plain", "escaped"])
def test_row_49_stragglers_leave_leaves_them_alone_and_holds_nobody_up(sqlite_guard: Guard, left: str) -> None:
    def taken() -> float:
        begun = time.monotonic()
        assert run(sqlite_guard, f"{left}\necho said", "--stragglers", "leave", *AGAIN).out == "said\n"
        took = time.monotonic() - begun
        (sqlite_guard.folder / "helpers").rename(sqlite_guard.folder / f"helpers-{begun}")
        return took

    in_time(taken, 5)
    helpers = [int(path.read_text()) for path in sqlite_guard.folder.glob("helpers-*")]
    assert all(map(alive, helpers))
    assert ended(sqlite_guard) == ("succeeded", "succeeded")
    kill(*helpers)
    nobody_left(sqlite_guard.folder, *helpers, within=AT_ONCE)


def test_row_49_stragglers_are_killed_when_one_of_the_two_is_killed_meanwhile(sqlite_guard: Guard) -> None:
    ignoring = HELPER.replace("heard; exit", "heard")
    job = start(sqlite_guard, ENDLESS, "--stop-grace", "40s", before=f"{ignoring} &\n{READY}")
    helper = int(sqlite_guard.lines("helpers")[0])
    kill(job.command)
    wait_until(lambda: not alive(job.command), saying="the command has ended")
    assert alive(helper)
    kill(job.guardian)
    nobody_left(sqlite_guard.folder, helper, within=AT_ONCE)


def test_row_51_all_of_the_zoo_but_its_leader_are_stragglers(sqlite_guard: Guard) -> None:
    zoo = Zoo(sqlite_guard.folder / "zoo")
    process = sqlite_guard.start("run", "--key", "job", "--stop-grace", "0.5s", "--", *zoo.command())
    wait_until(zoo.is_complete, PATIENT, saying="all nine are there")
    wait_until(lambda: sum(map(alive, descendants(process.pid))) == 1 + 9, saying="those between have gone")
    kill(zoo.pids()["leader"])
    assert process.wait(PATIENT) == -9
    nobody_left(sqlite_guard.folder, *zoo.pids().values(), within=0.1)
    assert "left 8 processes behind" in attempt(sqlite_guard)["note"]
