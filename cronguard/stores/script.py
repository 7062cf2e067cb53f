"""The schema as a script for a database administrator: what init would run, and the rights a runtime role needs."""

from __future__ import annotations

import re
import time
from pathlib import Path

from cronguard.stores import schema
from cronguard.stores.statements import migrations, statements

_PLACE = re.compile(r"%\((\w+)\)s|:(\w+)")


def script_of(store: str) -> str:
    """Every step on an empty ledger, in one transaction."""
    sql = statements(store)
    steps = [
        f"{script.strip()}\n\n{_filled(sql['record_migration'], version)};" for version, script in migrations(store)
    ]
    script = "\n\n".join([f"{sql['begin']};", f"{sql['create_schema']};", *steps, f"{sql['commit']};"])
    return f"{script}\n{_grants(store)}"


def _filled(statement: str, version: int) -> str:
    known = {"version": version, "min_reader": schema.MIN_READER[version], "now": int(time.time() * 1_000_000)}
    return _PLACE.sub(lambda place: str(known[place[1] or place[2]]), statement)


def _grants(store: str) -> str:
    path = Path(__file__).with_name(f"grants.{store}.sql")
    return f"\n{path.read_text(encoding='utf-8')}" if path.exists() else ""


def application_grants_of(role: str) -> str:
    """For this role, whose name is written so that nothing in it can end it."""
    text = Path(__file__).with_name("app_grants.postgres.sql").read_text(encoding="utf-8")
    name = '"' + role.replace('"', '""') + '"'
    return re.sub(r"\bapp_role;", lambda _: f"{name};", text)
