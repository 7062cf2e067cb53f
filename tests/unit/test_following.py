"""What is new of a run between two looks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronguard.domain.following import What, is_over, news
from cronguard.domain.lifecycle import OVER
from cronguard.domain.run import Holder, Progress, Record, Run, State
from cronguard.domain.said import Intervention, Verb

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
SECOND = timedelta(seconds=1)
RUN = Run(
    "job", "x", State.RUNNING, attempt=1, started_at=NOW - SECOND, holder=Holder("me", "alpha", 1), complete_by=NOW
)
RECORD = Record("job", "x", RUN, lease_until=NOW + SECOND, now=NOW)


def whats(before: Record | None, after: Record) -> list[str]:
    return [str(one.what) for one in news(before, after)]


def changed(**fields: object) -> Record:
    return replace(RECORD, run=replace(RUN, **fields), now=NOW + SECOND)  # type: ignore[arg-type]


def test_first_look_says_how_it_stands() -> None:
    assert whats(None, RECORD) == ["state"]
    assert news(None, RECORD)[0].at == RUN.started_at


def test_nothing_is_said_when_nothing_changes() -> None:
    assert whats(RECORD, replace(RECORD, now=NOW + SECOND, lease_until=NOW + 10 * SECOND)) == []


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"state": State.FAILED, "finished_at": NOW}, "state"),
        ({"attempt": 2}, "state"),
        ({"progress": Progress(NOW, "3/10")}, "progress"),
        ({"extended_for": SECOND}, "extended"),
    ],
)
def test_each_change_is_news(fields: dict[str, object], what: str) -> None:
    assert whats(RECORD, changed(**fields)) == [what]


def test_lease_that_is_over_is_news_once() -> None:
    stale = replace(RECORD, now=NOW + 2 * SECOND)
    (one,) = news(RECORD, stale)
    assert (one.what, one.stale) == (What.STATE, True)
    assert whats(stale, replace(stale, now=NOW + 3 * SECOND)) == []


def test_what_a_person_said_is_news_but_not_what_was_said_before() -> None:
    word = Intervention("job", "x", Verb.STOP, "ada@alpha", None, NOW)
    assert whats(None, replace(RECORD, said=(word,))) == ["state"]
    assert whats(RECORD, replace(RECORD, said=(word,))) == ["said"]


@pytest.mark.parametrize("state", State)
def test_a_run_is_over_in_each_state_that_is(state: State) -> None:
    assert is_over(changed(state=state)) == (state in OVER)
