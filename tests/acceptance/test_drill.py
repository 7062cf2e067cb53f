"""cronguard drill: held against each ledger; what it says of promises that hold, and of one that does not; what it
leaves, however it ends, which is nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.acceptance.looking import POWERLESS, change, ledger_file, tables
from tests.conftest import POOLED, Database
from tests.rig.guard import Guard, code_of
from tests.rig.postgres import PASSWORDS, Server
from tests.rig.supervised import nobody_left
from tests.rig.terminal import CTRL_C, Terminal
from tests.rig.waiting import wait_until

LONG = 240.0
PATIENT = 20.0
ANYWHERE = ("contention", "kill-holder", "kill-guard", "freeze", "two-supervisors")
SCENARIOS = ("contention", "kill-holder", "kill-guard", "freeze", "skewed-clock", "cut", "two-supervisors")
TAKEN_OVER = {"kill-holder", "kill-guard", "freeze", "cut", "two-supervisors"}


@pytest.fixture
def pooled_guard(postgres_guard: Guard, database: Database, request: pytest.FixtureRequest) -> Guard:
    """cronguard on a ledger in Postgres, by way of a pooler that gives each transaction whatever session is free."""
    return postgres_guard.with_env(CRONGUARD_DSN=database.through(request.getfixturevalue("pooler")))


@pytest.fixture(params=["sqlite", "postgres", POOLED])
def anywhere(request: pytest.FixtureRequest) -> Guard:
    found: Guard = request.getfixturevalue(f"{request.param}_guard")
    assert found.run("init").code == 0
    assert found.run("run", "--key", "job", "--", "true").code == 0
    return found


def drill(guard: Guard, *options: str, code: int = 0, **variables: str) -> dict[str, Any]:
    """Hold one; the document it prints."""
    result = guard.with_env(**variables).run("drill", "--rounds", "1", "--json", *options, within=LONG)
    assert result.code == code, (result.out, result.err)
    return dict(json.loads(result.out))


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {found["name"]: found for found in document["scenarios"]}


def rows(guard: Guard, database: Database | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table; also of a ledger that is reached by a pooler."""
    straight = guard.with_env(CRONGUARD_DSN=database.dsn) if database else guard
    return {name: found for name, found in tables(straight).items() if name != "sqlite_sequence"}


def everything(guard: Guard, request: pytest.FixtureRequest) -> dict[str, list[tuple[Any, ...]]]:
    is_file = "CRONGUARD_DSN" not in guard.environment
    return rows(guard, None if is_file else request.getfixturevalue("database"))


# --- Each failure, on each ledger -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_scenario_keeps_the_promise_and_leaves_nothing(
    anywhere: Guard, name: str, request: pytest.FixtureRequest
) -> None:
    before = everything(anywhere, request)
    document = drill(anywhere, "--only", name)
    assert everything(anywhere, request) == before
    nobody_left(anywhere.folder, within=PATIENT)
    (found,) = document["scenarios"]
    if "CRONGUARD_DSN" not in anywhere.environment and name not in ANYWHERE:
        assert (found["applies"], found["verdict"], found["runs_started"]) == (False, "does not apply", 0)
        return
    assert (found["name"], found["verdict"], found["why"]) == (name, "kept", None)
    assert found["runs_started"] == (2 if name in TAKEN_OVER else 1)
    assert (found["duplicates_with_guard"], found["lost_with_guard"]) == (0, 0)
    assert found["duplicates_without_guard"] > 0
    assert len(found["recovered_in_seconds"]) == (name in TAKEN_OVER)


def test_a_password_that_only_a_file_knows_by_the_port_opens_the_detour_too(
    postgres_guard: Guard, database: Database, tmp_path: Path
) -> None:
    port, secret = database.server.port, PASSWORDS["app"].replace(":", r"\:")
    file = tmp_path / "passwords"
    file.write_text(f"127.0.0.1:{port}:{database.name}:app:{secret}\n")
    file.chmod(0o600)
    guard = postgres_guard.with_env(CRONGUARD_DSN=f"postgresql://app@127.0.0.1:{port}/{database.name}")
    assert drill(guard, "--only", "cut", PGPASSFILE=str(file))["kept"]


def test_temporary_files_may_lie_deeper_than_a_socket_may(postgres_guard: Guard, tmp_path: Path) -> None:
    deep = tmp_path / ("deep-" * 20)
    deep.mkdir()
    assert drill(postgres_guard, "--only", "cut", TMPDIR=str(deep))["kept"]
    assert list(deep.iterdir()) == []


