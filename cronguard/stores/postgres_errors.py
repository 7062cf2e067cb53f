"""What a Postgres failure means: ask again, or say so and stop. The one place that knows driver errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg  # noqa: TID253  behind the door of stores.open_store

from cronguard.errors import CronguardError, LedgerRefused, LedgerUnavailable, RowHeld, SchemaMismatch
from cronguard.stores.postgres_connection import NoAnswer

# Asking again helps: full (53300), shutting down or starting (57P0x), cut (08xxx), a conflict of transactions
# (40001, 40P01), a server that is a standby, yet or by now (25006, 0A000), a lock not had in time (55P03), and our own
# statement_timeout or an operator's cancel (57014).
_RETRY = re.compile(r"53300|57P0\d|08\w{3}|40001|40P01|25006|0A000|55P03|57014")
_STANDBY = "it is a standby (read only)"
_ROW_HELD = "55P03"
_IN_OUR_WORDS = {
    "25006": _STANDBY,
    "0A000": _STANDBY,
    _ROW_HELD: "somebody else has the same row for too long: a transaction of the job itself that called assert_token "
    "and is still open (see pg_stat_activity), or a commit that no synchronous standby confirms",
}
_NOT_REPLICATED = "01000"  # the warning with which a wait for a synchronous standby ends that was cancelled
_UNCONFIRMED = "did not confirm a commit in time (does its synchronous standby answer?)"
_NO_SCHEMA = ("3F000", "42P01")  # the schema, or a table in it, is not there
_NOT_THERE = (*_NO_SCHEMA, "42703", "42883")  # a column or a function either
_NO_RIGHTS = "42501"

# A connection that fails tells no SQLSTATE, only the server's words, and those in the server's language: what
# is known here is final; whatever else it says is asked again until --db-wait is over.
_FINAL = (
    (re.compile(r"password authentication failed|no password supplied|scram|SASL", re.I), "the password was refused"),
    (re.compile(r"no pg_hba\.conf entry", re.I), "the server does not let this host or user in (pg_hba.conf)"),
    (re.compile(r'database "[^"]*" does not exist', re.I), "there is no such database"),
    (re.compile(r'role "[^"]*" does not exist', re.I), "there is no such role"),
    (re.compile(r"unsupported startup parameter", re.I), "the pooler refuses a start-up parameter of the DSN"),
    (re.compile(r"unrecognized configuration parameter", re.I), "the server does not know a setting in the options"),
    (re.compile(r"does not support SSL", re.I), "the server does not offer TLS, which the DSN asks for"),
)
# What libpq itself says before it asks any server; its text shows the value, which is none of a log's business.
_MALFORMED = re.compile(r"invalid (?:connection option|URI|port|\w+ value)|missing .= after|bad value for", re.I)
_PASSING = (
    (re.compile(r"refused", re.I), "connection refused"),
    (re.compile(r"timeout|timed out", re.I), "no answer in time"),
    (re.compile(r"translate host name|name or service not known|resolve", re.I), "the host's name is not known"),
    (re.compile(r"too many (clients|connections)|connection slots", re.I), "the server has no free connection"),
    (re.compile(r"starting up|shutting down|recovery mode", re.I), "the server is starting or stopping"),
    (re.compile(r"read-only", re.I), _STANDBY),
    (re.compile(r"no such file or directory", re.I), "no server listens on that socket"),
)


@contextmanager
def translated(where: str, *, committing: bool = False) -> Iterator[None]:
    """Turn what psycopg raises into cronguard's own failures; the driver's text could hold the DSN."""
    try:
        yield
    except psycopg.Error as error:
        if committing and any(isinstance(one, NoAnswer) for one in _chain(error)):
            raise unconfirmed(where) from None
        raise _translate(error, where) from None


@contextmanager
def confirmed(connection: psycopg.Connection[Any], where: str) -> Iterator[None]:
    """A wait for a synchronous standby that somebody cancelled ends with a mere warning: it counts as failed."""
    warnings: list[str | None] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        warnings.append(notice.sqlstate)

    connection.add_notice_handler(note)
    try:
        yield
    finally:
        connection.remove_notice_handler(note)
    if _NOT_REPLICATED in warnings:
        raise unconfirmed(where)


@contextmanager
def told_by_version(connection: psycopg.Connection[Any], check_version: Callable[[], None]) -> Iterator[None]:
    """What the server does not know may be what a schema of another version has not: that is asked, and said, first."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate in _NOT_THERE:
            connection.rollback()
            check_version()
        raise


def unconfirmed(where: str) -> LedgerUnavailable:
    """A commit that the server itself may have, and its standby not: it counts as failed, and is asked for again."""
    return LedgerUnavailable(f"the ledger at {where} {_UNCONFIRMED}")


def _chain(error: psycopg.Error) -> Iterator[psycopg.Error]:
    """The error, and what it came of: on leaving a pipeline the driver fails once more, with words of its own."""
    found: BaseException | None = error
    while isinstance(found, psycopg.Error):
        yield found
        found = found.__context__


def _translate(error: psycopg.Error, where: str) -> CronguardError:
    state = error.sqlstate
    if state is None:
        return _without_state(error, where)
    if state in _NO_SCHEMA:
        return SchemaMismatch(f"the ledger at {where} has no cronguard schema yet; create it with: cronguard init")
    if state == _NO_RIGHTS:
        return LedgerRefused(
            f"the ledger at {where} denies this role a right: {_first_line(error)}; see cronguard init --print-sql"
        )
    if _RETRY.fullmatch(state):
        why = _IN_OUR_WORDS.get(state) or _first_line(error)
        kind = RowHeld if state == _ROW_HELD else LedgerUnavailable
        return kind(f"the ledger at {where} did not answer: {why}")
    return CronguardError(f"the ledger at {where} failed ({state}): {_first_line(error)}")


def _without_state(error: psycopg.Error, where: str) -> CronguardError:
    text = "\n".join(map(str, _chain(error)))
    if isinstance(error, psycopg.ProgrammingError) or _MALFORMED.search(text):
        return CronguardError(f"the DSN of the ledger at {where} has a value that libpq does not take; {_WHERE_TO_SET}")
    passing = "; another host: ".join(meaning for pattern, meaning in _PASSING if pattern.search(text))
    final = next((meaning for pattern, meaning in _FINAL if pattern.search(text)), None)
    if final and not passing:
        return LedgerRefused(f"the ledger at {where} cannot be reached: {final}; {_WHERE_TO_SET}")
    return LedgerUnavailable(f"the ledger at {where} cannot be reached: {passing or 'the connection failed'}")


_WHERE_TO_SET = "set CRONGUARD_DSN, CRONGUARD_DSN_FILE or dsn in the configuration"


def _first_line(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).partition("\n")[0]
