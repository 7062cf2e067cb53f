"""What the facts about a Postgres ledger mean: each rule looks at one thing, and the table names them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from cronguard.domain.diagnosis import Diagnosis, note, ok, problem, warning
from cronguard.domain.ground import Asked, PostgresGround, Right, Schema
from cronguard.domain.server_settings import settings_checked, way_back
from cronguard.domain.text import format_duration

FEWEST_SLOTS = 5  # connections: a few jobs that fire in the same second
SHARE_OF_SLOTS = 0.1  # of what the server allows
MOST_STATEMENTS = 3  # to be shown in one line; who lacks more lacks all of them
_COUNTED = re.compile(r"\s*(?:(?:first|any)\s+)?(\d+)\s*\((.*)\)\s*", re.IGNORECASE | re.ASCII | re.DOTALL)
_STANDBY = re.compile(r'"((?:[^"]|"")*)"|([^\s,]+)')
NOTHING_STARTS = "nothing is started while it is so: cronguard run exits 75 after --db-wait"

# What each of these does without the right, and how bad that is.
USES = {
    "run": (problem, "cronguard run exits 75 and starts nothing"),
    "supervise": (warning, "cronguard supervise cannot recover, or tell what was missed"),
    "reset": (note, "cronguard reset, cancel, stop, pause, resume and settle need it"),
    "once": (warning, "cronguard once, claim, confirm, release and resolve need it"),
    "prune": (note, "only cronguard prune deletes history; who is never to prune needs no such right"),
    "drill": (note, "only cronguard drill removes keys, its own; who is never to hold one needs no such right"),
    "init": (note, "only cronguard init changes the schema; a role that runs jobs needs no such right"),
}


def _reached(it: PostgresGround, _asked: Asked) -> Iterator[Diagnosis]:
    yield ok("ledger.reached", f"Postgres {it.version} answers at {it.name}")


def _takes_writes(it: PostgresGround, _asked: Asked) -> Iterator[Diagnosis]:
    if it.in_recovery:
        yield problem(
            "ledger.primary", f"the server at {it.name} is a standby, which takes no writes", NOTHING_STARTS,
            "name the primary in the DSN, or all servers: postgresql://one,two/db",
        )  # fmt: skip
    elif it.is_read_only or not it.takes_writes:
        yield problem(
            "ledger.primary", f"sessions of role {it.role} at {it.name} are read-only by default", NOTHING_STARTS,
            way_back(it, "default_transaction_read_only"),
        )  # fmt: skip
    else:
        yield ok("ledger.primary", "it is a primary: it takes writes")


def _schema(it: PostgresGround, _asked: Asked) -> Iterator[Diagnosis]:
    yield schema_checked(it.name, it.schema)


def schema_checked(name: str, schema: Schema) -> Diagnosis:
    """For either ledger."""
    why = "cronguard run exits 125 and starts nothing"
    if not schema.is_there:
        return problem("ledger.schema", f"the ledger at {name} has no cronguard schema yet", why, "cronguard init")
    if not schema.is_readable:
        return problem(
            "ledger.schema", "this role may not read which version the schema has",
            "cronguard run exits 75 and starts nothing", "cronguard init --print-sql   # its end names all the grants",
        )  # fmt: skip
    if schema.version is None or schema.min_reader is None:
        return problem("ledger.schema", "the schema has no version: it was never finished", why, "cronguard init")
    return _version_checked(schema, schema.version, schema.min_reader)


def _version_checked(schema: Schema, version: int, min_reader: int) -> Diagnosis:
    why = "cronguard run exits 125 and starts nothing"
    if min_reader > schema.known:
        what = f"the schema has version {version}, which needs a newer cronguard than this (it knows {schema.known})"
        return problem("ledger.schema", what, why, "pip install --upgrade cronguard   # on this host")
    if version < schema.known:
        what = f"the schema has version {version}, older than this cronguard needs ({schema.known})"
        return problem("ledger.schema", what, why, "cronguard init")
    if version > schema.known:
        what = f"the schema has version {version}; this cronguard knows {schema.known}, and may go on writing"
        return note("ledger.schema", what, "another host has a newer cronguard", "pip install --upgrade cronguard")
    return ok("ledger.schema", f"the schema has version {version}, the one that this cronguard writes")


def _rights(it: PostgresGround, _asked: Asked) -> Iterator[Diagnosis]:
    for use, (judged, why) in USES.items():
        lacking = [right for right in it.missing if right.needed_by == use]
        if lacking:
            what = f"role {it.role} lacks: {'; '.join(_listed(lacking))}"
            yield judged(f"ledger.rights_{use}", what, why, _to_grant(lacking, it.role))
    if not any(right.needed_by == "run" for right in it.missing):
        yield ok("ledger.rights_run", f"role {it.role} has all the rights that cronguard run needs")


def _listed(lacking: list[Right]) -> list[str]:
    """`insert, update on job`: the rights of a table together."""
    places = dict.fromkeys(right.on for right in lacking)
    return [f"{', '.join(right.right for right in lacking if right.on == place)} on {place}" for place in places]


def _to_grant(lacking: list[Right], role: str) -> str:
    statements = [f"grant {listed} to {role};" for listed in _listed(lacking)]
    if lacking[0].needed_by == "init":
        return "cronguard init, as the role that owns the schema   # when it has to be upgraded"
    if len(statements) > MOST_STATEMENTS:
        return "cronguard init --print-sql   # its end names all the grants, for the schema's owner"
    return " ".join(statements)


def _transactions(it: PostgresGround, _asked: Asked) -> Iterator[Diagnosis]:
    if it.transaction_refused:
        yield problem(
            "ledger.transactions", f"a transaction is refused: {it.transaction_refused}",
            "a claim is one transaction: cronguard run exits 125 and starts nothing",
            "in a pooler, pool_mode = transaction (or session) for this database",
        )  # fmt: skip


def _pooler(it: PostgresGround, asked: Asked) -> Iterator[Diagnosis]:
    pids_differ = it.connected_to != it.answered_by
    if not (pids_differ or it.hold_refused):
        yield ok("ledger.pooler", "there is no pooler between: the server itself answers")
        return
    what = (
        "there is a pooler between: another process answers than the one that the connection was made to"
        if pids_differ else f"session locks do not hold: {it.hold_refused}"
    )  # fmt: skip
    if asked.lock == "advisory":
        why = "--lock advisory is configured, and refused here: cronguard run exits 125"
        yield problem("ledger.pooler", what, why, "use --lock claim, or a DSN that leads to the server itself")
    else:
        why = (
            "cronguard works through it in transaction or session mode; only --lock advisory is refused there, and "
            "LISTEN hears nothing"
        )
        yield note("ledger.pooler", what, why)


def _slots(it: PostgresGround, _asked: Asked) -> Iterator[Diagnosis]:
    slots = it.slots
    if slots is None:
        return
    most = slots.most if slots.role_limit < 0 else min(slots.most, slots.role_limit)
    what = f"{max(slots.left, 0)} of {most} connections are left for role {it.role}"
    if slots.left < max(FEWEST_SLOTS, SHARE_OF_SLOTS * most):
        why = "a firing that gets none tries again until --db-wait is over; so does a beat until its lease is"
        yield warning("ledger.connections", what, why, "raise max_connections or the role's limit, or use a pooler")
    else:
        yield ok("ledger.connections", what)


def _durability(it: PostgresGround, asked: Asked) -> Iterator[Diagnosis]:
    fsync, names = it.parameters.get("fsync"), it.parameters.get("synchronous_standby_names")
    if fsync and fsync.value == "off":
        why = "a server that crashes may forget that a run was claimed, or that it succeeded: it runs twice"
        yield warning("ledger.fsync", "the server runs with fsync off", why, "alter system set fsync = on;")
    if names is None or it.in_recovery:  # a standby waits for nobody yet
        return
    if names.value:
        yield _waited_for(names.value, it.standbys)
    elif asked.durable:
        what = "--durable is asked for, and this server waits for no standby"
        why = "a failover may forget a run although its commit was waited for"
        yield warning("ledger.standbys", what, why, "see: synchronous_standby_names")
    elif it.standbys:
        why = "a failover may forget the last commits, and then a run may be started twice: the fence is for that"
        how_many = "a standby" if len(it.standbys) == 1 else f"{len(it.standbys)} standbys"
        yield note(
            "ledger.standbys",
            f"it has {how_many}, none of them synchronous",
            why,
            "see: synchronous_standby_names, and then --durable",
        )


def _waited_for(names: str, connected: Sequence[str]) -> Diagnosis:
    """A claim waits for them whatever synchronous_commit says: it never asks for less than `on`."""
    wanted, named = _synchronous(names)
    there = sum("*" in named or name.lower() in named for name in connected)
    what = f"each commit waits for {wanted} of the synchronous standbys {names!r}, and {there} "
    what += "is connected" if there == 1 else "are connected"
    if there >= wanted:
        return ok("ledger.standbys", what)
    return problem("ledger.standbys", what, NOTHING_STARTS, "start them, or see: synchronous_standby_names")


def _synchronous(names: str) -> tuple[int, list[str]]:
    """How many are waited for, and whom that may be: `a, b`, `2 (a, b)`, `first 2 (a, b)` or `any 2 (a, b)`."""
    counted = _COUNTED.fullmatch(names)
    count, listed = (int(counted[1]), counted[2]) if counted else (1, names)
    return count, [(quoted.replace('""', '"') or plain).lower() for quoted, plain in _STANDBY.findall(listed)]


def _settings(it: PostgresGround, asked: Asked) -> Iterator[Diagnosis]:
    return settings_checked(it, asked)


def clock_checked(it: PostgresGround, warn_above: timedelta, refuse_above: timedelta) -> Diagnosis:
    """The host's clock against the ledger's, which alone counts; what is within the uncertainty is no difference."""
    ahead, uncertainty = it.reading.host_is_ahead, it.reading.uncertainty
    certain = max(abs(ahead) - uncertainty, timedelta())
    side = "ahead of" if ahead > timedelta() else "behind"
    off = f"{_seconds(abs(ahead))} (give or take {_seconds(uncertainty)})"
    what = f"this host's clock is {off} {side} the ledger's"
    if certain <= warn_above:
        return ok("clock.host", what)
    why = (
        "cron fires by this host's clock and the period is chosen by the ledger's: at the edge of a period they "
        "mean different ones"
    )
    sync = "timedatectl set-ntp true   # here, and look at the database server's clock too"
    if certain <= refuse_above:
        return warning("clock.host", what, f"{why}; with --schedule a tick is known although it comes early", sync)
    unnoticed = f"by more than {format_duration(refuse_above)} a job of every minute may run twice for one tick"
    return problem("clock.host", what, f"{why}; {unnoticed}", sync)


def _seconds(length: timedelta) -> str:
    seconds = length.total_seconds()
    return f"{seconds:.1f}s" if seconds >= 0.1 else f"{seconds * 1000:.1f}ms"


Rule = Callable[[PostgresGround, Asked], Iterator[Diagnosis]]
POSTGRES_RULES: tuple[Rule, ...] = (
    _reached, _takes_writes, _transactions, _schema, _rights, _pooler, _settings, _slots, _durability,
)  # fmt: skip
