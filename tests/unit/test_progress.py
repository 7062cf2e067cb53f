"""What a command may say of itself, what becomes of it, and how far a run may be extended."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronguard.domain.claim import LeaseTerms
from cronguard.domain.lifecycle import Ending, fail_and_hold, finish, recover
from cronguard.domain.progress import Extended, Inside, extend, parse_note, parse_progress, progress
from cronguard.domain.run import Change, Holder, Job, Lease, Outcome, Progress, Run, Sight, State
from cronguard.errors import BadInput
from tests.unit.test_lifecycle import HELD
from tests.unit.test_lifecycle import LEASE as BARE
from tests.unit.test_lifecycle import RUN as OF

NOW = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
HOUR, TEN, ONE = timedelta(hours=1), timedelta(minutes=10), timedelta(minutes=1)
HOLDER = Holder("7f0c1f3a-3f0e-4a52-9d5c-0a9e6f1f2a11", "alpha", 4711)
RUN = Run("job", "2026-11-30", State.RUNNING, token=7, holder=HOLDER, started_at=NOW, complete_by=NOW + HOUR)
LEASE = Lease("job", "", "2026-11-30", 7, HOLDER, NOW + ONE, complete_by=NOW + HOUR, extend_max=timedelta(minutes=15))
INSIDE = Inside("job", "2026-11-30", 7, HOLDER.id)


def sight(lease: Lease = LEASE, run: Run = RUN, now: datetime = NOW) -> Sight:
    return Sight(now, Job("job", lease.token), (lease,), (run,))


@pytest.mark.parametrize("text", ["3/10", "0/10", "10/10", "40%", "0%", "100%", "12.5%", "3", "0", "123456789012345"])
def test_progress_is_read_as_it_is_written(text: str) -> None:
    assert parse_progress(text) == text


@pytest.mark.parametrize(
    "text", ["", "3/", "/10", "3 / 10", "-1", "+3", "three", "40 %", "1e3", "٣", "3/10/20", "1" * 16]
)
def test_what_is_no_progress_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(BadInput, match="is no progress; write it like 3/10, 40% or 3"):
        parse_progress(text)


@pytest.mark.parametrize("text", ["11/10", "1/0", "101%", "100.1%"])
def test_more_than_the_whole_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is more than the whole; write it like"):
        parse_progress(text)


@pytest.mark.parametrize("note", ["x" * 1000, "Zürich → Köln, 3 %", "👩\u200d💻", "a\u00a0b"])
def test_note_is_one_line_of_anything(note: str) -> None:
    assert parse_note(note) == note


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ("", "empty"), ("x" * 1001, "longer than 1000 characters"), ("a\nb", "control characters"), ("a\tb", "control"),
        ("\x1b[31m", "control"), ("a\x00", "control"),
        ("\udcff", "control"), ("a\u2028b", "control"),
    ],
)  # fmt: skip
def test_note_that_is_no_line_of_text_is_refused(note: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        parse_note(note)


def test_what_is_said_is_recorded_and_what_is_left_out_stays() -> None:
    _, change = progress(INSIDE, "3/10", "customers from K on", sight())
    (lease,) = change.updated
    assert lease == replace(LEASE, progress=Progress(NOW, "3/10", "customers from K on"))
    _, change = progress(INSIDE, "4/10", None, sight(lease, now=NOW + ONE))
    assert change.updated[0].progress == Progress(NOW + ONE, "4/10", "customers from K on")
    _, change = progress(INSIDE, None, None, sight(lease, now=NOW + ONE))
    assert change.updated[0].progress == Progress(NOW + ONE, "3/10", "customers from K on")


OTHERS = [
    {"lease": replace(LEASE, token=8), "run": replace(RUN, token=8)},
    {"lease": replace(LEASE, holder=replace(HOLDER, id="another"))},
    {"lease": replace(LEASE, token=8)},
    {"run": replace(RUN, state=State.PENDING)},
    {"run": replace(RUN, state=State.SUCCEEDED)},
    {"run": replace(RUN, period="2026-12-01")},
]


@pytest.mark.parametrize("seen", OTHERS)
def test_who_is_overtaken_or_over_says_nothing_any_more(seen: dict[str, object]) -> None:
    assert progress(INSIDE, "3/10", None, sight(**seen)) == (False, Change())
    extension, change = extend(INSIDE, ONE, "call", sight(**seen))
    assert (extension.answer, change) == (Extended.LOST, Change())


def test_extension_moves_the_complete_by_of_run_and_lease() -> None:
    extension, change = extend(INSIDE, TEN, "call", sight())
    assert (extension.answer, extension.complete_by, extension.by) == (Extended.GRANTED, NOW + HOUR + TEN, TEN)
    assert change.runs == (replace(RUN, complete_by=NOW + HOUR + TEN, extended_for=TEN),)
    moved = replace(LEASE, complete_by=NOW + HOUR + TEN, extended_for=TEN, extension_id="call")
    assert change.updated == (moved,)


def test_extensions_add_up_to_what_is_allowed_and_no_further() -> None:
    _, first = extend(INSIDE, TEN, "first", sight())
    extension, second = extend(INSIDE, TEN, "second", sight(first.updated[0], first.runs[0]))
    assert (extension.by, extension.complete_by) == (timedelta(minutes=5), NOW + HOUR + timedelta(minutes=15))
    extension, third = extend(INSIDE, ONE, "third", sight(second.updated[0], second.runs[0]))
    assert (extension.answer, extension.allowed, third) == (Extended.SPENT, LEASE.extend_max, Change())


def test_call_that_asks_again_is_told_that_it_is_so_already() -> None:
    _, change = extend(INSIDE, TEN, "call", sight())
    extension, again = extend(INSIDE, TEN, "call", sight(change.updated[0], change.runs[0]))
    assert (extension.answer, extension.complete_by, again) == (Extended.GRANTED, NOW + HOUR + TEN, Change())


@pytest.mark.parametrize(
    ("lease", "run", "now", "answer"),
    [
        (replace(LEASE, extend_max=timedelta()), RUN, NOW, Extended.NOT_ALLOWED),
        (replace(LEASE, complete_by=None), replace(RUN, complete_by=None), NOW, Extended.NEVER_ENDS),
        (replace(LEASE, complete_by=None, extend_max=timedelta()), replace(RUN, complete_by=None), NOW,
         Extended.NEVER_ENDS),
        (LEASE, RUN, NOW + HOUR - timedelta(seconds=1), Extended.TOO_LATE),
        (LEASE, RUN, NOW + HOUR + ONE, Extended.TOO_LATE),
    ],
)  # fmt: skip
def test_extension_that_is_not_to_be_had(lease: Lease, run: Run, now: datetime, answer: Extended) -> None:
    extension, change = extend(INSIDE, ONE, "call", sight(lease, run, now))
    assert (extension.answer, change) == (answer, Change())


SAID = Progress(NOW, "3/10", None)


def test_progress_and_extension_outlive_the_lease() -> None:
    run = replace(OF, extended_for=TEN)
    seen = sight(replace(BARE, progress=SAID), run)
    _, change = finish(HELD, Ending(Outcome.STALLED, signal=15, note="stopped"), seen)
    assert (change.runs[0].state, change.runs[0].progress) == (State.TIMED_OUT, SAID)
    assert change.closed[0].note == "stopped; extended by 10m"
    _, change = fail_and_hold(HELD, Ending(Outcome.FAILED, exit_code=3), seen)
    assert (change.runs[0].progress, change.closed[0].note) == (SAID, None)  # the next try goes on with the same end
    after, change = recover(run, replace(BARE, progress=SAID), Sight(NOW), "beta")
    assert after.progress == SAID
    assert (change.closed[0].note or "").endswith("; extended by 10m")


def test_beats_come_often_enough_to_bring_what_the_command_says() -> None:
    lease, grace = timedelta(seconds=60), timedelta(seconds=8)
    assert LeaseTerms.of(lease, grace, stall_after=timedelta(minutes=5)).beat_every == timedelta(seconds=10)
    assert LeaseTerms.of(lease, grace, stall_after=timedelta(seconds=6)).beat_every == timedelta(seconds=2)
    with pytest.raises(BadInput, match="shorter than two beats of 10s, which bring what the command says"):
        LeaseTerms.of(lease, grace, timedelta(seconds=10), timedelta(seconds=19))
