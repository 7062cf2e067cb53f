"""G4: no run outlives its complete-by, whatever it does about being asked to stop; and nothing of it its guard."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest

from tests.rig.guard import Guard, wait_dead
from tests.rig.supervised import AT_ONCE, KEY, PATIENT, kill, nobody_left, parent_of, wait_until_ended
from tests.rig.waiting import in_time, wait_until
from tests.rig.zoo import Zoo

IGNORES = "trap '' TERM HUP INT; "
SCRIPTS = {
    "the command": "echo $$ >> pids; while :; do sleep 0.1; done",
    "its children": "(echo $(exec sh -c 'echo $PPID') >> pids; while :; do sleep 0.1; done) & wait",
    "a stopped command": "echo $$ >> pids; kill -STOP $$",
}


@pytest.mark.parametrize("who", SCRIPTS)
def test_nobody_in_the_commands_group_is_alive_after_complete_by_and_grace(guard: Guard, who: str) -> None:
    begun = time.monotonic()
    options = ("--complete-by", "5s", "--stop-grace", "1s")
    done = guard.run("run", "--key", "job", *options, "--", "sh", "-c", IGNORES + SCRIPTS[who])
    assert done.code == 124
    assert 5 <= time.monotonic() - begun < 30
    wait_dead(int(guard.lines("pids")[0]))
    assert guard.show("job")["state"] == "timed_out"


@pytest.mark.parametrize("killed", ["guardian", "worker"])
def test_nothing_of_a_run_outlives_its_guard(guard: Guard, killed: str) -> None:
    """kill -9 of either: all are dead within a second, daemons too, and the ledger says that it was cut short."""

    def seconds_to_live() -> float:
        zoo = Zoo(Path(tempfile.mkdtemp(prefix="zoo-", dir=guard.folder)))
        process = guard.start(*KEY, "--if-held", "wait", "--", *zoo.command())
        wait_until(zoo.is_complete, PATIENT, saying="all nine are there")
        kill(process.pid if killed == "guardian" else parent_of(zoo.pids()["leader"]))
        killed_at = time.monotonic()
        nobody_left(guard.folder / "nobody", *zoo.pids().values(), within=AT_ONCE)
        took = time.monotonic() - killed_at
        assert wait_until_ended(guard) == ("pending", "lost")
        return took

    in_time(seconds_to_live, 1, tries=3)
