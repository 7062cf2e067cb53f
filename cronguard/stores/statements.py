"""Named statements from .sql files: one text a name, a dialect's names in one table, whichever file they stand in."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def statements(dialect: str) -> dict[str, str]:
    """The statements of `postgres` or `sqlite`, comments left out: of its own file, and of those called after it."""
    found: dict[str, str] = {}
    for path in sorted(Path(__file__).parent.glob(f"{dialect}*.sql")):
        _, *parts = _NAME.split(path.read_text(encoding="utf-8"))
        found |= {name: _without_comments(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return found


def migrations(dialect: str) -> list[tuple[int, str]]:
    """(version, script) of each step, oldest first; the number in the file's name is its version."""
    folder = Path(__file__).with_name("migrations")
    found = sorted(folder.glob(f"[0-9]*.{dialect}.sql"))
    return [(int(path.name[:4]), path.read_text(encoding="utf-8")) for path in found]


def _without_comments(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if not line.startswith("--")).strip()
