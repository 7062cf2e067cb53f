"""Looking at processes through /proc, and ending them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path

from tests.rig.waiting import wait_until


def state(pid: int) -> str:
    """The kernel's letter for what the process does (R, S, D, T, Z, …), or '' when there is none."""
    return (_stat(pid) or [""])[0]


def alive(pid: int) -> bool:
    """Whether the process exists and is not merely waiting to be reaped."""
    return state(pid) not in ("", "Z", "X")


def stopped(pid: int) -> bool:
    """Whether the process is stopped by a signal, or as still as that: a shell whose new child was stopped before its
    exec waits for that child inside the kernel (vfork(2)), and hears no signal but SIGKILL there."""
    if state(pid) == "D":
        return any(state(child) == "T" for child in children(pid))
    return state(pid) == "T"


def children(pid: int) -> list[int]:
    """The direct children, zombies included."""
    return [one for one in _everyone() if (stat := _stat(one)) and int(stat[1]) == pid]


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, parents first; what was adopted away is not found."""
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def freeze_tree(pid: int) -> list[int]:
    """SIGSTOP the process and all its descendants, parents first so that nothing forks away; who they are."""
    tree: list[int] = []
    while new := [one for one in (pid, *descendants(pid)) if one not in tree]:
        _signal(new, signal.SIGSTOP)
        tree += new
    return tree


def kill_tree(pid: int) -> None:
    """SIGKILL the process and all its descendants, and wait until none is alive."""
    tree = freeze_tree(pid)
    _signal(tree, signal.SIGKILL)
    wait_until(lambda: not any(map(alive, tree)), saying=f"the tree of {pid} is dead")


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _everyone() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _stat(pid: int) -> list[str] | None:
    # The name stands in parentheses and may hold any byte, even ')': the fields begin after the last one.
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
