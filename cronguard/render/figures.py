"""The figures of keys: a line each, or one in full; JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from cronguard.domain.run import State
from cronguard.domain.stats import OfHost, Stats
from cronguard.domain.text import format_duration
from cronguard.render.printing import length_of, print_json, print_pairs, print_table, print_text

STATS_COLUMNS = ("KEY", "RUNS", "OK", "P50", "P95", "MAX", "PREVENTED", "COMPLETE-BY", "ADVISED")
HOST_COLUMNS = ("HOST", "ATTEMPTS", "SUCCEEDED", "SKIPS")


def show_stats(found: Sequence[Stats], *, in_full: bool, as_json: bool) -> None:
    if as_json:
        print_json({"schema": "cronguard.stats/1", "keys": [_document(stats) for stats in found]})
    elif in_full:
        _show_one(found[0])
    else:
        print_table(STATS_COLUMNS, [_row(stats) for stats in found])
        _print_warnings(found)


def _row(stats: Stats) -> list[str]:
    lengths = (stats.p50, stats.p95, stats.longest)
    return [
        stats.key, str(stats.runs), str(stats.states.get(State.SUCCEEDED, 0)), *map(length_of, lengths),
        str(stats.prevented), length_of(stats.complete_by), length_of(stats.advice.complete_by),
    ]  # fmt: skip


def _print_warnings(found: Sequence[Stats]) -> None:
    warnings = [f"{stats.key}: {warning}\n" for stats in found for warning in stats.advice.warnings]
    if warnings:
        print_text("\n" + "".join(warnings))


def _show_one(stats: Stats) -> None:
    print_pairs(_pairs(stats))
    if stats.hosts:
        print_text("\n")
        print_table(HOST_COLUMNS, [_host_row(host) for host in stats.hosts])


def _pairs(stats: Stats) -> Iterator[tuple[str, str]]:
    yield "key", stats.key
    yield "runs", f"{stats.runs}{_listed(stats.states)}"
    yield "attempts", f"{sum(stats.outcomes.values())}{_listed(stats.outcomes)}"
    yield "skips", f"{sum(stats.skips.values())}{_listed(stats.skips)}"
    yield "duplicates prevented", str(stats.prevented)
    yield "p50", length_of(stats.p50)
    yield "p95", length_of(stats.p95)
    yield "longest", length_of(stats.longest)
    yield "interval", length_of(stats.interval)
    yield "complete by", length_of(stats.complete_by)
    advised = stats.advice.complete_by
    yield "advised", f"--complete-by {format_duration(advised)}" if advised else "too few runs to tell"
    for warning in stats.advice.warnings:
        yield "warning", warning


def _listed(counts: Mapping[Any, int]) -> str:
    return f"  ({', '.join(f'{what} {count}' for what, count in counts.items())})" if counts else ""


def _host_row(host: OfHost) -> list[str]:
    return [host.host, str(host.attempts), str(host.succeeded), str(host.skips)]


def _document(stats: Stats) -> dict[str, Any]:
    return {
        "key": stats.key,
        "runs": stats.runs,
        "states": {str(state): count for state, count in stats.states.items()},
        "outcomes": stats.outcomes,
        "skips": {str(reason): count for reason, count in stats.skips.items()},
        "duplicates_prevented": stats.prevented,
        "p50_seconds": _seconds(stats.p50),
        "p95_seconds": _seconds(stats.p95),
        "longest_seconds": _seconds(stats.longest),
        "interval_seconds": _seconds(stats.interval),
        "complete_by_seconds": _seconds(stats.complete_by),
        "advised_complete_by_seconds": _seconds(stats.advice.complete_by),
        "warnings": list(stats.advice.warnings),
        "hosts": [
            {"host": host.host, "attempts": host.attempts, "succeeded": host.succeeded, "skips": host.skips}
            for host in stats.hosts
        ],
    }


def _seconds(length: timedelta | None) -> float | None:
    return length.total_seconds() if length is not None else None
