"""The figures of a key, and the complete-by that they advise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cronguard.domain.advice import advise
from cronguard.domain.run import Holder, Job, Outcome, Run, SkipReason, State
from cronguard.domain.stats import Counts, stats_of

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("p99", "interval", "advised"),
    [
        (0.2 * SECOND, DAY, 10 * SECOND),
        (11 * SECOND, DAY, 25 * SECOND),
        (100 * SECOND, DAY, 3.5 * MINUTE),
        (12.2 * MINUTE, DAY, 25 * MINUTE),
        (2 * HOUR, DAY, 4 * HOUR),
        (4 * HOUR, None, 8 * HOUR),
        (20 * HOUR, DAY, DAY),
    ],
)
def test_advice_is_twice_the_p99_rounded_up_and_at_most_the_interval(
    p99: timedelta, interval: timedelta | None, advised: timedelta
) -> None:
    assert advise([p99] * 5, None, interval).complete_by == advised


def test_too_few_runs_advise_nothing() -> None:
    assert advise([HOUR] * 4, MINUTE, MINUTE).complete_by is None
    assert advise([HOUR] * 4, MINUTE, MINUTE).warnings == ()


def test_complete_by_shorter_than_what_runs_take_is_warned_of() -> None:
    (warning,) = advise([10 * MINUTE] * 9, 9 * MINUTE, DAY, timed_out=3).warnings
    assert warning == ("its complete-by of 9m is shorter than what runs really take (p99 10m); 3 were stopped at it")
    assert advise([10 * MINUTE] * 9, 11 * MINUTE, DAY).warnings == ()


def test_runs_that_come_near_their_interval_are_warned_of() -> None:
    (warning,) = advise([12 * MINUTE] * 9, None, 15 * MINUTE).warnings
    assert "come near their interval of 15m (p95 12m)" in warning
    assert advise([11 * MINUTE] * 9, None, 15 * MINUTE).warnings == ()


def run(state: State, took: timedelta | None = MINUTE) -> Run:
    ended = NOW + took if took else None
    return Run("job", str(took), state, started_at=NOW, finished_at=ended, complete_by=NOW + HOUR,
               extended_for=15 * MINUTE, holder=Holder("me", "alpha", 1))  # fmt: skip


def test_figures_of_a_key() -> None:
    runs = (
        run(State.RUNNING, None),
        *(run(State.SUCCEEDED, n * MINUTE) for n in range(1, 11)),
        run(State.TIMED_OUT, DAY),
    )
    attempts = (("alpha", Outcome.SUCCEEDED, 7), ("alpha", None, 1), ("beta", Outcome.SUCCEEDED, 3),
                ("beta", Outcome.LOST, 2))  # fmt: skip
    skips = (("alpha", SkipReason.HELD, 2), ("beta", SkipReason.ALREADY_SUCCEEDED, 9), ("gamma", SkipReason.PAUSED, 4))
    stats = stats_of(Counts(NOW, Job("job", cadence="day", zone="UTC"), runs, attempts, skips))
    assert (stats.runs, stats.states[State.SUCCEEDED], stats.states[State.RUNNING]) == (12, 10, 1)
    assert (stats.p50, stats.p95, stats.longest) == (5 * MINUTE, 10 * MINUTE, 10 * MINUTE)
    assert stats.outcomes == {"succeeded": 10, "lost": 2, "running": 1}
    assert stats.prevented == 11  # paused is no duplicate
    assert stats.complete_by == 45 * MINUTE  # without what it was extended by
    assert [(host.host, host.attempts, host.succeeded, host.skips) for host in stats.hosts] == [
        ("alpha", 8, 7, 2), ("beta", 5, 3, 9), ("gamma", 0, 0, 4),
    ]  # fmt: skip


def test_key_without_runs_has_figures_too() -> None:
    stats = stats_of(Counts(NOW, Job("job")))
    assert (stats.runs, stats.p50, stats.complete_by, stats.hosts) == (0, None, None, ())
