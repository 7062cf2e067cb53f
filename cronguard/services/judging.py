"""How a command ended: as the ledger is told it, and as the caller is told it."""

from __future__ import annotations

import errno
import os
import signal

from cronguard.domain.claim import Skipped
from cronguard.domain.lifecycle import Ending
from cronguard.domain.run import Outcome, Run, SkipReason, State
from cronguard.errors import CANNOT_EXECUTE, CRONGUARD_FAILED, LEASE_LOST, NOT_FOUND, OUT_OF_TIME, SIGNALLED
from cronguard.process.command import Ended, Stopped

_OUTCOME_OF_STOP = {
    Stopped.SIGNAL: Outcome.INTERRUPTED,
    Stopped.ASKED: Outcome.INTERRUPTED,
    Stopped.STALLED: Outcome.STALLED,
    Stopped.DEADLINE: Outcome.TIMED_OUT,
    Stopped.SILENCE: Outcome.LOST,
    Stopped.ORPHANED: Outcome.LOST,
    Stopped.LOST: Outcome.LOST,
}
# What the guardian says of a worker that died; it says it only when nothing of the command is left.
DIED = Ending(Outcome.LOST, note="cronguard's worker was killed, and its command with it", proven=True)

_ENDED = (SkipReason.ATTEMPTS_SPENT, SkipReason.RECOVERIES_SPENT, SkipReason.RESULT_WAITING)


def ending_of(ended: Ended) -> Ending:
    """Only an exit 0 that nobody forced is a success."""
    if ended.start_errno is not None:
        return Ending(Outcome.START_FAILED, exit_code_of(ended), note=os.strerror(ended.start_errno))
    outcome = Outcome.SUCCEEDED if ended.exit_code == 0 else Outcome.FAILED
    if ended.stopped:
        outcome = _OUTCOME_OF_STOP[ended.stopped]
    if ended.survivors:  # the run is not over while they live: the lease is left to end by itself
        outcome = Outcome.LOST
    proven = not ended.survivors  # where another has the run, it is of no account
    return Ending(outcome, ended.exit_code, ended.signal, _note(ended), proven=proven, captured=ended.captured)


def exit_code_of(ended: Ended) -> int:
    """What cronguard exits with: the command's own code, or why it was stopped."""
    if ended.start_errno is not None:
        return NOT_FOUND if ended.start_errno == errno.ENOENT else CANNOT_EXECUTE
    if ended.survivors or ended.stopped in (Stopped.LOST, Stopped.SILENCE, Stopped.ORPHANED):
        return LEASE_LOST
    if ended.stopped in (Stopped.DEADLINE, Stopped.STALLED):
        return OUT_OF_TIME
    own = _own_code(ended.exit_code, ended.signal)
    if ended.stopped and (not own or ended.signal == signal.SIGKILL):
        return SIGNALLED + (ended.stop_signal or signal.SIGTERM)
    return own


def signal_of(ended: Ended, code: int) -> int:
    """The signal behind an exit code of 128+n, where there was one; a command's own `exit 143` is no signal."""
    return next((signum for signum in (ended.signal, ended.stop_signal) if signum and code == SIGNALLED + signum), 0)


def exit_code_of_skip(skipped: Skipped, skip_exit: int) -> int:
    """How the period's run ended, where it has ended badly; else that nothing was to be done."""
    if skipped.reason is SkipReason.TOO_LATE:
        return OUT_OF_TIME
    if skipped.reason is SkipReason.PRUNED:
        return CRONGUARD_FAILED
    if skipped.reason in _ENDED and skipped.run:
        return exit_code_of_run(skipped.run) or skip_exit
    return skip_exit


def exit_code_of_run(run: Run) -> int:
    if run.state is State.TIMED_OUT:
        return OUT_OF_TIME
    if run.state is State.DEAD:
        return LEASE_LOST
    return _own_code(run.exit_code, run.signal)


def _own_code(exit_code: int | None, signum: int | None) -> int:
    return SIGNALLED + signum if signum else exit_code or 0


def _note(ended: Ended) -> str | None:
    """What a person would ask about this attempt, beyond its exit code."""
    notes = [_why_stopped(ended)]
    if ended.stragglers:
        notes.append(f"left {ended.stragglers} processes behind")
    if ended.survivors:
        notes.append(f"could not be killed: {', '.join(map(str, ended.survivors))}")
    if ended.oom_suspected:
        notes.append("out of memory: the kernel killed a process of this cgroup meanwhile (oom_suspected)")
    notes += ended.captured.notes if ended.captured else ()
    return "; ".join(filter(None, notes)) or None


def _why_stopped(ended: Ended) -> str:
    if ended.stopped is Stopped.SIGNAL and ended.stop_signal:
        return f"told to stop by {signal.Signals(ended.stop_signal).name}"
    return (
        {
            Stopped.ASKED: f"asked to stop: {ended.why}",
            Stopped.STALLED: "stopped: neither output nor a beat for --stall-after",
            Stopped.DEADLINE: "stopped at its complete-by",
            Stopped.SILENCE: "stopped: the ledger had not answered for nearly a lease",
            Stopped.ORPHANED: "killed: cronguard's guardian was killed",
            Stopped.LOST: "killed: the lease was lost",
        }.get(ended.stopped, "")
        if ended.stopped
        else ""
    )
