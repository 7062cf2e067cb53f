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
    Stopped.DEADLINE: Outcome.TIMED_OUT,
    Stopped.SILENCE: Outcome.LOST,
    Stopped.LOST: Outcome.LOST,
}

_ENDED = (SkipReason.ATTEMPTS_SPENT, SkipReason.RECOVERIES_SPENT, SkipReason.RESULT_WAITING)


def ending_of(ended: Ended) -> Ending:
    """Only an exit 0 that nobody forced is a success."""
    if ended.start_errno is not None:
        return Ending(Outcome.START_FAILED, exit_code_of(ended), note=os.strerror(ended.start_errno))
    if ended.stopped:
        return Ending(_OUTCOME_OF_STOP[ended.stopped], ended.exit_code, ended.signal, _note(ended))
    outcome = Outcome.SUCCEEDED if ended.exit_code == 0 else Outcome.FAILED
    return Ending(outcome, ended.exit_code, ended.signal)


def exit_code_of(ended: Ended) -> int:
    """What cronguard exits with: the command's own code, or why it was stopped."""
    if ended.start_errno is not None:
        return NOT_FOUND if ended.start_errno == errno.ENOENT else CANNOT_EXECUTE
    if ended.stopped in (Stopped.LOST, Stopped.SILENCE):
        return LEASE_LOST
    if ended.stopped is Stopped.DEADLINE:
        return OUT_OF_TIME
    own = _own_code(ended.exit_code, ended.signal)
    return own or (SIGNALLED + (ended.stop_signal or signal.SIGTERM) if ended.stopped else 0)


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


def _note(ended: Ended) -> str:
    if ended.stopped is Stopped.SIGNAL and ended.stop_signal:
        return f"told to stop by {signal.Signals(ended.stop_signal).name}"
    return {
        Stopped.ASKED: f"asked to stop: {ended.why}",
        Stopped.DEADLINE: "stopped at its complete-by",
        Stopped.SILENCE: "stopped: the ledger had not answered for nearly a lease",
        Stopped.LOST: "killed: the lease was lost",
    }.get(ended.stopped or Stopped.SIGNAL, "")
