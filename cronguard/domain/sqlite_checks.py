"""What the facts about an SQLite ledger mean, and those about a ledger that was not reached at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cronguard.domain.diagnosis import Diagnosis, note, ok, problem, told_apart, warning
from cronguard.domain.ground import Asked, SqliteGround, Unreached
from cronguard.domain.postgres_checks import NOTHING_STARTS, schema_checked

STARTS_NOTHING = "cronguard run exits 125 and starts nothing"


def unreached_checked(it: Unreached) -> Diagnosis:
    """Why it did not answer, and where to look."""
    what, to_type = told_apart(it.why)
    if it.is_nonsense:
        return problem("ledger.address", what, STARTS_NOTHING, to_type)
    where = f"what is set by {it.place}" if it.place else "what it is set to"
    return problem("ledger.reached", what, NOTHING_STARTS, to_type or f"look at {where}, and whether the server is up")


def _place(it: SqliteGround, _asked: Asked) -> Iterator[Diagnosis]:
    if it.network:
        what = f"the ledger {it.path} lies on a network file system ({it.network})"
        why = f"its locks do not hold between hosts: {STARTS_NOTHING}"
        yield problem("ledger.place", what, why, "put it on a local disk, or set CRONGUARD_DSN to a Postgres")
        return
    what = f"SQLite, for this host alone: {it.path}"
    yield ok("ledger.reached", what) if not it.failure else _unread(it)


def _unread(it: SqliteGround) -> Diagnosis:
    what, to_type = told_apart(it.failure)
    return problem("ledger.reached", what, STARTS_NOTHING, to_type or f"ls -l {it.path}   # its owner and mode")


def _orchestrated(it: SqliteGround, asked: Asked) -> Iterator[Diagnosis]:
    if asked.orchestrator:
        yield warning(
            "ledger.alone", f"{asked.orchestrator} says that this is one of many containers, and the ledger is a file",
            "each container would have a ledger of its own, unless they share that disk: it would guard nothing",
            "set CRONGUARD_DSN or CRONGUARD_DSN_FILE to a Postgres",
        )  # fmt: skip


def _writable(it: SqliteGround, _asked: Asked) -> Iterator[Diagnosis]:
    if it.folder.failure:
        what = f"nothing can be written to {it.folder.path}: {it.folder.failure}"
        yield problem(
            "ledger.writable", what, "every claim is a write, with a journal beside the ledger",
            "set CRONGUARD_STATE_DIR to a folder that can be written, or CRONGUARD_DSN",
        )  # fmt: skip
    elif it.unwritable:
        what = f"{it.unwritable} cannot be written by this user"
        yield problem("ledger.writable", what, STARTS_NOTHING, f"chown $(id -u) {it.unwritable}   # as root")
    else:
        yield ok("ledger.writable", "the ledger and its folder can be written")


def _schema(it: SqliteGround, _asked: Asked) -> Iterator[Diagnosis]:
    schema = it.schema
    if it.failure or it.network:
        return
    if not it.is_there:
        yield note("ledger.schema", "there is no ledger yet", "the first run makes it: nothing need be done")
    elif schema.version is not None and schema.version < schema.known:
        what = f"the schema has version {schema.version}; this cronguard writes {schema.known}"
        yield note("ledger.schema", what, "the next run brings it up to date: nothing need be done")
    else:
        yield schema_checked(it.path, schema)


def _integrity(it: SqliteGround, _asked: Asked) -> Iterator[Diagnosis]:
    if not it.is_there or it.failure or it.network:
        return
    if it.integrity is None:
        yield note(
            "ledger.integrity",
            "the ledger is so large that it was not looked through",
            "a look has 2 seconds, for writers wait meanwhile",
        )
    elif it.integrity == "ok":
        yield ok("ledger.integrity", "SQLite finds the file sound")
    else:
        yield problem(
            "ledger.integrity", f"the file is damaged: {it.integrity}", "what it says of a period may be wrong",
            f"keep a copy of {it.path}, then put a backup in its place, or remove it and begin anew",
        )  # fmt: skip


def _journal(it: SqliteGround, _asked: Asked) -> Iterator[Diagnosis]:
    if it.journal_mode in ("off", "memory"):
        yield warning(
            "ledger.journal", f"the file is set to journal_mode {it.journal_mode}",
            "a power cut may damage it", f"sqlite3 {it.path} 'pragma journal_mode = delete'",
        )  # fmt: skip
    elif it.journal_mode == "wal":
        why = "somebody has set it so; it works as well, as long as its folder is on a local disk"
        yield note("ledger.journal", "the file is set to journal_mode wal", why)


Rule = Callable[[SqliteGround, Asked], Iterator[Diagnosis]]
SQLITE_RULES: tuple[Rule, ...] = (_place, _orchestrated, _writable, _schema, _integrity, _journal)
