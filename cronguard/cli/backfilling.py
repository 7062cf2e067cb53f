"""What backfill does once it is called: run the range, or list it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cronguard.cli.opening import buried_by, opened
from cronguard.cli.tell import SayOnStderr, complain, remark
from cronguard.clock import boottime
from cronguard.domain.backfill import Planned, Range
from cronguard.domain.run import Exclusive
from cronguard.errors import BadInput
from cronguard.process.guardian import become_worker
from cronguard.services.backfill import Tally, backfill, planned
from cronguard.services.run import Fired, Means
from cronguard.settings import Settings, gather
from cronguard.settings.order import backfill_order_of
from cronguard.settings.parsers import naming, utf8, whole

MOST_JOBS = 64
NAMED_AT_MOST = 5  # periods that failed, in one line


def backfill_from(options: dict[str, Any], argv: Sequence[str]) -> int:
    started_at = boottime()
    settings, asked = gather(options), _range(options)
    order, jobs = backfill_order_of(settings, argv, started_at), _jobs(settings, options["jobs"])
    tell = SayHowFar(order.firing.key)
    if jobs > 1:
        from cronguard.cli.side_by_side import backfill_side_by_side  # noqa: PLC0415

        return backfill_side_by_side(settings, order, asked, jobs, options["keep_going"], tell)
    with working(settings) as means:
        return backfill(order, asked, options["keep_going"], means, tell)


@contextmanager
def working(settings: Settings) -> Iterator[Means]:
    """From here on in the worker, with everything that it needs."""
    worker = become_worker(buried_by(settings))
    with worker.dying_of_interruptions(), opened(settings, worker.signals) as it:
        tell = SayOnStderr(path=settings.environment.get("PATH", os.defpath))
        yield Means(it.ledger, it.spool, worker, tell)


def list_from(options: dict[str, Any], argv: Sequence[str]) -> int:
    """--dry-run."""
    from cronguard.render.printing import print_table  # noqa: PLC0415

    settings, asked = gather(options), _range(options)
    firing = backfill_order_of(settings, argv, boottime()).firing
    with opened(settings, create=False) as it:
        plans = planned(firing, asked, it.ledger)
    print_table(("PERIOD", "WOULD", "WHY"), [_row(one) for one in plans])
    return 0


def _row(one: Planned) -> tuple[str, str, str]:
    return one.label, "run" if one.is_run else "not run", one.why


def _range(options: dict[str, Any]) -> Range:
    if options["force"] and not options["rerun"]:
        raise BadInput("--force goes with --rerun; type both to run again what has succeeded")
    if options["only_missing"] and options["rerun"]:
        raise BadInput("--only-missing and --rerun contradict each other; leave one of them out")
    first, last = (_edge(option, options[name]) for option, name in (("--from", "first"), ("--to", "last")))
    return Range(first, last, options["only_missing"], options["rerun"], options["force"])


def _jobs(settings: Settings, text: str) -> int:
    with naming("--jobs"):
        jobs = whole(text, 1, MOST_JOBS)
    if jobs > 1 and settings["exclusive"] is not Exclusive.PERIOD:
        raise BadInput("--jobs: runs of one key would only wait for each other; add --exclusive period")
    return jobs


def _edge(option: str, text: str | None) -> str:
    if not text:
        raise BadInput(f"there is no {option}; type: cronguard backfill --key KEY --from A --to B -- CMD [ARG…]")
    return utf8(text)


class SayHowFar:
    """A line a period at a terminal; elsewhere only what a person has to know."""

    def __init__(self, key: str) -> None:
        self._key = key

    def begins(self, planned: Planned, number: int, of: int) -> None:
        remark(f"{self._key} {planned.label}: {number} of {of}")

    def ends(self, key: str, tally: Tally) -> None:
        if not tally.failed:
            remark(f"{key}: {tally.ran} run, {tally.passed_over} passed over")
            return
        names = ", ".join(f"{label} ({_how(fired)})" for label, fired in tally.failed[:NAMED_AT_MOST])
        more = ", …" * (len(tally.failed) > NAMED_AT_MOST)
        left = f"; {tally.left} are left: type the same again to go on" if tally.left else ""
        complain(f"{key}: {len(tally.failed)} of {tally.of} did not end well: {names}{more}{left}")


def _how(fired: Fired) -> str:
    return f"not run: {fired.skipped.replace('_', ' ')}" if fired.skipped else f"exit {fired.exit_code}"
