"""The metrics file, for the textfile collector of Prometheus: whole or not there, and for everybody to read."""

from __future__ import annotations

import os
from pathlib import Path

from cronguard.domain.metrics import Metrics
from cronguard.errors import CronguardError
from cronguard.services.metrics import metrics_of

MODE = 0o644


def write_metrics(name: str, metrics: Metrics | None) -> None:
    """Write beside it, and rename; without any, only that the ledger could not be reached."""
    path = Path(name)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")  # no collector reads what does not end in .prom
    try:
        unfinished.write_text(metrics_of(metrics), encoding="utf-8")
        unfinished.chmod(MODE)
        unfinished.rename(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise CronguardError(f"the metrics file {name} cannot be written: {error.strerror}") from None
