"""What a server's settings do to cronguard's sessions: the limits that could cut them, and the defaults of a session.

cronguard sets most of them for each transaction of its own, so that few can do
harm; each line says which, and what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from cronguard.domain.diagnosis import Diagnosis, Level, ok
from cronguard.domain.ground import Asked, Parameter, PostgresGround
from cronguard.domain.text import format_duration

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Limit:
    """A time limit of the server. Below `least` it gets this level; None stands for the lease."""

    name: str
    least: timedelta | None
    level: Level
    why: str


LIMITS = (
    # The shortest time that cronguard itself gives an exchange is 2 s.
    Limit(
        "statement_timeout", 2 * _SECOND, Level.WARNING,
        "a claim and a finish give themselves 10s; but a beat, and all that people ask, ends by this one: it is asked "
        "again, and a lease may run out meanwhile",
    ),
    Limit(
        "lock_timeout", _SECOND, Level.WARNING,
        "a claim and a finish give themselves 5s; but a beat that waits longer for its row fails, and is tried again",
    ),
    # Nothing lifts it: a claim may wait 5 s for its row, and has 10 s for each statement.
    Limit(
        "transaction_timeout", 10 * _SECOND, Level.WARNING,
        "nothing lifts it: a claim may wait 5s for its row, and prune and init have longer transactions yet",
    ),
    Limit(
        "idle_session_timeout", None, Level.WARNING,
        "cronguard keeps no session between two beats, and lifts it for the one that --lock advisory keeps; but "
        "whoever listens for recoveries (LISTEN cronguard), or holds a session for its job as this role, is cut off",
    ),
    Limit(
        "idle_in_transaction_session_timeout", _SECOND, Level.NOTE,
        "a claim and a finish give themselves 10s, so that it does them no harm",
    ),
    Limit(
        "tcp_user_timeout", 5 * _SECOND, Level.WARNING,
        "a network that loses a few packets cuts the session in the middle of a claim: it is asked again",
    ),
)  # fmt: skip


def settings_checked(it: PostgresGround, asked: Asked) -> Iterator[Diagnosis]:
    """A line for each limit that is too short, one for all that are not; then the defaults of a session."""
    found = [one for limit in LIMITS if (one := _limit_checked(it, asked, limit))]
    yield from found
    if not any(one.level is Level.WARNING for one in found):
        yield ok("ledger.timeouts", "no time limit of the server cuts what cronguard does")
    yield from _isolation(it)
    yield from _commit(it)


def _limit_checked(it: PostgresGround, asked: Asked, limit: Limit) -> Diagnosis | None:
    found = it.parameters.get(limit.name)
    if found is None or not found.time or found.time >= (asked.lease if limit.least is None else limit.least):
        return None
    what = f"{limit.name} is {format_duration(found.time)} for role {it.role} ({_where(found, it)})"
    return Diagnosis(f"ledger.{limit.name}", limit.level, what, limit.why, way_back(it, limit.name))


def _isolation(it: PostgresGround) -> Iterator[Diagnosis]:
    found = it.parameters.get("default_transaction_isolation")
    if found is None:
        return
    if found.value in ("read committed", "read uncommitted"):
        yield ok("ledger.isolation", f"transactions are {found.value} by default")
        return
    what = f"transactions are {found.value} by default ({_where(found, it)})"
    why = (
        "harmless to claims and finishes, which ask for read committed by themselves; a beat may be refused (40001) "
        "and is tried again, and of hosts that race at cronguard init some may fail, and succeed when it is repeated"
    )
    yield Diagnosis("ledger.isolation", Level.NOTE, what, why, way_back(it, "default_transaction_isolation"))


def _commit(it: PostgresGround) -> Iterator[Diagnosis]:
    found = it.parameters.get("synchronous_commit")
    if found is None:
        return
    if found.value in ("off", "local"):
        what = f"synchronous_commit is {found.value} by default ({_where(found, it)})"
        why = "harmless: claims and finishes ask for on by themselves, and a beat that is forgotten is made again"
        yield Diagnosis("ledger.commit", Level.NOTE, what, why)
    else:
        yield ok("ledger.commit", f"synchronous_commit is {found.value}: what was claimed is not forgotten by a crash")


_SOURCES = {
    "user": "set for the role",
    "database": "set for the database",
    "database user": "set for the role in this database",
    "client": "set by the DSN or PGOPTIONS",
    "configuration file": "set for the whole server",
}


def _where(found: Parameter, it: PostgresGround) -> str:
    return _SOURCES.get(found.source, found.source)


def way_back(it: PostgresGround, name: str) -> str:
    """What to type to be rid of a setting, which depends on where it was made."""
    found = it.parameters.get(name)
    match found.source if found else "":
        case "user":
            return f"alter role {it.role} reset {name};"
        case "database":
            return f"alter database {it.database} reset {name};"
        case "database user":
            return f"alter role {it.role} in database {it.database} reset {name};"
        case "client":
            return f"take {name} out of the options in the DSN, or of PGOPTIONS"
    harmless = {"default_transaction_read_only": "off", "default_transaction_isolation": "'read committed'"}
    return f"alter role {it.role} set {name} = {harmless.get(name, '0')};"
