"""Named statements from a .sql file: one text a name, each file's names in one table."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def statements(dialect: str) -> dict[str, str]:
    """The statements of `postgres` or `sqlite`, comments left out."""
    text = Path(__file__).with_name(f"{dialect}.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    return {name: _without_comments(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def migrations(dialect: str) -> list[tuple[int, str]]:
    """(version, script) of each step, oldest first; the number in the file's name is its version."""
    folder = Path(__file__).with_name("migrations")
    found = sorted(folder.glob(f"[0-9]*.{dialect}.sql"))
    return [(int(path.name[:4]), path.read_text(encoding="utf-8")) for path in found]


def _without_comments(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if not line.startswith("--")).strip()
