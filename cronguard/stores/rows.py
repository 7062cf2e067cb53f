"""Rows to nouns and back. A row is a mapping with instants already aware; both stores share this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

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

Row = Mapping[str, Any]
Params = dict[str, Any]

SKIPS_SHOWN = 200  # of one run, newest first; the count is of all

_RUN_COLUMNS = (
    "key", "period", "lane", "attempt", "failures", "recoveries", "attempts_allowed", "recoveries_allowed", "token",
    "period_start", "period_end", "zone", "cadence", "source", "slot", "started_at", "finished_at", "complete_by",
    "exit_code", "signal", "extended_for",
)  # fmt: skip
_LEASE_COLUMNS = (
    "key", "lane", "period", "token", "lease_until", "complete_by", "extend_max", "extended_for", "extension_id",
)  # fmt: skip
_JOB_COLUMNS = (
    "key", "token", "cadence", "zone", "schedule", "last_period", "last_started_at", "pruned_before",
    "paused_at", "paused_by", "pause_reason",
)  # fmt: skip
_ATTEMPT_COLUMNS = (
    "key", "period", "token", "attempt", "requested_by", "started_at", "finished_at", "exit_code", "signal", "note",
)  # fmt: skip


def job_of(row: Row) -> Job:
    return Job(**{name: row[name] for name in _JOB_COLUMNS})


def run_of(row: Row) -> Run:
    known = {name: row[name] for name in _RUN_COLUMNS}
    return Run(state=State(row["state"]), holder=_holder_of(row), progress=_progress_of(row), **known)


def lease_of(row: Row) -> Lease:
    holder = Holder(row["holder"], row["host"], row["pid"])
    known = {name: row[name] for name in (*_LEASE_COLUMNS, "stop_requested")}
    return Lease(holder=holder, progress=_progress_of(row), **known)


def attempt_of(row: Row) -> Attempt:
    known = {name: row[name] for name in _ATTEMPT_COLUMNS}
    outcome = Outcome(row["outcome"]) if row["outcome"] else None
    holder = Holder(row["holder"], row["host"], row["pid"])
    return Attempt(holder=holder, outcome=outcome, captured=_captured_of(row), **known)


def skip_of(row: Row) -> Skip:
    return Skip(row["key"], row["period"], SkipReason(row["reason"]), row["seen_at"], row["host"], row["pid"])


def record_of(row: Row) -> Record:
    return Record(
        row["key"], row["period"], run_of(row), skips=row["skips"], lease_until=row["lease_until"], now=row["now"]
    )


def with_details(record: Record, attempts: Iterable[Row], skips: Iterable[Row]) -> Record:
    return replace(record, attempts=tuple(map(attempt_of, attempts)), skipped=tuple(map(skip_of, skips)))


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
    known = {name: getattr(lease, name) for name in _LEASE_COLUMNS}
    return known | _holder_row(lease.holder) | _progress_row(lease.progress)


def attempt_row(attempt: Attempt) -> Params:
    return {name: getattr(attempt, name) for name in _ATTEMPT_COLUMNS} | _holder_row(attempt.holder)


def end_row(end: AttemptEnd) -> Params:
    names = ("key", "token", "finished_at", "exit_code", "signal", "note")
    return {name: getattr(end, name) for name in names} | {"outcome": str(end.outcome)} | _captured_row(end.captured)


def skip_row(skip: Skip) -> Params:
    names = ("key", "period", "seen_at", "host", "pid")
    return {name: getattr(skip, name) for name in names} | {"reason": str(skip.reason)}


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
