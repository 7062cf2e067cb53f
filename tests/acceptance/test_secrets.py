"""Passwords: not in `ps`, not in a message, not in the ledger, not in a file that everybody can read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.acceptance.looking import POWERLESS, STARTS, UNKNOWN_USER, configured, refusal, tables
from tests.conftest import Database
from tests.rig.den import free_port
from tests.rig.guard import Guard
from tests.rig.postgres import PASSWORDS

KEY = ("run", "--key", "nightly")
REAL = PASSWORDS["app"][:4]  # of the tests' own server; the same with and without escapes
CANARY = "tw33t"  # stands in every piece into which a bad password may be cut

# What the command's ancestors look like to everybody on this host.
LOOKS_AT_PS = (
    "--", "sh", "-c", "p=$$; while [ $p -gt 1 ]; do tr '\\0' ' ' </proc/$p/cmdline; echo; "
    "p=$(sed -n 's/^PPid:.//p' /proc/$p/status); done",
)  # fmt: skip


@pytest.fixture
def tcp_guard(postgres_guard: Guard, database: Database) -> Guard:
    """A ledger that asks for a password; the variable holds it."""
    return postgres_guard.with_env(CRONGUARD_DSN=database.tcp_dsn)


@pytest.mark.parametrize("place", ["variable", "file", "configuration"])
def test_ps_shows_no_password(postgres_guard: Guard, database: Database, tmp_path: Path, place: str) -> None:
    guard, file = postgres_guard.with_env(CRONGUARD_DSN=None), tmp_path / "dsn"
    if place == "variable":
        guard = guard.with_env(CRONGUARD_DSN=database.tcp_dsn)
    elif place == "file":
        file.write_text(database.tcp_dsn + "\n")
        file.chmod(0o600)
        guard = guard.with_env(CRONGUARD_DSN_FILE=str(file))
    else:
        guard, _ = configured(guard, tmp_path, f'[defaults]\ndsn = "{database.tcp_dsn}"\n')
    result = guard.run(*KEY, *LOOKS_AT_PS)
    assert (result.code, result.err) == (0, "")
    assert "cronguard run --key nightly" in result.out
    assert REAL not in result.out


def test_password_in_an_option_is_warned_of_once(postgres_guard: Guard, database: Database) -> None:
    guard = postgres_guard.with_env(CRONGUARD_DSN=None)
    result = guard.run(*KEY, "--dsn", database.tcp_dsn, "--", "true")
    assert result.code == 0
    assert result.only_line == (
        "cronguard: warning: everybody on this host can read the password in --dsn (ps); "
        "use CRONGUARD_DSN or CRONGUARD_DSN_FILE"
    )


@pytest.mark.parametrize("form", ["url", "query", "libpq"])
def test_each_way_of_writing_a_password_is_known_as_one(sqlite_guard: Guard, form: str) -> None:
    dsn = {
        "url": f"postgresql://app:{CANARY}@127.0.0.1:1/ops",
        "query": f"postgresql://127.0.0.1:1/ops?user=app&password={CANARY}",
        "libpq": f"host=127.0.0.1 port=1 user=app password='{CANARY}'",
    }[form]
    result = sqlite_guard.run(*KEY, "--db-wait", "0.1s", "--dsn", dsn, *STARTS)
    assert result.code == 75
    assert "can read the password in --dsn" in result.err
    assert CANARY not in result.err


def test_option_without_a_password_is_not_warned_of(postgres_guard: Guard, database: Database) -> None:
    guard = postgres_guard.with_env(CRONGUARD_DSN=None)
    assert guard.run(*KEY, "--dsn", database.dsn, "--", "true").err == ""


# --- Messages ---------------------------------------------------------------------------------------------------------

BAD_PASSWORD = f"{CANARY}@{CANARY}#{CANARY}%{CANARY}:{CANARY}"


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://app:{BAD_PASSWORD}@127.0.0.1:1/ops",
        f"postgresql://app:{CANARY}/{CANARY}@127.0.0.1:1/ops",
        f"postgresql://app:1/{CANARY}?{CANARY}@127.0.0.1:1/ops",
        f"postgresql://app:{CANARY} {CANARY}@127.0.0.1:1/ops",
        f"postgresql://app:{CANARY}\"{CANARY}'@{CANARY}@127.0.0.1:1/ops",
        f"postgresql://app:{CANARY}",
        f"postgresql://127.0.0.1:1/ops?pasword={CANARY}",
        f"postgresql://127.0.0.1:1/ops?{CANARY}@{CANARY}",
        f"postgres:app:{CANARY}@127.0.0.1/ops",
        f"mysql://app:{CANARY}@127.0.0.1/ops",
        f"'postgresql://app:{CANARY}@127.0.0.1/ops'",
        f"host=127.0.0.1 port=1 password={CANARY} {CANARY}",
        f"host=127.0.0.1 port=1 password='{CANARY}",
        f"host=app:{CANARY}@127.0.0.1",
        f"host=127.0.0.1 port={CANARY}",
        f"host=127.0.0.1 pasword={CANARY}",
        f"host=127.0.0.1 port=1 connect_timeout={CANARY}",
        f"host=127.0.0.1 port=1 sslmode={CANARY}",
        b"postgresql://app:tw33t\xff@127.0.0.1/ops",
    ],
)
def test_dsn_that_makes_no_sense_is_not_repeated(sqlite_guard: Guard, dsn: str | bytes) -> None:
    line = refusal(sqlite_guard.with_env(CRONGUARD_DSN=os.fsdecode(dsn)), *KEY, *STARTS)
    assert "DSN" in line
    assert CANARY not in line


@pytest.mark.parametrize("password", [f"{CANARY}:/@?#% '\"\\", f"{CANARY}?{CANARY}"])
def test_odd_password_reaches_the_server_whole_and_no_message(
    sqlite_guard: Guard, database: Database, password: str
) -> None:
    """Escaped as a URL wants it, and once more as a libpq string wants it: refused by the server, not by us."""
    server, name = database.server, database.name
    escaped = password.replace("\\", "\\\\").replace("'", "\\'")
    for dsn in (
        server.dsn(name, "tcp", password=password),
        f"host=127.0.0.1 port={server.port} dbname={name} user=app password='{escaped}'",
    ):
        result = sqlite_guard.with_env(CRONGUARD_DSN=dsn).run(*KEY, *STARTS)
        assert result.code == 75
        assert result.only_line == (
            "cronguard: nightly: nothing was started: "
            f"the ledger at 127.0.0.1:{server.port}/{name} cannot be reached: the password was refused; "
            "set CRONGUARD_DSN, CRONGUARD_DSN_FILE or dsn in the configuration"
        )


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"/test_": "/no_such_database_"}, 75, "there is no such database"),
        ({"//app:": "//nobody:"}, 75, "the password was refused"),
        ({"127.0.0.1": "no-such-host.invalid"}, 75, "the host's name is not known"),
        ({":PORT/": ":FREE/"}, 75, "connection refused"),
        ({"END": "?sslmode=require"}, 75, "the server does not offer TLS"),
        ({"END": "?options=-c%20no_such_setting%3D1"}, 75, "the server does not know a setting in the options"),
        ({}, 125, "has no cronguard schema yet; create it with: cronguard init"),
    ],
)
def test_what_the_driver_and_the_server_say_brings_no_password_out(
    sqlite_guard: Guard, database: Database, change: dict[str, str], code: int, said: str
) -> None:
    dsn = database.tcp_dsn + "END"
    for old, new in change.items():
        old = old.replace("PORT", str(database.server.port))
        assert old in dsn
        dsn = dsn.replace(old, new.replace("FREE", str(free_port())))
    result = sqlite_guard.with_env(CRONGUARD_DSN=dsn.removesuffix("END")).run(*KEY, "--db-wait", "5s", *STARTS)
    assert result.code == code
    assert said in result.only_line
    assert REAL not in result.only_line
    assert sqlite_guard.lines("started") == []


def test_views_and_dry_run_show_no_password(tcp_guard: Guard) -> None:
    assert tcp_guard.run(*KEY, "--", "true").code == 0
    for command in ((*KEY, "--dry-run", "--", "true"), ("history",), ("show", "nightly"), ("init",)):
        result = tcp_guard.run(*command)
        assert (result.code, result.err) == (0, "")
        assert REAL not in result.out


# --- The ledger, and files --------------------------------------------------------------------------------------------


def test_ledger_holds_no_password_whatever_happens(tcp_guard: Guard, database: Database) -> None:
    """Neither the DSN's nor one that the command was given; for what it prints there is --capture 0."""
    secret = ("--password", CANARY)
    tcp_guard.run(*KEY, "--capture", "0", "--", "sh", "-c", f"echo {CANARY} >&2; exit 3", *secret)
    tcp_guard.run(*KEY, "--", "true", *secret)
    tcp_guard.run(*KEY, "--rerun", "--", "true", *secret)
    started = tcp_guard.run("run", "--key", "other", "--", "no-such-command", *secret)
    assert started.code == 127
    assert CANARY not in started.only_line
    held = tables(tcp_guard.with_env(CRONGUARD_DSN=database.dsn))
    assert len(held["attempt"]) == 3
    assert len(held["skip"]) == 1
    text = json.dumps(held, default=str)
    assert "nightly" in text
    assert CANARY not in text
    assert REAL not in text
    assert quote(PASSWORDS["app"], safe="") not in text


