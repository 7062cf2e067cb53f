"""G2: a period that succeeded never runs again by itself, however late or often it is fired, also after pruning."""

from __future__ import annotations

from tests.rig.guard import Guard
from tests.rig.waiting import wait_until

PERIOD = "2026-11-28"


def test_succeeded_period_is_not_run_by_any_firing_that_does_not_force_it(guard: Guard) -> None:
    job = ("run", "--key", "job", "--period", PERIOD)
    assert guard.run(*job, "--", "sh", "-c", "echo ran >> marks").code == 0
    for options in (
        (), ("--attempts", "9"), ("--recoveries", "9"), ("--rerun",), ("--exclusive", "period"), ("--if-held", "wait"),
        ("--tz", "Europe/Berlin"), ("--schedule", "0 6 * * *"), ("--scheduled-at", f"{PERIOD}T06:00:00Z"),
    ):  # fmt: skip
        asked = job[:3] if "--scheduled-at" in options else job
        assert guard.run(*asked, *options, "--", "sh", "-c", "echo ran >> marks").code == 0, options
    assert guard.lines("marks") == ["ran"]
    assert guard.show("job", PERIOD)["state"] == "succeeded"


def test_succeeded_period_is_not_run_again_after_its_history_is_pruned(guard: Guard) -> None:
    job = ("run", "--key", "job", "--period", PERIOD, "--", "sh", "-c", "echo ran >> marks")
    assert guard.run(*job).code == 0
    assert guard.run("run", "--key", "job", "--period", "2026-11-29", "--", "true").code == 0
    wait_until(lambda: _is_pruned(guard), 40, every=0.2)
    refused = guard.run(*job)
    assert (refused.code, guard.lines("marks")) == (125, ["ran"])
    assert "older than what the ledger remembers" in refused.only_line
    assert [skip["reason"] for skip in guard.show("job", PERIOD)["skipped"]] == ["pruned"]


def _is_pruned(guard: Guard) -> bool:
    """Once it is a second old."""
    assert guard.run("prune", "--keep", "1s", "--keep-last", "1").code == 0
    return PERIOD not in [run["period"] for run in guard.history("job")]
