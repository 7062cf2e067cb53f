"""A ledger that cannot be: an address that makes no sense, a file that is none, a place where one must not lie.

Exit code 125, one line, nothing started, nothing recorded.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cronguard.errors import CronguardError
from cronguard.stores.sqlite import refuse_network_file_system
from tests.acceptance.looking import POWERLESS, STARTS, configured, ledger_file, refusal
from tests.rig.guard import Guard

KEY = ("run", "--key", "nightly")


# --- The ledger's address ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("mysql://app@db/ops", "a DSN cannot begin with mysql://; write it as postgresql://host/database, "),
        ("db.example.com", "the DSN is not one that cronguard knows; write it as postgresql://host/database, "),
        ("postgresql:/db/ops", "the DSN is not one that cronguard knows; write it as"),
        ("postgresql://app:p@ss@db/ops", "the DSN is malformed; in a user or password write @ as %40"),
        ("postgresql://app:p/ss@db/ops", "the DSN is malformed; in a user or password write @ as %40, / as %2F"),
        ("postgresql://app:100%@db/ops", "the DSN is malformed; in a user or password write @ as %40, "),
        ("postgresql://app:%FF@db/ops", "the DSN is malformed"),
        ("postgresql://db:port/ops", "the DSN is malformed"),
        ("postgresql://[::1/ops", "the DSN is malformed"),
        ("postgresql://db/ops?sslmod=require", "the DSN is malformed; a libpq string is written like: host=db"),
        ("host=db password=two words", "the DSN is malformed; a libpq string is written like: host=db"),
        ("host=db password='open", "the DSN is malformed; a libpq string is written like: host=db"),
        ("hots=db", "the DSN is malformed; a libpq string is written like: host=db"),
        ("host=db port=five", "the host or port in the DSN is malformed; write it as"),
        ("sqlite://ledger.db", "an SQLite DSN needs an absolute path to a file; write it as sqlite:///var/lib/"),
        ("sqlite:///", "an SQLite DSN needs an absolute path to a file"),
        ("sqlite:///var/lib/", "an SQLite DSN needs an absolute path to a file"),
    ],
)
def test_dsn_that_cannot_be_read(sqlite_guard: Guard, dsn: str, said: str) -> None:
    assert f"cronguard: CRONGUARD_DSN: {said}" in refusal(sqlite_guard.with_env(CRONGUARD_DSN=dsn), *KEY, *STARTS)


@pytest.mark.parametrize("place", ["option", "file", "configuration"])
def test_dsn_is_refused_with_the_place_where_it_was_set(sqlite_guard: Guard, tmp_path: Path, place: str) -> None:
    guard, arguments, file = sqlite_guard, KEY, tmp_path / "dsn"
    file.write_text("mysql://db\n")
    file.chmod(0o600)
    if place == "option":
        arguments, origin = (*KEY, "--dsn", "mysql://db"), "--dsn"
    elif place == "file":
        arguments, origin = (*KEY, "--dsn-file", str(file)), "--dsn-file"
    else:
        guard, origin = configured(guard, tmp_path, '[defaults]\ndsn = "mysql://db"\n', 2)
        origin += ", dsn"
    assert f"cronguard: {origin}: a DSN cannot begin with mysql://" in refusal(guard, *arguments, *STARTS)


@pytest.mark.parametrize("option", ["sslmode=perhaps", "port=99999999", "target_session_attrs=any-old"])
def test_value_that_libpq_does_not_take_is_refused_at_once(sqlite_guard: Guard, option: str) -> None:
    guard = sqlite_guard.with_env(CRONGUARD_DSN=f"host=127.0.0.1 {option}")
    line = refusal(guard, *KEY, "--db-wait", "1h", *STARTS, within=20)
    assert "has a value that libpq does not take; set CRONGUARD_DSN, CRONGUARD_DSN_FILE or dsn" in line


@pytest.mark.parametrize(("text", "said"), [(None, "No such file or directory"), ("\n", "is empty"), ("", "is empty")])
def test_dsn_file_that_holds_nothing(sqlite_guard: Guard, tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "dsn"
    if text is not None:
        file.write_text(text)
        file.chmod(0o600)
    line = refusal(sqlite_guard.with_env(CRONGUARD_DSN_FILE=str(file)), *KEY, *STARTS)
    assert line.startswith(f"cronguard: CRONGUARD_DSN_FILE: the DSN file {file} ")
    assert said in line


@pytest.mark.parametrize("mark", ["KUBERNETES_SERVICE_HOST", "ECS_CONTAINER_METADATA_URI_V4", "NOMAD_ALLOC_ID"])
def test_orchestrator_without_a_dsn_gets_no_ledger_of_its_own(sqlite_guard: Guard, mark: str) -> None:
    guard = sqlite_guard.with_env(**{mark: "10.0.0.1"})
    line = refusal(guard, *KEY, *STARTS)
    assert f"no ledger is configured, and {mark} says that this is one of many containers" in line
    assert line.endswith("set CRONGUARD_DSN or CRONGUARD_DSN_FILE to a Postgres")
    assert not ledger_file(guard).exists()


# --- A file that cannot be the ledger ---------------------------------------------------------------------------------


def at(guard: Guard, path: Path) -> Guard:
    return guard.with_env(CRONGUARD_DSN=f"sqlite://{path}").under(*POWERLESS)


def test_file_that_is_no_database(bare_guard: Guard, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("some notes\n" * 100)
    line = refusal(at(bare_guard, path), *KEY, *STARTS)
    assert line == f"cronguard: {path} is not an SQLite database; move it away, or name another file"
    assert path.read_text() == "some notes\n" * 100


@pytest.mark.parametrize("asked", [(), ("--only-pending",)])
def test_database_of_somebody_elses_is_left_alone(bare_guard: Guard, tmp_path: Path, asked: tuple[str, ...]) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database:
        database.execute("create table songs (title text)")
    line = refusal(at(bare_guard, tmp_path / "ledger.db"), *KEY, *asked, *STARTS)
    assert line.endswith("has no cronguard schema yet; create it with: cronguard init")


def test_directory_in_the_place_of_the_ledger(bare_guard: Guard, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    line = refusal(at(bare_guard, tmp_path / "ledger.db"), *KEY, *STARTS)
    assert f"{tmp_path}/ledger.db" in line
    assert "cannot be" in line


def test_file_in_the_place_of_the_ledgers_folder(bare_guard: Guard, tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    line = refusal(at(bare_guard, tmp_path / "state" / "ledger.db"), *KEY, *STARTS)
    assert "cannot be made" in line
    assert "set CRONGUARD_STATE_DIR to a folder that can be written" in line


@pytest.mark.parametrize("locked", ["ledger.db", "ledger.db.lock"])
def test_ledger_that_may_only_be_read(sqlite_guard: Guard, locked: str) -> None:
    assert sqlite_guard.run("init").code == 0
    (ledger_file(sqlite_guard).parent / locked).chmod(0o444)
    line = refusal(sqlite_guard.under(*POWERLESS), *KEY, *STARTS)
    assert str(ledger_file(sqlite_guard)) in line
    assert "check its owner and mode" in line


def test_ledger_in_a_folder_that_cannot_be_written(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run("init").code == 0
    folder = ledger_file(sqlite_guard).parent
    ledger_file(sqlite_guard).with_name("ledger.db.lock").unlink()
    folder.chmod(0o555)
    line = refusal(sqlite_guard.under(*POWERLESS), *KEY, *STARTS)
    assert "cannot be written: Permission denied; check its owner and mode" in line


def test_new_ledger_in_a_folder_that_cannot_be_written(sqlite_guard: Guard, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o555)
    assert str(tmp_path / "state") in refusal(sqlite_guard.under(*POWERLESS), *KEY, *STARTS)


# --- Network file systems ---------------------------------------------------------------------------------------------

MOUNTS = """\
20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 20 0:40 / /home rw,relatime shared:1 - nfs4 server:/home rw,vers=4.2
31 30 8:2 / /home/local rw - xfs /dev/sdb1 rw
32 20 0:41 / /mnt/my\\040share rw - cifs //server/share rw
33 20 0:42 / /mnt/far rw - fuse.sshfs user@host:/ rw
34 20 0:43 / /mnt/nine rw - 9p share rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/app/ledger.db", "nfs4"),
        ("/home/ledger.db", "nfs4"),
        ("/mnt/my share/ledger.db", "cifs"),
        ("/mnt/far/a/ledger.db", "fuse.sshfs"),
        ("/mnt/nine/ledger.db", "9p"),
    ],
)
def test_network_file_system_is_refused(tmp_path: Path, path: str, kind: str) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    with pytest.raises(CronguardError) as refused:
        refuse_network_file_system(path, str(tmp_path / "mountinfo"))
    assert str(refused.value) == (
        f"the ledger {path} lies on a network file system ({kind}), whose locks do not hold between hosts; "
        "put it on a local disk, or set CRONGUARD_DSN to a Postgres"
    )
    assert refused.value.exit_code == 125


@pytest.mark.parametrize("path", ["/var/lib/ledger.db", "/home/local/ledger.db", "/homely/ledger.db", "/mnt/ledger.db"])
def test_local_file_system_is_not_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    refuse_network_file_system(path, str(tmp_path / "mountinfo"))


def test_unknown_mounts_are_no_reason_to_refuse(tmp_path: Path) -> None:
    refuse_network_file_system("/home/app/ledger.db", str(tmp_path / "no mountinfo"))
