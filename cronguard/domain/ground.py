"""The ground that cronguard stands on, as it was found: facts only. What they mean is said by the checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Asked:
    """What the settings say, as far as a checkup needs it."""

    lock: str = "claim"
    durable: bool = False
    lease: timedelta = timedelta(seconds=60)
    config: str | None = None  # the file that was read
    orchestrator: str = ""  # the variable that tells of one
    unknown_variables: Mapping[str, str] = field(default_factory=dict)  # the name of each, and the one it is near to


# --------------------------------------------------------------------------- the ledger


@dataclass(frozen=True, slots=True)
class Unreached:
    """A ledger that did not answer, or of which not even the address makes sense."""

    why: str  # one line, without secrets
    place: str = ""  # where the address was set
    is_nonsense: bool = False  # it was not even asked: the address makes no sense


@dataclass(frozen=True, slots=True)
class Schema:
    """What a ledger says of its schema; `known` is the version that this program writes."""

    known: int
    version: int | None = None
    min_reader: int | None = None
    is_there: bool = True
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class Right:
    """A right that is missing, and who needs it."""

    needed_by: str
    right: str
    on: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the server as it holds for our sessions; a time is in `unit`s."""

    value: str
    unit: str | None = None
    source: str = "default"  # pg_settings: default, configuration file, database, user, database user, client

    @property
    def time(self) -> timedelta:
        """Zero where there is no limit."""
        factor = {"ms": timedelta(milliseconds=1), "s": timedelta(seconds=1), "min": timedelta(minutes=1)}
        return int(self.value) * factor[self.unit or "ms"]


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the ledger's clock, between two at this host's."""

    sent_at: datetime
    answer: datetime
    received_at: datetime

    @property
    def host_is_ahead(self) -> timedelta:
        """By how much; negative where it is behind."""
        return self.sent_at + (self.received_at - self.sent_at) / 2 - self.answer

    @property
    def uncertainty(self) -> timedelta:
        """Half of the round trip: the answer may have been given at any moment of it."""
        return (self.received_at - self.sent_at) / 2


@dataclass(frozen=True, slots=True)
class Slots:
    """Connections of the server; a limit of -1 is none."""

    most: int
    reserved: int
    used: int
    role_limit: int = -1
    used_by_role: int = 0

    @property
    def left(self) -> int:
        of_server = self.most - self.reserved - self.used
        return of_server if self.role_limit < 0 else min(of_server, self.role_limit - self.used_by_role)


@dataclass(frozen=True, slots=True)
class PostgresGround:
    """What a Postgres says of itself to the role that asks."""

    name: str
    version: str
    role: str  # both names as SQL has them, quoted where they must be
    database: str
    schema: Schema
    reading: Reading
    takes_writes: bool = True  # a connection as a run makes it was accepted
    in_recovery: bool = False
    is_read_only: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    missing: tuple[Right, ...] = ()
    slots: Slots | None = None
    standbys: tuple[str, ...] = ()  # the names of those that are connected
    connected_to: int = 0  # the process that the connection was made to, as the other side says
    answered_by: int = 0
    transaction_refused: str = ""  # why a claim's transaction could not be begun
    hold_refused: str = ""  # why --lock advisory cannot be relied on
    offsets: tuple[timedelta, ...] | None = None  # of the zone, at the instants asked for; None: it knows no such zone


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory, or where one would be made."""

    path: str
    is_there: bool
    failure: str = ""  # why nothing can be written there, in the system's words
    free_bytes: int | None = None
    free_files: int | None = None  # None: there is no limit


@dataclass(frozen=True, slots=True)
class SqliteGround:
    """What an SQLite ledger and its place are like."""

    path: str
    folder: Folder
    is_there: bool
    schema: Schema
    failure: str = ""  # why it could not be opened or read
    unwritable: str = ""  # the file of the ledger's that cannot be written
    network: str = ""  # the file system, where it is one of a network
    journal_mode: str = ""
    integrity: str | None = None  # SQLite's own word: ok, or what is wrong; None: the check took too long


Ledger = PostgresGround | SqliteGround | Unreached


# --------------------------------------------------------------------------- this host


@dataclass(frozen=True, slots=True)
class Zone:
    """The zone of the calendar, and what this host's zone data say of it."""

    name: str
    failure: str = ""
    offsets: tuple[timedelta, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """Where this host keeps its own files."""

    folders: tuple[Folder, ...] = ()  # for undelivered results, best place first
    failure: str = ""  # why there is no state directory
    waiting: tuple[str, ...] = ()  # key and period of each result for this ledger, the oldest first
    strangers: int = 0  # results for another ledger, or unreadable


@dataclass(frozen=True, slots=True)
class Host:
    """This process and its surroundings."""

    name: str
    uid: int
    pid: int
    user: str | None  # None: the uid has no name
    adopts: bool  # orphans come to a subreaper
    lists_children: bool  # /proc/PID/task/TID/children can be read
    hidepid: str = ""  # the option of the mounted /proc
    oom_counter: str | None = None
    open_files: int | None = None  # the soft limits; None: there is none
    processes: int | None = None
    own_processes: int = 0  # how many this user has
    inside: tuple[str, ...] = ()  # the namespaces that are not the machine's own


@dataclass(frozen=True, slots=True)
class Output:
    """The stream that people and programs read."""

    encoding: str
    locale_failure: str = ""


@dataclass(frozen=True, slots=True)
class Crontab:
    """One that has a line with cronguard in it."""

    path: str
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnderCron:
    """What cron would give to a command of ours, besides what was found when it was tried."""

    path: str  # its PATH
    program: str | None  # cronguard, on that PATH
    program_here: str  # how it can be called from anywhere
    only_here: tuple[str, ...]  # variables of ours that this shell has, and cron would not set so
    home: str | None
    home_here: str | None
    user: str | None
    is_local_here: bool = True  # no DSN is set: the ledger lies in the state directory
    locale: str = ""  # the one that counts for letters; nothing where none is set
    locale_here: str = ""
    crontabs: tuple[Crontab, ...] = ()
    failure: str = ""  # why the checkup could not be repeated
