"""What the laboratory's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.scene import small_file_system
from tests.rig.guard import Guard


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB; the test must be marked `needs("tmpfs")`."""
    with small_file_system(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def on_small_disk(bare_guard: Guard, small_disk: Path, tmp_path: Path) -> Guard:
    """cronguard with its state directory on it; TMPDIR, where results may be kept besides, is elsewhere."""
    return bare_guard.with_env(CRONGUARD_STATE_DIR=str(small_disk / "state"), TMPDIR=str(tmp_path))
