"""--lock advisory: a crash is seen at once, a cut connection too, and a pooler is no place for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance.looking import STARTS, records
from tests.conftest import Database
from tests.rig.guard import Guard, code_of, host_dies, wait_dead
from tests.rig.pgbouncer import PgBouncer
from tests.rig.postgres import Server
from tests.rig.processes import descendants
from tests.rig.supervised import kill
from tests.rig.waiting import wait_until

PATIENT = 30.0
ADVISORY = ("run", "--key", "job", "--lock", "advisory", "--lease", "10m")  # a beat comes every 100 s
TICKING = "echo $$ >> pids; while :; do echo $CRONGUARD_ATTEMPT >> ticks; sleep 0.02; done"
TICKS_ONCE = "echo new >> ticks"


def ticking(guard: Guard) -> tuple[int, int]:
    """(cronguard's pid, the command's) of a run that ticks until it is killed; its lease lasts for ten minutes."""
    started = guard.start(*ADVISORY, "--", "sh", "-c", TICKING)
    command = int(guard.wait_for_line("pids")[0])
    guard.wait_for_line("ticks", 3)
    return started.pid, command


def cut_off(database: Database) -> int:
    """Terminate whoever holds a lock; how many sessions that was."""
    terminated = database.server.execute(
        "select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database "
        "where l.locktype = 'advisory' and d.datname = %s",
        database.name,
    )
    return len(terminated)


def test_run_ends_as_ever_and_leaves_the_key_free(guard: Guard) -> None:
    for code in (0, 3, 0):
        asked = (*ADVISORY, "--every", "run", "--attempts", "2", "--retry-delay", "0.1s")
        assert guard.run(*asked, "--", "sh", "-c", f"exit {code}").code == code
    assert [run["state"] for run in guard.history("job")] == ["succeeded", "failed", "succeeded"]
    assert "lease" not in records(guard)


def test_crashed_host_is_taken_over_at_once_although_its_lease_lasts(guard: Guard) -> None:
    """By the first that comes when the kernel, or the server, has noticed."""
    wrapper, _ = ticking(guard)
    host_dies(wrapper)

    def taken_over() -> bool:
        return guard.run(*ADVISORY, "--", "sh", "-c", TICKS_ONCE).code == 0 and "new" in guard.lines("ticks")

    wait_until(taken_over, PATIENT, saying="a firing takes over")
    run = guard.show("job")
    assert [(one["outcome"], one["note"]) for one in run["attempts"]] == [
        ("lost", "its advisory lock was free"),
        ("succeeded", None),
    ]


def test_lock_is_the_worker_s_and_never_the_command_s(guard: Guard) -> None:
    """What a command leaves behind must not hold the key: it gets no descriptor that does."""
    asked = (*ADVISORY, "--stragglers", "leave", "--every", "run", "--", "sh", "-c")
    assert guard.run(*asked, "ls -l /proc/self/fd > fds; setsid sleep 300 & echo $! > straggler").code == 0
    assert [line for line in guard.lines("fds") if ".locks" in line or "socket:" in line] == []
    assert guard.run(*asked, "echo free >> ran").code == 0
    assert guard.lines("ran") == ["free"]
    kill(int(guard.lines("straggler")[0]))


def test_holder_whose_session_is_terminated_kills_its_command_before_another_starts(
    postgres_guard: Guard, database: Database
) -> None:
    """Long before the next beat; at no time do two of them tick. Who first tells the ledger is a matter of luck."""
    guard = postgres_guard
    wrapper, command = ticking(guard)
    standby = guard.start(*ADVISORY, "--if-held", "wait", "--", "sh", "-c", TICKS_ONCE)
    wait_until(lambda: len(descendants(standby.pid)) > 0, PATIENT)
    assert cut_off(database) == 1
    wait_dead(command, PATIENT)
    assert code_of(guard.started[0], PATIENT) == 76
    assert code_of(standby, PATIENT) == 0
    ticks = guard.lines("ticks")
    assert ticks[-1] == "new" and ticks.count("new") == 1
    first, second = guard.show("job")["attempts"]
    assert (first["outcome"], second["outcome"]) == ("lost", "succeeded")
    assert first["note"] in ("killed: the lease or its advisory lock was lost", "its advisory lock was free")
    assert wrapper == guard.started[0].pid


def test_restarted_server_costs_the_run_its_lock_and_nothing_else(bare_guard: Guard, own_postgres: Server) -> None:
    database = own_postgres.create_database()
    guard = bare_guard.with_env(
        CRONGUARD_DSN=own_postgres.dsn(database), CRONGUARD_STATE_DIR=str(bare_guard.folder / "state")
    )
    assert guard.run("init").code == 0
    _, command = ticking(guard)
    own_postgres.stop("fast")
    wait_dead(command, PATIENT)
    own_postgres.start()
    assert code_of(guard.started[0], PATIENT) == 76
    assert guard.run(*ADVISORY, "--", "sh", "-c", TICKS_ONCE).code == 0
    assert guard.show("job")["attempts"][0]["outcome"] == "lost"


def test_lock_file_that_is_removed_is_as_good_as_lost(sqlite_guard: Guard) -> None:
    _, command = ticking(sqlite_guard)
    (lock,) = (sqlite_guard.folder.parent / "state" / "ledger.db.locks").iterdir()
    lock.unlink()
    wait_dead(command, PATIENT)
    assert code_of(sqlite_guard.started[0], PATIENT) == 76


@pytest.mark.needs("pgbouncer")
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_behind_a_pooler_it_is_refused_with_the_reason_and_the_claim_alone_works(
    postgres_guard: Guard, database: Database, pgbouncer: Callable[..., PgBouncer], mode: str
) -> None:
    pooled = postgres_guard.with_env(CRONGUARD_DSN=database.through(pgbouncer(database.server, mode)))
    refused = pooled.run(*ADVISORY, *STARTS)
    assert (refused.code, refused.out) == (125, "")
    assert "--lock advisory cannot be relied on at 127.0.0.1:" in refused.only_line
    assert (
        "connection was made to: there is a pooler between; use --lock claim, or a DSN that leads to the server itself"
        in refused.only_line
    )
    assert not (pooled.folder / "started").exists()
    assert records(postgres_guard) == {}
    assert pooled.run("run", "--key", "job", "--lock", "claim", *STARTS).code == 0
    assert (pooled.folder / "started").exists()


def test_supervisor_sees_at_once_that_the_host_of_an_advisory_lock_has_died(guard: Guard) -> None:
    """Its lease is not waited for; but the lock is looked at twice."""
    wrapper, _ = ticking(guard)
    assert guard.run("supervise").out == ""
    host_dies(wrapper)
    wait_until(lambda: "recovery" in guard.run("supervise").out, PATIENT, saying="the recovery is requested")
    run = guard.show("job")
    assert (run["state"], run["attempts"][0]["note"]) == ("pending", "its advisory lock was free")
