"""Steps, on every store: begun and ended under the live token of their run, and under no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from cronguard.clock import boottime
from cronguard.domain.claim import Granted
from cronguard.domain.lifecycle import recover
from cronguard.domain.run import Captured, Change
from cronguard.domain.step import list_of, step_at
from cronguard.domain.stepping import begin as decide_to_begin
from cronguard.errors import StepsChanged
from cronguard.ports import Store
from tests.conftest import Clock
from tests.rig.firings import FAILED, SUCCEEDED, MakeStore, claim, finish, granted, ledger_on, state
from tests.rig.steps import STOPPED, TIMED_OUT, asked, begin, do, end, inside, only, states
from tests.rig.waiting import in_background, still_waits

TODAY = "2026-11-30"
LIST = list_of([("pull", ["./pull"]), ("balances", ["./balances"]), ("mails", ["./mails"])])
CHANGED = list_of([("pull", ["./pull"]), ("mails", ["./mails", "--all"]), ("report", ["./report"])])


def start(store: Store, **options: object) -> Granted:
    return granted(claim(store, complete_by="1h", **options))


def taken_over(store: Store, clock: Clock, **options: object) -> Granted:
    """The holder has died, and somebody else has the run."""
    clock.forward(seconds=61)
    return start(store, host="beta", **options)


# --- What is remembered -----------------------------------------------------------------------------------------------


def test_step_is_remembered_with_all_that_belongs_to_it(store: Store, clock: Clock) -> None:
    held, step = start(store), asked("pull", once=True, complete_by="10m")
    begun = begin(store, held, step)
    ended_at = clock.forward(seconds=3)
    said = replace(FAILED, note="left 2 processes behind", captured=Captured(b"a\0\xff", b"z", 4711))
    assert end(store, held, step, said) == "mine"
    found = only(store, held, "pull")
    assert (found.ordinal, found.state, found.token, found.attempt, found.once) == (
        1,
        "failed",
        held.run.token,
        1,
        True,
    )
    assert (found.started_at, found.finished_at) == (begun.now, ended_at)
    assert found.complete_by == begun.now + timedelta(minutes=10)
    assert (found.exit_code, found.signal, found.note) == (3, None, "left 2 processes behind")
    assert found.captured == Captured(b"a\0\xff", b"z", 4711)
    record = store.show("job", TODAY)
    assert record and record.steps == (found,)


def test_steps_stand_in_the_order_in_which_they_first_began(store: Store) -> None:
    held = start(store)
    for name in ("zebra", "adder", "mouse"):
        do(store, held, name)
    do(store, granted(claim(store, key="other")), "pull")
    assert [step.name for step in store.steps_of("job", TODAY)] == ["zebra", "adder", "mouse"]
    assert list(states(store, "other")) == ["pull"]
    assert store.steps_of("nobody", TODAY) == []


def test_next_try_begins_with_no_output_and_a_settled_step_keeps_it(store: Store) -> None:
    held = start(store)
    do(store, held, "pull", replace(FAILED, captured=Captured(b"oh", b"", 2)))
    ledger_on(store).settle_step("job", TODAY, "pull", succeeded=False, word="ada says so")
    assert only(store, held, "pull").captured == Captured(b"oh", b"", 2)
    assert only(store, held, "pull").note == "ada says so"
    assert begin(store, held, asked("pull")).answer == "granted"
    assert (only(store, held, "pull").captured, only(store, held, "pull").note) == (Captured(), None)


# --- Passing over, running again, once --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["died", "failed"])
def test_what_has_succeeded_is_passed_over_when_the_run_is_gone_on_with(store: Store, clock: Clock, how: str) -> None:
    held = start(store, attempts=2)
    assert do(store, held, "pull") == "succeeded"
    cut_off = asked("balances")
    begin(store, held, cut_off)
    if how == "failed":
        end(store, held, cut_off, FAILED)
        finish(store, held, FAILED)
        again = start(store, attempts=2)
    else:
        again = taken_over(store, clock)
    assert begin(store, again, asked("pull")).answer == "passed_over"
    assert do(store, again, "balances") == "succeeded"
    assert only(store, again, "balances").attempt == 2
    assert finish(store, again) == "mine"
    assert state(store, "job", TODAY) == "succeeded"


def test_try_in_place_may_run_again_what_the_try_before_left_running(store: Store) -> None:
    held = start(store, attempts=2)
    begin(store, held, asked("pull"))
    ledger, until = ledger_on(store), boottime() + 5
    ledger.fail_and_hold(held, FAILED, until)
    again = ledger.retry(held, until)
    assert again and do(store, again, "pull") == "succeeded"


def test_step_that_was_cut_off_and_must_be_done_once_waits_for_a_person(store: Store, clock: Clock) -> None:
    held = start(store, attempts=3)
    begin(store, held, asked("mails", once=True))
    again = taken_over(store, clock, attempts=3)
    for _ in range(2):
        assert begin(store, again, asked("mails", once=True)).answer == "unknown"
    assert begin(store, again, asked("mails")).answer == "unknown"  # not by leaving the word out either
    assert (only(store, again, "mails").state, only(store, again, "mails").token) == ("unknown", held.run.token)
    assert f"cut off under token {held.run.token}" in (only(store, again, "mails").note or "")
    assert finish(store, again) == "unfinished"


@pytest.mark.parametrize(("succeeded", "answer"), [(True, "passed_over"), (False, "granted")])
def test_word_of_a_person_counts(store: Store, clock: Clock, succeeded: bool, answer: str) -> None:
    begin(store, start(store), asked("mails", once=True))
    again = taken_over(store, clock)
    begin(store, again, asked("mails", once=True))
    ledger = ledger_on(store)
    assert ledger.settle_step("job", TODAY, "mails", succeeded=succeeded, word="settled by ada") == "settled"
    assert (only(store, again, "mails").note or "").endswith("; settled by ada")
    assert begin(store, again, asked("mails", once=True)).answer == answer


@pytest.mark.parametrize(
    ("ending", "plain", "once"),
    [(SUCCEEDED, "succeeded", "succeeded"), (FAILED, "failed", "failed"), (TIMED_OUT, "failed", "unknown"),
     (STOPPED, "pending", "unknown"), (replace(FAILED, exit_code=None, signal=9), "failed", "unknown")],
)  # fmt: skip
def test_how_a_step_ends(store: Store, ending: object, plain: str, once: str) -> None:
    """What must be done once and was stopped midway is in doubt; an exit of its own is an answer."""
    held = start(store)
    assert do(store, held, "plain", ending) == plain  # type: ignore[arg-type]
    assert do(store, held, "once", ending, once=True) == once  # type: ignore[arg-type]


def test_step_is_not_begun_twice_at_once(store: Store) -> None:
    held, step = start(store), asked("pull")
    assert begin(store, held, step).answer == "granted"
    assert begin(store, held, asked("pull")).answer == "busy"
    assert begin(store, held, step) == begin(store, held, step)  # an answer that was lost is given again
    assert end(store, held, asked("pull")) == "lost"  # by whoever else
    assert [end(store, held, step) for _ in range(2)] == ["mine", "already_so"]


def test_deadline_of_a_step_is_its_own_only_before_that_of_its_run(store: Store, clock: Clock) -> None:
    held = start(store)
    begin(store, held, asked("long", complete_by="2h"))
    assert only(store, held, "long").complete_by is None
    assert begin(store, held, asked("early", complete_by="06:30")).answer == "granted"
    assert only(store, held, "early").complete_by == clock.now + timedelta(minutes=30)
    clock.forward(minutes=31)
    assert begin(store, held, asked("late", complete_by="06:30")).answer == "too_late"
    assert states(store)["late"] == "failed"
    steps = {step.name: step for step in store.steps_of("job", TODAY)}
    assert step_at(steps.values()) == steps["early"]


# --- No success with a step left --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "word"), [(None, "running"), (FAILED, "failed"), (STOPPED, "pending")])
def test_run_does_not_succeed_while_a_step_is_left(store: Store, ending: object, word: str) -> None:
    held, step = start(store), asked("mails")
    do(store, held, "pull")
    begin(store, held, step)
    if ending:
        end(store, held, step, ending)  # type: ignore[arg-type]
    assert [finish(store, held) for _ in range(2)] == ["unfinished", "unfinished"]  # also when asked again
    record = store.show("job", TODAY)
    assert record and record.run
    assert (record.run.state, record.run.exit_code, record.run.failures) == ("failed", 125, 1)
    assert (record.attempts[0].outcome, record.attempts[0].note) == ("failed", f"exit 0, but step mails is {word}")


@pytest.mark.parametrize(("done", "standing", "after"), [(True, "late", "succeeded"), (False, "lost", "pending")])
def test_success_comes_late_only_if_no_step_is_left(
    store: Store, clock: Clock, done: bool, standing: str, after: str
) -> None:
    held, step = start(store), asked("mails")
    begin(store, held, step)
    if done:
        end(store, held, step)
    clock.forward(seconds=61)
    claim(store, period="2026-11-29")  # somebody comes by, and recovers it
    assert state(store, "job", TODAY) == "pending"
    assert finish(store, held) == standing
    assert state(store, "job", TODAY) == after


def test_steps_of_other_periods_are_no_obstacle(store: Store) -> None:
    held = start(store, period="2026-11-28")
    begin(store, held, asked("mails"))
    finish(store, held, FAILED)
    today = start(store, period=TODAY)
    do(store, today, "mails")
    assert finish(store, today) == "mine"


# --- Every interleaving of a recovery with a step's begin and end -----------------------------------------------------


@contextmanager
def recovering(store: Store) -> Iterator[None]:
    """The page of the key is open and the recovery decided; it is committed on leaving."""
    with store.page("job", TODAY) as page:
        (lease,) = page.sight.leases
        run = page.sight.run(TODAY)
        assert run
        _, change = recover(run, lease, page.sight, "omega")
        page.write(change)
        yield


@contextmanager
def beginning(store: Store, held: Granted) -> Iterator[None]:
    """The page of the key is open and the beginning of a step decided."""
    with store.page("job", TODAY) as page:
        begun, change = decide_to_begin(inside(held), asked("mails"), page.sight)
        assert begun.answer == "granted"
        page.write(change)
        yield


Act = Callable[[Store, Granted], str]


@pytest.fixture(params=["begin", "end"])
def step(request: pytest.FixtureRequest, store: Store, clock: Clock) -> tuple[Granted, Act]:
    """A run whose holder is silent past its lease, and what its command, which still lives, does next."""
    held, current = start(store), asked("mails")
    if request.param == "end":
        begin(store, held, current)
    clock.forward(seconds=61)
    if request.param == "end":
        return held, lambda store, held: end(store, held, current)
    return held, lambda store, held: str(begin(store, held, current).answer)


def test_old_token_is_refused_after_the_recovery(store: Store, step: tuple[Granted, Act]) -> None:
    held, act = step
    with recovering(store):
        pass
    before = store.steps_of("job", TODAY)
    assert act(store, held) == "lost"
    assert store.steps_of("job", TODAY) == before


def test_old_token_that_waits_behind_the_recovery_is_refused(make_store: MakeStore, step: tuple[Granted, Act]) -> None:
    held, act = step
    store, other = make_store(), make_store()
    before = store.steps_of("job", TODAY)
    with recovering(store):
        waiting = in_background(lambda: act(other, held))
        assert still_waits(waiting, 0.5)
    assert waiting.result(30) == "lost"
    assert store.steps_of("job", TODAY) == before


def test_old_token_that_had_looked_before_the_recovery_is_refused(
    make_store: MakeStore, step: tuple[Granted, Act]
) -> None:
    """Its plain read said yes; what counts is the page that it opens afterwards."""
    held, _ = step
    store, other = make_store(), make_store()
    wish = asked("another")
    begun, change = decide_to_begin(inside(held), wish, other.look("job", TODAY))
    assert (begun.answer, bool(change)) == ("granted", True)
    with recovering(store):
        pass
    with other.page("job", TODAY) as page:
        begun, change = decide_to_begin(inside(held), wish, page.sight)
    assert (begun.answer, change) == ("lost", Change())


def test_recovery_waits_for_a_beginning_and_the_end_is_refused_after_it(make_store: MakeStore, clock: Clock) -> None:
    store, other = make_store(), make_store()
    held = start(store)
    clock.forward(seconds=61)

    def recover_it() -> None:
        with recovering(other):
            pass

    with beginning(store, held):
        waiting = in_background(recover_it)
        assert still_waits(waiting, 0.5)
    waiting.result(30)
    (cut_off,) = store.steps_of("job", TODAY)
    assert (state(store, "job", TODAY), cut_off.state, cut_off.token) == ("pending", "running", held.run.token)
    assert end(store, held, replace(asked("mails"), call=cut_off.start_id or "")) == "lost"
    assert step_at(store.steps_of("job", TODAY)) == cut_off  # what a supervisor names


def test_recovery_waits_for_an_end_and_then_finds_the_step_done(make_store: MakeStore, clock: Clock) -> None:
    store, other = make_store(), make_store()
    held, step = start(store), asked("mails")
    begin(store, held, step)
    clock.forward(seconds=61)
    assert end(store, held, step) == "mine"  # its lease was over, but nobody had come for the run
    again = granted(claim(other, host="beta"))
    assert begin(other, again, asked("mails")).answer == "passed_over"


def test_old_token_is_refused_while_the_new_holder_does_the_same_step(
    make_store: MakeStore, step: tuple[Granted, Act]
) -> None:
    held, act = step
    store = make_store()
    again, anew = granted(claim(store, host="beta")), asked("mails")
    assert begin(store, again, anew).answer == "granted"
    before = store.steps_of("job", TODAY)
    assert act(make_store(), held) == "lost"
    assert store.steps_of("job", TODAY) == before
    assert end(store, again, anew) == "mine"


# --- A person's word --------------------------------------------------------------------------------------------------


def test_word_about_a_step_that_needs_none_changes_nothing(store: Store) -> None:
    held, ledger = start(store), ledger_on(store)
    do(store, held, "done")
    begin(store, held, asked("live"))
    before = store.steps_of("job", TODAY)

    def say(name: str, *, succeeded: bool, key: str = "job") -> str:
        return str(ledger.settle_step(key, TODAY, name, succeeded=succeeded, word="ada"))

    assert (say("done", succeeded=True), say("done", succeeded=False)) == ("already_so", "succeeded")
    assert [say("live", succeeded=succeeded) for succeeded in (True, False)] == ["live", "live"]
    assert (say("other", succeeded=True), say("done", succeeded=True, key="nobody")) == ("no_such_step",) * 2
    assert store.steps_of("job", TODAY) == before
    assert store.look("nobody", TODAY).job is None


# --- Lists ------------------------------------------------------------------------------------------------------------


def test_list_is_laid_out_when_its_run_starts(store: Store) -> None:
    start(store, steps=LIST)
    assert states(store) == dict.fromkeys(LIST.names, "pending")


def test_changed_list_goes_on_with_no_run_that_was_begun(store: Store) -> None:
    held = start(store, steps=LIST, attempts=9)
    do(store, held, "pull")
    do(store, held, "balances", FAILED)
    finish(store, held, FAILED)
    for changed in (CHANGED, None):
        with pytest.raises(StepsChanged, match="its steps are not those that this run was begun with"):
            claim(store, steps=changed, attempts=9)
    assert state(store, "job", TODAY) == "failed"
    finish(store, start(store, steps=CHANGED, period="2026-11-29"))  # another run is another matter
    finish(store, start(store, steps=LIST, attempts=9), FAILED)


def test_changed_list_that_is_agreed_to_keeps_what_was_done_and_forgets_what_was_not(store: Store) -> None:
    held = start(store, steps=LIST, attempts=9)
    do(store, held, "pull")
    do(store, held, "balances", FAILED)
    finish(store, held, FAILED)
    again = start(store, steps=CHANGED, attempts=9, accept_changed_steps=True)
    assert states(store) == {"pull": "succeeded", "mails": "pending", "report": "pending"}
    for name in ("mails", "report"):
        do(store, again, name)
    assert finish(store, again) == "mine"


def test_list_may_change_before_anything_of_it_was_begun(store: Store) -> None:
    finish(store, start(store, steps=LIST, attempts=9), FAILED)
    start(store, steps=CHANGED, attempts=9)
    assert list(states(store)) == list(CHANGED.names)


@pytest.mark.parametrize("steps", [LIST, None])
def test_rerun_goes_on_and_a_forced_one_begins_anew(store: Store, steps: object) -> None:
    held = start(store, steps=steps)
    for name in LIST.names:
        do(store, held, name, FAILED if name == "mails" else SUCCEEDED)
    finish(store, held, FAILED)
    again = start(store, steps=steps, rerun=True)
    assert begin(store, again, asked("pull")).answer == "passed_over"
    do(store, again, "mails")
    finish(store, again)
    start(store, steps=steps, rerun=True, force=True)
    assert states(store) == (dict.fromkeys(LIST.names, "pending") if steps else {})
