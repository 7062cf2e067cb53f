"""The witness: what it sees in marks, and what it holds against a ledger."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.rig import marks
from tests.rig.processes import kill_tree
from tests.rig.waiting import wait_until
from tests.rig.witness import Attempt, Told, attempts_in, judge


def attempt(
    began: float, last: float, code: int | None = 0, token: str = "1", period: str = "p", key: str = "k"
) -> Attempt:
    return Attempt(began, key, period, token, 7, last, code)


def told(state: str = "succeeded", *succeeded: tuple[str, float], spooled: bool = False) -> Told:
    return Told("k", "p", state, succeeded, spooled)


def kinds(verdict: object) -> set[str]:
    return {name for name, found in vars(verdict).items() if found}


ONE = attempt(1, 2)
CASES = {
    "all is well": ([ONE], [told("succeeded", ("1", 2.1))], set()),
    "the first one failed": ([attempt(1, 2, 3), attempt(3, 4, token="2")], [told("succeeded", ("2", 4.1))], set()),
    "the first was killed": ([attempt(1, 2, None), attempt(3, 4, token="2")], [told("succeeded", ("2", 4.1))], set()),
    "another period at once": ([ONE, attempt(1.5, 3, 1, "2", "q")], [told("succeeded", ("1", 2.1))], {"overlaps"}),
    "another key at once": ([ONE, attempt(1.5, 3, 1, "2", key="other")], [told("succeeded", ("1", 2.1))], set()),
    "the killed one lived on": ([attempt(1, 9, None), attempt(3, 4, 1)], [told("pending")], {"overlaps"}),
    "far inside, after a short one": ([attempt(1, 9, 1), attempt(2, 3, 1), attempt(8, 8.5, 1)], [], {"overlaps"}),
    "run after its success": ([ONE, attempt(3, 4, None, "2")], [told("succeeded", ("1", 2.1))], {"doubles"}),
    "two that succeeded": (
        [ONE, attempt(3, 4, token="2")], [told("succeeded", ("1", 5), ("2", 5))], {"done_again", "doubles"}
    ),
    "done again unheard of": ([ONE, attempt(3, 4, token="2")], [told("succeeded", ("2", 4.1))], {"done_again"}),
    "the ledger never heard": ([ONE], [told("running")], {"lost"}),
    "the ledger does not know it": ([ONE], [], {"lost"}),
    "it waits on the host": ([ONE], [told("running", spooled=True)], set()),
    "nobody saw it end": ([attempt(1, 2, None)], [told("succeeded", ("1", 2.1))], {"false_successes"}),
    "nobody saw it begin": ([], [told("succeeded", ("1", 2.1))], {"false_successes"}),
    "it ended badly": ([attempt(1, 2, 3)], [told("succeeded", ("1", 2.1))], {"false_successes"}),
    "another attempt succeeded": ([ONE], [told("succeeded", ("2", 2.1))], {"false_successes"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_should_not_be_is_seen(case: str) -> None:
    attempts, ledger, seen = CASES[case]
    assert kinds(judge(attempts, ledger)) == seen


def test_without_a_ledger_it_judges_what_was_to_be_done() -> None:
    verdict = judge([ONE, attempt(3, 4)], expected=[("k", "p"), ("k", "q")])
    assert kinds(verdict) == {"done_again", "never_done"}
    assert verdict.complaints == ["never_done: k q"]


def test_overlap_that_is_known_is_forgiven() -> None:
    assert (
        judge([attempt(1, 9, 1), attempt(2, 3, 1)], forgiven=lambda older, newer: older.last_seen_at < 10).complaints
        == []
    )


def test_marks_tell_who_ran_for_what_and_until_when(tmp_path: Path) -> None:
    environment = {"MARK_KEY": "k", "CRONGUARD_KEY": "not this", "CRONGUARD_PERIOD": "p"}
    ended = subprocess.run(marks.command(tmp_path, 0.1, 3), env=environment, check=False)
    killed = subprocess.Popen(marks.command(tmp_path, tmp_path / "never"), env=environment)
    wait_until(lambda: len(attempts_in(tmp_path)) == 2, 30, saying="both have begun")
    began = attempts_in(tmp_path)[1]
    wait_until(lambda: attempts_in(tmp_path)[1].last_seen_at > began.last_seen_at, 30, saying="it lives")
    kill_tree(killed.pid)
    killed.wait()
    first, second = attempts_in(tmp_path)
    assert (first.key, first.period, first.token, first.exit_code) == ("k", "p", "", 3) and ended.returncode == 3
    assert (second.pid, second.exit_code) == (killed.pid, None)
    assert first.began_at + 0.1 <= first.last_seen_at < second.began_at


def test_mark_that_is_half_written_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "1.marks").write_text("start\t1000000000\tk\tp\t1\t7\nalive\t2000000000\nend\t30")
    (tmp_path / "2.marks").write_text("start\t10000")
    assert attempts_in(tmp_path) == [attempt(1, 2, None)]