def test_rounds_and_replicas_are_as_many_as_were_asked_for(sqlite_guard: Guard) -> None:
    options = ("--only", "contention", "--only", "kill-guard", "--replicas", "2", "--rounds", "2")
    document = drill(sqlite_guard, *options)
    assert [document[name] for name in ("schema", "kept", "replicas", "rounds")] == ["cronguard.drill/1", True, 2, 2]
    found = by_name(document)
    assert found["contention"]["runs_started"] == 2
    assert found["kill-guard"]["runs_started"] == 4  # the guardian killed in one round, the worker in the other
    assert found["kill-guard"]["verdict"] == "kept"


def test_what_is_configured_for_jobs_is_nothing_to_a_drill(sqlite_guard: Guard, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[defaults]\nstart_by = "00:00"\nschedule = "0 0 29 2 *"\nlock = "advisory"\nattempts = 7\n')
    inside = {"CRONGUARD_TOKEN": "1", "CRONGUARD_LEASE": "1h", "CRONGUARD_CONFIG": str(config)}
    assert drill(sqlite_guard, "--only", "contention", **inside)["kept"]


# --- What it says -----------------------------------------------------------------------------------------------------


def test_a_table_for_people_and_before_it_how_long_it_will_take(sqlite_guard: Guard) -> None:
    result = sqlite_guard.run("drill", "--rounds", "1", "--only", "contention", "--only", "cut", within=LONG)
    assert result.code == 0
    head, contention, cut = result.out.splitlines()
    assert head.split("  ")[0] == "SCENARIO"
    assert contention.split()[:3] == ["contention", "1", "2"]
    assert contention.endswith("kept")
    assert cut.endswith("does not apply: a ledger in a file has no connection")
    assert result.only_line.startswith("cronguard: drill: 2 scenarios of 1 round with 3 replicas on the ledger at ")
    assert result.only_line.endswith(": about 3s")


LIE = """create trigger lie after insert on lease begin
           delete from run where key = new.key; delete from lease where key = new.key; end"""


def test_a_promise_that_breaks_is_seen(sqlite_guard: Guard) -> None:
    """A ledger that forgets at once whom it has granted a run."""
    assert sqlite_guard.run("init").code == 0
    change(sqlite_guard, LIE)
    result = sqlite_guard.run("drill", "--rounds", "1", "--only", "contention", within=LONG)
    assert result.code == 1
    assert "BROKEN: " in result.out
    (found,) = drill(sqlite_guard, "--only", "contention", code=1)["scenarios"]
    assert (found["verdict"], found["duplicates_with_guard"] > 0 or found["lost_with_guard"] > 0) == ("broken", True)


CARELESS = """from cronguard.services import drill_round
drill_round._RUN += ("--on-silence", "continue")
from cronguard.__main__ import main
main()"""


def test_a_guard_that_goes_on_in_silence_is_caught_by_the_cut(postgres_guard: Guard) -> None:
    """Nobody lies here: the replicas are told to be careless, and two commands are alive at once."""
    before = rows(postgres_guard)
    done = subprocess.run(
        [sys.executable, "-c", CARELESS, "drill", "--only", "cut", "--rounds", "1", "--json"],
        env=dict(postgres_guard.environment), cwd=postgres_guard.folder, capture_output=True, text=True, timeout=LONG,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    (found,) = json.loads(done.stdout)["scenarios"]
    assert (found["verdict"], found["overlaps_with_guard"]) == ("broken", 1)
    assert found["why"].startswith("two at once (1)")
    assert rows(postgres_guard) == before


UNABLE = """import sys
from cronguard.services import drill_round
drill_round._RUN += tuple(sys.argv.pop(1).split())
from cronguard.__main__ import main
main()"""


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("--dsn postgresql://127.0.0.1:1/ops --db-wait 1s", 75, "connection refused"),
        ("--no-such-option", 125, "no such option: --no-such-option"),
    ],
)
@pytest.mark.parametrize("name", ["contention", "two-supervisors"])
def test_replicas_that_cannot_begin_break_no_promise(
    sqlite_guard: Guard, name: str, options: str, code: int, said: str
) -> None:
    assert sqlite_guard.run("init").code == 0
    before = rows(sqlite_guard)
    done = subprocess.run(
        [sys.executable, "-c", UNABLE, options, "drill", "--only", name, "--rounds", "1"],
        env=dict(sqlite_guard.environment), cwd=sqlite_guard.folder, capture_output=True, text=True, timeout=LONG,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, "")
    *_, last = done.stderr.splitlines()
    assert last.startswith(f"cronguard: {name}: no replica could begin, one says: ")
    assert said in last
    assert rows(sqlite_guard) == before


