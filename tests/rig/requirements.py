"""What tests need of the machine: left out by name where it may be absent, an error where it may not, never a skip.

`@pytest.mark.needs("cron", "namespaces")`: where one of them is absent, the test is deselected and the last lines of
the summary name it and say why. Where everything can be had (under CI=true, and as root on Debian, where `check`
installs it) an absence is an error of that test instead. And a test that skips itself has failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.rig import WISHES

SEARCH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def _namespaces() -> bool:
    # Being root is not enough: a container may forbid it, so it is tried.
    command = ["unshare", "--mount", "--pid", "--uts", "--fork", "true"]
    return _works(*command)


def _works(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _program(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name, path=SEARCH) is not None


def _tmpfs() -> bool:
    return _works("unshare", "--mount", "mount", "-t", "tmpfs", "cronguard-test", "/mnt")


NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "namespaces": (_namespaces, "`unshare --mount --pid --uts` is refused: it takes root"),
    "tmpfs": (_tmpfs, "a tmpfs cannot be mounted: it takes root"),
    **{
        name: (_program(name), f"there is no program {name}: it takes Debian's package")
        for name in ("cron", "pgbouncer", "mandoc", "zsh", "fish", "ip", "psql")
    },
}


@cache
def missing(need: str) -> str:
    """Why this need is not met, or '' when it is."""
    if need not in NEEDS:
        raise pytest.UsageError(f"needs({need!r}): only {', '.join(sorted(NEEDS))} are known")
    probe, why = NEEDS[need]
    if need in WISHES.get("CRONGUARD_TEST_ABSENT", "").split():
        return WISHES.get("CRONGUARD_TEST_ABSENT_WHY", "CRONGUARD_TEST_ABSENT says so")
    return "" if probe() else why


@cache
def everything_can_be_had() -> bool:
    """Whether an absence is an error here."""
    return os.environ.get("CI") == "true" or (os.geteuid() == 0 and Path("/etc/debian_version").exists())


class Requirements:
    """The plugin: sorts out tests by what they need, and lets none skip."""

    def __init__(self, config: pytest.Config) -> None:
        self.left_out: list[str] = []
        config.addinivalue_line("markers", "needs(*names): what the test needs of the machine, see tests/rig")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out, by name, what cannot run here."""
        out = [item for item in items if _unmet(item)]
        if everything_can_be_had():
            return  # then they are errors, one by one
        self.left_out = [f"LEFT OUT {item.nodeid}: needs {'; '.join(_unmet(item))}" for item in out]
        items[:] = [item for item in items if item not in out]
        config.hook.pytest_deselected(items=out)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """An absence is an error where there should be none."""
        if unmet := _unmet(item):
            pytest.fail(f"needs {'; '.join(unmet)}", pytrace=False)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name what was left out, last before pytest's closing line."""
        for line in sorted(self.left_out):
            terminalreporter.write_line(line)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A skip called passing is a defect."""
        return _no_skip((yield))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """The same for a whole file."""
        return _no_skip((yield))


def _unmet(item: pytest.Item) -> list[str]:
    names = {name for mark in item.iter_markers("needs") for name in mark.args}
    return [f"{name} ({missing(name)})" for name in sorted(names) if missing(name)]


def _no_skip(report: Report) -> Report:
    if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"no test may skip, see tests/rig/requirements.py: {reason}"
    return report
