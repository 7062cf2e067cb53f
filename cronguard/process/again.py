"""This program once more, as another caller would start it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

TIME_BUDGET = 90.0  # seconds


def run_again(arguments: Sequence[str], environment: Mapping[str, str], within: float = TIME_BUDGET) -> tuple[str, str]:
    """What `cronguard …` prints, on stdout and on stderr, with this environment and no other.

    It starts in HOME, as cron would have it, by the interpreter that runs us; stdin is empty. Raises OSError,
    also when it takes too long.
    """
    import subprocess

    home = environment.get("HOME", "")
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "cronguard", *arguments], env=dict(environment), timeout=within, check=False,
            cwd=home if Path(home).is_dir() else "/", stdin=subprocess.DEVNULL, capture_output=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"it took longer than {within:g}s") from None
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
