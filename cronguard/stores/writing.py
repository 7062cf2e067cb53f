"""A change as a list of statements, in the order that both stores write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cronguard.domain.run import Change
from cronguard.stores import rows

# All that the runs of a key leave, whose job row goes last: while there is anything, the key can be found.
ERASES = ("erase_leases", "erase_steps", "erase_requests", "erase_attempts", "erase_skips", "erase_runs", "erase_job")


def writes_of(change: Change) -> Iterator[tuple[str, dict[str, Any]]]:
    """(statement name, parameters): leases go before runs, and are dropped before they are taken.

    An attempt that is opened takes whatever was asked for its run; one that is
    recalled took it long ago.
    """
    yield from (("drop_lease", rows.lease_row(lease)) for lease in change.dropped)
    yield from (("update_lease", rows.lease_row(lease)) for lease in change.updated)
    if change.job:
        yield "save_job", rows.job_row(change.job)
    yield from (("recall_attempt", rows.attempt_row(attempt)) for attempt in change.recalled)
    yield from (("close_attempt", rows.end_row(end)) for end in change.closed)
    yield from (("save_run", rows.run_row(run)) for run in change.runs)
    yield from (("request_recovery", rows.recovery_row(request)) for request in change.requested)
    yield from (("follow_recovery", rows.recovery_row(request)) for request in change.followed)
    yield from (("take_recovery", rows.attempt_row(attempt)) for attempt in change.opened)
    yield from (("open_attempt", rows.attempt_row(attempt)) for attempt in change.opened)
    yield from (("take_lease", rows.lease_row(lease)) for lease in change.taken)
    yield from (("forget_step", rows.step_row(step)) for step in change.forgotten)
    yield from (("save_step", rows.step_row(step)) for step in change.steps)
    yield from (("note_skip", rows.skip_row(skip)) for skip in change.skips)
    yield from (("note_intervention", rows.intervention_row(said)) for said in change.said)
