"""G6: if the ledger cannot be reached nothing starts, and a finished result is never lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Database
from tests.rig.guard import Guard
from tests.rig.postgres import Server
from tests.rig.proxy import Proxy
from tests.rig.supervised import KEY, SHORT_LEASE
from tests.rig.waiting import wait_until

POINTS = {
    "look": b"repeatable read",
    "lock": b"for update",
    "claim": b"insert into cronguard.lease",
    "finish": b"delete from cronguard.lease",
}


@pytest.mark.parametrize("point", POINTS)
def test_network_that_breaks_for_good_behind_a_message(
    point: str, database: Database, proxy: Callable[[Server], Proxy], postgres_guard: Guard
) -> None:
    """The server got the message, its answer is lost, and nothing goes through any more; later the network is back."""
    way = proxy(database.server)
    guard = postgres_guard.with_env(CRONGUARD_DSN=database.through(way))
    way.drop_reply_to(POINTS[point], then="cut")
    fire = (*KEY, "--db-wait", "2s", *SHORT_LEASE, "--", "sh", "-c", "echo ran >> marks")
    first = guard.run(*fire)
    assert way.dropped == 1
    ran = point == "finish"
    assert (first.code, guard.lines("marks")) == ((0, ["ran"]) if ran else (75, []))
    way.restore()
    wait_until(lambda: guard.run(*fire).code == 0 and guard.lines("marks"), 60, every=0.5, saying="the period is run")
    assert guard.lines("marks") == ["ran"]
    run = guard.show("job")
    assert run["state"] == "succeeded"
    # The claim may have been committed before its answer was lost; then its attempt is known to be lost.
    lost = [["lost", "succeeded"]] if point == "claim" else []
    assert [attempt["outcome"] for attempt in run["attempts"]] in [["succeeded"], *lost]
