"""A step: a named part of a run, passed over once it has succeeded. The nouns; the decisions are in `stepping`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronguard.domain.run import Captured


class StepState(StrEnum):
    """Where a step stands. Running under a token that is not its run's any more: it was cut off, and may run again."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Step:
    """The ledger's record of one step of one run; it shows its latest try."""

    key: str
    period: str
    name: str
    ordinal: int
    state: StepState = StepState.PENDING
    token: int = 0  # of the run's attempt under which it last started
    attempt: int = 0  # how often it has been started
    once: bool = False
    start_id: str | None = None  # of the call that last started it, which may ask again
    command_hash: str | None = None  # of the command that it last started with; None: a person has settled it since
    started_at: datetime | None = None
    finished_at: datetime | None = None
    complete_by: datetime | None = None  # None: when its run must be over
    exit_code: int | None = None
    signal: int | None = None
    note: str | None = None
    captured: Captured | None = None  # None in a change: what is remembered stays


@dataclass(frozen=True, slots=True)
class StepList:
    """The steps that a job has by its configuration, in order; the hash is of their names and commands."""

    names: tuple[str, ...]
    hash: str


def list_of(steps: Sequence[tuple[str, Sequence[str]]]) -> StepList:
    """From (name, command) of each."""
    words = (word for name, command in steps for word in (name, str(len(command)), *command))
    return StepList(tuple(name for name, _ in steps), hash_of(words))


def hash_of(words: Iterable[str]) -> str:
    """Of a command, or of many: the ledger remembers which it was, and not what may be secret in it."""
    from hashlib import sha256  # noqa: PLC0415  most jobs have no steps

    return sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()


def unfinished(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Those that keep a run from having succeeded."""
    return tuple(step for step in steps if step.state is not StepState.SUCCEEDED)


def step_at(steps: Iterable[Step]) -> Step | None:
    """Where a run stands, or stood when it died: the step that was started last and has not ended."""
    running = (step for step in steps if step.state is StepState.RUNNING)
    return max(running, key=lambda step: (step.token, step.ordinal), default=None)


def left_at(steps: Sequence[Step]) -> Step | None:
    """Where a run was left that did not end well: the step it stood at, else the last that failed or is in doubt."""
    bad = (step for step in steps if step.state in (StepState.FAILED, StepState.UNKNOWN))
    return step_at(steps) or max(bad, key=lambda step: (step.token, step.ordinal), default=None)
