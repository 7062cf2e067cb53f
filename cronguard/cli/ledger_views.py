"""What init, history and show do once they are called: one service call, one view."""

from __future__ import annotations

from typing import Any

from cronguard.cli.opening import address_of, opened
from cronguard.cli.tell import remark
from cronguard.domain.run import parse_key, parse_name
from cronguard.errors import BadInput
from cronguard.render import show_history, show_run
from cronguard.render.printing import print_text
from cronguard.services.reading import history_of, record_of
from cronguard.settings import gather
from cronguard.settings.parsers import naming, positive, utf8
from cronguard.stores import application_grants, schema_script


def init(options: dict[str, Any], app_role: str | None) -> int:
    if app_role is not None:
        raise BadInput("--app-role goes with --print-sql: rights are for a database administrator to grant")
    with opened(gather(options)) as it:
        before, after = it.ledger.migrate()
        happened = (
            "is up to date" if before == after else f"was brought from version {before}" if before else "was created"
        )
        remark(f"the ledger at {it.store.name}: schema {after} {happened}")
    return 0


def print_sql(options: dict[str, Any], app_role: str | None) -> int:
    """The schema, or what to grant to a job's own role, which comes later, and then without the schema before it."""
    store = address_of(gather(options)).store
    if app_role is not None and store != "postgres":
        raise BadInput("--app-role is for a ledger in Postgres; an SQLite file has no roles")
    print_text(schema_script(store) if app_role is None else application_grants(parse_name(utf8(app_role), "role")))
    return 0


def history(options: dict[str, Any], key: str | None, limit: str, *, as_json: bool) -> int:
    which, how_many = parse_key(utf8(key)) if key is not None else None, _limit(limit)
    with opened(gather(options), create=False) as it:
        show_history(history_of(it.ledger, it.spool, which, how_many), as_json=as_json)
    return 0


def show(options: dict[str, Any], key: str, period: str | None, *, as_json: bool) -> int:
    key, period = parse_key(utf8(key)), parse_name(utf8(period), "period") if period is not None else None
    with opened(gather(options), create=False) as it:
        record = record_of(it.ledger, it.spool, key, period)
    if record is None:
        which = f"{key} {period}" if period else key
        raise BadInput(f"the ledger at {it.store.name} has no run of {which}; see: cronguard history")
    show_run(record, as_json=as_json)
    return 0


def _limit(text: str) -> int:
    with naming("-n"):
        return positive(text)
