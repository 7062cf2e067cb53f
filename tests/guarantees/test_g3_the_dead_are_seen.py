"""G3: a run that died is seen within one lease, and its recovery is requested once, whoever and however many look.

That somebody comes for it is not promised; that it is told when nobody does, is.
"""

from __future__ import annotations

import json
import time

from tests.conftest import Database
from tests.guarantees.test_g1_one_at_a_time import fire_together
from tests.rig.guard import Guard, code_of, host_dies
from tests.rig.rounds import rounds
from tests.rig.supervised import LEASE, SHORT_LEASE
from tests.rig.waiting import wait_until

SUPERVISORS = 5

BURNS_FOR = rounds(20)  # seconds: two leases of 10 s
BURNING = 'for cpu in $(seq "$(nproc)"); do timeout "$0" sh -c "while :; do :; done" & done; wait'


def test_dead_run_is_recovered_once_within_its_lease_by_a_crowd_of_later_firings(guard: Guard) -> None:
    yesterday = ("run", "--key", "job", "--period", "2026-11-28", *SHORT_LEASE)
    died = guard.start(*yesterday, "--", "sh", "-c", "echo $$ >> pids; exec sleep 600")
    guard.wait_for_line("pids")
    host_dies(died.pid)
    dead_at = time.monotonic()
    wait_until(lambda: time.monotonic() > dead_at + LEASE, 2 * LEASE, saying="one lease has passed")
    today = ("run", "--key", "job", "--period", "2026-11-29", *SHORT_LEASE)
    assert fire_together(guard, 20, *today, "--", "sh", "-c", f"echo ran >> {guard.folder}/marks") == {"0": 20}
    assert guard.lines("marks") == ["ran"]
    run = guard.show("job", "2026-11-28")
    assert (run["state"], run["recoveries"]) == ("pending", 1)
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost"]
    assert guard.run(*yesterday, "--", "true").code == 0  # and whoever comes for it may run it
    assert guard.show("job", "2026-11-28")["state"] == "succeeded"


def test_dead_run_is_requested_once_by_many_supervisors_and_once_told_when_nobody_came(guard: Guard) -> None:
    run = ("run", "--key", "job", "--period", "2026-11-28", "--claim-within", "2s", *SHORT_LEASE)
    died = guard.start(*run, "--", "sh", "-c", "echo $$ >> pids; exec sleep 600")
    guard.wait_for_line("pids")
    watching = [guard.start("supervise", "--every", "1s", "--json") for _ in range(SUPERVISORS)]
    host_dies(died.pid)
    dead_at = time.monotonic()
    wait_until(lambda: guard.show("job")["state"] == "missed", LEASE + 40, saying="it is said that nobody came")
    wait_until(lambda: time.monotonic() > dead_at + 2 * LEASE + 4, 40, saying="there was time to say it again")
    for process in watching:
        process.terminate()
    said = [process.communicate(timeout=20)[0].replace("}\n{", "}\0{") for process in watching]
    findings = [finding for out in said for one in out.split("\0") for finding in json.loads(one)["findings"]]
    assert sorted(finding["found"] for finding in findings) == ["recovery", "unclaimed"]
    assert guard.run(*run, "--", "true").code == 0  # late, but somebody came
    assert guard.show("job")["state"] == "succeeded"


def test_healthy_run_that_burns_every_cpu_is_never_taken_for_dead(postgres_guard: Guard, database: Database) -> None:
    lease = ("--lease", "10s", "--stop-grace", "1s", "--beat-every", "1s")
    watching = postgres_guard.start("supervise", "--every", "1s", "--json")
    burning = postgres_guard.start("run", "--key", "job", *lease, "--", "sh", "-c", BURNING, str(BURNS_FOR))
    assert code_of(burning, BURNS_FOR + 30) == 0
    watching.terminate()
    passes = [json.loads(one) for one in watching.communicate(timeout=20)[0].replace("}\n{", "}\0{").split("\0")]
    assert len(passes) > BURNS_FOR / 4
    assert [one["findings"] for one in passes if one["findings"]] == []
    run = postgres_guard.show("job")
    assert (run["state"], run["recoveries"]) == ("succeeded", 0)
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["succeeded"]
    with database.connect() as connection:
        assert connection.execute("select * from cronguard.recovery").fetchall() == []
