"""The ledger goes away: before a start, under a running job, at its end, and in the middle of an answer."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from tests.conftest import Database
from tests.rig.guard import Guard, Result, code_of
from tests.rig.postgres import Server
from tests.rig.proxy import Proxy
from tests.rig.waiting import in_background, wait_until

PATIENT = 40.0
# Long enough for a server to stop in it: a command that was frozen before would not be seen to end well.
LEASE = ("--lease", "10s", "--stop-grace", "1s", "--beat-every", "0.5s")
SHORTER_THAN_USUAL = 25  # seconds, from a wait of 2 s on a slow machine; without that setting it were 30 s and more


@pytest.fixture
def on_own_server(own_postgres: Server, bare_guard: Guard, tmp_path: object) -> tuple[Guard, Server]:
    """cronguard on a server that the test may stop."""
    dsn = own_postgres.dsn(own_postgres.create_database())
    guard = bare_guard.with_env(CRONGUARD_DSN=dsn, CRONGUARD_STATE_DIR=str(tmp_path))
    assert guard.run("init").code == 0
    return guard, own_postgres


@pytest.fixture
def through_proxy(database: Database, proxy: Callable[[Server], Proxy], postgres_guard: Guard) -> tuple[Guard, Proxy]:
    """cronguard with a network between itself and its ledger that the test may disturb."""
    way = proxy(database.server)
    return postgres_guard.with_env(CRONGUARD_DSN=database.through(way)), way


def start_waiting_job(guard: Guard, *options: str) -> object:
    """A job that ends well as soon as the file `go` is there."""
    started = guard.start(
        "run", "--key", "job", *options, "--", "sh", "-c", "echo $$ >> pids; until [ -e go ]; do sleep 0.1; done"
    )
    guard.wait_for_line("pids")
    return started


def test_server_restarted_under_a_running_job_disturbs_nothing(on_own_server: tuple[Guard, Server]) -> None:
    """Ten seconds without a ledger: same attempt, one row, the job untouched."""
    guard, server = on_own_server
    job = start_waiting_job(guard, "--lease", "40s", "--beat-every", "1s")
    before = guard.show("job")
    server.stop()
    gone_at = time.monotonic()
    wait_until(lambda: time.monotonic() > gone_at + 10, within=30, saying="ten seconds have passed")
    server.start()
    (guard.folder / "go").touch()
    assert code_of(job, PATIENT) == 0
    runs = guard.history("job")
    assert [(run["state"], run["attempt"], run["token"]) for run in runs] == [("succeeded", 1, before["token"])]
    assert len(guard.lines("pids")) == 1


def test_result_is_kept_when_the_ledger_is_gone_and_delivered_by_the_next_command(
    on_own_server: tuple[Guard, Server],
) -> None:
    guard, server = on_own_server
    job = start_waiting_job(guard, *LEASE)
    server.stop()
    (guard.folder / "go").touch()
    assert code_of(job, PATIENT) == 0
    assert "kept in" in job.stderr.read()
    refused = guard.run("run", "--key", "job", "--db-wait", "1s", "--", "touch", "again")
    assert (refused.code, (guard.folder / "again").exists()) == (75, False)
    server.start()
    assert guard.run("run", "--key", "job", "--", "touch", "again").code == 0
    assert not (guard.folder / "again").exists()
    run = guard.show("job")
    assert (run["state"], run["attempt"], len(run["attempts"])) == ("succeeded", 1, 1)
    assert [skip["reason"] for skip in run["skipped"]] == ["already_succeeded"]


def test_kept_result_of_a_run_that_somebody_else_took_over_changes_only_its_attempt(
    on_own_server: tuple[Guard, Server], tmp_path: object
) -> None:
    guard, server = on_own_server
    other = guard.with_env(CRONGUARD_STATE_DIR=str(guard.folder / "other-host"))
    job = start_waiting_job(guard, *LEASE)
    server.stop()
    (guard.folder / "go").touch()
    assert code_of(job, PATIENT) == 0
    server.start()
    wait_until(
        lambda: other.run("run", "--key", "job", "--", "sh", "-c", "echo ran >> marks; exit 4").code == 4,
        PATIENT, every=0.5, saying="another host takes over",
    )  # fmt: skip
    assert guard.run("history").code == 0  # delivers
    run = guard.show("job")
    assert (run["state"], run["exit_code"], run["attempt"]) == ("failed", 4, 2)
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost", "failed"]
    assert not list((tmp_path / "spool").iterdir())  # type: ignore[operator]


def test_silent_ledger_for_nearly_a_lease_stops_the_command_before_the_lease_is_over(
    through_proxy: tuple[Guard, Proxy],
) -> None:
    guard, way = through_proxy
    job = start_waiting_job(guard, *LEASE, "--on-silence", "kill")
    way.black_hole()
    assert code_of(job, PATIENT) == 76
    way.restore()
    assert "did not answer" in job.stderr.read()


@pytest.mark.parametrize("word", [b"take_lease", b"delete from"], ids=["of the claim", "of the finish"])
def test_lost_acknowledgement_leaves_one_row_and_the_right_state(
    through_proxy: tuple[Guard, Proxy], word: bytes
) -> None:
    """The server committed, the client never heard of it: it asks again and is told that it is so."""
    guard, way = through_proxy
    way.drop_reply_to({b"take_lease": b"insert into cronguard.lease"}.get(word, b"delete from cronguard.lease"))
    done = guard.run("run", "--key", "job", "--", "sh", "-c", "echo ran >> marks")
    assert (done.code, guard.lines("marks"), way.dropped) == (0, ["ran"], 1)
    run = guard.show("job")
    assert (run["state"], run["attempt"], len(run["attempts"])) == ("succeeded", 1, 1)
    assert run["attempts"][0]["outcome"] == "succeeded"


# --------------------------------------------------------------------------- nothing is started without a ledger


def refused(guard: Guard, *options: str, wait: str = "2s") -> tuple[Result, float]:
    """A firing that must not run its command, and how long it took."""
    begun = time.monotonic()
    result = guard.run("run", "--key", "job", "--db-wait", wait, *options, "--", "touch", "started")
    assert not (guard.folder / "started").exists()
    return result, time.monotonic() - begun


def test_refused_connection_is_75_within_the_wait(bare_guard: Guard) -> None:
    guard = bare_guard.with_env(
        CRONGUARD_DSN="postgresql://127.0.0.1:1/ops", CRONGUARD_STATE_DIR=str(bare_guard.folder)
    )
    result, seconds = refused(guard)
    assert (result.code, 2 <= seconds < SHORTER_THAN_USUAL) == (75, True)
    assert "127.0.0.1:1/ops" in result.only_line and "refused" in result.only_line


def test_black_holed_ledger_is_75_within_the_wait(through_proxy: tuple[Guard, Proxy]) -> None:
    guard, way = through_proxy
    way.black_hole()
    result, seconds = refused(guard)
    way.restore()
    assert (result.code, seconds < SHORTER_THAN_USUAL) == (75, True)
    assert "no answer in time" in result.only_line


def test_ledger_that_falls_silent_after_the_connection_is_75_within_the_wait(
    own_postgres: Server, bare_guard: Guard
) -> None:
    guard = bare_guard.with_env(
        CRONGUARD_DSN=own_postgres.dsn(own_postgres.create_database()), CRONGUARD_STATE_DIR=str(bare_guard.folder)
    )
    guard.run("init")
    own_postgres.pause()
    waiting = in_background(lambda: refused(guard))
    result, seconds = waiting.result(60)
    own_postgres.resume()
    assert (result.code, seconds < SHORTER_THAN_USUAL) == (75, True)


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ({"password": "wrong"}, "password"),
        ({"user": "nobody_of_that_name", "password": "x"}, "pg_hba|password|role"),
        ({"database": "no_such_database"}, "database"),
    ],
    ids=["wrong password", "unknown role", "missing database"],
)
def test_ledger_that_will_never_let_us_in_is_75_at_once(
    database: Database, postgres_guard: Guard, dsn: dict[str, str], words: str
) -> None:
    name = dsn.pop("database", database.name)
    guard = postgres_guard.with_env(CRONGUARD_DSN=database.server.dsn(name, "tcp", **dsn))
    result, seconds = refused(guard, wait="30s")
    assert (result.code, seconds < SHORTER_THAN_USUAL) == (75, True)
    assert re.search(words, result.only_line) and "CRONGUARD_DSN" in result.only_line


def test_missing_schema_is_125_and_says_what_to_type(bare_guard: Guard, database: Database) -> None:
    guard = bare_guard.with_env(CRONGUARD_DSN=database.dsn, CRONGUARD_STATE_DIR=str(bare_guard.folder))
    result, _ = refused(guard)
    assert (result.code, "cronguard init" in result.only_line) == (125, True)


def test_schema_of_a_later_version_is_125_and_says_what_to_do(postgres_guard: Guard, database: Database) -> None:
    with database.connect() as connection:
        connection.execute("insert into cronguard.schema_version (version, min_reader) values (99, 99)")
    result, _ = refused(postgres_guard)
    assert (result.code, "upgrade cronguard" in result.only_line) == (125, True)


def test_full_server_is_asked_again_until_it_has_room(postgres_guard: Guard, database: Database) -> None:
    with database.connect(), database.server.connect() as superuser:
        superuser.execute(f"alter database {database.name} connection limit 1".encode())
        firing = postgres_guard.start("run", "--key", "job", "--", "true")
        wait_until(lambda: f'too many connections for database "{database.name}"' in database.server.den.log(), PATIENT)
        superuser.execute(f"alter database {database.name} connection limit -1".encode())
    assert code_of(firing, PATIENT) == 0
    assert postgres_guard.show("job")["state"] == "succeeded"
