"""A supervisor's findings in words: what was found, and the command that fits next."""

from __future__ import annotations

from typing import Any

from cronguard.domain.effect import Effect
from cronguard.domain.recovery import Cause
from cronguard.domain.run import Run
from cronguard.domain.supervision import Finding, Found
from cronguard.domain.text import format_instant
from cronguard.domain.transcript import on_one_line, quoted
from cronguard.render.printing import NOTHING
from cronguard.services.supervise import Passed

COLUMNS = ("FOUND", "KEY", "PERIOD", "WHAT", "NEXT")


def rows_of(passed: Passed) -> list[list[str]]:
    return [
        [str(found.found), found.key or NOTHING, found.period or NOTHING, what_of(found), next_of(found)]
        for found in passed.findings
    ]


def document_of(passed: Passed, host: str, *, dry_run: bool) -> dict[str, Any]:
    return {
        "schema": "cronguard.supervise/1",
        "host": host,
        "at": format_instant(passed.at),
        "dry_run": dry_run,
        "observes": str(passed.observes) if passed.observes else None,
        "needs_a_person": passed.needs_a_person,
        "findings": [_document(finding) for finding in passed.findings],
    }


def _document(finding: Finding) -> dict[str, Any]:
    run, request = finding.run, finding.request
    return {
        "found": str(finding.found),
        "key": finding.key or None,
        "period": finding.period or None,
        "state": str(run.state) if run else None,
        "cause": str(request.cause) if request else None,
        "requested_at": format_instant(request.requested_at) if request else None,
        "requested_by": request.requested_by if request else None,
        "claim_by": format_instant(request.claim_by) if request else None,
        "step": finding.step.name if finding.step else None,
        "kind": finding.effect.kind if finding.effect else None,
        "count": finding.count if finding.effect else None,
        "subjects": list(finding.subjects) if finding.effect else None,
        "needs_a_person": finding.found.needs_a_person,
        "what": what_of(finding),
        "next": next_of(finding),
    }


# --------------------------------------------------------------------------- what was found


def what_of(finding: Finding) -> str:
    """One clause, without the key and the period, which stand before it."""
    if finding.effect:
        return _unknown(finding.effect) if finding.count == 1 else _unknown_together(finding.effect.kind, finding)
    if finding.run is None:
        return f"{finding.detail} leases are over at once" if finding.found is Found.MASS_EXPIRY else finding.detail
    return _of_run(finding, finding.run) + (f"; it was at step {finding.step.name}" if finding.step else "")


def _unknown(effect: Effect) -> str:
    who = on_one_line(f"{effect.kind} {effect.subject}")
    return f"{who}: claimed {_when(effect.claimed_at)}, and nobody said by {_when(effect.send_by)} whether it was done"


def _unknown_together(kind: str, finding: Finding) -> str:
    some, others = ", ".join(map(on_one_line, finding.subjects)), finding.count - len(finding.subjects)
    who = f"{some} and {others} more" if others else some
    return f"{on_one_line(kind)}: nobody said in time of {finding.count} whether they were done: {who}"


def _of_run(finding: Finding, run: Run) -> str:
    match finding.found:
        case Found.UNCLAIMED:
            return f"recovery was requested{_since(finding)}, and nobody came"
        case Found.MISSED:
            return f"expected {_when(run.slot)}, and nobody ran it"
        case Found.DEAD:
            return f"its holders died, the last on {_host(run)}; its recoveries ({run.recoveries_allowed}) are spent"
        case Found.OVERDUE:
            return f"past its complete-by of {_when(run.complete_by)}; {_host(run)} is asked to stop it"
        case Found.RECOVERY:
            return f"{_why(finding)}; somebody should run it by {_when(run.claim_by)}"
    return f"{_ended(run)} on {_host(run)}, and has no attempt left"


def _since(finding: Finding) -> str:
    return f" at {_when(finding.request.requested_at)}" if finding.request else ""


def _why(finding: Finding) -> str:
    run, request = finding.run, finding.request
    if run is None or request is None:
        return ""
    return {
        Cause.LEASE_OVER: f"its holder on {_host(run)} was not heard of for a lease",
        Cause.CUT_SHORT: f"it was cut short on {_host(run)}",
        Cause.STOPPED: f"it was told to stop on {_host(run)}",
        Cause.FAILED: f"{_ended(run)} on {_host(run)}, and has attempts left",
        Cause.TIMED_OUT: f"it ran out of time on {_host(run)}, and has attempts left",
    }[request.cause]


def _ended(run: Run) -> str:
    code = f"signal {run.signal}" if run.signal else f"exit {run.exit_code}"
    return f"it ended with {code}" if run.state != "timed_out" else "it ran out of time"


def _host(run: Run) -> str:
    return run.holder.host if run.holder else "an unknown host"


def _when(instant: Any) -> str:
    return format_instant(instant.replace(microsecond=0)) if instant else NOTHING


# --------------------------------------------------------------------------- what to type


def next_of(finding: Finding) -> str:
    key, period = quoted(finding.key), quoted(finding.period)
    if finding.effect and finding.count > 1:
        return f"cronguard effects {quoted(finding.effect.kind)} --period {period} --state unknown"
    if finding.effect:
        return _resolve(finding.effect, f"--period {period} --sent (or --released) --reason TEXT")
    match finding.found:
        case Found.RECOVERY | Found.UNCLAIMED | Found.MISSED:
            return f"cronguard run --key {key} --period {period} -- CMD"
        case Found.DEAD | Found.FAILED | Found.TIMED_OUT | Found.OVERDUE:
            return f"cronguard show {key} {period}"
        case Found.TROUBLE if finding.key:
            return f"cronguard show {' '.join(filter(None, (key, finding.period and period)))}"
    return "cronguard history"


def _resolve(effect: Effect, options: str) -> str:
    """What begins with a dash comes last: it would be taken for an option."""
    which = f"{quoted(effect.kind)} {quoted(effect.subject)}"
    has_dash = "-" in (effect.kind[0], effect.subject[0])
    return f"cronguard resolve {options} -- {which}" if has_dash else f"cronguard resolve {which} {options}"
