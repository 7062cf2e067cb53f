"""What an SQLite ledger and its place are like, for `cronguard doctor`. Nothing is made, upgraded or repaired."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cronguard.domain.ground import Schema, SqliteGround
from cronguard.errors import CronguardError
from cronguard.stores import schema
from cronguard.stores.folder import look_at
from cronguard.stores.sqlite_file import file_system_of, refuse_network_file_system, translated
from cronguard.stores.statements import statements

LOOKED_THROUGH_WITHIN = 2.0  # seconds for SQLite's own check of the file, during which no write can be committed
STEPS_BETWEEN = 10_000  # of SQLite's machine, between two looks at the clock


class GroundInSqlite:
    """A ledger in a file, looked at once."""

    def __init__(self, path: str, answer_within: float) -> None:
        self._path = Path(path)
        self._answer_within = answer_within
        self._sql = statements("sqlite")

    def look(self, _zone: str | None, _instants: Sequence[datetime]) -> SqliteGround:
        folder, is_there = look_at(self._path.parent), os.path.lexists(self._path)
        network = self._network()
        if network or not is_there:
            return SqliteGround(
                str(self._path), folder, is_there, Schema(schema.VERSION, is_there=False), "", "", network
            )
        try:
            known = self._read()
        except CronguardError as error:
            known = {"schema": Schema(schema.VERSION), "failure": str(error)}
        return SqliteGround(str(self._path), folder, True, unwritable=self._unwritable(), **known)

    def _network(self) -> str:
        try:
            refuse_network_file_system(str(self._path))
        except CronguardError:
            return file_system_of(str(self._path), "/proc/self/mountinfo") or "unknown"
        return ""

    def _unwritable(self) -> str:
        files = (self._path, Path(f"{self._path}.lock"))
        return next((str(path) for path in files if path.exists() and not os.access(path, os.W_OK)), "")

    def _read(self) -> dict[str, Any]:
        with translated(str(self._path)):
            connection = self._opened()
            try:
                (journal_mode,) = connection.execute(self._sql["ground_journal"]).fetchone()
                return {
                    "schema": self._schema(connection),
                    "journal_mode": journal_mode,
                    "integrity": self._integrity(connection),
                }
            finally:
                connection.close()

    def _opened(self) -> sqlite3.Connection:
        """Never made by looking at it; read-only where it cannot be written."""
        mode = "rw" if os.access(self._path, os.W_OK) else "ro"
        place = f"file:{quote(os.fsencode(self._path))}?mode={mode}"
        return sqlite3.connect(place, uri=True, timeout=self._answer_within, isolation_level=None)

    def _schema(self, connection: sqlite3.Connection) -> Schema:
        (there,) = connection.execute(self._sql["has_schema"]).fetchone()
        found = connection.execute(self._sql["schema"]).fetchone() if there else None
        version, min_reader = found or (None, None)
        return Schema(schema.VERSION, version, min_reader, is_there=bool(there))

    def _integrity(self, connection: sqlite3.Connection) -> str | None:
        give_up_at = time.monotonic() + LOOKED_THROUGH_WITHIN
        connection.set_progress_handler(lambda: time.monotonic() > give_up_at, STEPS_BETWEEN)
        try:
            (said,) = connection.execute(self._sql["ground_integrity"]).fetchone()
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                return None
            raise
        return str(said).replace("\n", " ")