# --- What it leaves ---------------------------------------------------------------------------------------------------


def start_and_wait(guard: Guard, name: str, *options: str, round_number: int = 1) -> subprocess.Popen[str]:
    """A drill whose key is in the ledger, and whose commands are under way, in the round of this number."""
    process = guard.start("drill", "--only", name, *options)
    wait_until(
        lambda: [row for row in tables(guard).get("lease", ()) if str(row[0]).endswith(f"-{round_number}")],
        120, every=0.1, saying="a replica holds the run",
    )  # fmt: skip
    return process


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=lambda signum: signum.name)
def test_interrupted_it_leaves_nothing_in_the_ledger_and_nobody_alive(guard: Guard, signum: signal.Signals) -> None:
    guard.run("init")
    assert guard.run("run", "--key", "job", "--", "true").code == 0
    before = rows(guard)
    process = start_and_wait(guard, "freeze")
    process.send_signal(signum)
    assert code_of(process, 60) == 128 + signum
    assert (rows(guard), process.stdout.read() if process.stdout else "") == (before, "")
    nobody_left(guard.folder, within=PATIENT)


def test_interrupted_it_shows_what_it_has_shown_so_far(sqlite_guard: Guard) -> None:
    process = start_and_wait(sqlite_guard, "contention", "--only", "freeze", "--rounds", "2", round_number=3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, [line.split()[0] for line in out.splitlines()]) == (130, ["SCENARIO", "contention"])
    assert out.endswith("kept\n")
    so = "interrupted by signal 2: the drill is stopped, and what it wrote is removed"
    assert err.splitlines()[-1] == f"cronguard: {so}"
    process = start_and_wait(sqlite_guard, "contention", "--json", round_number=3)
    process.send_signal(signal.SIGINT)
    document = json.loads(process.communicate(timeout=60)[0])
    (found,) = document["scenarios"]
    assert (document["kept"], document["cut_short_by"], found["verdict"]) == (True, so, "kept")
    assert document["rounds"] > found["rounds_played"] >= 2


def test_a_ledger_that_goes_away_takes_nothing_back_of_what_was_shown(
    postgres_guard: Guard, own_postgres: Server
) -> None:
    """The key of the round that was on stays with it, and is named."""
    host = postgres_guard.with_env(
        CRONGUARD_DSN=own_postgres.dsn(own_postgres.create_database()), CRONGUARD_DB_WAIT="1s"
    )
    assert host.run("init").code == 0
    process = start_and_wait(host, "contention", "--only", "freeze", "--rounds", "2", round_number=3)
    own_postgres.stop("immediate")
    out, err = process.communicate(timeout=LONG)
    assert (process.returncode, [line.split()[0] for line in out.splitlines()]) == (75, ["SCENARIO", "contention"])
    own_postgres.start()
    (left,) = {row[0] for row in rows(host)["job"]}
    assert f"the key {left} is left there; remove it with: cronguard drill --clean" in err
    assert (host.run("drill", "--clean").code, rows(host)["job"]) == (0, [])


