"""What watch does once it is called: one run, followed, a line for whatever is new of it."""

from __future__ import annotations

from typing import Any

from cronguard.cli.opening import opened
from cronguard.domain.following import News, What
from cronguard.domain.run import Run, State, parse_key, parse_name
from cronguard.domain.said import because
from cronguard.domain.text import format_instant
from cronguard.domain.transcript import on_one_line
from cronguard.errors import SUCCESS, BadInput
from cronguard.render.printing import length_of, print_text
from cronguard.services.reading import record_to_follow
from cronguard.services.watching import exit_code_of_end, until_it_ends
from cronguard.settings import gather
from cronguard.settings.parsers import utf8


def watch(options: dict[str, Any], key: str, period: str | None, *, exit_status: bool) -> int:
    key, period = parse_key(utf8(key)), parse_name(utf8(period), "period") if period is not None else None
    with opened(gather(options), create=False) as it:
        first = record_to_follow(it.ledger, it.spool, key, period)
        if first is None or first.run is None:
            which = f"{key} {period}" if period else key
            raise BadInput(f"the ledger at {it.store.name} has no run of {which}; see: cronguard history")
        run = first.run
        for one in until_it_ends(it.ledger, first, it.signals.pause):
            said = f"{format_instant(one.at.replace(microsecond=0))}  {run.key} {run.period}  {_words(one)}"
            print_text(f"{on_one_line(said)}\n")
            run = one.run
    return exit_code_of_end(run) if exit_status else SUCCESS


def _words(one: News) -> str:
    run = one.run
    match one.what:
        case What.PROGRESS if run.progress:
            return f"progress {': '.join(filter(None, (run.progress.text, run.progress.note))) or 'it gets on'}"
        case What.EXTENDED if run.complete_by:
            return f"extended, to be over by {format_instant(run.complete_by.replace(microsecond=0))}"
        case What.SAID if one.said:
            return f"{one.said.verb} {because(one.said.said_by, one.said.reason)}"
        case _:
            return _state(one, run)


def _state(one: News, run: Run) -> str:
    if one.stale:
        return "stale: its lease is over, and nobody has recovered it yet"
    state = str(run.state).replace("_", " ")
    if run.state is State.RUNNING:
        where = f" on {run.holder.host} (pid {run.holder.pid})" if run.holder else ""
        return f"{state}, attempt {run.attempt}{where}"
    return state + _how_it_ended(run)


def _how_it_ended(run: Run) -> str:
    how = f"signal {run.signal}" if run.signal else f"exit {run.exit_code}" if run.exit_code is not None else ""
    if not (run.started_at and run.finished_at):
        return f" ({how})" if how else ""
    return f" after {length_of(run.finished_at - run.started_at)}" + (f" ({how})" if how else "")
