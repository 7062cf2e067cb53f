"""Rows 20 to 25 of the event table: the ledger falls silent, says no, or somebody is frozen past the lease."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime

import pytest

from tests.acceptance.looking import change
from tests.conftest import Database
from tests.rig.guard import Guard
from tests.rig.postgres import Server
from tests.rig.processes import alive, state, stopped
from tests.rig.proxy import Proxy
from tests.rig.supervised import (
    ENDLESS,
    LEASE,
    PATIENT,
    SHORT_LEASE,
    TICKING,
    attempt,
    ended,
    kill,
    moves,
    nobody_left,
    run,
    stands_still,
    start,
    wait_until_ended,
)
from tests.rig.waiting import wait_until

UNTIL_GO = "until [ -e go ]; do echo tick >> ticks; sleep 0.05; done"
Way = tuple[Guard, Proxy]


@pytest.fixture
def through_proxy(database: Database, proxy: Callable[[Server], Proxy], postgres_guard: Guard) -> Way:
    """cronguard with a network between itself and its ledger that the test may disturb."""
    way = proxy(database.server)
    return postgres_guard.with_env(CRONGUARD_DSN=database.through(way)), way


def test_row_20_beat_that_fails_is_sent_again_and_nothing_happens_to_the_command(through_proxy: Way) -> None:
    guard, way = through_proxy
    job = start(guard, UNTIL_GO, *SHORT_LEASE)
    way.drop_reply_to(b"update cronguard.lease")  # and with it the connection
    wait_until(lambda: way.dropped, saying="the answer to a beat is lost")
    first = guard.show("job")["lease_until"]
    wait_until(lambda: guard.show("job")["lease_until"] > first, every=0.3, saying="it is sent again")
    (guard.folder / "go").touch()
    assert job.code() == 0
    assert (ended(guard), len(guard.show("job")["attempts"])) == (("succeeded", "succeeded"), 1)


def test_row_21_no_answer_until_the_lease_is_nearly_over_freezes_the_command(through_proxy: Way) -> None:
    """By default it is not ended but frozen, and goes on when the ledger answers that the run is still ours."""
    guard, way = through_proxy
    job = start(guard, UNTIL_GO, *SHORT_LEASE)
    moves(guard.folder / "ticks")
    way.black_hole()
    wait_until(lambda: stopped(job.command), PATIENT, saying="the command is frozen")
    assert stands_still(guard.folder / "ticks", 0.3)
    way.restore()
    moves(guard.folder / "ticks")
    (guard.folder / "go").touch()
    assert job.code() == 0
    assert (ended(guard), len(guard.show("job")["attempts"])) == (("succeeded", "succeeded"), 1)


WAITS_FOR_AN_EXEC = """
import os
opening = (os.POSIX_SPAWN_OPEN, 0, "slow", os.O_RDONLY, 0)  # before its exec the child waits for somebody who writes
os.waitpid(os.posix_spawnp("touch", ["touch", "child"], os.environ, file_actions=[opening]), 0)
open("parent", "w").close()
"""


def test_row_21_who_waits_inside_the_kernel_for_a_childs_exec_is_as_frozen_and_goes_on_too(through_proxy: Way) -> None:
    """As a shell does with each command (vfork(2)): there it cannot be stopped, and need not be."""
    guard, way = through_proxy
    slow, child, parent = (guard.folder / name for name in ("slow", "child", "parent"))
    os.mkfifo(slow)
    job = start(guard, f"exec {sys.executable} -c '{WAITS_FOR_AN_EXEC}'", *SHORT_LEASE)
    wait_until(lambda: state(job.command) == "D", saying="it waits for its child")
    way.black_hole()
    wait_until(lambda: stopped(job.command), PATIENT, saying="the command is frozen")
    written = os.open(slow, os.O_RDWR)
    with pytest.raises(AssertionError):
        wait_until(child.exists, 0.3)
    way.restore()
    assert job.code() == 0
    os.close(written)
    assert child.exists()
    assert parent.exists()
    assert ended(guard) == ("succeeded", "succeeded")


@pytest.mark.parametrize("before", ["trap 'echo heard >> heard; exit 0' TERM", "trap '' TERM"])
def test_row_21_with_on_silence_kill_the_command_is_asked_to_stop_and_dead_before_the_lease_is_over(
    through_proxy: Way, postgres_guard: Guard, before: str
) -> None:
    guard, way = through_proxy
    options = ("--lease", "13s", "--stop-grace", "5s", "--beat-every", "0.5s")
    job = start(guard, TICKING, *options, "--on-silence", "kill", before=before)
    moves(guard.folder / "ticks")
    way.black_hole()
    wait_until(lambda: not alive(job.command), PATIENT, saying="the command is dead")
    lease_until = datetime.fromisoformat(postgres_guard.show("job")["lease_until"])
    assert (guard.folder / "ticks").stat().st_mtime < lease_until.timestamp()  # however late we have looked
    assert job.code() == 76
    way.restore()
    assert guard.lines("heard") == ["heard"] * ("heard" in before)
    assert guard.run("history").code == 0  # delivers
    assert attempt(postgres_guard)["outcome"] == "lost"


def test_row_21_with_on_silence_continue_nothing_happens_to_the_command(through_proxy: Way) -> None:
    guard, way = through_proxy
    job = start(guard, UNTIL_GO, *SHORT_LEASE, "--on-silence", "continue")
    way.black_hole()
    silent_since = time.monotonic()
    wait_until(lambda: time.monotonic() > silent_since + LEASE, 2 * LEASE, saying="the lease is over")
    moves(guard.folder / "ticks")
    way.restore()
    (guard.folder / "go").touch()
    assert job.code() == 0
    assert ended(guard) == ("succeeded", "succeeded")


def test_row_22_ledger_that_names_another_holder_gets_the_command_killed_without_grace(sqlite_guard: Guard) -> None:
    options = ("--lease", "40s", "--beat-every", "0.5s", "--stop-grace", "20s")
    job = start(sqlite_guard, ENDLESS, *options, before="trap 'echo heard >> heard' TERM")
    change(sqlite_guard, "update lease set token = token + 1, holder = 'somebody else'")
    wait_until(lambda: not alive(job.command), saying="the command is dead")
    assert job.code() == 76
    assert sqlite_guard.lines("heard") == []
    assert (attempt(sqlite_guard)["outcome"], attempt(sqlite_guard)["signal"]) == ("lost", 9)


def test_row_23_cut_connections_are_no_loss_and_the_token_stays(through_proxy: Way) -> None:
    guard, way = through_proxy
    job = start(guard, UNTIL_GO, "--lease", "20s", "--beat-every", "0.3s")
    token = guard.show("job")["token"]
    for _ in range(3):
        way.cut()
        before = way.connections
        way.restore()
        wait_until(lambda seen=before: way.connections > seen, saying="it beats again")  # type: ignore[misc]
    (guard.folder / "go").touch()
    assert job.code() == 0
    record = guard.show("job")
    assert [(one["token"], one["outcome"]) for one in record["attempts"]] == [(token, "succeeded")]


def test_row_24_host_that_sleeps_past_its_lease_wakes_up_to_76(sqlite_guard: Guard) -> None:
    """All three stand still together, as in a suspend; the command is killed without grace, or never moves again."""
    job = start(sqlite_guard, TICKING, *SHORT_LEASE, before="trap 'echo heard >> heard' TERM")
    host = (job.guardian, job.worker, job.command)
    kill(*host, signum=signal.SIGSTOP)
    wait_until(
        lambda: run(sqlite_guard, "touch taken").code == 0 and (sqlite_guard.folder / "taken").exists(),
        PATIENT, every=0.3, saying="another host takes over",
    )  # fmt: skip
    ticks = len(sqlite_guard.lines("ticks"))
    kill(*reversed(host), signum=signal.SIGCONT)
    assert job.code() == 76
    assert len(sqlite_guard.lines("ticks")) - ticks < 200  # ten seconds: who wakes up last is the guardian
    assert sqlite_guard.lines("heard") == []
    assert ended(sqlite_guard) == ("succeeded", "succeeded")
    assert sqlite_guard.show("job")["attempts"][0]["outcome"] == "lost"


def test_row_25_frozen_worker_is_fenced_by_the_guardians_own_timer(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, TICKING, *SHORT_LEASE)
    kill(job.worker, signum=signal.SIGSTOP)
    wait_until(lambda: not alive(job.command), PATIENT, saying="the guardian kills the command")
    still_held = run(sqlite_guard, "echo ran >> again")
    assert job.code() == 76
    nobody_left(sqlite_guard.folder, job.worker)
    assert (still_held.code, sqlite_guard.show("job")["attempts"][0]["outcome"]) == (0, "lost")
    assert wait_until_ended(sqlite_guard)[1] in ("lost", "succeeded")


def test_row_25_worker_that_is_frozen_for_a_moment_keeps_its_run(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, UNTIL_GO, "--lease", "20s", "--beat-every", "0.5s")
    kill(job.worker, signum=signal.SIGSTOP)
    wait_until(lambda: stopped(job.worker))
    moves(sqlite_guard.folder / "ticks")
    kill(job.worker, signum=signal.SIGCONT)
    (sqlite_guard.folder / "go").touch()
    assert job.code() == 0


@pytest.mark.parametrize("how", ["told to stop", "complete-by"])
def test_row_21_frozen_command_does_not_move_to_be_stopped(through_proxy: Way, how: str) -> None:
    """The lease may be somebody else's by then: it is killed where it stands, and hears nothing."""
    guard, way = through_proxy
    options = ("--complete-by", "14s") if how == "complete-by" else ()
    job = start(guard, TICKING, *SHORT_LEASE, *options, before="trap 'echo heard >> heard; exit 0' TERM")
    way.black_hole()
    wait_until(lambda: stopped(job.command), PATIENT, saying="the command is frozen")
    ticks = len(guard.lines("ticks"))
    if how == "told to stop":
        kill(job.guardian, signum=signal.SIGTERM)
    wait_until(lambda: not alive(job.command), PATIENT, saying="the command is dead")
    assert (len(guard.lines("ticks")), guard.lines("heard")) == (ticks, [])
    way.restore()
    assert job.code() == (143 if how == "told to stop" else 124)


def test_row_21_frozen_command_that_somebody_continues_is_frozen_again(through_proxy: Way) -> None:
    guard, way = through_proxy
    job = start(guard, TICKING, *SHORT_LEASE)
    way.black_hole()
    wait_until(lambda: stopped(job.command), PATIENT, saying="the command is frozen")
    kill(job.command, signum=signal.SIGCONT)
    wait_until(lambda: stopped(job.command), saying="it is frozen again")
    assert stands_still(guard.folder / "ticks", 0.3)
