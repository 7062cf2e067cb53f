"""Rows to nouns and back. A row is a mapping with instants already aware; both stores share this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from cronguard.domain.recovery import Cause, Recovery
from cronguard.domain.run import (
    Attempt,
    AttemptEnd,
    Captured,
    Holder,
    Job,
    Lease,
    Outcome,
    Progress,
    Record,
    Run,
    Skip,
    SkipReason,
    State,
)
from cronguard.domain.said import Intervention, Verb
from cronguard.domain.step import Step, StepState

Row = Mapping[str, Any]
Params = dict[str, Any]

SKIPS_SHOWN = 200  # of one run, newest first; the count is of all
INTERVENTIONS_SHOWN = 50  # of one run and its key, newest first

_RUN_COLUMNS = (
    "key", "period", "lane", "attempt", "failures", "recoveries", "attempts_allowed", "recoveries_allowed", "token",
    "period_start", "period_end", "zone", "cadence", "source", "slot", "started_at", "finished_at", "complete_by",
    "exit_code", "signal", "extended_for", "claim_by", "reported_at", "steps_hash",
)  # fmt: skip
_LEASE_COLUMNS = (
    "key", "lane", "period", "token", "lease_until", "complete_by", "extend_max", "extended_for", "extension_id",
    "stop_requested",
    "advisory_lock",
)  # fmt: skip
_JOB_COLUMNS = (
    "key", "token", "cadence", "zone", "schedule", "last_period", "last_started_at", "pruned_before",
    "paused_at", "paused_by", "pause_reason", "claim_within", "start_by", "expected_until", "expected_by",
)  # fmt: skip
_RECOVERY_COLUMNS = (
    "key", "period", "token", "requested_at", "requested_by", "claim_by", "announced_at", "taken_at", "missed_at",
)  # fmt: skip
_ATTEMPT_COLUMNS = (
    "key", "period", "token", "attempt", "requested_by", "started_at", "finished_at", "exit_code", "signal", "note",
)  # fmt: skip
_STEP_COLUMNS = (
    "key", "period", "name", "ordinal", "token", "attempt", "start_id", "command_hash", "started_at", "finished_at",
    "complete_by", "exit_code", "signal", "note",
)  # fmt: skip


def job_of(row: Row) -> Job:
    return Job(**{name: row[name] for name in _JOB_COLUMNS})


def run_of(row: Row) -> Run:
    known = {name: row[name] for name in _RUN_COLUMNS}
    return Run(state=State(row["state"]), holder=_holder_of(row), progress=_progress_of(row), **known)


def lease_of(row: Row) -> Lease:
    holder = Holder(row["holder"], row["host"], row["pid"])
    known = {name: row[name] for name in _LEASE_COLUMNS}
    known["is_abandoned"] = bool(row.get("is_abandoned"))  # what only Postgres can say in the same breath
    return Lease(holder=holder, progress=_progress_of(row), **known)


def attempt_of(row: Row) -> Attempt:
    known = {name: row[name] for name in _ATTEMPT_COLUMNS}
    outcome = Outcome(row["outcome"]) if row["outcome"] else None
    holder = Holder(row["holder"], row["host"], row["pid"])
    return Attempt(holder=holder, outcome=outcome, captured=_captured_of(row), **known)


def skip_of(row: Row) -> Skip:
    return Skip(row["key"], row["period"], SkipReason(row["reason"]), row["seen_at"], row["host"], row["pid"])


def step_of(row: Row) -> Step:
    known = {name: row[name] for name in _STEP_COLUMNS}
    captured = _captured_of(row) if "output_bytes" in row else None
    return Step(state=StepState(row["state"]), once=bool(row["once"]), captured=captured, **known)


def record_of(row: Row) -> Record:
    return Record(
        row["key"], row["period"], run_of(row), skips=row["skips"], lease_until=row["lease_until"], now=row["now"]
    )


def intervention_of(row: Row) -> Intervention:
    return Intervention(row["key"], row["period"], Verb(row["verb"]), row["said_by"], row["reason"], row["said_at"])


def with_details(
    record: Record, attempts: Iterable[Row], skips: Iterable[Row], said: Iterable[Row], steps: Iterable[Row]
) -> Record:
    return replace(
        record,
        attempts=tuple(map(attempt_of, attempts)),
        skipped=tuple(map(skip_of, skips)),
        said=tuple(map(intervention_of, said)),
        steps=tuple(map(step_of, steps)),
    )


def skips_alone(skips: Iterable[Row], now: Any) -> Record | None:
    """A period that nobody ran: the newest one that firings were skipped for."""
    seen = [skip_of(row) for row in skips]
    of_period = tuple(skip for skip in seen if skip.period == seen[0].period)
    return Record(seen[0].key, seen[0].period, skips=len(of_period), skipped=of_period, now=now) if seen else None


def job_row(job: Job) -> Params:
    return {name: getattr(job, name) for name in _JOB_COLUMNS}


def run_row(run: Run) -> Params:
    known = {name: getattr(run, name) for name in _RUN_COLUMNS} | {"state": str(run.state)}
    return known | _holder_row(run.holder) | _progress_row(run.progress)


def lease_row(lease: Lease) -> Params:
    known = {name: getattr(lease, name) for name in (*_LEASE_COLUMNS, "stop_requested")}
    return known | _holder_row(lease.holder) | _progress_row(lease.progress)


def recovery_of(row: Row) -> Recovery:
    return Recovery(cause=Cause(row["cause"]), **{name: row[name] for name in _RECOVERY_COLUMNS})


def recovery_row(request: Recovery) -> Params:
    return {name: getattr(request, name) for name in _RECOVERY_COLUMNS} | {"cause": str(request.cause)}


def attempt_row(attempt: Attempt) -> Params:
    return {name: getattr(attempt, name) for name in _ATTEMPT_COLUMNS} | _holder_row(attempt.holder)


def end_row(end: AttemptEnd) -> Params:
    names = ("key", "token", "finished_at", "exit_code", "signal", "note")
    return {name: getattr(end, name) for name in names} | {"outcome": str(end.outcome)} | _captured_row(end.captured)


def step_row(step: Step) -> Params:
    known = {name: getattr(step, name) for name in _STEP_COLUMNS}
    return known | {"state": str(step.state), "once": step.once} | _captured_row(step.captured)


def skip_row(skip: Skip) -> Params:
    names = ("key", "period", "seen_at", "host", "pid")
    return {name: getattr(skip, name) for name in names} | {"reason": str(skip.reason)}


def intervention_row(said: Intervention) -> Params:
    names = ("key", "period", "said_by", "reason", "said_at")
    return {name: getattr(said, name) for name in names} | {"verb": str(said.verb)}


def _captured_of(row: Row) -> Captured | None:
    """Its notes are not here: they have become part of the attempt's."""
    if row["output_bytes"] is None:
        return None
    return Captured(row["output_head"], row["output_tail"], row["output_bytes"])


def _captured_row(captured: Captured | None) -> Params:
    if captured is None:
        return {"output_head": None, "output_tail": None, "output_bytes": None}
    return {"output_head": captured.head, "output_tail": captured.tail, "output_bytes": captured.total}


def _progress_of(row: Row) -> Progress | None:
    at = row["progressed_at"]
    return Progress(at, row["progress"], row["progress_note"]) if at else None


def _progress_row(progress: Progress | None) -> Params:
    if progress is None:
        return {"progress": None, "progress_note": None, "progressed_at": None}
    return {"progress": progress.text, "progress_note": progress.note, "progressed_at": progress.at}


def _holder_of(row: Row) -> Holder | None:
    return Holder(row["holder"], row["host"], row["pid"]) if row["holder"] else None


def _holder_row(holder: Holder | None) -> Params:
    if holder is None:
        return {"holder": None, "host": None, "pid": None}
    return {"holder": holder.id, "host": holder.host, "pid": holder.pid}
