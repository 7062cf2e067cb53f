"""Whether the kernel killed somebody in our cgroup for want of memory: a shell may swallow it and exit 0."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_V1, _V2 = "memory.oom_control", "memory.events"  # cgroups(7): where each version counts, in a line `oom_kill N`


def kills(root: Path = Path("/")) -> int:
    """How many so far, in the cgroup that we are in; 0 where the system does not tell."""
    for place in _counters(root):
        with suppress(OSError):
            counted = dict(line.split(maxsplit=1) for line in place.read_text().splitlines())
            return int(counted.get("oom_kill", 0))
    return 0


def counter(root: Path = Path("/")) -> str | None:
    """The file that `kills` reads; None where the system does not tell."""
    return next((str(place) for place in _counters(root) if os.access(place, os.R_OK)), None)


def _counters(root: Path) -> list[Path]:
    """From /proc/self/cgroup; inside a container its own path is often the root of what is mounted there."""
    mounted = root / "sys/fs/cgroup"
    places: list[Path] = []
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                places += [mounted / "memory" / path.lstrip("/") / _V1, mounted / "memory" / _V1]
            elif not controllers:
                places += [mounted / path.lstrip("/") / _V2, mounted / _V2]
    return [place for place in places if place.is_file()]
