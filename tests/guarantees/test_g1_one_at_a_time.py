"""G1: at most one attempt of a key executes at a time, however many hosts fire at once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from tests.rig.guard import Guard

HOSTS, ROUNDS = 50, 20


def fire_together(guard: Guard, count: int, *arguments: str) -> Counter[str]:
    crowd = [sys.executable, "-m", "tests.rig.crowd", str(count), *arguments]
    environment = {**guard.environment, "PYTHONPATH": "."}
    done = subprocess.run(crowd, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    return Counter(done.stdout.split())


def test_fifty_hosts_at_a_barrier_run_each_period_once(guard: Guard) -> None:
    for number in range(ROUNDS):
        period = f"2026-11-{number + 1:02}"
        mark = guard.folder / period
        codes = fire_together(
            guard, HOSTS, "run", "--key", "job", "--period", period, "--", "sh", "-c", f"echo x >> {mark}"
        )
        assert codes == {"0": HOSTS}
        assert guard.lines(period) == ["x"]
        run = guard.show("job", period)
        assert (run["state"], run["attempt"], run["skips"]) == ("succeeded", 1, HOSTS - 1)
        assert {skip["reason"] for skip in run["skipped"]} <= {"held", "already_succeeded"}
        assert len(run["skipped"]) == HOSTS - 1
