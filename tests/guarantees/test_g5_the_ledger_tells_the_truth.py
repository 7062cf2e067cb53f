"""G5: nothing but an observed exit 0 reads as success, and every non-run has a cause."""

from __future__ import annotations

import pytest

from tests.rig.guard import Guard

ENDINGS = {
    "exit 1": ("failed", "failed"),
    "exit 255": ("failed", "failed"),
    "kill -9 $$": ("failed", "failed"),
    "kill -TERM $$": ("failed", "failed"),
    "trap 'exit 0' TERM; while :; do sleep 0.05; done": ("timed_out", "timed_out"),
    "trap 'exit 0' TERM; kill -TERM $PPID; while :; do sleep 0.05; done": ("pending", "interrupted"),
}


@pytest.mark.parametrize("script", ENDINGS)
def test_whatever_is_not_an_exit_0_of_its_own_does_not_read_as_success(guard: Guard, script: str) -> None:
    done = guard.run("run", "--key", "job", "--complete-by", "5s", "--", "sh", "-c", script)
    run = guard.show("job")
    assert (run["state"], run["attempts"][0]["outcome"]) == ENDINGS[script]
    assert done.code != 0


@pytest.mark.parametrize(("command", "code"), [("no-such-command", 127), ("/", 126)])
def test_command_that_did_not_start_does_not_read_as_success(guard: Guard, command: str, code: int) -> None:
    assert guard.run("run", "--key", "job", "--", command).code == code
    run = guard.show("job")
    assert (run["state"], run["exit_code"], run["attempts"][0]["outcome"]) == ("failed", code, "start_failed")


def test_every_firing_that_ran_nothing_has_its_cause_in_the_ledger(guard: Guard) -> None:
    fire = ("run", "--key", "job", "--period", "2026-11-28")
    guard.run(*fire, "--", "false")
    for options in ((), ("--rerun", "--start-by", "2026-11-28T06:00:00Z")):
        guard.run(*fire, *options, "--", "true")
    guard.run(*fire, "--rerun", "--", "true")
    guard.run(*fire, "--", "true")
    reasons = [skip["reason"] for skip in guard.show("job", "2026-11-28")["skipped"]]
    assert reasons == ["already_succeeded", "too_late", "attempts_spent"]
