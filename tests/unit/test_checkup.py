"""What facts mean: each is planted in ground that is otherwise sound, and the findings say so, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from cronguard.domain.checkup import CLOCK_PROBLEM, CLOCK_WARNING, Ground, checked, sampled_instants
from cronguard.domain.cron_checks import cron_checked
from cronguard.domain.diagnosis import (
    SUBJECTS,
    Diagnosis,
    Level,
    diagnosis_in,
    document_of,
    in_order,
    is_sound,
    note,
    ok,
    problem,
    warning,
)
from cronguard.domain.ground import (
    Asked,
    Crontab,
    Folder,
    Host,
    Output,
    Parameter,
    PostgresGround,
    Reading,
    Right,
    Schema,
    Slots,
    SqliteGround,
    State,
    UnderCron,
    Unreached,
    Zone,
)

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ROOM = Folder("/var/lib/cronguard/spool", True, free_bytes=1 << 40, free_files=1 << 20)
TMP = Folder("/tmp/cronguard-7/spool", False, free_bytes=1 << 40)
POSTGRES = PostgresGround(
    "db/ops", "17.2", "app", "ops", Schema(8, 8, 1), Reading(NOW, NOW, NOW), slots=Slots(100, 3, 10),
    parameters={
        "statement_timeout": Parameter("0", "ms"), "idle_session_timeout": Parameter("0", "ms"),
        "default_transaction_isolation": Parameter("read committed"), "synchronous_commit": Parameter("on"),
        "fsync": Parameter("on"), "synchronous_standby_names": Parameter(""),
    },
    connected_to=7, answered_by=7,
)  # fmt: skip
SQLITE = SqliteGround("/var/lib/ledger.db", ROOM, True, Schema(8, 8, 1), journal_mode="delete", integrity="ok")
HOST = Host("alpha", 7, 100, "app", True, True, oom_counter="/x", open_files=1024, processes=4096, own_processes=9)
SOUND = Ground(Asked(), POSTGRES, Zone("UTC", offsets=(timedelta(),)), State((ROOM, TMP)), HOST, Output("utf-8"))


def found_in(**planted: Any) -> dict[str, Diagnosis]:
    """What is not as it should be, by check."""
    return {one.check: one for one in checked(replace(SOUND, **planted)) if one.level is not Level.OK}


def levels(**planted: Any) -> dict[str, str]:
    return {check: str(one.level) for check, one in found_in(**planted).items()}


def test_sound_ground_has_no_finding_and_every_subject_but_cron() -> None:
    assert levels() == levels(ledger=SQLITE) == {}
    assert {one.subject for one in checked(replace(SOUND, ledger=POSTGRES))} == {*SUBJECTS} - {"cron"}


LEDGERS: list[tuple[Any, dict[str, str]]] = [
    (Unreached("no answer"), {"ledger.reached": "problem"}),
    (Unreached("it makes no sense", is_nonsense=True), {"ledger.address": "problem"}),
    (replace(POSTGRES, in_recovery=True), {"ledger.primary": "problem"}),
    (replace(POSTGRES, takes_writes=False), {"ledger.primary": "problem"}),
    (replace(POSTGRES, is_read_only=True), {"ledger.primary": "problem"}),
    (replace(POSTGRES, schema=Schema(8, is_there=False)), {"ledger.schema": "problem"}),
    (replace(POSTGRES, schema=Schema(8, is_readable=False)), {"ledger.schema": "problem"}),
    (replace(POSTGRES, schema=Schema(8)), {"ledger.schema": "problem"}),
    (replace(POSTGRES, schema=Schema(8, 7, 1)), {"ledger.schema": "problem"}),
    (replace(POSTGRES, schema=Schema(8, 9, 9)), {"ledger.schema": "problem"}),
    (replace(POSTGRES, schema=Schema(8, 9, 8)), {"ledger.schema": "note"}),
    (replace(POSTGRES, transaction_refused="it is not allowed"), {"ledger.transactions": "problem"}),
    (replace(POSTGRES, answered_by=8), {"ledger.pooler": "note"}),
    (replace(POSTGRES, hold_refused="a session lock is not found again"), {"ledger.pooler": "note"}),
    (replace(POSTGRES, slots=Slots(100, 3, 90)), {"ledger.connections": "warning"}),
    (replace(POSTGRES, slots=Slots(1000, 3, 10, 4, 1)), {"ledger.connections": "warning"}),
    (replace(POSTGRES, slots=None), {}),
    (replace(POSTGRES, standbys=("s1", "s2")), {"ledger.standbys": "note"}),
    (replace(POSTGRES, offsets=(timedelta(),)), {}),
    (replace(POSTGRES, offsets=(timedelta(hours=1),)), {"zone.agreement": "warning"}),
    (replace(SQLITE, network="nfs4"), {"ledger.place": "problem"}),
    (replace(SQLITE, failure="it is not an SQLite database"), {"ledger.reached": "problem"}),
    (replace(SQLITE, folder=replace(ROOM, failure="Read-only file system")), {"ledger.writable": "problem"}),
    (replace(SQLITE, unwritable="/var/lib/ledger.db.lock"), {"ledger.writable": "problem"}),
    (replace(SQLITE, is_there=False), {"ledger.schema": "note"}),
    (replace(SQLITE, schema=Schema(8, 3, 1)), {"ledger.schema": "note"}),
    (replace(SQLITE, schema=Schema(8, 9, 9)), {"ledger.schema": "problem"}),
    (replace(SQLITE, schema=Schema(8, is_there=False)), {"ledger.schema": "problem"}),
    (replace(SQLITE, integrity="row 3 missing from index"), {"ledger.integrity": "problem"}),
    (replace(SQLITE, integrity=None), {"ledger.integrity": "note"}),
    (replace(SQLITE, journal_mode="wal"), {"ledger.journal": "note"}),
    (replace(SQLITE, journal_mode="off"), {"ledger.journal": "warning"}),
]


@pytest.mark.parametrize(("ledger", "expected"), LEDGERS)
def test_fact_about_the_ledger(ledger: Any, expected: dict[str, str]) -> None:
    assert levels(ledger=ledger) == expected


@pytest.mark.parametrize(
    ("name", "value", "unit", "level"),
    [
        ("idle_session_timeout", "5000", "ms", "warning"),
        ("idle_session_timeout", "60000", "ms", None),
        ("statement_timeout", "1999", "ms", "warning"),
        ("statement_timeout", "2000", "ms", None),
        ("lock_timeout", "999", "ms", "warning"),
        ("transaction_timeout", "9", "s", "warning"),
        ("idle_in_transaction_session_timeout", "10", "ms", "note"),
        ("tcp_user_timeout", "1000", "ms", "warning"),
        ("tcp_user_timeout", "0", "ms", None),
    ],
)
def test_time_limit_of_the_server(name: str, value: str, unit: str, level: str | None) -> None:
    parameters = {**POSTGRES.parameters, name: Parameter(value, unit, "user")}
    found = found_in(ledger=replace(POSTGRES, parameters=parameters))
    assert {check: str(one.level) for check, one in found.items()} == ({f"ledger.{name}": level} if level else {})
    assert all(one.to_type == f"alter role app reset {name};" for one in found.values())


@pytest.mark.parametrize(
    ("source", "to_type"),
    [
        ("user", "alter role app reset idle_session_timeout;"),
        ("database", "alter database ops reset idle_session_timeout;"),
        ("database user", "alter role app in database ops reset idle_session_timeout;"),
        ("client", "take idle_session_timeout out of the options in the DSN, or of PGOPTIONS"),
        ("configuration file", "alter role app set idle_session_timeout = 0;"),
    ],
)
def test_what_to_type_depends_on_where_it_was_set(source: str, to_type: str) -> None:
    parameters = {"idle_session_timeout": Parameter("5000", "ms", source)}
    found = found_in(ledger=replace(POSTGRES, parameters=parameters))["ledger.idle_session_timeout"]
    assert found.to_type == to_type


def test_idle_limit_is_measured_by_the_lease_that_is_configured() -> None:
    parameters = {"idle_session_timeout": Parameter("40000", "ms", "user")}
    ledger = replace(POSTGRES, parameters=parameters)
    assert levels(ledger=ledger, asked=Asked(lease=30 * SECOND)) == {}
    assert levels(ledger=ledger) == {"ledger.idle_session_timeout": "warning"}


def test_defaults_of_a_session_that_do_no_harm_are_notes() -> None:
    parameters = {
        "default_transaction_isolation": Parameter("serializable", None, "user"),
        "synchronous_commit": Parameter("off", None, "database"), "fsync": Parameter("off"),
    }  # fmt: skip
    assert levels(ledger=replace(POSTGRES, parameters=parameters)) == {
        "ledger.isolation": "note", "ledger.commit": "note", "ledger.fsync": "warning",
    }  # fmt: skip


def test_pooler_is_a_problem_for_a_lock_of_the_session() -> None:
    assert levels(ledger=replace(POSTGRES, answered_by=8), asked=Asked(lock="advisory")) == {"ledger.pooler": "problem"}


def test_durable_needs_a_standby_to_wait_for() -> None:
    assert levels(ledger=POSTGRES, asked=Asked(durable=True)) == {"ledger.standbys": "warning"}


@pytest.mark.parametrize(
    ("names", "connected", "level"),
    [
        ("nobody", (), "problem"),
        ("nobody", ("s1",), "problem"),
        ("s2, s1", ("S1",), None),
        ("*", (), "problem"),
        ("*", ("s1",), None),
        ("2 (s1, s2)", ("s1",), "problem"),
        ("FIRST 2 (s1, s2)", ("s1", "s2"), None),
        ("any 2 (s1, s2, s3)", ("s1", "s9"), "problem"),
        ('ANY 1 ("a, ""b""", first)', ('a, "b"',), None),
        ('"first 2 (s1)"', ("s1",), "problem"),
    ],
)
@pytest.mark.parametrize("commit", ["on", "off"])
def test_standby_that_every_commit_waits_for_is_connected(
    names: str, connected: tuple[str, ...], level: str | None, commit: str
) -> None:
    parameters = {"synchronous_standby_names": Parameter(names), "synchronous_commit": Parameter(commit)}
    ledger = replace(POSTGRES, parameters=parameters, standbys=connected)
    found = levels(ledger=ledger, asked=Asked(durable=True))
    assert found.get("ledger.standbys") == level
    assert "ledger.standbys" not in levels(ledger=replace(ledger, in_recovery=True))


