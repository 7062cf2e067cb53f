"""This host, or the server, has no room for one more: a file, a process, a thread, a connection.

Nothing starts, with one clear line, and the run waits for somebody who has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.rig import marks
from tests.rig.guard import Guard
from tests.rig.host import Host
from tests.rig.postgres import Server
from tests.rig.supervised import PATIENT, run
from tests.rig.waiting import wait_until
from tests.rig.witness import attempts_in

RESERVED = 3  # connections that Postgres keeps for superusers


@pytest.mark.parametrize("files", range(5, 20, 2))
def test_want_of_file_descriptors_starts_nothing_and_holds_nothing(sqlite_guard: Guard, files: int) -> None:
    """From too few to open a ledger to just too few for the command; with 19 it may run."""
    assert sqlite_guard.run("init").code == 0
    poor = sqlite_guard.under("sh", "-c", f'ulimit -n {files}; exec "$@"', "sh")
    result = run(poor, "echo ran >> marks")
    if result.code == 0:
        assert sqlite_guard.lines("marks") == ["ran"]
    else:
        assert (result.code, sqlite_guard.lines("marks")) == (125, [])
        assert result.err.startswith("cronguard: ")
        assert "Traceback" not in result.err
    assert run(sqlite_guard, "echo ran >> marks").code == 0
    assert sqlite_guard.lines("marks") == ["ran"]  # at once: no lease is waited for
    assert sqlite_guard.show("job")["state"] == "succeeded"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path / "host", {"CRONGUARD_STATE_DIR": str(tmp_path / "state")})
    yield host
    host.close()


@pytest.mark.parametrize("forks", range(5))
def test_want_of_processes_and_threads_starts_nothing_and_holds_nothing(
    host: Host, sqlite_guard: Guard, tmp_path: Path, forks: int
) -> None:
    """0: no worker; 1: no command; 2 and 3: no thread for its output or its beats; 4: there is room."""
    job = ("run", "--key", "job", "--", *marks.command(tmp_path, 0))
    poor = host.fire(*job, LAB_FORKS=str(forks))
    wait_until(lambda: poor.code is not None, PATIENT, saying="it has ended")
    if forks < 4:
        assert (poor.code, attempts_in(tmp_path)) == (125, [])
        assert len(poor.said.splitlines()) == 1
        assert "Traceback" not in poor.said
    rich = host.fire(*job)
    wait_until(lambda: rich.code is not None, PATIENT, saying="it has ended")
    assert (rich.code, rich.said, len(attempts_in(tmp_path))) == (0, "", 1)
    assert sqlite_guard.show("job")["state"] == "succeeded"


def connected(dsn: str) -> psycopg.Connection[Any]:
    """As soon as there is room: a server's process goes a moment after its client."""

    def connection() -> psycopg.Connection[Any] | None:
        with suppress(psycopg.OperationalError):
            return psycopg.connect(dsn)
        return None

    return wait_until(connection, PATIENT, saying="a connection is free")  # type: ignore[return-value]


def test_server_without_a_free_connection_starts_nothing(bare_guard: Guard, tmp_path: Path) -> None:
    with Server(max_connections=10) as server, ExitStack() as stack:
        dsn = server.dsn(server.create_database())
        guard = bare_guard.with_env(CRONGUARD_DSN=dsn, CRONGUARD_STATE_DIR=str(tmp_path / "state"))
        assert guard.run("init").code == 0
        taken = [stack.enter_context(connected(dsn)) for _ in range(10 - RESERVED)]
        full = run(guard, "echo ran >> marks", "--db-wait", "1s")
        assert (full.code, guard.lines("marks")) == (75, [])
        assert "nothing was started" in full.only_line
        patient = guard.start("run", "--key", "job", "--", "sh", "-c", "echo ran >> marks")
        taken[0].close()
        assert patient.wait(PATIENT) == 0
        assert guard.lines("marks") == ["ran"]
