"""The command of a job that is a list of steps: python -m cronguard.cli.step_sequence LIST. Nobody types it."""

from __future__ import annotations

import os
import sys

from cronguard.cli import guarded


def _sequence() -> int:
    from cronguard.cli.step_views import step_sequence  # noqa: PLC0415

    return step_sequence(sys.argv[1])


if __name__ == "__main__":
    os._exit(guarded(_sequence, []))