def test_rights_that_are_missing_are_granted_by_what_it_says() -> None:
    def lacking(role: str, *rights: Right) -> dict[str, Diagnosis]:
        return found_in(ledger=replace(POSTGRES, role=role, missing=rights))

    run = [Right("run", "insert", "cronguard.job"), Right("run", "update", "cronguard.job")]
    found = lacking("app", *run)["ledger.rights_run"]
    assert (found.level, found.to_type) == (Level.PROBLEM, "grant insert, update on cronguard.job to app;")
    many = [Right("run", "select", f"cronguard.table_{number}") for number in range(4)]
    assert lacking("app", *many)["ledger.rights_run"].to_type.startswith("cronguard init --print-sql")
    uses = {
        "supervise": "warning",
        "once": "warning",
        "reset": "note",
        "prune": "note",
        "drill": "note",
        "init": "note",
    }
    rights = [Right(use, "delete", "cronguard.run") for use in uses]
    assert {check: str(one.level) for check, one in lacking("app", *rights).items()} == {
        f"ledger.rights_{use}": level for use, level in uses.items()
    }


@pytest.mark.parametrize(
    ("ahead", "round_trip", "level"),
    [
        (0.0, 0.1, None),
        (1.2, 0.1, "warning"),
        (1.2, 0.5, None),  # within the uncertainty, of half of the round trip
        (-1.2, 0.1, "warning"),
        (5.9, 0.1, "warning"),
        (6.2, 0.1, "problem"),
        (-90.0, 0.0, "problem"),
    ],
)
def test_clock_that_is_off(ahead: float, round_trip: float, level: str | None) -> None:
    half = timedelta(seconds=round_trip / 2)
    middle = NOW + timedelta(seconds=ahead)
    ledger = replace(POSTGRES, reading=Reading(middle - half, NOW, middle + half))
    assert levels(ledger=ledger) == ({"clock.host": level} if level else {})


