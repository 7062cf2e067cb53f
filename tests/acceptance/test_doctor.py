"""cronguard doctor on its ledger: each fault is planted in a real one, and found; what it says to type mends it."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from cronguard.stores import schema, schema_script
from cronguard.stores.statements import migrations, statements
from tests.acceptance.looking import POWERLESS, change, ledger_file
from tests.conftest import Database
from tests.rig.examined import Checkup, examine, make_standby, set_for, turn_clock
from tests.rig.guard import Guard
from tests.rig.pgbouncer import PgBouncer
from tests.rig.postgres import Server
from tests.rig.waiting import wait_until

FIRES = ("run", "--key", "job", "--", "true")


def test_sound_ledger_is_found_sound(guard: Guard) -> None:
    assert guard.run(*FIRES).code == 0
    checkup = examine(guard)
    assert (checkup.code, checkup.problems) == (0, set())
    assert {"ledger.reached", "ledger.schema", "zone.data", "state.folder", "process.proc"} <= checkup.levels("ok")


def test_postgres_is_looked_at_from_all_sides(postgres_guard: Guard) -> None:
    checkup = examine(postgres_guard)
    sound = {"reached", "primary", "schema", "rights_run", "pooler", "timeouts", "isolation", "commit", "connections"}
    assert {f"ledger.{name}" for name in sound} | {"clock.host", "zone.agreement"} <= checkup.levels("ok")
    assert checkup.levels("warning") == {"ledger.fsync"}  # the rig's servers need not survive a power cut


def test_looking_makes_and_upgrades_nothing(sqlite_guard: Guard, database: Database, tmp_path: Path) -> None:
    empty = sqlite_guard.with_env(CRONGUARD_DSN=database.dsn, CRONGUARD_STATE_DIR=str(tmp_path / "other"))
    assert "ledger.schema" in examine(empty).problems
    assert examine(sqlite_guard).of("ledger.schema")["level"] == "note"
    with database.connect() as connection:
        assert connection.execute("select to_regnamespace('cronguard')").fetchall() == [(None,)]
    assert not (ledger_file(sqlite_guard).parent.exists() or (tmp_path / "other").exists())


# --- A server that cannot be reached, or is not the one ---------------------------------------------------------------


def test_server_that_does_not_answer_is_a_finding_and_keeps_no_other_back(
    postgres_guard: Guard, own_postgres: Server
) -> None:
    dsn = own_postgres.dsn(host="tcp", password="hush/hush")
    own_postgres.stop()
    checkup = examine(postgres_guard.with_env(CRONGUARD_DSN=dsn))
    assert checkup.problems == {"ledger.reached"}
    assert "connection refused" in checkup.of("ledger.reached")["what"]
    assert "CRONGUARD_DSN" in checkup.of("ledger.reached")["type"]
    assert {"zone.data", "state.folder", "process.subreaper"} <= checkup.levels("ok")
    assert "hush" not in str(checkup.findings)


def test_password_that_is_refused_is_not_shown(postgres_guard: Guard, database: Database) -> None:
    dsn = database.server.dsn(database.name, "tcp", password="open/sesame")
    checkup = examine(postgres_guard.with_env(CRONGUARD_DSN=dsn))
    assert "the password was refused" in checkup.of("ledger.reached")["what"]
    assert "sesame" not in str(checkup.findings)


@pytest.mark.parametrize("asks", ["", "?target_session_attrs=any"])
def test_standby_is_found(postgres_guard: Guard, own_postgres: Server, asks: str) -> None:
    dsn = own_postgres.dsn(own_postgres.create_database())
    make_standby(own_postgres)
    checkup = examine(postgres_guard.with_env(CRONGUARD_DSN=dsn + asks.replace("?", "&" if "?" in dsn else "?")))
    assert "ledger.primary" in checkup.problems
    assert checkup.of("ledger.primary")["what"].endswith("is a standby, which takes no writes")


def test_role_that_is_read_only_by_default_is_found(postgres_guard: Guard, database: Database) -> None:
    set_for(database, default_transaction_read_only="on")
    checkup = examine(postgres_guard)
    assert checkup.problems == {"ledger.primary"}
    _typed(database, checkup, "ledger.primary")
    assert examine(postgres_guard).problems == set()


@pytest.mark.needs("pgbouncer")
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_pooler_is_found_and_refused_for_a_lock_of_the_session(
    postgres_guard: Guard, database: Database, pgbouncer: Callable[..., PgBouncer], mode: str
) -> None:
    pooled = postgres_guard.with_env(CRONGUARD_DSN=database.through(pgbouncer(database.server, mode)))
    checkup = examine(pooled)
    assert checkup.problems == set()
    assert checkup.of("ledger.pooler")["level"] == "note"
    assert checkup.of("ledger.pooler")["what"] == (  # without its own word for the process, which is any number
        "there is a pooler between: another process answers than the one that the connection was made to"
    )
    locked = pooled.with_env(CRONGUARD_LOCK="advisory")
    assert examine(locked).problems == {"ledger.pooler"}
    assert locked.run(*FIRES).code == 125


@pytest.mark.needs("pgbouncer")
def test_pooler_that_lets_no_transaction_through_is_found(
    postgres_guard: Guard, database: Database, pgbouncer: Callable[..., PgBouncer]
) -> None:
    guard = postgres_guard.with_env(CRONGUARD_DSN=database.through(pgbouncer(database.server, "statement")))
    assert guard.run(*FIRES).code != 0
    checkup = examine(guard)
    assert {"ledger.transactions"} <= checkup.problems
    assert "works through it in transaction or session mode" in checkup.of("ledger.pooler")["why"]


# --- The schema, and the rights of the role ---------------------------------------------------------------------------


def test_older_schema_is_found_and_what_it_says_mends_it(postgres_guard: Guard, database: Database) -> None:
    with database.connect() as connection:
        connection.execute("drop schema cronguard cascade")
        connection.execute(statements("postgres")["create_schema"].encode())
        for version, script in migrations("postgres")[:3]:
            connection.execute(script.encode())
            connection.execute("insert into cronguard.schema_version (version, min_reader) values (%s, 1)", [version])
    found = examine(postgres_guard).of("ledger.schema")
    assert (found["level"], found["type"]) == ("problem", "cronguard init")
    assert f"has version 3, older than this cronguard needs ({schema.VERSION})" in found["what"]
    assert postgres_guard.run("init").code == 0
    assert examine(postgres_guard).problems == set()


@pytest.mark.parametrize(("min_reader", "level"), [(99, "problem"), (1, "note")])
def test_newer_schema_is_found(guard: Guard, database: Database, min_reader: int, level: str) -> None:
    assert guard.run("init").code == 0
    row = f"(99, {min_reader})"
    if "CRONGUARD_DSN" in guard.environment:
        with database.connect() as connection:
            connection.execute(f"insert into cronguard.schema_version (version, min_reader) values {row}".encode())
    else:
        change(guard, f"insert into schema_version (version, min_reader, applied_at) values {row[:-1]}, 0)")
    found = examine(guard).of("ledger.schema")
    assert (found["level"], "version 99" in found["what"]) == (level, True)


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """One that owns nothing, and that nobody has granted anything."""
    name = f"role_{uuid.uuid4().hex[:12]}"
    database.server.execute(f"create role {name} login".encode())  # type: ignore[arg-type]
    yield name
    with database.server.connect(database.name) as connection:
        connection.execute(f"drop owned by {name}; drop role {name}".encode())


def _as(role: str, guard: Guard, database: Database) -> Guard:
    return guard.with_env(CRONGUARD_DSN=database.server.dsn(database.name, user=role))


def _granted(database: Database, role: str, without: str = "") -> None:
    """What `cronguard init --print-sql` says that a runtime role needs, less these words."""
    lines = schema_script("postgres").partition("in the place of ops_role")[2].splitlines()[1:7]
    text = "\n".join(line.removeprefix("-- ") for line in lines).replace("ops_role", role)
    with database.connect() as connection:
        connection.execute(text.replace(without, "", 1).encode())


def test_role_without_any_right_is_found(postgres_guard: Guard, database: Database, role: str) -> None:
    checkup = examine(_as(role, postgres_guard, database))
    assert {"ledger.schema", "ledger.rights_run"} <= checkup.problems
    assert "usage on schema cronguard" in checkup.of("ledger.rights_run")["what"]
    assert checkup.of("ledger.rights_run")["type"].startswith("cronguard init --print-sql")


def test_role_with_the_grants_that_init_prints_lacks_nothing_to_run(
    postgres_guard: Guard, database: Database, role: str
) -> None:
    _granted(database, role)
    guard = _as(role, postgres_guard, database)
    checkup = examine(guard)
    assert (checkup.problems, checkup.levels("warning")) == (set(), {"ledger.fsync"})
    assert {"ledger.rights_prune", "ledger.rights_init"} <= checkup.levels("note")
    assert guard.run(*FIRES).code == guard.run("supervise").code == 0


def test_right_that_is_missing_is_named_and_the_grant_mends_it(
    postgres_guard: Guard, database: Database, role: str
) -> None:
    _granted(database, role)
    with database.connect() as connection:
        connection.execute(f"revoke insert, update on cronguard.attempt from {role}".encode())
    guard = _as(role, postgres_guard, database)
    assert guard.run(*FIRES).code == 75
    checkup = examine(guard)
    assert checkup.problems == {"ledger.rights_run"}
    assert checkup.of("ledger.rights_run")["type"] == f"grant insert, update on cronguard.attempt to {role};"
    _typed(database, checkup, "ledger.rights_run")
    assert examine(guard).problems == set()
    assert guard.run(*FIRES).code == 0


@pytest.mark.parametrize(("revoked", "use"), [("insert on cronguard.supervisor", "supervise"),
                                              ("update on cronguard.effect", "once")])  # fmt: skip
def test_right_of_another_command_is_a_warning(
    postgres_guard: Guard, database: Database, role: str, revoked: str, use: str
) -> None:
    _granted(database, role)
    with database.connect() as connection:
        connection.execute(f"revoke {revoked} from {role}".encode())
    checkup = examine(_as(role, postgres_guard, database))
    assert (checkup.problems, checkup.of(f"ledger.rights_{use}")["level"]) == (set(), "warning")


# --- Settings of the server -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("idle_session_timeout", "50s", "warning"),
        ("statement_timeout", "1900ms", "warning"),
        ("lock_timeout", "900ms", "warning"),
        ("idle_in_transaction_session_timeout", "900ms", "note"),
    ],
)
def test_time_limit_that_would_cut_a_session_is_found_and_what_it_says_mends_it(
    postgres_guard: Guard, database: Database, name: str, value: str, level: str
) -> None:
    set_for(database, **{name: value})
    checkup = examine(postgres_guard)
    found = checkup.of(f"ledger.{name}")
    assert (checkup.code, found["level"]) == (0, level)
    assert "set for the role in this database" in found["what"]
    _typed(database, checkup, f"ledger.{name}")
    assert "ledger.timeouts" in examine(postgres_guard).levels("ok")


@pytest.mark.parametrize("whose", ["role {0}", "database {1}", "role {0} in database {1}"])
def test_what_it_says_to_type_is_sql_whatever_the_names(bare_guard: Guard, postgres: Server, whose: str) -> None:
    role = f"db-user {uuid.uuid4().hex[:8]}"
    base = postgres.create_database(f"Order-{uuid.uuid4().hex[:8]}")
    names = (f'"{role}"', f'"{base}"')
    postgres.execute("create role {0} login; grant create on database {1} to {0}".format(*names))
    try:
        postgres.execute(f"alter {whose} set statement_timeout = '1s'".format(*names))
        guard = bare_guard.with_env(CRONGUARD_DSN=postgres.dsn(base, user=role.replace(" ", "%20")))
        assert guard.run("init").code == 0
        postgres.execute(examine(guard).of("ledger.statement_timeout")["type"])
        assert "ledger.timeouts" in examine(guard).levels("ok")
    finally:
        postgres.drop_database(base)
        postgres.execute(f"drop role {names[0]}")


def test_standby_that_is_waited_for_and_not_there_is_found(postgres_guard: Guard, own_postgres: Server) -> None:
    """Not even the schema could be made while it is so, or anything started."""
    guard = postgres_guard.with_env(CRONGUARD_DSN=own_postgres.dsn(own_postgres.create_database()))
    assert guard.run("init").code == 0
    own_postgres.execute("alter system set synchronous_standby_names = 'nobody'")
    own_postgres.execute("select pg_reload_conf()")
    wait_until(lambda: examine(guard).problems == {"ledger.standbys"}, within=60, saying="the setting has come through")
    result = guard.run("run", "--key", "job", "--db-wait", "2s", "--", "true")
    assert (result.code, "does its synchronous standby answer?" in result.err) == (75, True)


def test_limits_that_are_long_enough_are_no_finding(postgres_guard: Guard, database: Database) -> None:
    set_for(database, idle_session_timeout="10min", statement_timeout="30s", lock_timeout="5s")
    assert "ledger.timeouts" in examine(postgres_guard).levels("ok")


def test_default_isolation_is_told_and_does_a_claim_no_harm(postgres_guard: Guard, database: Database) -> None:
    set_for(database, default_transaction_isolation="serializable", synchronous_commit="off")
    checkup = examine(postgres_guard)
    assert {"ledger.isolation", "ledger.commit"} <= checkup.levels("note")
    assert "harmless to claims" in checkup.of("ledger.isolation")["why"]
    assert postgres_guard.run(*FIRES).code == 0


def test_connections_that_run_out_are_found(postgres_guard: Guard, database: Database, role: str) -> None:
    _granted(database, role)
    database.server.execute(f"alter role {role} connection limit 3".encode())  # type: ignore[arg-type]
    checkup = examine(_as(role, postgres_guard, database))
    assert (checkup.problems, checkup.of("ledger.connections")["level"]) == (set(), "warning")
    assert f"of 3 connections are left for role {role}" in checkup.of("ledger.connections")["what"]


@pytest.mark.parametrize(
    ("seconds", "level", "side"), [(3, "warning", "ahead of"), (-3, "warning", "behind"), (90, "problem", "ahead of")]
)
def test_clock_that_differs_from_the_ledgers_is_found(
    postgres_guard: Guard, database: Database, seconds: float, level: str, side: str
) -> None:
    """Whatever the program asks this server's clock for is answered by one that is turned."""
    turn_clock(database, seconds)
    found = examine(postgres_guard).of("clock.host")
    assert (found["level"], f" {side} the ledger's" in found["what"]) == (level, True), found
    told = float(found["what"].partition("clock is ")[2].partition("s ")[0])
    assert timedelta(seconds=told) - timedelta(seconds=abs(seconds)) < timedelta(seconds=1)