def test_local_ledger_is_made_for_its_owner_alone(sqlite_guard: Guard, tmp_path: Path) -> None:
    assert sqlite_guard.run(*KEY, "--", "true").code == 0
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_dsn_file_that_others_can_read_is_refused(sqlite_guard: Guard, tmp_path: Path, mode: int) -> None:
    (tmp_path / "dsn").write_text(f"postgresql://app:{CANARY}@127.0.0.1/ops")
    (tmp_path / "dsn").chmod(mode)
    guard = sqlite_guard.with_env(CRONGUARD_DSN_FILE=str(tmp_path / "dsn")).under(*UNKNOWN_USER)
    assert refusal(guard, *KEY, *STARTS) == (
        f"cronguard: CRONGUARD_DSN_FILE: the DSN file {tmp_path}/dsn can be read by others; "
        f"type: chmod 600 {tmp_path}/dsn"
    )


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_dsn_file_for_its_owner_alone_is_taken(
    postgres_guard: Guard, database: Database, tmp_path: Path, mode: int
) -> None:
    (tmp_path / "dsn").write_text(database.tcp_dsn + "\n")
    (tmp_path / "dsn").chmod(mode)
    guard = postgres_guard.with_env(CRONGUARD_DSN=None, CRONGUARD_DSN_FILE=str(tmp_path / "dsn")).under(*UNKNOWN_USER)
    assert guard.run(*KEY, *STARTS).code == 0
    assert (guard.folder / "started").exists()


def test_dsn_file_that_cannot_be_read(sqlite_guard: Guard, tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("postgresql://127.0.0.1/ops")
    (tmp_path / "dsn").chmod(0)
    guard = sqlite_guard.with_env(CRONGUARD_DSN_FILE=str(tmp_path / "dsn")).under(*POWERLESS)
    line = refusal(guard, *KEY, *STARTS)
    assert line.endswith(f"CRONGUARD_DSN_FILE: the DSN file {tmp_path}/dsn cannot be read: Permission denied")