def test_bounds_of_the_clock_are_a_second_and_the_echo_window_of_every_minute() -> None:
    assert (CLOCK_WARNING, CLOCK_PROBLEM) == (SECOND, 6 * SECOND)


HOSTS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"pid": 1}, {"process.pid": "note"}),
    ({"inside": ("a PID namespace",)}, {"process.namespace": "note"}),
    ({"name": "localhost.localdomain"}, {"process.host": "note"}),
    ({"user": None}, {"process.user": "note"}),
    ({"adopts": False}, {"process.subreaper": "problem"}),
    ({"lists_children": False}, {"process.proc": "problem"}),
    ({"hidepid": "invisible"}, {"process.proc": "note"}),
    ({"oom_counter": None}, {"process.memory": "note"}),
    ({"open_files": None, "processes": None}, {}),
    ({"open_files": 64}, {"process.limits": "warning"}),
    ({"open_files": 16}, {"process.limits": "problem"}),
    ({"processes": 40}, {"process.limits": "warning"}),
    ({"processes": 10}, {"process.limits": "problem"}),
    ({"processes": 10, "uid": 0}, {}),
]


@pytest.mark.parametrize(("planted", "expected"), HOSTS)
def test_fact_about_the_host(planted: dict[str, Any], expected: dict[str, str]) -> None:
    assert levels(host=replace(HOST, **planted)) == expected


