"""However long a history is: what people ask is found by an index, in the order it stands in, and nothing is sorted."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cronguard.stores import open_store
from cronguard.stores.dsn import parse_dsn
from cronguard.stores.statements import statements
from tests.conftest import Database

NOW = datetime(2026, 11, 30, tzinfo=UTC)
ASKED = {
    "key": "job", "now": NOW, "begun_by": NOW, "before": NOW, "deep": 10_000, "recent": 100, "last": 50, "limit": 200,
    "after": 0,
}  # fmt: skip
NAMES = ("latest_runs", "last_ends", "recent_successes", "recent_runs", "aged_runs", "skips_after", "history_of_key")


@pytest.mark.parametrize("name", NAMES)
def test_statement_walks_an_index_in_its_order(database: Database, name: str) -> None:
    open_store(parse_dsn(database.dsn)).migrate()
    with database.connect() as connection:
        connection.execute("set enable_seqscan = off; set enable_sort = off; set enable_bitmapscan = off")
        rows = connection.execute(f"explain {statements('postgres')[name]}".encode(), ASKED).fetchall()
    plan = "\n".join(line for (line,) in rows)
    assert "Sort Key" not in plan, plan
    assert "Seq Scan on run" not in plan, plan
    assert "Seq Scan on skip" not in plan, plan
