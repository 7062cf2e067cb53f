"""Our own words, one function an event. They go to stderr; off a terminal success and skips say nothing."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from typing import TYPE_CHECKING

from cronguard.domain.claim import Claim, Granted, Skipped
from cronguard.domain.run import SkipReason
from cronguard.domain.text import format_instant
from cronguard.errors import CronguardError
from cronguard.streams import write_patiently

if TYPE_CHECKING:
    from cronguard.process.command import Ended
    from cronguard.services.ledger import Verdict


def complain(message: str) -> None:
    """Something is wrong: one line, whoever listens."""
    _say(f"cronguard: {message}")


def warn(message: str) -> None:
    _say(f"cronguard: warning: {message}")


def announce(message: str) -> None:
    """What is about to take its time: said before, whoever listens."""
    _say(f"cronguard: {message}")


def remark(message: str) -> None:
    """For a person at a terminal only: cron would make a mail of it, for every host."""
    if _at_terminal():
        _say(f"cronguard: {message}")


def why_skipped(skipped: Skipped, claim: Claim) -> str:
    """One sentence: which period, and what stands in its way."""
    sentence = {
        SkipReason.HELD: _held,
        SkipReason.ALREADY_SUCCEEDED: _already_succeeded,
        SkipReason.ATTEMPTS_SPENT: _attempts_spent,
    }.get(skipped.reason)
    why = sentence(skipped, claim) if sentence else _WHY.get(skipped.reason, "{reason}: {detail}")
    reason = skipped.reason.replace("_", " ")
    return f"{claim.key} {claim.period}: {why.format(reason=reason, detail=skipped.detail)}"


_WHY = {
    SkipReason.RECOVERIES_SPENT: "its holders died and its recoveries are spent; to run it again, add --rerun",
    SkipReason.ECHO: "taken for an echo: {detail}; give --schedule to tell the periods apart",
    SkipReason.PRUNED: "this period is older than what the ledger remembers; it is not run again",
    SkipReason.CANCELLED: "it was cancelled; to run it after all, add --rerun",
    SkipReason.RESULT_WAITING: "it ran on this host, and its result still waits to be delivered",
}


def _held(skipped: Skipped, claim: Claim) -> str:
    lease = skipped.held_by
    if lease is None:
        return f"held: {skipped.detail}" if skipped.detail else "held"
    what = f"period {lease.period}" if lease.period != claim.period else "it"
    return f"held: {lease.holder.host} (pid {lease.holder.pid}) is running {what}"


def _already_succeeded(skipped: Skipped, _claim: Claim) -> str:
    run = skipped.run
    if run is None or run.finished_at is None or run.holder is None:
        return "already succeeded"
    return f"already succeeded at {format_instant(run.finished_at.replace(microsecond=0))} on {run.holder.host}"


def _attempts_spent(skipped: Skipped, _claim: Claim) -> str:
    run = skipped.run
    how = "failed" if run is None else str(run.state).replace("_", " ")
    code = f"signal {run.signal}" if run and run.signal else f"exit {run.exit_code}" if run else ""
    return f"it {how} already ({code}); to run it again, add --rerun"


class SayOnStderr:
    """What `run` says, and to whom; `path` is where a command is looked for."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._has_warned = False

    def refused(self, why: CronguardError) -> None:
        complain(str(why))

    def granted(self, verdict: Verdict) -> None:
        if verdict.stands_alone and not self._has_warned:
            self._has_warned = True
            warn(
                f"{verdict.claim.key}: --durable: the Postgres waits for no standby (its synchronous_standby_names is "
                "empty), so a failover may forget this run"
            )
        if verdict.changed:
            warn(f"{verdict.claim.key}: this changes the key's calendar: {', '.join(verdict.changed)}")
        if verdict.claim.chosen.note:
            remark(verdict.claim.chosen.note)

    def skipped(self, skipped: Skipped, claim: Claim, exit_code: int) -> None:
        if skipped.reason is SkipReason.PRUNED:
            complain(why_skipped(skipped, claim))
        else:
            remark(f"not run: {why_skipped(skipped, claim)}")

    def not_started(self, command: str, ended: Ended) -> None:
        number = ended.start_errno or 0
        if number != errno.ENOENT:
            complain(f"{command}: cannot be executed: {os.strerror(number)}")
        elif "/" in command:
            complain(f"{command}: not found, or the interpreter that its first line names is not there")
        else:
            hint = "; give the command and its arguments as separate words" if " " in command else ""
            complain(f"{command}: not found in PATH ({self._path}){hint}")

    def stopped(self, ended: Ended, held: Granted) -> None:
        what = f"{held.run.key} {held.run.period}"
        match ended.stopped:
            case "deadline":
                complain(f"{what}: stopped at its complete-by")
            case "silence":
                complain(f"{what}: stopped: the ledger did not answer for nearly a lease, another host may take over")
            case "orphaned":
                complain(f"{what}: killed: cronguard's guardian was killed")
            case "stalled":
                complain(f"{what}: stopped: neither output nor a beat for too long (--stall-after)")
            case "lost":
                complain(f"{what}: killed: the lease was lost; another host may be running it, or a failover forgot it")
            case "asked":
                complain(f"{what}: stopped: the ledger asked for it ({ended.why})")
            case _:
                remark(f"{what}: stopped by a signal")

    def trying_again(self, held: Granted, delay: float) -> None:
        remark(f"{held.run.key} {held.run.period}: attempt {held.run.attempt} failed; next try in {delay:.0f}s")

    def unfinished(self, held: Granted) -> None:
        key, period = held.run.key, held.run.period
        see = shlex.join(("cronguard", "show", key, period))
        complain(f"{key} {period}: the command exited 0, but a step is not done, so this is no success; see: {see}")

    def lost(self, held: Granted) -> None:
        complain(f"{held.run.key} {held.run.period}: another host has taken over; this attempt does not count")

    def recalled(self, held: Granted) -> None:
        warn(f"{held.run.key} {held.run.period}: the ledger had forgotten this run (a failover?); it knows its end now")

    def kept(self, place: str, failure: Exception) -> None:
        warn(f"{failure}; the result is kept in {place}, and the next cronguard on this host will deliver it")

    def not_kept(self, failure: Exception, reason: OSError) -> None:
        warn(f"{failure}; the result could not be kept either ({reason}): the run will read as lost")

    def undelivered(self, name: str, reason: Exception) -> None:
        warn(f"the result in {name} could not be delivered: {reason}")


def ask(question: str) -> None:
    """To a person at a terminal, who answers on the same line."""
    _write(f"cronguard: {question}")


def _at_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _say(line: str) -> None:
    _write(line, end="\n")


def _write(line: str, end: str = "") -> None:
    """On one line, whoever wrote what it quotes. What stderr's encoding does not know is written as an escape; nobody
    to tell is no failure.
    """
    from cronguard.domain.transcript import on_one_line  # noqa: PLC0415  most firings have nothing to say

    text = on_one_line(line) + end
    encoding = (sys.stderr and sys.stderr.encoding) or "ascii"
    # Past the interpreter's buffer, which at exit would insist on what could not be written.
    write_patiently(2, text.encode(encoding, "backslashreplace"))
