"""What the benchmarks print: tables, percentiles, and the machine they ran on."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Markdown; the first column to the left, figures to the right."""
    widths = [max(len(line[column]) for line in (titles, *rows)) for column in range(len(titles))]
    print(_line(titles, widths))
    print("|" + "|".join(f"-{'-' * width}{':' if n else '-'}" for n, width in enumerate(widths)) + "|")
    for row in rows:
        print(_line(row, widths))
    print(flush=True)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = (
        cell.rjust(width) if n else cell.ljust(width) for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"| {' | '.join(aligned)} |"


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(percent) // 100) - 1)]


def machine(server_version: str) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("cronguard", "typer", "psycopg"))
    return (
        f"{_cpu()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {platform.system()}, "
        f"Python {platform.python_version()}, {packages}, PostgreSQL {server_version}, SQLite {sqlite3.sqlite_version}"
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
