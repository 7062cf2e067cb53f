"""A checkup: a paragraph for each finding, by subject, the worst of each first; JSON for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from cronguard.domain.diagnosis import Diagnosis, Level, document_of, is_sound
from cronguard.render.printing import painted, print_json, print_text, shown, terminal_width

WIDTH = 80  # columns, where nobody says how many there are
TITLES = {
    "settings": "SETTINGS", "ledger": "LEDGER", "clock": "CLOCK", "zone": "TIME ZONE", "state": "STATE DIRECTORY",
    "process": "PROCESSES", "output": "OUTPUT", "cron": "UNDER CRON",
}  # fmt: skip
STYLES = {Level.PROBLEM: "red", Level.WARNING: "yellow", Level.NOTE: "cyan", Level.OK: ""}
_MARGIN = "  "
_WORD = max(map(len, Level))
_INDENT = " " * (len(_MARGIN) + _WORD + len(_MARGIN))


def show_checkup(found: Sequence[Diagnosis], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {"schema": "cronguard.doctor/1", "ok": is_sound(found), "findings": [document_of(one) for one in found]}
        )
        return
    width = terminal_width() or WIDTH
    lines = [(shown(line), style) for line, style in _lines(found, width)]
    print_text(painted(lines) if terminal_width() else "".join(f"{line}\n" for line, _ in lines))


def _lines(found: Sequence[Diagnosis], width: int) -> Iterator[tuple[str, str]]:
    """Each with its style."""
    for subject, group in groupby(found, key=lambda one: one.subject):
        yield TITLES[subject], "bold"
        for one in group:
            yield from ((line, STYLES[one.level]) for line in _paragraph(_head(one), one.what, width))
            yield from ((line, "") for line in _paragraph(f"{_INDENT}why:  ", one.why, width))
            yield from ((line, "") for line in _paragraph(f"{_INDENT}type: ", one.to_type, width))
        yield "", ""
    yield _summary(found), ""


def _head(one: Diagnosis) -> str:
    word = str(one.level).upper() if one.level is Level.PROBLEM else str(one.level)
    return f"{_MARGIN}{word.ljust(_WORD)}{_MARGIN}"


def _paragraph(head: str, text: str, width: int) -> list[str]:
    """Never cut within a word: a path or an option is there to be copied."""
    return textwrap.wrap(
        text, max(width, 2 * len(_INDENT)), initial_indent=head, subsequent_indent=" " * len(head),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _summary(found: Sequence[Diagnosis]) -> str:
    counts = {level: sum(one.level is level for one in found) for level in reversed(Level)}
    said = [f"{count} {_plural(level, count)}" for level, count in counts.items() if count or level is Level.PROBLEM]
    return ", ".join(said)


def _plural(level: Level, count: int) -> str:
    return str(level) if count == 1 or level is Level.OK else f"{level}s"
