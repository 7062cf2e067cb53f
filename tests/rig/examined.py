"""A checkup by `cronguard doctor`, as a test reads it; and the ways to spoil the ground that it stands on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import sql

from tests.conftest import Database
from tests.rig.guard import Guard
from tests.rig.postgres import Server

PROBLEM_FOUND = 1
Finding = dict[str, str]


@dataclass(frozen=True)
class Checkup:
    """What one `cronguard doctor --json` has found."""

    code: int
    findings: list[Finding]

    def levels(self, level: str) -> set[str]:
        """The checks that have come out so."""
        return {found["check"] for found in self.findings if found["level"] == level}

    @property
    def problems(self) -> set[str]:
        return self.levels("problem")

    def of(self, check: str) -> Finding:
        """The one finding of a check."""
        found = [found for found in self.findings if found["check"] == check]
        assert len(found) == 1, (check, found)
        return found[0]


def examine(guard: Guard, *arguments: str) -> Checkup:
    """Run it; what must always be so is asserted here."""
    result = guard.run("doctor", "--json", *arguments, within=120)
    assert result.err == "", result.err
    document = json.loads(result.out)
    assert set(document) == {"schema", "ok", "findings"}
    assert document["schema"] == "cronguard.doctor/1"
    assert all(list(found) == ["check", "level", "what", "why", "type"] for found in document["findings"])
    assert all(found["why"] for found in document["findings"] if found["level"] != "ok")
    checkup = Checkup(result.code, document["findings"])
    assert document["ok"] == (not checkup.problems) == (result.code == 0), result.out
    assert result.code in (0, PROBLEM_FOUND)
    return checkup


def set_for(database: Database, **settings: str) -> None:
    """Settings of `app` in this database, which every new session of its has."""
    for name, value in settings.items():
        _administer(database, "alter role app in database {} set {} = {}", name, sql.Literal(value))


def make_standby(server: Server) -> None:
    """From its next start on it is in recovery: it waits for a primary, and takes no writes."""
    (Path(server.socket_dir) / "data" / "standby.signal").touch()
    server.restart()


def turn_clock(database: Database, seconds: float) -> None:
    """Whatever `app` asks of this database's clock is answered by one that is so far behind (or, below 0, ahead)."""
    _administer(database, "grant create on database {} to app")
    with database.connect() as connection:
        connection.execute("create schema turned")
        connection.execute(
            sql.SQL(
                "create function turned.clock_timestamp() returns timestamptz language sql volatile as "
                "$$ select pg_catalog.clock_timestamp() - interval {} $$"
            ).format(sql.Literal(f"{seconds} seconds"))
        )
    _administer(database, "alter role app in database {} set {} = turned, pg_catalog, public", "search_path")


def _administer(database: Database, statement: str, setting: str = "", value: Any = None) -> None:
    parts = [
        sql.Identifier(database.name),
        *([sql.Identifier(setting)] if setting else []),
        *([value] if value else []),
    ]
    database.server.execute(sql.SQL(statement).format(*parts))  # type: ignore[arg-type]
