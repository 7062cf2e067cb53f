"""A drill, while it is on: one lane a replica; and what it has shown: a table, or a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from cronguard.domain.drill import Order, Seen, Tally, is_kept
from cronguard.render.printing import NOTHING, drawn, length_of

COLUMNS = ("SCENARIO", "STARTED", "DUPLICATES WITHOUT", "DUPLICATES WITH", "RECOVERED IN", "VERDICT")
LANE_COLUMNS = ("REPLICA", "", "NOW")
_BESIDES = 24  # columns of the window that a lane has not
_SIGNS = {
    Seen.WAITS: (".", "dim"),
    Seen.RUNS: ("#", "green"),
    Seen.FROZEN: ("~", "cyan"),
    Seen.CUT: ("/", "yellow"),
    Seen.KILLED: ("x", "red"),
    Seen.DONE: (" ", "bold green"),
    Seen.OVER: (" ", "dim"),
}


@dataclass(slots=True)
class Lanes:
    """One round as it goes on: for each replica a sign a moment, and what it does now."""

    title: str
    drawn: list[str] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    def add(self, seen: Sequence[Seen]) -> None:
        """One moment more."""
        self.drawn = self.drawn or ["" for _ in seen]
        self.drawn = [lane + _SIGNS[now][0] for lane, now in zip(self.drawn, seen, strict=True)]
        self.seen = list(seen)

    def on_terminal(self, width: int, foot: str) -> str:
        """For a window so wide; the latest moments, where not all of them fit."""
        room = max(1, width - _BESIDES)
        rows = [
            [str(number), lane[-room:].ljust(room), str(now)]
            for number, (lane, now) in enumerate(zip(self.drawn, self.seen, strict=True), start=1)
        ]
        styles = [_SIGNS[now][1] for now in self.seen]
        return f"{self.title[:width]}\n{drawn(LANE_COLUMNS, rows, width, styles)}{foot[:width]}\n"


def rows_of(tallies: Sequence[Tally], rounds: int) -> list[list[str]]:
    return [_row(tally, rounds) for tally in tallies]


def document_of(
    order: Order, ledger: str, tallies: Sequence[Tally], *, cut_short_by: str | None = None
) -> dict[str, Any]:
    return {
        "schema": "cronguard.drill/1",
        "ledger": ledger,
        "key": order.key,
        "replicas": order.replicas,
        "rounds": order.rounds,
        "kept": is_kept(tallies),
        "cut_short_by": cut_short_by,
        "scenarios": [_document(tally) for tally in tallies],
    }


def _row(tally: Tally, rounds: int) -> list[str]:
    if tally.not_applied:
        return [tally.scenario.name, *[NOTHING] * 4, f"does not apply: {tally.not_applied}"]
    counts = (tally.started, tally.duplicates_without_guard, tally.duplicates)
    return [tally.scenario.name, *map(str, counts), _recovered_in(tally), _verdict(tally, rounds)]


def _recovered_in(tally: Tally) -> str:
    if tally.median_recovery is None:
        return NOTHING
    median, longest = _length(tally.median_recovery), _length(tally.recoveries[-1])
    return median if len(tally.recoveries) == 1 else f"{median}, {longest} at most"


def _length(seconds: float) -> str:
    return length_of(timedelta(seconds=seconds))


def _verdict(tally: Tally, rounds: int) -> str:
    verdict = f"BROKEN: {'; '.join(tally.broken)}" if tally.broken else "kept"
    played = len(tally.guarded)
    return verdict if played == rounds else f"{verdict}, in {played} of {rounds} rounds"


def _document(tally: Tally) -> dict[str, Any]:
    return {
        "name": tally.scenario.name,
        "meaning": tally.scenario.meaning,
        "applies": not tally.not_applied,
        "rounds_played": len(tally.guarded),
        "runs_started": tally.started,
        "duplicates_without_guard": tally.duplicates_without_guard,
        "duplicates_with_guard": tally.duplicates,
        "overlaps_with_guard": tally.overlaps,
        "lost_with_guard": tally.lost,
        "recovered_in_seconds": [round(seconds, 3) for seconds in tally.recoveries],
        "verdict": "does not apply" if tally.not_applied else "broken" if tally.broken else "kept",
        "why": tally.not_applied or "; ".join(tally.broken) or None,
    }
