"""Many hosts through PgBouncer, in each of its modes: by what the commands themselves have written down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cronguard.stores import open_store
from cronguard.stores.dsn import parse_dsn
from tests.conftest import Database
from tests.faults.batch import told_by
from tests.rig import marks
from tests.rig.guard import Guard
from tests.rig.host import Host
from tests.rig.pgbouncer import PgBouncer
from tests.rig.waiting import wait_until
from tests.rig.witness import attempts_in, judge

HOSTS, KEYS = 6, 4


@pytest.mark.needs("pgbouncer")
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_hosts_behind_a_pooler_run_each_key_once(
    mode: str, database: Database, pgbouncer: Callable[..., PgBouncer], postgres_guard: Guard, tmp_path: Path
) -> None:
    """The pool is smaller than the crowd, so that sessions are handed from one to the next."""
    dsn = database.through(pgbouncer(database.server, mode, default_pool_size=3))
    host = Host(tmp_path / "host", {"CRONGUARD_DSN": dsn, "CRONGUARD_STATE_DIR": str(tmp_path / "state")})
    try:
        fired = [
            host.fire("run", "--key", f"job{key}", "--if-held", "wait", "--", *marks.command(tmp_path, 0.3))
            for _ in range(HOSTS)
            for key in range(KEYS)
        ]
        wait_until(lambda: all(one.code is not None for one in fired), 90, saying="all have ended")
    finally:
        host.close()
    assert [(one.code, one.said) for one in fired if (one.code, one.said) != (0, "")] == []
    store = open_store(parse_dsn(database.dsn))
    told = [told_by(found) for key in range(KEYS) if (found := store.show(f"job{key}", None))]
    verdict = judge(attempts_in(tmp_path), told, [(one.key, one.period) for one in told])
    assert (verdict.complaints, verdict.done_again, len(told)) == ([], [], KEYS)
