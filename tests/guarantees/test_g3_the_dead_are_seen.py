"""G3: a run that died is seen within one lease, and is recovered once, however many firings come by at once."""

from __future__ import annotations

import time

from tests.guarantees.test_g1_one_at_a_time import fire_together
from tests.rig.guard import Guard, host_dies
from tests.rig.waiting import wait_until

LEASE = 4.0
SHORT_LEASE = ("--lease", "4s", "--stop-grace", "1s", "--beat-every", "0.5s")


def test_dead_run_is_recovered_once_within_its_lease_by_a_crowd_of_later_firings(guard: Guard) -> None:
    yesterday = ("run", "--key", "job", "--period", "2026-11-28", *SHORT_LEASE)
    died = guard.start(*yesterday, "--", "sh", "-c", "echo $$ >> pids; exec sleep 600")
    guard.wait_for_line("pids")
    host_dies(died.pid)
    dead_at = time.monotonic()
    wait_until(lambda: time.monotonic() > dead_at + LEASE, within=10, saying="one lease has passed")
    today = ("run", "--key", "job", "--period", "2026-11-29", *SHORT_LEASE)
    assert fire_together(guard, 20, *today, "--", "sh", "-c", f"echo ran >> {guard.folder}/marks") == {"0": 20}
    assert guard.lines("marks") == ["ran"]
    run = guard.show("job", "2026-11-28")
    assert (run["state"], run["recoveries"]) == ("pending", 1)
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost"]
    assert guard.run(*yesterday, "--", "true").code == 0  # and whoever comes for it may run it
    assert guard.show("job", "2026-11-28")["state"] == "succeeded"