def test_at_a_terminal_one_lane_a_replica_until_ctrl_c(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run("init").code == 0
    before = rows(sqlite_guard)
    with Terminal(sqlite_guard.folder, sqlite_guard.environment) as terminal:
        terminal.type(f"stty cols 80; TERM=xterm {sys.executable} -m cronguard drill --only freeze")
        terminal.read("without guard, round 1 of 5, freeze: the holder stands still", 60)
        terminal.read("with guard, round 1 of 5, freeze: the holder stands still", 60)
        terminal.read(r"[.]{3}.*waits", 60)
        terminal.read(r"~~~.*frozen", 60)
        terminal.press(CTRL_C)
        terminal.read("ready> ", 60)
        assert terminal.last_code() == 130
    assert rows(sqlite_guard) == before
    nobody_left(sqlite_guard.folder, within=PATIENT)


def test_what_a_killed_drill_has_left_is_named_by_the_next_and_removed_when_that_is_asked_for(guard: Guard) -> None:
    guard.run("init")
    for key in ("job", "drill-report", "drill-00000000-0000-0000-0000-000000000000"):
        assert guard.run("run", "--key", key, "--", "true").code == 0
    before = rows(guard)
    process = start_and_wait(guard.with_env(TMPDIR=str(guard.folder)), "freeze")
    process.kill()
    nobody_left(guard.folder, within=LONG)  # its replicas come to their end without it, the frozen one too
    (left,) = {row[0] for row in rows(guard)["job"]} - {row[0] for row in before["job"]}
    result = guard.run("drill", "--rounds", "1", "--only", "contention", within=LONG)
    assert result.code == 0
    assert f"keys of another drill are there ({left})" in result.err
    assert "cronguard drill --clean" in result.err
    assert (guard.run("drill", "--clean").code, rows(guard)) == (0, before)


# --- Rights -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def ops(postgres_guard: Guard, database: Database) -> Iterator[Guard]:
    """As a role that has the grants that `init --print-sql` prints, and no right to create or to delete anything."""
    printed = postgres_guard.run("init", "--print-sql").out.splitlines()
    grants = [line.removeprefix("-- ") for line in printed if line.startswith("-- grant ")]
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        connection.execute("drop role if exists ops_role")
        connection.execute("create role ops_role login")
        connection.execute("\n".join(grants).encode())
    yield postgres_guard.with_env(CRONGUARD_DSN=database.server.dsn(database.name, user="ops_role"))
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        connection.execute("drop owned by ops_role; drop role ops_role")


def test_a_role_that_may_not_remove_is_told_what_to_grant_before_anything_starts(
    ops: Guard, postgres_guard: Guard, database: Database
) -> None:
    before = rows(postgres_guard)
    refused = ops.run("drill", "--rounds", "1", "--only", "kill-guard")
    assert (refused.code, refused.out) == (125, "")
    assert "this role may not delete what a drill writes to the ledger at " in refused.only_line
    grant = refused.only_line.partition("; have its owner type: ")[2]
    tables_of_others = ("recovery", "attempt", "skip", "run", "job")
    assert grant == f"grant delete on {', '.join(f'cronguard.{name}' for name in tables_of_others)} to ops_role"
    assert rows(postgres_guard) == before
    with database.connect() as owner:
        owner.execute(grant.encode())
    assert drill(ops, "--only", "kill-guard", "--only", "two-supervisors")["kept"]
    assert rows(postgres_guard) == before


# --- Bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--replicas", "1"), "--replicas: '1' is not a whole number from 2 to 20"),
        (("--replicas", "many"), "--replicas: 'many' is not a whole number from 2 to 20"),
        (("--rounds", "0"), "--rounds: '0' is not a whole number from 1 to 1000"),
        (("--only", "earthquake"), f"--only: there is no scenario 'earthquake'; name one of {', '.join(SCENARIOS)}"),
        (("--within", "soon"), "--within: 'soon' is not a duration; write it like 90s, 15m, 1h30m, 2d or 1w"),
        (
            ("--within", "10s", "--only", "kill-holder"),
            "--within: 10s is less than what the leases need: 1 scenario of 5 rounds take about 50s; "
            "allow that, or ask for less by --rounds or --only",
        ),
    ],
)
def test_bad_input_gets_one_line(sqlite_guard: Guard, options: tuple[str, ...], said: str) -> None:
    result = sqlite_guard.run("drill", *options)
    assert (result.code, result.out, result.only_line) == (125, "", f"cronguard: {said}")
    assert not ledger_file(sqlite_guard).exists()


def test_a_ledger_without_a_schema_is_refused(bare_guard: Guard, database: Database) -> None:
    result = bare_guard.with_env(CRONGUARD_DSN=database.dsn).run("drill")
    assert result.code == 125
    assert result.only_line.endswith("has no cronguard schema yet; create it with: cronguard init")


def test_no_ledger_is_refused_where_one_on_this_host_would_guard_nothing(sqlite_guard: Guard) -> None:
    result = sqlite_guard.with_env(KUBERNETES_SERVICE_HOST="10.0.0.1").run("drill")
    assert result.code == 125
    assert "no ledger is configured" in result.only_line


def test_a_ledger_that_does_not_answer_is_75(bare_guard: Guard) -> None:
    result = bare_guard.with_env(CRONGUARD_DSN="postgresql://127.0.0.1:1/ops", CRONGUARD_DB_WAIT="1s").run("drill")
    assert (result.code, result.out) == (75, "")
    assert "connection refused" in result.only_line


def test_a_ledger_that_may_only_be_read_is_refused(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run("init").code == 0
    ledger_file(sqlite_guard).chmod(0o444)
    result = sqlite_guard.under(*POWERLESS).run("drill")
    assert (result.code, result.out) == (125, "")
    assert "check its owner and mode" in result.only_line


def test_the_help_names_every_scenario(bare_guard: Guard) -> None:
    said = bare_guard.run("drill", "--help").out
    assert [name for name in SCENARIOS if name not in said] == []
