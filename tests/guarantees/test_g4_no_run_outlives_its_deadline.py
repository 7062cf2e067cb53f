"""G4: no run outlives its complete-by, whatever it does about being asked to stop."""

from __future__ import annotations

import time

import pytest

from tests.rig.guard import Guard, wait_dead

IGNORES = "trap '' TERM HUP INT; "
SCRIPTS = {
    "the command": "echo $$ >> pids; while :; do sleep 0.1; done",
    "its children": "(echo $(exec sh -c 'echo $PPID') >> pids; while :; do sleep 0.1; done) & wait",
    "a stopped command": "echo $$ >> pids; kill -STOP $$",
}


@pytest.mark.parametrize("who", SCRIPTS)
def test_nobody_in_the_commands_group_is_alive_after_complete_by_and_grace(guard: Guard, who: str) -> None:
    begun = time.monotonic()
    options = ("--complete-by", "1s", "--stop-grace", "1s")
    done = guard.run("run", "--key", "job", *options, "--", "sh", "-c", IGNORES + SCRIPTS[who])
    assert done.code == 124
    assert 1 <= time.monotonic() - begun < 15
    wait_dead(int(guard.lines("pids")[0]))
    assert guard.show("job")["state"] == "timed_out"
