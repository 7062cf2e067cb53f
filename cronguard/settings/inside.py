"""Which run this process is inside of, as `cronguard run` has told its command."""

from __future__ import annotations

from cronguard.domain.progress import Inside
from cronguard.domain.run import parse_key, parse_name
from cronguard.errors import BadInput
from cronguard.settings import Settings
from cronguard.settings.knobs import INSIDE_A_RUN
from cronguard.settings.parsers import utf8

LONGEST_TOKEN = 18  # digits of a number that both ledgers can hold


def inside_of(settings: Settings, command: str) -> Inside:
    """The run by its key and period, and the right to speak for it; raises BadInput outside of any run."""
    facts = {name: _fact(settings, name, command) for name in ("key", "period", "token", "holder")}
    if not (facts["token"].isascii() and facts["token"].isdigit() and len(facts["token"]) <= LONGEST_TOKEN):
        raise BadInput(f"CRONGUARD_TOKEN: {facts['token']!a} is no token; leave it as cronguard run has set it")
    key, period = parse_key(facts["key"]), parse_name(facts["period"], "period")
    return Inside(key, period, int(facts["token"]), facts["holder"])


def inside_if_any(settings: Settings, command: str) -> Inside | None:
    """The run that this is inside of, or None outside of any; raises BadInput for half of one."""
    return inside_of(settings, command) if INSIDE_A_RUN in settings.environment else None


def _fact(settings: Settings, name: str, command: str) -> str:
    variable = f"CRONGUARD_{name.upper()}"
    text = settings.environment.get(variable)
    if not text:
        raise BadInput(
            f"{variable} is not set: cronguard {command} is for a command that runs inside a run; "
            "put it into what cronguard run starts"
        )
    return utf8(text)
