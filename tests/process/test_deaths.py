"""Rows 26 to 29 and 52 of the event table: kill -9 of one of the two, of both, and who cannot be killed at all."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.looking import POWERLESS
from tests.conftest import Database
from tests.rig.guard import Guard
from tests.rig.postgres import Server
from tests.rig.processes import alive
from tests.rig.proxy import Proxy
from tests.rig.supervised import (
    AT_ONCE,
    ENDLESS,
    PATIENT,
    SHORT_LEASE,
    attempt,
    ended,
    kill,
    nobody_left,
    run,
    start,
    wait_until_ended,
)
from tests.rig.waiting import wait_until

STUBBORN = "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.05; done' &"


def can_be_run_at_once(guard: Guard) -> bool:
    """The lease of 60 s is not waited for: the run was given on, with proof that nothing of it is left."""
    return run(guard, "touch again").code == 0 and (guard.folder / "again").exists()


def test_row_26_worker_killed_takes_the_tree_with_it_and_the_run_can_be_run_again_at_once(guard: Guard) -> None:
    job = start(guard, ENDLESS, before=STUBBORN)
    kill(job.worker)
    assert job.code() == 76
    nobody_left(guard.folder, job.command, within=0.1)
    assert ended(guard) == ("pending", "lost")
    assert "worker" in attempt(guard)["note"]
    assert can_be_run_at_once(guard)
    assert guard.show("job")["recoveries"] == 1


@pytest.mark.parametrize("signum", [signal.SIGSEGV, signal.SIGABRT])
def test_row_26_worker_that_crashes_is_as_one_that_was_killed(sqlite_guard: Guard, signum: int) -> None:
    job = start(sqlite_guard, ENDLESS, before=STUBBORN)
    kill(job.worker, signum=signum)
    assert job.code() == 76
    nobody_left(sqlite_guard.folder, job.command, within=0.1)
    assert ended(sqlite_guard) == ("pending", "lost")


def test_row_26_worker_killed_while_the_ledger_is_away_is_told_by_the_next_command_on_this_host(
    database: Database, proxy: Callable[[Server], Proxy], postgres_guard: Guard
) -> None:
    way = proxy(database.server)
    guard = postgres_guard.with_env(CRONGUARD_DSN=database.through(way), CRONGUARD_DB_WAIT="1s")
    job = start(guard, ENDLESS, before=STUBBORN)
    way.cut()
    kill(job.worker)
    assert job.code() == 76
    nobody_left(guard.folder, job.command, within=0.1)
    way.restore()
    assert guard.run("history").code == 0
    assert ended(guard) == ("pending", "lost")


def test_row_26_worker_without_recoveries_leaves_the_run_dead(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, ENDLESS, "--recoveries", "0")
    kill(job.worker)
    assert job.code() == 76
    assert ended(sqlite_guard) == ("dead", "lost")
    assert run(sqlite_guard, "touch again", "--recoveries", "0").code == 76
    assert not (sqlite_guard.folder / "again").exists()


def test_row_27_guardian_killed_takes_the_tree_with_it_and_the_run_can_be_run_again_at_once(guard: Guard) -> None:
    job = start(guard, ENDLESS, before=STUBBORN)
    kill(job.guardian)
    assert job.code() == 137
    nobody_left(guard.folder, job.command, within=AT_ONCE)
    assert wait_until_ended(guard) == ("pending", "lost")
    assert "guardian" in attempt(guard)["note"]
    assert can_be_run_at_once(guard)


def test_row_28_kill_of_the_wrappers_whole_group_leaves_nobody(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, ENDLESS, before=STUBBORN)
    os.killpg(job.guardian, signal.SIGKILL)
    assert job.code() == 137
    nobody_left(sqlite_guard.folder, job.command, within=AT_ONCE)
    assert wait_until_ended(sqlite_guard) == ("pending", "lost")


def test_row_28_timeout_with_kill_around_cronguard_leaves_nobody(sqlite_guard: Guard) -> None:
    result = run(sqlite_guard.under("timeout", "-s", "KILL", "6"), f"{STUBBORN}\necho $$ >> pids; {ENDLESS}")
    assert result.code == 137
    nobody_left(sqlite_guard.folder, int(sqlite_guard.lines("pids")[0]), within=AT_ONCE)
    assert wait_until_ended(sqlite_guard) == ("pending", "lost")


def test_row_29_both_killed_takes_the_command_itself_and_the_rest_is_the_documented_hole(sqlite_guard: Guard) -> None:
    """Nobody is left who could kill the rest, or tell the ledger: the run is taken over when its lease is over."""
    job = start(sqlite_guard, ENDLESS, *SHORT_LEASE)
    kill(job.worker, signum=signal.SIGSTOP)  # so that it cannot do anything between the two kills
    kill(job.guardian, job.worker)
    wait_until(lambda: not alive(job.command), AT_ONCE, saying="the command is dead")
    assert job.code() == 137
    assert ended(sqlite_guard) == ("running", None)
    assert run(sqlite_guard, "touch again").code == 0
    assert not (sqlite_guard.folder / "again").exists()  # held
    wait_until(lambda: can_be_run_at_once(sqlite_guard), PATIENT, every=0.5, saying="the run is taken over")
    assert [one["outcome"] for one in sqlite_guard.show("job")["attempts"]] == ["lost", "succeeded"]


def belongs_wholly_to(pid: int, user: int) -> bool:
    """By its real user too: whose real user is still ours may be killed by us, whatever it became otherwise."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")) == [str(user)] * 4


@pytest.mark.needs("namespaces")
def test_row_52_who_cannot_be_killed_is_named_in_the_ledger_and_the_run_is_not_given_on(
    sqlite_guard: Guard, tmp_path: Path
) -> None:
    """Another user's process, as under sudo: cronguard without privileges may not even send it a signal."""
    assert POWERLESS, "only root can make a process that another may not kill"
    other = 65534
    setuid = Path(shutil.copy(shutil.which("setpriv") or "", sqlite_guard.folder / "become_other"))
    os.chown(setuid, other, other)
    setuid.chmod(0o4755)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)
    script = f"./become_other --ruid {other} --euid {other} sleep 60 & echo $! > other; wait"
    powerless = sqlite_guard.under(*POWERLESS)
    job = start(powerless, script, "--stop-grace", "0.5s")
    other_pid = int(sqlite_guard.wait_for_line("other")[0])
    wait_until(lambda: belongs_wholly_to(other_pid, other), saying="it belongs to somebody else")
    kill(job.guardian, signum=signal.SIGTERM)
    try:
        assert job.code() == 76
        assert alive(other_pid)
        assert ended(sqlite_guard) == ("running", "lost")
        assert f"could not be killed: {other_pid}" in attempt(sqlite_guard)["note"]
        assert not can_be_run_at_once(sqlite_guard)
    finally:
        kill(other_pid)
