"""What beat and extend do once they are called: one question to the ledger, and a line where it says no."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from cronguard.cli.opening import opened
from cronguard.cli.tell import complain, remark, warn
from cronguard.domain.progress import Extended, Extension, Inside, parse_note, parse_progress
from cronguard.domain.text import format_duration, format_instant
from cronguard.errors import CRONGUARD_FAILED, LEASE_LOST, OUT_OF_TIME, SUCCESS
from cronguard.settings import gather
from cronguard.settings.inside import inside_of
from cronguard.settings.parsers import duration, naming, utf8


def beat(options: dict[str, Any], progress: str | None, note: str | None) -> int:
    settings = gather(options)
    inside = inside_of(settings, "beat")
    text, line = _read("--progress", progress, parse_progress), _read("--note", note, parse_note)
    with opened(settings, create=False) as it:
        is_live = it.ledger.progress(inside, text, line)
    return SUCCESS if is_live else _lost(inside, it.store.name)


def extend(options: dict[str, Any], by: str) -> int:
    settings = gather(options)
    inside, asked = inside_of(settings, "extend"), duration(by)
    with opened(settings, create=False) as it:
        extension = it.ledger.extend(inside, asked)
    if extension.answer is Extended.LOST:
        return _lost(inside, it.store.name)
    return _tell(f"{inside.key} {inside.period}", extension, asked)


def _read(option: str, text: str | None, parse: Callable[[str], str]) -> str | None:
    with naming(option):
        return None if text is None else parse(utf8(text))


def _lost(inside: Inside, ledger: str) -> int:
    what = f"{inside.key} {inside.period}"
    complain(f"{what}: the ledger at {ledger} has no live run under token {inside.token}: it is over, or lost")
    return LEASE_LOST


def _tell(what: str, extension: Extension, asked: timedelta) -> int:
    """Of what it did only at a terminal; of what it did not do, always."""
    end = format_instant(extension.complete_by.replace(microsecond=0)) if extension.complete_by else "never"
    allowed = format_duration(extension.allowed)
    match extension.answer:
        case Extended.NOT_ALLOWED:
            complain(f"{what}: it may not be extended; give cronguard run --extend-max to allow it")
            return CRONGUARD_FAILED
        case Extended.SPENT:
            complain(f"{what}: it has been extended by all that --extend-max allows ({allowed}), to {end}")
            return CRONGUARD_FAILED
        case Extended.TOO_LATE:
            complain(f"{what}: too late to extend it: its complete-by is {end}")
            return OUT_OF_TIME
        case Extended.NEVER_ENDS:
            complain(f"{what}: it has no complete-by; there is nothing to extend")
        case Extended.GRANTED if extension.by < asked:
            by = format_duration(extension.by)
            warn(f"{what}: extended by {by} only, which is all that --extend-max ({allowed}) leaves, to {end}")
        case _:
            remark(f"{what}: to be over by {end}")
    return SUCCESS
