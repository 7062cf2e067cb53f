"""Rows 4 and 5 of the event table: what the kernel counts, in both versions of its cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from cronguard.process.oom import kills

V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
V2 = "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 0\n"


def a_system(root: Path, membership: str, counters: dict[str, str]) -> Path:
    for name, text in {"proc/self/cgroup": membership, **counters}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("membership", "counters", "expected"),
    [
        ("0::/system.slice/cron.service\n", {"sys/fs/cgroup/system.slice/cron.service/memory.events": V2}, 3),
        ("0::/\n", {"sys/fs/cgroup/memory.events": V2}, 3),
        ("0::/kubepods/pod1\n", {"sys/fs/cgroup/memory.events": V2}, 3),
        ("8:pids:/\n4:memory:/jobs\n0::/\n", {"sys/fs/cgroup/memory/jobs/memory.oom_control": V1}, 3),
        ("4:cpu,memory:/docker/1\n", {"sys/fs/cgroup/memory/memory.oom_control": V1}, 3),
        ("0::/\n", {}, 0),
        ("0::/\n", {"sys/fs/cgroup/memory.events": "oom 1\n"}, 0),
        ("nonsense\n", {"sys/fs/cgroup/memory.events": V2}, 0),
    ],
)
def test_kills_are_counted_where_this_process_belongs(
    tmp_path: Path, membership: str, counters: dict[str, str], expected: int
) -> None:
    assert kills(a_system(tmp_path, membership, counters)) == expected


def test_system_without_cgroups_counts_none(tmp_path: Path) -> None:
    assert kills(tmp_path) == 0
