"""What ledgers say of themselves: the rights looked for are those that are granted, and reading changes nothing."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from cronguard.domain.checkup import sampled_instants
from cronguard.domain.ground import Ledger, PostgresGround, SqliteGround
from cronguard.stores import open_ground, open_store, schema, schema_script
from cronguard.stores.dsn import parse_dsn
from tests.conftest import Database

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
GRANT = re.compile(r"^--\s+grant ([a-z, ]+) on (cronguard\.[a-z_., ]+) to ops_role", re.MULTILINE)


def look(dsn: str, zone: str | None = None) -> Ledger:
    ground = open_ground(parse_dsn(dsn), answer_within=15, host_clock=lambda: datetime.now(UTC))
    return ground.look(zone, sampled_instants(NOW))


def in_postgres(dsn: str, zone: str | None = None) -> PostgresGround:
    found = look(dsn, zone)
    assert isinstance(found, PostgresGround)
    return found


@pytest.fixture
def reader(database: Database) -> Iterator[str]:
    """The DSN of a role that may read everything, and nothing else."""
    role = f"reader_{uuid.uuid4().hex[:12]}"
    open_store(parse_dsn(database.dsn)).migrate()
    with database.server.connect(database.name) as connection:
        connection.execute(f"create role {role} login; grant usage on schema cronguard to {role}".encode())
        connection.execute(f"grant select on all tables in schema cronguard to {role}".encode())
        yield database.server.dsn(database.name, user=role)
        connection.execute(f"drop owned by {role}; drop role {role}".encode())


def granted() -> set[tuple[str, str]]:
    """Right and table of each grant that `cronguard init --print-sql` names for those who run and prune."""
    found = GRANT.findall(schema_script("postgres"))
    assert len(found) >= 5
    return {(right, table) for rights, tables in found for right in rights.split(", ") for table in tables.split(", ")}


def test_rights_that_are_looked_for_are_those_that_are_granted(reader: str) -> None:
    missing = in_postgres(reader).missing
    assert {(right.right, right.on) for right in missing if right.needed_by != "init"} == granted()


def test_owner_lacks_nothing(database: Database) -> None:
    assert in_postgres(database.dsn).missing == ()  # not even what it takes to make the schema
    open_store(parse_dsn(database.dsn)).migrate()
    assert in_postgres(database.dsn).missing == ()


def test_clocks_of_a_zone_are_those_of_this_host(database: Database) -> None:
    zone = ZoneInfo("Europe/Berlin")
    expected = tuple(at.astimezone(zone).utcoffset() for at in sampled_instants(NOW))
    assert in_postgres(database.dsn, "Europe/Berlin").offsets == expected
    assert set(expected) == {timedelta(hours=1), timedelta(hours=2)}
    assert in_postgres(database.dsn, "Nowhere/Atlantis").offsets is None


def test_empty_places_are_left_empty(database: Database, tmp_path: Path) -> None:
    assert in_postgres(database.dsn).schema.is_there is False
    here = look(f"sqlite://{tmp_path}/state/ledger.db")
    assert isinstance(here, SqliteGround)
    assert (here.is_there, here.folder.is_there, here.folder.failure) == (False, False, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_ledger_of_this_version_says_so(kind: str, database: Database, tmp_path: Path) -> None:
    dsn = database.dsn if kind == "postgres" else f"sqlite://{tmp_path}/a file?.db"
    open_store(parse_dsn(dsn)).migrate()
    found = look(dsn)
    assert isinstance(found, PostgresGround | SqliteGround)
    assert (found.schema.version, found.schema.known) == (schema.VERSION, schema.VERSION)
