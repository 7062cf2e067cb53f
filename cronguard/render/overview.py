"""Whole keys: a line each for people, problems first; JSON for programs.

On a terminal times are ages, and columns that do not fit are left out, the
least important first; elsewhere times are instants, and nothing is left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from cronguard.domain.overview import KeyState, Standing, Status
from cronguard.domain.run import Job
from cronguard.domain.said import because
from cronguard.domain.text import format_instant
from cronguard.render.printing import GAP, NOTHING, drawn, length_of, print_json, print_table, shown, widths_of

STATUS_COLUMNS = ("KEY", "STATE", "PERIOD", "LAST SUCCESS", "LAST FAILURE", "DUE", "TOOK (P95)", "BY")
KEYS_COLUMNS = ("KEY", "CADENCE", "ZONE", "SCHEDULE", "LAST PERIOD", "LAST STARTED", "PAUSED")
LEFT_OUT_FIRST = ("BY", "TOOK (P95)", "LAST FAILURE", "PERIOD", "LAST SUCCESS", "DUE")
PROBLEM_STYLE = "red"
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


# --------------------------------------------------------------------------- status, for people


def status_on_terminal(standing: Standing, width: int) -> str:
    """A table that fits; then who paused what, and what to type next."""
    lines, unknown = standing.lines, unknown_note(standing)
    if not lines:
        return f"the ledger has no keys yet\n{unknown}"
    rows = [[shown(cell) for cell in _aged_row(line)] for line in lines]
    columns, rows, left_out = _fitted(STATUS_COLUMNS, rows, width)
    styles = [PROBLEM_STYLE if line.state.is_problem else "" for line in lines]
    notes = [*_paused_notes(lines), *_left_out_note(left_out, width), *_next(lines[0])]
    told = unknown + "".join(f"{shown(note)}\n" for note in notes)
    below = f"\n{told}" if told else ""
    return drawn(columns, rows, width, styles) + below


def status_in_columns(lines: Sequence[Status]) -> list[list[str]]:
    """Header and rows, with instants: the same line is the same text until something happens."""
    return [[shown(cell) for cell in row] for row in (STATUS_COLUMNS, *map(_row, lines))]


def unknown_note(standing: Standing) -> str:
    """A line where there is anything unknown."""
    count = standing.unknown_effects
    what = "1 effect is" if count == 1 else f"{count} effects are"
    return f"{what} unknown, and for a person to resolve; see: cronguard effects\n" if count else ""


def _aged_row(line: Status) -> list[str]:
    ages = (_age(line.last_success_at, line.now), _age(line.last_failure_at, line.now), _coming(line))
    return [line.key, _state(line).replace("_", " "), _period(line), *ages, _took(line, _so_far(line)), _who(line)]


def _row(line: Status) -> list[str]:
    instants = map(_instant, (line.last_success_at, line.last_failure_at, line.due_at))
    return [line.key, _state(line), _period(line), *instants, _took(line, length_of(line.took)), _by(line)]


def _state(line: Status) -> str:
    return str(line.state).upper() if line.state.is_problem else str(line.state)


def _period(line: Status) -> str:
    return line.run.period if line.run else NOTHING


def _by(line: Status) -> str:
    return because(line.job.paused_by, line.job.pause_reason) if line.state is KeyState.PAUSED else _who(line)


def _who(line: Status) -> str:
    """Who runs it, ran it, or has paused it; why stands below the table."""
    if line.state is KeyState.PAUSED:
        return line.job.paused_by or NOTHING
    return line.run.holder.host if line.run and line.run.holder else NOTHING


def _took(line: Status, took: str) -> str:
    """With the p95 of its key, so that one can tell whether that is much."""
    return f"{took} ({length_of(line.p95)})" if line.p95 is not None else took


def _so_far(line: Status) -> str:
    started_at = line.run.started_at if line.run else None
    is_live = line.state in (KeyState.RUNNING, KeyState.OVERRUN)
    return _coarse(line.now - started_at) if is_live and started_at else length_of(line.took)


def _coarse(length: timedelta) -> str:
    """In its largest unit: what is watched shall not change every second."""
    if length < _MINUTE:
        return "<1m"
    size, unit = next((size, unit) for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")) if length >= size)
    return f"{length // size}{unit}"


def _age(instant: datetime | None, now: datetime) -> str:
    return f"{_coarse(max(now - instant, timedelta()))} ago" if instant else NOTHING


def _coming(line: Status) -> str:
    if line.due_at is None:
        return NOTHING
    if line.due_at > line.now:
        return f"in {_coarse(line.due_at - line.now)}"
    return _age(line.due_at, line.now) if line.job.schedule else "now"


def _instant(instant: datetime | None) -> str:
    return format_instant(instant.replace(microsecond=0)) if instant else NOTHING


def _fitted(
    columns: Sequence[str], rows: list[list[str]], width: int
) -> tuple[list[str], list[list[str]], tuple[str, ...]]:
    """With headers broken in two, and then without the least important columns, until it fits."""
    kept = list(columns)
    for left_out in ("", *LEFT_OUT_FIRST):
        kept = [column for column in kept if column != left_out]
        shown = [[cell for column, cell in zip(columns, row, strict=True) if column in kept] for row in rows]
        for header in (kept, [column.replace(" ", "\n") for column in kept]):
            longest = [max(column.split("\n"), key=len) for column in header]
            if sum(widths_of([longest, *shown])) + len(GAP) * (len(kept) - 1) <= width:
                return header, shown, tuple(column for column in columns if column not in kept)
    return header, shown, tuple(column for column in columns if column not in kept)


def _paused_notes(lines: Sequence[Status]) -> list[str]:
    paused = [line.job for line in lines if line.job.paused_at]
    return [f"{job.key} is paused since {_instant(job.paused_at)}, {_because(job)}" for job in paused]


def _because(job: Job) -> str:
    return because(job.paused_by, job.pause_reason)


def _left_out_note(left_out: Sequence[str], width: int) -> list[str]:
    return [f"{width} columns leave no room for {', '.join(left_out)}; see --json"] if left_out else []


def _next(worst: Status) -> list[str]:
    """The one command that fits: to look at what is worst."""
    if not worst.state.is_problem:
        return []
    period = worst.run.period if worst.run and worst.state is not KeyState.OVERDUE else ""
    return [f"next: {shlex.join(['cronguard', 'show', worst.key, *([period] if period else [])])}"]


# --------------------------------------------------------------------------- status, for programs


def status_document(standing: Standing) -> dict[str, Any]:
    return {
        "schema": "cronguard.status/1",
        "keys": [_status_of(line) for line in standing.lines],
        "unknown_effects": standing.unknown_effects,
    }


def _status_of(line: Status) -> dict[str, Any]:
    run, job = line.run, line.job
    return {
        "key": line.key,
        "state": str(line.state),
        "problem": line.state.is_problem,
        "period": run.period if run else None,
        "started_at": _or_none(run.started_at if run else None),
        "last_success_at": _or_none(line.last_success_at),
        "last_failure_at": _or_none(line.last_failure_at),
        "due_at": _or_none(line.due_at),
        "duration_seconds": line.took.total_seconds() if line.took is not None else None,
        "p95_seconds": line.p95.total_seconds() if line.p95 is not None else None,
        "host": run.holder.host if run and run.holder else None,
        "paused_at": _or_none(job.paused_at),
        "paused_by": job.paused_by,
        "pause_reason": job.pause_reason,
    }


def _or_none(instant: datetime | None) -> str | None:
    return format_instant(instant) if instant else None


# --------------------------------------------------------------------------- keys


def show_keys(jobs: Sequence[Job], *, as_json: bool) -> None:
    if as_json:
        print_json({"schema": "cronguard.keys/1", "keys": [_key_of(job) for job in jobs]})
    else:
        print_table(KEYS_COLUMNS, [_key_row(job) for job in jobs])


def _key_row(job: Job) -> list[str]:
    calendar = (job.cadence, job.zone, job.schedule, job.last_period)
    paused = f"since {_instant(job.paused_at)}, {_because(job)}" if job.paused_at else NOTHING
    return [job.key, *(text or NOTHING for text in calendar), _instant(job.last_started_at), paused]


def _key_of(job: Job) -> dict[str, Any]:
    return {
        "key": job.key,
        "cadence": job.cadence,
        "zone": job.zone,
        "schedule": job.schedule,
        "last_period": job.last_period,
        "last_started_at": _or_none(job.last_started_at),
        "pruned_before": _or_none(job.pruned_before),
        "paused_at": _or_none(job.paused_at),
        "paused_by": job.paused_by,
        "pause_reason": job.pause_reason,
    }
