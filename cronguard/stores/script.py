"""The schema as a script for a database administrator: what init would run, and the rights a runtime role needs."""

from __future__ import annotations

from cronguard.stores import schema
from cronguard.stores.statements import migrations, statements

_GRANTS = """
-- A runtime role needs no right to create anything. Put its name in the place of ops_role:
-- grant usage on schema cronguard to ops_role;
-- grant select on all tables in schema cronguard to ops_role;
-- grant insert, update on cronguard.job, cronguard.run, cronguard.attempt to ops_role;
-- grant insert, update, delete on cronguard.lease to ops_role;
-- grant insert on cronguard.skip to ops_role;
"""


def script_of(store: str) -> str:
    """Every step on an empty ledger, in one transaction."""
    sql = statements(store)
    steps = [
        f"{script.strip()}\n\ninsert into {_table(store)} (version, min_reader{_applied(store)[0]})\n"
        f"values ({version}, {schema.MIN_READER[version]}{_applied(store)[1]});"
        for version, script in migrations(store)
    ]
    grants = _GRANTS if store == "postgres" else ""
    return "\n\n".join(["begin;", sql["create_schema"].rstrip() + ";", *steps, "commit;"]) + "\n" + grants


def _table(store: str) -> str:
    return "cronguard.schema_version" if store == "postgres" else "schema_version"


def _applied(store: str) -> tuple[str, str]:
    return ("", "") if store == "postgres" else (", applied_at", ", strftime('%s', 'now') * 1000000")