# --- A ledger in a file -----------------------------------------------------------------------------------------------


def test_older_sqlite_ledger_is_told_and_left_as_it_is(sqlite_guard: Guard) -> None:
    ledger_file(sqlite_guard).parent.mkdir()
    with closing(sqlite3.connect(ledger_file(sqlite_guard))) as ledger, ledger:
        ledger.executescript(statements("sqlite")["create_schema"] + ";" + migrations("sqlite")[0][1])
        ledger.execute("insert into schema_version values (1, 1, 0)")
    found = examine(sqlite_guard).of("ledger.schema")
    assert (found["level"], "has version 1" in found["what"]) == ("note", True)
    with closing(sqlite3.connect(ledger_file(sqlite_guard))) as ledger:
        assert ledger.execute("select max(version) from schema_version").fetchall() == [(1,)]


def test_file_that_is_no_ledger_is_found(sqlite_guard: Guard) -> None:
    ledger_file(sqlite_guard).parent.mkdir()
    ledger_file(sqlite_guard).write_text("some notes\n" * 100)
    checkup = examine(sqlite_guard)
    assert checkup.problems == {"ledger.reached"}
    assert "is not an SQLite database" in checkup.of("ledger.reached")["what"]


def test_damaged_ledger_is_found(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run(*FIRES).code == 0
    with ledger_file(sqlite_guard).open("r+b") as file:
        pages = ledger_file(sqlite_guard).stat().st_size // 4096
        for page in range(pages // 2, pages):
            file.seek(page * 4096)
            file.write(b"\xa5" * 64)
    checkup = examine(sqlite_guard)
    assert checkup.problems & {"ledger.integrity", "ledger.reached"}, checkup.findings


def test_ledger_of_somebody_else_is_found(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run(*FIRES).code == 0
    ledger_file(sqlite_guard).chmod(0o400)
    checkup = examine(sqlite_guard.under(*POWERLESS))
    assert checkup.problems == {"ledger.writable"}
    assert str(ledger_file(sqlite_guard)) in checkup.of("ledger.writable")["what"]


def _typed(database: Database, checkup: Checkup, check: str) -> None:
    """Do what the finding says, as the database's superuser."""
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        connection.execute(checkup.of(check)["type"].encode())
