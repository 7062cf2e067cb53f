"""Whole keys from rows, and what goes of them; both stores share this, and load it where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from cronguard.domain.overview import BEGINS_EARLY, Glance
from cronguard.domain.pruning import Aged, AgedSkip, Keep, Pruning, go_on_after, prune_skips
from cronguard.domain.run import Job, Outcome, SkipReason
from cronguard.domain.stats import Counts
from cronguard.stores import rows
from cronguard.stores.rows import Params, Row

Answers = Mapping[str, Sequence[Row]]

DEEP = 10_000  # runs of a key among which its last success is looked for
RECENT = 100  # runs of a key whose lengths tell how long it takes


def asked_of(key: str, now: datetime) -> Params:
    return {"key": key, "deep": DEEP, "recent": RECENT, "begun_by": now + BEGINS_EARLY}


def glance_of(parts: Answers, now: datetime) -> Glance:
    (ends,) = parts["last_ends"]
    return Glance(
        now=now,
        job=rows.job_of(parts["read_job"][0]),
        leases=tuple(map(rows.lease_of, parts["read_leases"])),
        runs=tuple(map(rows.run_of, parts["latest_runs"])),
        last_success_at=ends["last_success_at"],
        last_failure_at=ends["last_failure_at"],
        lengths=tuple(row["finished_at"] - row["started_at"] for row in parts["recent_successes"] if row["started_at"]),
    )


def counts_of(parts: Answers, now: datetime) -> Counts | None:
    if not parts["read_job"]:
        return None
    attempts = ((row["host"], row["outcome"], row["count"]) for row in parts["count_attempts"])
    return Counts(
        now=now,
        job=rows.job_of(parts["read_job"][0]),
        runs=tuple(map(rows.run_of, parts["recent_runs"])),
        attempts=tuple((host, Outcome(outcome) if outcome else None, count) for host, outcome, count in attempts),
        skips=tuple((row["host"], SkipReason(row["reason"]), row["count"]) for row in parts["count_skips"]),
    )


def aged_of(key: str, now: datetime, job: Sequence[Row], found: Sequence[Row]) -> Aged:
    return Aged(now, rows.job_of(job[0]) if job else Job(key), tuple(map(rows.run_of, found)))


def prunings_of(pruning: Pruning) -> list[tuple[str, Params]]:
    """(statement name, parameters) of what goes; the mark is raised with it. Effects stay: see drop_run."""
    of_runs = [{"key": pruning.job.key, "period": period} for period in pruning.periods]
    names = ("drop_attempts_of_run", "drop_skips_of_run", "drop_requests_of_run", "drop_steps_of_run", "drop_run")
    return [("save_job", rows.job_row(pruning.job)), *((name, run) for run in of_runs for name in names)]


def aged_skips(found: Sequence[Row], now: datetime, keep: Keep, at_most: int) -> tuple[list[int], int | None]:
    """The ids of those that go, and after which row to go on."""
    seen = [AgedSkip(row["id"], row["seen_at"], bool(row["has_run"])) for row in found]
    return prune_skips(seen, now, keep), go_on_after(seen, now, keep, at_most)
