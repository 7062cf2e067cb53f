"""What people and programs see of the ledger: a table on a terminal, plain columns elsewhere, JSON when asked.

Runs are here, whole keys in overview.py, effects in effects.py; all print by way of printing.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from cronguard.domain.run import Attempt, Progress, Record, Run, Skip, State
from cronguard.domain.said import Intervention
from cronguard.domain.step import Step, unfinished
from cronguard.domain.text import format_duration, format_instant
from cronguard.domain.transcript import texts_of, visible
from cronguard.render.printing import GAP, NOTHING, length_of, print_json, print_pairs, print_table, print_text

HISTORY_COLUMNS = ("KEY", "PERIOD", "STATE", "ATTEMPT", "EXIT", "STARTED", "TOOK", "SKIPS", "HOST")
ATTEMPT_COLUMNS = ("ATTEMPT", "OUTCOME", "EXIT", "STARTED", "TOOK", "HOST", "PID", "TOKEN", "NOTE")
STEP_COLUMNS = ("STEP", "STATE", "ATTEMPT", "EXIT", "STARTED", "TOOK", "COMPLETE BY", "TOKEN", "NOTE")
SKIP_COLUMNS = ("SKIPPED AT", "REASON", "HOST", "PID")
SAID_COLUMNS = ("SAID AT", "VERB", "BY", "REASON")


def show_history(records: Sequence[Record], *, as_json: bool) -> None:
    if as_json:
        print_json({"schema": "cronguard.history/1", "runs": [_run_document(record) for record in records]})
    else:
        print_table(HISTORY_COLUMNS, [_history_row(record) for record in records])


def show_run(record: Record, *, as_json: bool) -> None:
    if as_json:
        print_json({"schema": "cronguard.run/1"} | _whole_document(record))
        return
    print_pairs(_run_pairs(record))
    if record.attempts:
        print_text("\n")
        print_table(ATTEMPT_COLUMNS, [_attempt_row(attempt, record.now) for attempt in record.attempts])
    if record.steps:
        print_text("\n")
        print_table(STEP_COLUMNS, [_step_row(step, record.now) for step in record.steps])
    for attempt in record.attempts:
        _print_output(f"ATTEMPT {attempt.attempt}", attempt)
    for step in record.steps:
        _print_output(f"STEP {step.name}", step)
    if record.skipped:
        print_text("\n")
        print_table(SKIP_COLUMNS, [_skip_row(skip) for skip in record.skipped])
    if record.said:
        print_text("\n")
        print_table(SAID_COLUMNS, [_said_row(said) for said in record.said])


# --------------------------------------------------------------------------- a run as rows


def state_of(record: Record) -> str:
    """The stored state, or what is derived: `stale` (running, lease over), `none` (every firing was skipped)."""
    if record.run is None:
        return "none"
    until, now = record.lease_until, record.now
    return "stale" if record.run.state == "running" and until and now and until < now else str(record.run.state)


def _run_in(record: Record) -> Run:
    return record.run or Run(record.key, record.period, State.PENDING)


def _history_row(record: Record) -> list[str]:
    run = _run_in(record)
    return [
        run.key, run.period, state_of(record), str(run.attempt), _exit(run), _when(run.started_at),
        _took(run.started_at, run.finished_at), str(record.skips), run.holder.host if run.holder else NOTHING,
    ]  # fmt: skip


def _run_pairs(record: Record) -> list[tuple[str, str]]:
    run = _run_in(record)
    return [
        ("key", run.key),
        ("period", f"{run.period}  ({_when(run.period_start)} to {_when(run.period_end)}, {run.zone or NOTHING})"),
        ("state", state_of(record)),
        ("exit", _exit(run)),
        ("started", _when(run.started_at)),
        ("finished", _when(run.finished_at)),
        ("complete by", _complete_by(run)),
        *_progress_pairs(run.progress),
        *_steps_pairs(record.steps),
        *([("claim by", _when(run.claim_by))] if run.claim_by else []),
        ("lease until", _when(record.lease_until)),
        (
            "holder" if record.lease_until else "ran on",
            f"{run.holder.host} pid {run.holder.pid} ({run.holder.id})" if run.holder else NOTHING,
        ),
        ("token", str(run.token)),
        ("recoveries", f"{run.recoveries} of {run.recoveries_allowed}"),
        ("skips", str(record.skips)),
    ]


def _complete_by(run: Run) -> str:
    moved = f"  (extended by {format_duration(run.extended_for)})" if run.extended_for else ""
    return (_when(run.complete_by) if run.complete_by else "never") + moved


def _progress_pairs(progress: Progress | None) -> list[tuple[str, str]]:
    if progress is None:
        return []
    said = [("progress", f"{progress.text or 'it gets on'}  (said {_when(progress.at)})")]
    return [*said, ("progress note", progress.note)] if progress.note else said


def _steps_pairs(steps: Sequence[Step]) -> list[tuple[str, str]]:
    return [("steps", f"{len(steps) - len(unfinished(steps))} of {len(steps)} succeeded")] if steps else []


def _step_row(step: Step, now: datetime | None) -> list[str]:
    until = now if step.state == "running" else step.finished_at
    return [
        step.name, f"{step.state}{' (once)' if step.once else ''}", str(step.attempt), _exit(step),
        _when(step.started_at), _took(step.started_at, until), _when(step.complete_by),
        str(step.token) if step.token else NOTHING, step.note or NOTHING,
    ]  # fmt: skip


def _attempt_row(attempt: Attempt, now: datetime | None) -> list[str]:
    asked = f"asked for by {attempt.requested_by}" if attempt.requested_by else ""
    return [
        str(attempt.attempt), str(attempt.outcome or "running"), _exit(attempt), _when(attempt.started_at),
        _took(attempt.started_at, attempt.finished_at or now), attempt.holder.host, str(attempt.holder.pid),
        str(attempt.token), "; ".join(filter(None, (attempt.note, asked))) or NOTHING,
    ]  # fmt: skip


def _print_output(whose: str, said: Attempt | Step) -> None:
    """Indented, so that no command can speak in our name."""
    captured = said.captured
    if captured is None or not captured.total:
        return
    head, tail = texts_of(captured)
    print_text(f"\nOUTPUT OF {whose}, {captured.total} BYTES\n")
    if captured.left_out:
        print_text(f"{_indented(head)}… {captured.left_out} bytes left out …\n{_indented(tail)}")
    else:
        print_text(_indented(head + tail))


def _indented(text: str) -> str:
    lines = visible(text).removesuffix("\n").split("\n") if text else []
    return "".join(f"{GAP}{line}\n" for line in lines)


def _skip_row(skip: Skip) -> list[str]:
    return [_when(skip.seen_at), str(skip.reason), skip.host, str(skip.pid)]


def _said_row(said: Intervention) -> list[str]:
    return [_when(said.said_at), str(said.verb), said.said_by, said.reason or NOTHING]


def _exit(ended: Run | Attempt | Step) -> str:
    if ended.signal:
        return f"signal {ended.signal}"
    return NOTHING if ended.exit_code is None else str(ended.exit_code)


def _when(instant: datetime | None) -> str:
    return format_instant(instant.replace(microsecond=0)) if instant else NOTHING


def _took(started_at: datetime | None, finished_at: datetime | None) -> str:
    return length_of(finished_at - started_at if started_at and finished_at else None)


def _seconds(started_at: datetime | None, finished_at: datetime | None) -> float | None:
    return (finished_at - started_at).total_seconds() if started_at and finished_at else None


# --------------------------------------------------------------------------- a run as a document


def _run_document(record: Record) -> dict[str, Any]:
    run = _run_in(record)
    return {
        "key": run.key,
        "period": run.period,
        "state": state_of(record),
        "attempt": run.attempt,
        "token": run.token,
        **_holder(run),
        "started_at": _instant(run.started_at),
        "finished_at": _instant(run.finished_at),
        "duration_seconds": _seconds(run.started_at, run.finished_at),
        "exit_code": run.exit_code,
        "signal": run.signal,
        "complete_by": _instant(run.complete_by),
        "extended_seconds": run.extended_for.total_seconds(),
        "claim_by": _instant(run.claim_by),
        **_progress_document(run.progress),
        "lease_until": _instant(record.lease_until),
        "failures": run.failures,
        "recoveries": run.recoveries,
        "skips": record.skips,
    }


def _whole_document(record: Record) -> dict[str, Any]:
    run = _run_in(record)
    return _run_document(record) | {
        "period_start": _instant(run.period_start),
        "period_end": _instant(run.period_end),
        "zone": run.zone,
        "cadence": run.cadence,
        "source": run.source,
        "slot": _instant(run.slot),
        "attempts": [_attempt_document(attempt) for attempt in record.attempts],
        "steps": [_step_document(step) for step in record.steps],
        "skipped": [_skip_document(skip) for skip in record.skipped],
        "said": [_said_document(said) for said in record.said],
    }


def _attempt_document(attempt: Attempt) -> dict[str, Any]:
    return {
        "key": attempt.key,
        "period": attempt.period,
        "attempt": attempt.attempt,
        "token": attempt.token,
        **_holder(attempt),
        "started_at": _instant(attempt.started_at),
        "finished_at": _instant(attempt.finished_at),
        "duration_seconds": _seconds(attempt.started_at, attempt.finished_at),
        "outcome": str(attempt.outcome) if attempt.outcome else None,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "requested_by": attempt.requested_by,
        "note": attempt.note,
        **_output(attempt),
    }


def _step_document(step: Step) -> dict[str, Any]:
    named = ("name", "ordinal", "attempt", "token", "once", "exit_code", "signal", "note")
    return {name: getattr(step, name) for name in named} | {
        "state": str(step.state),
        "started_at": _instant(step.started_at),
        "finished_at": _instant(step.finished_at),
        "duration_seconds": _seconds(step.started_at, step.finished_at),
        "complete_by": _instant(step.complete_by),
        **_output(step),
    }


def _output(said: Attempt | Step) -> dict[str, Any]:
    captured = said.captured
    texts = tuple(text.replace("\0", "\ufffd") for text in texts_of(captured)) if captured else (None, None)
    known = (captured.total, captured.left_out > 0) if captured else (None, None)
    return dict(zip(("output_head", "output_tail", "output_bytes", "output_truncated"), texts + known, strict=True))


def _progress_document(progress: Progress | None) -> dict[str, Any]:
    known = (progress.text, progress.note, _instant(progress.at)) if progress else (None, None, None)
    return dict(zip(("progress", "progress_note", "progressed_at"), known, strict=True))


def _skip_document(skip: Skip) -> dict[str, Any]:
    return {"seen_at": _instant(skip.seen_at), "reason": str(skip.reason), "host": skip.host, "pid": skip.pid}


def _said_document(said: Intervention) -> dict[str, Any]:
    return {
        "said_at": _instant(said.said_at),
        "verb": str(said.verb),
        "period": said.period,
        "said_by": said.said_by,
        "reason": said.reason,
    }


def _holder(holding: Run | Attempt) -> dict[str, Any]:
    holder = holding.holder
    known = (holder.id, holder.host, holder.pid) if holder else (None, None, None)
    return dict(zip(("holder", "host", "pid"), known, strict=True))


def _instant(instant: datetime | None) -> str | None:
    return format_instant(instant) if instant else None
