"""What this host calls itself, its zone, and the person at it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo

from cronguard.errors import BadInput

_ZONE_LINK = "/etc/localtime"
_FALLBACK = "UTC"


def host_name() -> str:
    return os.uname().nodename


def host_zone(environment: Mapping[str, str]) -> ZoneInfo:
    """The zone by which cron on this host fires: TZ, else /etc/localtime; UTC where neither names one."""
    for name in (environment.get("TZ", "").lstrip(":"), _linked_zone()):
        zone = _zone_called(name)
        if zone:
            return zone
    from cronguard.domain.zone import parse_zone  # noqa: PLC0415

    return parse_zone(_FALLBACK)


def person(environment: Mapping[str, str]) -> str:
    """Who asks, for the ledger: user@host; the uid where it has no name."""
    user = environment.get("SUDO_USER") or environment.get("USER") or environment.get("LOGNAME")
    name = f"{user or f'uid {os.getuid()}'}@{host_name()}"
    return name.encode(errors="backslashreplace").decode()  # a name that is no text must not be what fails


def _linked_zone() -> str:
    _, _, name = os.path.realpath(_ZONE_LINK).partition("/zoneinfo/")
    return name if Path(_ZONE_LINK).exists() else ""


def _zone_called(name: str) -> ZoneInfo | None:
    if not name or name.startswith("/"):
        return None
    from cronguard.domain.zone import parse_zone  # noqa: PLC0415

    try:
        return parse_zone(name)
    except BadInput:
        return None
