"""The witness: what commands have written down of themselves, and what that proves. It believes nobody else.

A command marks its start, that it is alive, many times a second, and its end.
All of them read one clock. Who was killed or frozen makes no more marks: that,
and no word of the ledger's or of a guard's, is what "it had stopped" means here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

START, ALIVE, END = "start", "alive", "end"


@dataclass(frozen=True, slots=True)
class Course:
    """One command's life by its own marks, in seconds of the clock that all share."""

    replica: int
    first: float
    last: float
    ended: bool = False  # it came to its own end
    pid: int = 0
    parent: int = 0


def course_of(replica: int, text: str) -> Course | None:
    """What one command's marks tell; None before its first. A last line that is still being written is left out.

    `start SECONDS PID PARENT`, then `alive SECONDS`, then perhaps `end SECONDS`.
    """
    marks = [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]
    if not marks or marks[0][0] != START:
        return None
    _, first, pid, parent = marks[0]
    ended = marks[-1][0] == END
    return Course(replica, float(first), float(marks[-1][1]), ended, int(pid), int(parent))


def duplicates(courses: Sequence[Course]) -> int:
    """How many of these, all of one period, should never have started: another was alive, or had done the work.

    Who starts after another has died makes up for it, and is none.
    """
    in_order = sorted(courses, key=lambda course: course.first)
    return sum(
        any(_makes_needless(earlier, course) for earlier in in_order[:number]) for number, course in enumerate(in_order)
    )


def overlaps(courses: Sequence[Course]) -> int:
    """How many of these started while an earlier one was still to make a mark."""
    in_order = sorted(courses, key=lambda course: course.first)
    return sum(
        any(earlier.last >= course.first for earlier in in_order[:number]) for number, course in enumerate(in_order)
    )


def is_lost(courses: Sequence[Course]) -> bool:
    """Whether nobody has come to the end of the work."""
    return not any(course.ended for course in courses)


def successor(courses: Sequence[Course], of: Course) -> Course | None:
    """The first one to start after another had."""
    later = [course for course in courses if course.first > of.first and course.pid != of.pid]
    return min(later, key=lambda course: course.first, default=None)


def _makes_needless(earlier: Course, course: Course) -> bool:
    return earlier.ended or earlier.last >= course.first
