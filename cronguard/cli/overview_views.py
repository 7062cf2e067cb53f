"""What status, keys and stats do once they are called: one service call, one view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cronguard.cli.opening import opened
from cronguard.domain.overview import Standing
from cronguard.domain.run import parse_key
from cronguard.render.figures import show_stats
from cronguard.render.overview import show_keys, status_document, status_in_columns, status_on_terminal, unknown_note
from cronguard.render.printing import in_columns, print_json, print_text, terminal_width, widths_of
from cronguard.render.screen import Screen
from cronguard.services.reading import figures_of, keys_of, standing_of
from cronguard.services.watching import for_ever
from cronguard.settings import Settings, gather
from cronguard.settings.parsers import utf8

WATCHED_EVERY = 2.0  # seconds


def status(options: dict[str, Any], patterns: Sequence[str], *, as_json: bool) -> int:
    which = [parse_key(utf8(pattern)) for pattern in patterns]
    with opened(gather(options), create=False) as it:
        standing = standing_of(it.ledger, it.spool, which)
    if as_json:
        print_json(status_document(standing))
    elif width := terminal_width():
        print_text(status_on_terminal(standing, width))
    else:
        print_text(in_columns(status_in_columns(standing.lines)) + unknown_note(standing))
    return 0


def watch_status(options: dict[str, Any], patterns: Sequence[str], *, as_json: bool) -> int:
    """Until it is interrupted; it writes only when there is something new."""
    which, settings = [parse_key(utf8(pattern)) for pattern in patterns], gather(options)
    show = _shows_documents() if as_json else _shows_tables(settings) if terminal_width() else _shows_lines()
    with opened(settings, create=False) as it:
        for standing in for_ever(lambda: standing_of(it.ledger, it.spool, which), it.signals.pause, WATCHED_EVERY):
            show(standing)
    return 0


def keys(options: dict[str, Any], *, as_json: bool) -> int:
    with opened(gather(options), create=False) as it:
        show_keys(keys_of(it.ledger, it.spool), as_json=as_json)
    return 0


def stats(options: dict[str, Any], key: str | None, *, as_json: bool) -> int:
    which = [parse_key(utf8(key))] if key is not None else []
    with opened(gather(options), create=False) as it:
        found = figures_of(it.ledger, it.spool, which)
    show_stats(found, in_full=key is not None and len(found) == 1, as_json=as_json)
    return 0


# --------------------------------------------------------------------------- ways of watching

_Show = Callable[[Standing], None]


def _shows_tables(settings: Settings) -> _Show:
    """At a terminal: one table, in its place."""
    screen = Screen(can_move=settings.environment.get("TERM", "dumb") != "dumb")
    return lambda standing: screen.show(status_on_terminal(standing, terminal_width()))


def _shows_lines() -> _Show:
    """Elsewhere: all keys once, and then a line for each that has changed."""
    known: list[list[str]] = []

    def show(standing: Standing) -> None:
        rows, note = status_in_columns(standing.lines), unknown_note(standing)
        new = [row for row in rows if row not in known]
        text = (in_columns(new, widths_of(rows)) if new else "") + (note if [note] not in known else "")
        known[:] = [*rows, [note]]
        if text:
            print_text(text)

    return show


def _shows_documents() -> _Show:
    """A document a line, whenever something has changed."""
    known: list[dict[str, Any]] = []

    def show(standing: Standing) -> None:
        document = status_document(standing)
        if document not in known:
            print_json(document, on_one_line=True)
        known[:] = [document]

    return show
