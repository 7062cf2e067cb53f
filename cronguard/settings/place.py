"""Where the ledger is, and where this host keeps its own files."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from cronguard.errors import BadInput
from cronguard.settings import Settings

ORCHESTRATORS = ("KUBERNETES_SERVICE_HOST", "ECS_CONTAINER_METADATA_URI", "NOMAD_ALLOC_ID")


def dsn_of(settings: Settings) -> tuple[str | None, str]:
    """The DSN as it was set nearest to this invocation, and where; None for the built-in ledger on this host."""
    dsn, file = settings.setting("dsn"), settings.setting("dsn_file")
    if file.value and not (dsn.value and dsn.rank <= file.rank):
        return _secret_in(Path(file.value), file.place), file.place
    if dsn.value:
        return dsn.value, dsn.place
    _refuse_host_only(settings.environment)
    return None, dsn.origin


def _secret_in(path: Path, origin: str) -> str:
    try:
        mode = path.stat()
        text = path.read_text(encoding="utf-8").strip("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(f"{origin}: the DSN file {path} cannot be read: {reason}") from None
    if mode.st_uid == os.geteuid() and mode.st_uid != 0 and mode.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadInput(f"{origin}: the DSN file {path} can be read by others; type: chmod 600 {path}")
    if not text:
        raise BadInput(f"{origin}: the DSN file {path} is empty")
    return text


def _refuse_host_only(environment: Mapping[str, str]) -> None:
    """Under an orchestrator every replica would have a ledger of its own: a guard that guards nothing."""
    if found := orchestrator_of(environment):
        raise BadInput(
            f"no ledger is configured, and {found} says that this is one of many containers, where a ledger on this "
            "host would guard nothing; set CRONGUARD_DSN or CRONGUARD_DSN_FILE to a Postgres"
        )


def orchestrator_of(environment: Mapping[str, str]) -> str:
    """The variable that tells of one; nothing where there is none."""
    return next((name for name in environment if name.startswith(ORCHESTRATORS)), "")


def state_dir(settings: Settings) -> Path:
    """Where this host's ledger and its undelivered results are kept; raises BadInput when there is no such place."""
    if settings["state_dir"]:
        return Path(settings["state_dir"]).absolute()
    environment = settings.environment
    if os.geteuid() == 0:
        return Path("/var/lib/cronguard")
    base = environment.get("XDG_STATE_HOME") or (environment.get("HOME") and environment["HOME"] + "/.local/state")
    if not base:
        raise BadInput("HOME is not set, so there is no place for the ledger; set CRONGUARD_STATE_DIR or CRONGUARD_DSN")
    return Path(base).absolute() / "cronguard"


def spool_folders(settings: Settings) -> list[Path]:
    """Where undelivered results may lie, best place first: a container's disk may be read-only but for /tmp."""
    temporary = settings.environment.get("TMPDIR") or "/tmp"  # noqa: S108  only its owner's files in it are read
    fallback = Path(temporary).absolute() / f"cronguard-{os.geteuid()}" / "spool"
    try:
        return [state_dir(settings) / "spool", fallback]
    except BadInput:
        return [fallback]


def local_ledger(settings: Settings) -> str:
    """The path of the built-in ledger."""
    return str(state_dir(settings) / "ledger.db")
