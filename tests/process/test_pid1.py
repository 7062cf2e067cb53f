"""Rows 30 and 60 of the event table: cronguard as the first process of a PID namespace, as in a container."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig import orphans
from tests.rig.guard import Guard, code_of
from tests.rig.processes import alive, children, descendants, state
from tests.rig.rounds import rounds
from tests.rig.supervised import (
    AT_ONCE,
    ENDLESS,
    KEY,
    PATIENT,
    SHORT_LEASE,
    attempt,
    ended,
    kill,
    run,
    wait_until_ended,
)
from tests.rig.waiting import wait_until

pytestmark = pytest.mark.needs("namespaces")

IN_A_CONTAINER = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child")
STUBBORN = "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.05; done' &"


@pytest.fixture
def contained(sqlite_guard: Guard) -> Guard:
    return sqlite_guard.under(*IN_A_CONTAINER)


def started(guard: Guard, script: str, *options: str) -> subprocess.Popen[str]:
    """Running, with `ready` written."""
    process = guard.start(*KEY, *options, "--", "sh", "-c", script)
    guard.wait_for_line("ready")
    return process


def pid_1(process: subprocess.Popen[str]) -> int:
    """The first process of the namespace, as it is called from outside."""
    return children(process.pid)[0]


def test_row_60_pid_1_is_a_process_of_its_own_above_the_guardian(contained: Guard) -> None:
    script = "cut -d' ' -f4 /proc/$PPID/stat > guardian; echo $PPID > worker; cut -d' ' -f4 /proc/$(cat guardian)/stat"
    result = run(contained, script)
    worker, guardian = int(contained.lines("worker")[0]), int(contained.lines("guardian")[0])
    assert (result.code, result.out) == (0, "1\n")
    assert worker != guardian != 1


@pytest.mark.parametrize("code", [0, 9, 255])
def test_row_60_exit_codes_pass_verbatim(contained: Guard, code: int) -> None:
    assert run(contained, f"exit {code}").code == code
    assert attempt(contained)["exit_code"] == code


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_row_60_signal_death_is_an_exit_code_for_pid_1_cannot_die_of_it(contained: Guard, signum: int) -> None:
    process = contained.start("run", "--key", "job", "--", "sh", "-c", f"ulimit -c 0; kill -{signum:d} $$")
    assert process.wait(PATIENT) == 128 + signum
    assert (ended(contained), attempt(contained)["signal"]) == (("failed", "failed"), signum)


@pytest.mark.parametrize("sender", ["from outside", "from inside"])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_row_60_requests_to_stop_are_passed_on(contained: Guard, sender: str, signum: int) -> None:
    """With its default disposition the kernel would not even deliver them to PID 1."""
    inside = f"until [ -e go ]; do sleep 0.05; done; kill -{signum:d} 1;" if sender == "from inside" else ""
    process = started(contained, f"{STUBBORN}\ntrap 'exit 0' {signum:d}; echo >> ready; {inside} {ENDLESS}")
    if inside:
        (contained.folder / "go").touch()
    else:
        kill(pid_1(process), signum=signum)
    assert process.wait(PATIENT) == 128 + signum
    assert ended(contained) == ("pending", "interrupted")


def test_row_60_worker_killed_is_76_and_the_orphans_of_others_are_left_alone(contained: Guard) -> None:
    """As after kubectl exec: they are nobody's descendants but PID 1's."""
    process = started(contained, f"{STUBBORN}\necho >> ready; {ENDLESS}")
    first = pid_1(process)
    guardian = children(first)[0]
    foreign = "setsid -f sh -c 'echo >> foreign; while :; do echo tick >> foreign; sleep 0.02; done'"
    entered(first, "sh", "-c", foreign, folder=contained.folder)
    contained.wait_for_line("foreign", 2)
    stranger = next(pid for pid in children(first) if pid != guardian)
    kill(guardian_s_worker := children(guardian)[0])
    wait_until(lambda: not alive(guardian_s_worker))
    wait_until(lambda: not alive(guardian) or not descendants(guardian), saying="the tree is dead")
    assert code_of(process, PATIENT) == 76  # and the end of PID 1 is the end of the stranger, as the kernel has it
    assert not alive(stranger)
    assert ended(contained) == ("pending", "lost")


def entered(target: int, *command: str, folder: Path, check: bool = True) -> None:
    """Run a command inside, to its end, that nobody inside has started."""
    subprocess.run(
        ["nsenter", "-t", str(target), "-p", *command],  # with -m it would leave the folder
        cwd=folder, stdin=subprocess.DEVNULL, timeout=60, check=check,
    )  # fmt: skip


def test_row_60_guardian_killed_leaves_nobody_and_the_ledger_is_told(contained: Guard) -> None:
    """PID 1 may not end before the worker has told the ledger: its end would be the worker's."""
    process = started(contained, f"{STUBBORN}\necho >> ready; {ENDLESS}")
    first = pid_1(process)
    inside = descendants(first)
    kill(children(first)[0])
    assert code_of(process, PATIENT) == 137
    wait_until(lambda: not any(map(alive, inside)), AT_ONCE, saying="nobody is left")
    assert ended(contained) == ("pending", "lost")


@pytest.mark.parametrize("number", range(rounds(5)))
def test_row_60_a_thousand_orphans_leave_no_zombie_and_the_commands_own_status_is_not_lost(
    contained: Guard, number: int
) -> None:
    """Half of them are the command's, half of a stranger who came in; the command ends in the midst of them."""
    program = f"{sys.executable} -ES {orphans.__file__} 500"
    process = started(contained, f"echo >> ready; until [ -e go ]; do sleep 0.02; done; {program}; exit 37")
    first = pid_1(process)
    (contained.folder / "go").touch()
    entered(first, *program.split(), folder=contained.folder, check=False)  # the end of PID 1 may be theirs
    if process.poll() is None:
        wait_until(lambda: not zombies_below(first), saying="everybody is reaped")
    assert process.wait(PATIENT) == 37
    assert (ended(contained), attempt(contained)["exit_code"]) == (("failed", "failed"), 37)


def test_row_60_orphans_of_others_are_reaped_while_the_command_runs(contained: Guard) -> None:
    process = started(contained, f"echo >> ready; {ENDLESS}")
    first = pid_1(process)
    entered(first, sys.executable, "-ES", orphans.__file__, "1000", folder=contained.folder)
    wait_until(lambda: not zombies_below(first), saying="everybody is reaped")
    kill(first, signum=signal.SIGTERM)
    assert process.wait(PATIENT) == 143


def zombies_below(pid: int) -> list[int]:
    return [one for one in descendants(pid) if state(one) == "Z"]


def test_row_30_namespace_that_is_torn_down_is_taken_over_when_its_lease_is_over(contained: Guard) -> None:
    """The kernel kills all; nobody is left to tell the ledger."""
    process = started(contained, f"{STUBBORN}\necho >> ready; {ENDLESS}", *SHORT_LEASE)
    inside = [pid_1(process), *descendants(pid_1(process))]
    kill(pid_1(process))
    process.wait(PATIENT)
    wait_until(lambda: not any(map(alive, inside)), saying="nobody is left")
    assert contained.show("job")["attempts"][0]["outcome"] is None
    wait_until(
        lambda: run(contained, "touch again").code == 0 and (contained.folder / "again").exists(),
        PATIENT, every=0.5, saying="the run is taken over",
    )  # fmt: skip
    assert wait_until_ended(contained) == ("succeeded", "succeeded")
    assert contained.show("job")["attempts"][0]["outcome"] == "lost"
    assert os.path.exists(contained.folder)
