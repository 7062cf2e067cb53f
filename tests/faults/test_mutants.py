"""The laboratory has teeth: whichever rule is taken away, a test that is named says so; and with it, it is content."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.mutants import MUTANTS, SEED, Mutant

ROOT = Path(__file__).resolve().parents[2]
FAILED = 1  # pytest's exit code where tests ran, and some failed
SIDE_BY_SIDE = 3  # they mostly wait
NONE = Mutant("none", caught_by="", changes=())  # then all of their tests must pass
Run = Future[subprocess.CompletedProcess[str]]


def tree_at(path: Path) -> Path:
    """A copy of the product and its tests, to be changed."""
    for name in ("cronguard", "tests"):
        shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", path)
    return path


def pytest_in(tree: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The tests of that tree, against the product of that tree, guards included."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "CI") if name in os.environ}
    environment = {**kept, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "CRONGUARD_TEST_TREE": str(tree)}
    environment["CRONGUARD_TEST_SEED"] = str(SEED)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:
    """One for each mutant that a test of this session asks for, and one without any; several at once."""
    asked = [item.callspec.params["mutant"] for item in request.session.items if item.path == request.path]  # type: ignore[attr-defined]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        longest_first = sorted(asked, key=lambda mutant: mutant is not NONE)
        yield {one.name: pool.submit(run_with, one, tmp_path_factory.mktemp("tree")) for one in longest_first}


def run_with(mutant: Mutant, path: Path) -> subprocess.CompletedProcess[str]:
    tree = tree_at(path / "tree")
    for change in mutant.changes:
        change.make(tree)
    return pytest_in(tree, [mutant.caught_by] if mutant.changes else [other.caught_by for other in MUTANTS])


@pytest.mark.parametrize("mutant", [*MUTANTS, NONE], ids=lambda mutant: mutant.name)
def test_rule_that_is_taken_away_is_missed(mutant: Mutant, runs: dict[str, Run]) -> None:
    done = runs[mutant.name].result(900)
    assert done.returncode == (FAILED if mutant.changes else 0), done.stdout + done.stderr
    assert not mutant.changes or f"FAILED {mutant.caught_by}" in done.stdout, done.stdout
