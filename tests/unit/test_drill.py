"""What the witness concludes from marks, and what a drill says of them: each kind of failure is planted here."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from cronguard.domain.drill import SCENARIOS, Order, Round, Tally, check_time, chosen, is_drill_key, is_kept
from cronguard.domain.witness import Course, course_of, duplicates, is_lost, overlaps, successor
from cronguard.errors import BadInput
from cronguard.process import marking
from cronguard.settings.drill_order import new_key
from tests.rig.waiting import wait_until


def course(first: float, last: float, ended: bool = True) -> Course:
    return Course(1, first, last, ended, pid=int(first * 1000))


DIED = course(0, 1, ended=False)

# --- The witness ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("courses", "needless", "at_once"),
    [
        ([], 0, 0),
        ([course(0, 1)], 0, 0),
        ([DIED, course(2, 3)], 0, 0),  # recovered
        ([DIED, course(2, 3, ended=False), course(4, 5)], 0, 0),  # and recovered again
        ([course(0, 1), course(2, 3)], 1, 0),  # done twice
        ([course(0, 2), course(1, 3)], 1, 1),  # two at once
        ([course(0, 5, ended=False), course(2, 3)], 1, 1),  # the first was frozen, and woke up
        ([course(0, 2, ended=False), course(2, 3)], 1, 1),  # at the very same moment
        ([course(0, 3), course(1, 3), course(2, 3)], 2, 2),
        ([DIED, course(2, 3), course(4, 5)], 1, 0),
    ],
)
def test_duplicates_and_overlaps_by_the_marks(courses: list[Course], needless: int, at_once: int) -> None:
    assert duplicates(courses) == duplicates(courses[::-1]) == needless
    assert overlaps(courses) == overlaps(courses[::-1]) == at_once


def test_work_is_lost_when_nobody_comes_to_its_end() -> None:
    assert is_lost([])
    assert is_lost([DIED])
    assert not is_lost([DIED, course(2, 3)])


def test_who_comes_after_is_the_first_to_start_later() -> None:
    assert successor([course(4, 5), DIED, course(2, 3)], DIED) == course(2, 3)
    assert successor([DIED], DIED) is None


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", None),
        ("start 1.5 12", None),  # being written
        ("start 1.5 12 11\n", Course(3, 1.5, 1.5, False, 12, 11)),
        ("start 1.5 12 11\nalive 1.75\nali", Course(3, 1.5, 1.75, False, 12, 11)),
        ("start 1.5 12 11\nalive 1.75\nend 2\n", Course(3, 1.5, 2.0, True, 12, 11)),
    ],
)
def test_marks_are_read_also_while_they_are_being_written(text: str, read: Course | None) -> None:
    assert course_of(3, text) == read


def drill_is_on(folder: Path) -> int:
    os.mkfifo(folder / "lifeline")
    return os.open(folder / "lifeline", os.O_RDWR | os.O_CLOEXEC)


def start(folder: Path) -> subprocess.Popen[bytes]:
    """A command that is under way."""
    argv = [sys.executable, "-I", "-S", marking.__file__, str(folder / "lifeline"), str(folder), "3"]
    process = subprocess.Popen(argv)
    marks = folder / f"3-{process.pid}"
    wait_until(lambda: marks.exists() and "alive" in marks.read_text(), 30, saying="it is alive")
    return process


def test_the_command_marks_its_life_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    drill_is_on(tmp_path)
    process = start(tmp_path)
    (tmp_path / f"3-{process.pid}.done").touch()
    assert process.wait(20) == 0
    read = course_of(3, (tmp_path / f"3-{process.pid}").read_text())
    assert read
    assert (read.ended, read.pid, read.parent, read.last > read.first) == (True, process.pid, os.getpid(), True)


def test_the_command_comes_to_no_end_when_its_drill_is_gone(tmp_path: Path) -> None:
    lifeline = drill_is_on(tmp_path)
    process = start(tmp_path)
    os.close(lifeline)
    assert process.wait(20) == 1
    assert "end" not in (tmp_path / f"3-{process.pid}").read_text()


# --- The verdict ------------------------------------------------------------------------------------------------------

CONTENTION = SCENARIOS[0]


@pytest.mark.parametrize(
    ("played", "said"),
    [
        (Round((course(0, 1),)), ()),
        (Round((DIED, course(2, 3)), 1.0), ()),
        (Round((course(0, 2), course(1, 3))), ("two at once (1)",)),
        (Round((course(0, 1), course(2, 3))), ("run again after its success (1)",)),
        (Round((DIED,)), ("nobody ran it to its end (1)",)),
        (Round((course(0, 1),), complaints=("the ledger says failed",)), ("the ledger says failed",)),
    ],
)
def test_a_promise_that_broke_is_named(played: Round, said: tuple[str, ...]) -> None:
    tally = Tally(CONTENTION, bare=(Round((course(0, 2), course(1, 3))),), guarded=(Round((course(0, 1),)), played))
    assert tally.broken == said
    assert is_kept([Tally(CONTENTION), tally]) == (not said)
    assert tally.duplicates_without_guard == 1


# --- What is asked for ------------------------------------------------------------------------------------------------


def order(rounds: int = 5, on_one_host: bool = False, names: tuple[str, ...] = ()) -> Order:
    return Order("drill", chosen(names), 3, rounds, on_one_host)


def test_scenarios_come_in_their_own_order_however_they_are_named() -> None:
    assert [scenario.name for scenario in chosen(["cut", "contention", "cut"])] == ["contention", "cut"]
    assert chosen([]) == SCENARIOS


def test_the_time_that_leases_need_is_not_to_be_had_for_less() -> None:
    assert order(rounds=10).takes == 2 * order(rounds=5).takes
    assert order(on_one_host=True).takes < order().takes
    assert order(names=("kill-holder",), rounds=1).takes >= timedelta(seconds=5)
    check_time(order(), order().takes)
    with pytest.raises(BadInput, match=r"10s is less than what the leases need: 7 scenarios of 5 rounds take about "):
        check_time(order(), timedelta(seconds=10))
    with pytest.raises(BadInput, match="1 scenario of 1 round take"):
        check_time(order(rounds=1, names=("cut",)), timedelta(seconds=1))


def test_only_what_a_drill_made_is_a_key_of_a_drill() -> None:
    key = new_key()
    assert is_drill_key(key)
    assert is_drill_key(f"{key}-12")
    others = (
        "drill",
        "drill-report",
        f"my-{key}",
        f"{key}-x",
        f"{key}-1-2",
        key.upper(),
        f"drill-{uuid.uuid1()}",
        f"{key}\n",
    )
    assert [other for other in others if is_drill_key(other)] == []
