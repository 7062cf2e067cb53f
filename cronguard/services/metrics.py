"""The ledger's figures as Prometheus reads them: gauges, since runs are pruned and a count may fall."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from cronguard.domain.metrics import KeyMetrics, Metrics
from cronguard.domain.run import Run, State

Sample = tuple[dict[str, str], float]


@dataclass(frozen=True, slots=True)
class Metric:
    """One family: its name, what it says, its samples."""

    name: str
    help: str
    samples: list[Sample]


def metrics_of(ledger: Metrics | None) -> str:
    """The whole file; without one, that the ledger could not be reached."""
    up = Metric("ledger_up", "Whether the ledger could be reached.", [({}, float(ledger is not None))])
    return "".join(map(_text, [up, *(_metrics(ledger) if ledger else ())]))


def _metrics(ledger: Metrics) -> Iterator[Metric]:
    done = ledger.supervisor.finished_at if ledger.supervisor else None
    yield Metric("last_pass_timestamp_seconds", "When a pass last finished, on whichever host.", _samples([({}, done)]))
    yield Metric(
        "unknown_effects", "Effects of which nobody knows whether they were done.", [({}, ledger.unknown_effects)]
    )
    yield from _moments(ledger.keys)
    yield from _last_runs(ledger.keys)
    yield from _counts(ledger.keys)


def _moments(keys: Iterable[KeyMetrics]) -> Iterator[Metric]:
    yield Metric(
        "last_success_timestamp_seconds", "When the key last succeeded.",
        _samples([({"key": key.key}, key.succeeded_at) for key in keys]),
    )  # fmt: skip
    yield Metric(
        "last_start_timestamp_seconds", "When a run of the key was last started.",
        _samples([({"key": key.key}, key.started_at) for key in keys]),
    )  # fmt: skip


def _last_runs(keys: Iterable[KeyMetrics]) -> Iterator[Metric]:
    last = [({"key": key.key}, key.last) for key in keys if key.last]
    yield Metric(
        "last_duration_seconds", "How long the newest run that has ended took, from its last start.",
        [(labels, took) for labels, run in last if (took := _took(run)) is not None],
    )  # fmt: skip
    yield Metric(
        "last_exit_code", "How the newest run that has ended ended: 128+n of signal n.",
        [(labels, code) for labels, run in last if (code := _code(run)) is not None],
    )  # fmt: skip


def _counts(keys: Iterable[KeyMetrics]) -> Iterator[Metric]:
    yield Metric(
        "runs", "The newest runs of the key, by state.",
        [({"key": key.key, "state": str(state)}, count) for key in keys for state, count in sorted(key.runs.items())],
    )  # fmt: skip
    yield Metric(
        "skips", "Firings for the newest runs of the key that ran nothing, by reason.",
        [({"key": key.key, "reason": str(why)}, count) for key in keys for why, count in sorted(key.skips.items())],
    )  # fmt: skip
    figures: tuple[tuple[str, str, Callable[[KeyMetrics], float]], ...] = (
        ("in_progress", "Runs of the key that somebody holds.", lambda key: key.in_progress),
        ("overdue", "Runs past their complete-by, and a tick that is late.", lambda key: key.overdue),
        ("missed", "Of the newest runs of the key, those that nobody ran.", lambda key: key.runs.get(State.MISSED, 0)),
        ("paused", "Whether the key is paused.", lambda key: key.is_paused),
    )
    for name, what, figure in figures:
        yield Metric(name, what, [({"key": key.key}, figure(key)) for key in keys])


def _samples(instants: Iterable[tuple[dict[str, str], datetime | None]]) -> list[Sample]:
    return [(labels, instant.timestamp()) for labels, instant in instants if instant]


def _took(run: Run) -> float | None:
    return (run.finished_at - run.started_at).total_seconds() if run.finished_at and run.started_at else None


def _code(run: Run) -> float | None:
    return 128 + run.signal if run.signal else run.exit_code


def _text(metric: Metric) -> str:
    name = f"cronguard_{metric.name}"
    lines = [f"{name}{_labels(labels)} {_number(value)}\n" for labels, value in metric.samples]
    return "".join([f"# HELP {name} {metric.help}\n# TYPE {name} gauge\n", *lines]) if lines else ""


def _labels(labels: dict[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"
