"""The file of a local ledger is moved, emptied, cut short, locked by others, or has no room, while a guard runs.

Nothing starts meanwhile, with one clear line; and what ran is not lost.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.looking import ledger_file
from tests.conftest import Database
from tests.faults.scene import fill
from tests.rig.guard import Guard
from tests.rig.hands import between_two_writes
from tests.rig.processes import stopped
from tests.rig.supervised import PATIENT, Supervised, attempt, ended, run, start
from tests.rig.waiting import wait_until

LEASE = ("--lease", "8s", "--stop-grace", "1s", "--beat-every", "0.5s")  # 5 s to start, 6 s until it is frozen
UNTIL_GO = "until [ -e go ]; do sleep 0.05; done"


def go(guard: Guard) -> None:
    (guard.folder / "go").touch()


def refused(guard: Guard, code: int, *options: str) -> str:
    """A second firing of the same period: nothing is started. Its one line."""
    result = run(guard, "touch again", *LEASE, *options)
    assert (result.code, (guard.folder / "again").exists()) == (code, False), result
    return str(result.only_line)


def is_frozen(job: Supervised) -> None:
    wait_until(lambda: stopped(job.command), PATIENT, saying="the command stands still")


def test_ledger_that_is_moved_away_is_a_pause_until_it_is_put_back(sqlite_guard: Guard) -> None:
    job, ledger = start(sqlite_guard, UNTIL_GO, *LEASE), ledger_file(sqlite_guard)
    with between_two_writes(ledger):
        aside = ledger.rename(ledger.with_name("aside"))
    assert "has been removed or emptied while its lock file was not: put it back" in refused(sqlite_guard, 125)
    is_frozen(job)
    aside.rename(ledger)
    go(sqlite_guard)
    assert job.code() == 0
    assert (ended(sqlite_guard), len(sqlite_guard.lines("pids"))) == (("succeeded", "succeeded"), 1)


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_ledger_that_is_gone_lets_nothing_start_until_a_person_says_so(sqlite_guard: Guard, how: str) -> None:
    job, ledger = start(sqlite_guard, UNTIL_GO, *LEASE), ledger_file(sqlite_guard)
    with between_two_writes(ledger):
        os.truncate(ledger, 0) if how == "emptied" else ledger.unlink()
    assert refused(sqlite_guard, 125).endswith(f"begin a new one by: rm {ledger}.lock")
    is_frozen(job)
    ledger.with_name("ledger.db.lock").unlink()
    assert run(sqlite_guard, "touch again").code == 0
    assert job.code() == 76  # it hears from the new ledger that it holds nothing
    assert ended(sqlite_guard) == ("succeeded", "succeeded")


def test_new_ledger_is_made_where_none_was(sqlite_guard: Guard) -> None:
    ledger = ledger_file(sqlite_guard)
    assert run(sqlite_guard, "true").code == 0
    for left in (ledger, Path(f"{ledger}.lock")):
        left.unlink()
    assert run(sqlite_guard, "touch again").code == 0
    assert (sqlite_guard.folder / "again").exists()


def test_result_that_a_damaged_ledger_does_not_take_is_kept(sqlite_guard: Guard) -> None:
    job, ledger = start(sqlite_guard, UNTIL_GO), ledger_file(sqlite_guard)
    with between_two_writes(ledger):
        whole = ledger.read_bytes()
        os.truncate(ledger, 4096)
    assert "is not an SQLite database; move it away, or name another file" in refused(sqlite_guard, 125)
    go(sqlite_guard)
    assert job.code() == 0
    assert "the result is kept in " in job.said()
    ledger.write_bytes(whole)  # from a backup
    assert run(sqlite_guard, "touch again").code == 0
    assert not (sqlite_guard.folder / "again").exists()
    assert ended(sqlite_guard) == ("succeeded", "succeeded")


def test_ledger_that_others_lock_is_a_pause(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, UNTIL_GO, *LEASE)
    with closing(sqlite3.connect(ledger_file(sqlite_guard), timeout=PATIENT, isolation_level=None)) as other:
        other.execute("begin exclusive")
        assert "is locked by another process" in refused(sqlite_guard, 75, "--db-wait", "1s")
        is_frozen(job)
    go(sqlite_guard)
    assert job.code() == 0
    assert ended(sqlite_guard) == ("succeeded", "succeeded")


# --- No room on the disk ----------------------------------------------------------------------------------------------


@pytest.mark.needs("tmpfs")
def test_full_disk_starts_nothing(on_small_disk: Guard, small_disk: Path) -> None:
    assert on_small_disk.run("init").code == 0
    filler = fill(small_disk)
    assert "cannot be written: database or disk is full" in refused(on_small_disk, 75, "--db-wait", "1s")
    filler.unlink()
    assert run(on_small_disk, "touch again").code == 0
    assert (on_small_disk.folder / "again").exists()


@pytest.mark.needs("tmpfs")
def test_result_that_finds_the_disk_full_is_kept_elsewhere_and_delivered(
    on_small_disk: Guard, small_disk: Path, tmp_path: Path
) -> None:
    job = start(on_small_disk, UNTIL_GO, *LEASE)
    with between_two_writes(ledger_file(on_small_disk)):
        filler = fill(small_disk)
    go(on_small_disk)
    assert job.code() == 0
    assert f"the result is kept in {tmp_path}/cronguard-{os.geteuid()}/spool/" in job.said()
    filler.unlink()
    assert run(on_small_disk, "touch again").code == 0
    assert not (on_small_disk.folder / "again").exists()
    assert ended(on_small_disk) == ("succeeded", "succeeded")


@pytest.mark.needs("tmpfs")
def test_result_that_can_be_kept_nowhere_is_said_to_be_lost_and_reads_so(
    on_small_disk: Guard, small_disk: Path
) -> None:
    guard = on_small_disk.with_env(TMPDIR=str(small_disk))
    job = start(guard, UNTIL_GO, *LEASE)
    with between_two_writes(ledger_file(guard)):
        filler = fill(small_disk)
    go(guard)
    assert job.code() == 0
    assert "the result could not be kept either" in job.said()
    filler.unlink()

    def done_again() -> bool:
        return run(guard, "touch again").code == 0 and (guard.folder / "again").exists()

    wait_until(done_again, PATIENT, every=0.5, saying="the run is taken over")
    assert [one["outcome"] for one in guard.show("job")["attempts"]] == ["lost", "succeeded"]


REFUSALS = {
    "the role may not": ("revoke all on cronguard.run from app", "grant all on cronguard.run to app"),
    "the schema is newer": (
        "update cronguard.schema_version set min_reader = 999",
        "update cronguard.schema_version set min_reader = 1",
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_result_that_the_fleets_ledger_refuses_is_kept(postgres_guard: Guard, database: Database, refusal: str) -> None:
    """Asking again would not help; but a person can."""
    job = start(postgres_guard, UNTIL_GO)
    harm, heal = REFUSALS[refusal]
    with database.connect() as connection:
        connection.execute(harm)
        go(postgres_guard)
        assert job.code() == 0
        assert "the result is kept in " in job.said()
        connection.execute(heal)
    assert run(postgres_guard, "touch again").code == 0
    assert not (postgres_guard.folder / "again").exists()
    assert attempt(postgres_guard)["outcome"] == "succeeded"