REFUSED = "Permission denied"
STATES: list[tuple[State, dict[str, str]]] = [
    (State((replace(ROOM, failure=REFUSED), TMP)), {"state.folder": "warning"}),
    (State((replace(ROOM, failure=REFUSED), replace(TMP, failure=REFUSED))), {"state.folder": "problem"}),
    (State((TMP,), "HOME is not set"), {"state.folder": "warning"}),
    (State((replace(ROOM, free_bytes=1 << 20), TMP)), {"state.space": "problem"}),
    (State((replace(ROOM, free_bytes=50 << 20), TMP)), {"state.space": "warning"}),
    (State((replace(ROOM, free_files=0), TMP)), {"state.space": "problem"}),
    (State((replace(ROOM, free_files=None), TMP)), {}),
    (State((replace(ROOM, free_bytes=None), TMP)), {"state.space": "note"}),
    (State((ROOM, TMP), waiting=("job 1", "job 2")), {"state.results": "warning"}),
    (State((ROOM, TMP), strangers=1), {"state.strangers": "note"}),
]


@pytest.mark.parametrize(("state", "expected"), STATES)
def test_fact_about_the_folders(state: State, expected: dict[str, str]) -> None:
    assert levels(state=state) == expected


def test_facts_about_settings_zone_and_output() -> None:
    unknown = Asked(unknown_variables={"CRONGUARD_DNS": "CRONGUARD_DSN", "CRONGUARD_XYZ": ""})
    assert levels(asked=unknown) == {"settings.variables": "warning"}
    found = found_in(zone=Zone("", "there is no time zone data; install tzdata"))["zone.data"]
    assert (found.level, found.what, found.to_type) == (Level.PROBLEM, "there is no time zone data", "install tzdata")
    assert levels(output=Output("ISO-8859-1", "unsupported")) == {
        "output.encoding": "note", "output.locale": "note",
    }  # fmt: skip
    assert levels(output=Output("UTF-8")) == {}


def test_samples_of_two_years_lie_close_enough_to_see_each_change_of_clocks() -> None:
    instants = sampled_instants(NOW)
    assert instants[-1] - instants[0] > timedelta(days=700)
    assert max(later - one for one, later in pairwise(instants)) <= timedelta(days=7)


# --- Under cron -------------------------------------------------------------------------------------------------------

CRON = UnderCron("/usr/bin:/bin", "/usr/bin/cronguard", "/usr/bin/cronguard", (), "/home/app", "/home/app", "app")
HERE = [
    ok("ledger.reached", "Postgres at db"),
    ok("state.space", "7 GiB are free"),
    note("output.encoding", "ASCII", ""),
]


def under(it: UnderCron, there: Sequence[Diagnosis] = HERE) -> dict[str, str]:
    return {one.check: str(one.level) for one in cron_checked(it, HERE, there) if one.level is not Level.OK}


def test_where_nothing_differs_that_is_said() -> None:
    assert under(CRON) == {}
    assert [one.check for one in cron_checked(CRON, HERE, HERE)] == ["cron.program", "cron.differences"]


