"""What a checkup says: one thing that was looked at, how it stands, why that matters, and what to type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How a thing stands, worst last."""

    OK = "ok"
    NOTE = "note"  # as it should be known, and no fault
    WARNING = "warning"  # it works, and less well than it could
    PROBLEM = "problem"  # a run would not start, or a promise would not hold

    @property
    def rank(self) -> int:
        return list(Level).index(self)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One check; `check` is its subject and its name, with a dot between."""

    check: str
    level: Level
    what: str
    why: str = ""
    to_type: str = ""

    @property
    def subject(self) -> str:
        return self.check.partition(".")[0]


SUBJECTS = ("settings", "ledger", "clock", "zone", "state", "process", "output", "cron")


def ok(check: str, what: str) -> Diagnosis:
    return Diagnosis(check, Level.OK, what)


def note(check: str, what: str, why: str, to_type: str = "") -> Diagnosis:
    return Diagnosis(check, Level.NOTE, what, why, to_type)


def warning(check: str, what: str, why: str, to_type: str) -> Diagnosis:
    return Diagnosis(check, Level.WARNING, what, why, to_type)


def problem(check: str, what: str, why: str, to_type: str) -> Diagnosis:
    return Diagnosis(check, Level.PROBLEM, what, why, to_type)


def told_apart(message: str) -> tuple[str, str]:
    """One of our own messages, as what is wrong and what to type instead."""
    what, _, to_type = message.partition("; ")
    return what, to_type


def in_order(found: Iterable[Diagnosis]) -> list[Diagnosis]:
    """By subject, and in each the worst first."""
    return sorted(found, key=lambda one: (SUBJECTS.index(one.subject), -one.level.rank))


def is_sound(found: Iterable[Diagnosis]) -> bool:
    """Whether there is no problem among them."""
    return all(one.level is not Level.PROBLEM for one in found)


def document_of(one: Diagnosis) -> dict[str, Any]:
    """As programs read it."""
    return {"check": one.check, "level": str(one.level), "what": one.what, "why": one.why, "type": one.to_type}


def diagnosis_in(document: dict[str, Any]) -> Diagnosis:
    """What `document_of` has made of it; raises KeyError or ValueError for anything else."""
    words = (document[name] for name in ("what", "why", "type"))
    return Diagnosis(document["check"], Level(document["level"]), *words)
