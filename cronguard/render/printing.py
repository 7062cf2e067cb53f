"""Ways of printing: a table on a terminal wide enough for it, plain columns elsewhere, JSON.

The one module that loads rich, and only to draw a table or a bar on a terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import zip_longest
from typing import Any

from cronguard.domain.text import format_duration
from cronguard.domain.transcript import on_one_line

GAP = "  "
NOTHING = "-"


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table where there is a terminal wide enough for it; else plain columns, since a cell cut in two is no use."""
    lines = [[shown(cell) for cell in row] for row in (columns, *rows)]
    width = terminal_width()
    fits = sum(widths_of(lines)) + len(GAP) * (len(columns) - 1) <= width
    print_text(drawn(lines[0], lines[1:], width) if fits else in_columns(lines))


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    print_text(in_columns([[shown(cell) for cell in pair] for pair in pairs]))


def print_json(document: dict[str, Any], *, on_one_line: bool = False) -> None:
    print_text(json.dumps(document, indent=None if on_one_line else 2, ensure_ascii=True) + "\n")


def print_text(text: str) -> None:
    """A closed stdout gets nothing."""
    if sys.stdout is None:
        return
    sys.stdout.write(escaped(text))
    sys.stdout.flush()


def length_of(length: timedelta | None) -> str:
    """As long as it is worth saying: tenths of a second only where there are few of them."""
    if length is None:
        return NOTHING
    seconds = length.total_seconds()
    return f"{seconds:.1f}s" if seconds < 10 else format_duration(timedelta(seconds=round(seconds)))


def shown(text: str) -> str:
    """A cell, whoever wrote what is in it: on one line, and nothing that a terminal would act on."""
    return escaped(on_one_line(text))


def escaped(text: str) -> str:
    """What stdout's encoding does not know is written as an escape."""
    encoding = (sys.stdout and sys.stdout.encoding) or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def in_columns(rows: Sequence[Sequence[str]], widths: Sequence[int] = ()) -> str:
    """One record a line, aligned, never cut off."""
    widths = widths or widths_of(rows)
    lines = (GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def widths_of(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def drawn(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, styles: Sequence[str] = ()) -> str:
    """For a terminal so wide; `styles`, one a row, only where it shows colours and nobody has forbidden them."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")  # letters of double width may yet need it
    for row, style in zip_longest(rows, styles, fillvalue=""):
        table.add_row(*row, style=str(style))
    console = Console(markup=False, highlight=False, emoji=False, width=width)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def painted(lines: Sequence[tuple[str, str]]) -> str:
    """Lines as they are, each in its style, where the terminal shows colours and nobody has forbidden them."""
    from rich.console import Console
    from rich.text import Text

    console = Console(markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        for line, style in lines:
            console.print(Text(line, style), soft_wrap=True)
    return captured.get()


def terminal_width() -> int:
    """In columns; 0 where there is no terminal, or it does not say."""
    return terminal_size()[0]


def terminal_size() -> tuple[int, int]:
    """Columns and lines; 0 where there is no terminal, or it does not say."""
    try:
        return os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return 0, 0


# --------------------------------------------------------------------------- how far a long command is


@contextmanager
def meter(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Told how many more are done; a bar on stderr where a person waits, and nothing that it could get between."""
    if not (_is_terminal(sys.stderr) and not _is_terminal(sys.stdout)):
        yield lambda _more: None
        return
    from rich import progress
    from rich.console import Console

    columns = (what, progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn())
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()
