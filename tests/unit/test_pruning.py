"""What a ledger may forget, and the mark that it keeps of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from cronguard.domain.cadence import Cadence
from cronguard.domain.period import period_named
from cronguard.domain.pruning import Aged, AgedSkip, Keep, go_on_after, prune, prune_skips
from cronguard.domain.run import Job, Run, State

NOW = datetime(2026, 11, 30, tzinfo=UTC)
DAY = timedelta(days=1)
KEEP = Keep(400 * DAY, 50)
OLD = NOW - 500 * DAY
RUN = Run("job", "old", State.SUCCEEDED, period_start=OLD, period_end=OLD + DAY, started_at=OLD, finished_at=OLD)


JOB = Job("job")


def pruned(*runs: Run, job: Job = JOB) -> tuple[tuple[str, ...], datetime | None]:
    pruning = prune(Aged(NOW, job, runs), KEEP)
    return pruning.periods, pruning.job.pruned_before


@pytest.mark.parametrize("state", State)
def test_what_is_pending_or_running_stays(state: State) -> None:
    gone, mark = pruned(replace(RUN, state=state))
    stays = state in (State.PENDING, State.RUNNING)
    assert (gone, mark) == (((), None) if stays else (("old",), OLD + DAY))


@pytest.mark.parametrize("young", ["period_start", "started_at", "finished_at"])
def test_what_is_young_in_any_way_stays(young: str) -> None:
    assert pruned(replace(RUN, **{young: NOW - 400 * DAY})) == ((), None)  # type: ignore[arg-type]


def test_label_without_a_start_stays_since_it_could_not_be_refused_later() -> None:
    assert pruned(replace(RUN, period_start=None)) == ((), None)


def test_mark_only_rises_and_to_the_end_of_the_last_period() -> None:
    later = replace(RUN, period="later", period_start=OLD + DAY, period_end=OLD + 2 * DAY)
    assert pruned(RUN, later) == (("old", "later"), OLD + 2 * DAY)
    marked = Job("job", pruned_before=NOW)
    assert pruned(RUN, job=marked) == (("old",), NOW)


def test_period_without_an_end_is_behind_the_mark_too() -> None:
    _, mark = pruned(replace(RUN, period_end=None))
    assert mark and RUN.period_start and RUN.period_start < mark <= OLD + timedelta(seconds=1)


def test_label_that_the_cadence_run_made_itself_tells_when_it_began() -> None:
    """Else it could be named, and run, again after it was pruned."""
    start = period_named(Cadence.parse("run"), ZoneInfo("UTC"), "2025-07-18T06:00:00.123Z-3f2a").start
    assert start == datetime(2025, 7, 18, 6, 0, 0, 123_000, tzinfo=UTC)
    assert period_named(Cadence.parse("run"), ZoneInfo("UTC"), "2025-02-31T06:00:00.123Z").start is None
    assert period_named(Cadence.parse("run"), ZoneInfo("UTC"), "release 1.2").start is None


def test_skips_go_when_they_are_old_and_nobody_ran_their_period() -> None:
    skips = [AgedSkip(1, OLD, False), AgedSkip(2, OLD, True), AgedSkip(3, NOW, False)]
    assert prune_skips(skips, NOW, KEEP) == [1]


def test_skips_are_gone_through_up_to_the_first_young_ones() -> None:
    old, young = AgedSkip(1, OLD, True), AgedSkip(2, NOW, False)
    assert go_on_after([old, old], NOW, KEEP, 2) == 1
    assert go_on_after([old, young], NOW, KEEP, 2) is None
    assert go_on_after([old], NOW, KEEP, 2) is None
    assert go_on_after([], NOW, KEEP, 2) is None
