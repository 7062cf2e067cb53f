"""Text to value, one function a kind of knob. Each raises BadInput with what to type instead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from cronguard.domain.cadence import Cadence
from cronguard.domain.run import Exclusive, Lock, parse_key
from cronguard.errors import BadInput

if TYPE_CHECKING:
    from cronguard.domain.deadline import Deadline

_YES = ("true", "yes", "on", "1")
_PLAIN_UNITS = {"s": timedelta(seconds=1), "d": timedelta(days=1)}
_SIZES = {"k": 1 << 10, "m": 1 << 20}
MOST_BYTES = 1 << 20
_NO = ("false", "no", "off", "0")


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Whatever makes no sense in here was set at this place: an option, a variable, a line of a file."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{place}: {error}" if place else str(error)) from None


def text(value: str) -> str:
    """Whatever is written; nothing at all is a slip ("$UNSET"), and to pass it over would guard something else."""
    if not value:
        raise BadInput("it is empty; write a value, or leave it out")
    return value


def path(value: str) -> str:
    return text(value)


def utf8(value: str) -> str:
    """The same bytes are the same name on every host, whatever its locale: what came in is read again as UTF-8."""
    return os.fsencode(value).decode("utf-8", "surrogateescape")


def key(value: str) -> str:
    return parse_key(value)


def cadence(value: str) -> Cadence:
    return Cadence.parse(value)


def zone(value: str) -> ZoneInfo:
    from cronguard.domain.zone import parse_zone  # noqa: PLC0415  difflib, for the nearest name

    return parse_zone(value)


def schedule(value: str) -> str:
    """The expression itself: which instants it means depends on a zone that only the ledger may know."""
    if value != "none":
        from cronguard.domain.schedule import Schedule  # noqa: PLC0415  cronsim, only where there is a schedule

        Schedule.parse(value, ZoneInfo("UTC"))
    return value


def instant(value: str) -> datetime:
    from cronguard.domain.text import parse_instant  # noqa: PLC0415

    return parse_instant(value)


def duration(value: str) -> timedelta:
    """`90s`, `7d` and the like without loading the library that reads `1h30m`."""
    number, unit = value[:-1], _PLAIN_UNITS.get(value[-1:])
    if unit and number.isascii() and number.isdigit() and len(number) < 4 and int(number):
        return unit * int(number)
    from cronguard.domain.duration import parse_duration  # noqa: PLC0415

    return parse_duration(value)


def allowance(value: str) -> timedelta:
    """A duration, or none of it: 0."""
    return timedelta() if value == "0" else duration(value)


def deadline(value: str) -> Deadline:
    from cronguard.domain.deadline import Deadline  # noqa: PLC0415

    return Deadline.parse(value)


def exclusive(value: str) -> Exclusive:
    return Exclusive(one_of(value, *Exclusive))


def lock(value: str) -> Lock:
    return Lock(one_of(value, *Lock))


def if_held(value: str) -> str:
    return one_of(value, "skip", "wait")


def on_silence(value: str) -> str:
    return one_of(value, "freeze", "kill", "continue")


def stragglers(value: str) -> str:
    return one_of(value, "kill", "wait", "leave")


def one_of(value: str, *allowed: str) -> str:
    if value not in allowed:
        raise BadInput(f"{value!r} is not one of {', '.join(allowed)}")
    return value


def positive(value: str) -> int:
    return whole(value, 1, 1_000_000)


def count(value: str) -> int:
    return whole(value, 0, 1_000_000)


def size(value: str) -> int:
    """Bytes, of which a ledger shall not have to hold too many."""
    number, factor = (value[:-1], _SIZES[value[-1:].lower()]) if value[-1:].lower() in _SIZES else (value, 1)
    if not (number.isascii() and number.isdigit() and len(number) < 8 and int(number) * factor <= MOST_BYTES):
        raise BadInput(f"{value!r} is not a size of at most 1m; write it like 0, 4096, 16k or 1m")
    return int(number) * factor


def exit_code(value: str) -> int:
    return whole(value, 0, 255)


def whole(value: str, least: int, most: int) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10 and least <= int(value) <= most):
        raise BadInput(f"{value!r} is not a whole number from {least} to {most}")
    return int(value)


def flag(value: str) -> bool:
    if value.lower() not in _YES + _NO:
        raise BadInput(f"{value!r} is not a switch; write true or false")
    return value.lower() in _YES