CRONS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"program": None}, {"cron.program": "problem"}),
    ({"only_here": ("CRONGUARD_DSN",)}, {"cron.variables": "note"}),  # the same ledger by another way
    ({"only_here": ("CRONGUARD_LEASE",)}, {"cron.variables": "warning"}),
    ({"user": None, "home": None}, {"cron.user": "warning"}),
    ({"home": None}, {"cron.home": "warning"}),
    ({"home_here": "/root"}, {"cron.home": "note"}),
    ({"home_here": None}, {"cron.home": "note"}),
    ({"locale_here": "de_DE.UTF-8"}, {"cron.locale": "note"}),
    ({"failure": "it took too long"}, {"cron.checkup": "problem"}),
    ({"crontabs": (Crontab("/etc/cron.d/x", {"CRONGUARD_DSN_FILE": "/etc/dsn"}),)}, {}),
]


@pytest.mark.parametrize(("planted", "expected"), CRONS)
def test_fact_about_cron(planted: dict[str, Any], expected: dict[str, str]) -> None:
    assert under(replace(CRON, **planted)) == expected


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (ok("ledger.reached", "SQLite, for this host alone"), {"cron.ledger.reached": "problem"}),
        (problem("ledger.reached", "no answer", "why", ""), {"cron.ledger.reached": "problem"}),
        (ok("state.space", "6 GiB are free"), {}),  # it is never twice the same
        (warning("state.space", "6 MiB are free", "why", ""), {"cron.state.space": "warning"}),
        (ok("output.encoding", "UTF-8"), {"cron.output.encoding": "note"}),
        (note("process.user", "uid 7 has no name", "why"), {"cron.process.user": "note"}),
        (ok("ledger.integrity", "sound"), {}),
    ],
)
def test_finding_that_is_another_under_cron(there: Diagnosis, expected: dict[str, str]) -> None:
    kept = [one for one in HERE if one.check != there.check]
    assert under(CRON, [*kept, there]) == expected


def test_variable_that_leads_to_another_ledger_is_a_problem_and_its_value_is_not_told() -> None:
    there = [ok("ledger.reached", "SQLite, for this host alone")]
    found = {one.check: one for one in cron_checked(replace(CRON, only_here=("CRONGUARD_DSN",)), HERE, there)}
    assert found["cron.variables"].level is Level.PROBLEM
    assert "CRONGUARD_DSN_FILE=" in found["cron.variables"].to_type


@pytest.mark.parametrize(
    ("is_local_here", "ledger", "folder", "level"),
    [
        (True, "SQLite at home", "at home", "problem"),
        (True, "Postgres at db", "here", "note"),  # by --state-dir, say
        (False, "SQLite at home", "at home", "warning"),  # for the ledger the DSN is missing
        (False, "Postgres at db", "at home", "warning"),
        (False, "Postgres at db", "here", "note"),
    ],
)
def test_state_directory_decides_about_the_ledger_only_where_that_is_in_it(
    is_local_here: bool, ledger: str, folder: str, level: str
) -> None:
    it = replace(CRON, only_here=("CRONGUARD_STATE_DIR",), is_local_here=is_local_here)
    here = [ok("ledger.reached", "Postgres at db"), ok("state.folder", "here")]
    there = [ok("ledger.reached", ledger), ok("state.folder", folder)]
    found = {one.check: one for one in cron_checked(it, here, there)}
    assert found["cron.variables"].level == Level(level)


# --- The list ---------------------------------------------------------------------------------------------------------


def test_findings_are_in_the_order_of_their_subjects_the_worst_first() -> None:
    found = [ok("cron.a", ""), ok("ledger.a", ""), problem("ledger.b", "", "", ""), note("settings.a", "", "")]
    assert [one.check for one in in_order(found)] == ["settings.a", "ledger.b", "ledger.a", "cron.a"]
    assert (is_sound(found), is_sound(found[:2])) == (False, True)


def test_document_is_read_back_as_it_was_written() -> None:
    found = problem("ledger.b", "what", "why", "type")
    assert diagnosis_in(document_of(found)) == found
    with pytest.raises(ValueError, match="fatal"):
        diagnosis_in(document_of(found) | {"level": "fatal"})
