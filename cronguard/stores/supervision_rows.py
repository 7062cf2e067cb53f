"""Rows to what a supervisor sees, and back: apart from the rest, since no run needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cronguard.domain.metrics import KeyMetrics, Metrics
from cronguard.domain.run import Sight, SkipReason, State
from cronguard.domain.supervision import Supervisor, Survey
from cronguard.stores.rows import Params, Row, job_of, recovery_of, run_of

Answers = Mapping[str, Sequence[Row]]


def survey_of(answers: Answers) -> Survey:
    leases = answers["survey_leases"][0]
    return Survey(
        now=answers["clock"][0]["now"],
        live=leases["live"],
        lapsed=leases["lapsed"],
        candidates=tuple((row["key"], row["period"]) for row in answers["survey_candidates"]),
        expected=tuple(map(job_of, answers["survey_expected"])),
        supervisor=_supervisor_of(answers),
    )


def with_requests(sight: Sight, requests: Iterable[Row]) -> Sight:
    return replace(sight, requests=tuple(map(recovery_of, requests)))


def supervisor_row(done: Supervisor) -> Params:
    return {"host": done.host, "started_at": done.started_at, "mass_expiry_at": done.mass_expiry_at}


def metrics_of(answers: Answers) -> Metrics:
    """What is counted of a key: each answer that is there, by its key."""
    now = answers["clock"][0]["now"]
    keys = {row["key"]: _key_metrics(row, now) for row in answers["metrics_keys"]}
    for row in answers["metrics_last"]:
        keys[row["key"]].last = run_of(row)
    for row in answers["metrics_runs"]:
        keys[row["key"]].runs[State(row["state"])] = row["count"]
    for row in answers["metrics_skips"]:
        keys[row["key"]].skips[SkipReason(row["reason"])] = row["count"]
    for row in answers["metrics_leases"]:
        found = keys[row["key"]]
        found.in_progress += 1
        found.overdue += bool(row["complete_by"] and row["complete_by"] < now)
    return Metrics(now, tuple(keys.values()), _supervisor_of(answers), answers["count_unknown"][0]["count"])


def _key_metrics(row: Row, now: Any) -> KeyMetrics:
    is_late = row["expected_by"] and row["expected_by"] <= now and not row["paused_at"]
    return KeyMetrics(
        row["key"], row["last_started_at"], row["finished_at"], bool(row["paused_at"]), overdue=bool(is_late)
    )


def _supervisor_of(answers: Answers) -> Supervisor | None:
    return next((Supervisor(**row) for row in answers["read_supervisor"]), None)
