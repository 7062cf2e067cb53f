"""What a command says to the ledger while it runs: how far it is, and that it needs more time.

Both are said under the run's live token. What a stopped or overtaken command
still says changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from cronguard.domain.run import NOT_AT_ALL, Change, Lease, Progress, Run, Sight, State
from cronguard.errors import BadInput

LONGEST_NOTE = 1000  # characters; the schema repeats it
# A holder asks a last time one second before its complete-by whether that has moved: what comes later, comes too late.
LAST_CALL = timedelta(seconds=2)

_PROGRESS = re.compile(r"(?P<done>\d{1,15})(/(?P<whole>\d{1,15}))?|(?P<percent>\d{1,3}(\.\d{1,3})?)%", re.ASCII)
_FORMS = "write it like 3/10, 40% or 3"
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")  # control characters, bytes that are no text, the ends of lines


@dataclass(frozen=True, slots=True)
class Inside:
    """The run that a command is inside of, as its environment tells it."""

    key: str
    period: str
    token: int
    holder: str

    def lease(self, sight: Sight) -> Lease | None:
        """Its lease, if it is live: never by the token alone."""
        run = sight.run(self.period)
        if run is None or run.state is not State.RUNNING or run.token != self.token:
            return None
        mine = (lease for lease in sight.leases if lease.token == self.token and lease.holder.id == self.holder)
        return next(mine, None)


def parse_progress(text: str) -> str:
    """`3/10`, `40%` or `3`, as it is written; raises BadInput."""
    found = _PROGRESS.fullmatch(text)
    if not found:
        raise BadInput(f"{text!a} is no progress; {_FORMS}")
    if float(found["percent"] or 0) > 100 or int(found["done"] or 0) > int(found["whole"] or found["done"] or 0):
        raise BadInput(f"{text!a} is more than the whole; {_FORMS}")
    return text


def parse_note(text: str, what: str = "note") -> str:
    """One line of anything; raises BadInput."""
    from unicodedata import category  # noqa: PLC0415  every run loads this module, and hardly any says a note

    if not text:
        raise BadInput("it is empty; write a line, or leave it out")
    if len(text) > LONGEST_NOTE:
        raise BadInput(f"the {what} is longer than {LONGEST_NOTE} characters; shorten it")
    if any(category(character) in _UNPRINTABLE for character in text):
        raise BadInput(f"the {what} has control characters; write one line of plain text")
    return text


def progress(inside: Inside, text: str | None, note: str | None, sight: Sight) -> tuple[bool, Change]:
    """Record how far the command is; what it leaves out stays as it said it last. Whether its run is live."""
    lease = inside.lease(sight)
    if lease is None:
        return False, Change()
    before = lease.progress or Progress(sight.now)
    said = Progress(sight.now, text or before.text, note or before.note)
    return True, Change(updated=(replace(lease, progress=said),))


class Extended(StrEnum):
    """What became of the wish for more time."""

    GRANTED = "granted"
    NEVER_ENDS = "never_ends"
    NOT_ALLOWED = "not_allowed"
    SPENT = "spent"
    TOO_LATE = "too_late"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Extension:
    """The answer to it, with the run's complete-by as it is now, and how far it has been moved by this call."""

    answer: Extended
    complete_by: datetime | None = None
    by: timedelta = NOT_AT_ALL
    allowed: timedelta = NOT_AT_ALL


def extend(inside: Inside, by: timedelta, call: str, sight: Sight) -> tuple[Extension, Change]:
    """Move the run's complete-by, as far as it may be moved in all; asked again by the same call, once."""
    lease, run = inside.lease(sight), sight.run(inside.period)
    if lease is None or run is None:
        return Extension(Extended.LOST), Change()
    if run.complete_by is None:
        return Extension(Extended.NEVER_ENDS), Change()
    if lease.extension_id == call:
        return Extension(Extended.GRANTED, run.complete_by, by, lease.extend_max), Change()
    left = lease.extend_max - lease.extended_for
    refused = _refused(lease, left, run.complete_by - sight.now)
    if refused:
        return Extension(refused, run.complete_by, allowed=lease.extend_max), Change()
    return _moved(run, lease, min(by, left), call)


def _refused(lease: Lease, left: timedelta, remaining: timedelta) -> Extended | None:
    if not lease.extend_max:
        return Extended.NOT_ALLOWED
    if remaining < LAST_CALL:
        return Extended.TOO_LATE
    return None if left > NOT_AT_ALL else Extended.SPENT


def _moved(run: Run, lease: Lease, by: timedelta, call: str) -> tuple[Extension, Change]:
    complete_by = (run.complete_by + by) if run.complete_by else None
    extended_for = lease.extended_for + by
    run = replace(run, complete_by=complete_by, extended_for=extended_for)
    lease = replace(lease, complete_by=complete_by, extended_for=extended_for, extension_id=call)
    return Extension(Extended.GRANTED, complete_by, by, lease.extend_max), Change(runs=(run,), updated=(lease,))
