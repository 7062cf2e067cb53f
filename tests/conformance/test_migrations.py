"""The schema: made by any number of hosts at once, refused when it is not one that this version may write."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from cronguard.domain.effect import EffectState
from cronguard.domain.progress import Inside
from cronguard.errors import CronguardError, SchemaMismatch
from cronguard.ports import DrilledStore
from cronguard.stores import open_drilled, open_store, schema, schema_script
from cronguard.stores.dsn import parse_dsn
from cronguard.stores.statements import migrations, statements
from tests.conftest import Database
from tests.rig.guard import Guard


def test_replicas_that_race_to_create_the_schema_all_succeed(bare_guard: Guard, database: Database) -> None:
    crowd = [sys.executable, "-m", "tests.rig.crowd", "30", "init"]
    environment = {**bare_guard.environment, "CRONGUARD_DSN": database.dsn}
    done = subprocess.run(crowd, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout.split(), done.stderr) == (["0"] * 30, "")


def test_replicas_that_race_on_an_empty_host_all_succeed(sqlite_guard: Guard) -> None:
    crowd = [sys.executable, "-m", "tests.rig.crowd", "30", "run", "--key", "job", "--every", "run",
             "--exclusive", "period", "--", "true"]  # fmt: skip
    done = subprocess.run(
        crowd, env=dict(sqlite_guard.environment), capture_output=True, text=True, timeout=120, check=True
    )
    assert (done.stdout.split(), done.stderr) == (["0"] * 30, "")
    assert len(sqlite_guard.history("job")) == 30


def test_init_again_changes_nothing(guard: Guard) -> None:
    assert [guard.run("init").code for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("key", ["version", "min_reader"])
def test_schema_from_a_later_version_that_this_one_may_not_write_is_refused(database: Database, key: str) -> None:
    store = open_store(parse_dsn(database.dsn))
    store.migrate()
    with database.connect() as connection:
        connection.execute("insert into cronguard.schema_version (version, min_reader) values (99, %s)",
                           [99 if key == "version" else schema.VERSION])  # fmt: skip
    if key == "version":
        with pytest.raises(SchemaMismatch, match="needs a newer cronguard"):
            store.look("job", "x")
    else:
        assert store.look("job", "x").job is None  # later, but compatible: an expanding step


def _make(database: Database, version: int) -> None:
    with database.connect() as connection:
        connection.execute(statements("postgres")["create_schema"].encode())
        for number, script in migrations("postgres")[:version]:
            connection.execute(script.encode())
            connection.execute("insert into cronguard.schema_version (version, min_reader) values (%s, 1)", [number])


ASKED: dict[str, Callable[[DrilledStore], object]] = {
    "look": lambda store: store.look("job", "x"),
    "page": lambda store: _entered(store.page("job", "x")),
    "history": lambda store: store.history(None, 1),
    "show": lambda store: store.show("job", "x"),
    "backlog": lambda store: store.backlog("job"),
    "recorded": lambda store: store.recorded("job", "x", "x"),
    "jobs": lambda store: store.jobs(),
    "counts": lambda store: store.counts("job", 1),
    "steps": lambda store: store.steps_of("job", "x"),
    "effects": lambda store: _entered(store.effects(Inside("job", "x", "me", 1))),
    "unknown effects": lambda store: store.list_effects("mail", None, EffectState.UNKNOWN, 1),
    "survey": lambda store: store.survey(None, timedelta(days=1), 1),
    "glance": lambda store: store.glance("job", ["x"]),
    "metrics": lambda store: store.metrics(None, 1),
    "lacking": lambda store: store.lacking(),
}


def _entered(page: AbstractContextManager[object]) -> None:
    with page:
        pass


@pytest.mark.parametrize("version", range(schema.VERSION))
def test_older_schema_is_refused_as_what_it_is_whatever_is_asked(database: Database, version: int) -> None:
    """Not as one that is not there, nor by what a statement misses in it: a host is upgraded before the ledger is."""
    _make(database, version)
    said = f"has schema {version}, older than this cronguard needs" if version else "has no cronguard schema yet"
    store = open_drilled(parse_dsn(database.dsn))
    for asked in ASKED.values():
        with pytest.raises(SchemaMismatch, match=said):
            asked(store)
        with store.connected(), pytest.raises(SchemaMismatch, match=said):
            asked(store)


def test_column_that_the_right_schema_has_not_is_no_matter_of_its_version(database: Database) -> None:
    _make(database, schema.VERSION)
    with database.connect() as connection:
        connection.execute("alter table cronguard.lease rename column advisory_lock to another")
    with pytest.raises(CronguardError, match=r"failed \(42703\): column .*advisory_lock") as failed:
        open_store(parse_dsn(database.dsn)).look("job", "x")
    assert not isinstance(failed.value, SchemaMismatch)


def test_printed_script_makes_the_same_schema_as_init(database: Database, postgres: object) -> None:
    other = Database(database.server.create_database(), database.server)
    open_store(parse_dsn(other.dsn)).migrate()
    with database.connect() as connection:
        connection.execute(schema_script("postgres").encode())
    assert _catalogue(database) == _catalogue(other)
    database.server.drop_database(other.name)


def _catalogue(database: Database) -> list[tuple[object, ...]]:
    with database.connect() as connection:
        columns = connection.execute(
            "select table_name, column_name, data_type, is_nullable, collation_name from information_schema.columns "
            "where table_schema = 'cronguard' order by 1, 2"
        ).fetchall()
        rest = connection.execute(
            "select c.relname, pg_get_constraintdef(k.oid) from pg_constraint k join pg_class c on c.oid = k.conrelid "
            "where c.relnamespace = 'cronguard'::regnamespace union all "
            "select tablename, indexdef from pg_indexes where schemaname = 'cronguard' union all "
            "select 'version', version::text from cronguard.schema_version order by 1, 2"
        ).fetchall()
    return [*columns, *rest]


def test_printed_sqlite_script_makes_a_ledger_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    connection = sqlite3.connect(path)
    connection.executescript(schema_script("sqlite"))
    connection.close()
    assert open_store(parse_dsn(f"sqlite://{path}")).look("job", "x").job is None


def test_sqlite_ledger_of_the_first_version_keeps_its_attempts_and_learns_new_outcomes(tmp_path: Path) -> None:
    """The table is made anew for its longer list of words: nothing of it may be lost on the way."""
    path, first = tmp_path / "ledger.db", migrations("sqlite")[0][1]
    attempt = ("job", 7, "x", 1, "me", "alpha", 4, "ada", 1, 2, "failed", 3, 9, "n")
    with closing(sqlite3.connect(path)) as ledger, ledger:
        ledger.executescript(statements("sqlite")["create_schema"] + ";" + first)
        ledger.execute("insert into schema_version values (1, 1, 0)")
        ledger.execute(f"insert into attempt values {attempt}")
    open_store(parse_dsn(f"sqlite://{path}"))
    with closing(sqlite3.connect(path)) as ledger, ledger:
        (row,) = ledger.execute("select * from attempt")
        assert row[:14] == attempt
        ledger.execute("update attempt set outcome = 'stalled'")
        names = {name for (name,) in ledger.execute("select name from sqlite_master")}
    assert "attempt_of_run" in names
    assert "attempt_before" not in names


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_run_that_waited_before_there_was_a_supervisor_is_given_an_hour(
    store: str, database: Database, tmp_path: Path
) -> None:
    """Nobody was told to come for it so far: it is not missed at the first pass."""
    address = parse_dsn(database.dsn if store == "postgres" else f"sqlite://{tmp_path}/ledger.db")
    row = "('job', 'x', 'pending', '', 1, 0, 1, 1, 3, 7)"
    columns = "(key, period, state, lane, attempt, failures, recoveries, attempts_allowed, recoveries_allowed, token)"
    before = [statements(store)["create_schema"] + ";", *(script for _, script in migrations(store)[:3])]
    script = "".join((*before, "insert into {}run ", columns, " values ", row, ";"))
    script += "insert into {}schema_version (version, min_reader, applied_at) values (3, 1, {at})"
    if store == "sqlite":
        with closing(sqlite3.connect(address.target)) as ledger, ledger:
            ledger.executescript(script.replace("{}", "").replace("{at}", "0"))
    else:
        with database.connect() as connection:
            connection.execute(script.replace("{}", "cronguard.").replace("{at}", "now()").encode())
    ledger = open_store(address)
    assert ledger.migrate()[1] == schema.VERSION
    sight = ledger.look("job", "x")
    claim_by = sight.runs[0].claim_by
    assert claim_by and abs(claim_by - sight.now - timedelta(hours=1)) < timedelta(minutes=1)


def test_runtime_role_without_ddl_rights_can_run_everything(database: Database, bare_guard: Guard) -> None:
    """The grants that `init --print-sql` tells are enough, and give no right to create or to delete history."""
    printed = bare_guard.with_env(CRONGUARD_DSN=database.dsn).run("init", "--print-sql").out
    grants = [line.removeprefix("-- ") for line in printed.splitlines() if re.match(r"-- grant ", line)]
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        connection.execute("drop role if exists ops_role")
        connection.execute("create role ops_role login")
        connection.execute(printed.encode())
        connection.execute("\n".join(grants).encode())
    guard = bare_guard.with_env(CRONGUARD_DSN=database.server.dsn(database.name, user="ops_role"))
    job = ("run", "--key", "job", "--period", "2026-11-28")
    assert guard.run(*job, "--attempts", "2", "--retry-delay", "1s", "--", "false").code == 1
    assert guard.run(*job, "--rerun", "--", "true").code == 0
    assert guard.run(*job, "--", "true").code == 0
    assert guard.show("job")["skips"] == 1
    assert guard.run("pause", "job", "--yes").code == guard.run("resume", "job", "--yes").code == 0
    assert guard.run("status").code == guard.run("stats", "job").code == 0
    assert guard.run("once", "mail", "ada", "--period", "2026-11", "--", "true").code == 0
    assert '"sent"' in guard.run("effects", "mail", "--json").out
    step = (sys.executable, "-m", "cronguard", "step", "pull", "--", "true")
    steps = ("run", "--key", "steps", "--period", "2026-11-28")
    assert guard.run(*steps, "--", *step).code == 0
    assert guard.run(*steps, "--rerun", "--force", "--", *step).code == 0
    denied = guard.run("init")
    assert denied.code in (0, 75), denied.err
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        connection.execute("drop owned by ops_role; drop role ops_role")


# Who keeps leases is given these rights to these tables by the migration that makes them.
GRANTED_BY = {
    4: {"recovery": "SELECT INSERT UPDATE", "supervisor": "SELECT INSERT UPDATE DELETE"},
    5: {"intervention": "SELECT INSERT"},
    7: {"sign": "SELECT", "effect": "SELECT INSERT UPDATE"},
    8: {"step": "SELECT INSERT UPDATE DELETE"},
}


@pytest.mark.parametrize("granted_at", [3, 6])
def test_role_that_kept_leases_before_an_upgrade_keeps_them_after_it(database: Database, granted_at: int) -> None:
    """Nobody grants anything anew: its beats are answered, its recoveries and effects written, all the same."""
    role = 'ops "of old"'
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        connection.execute('create role "ops ""of old""" login')
        connection.execute(statements("postgres")["create_schema"].encode())
        for version, script in migrations("postgres"):
            if version <= granted_at:
                connection.execute(script.encode())
                connection.execute(statements("postgres")["record_migration"].encode(),
                                   {"version": version, "min_reader": 1})  # fmt: skip
        connection.execute(
            'grant usage on schema cronguard to "ops ""of old""";'
            'grant select on all tables in schema cronguard to "ops ""of old""";'
            'grant insert, update, delete on cronguard.lease to "ops ""of old"""'
        )
    open_store(parse_dsn(database.superuser_dsn)).migrate()
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        rows = connection.execute(
            "select table_name, privilege_type from information_schema.role_table_grants where grantee = %s", [role]
        ).fetchall()
        connection.execute('drop owned by "ops ""of old"""; drop role "ops ""of old"""')
    given = {table: rights for at, tables in GRANTED_BY.items() if at > granted_at for table, rights in tables.items()}
    assert {table: {right for of, right in rows if of == table} for table in given} == {
        table: set(rights.split()) for table, rights in given.items()
    }


def test_every_version_says_who_may_still_write() -> None:
    for dialect in ("postgres", "sqlite"):
        versions = [version for version, _ in migrations(dialect)]
        assert versions == sorted(set(versions)) == sorted(schema.MIN_READER)
    assert max(schema.MIN_READER) == schema.VERSION
