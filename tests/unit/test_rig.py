"""The rig does what it says: a test that leans on a black hole must know that nothing gets out of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Database
from tests.rig import WISHES
from tests.rig.den import Den, at_home, free_port
from tests.rig.pgbouncer import PgBouncer
from tests.rig.postgres import Server
from tests.rig.processes import alive, children, descendants, kill_tree, state
from tests.rig.proxy import Proxy
from tests.rig.waiting import in_background, still_waits, wait_until

ProxyTo = Callable[[Server], Proxy]
ROOT = Path(__file__).parents[2]


def connect(dsn: str) -> psycopg.Connection[tuple[int]]:
    return psycopg.connect(dsn, autocommit=True, connect_timeout=10)


def one(connection: psycopg.Connection[tuple[int]], query: str = "select 1") -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row
    return row[0]


class TestPostgres:
    def test_answers_over_the_socket_and_over_tcp(self, database: Database) -> None:
        for dsn in (database.dsn, database.tcp_dsn):
            with psycopg.connect(dsn) as connection:
                found = connection.execute("select current_database(), current_user").fetchone()
            assert found == (database.name, "app")

    def test_asks_for_the_password_over_tcp(self, database: Database) -> None:
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            connect(database.server.dsn(database.name, "tcp", password="wrong"))

    def test_app_is_no_superuser_but_may_create_a_schema(self, database: Database) -> None:
        with connect(database.dsn) as connection:
            connection.execute("create schema s")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("create role other")
        with connect(database.superuser_dsn) as connection:
            connection.execute("set session_replication_role = replica")

    def test_each_test_has_a_database_of_its_own(self, postgres: Server, database: Database) -> None:
        other = postgres.create_database()
        with connect(postgres.dsn(other)) as still_there:
            assert other != database.name
            postgres.drop_database(other)
            with pytest.raises(psycopg.OperationalError):
                one(still_there)

    def test_settings_are_passed_on(self) -> None:
        with Server(max_connections=17, idle_session_timeout="7s") as server:
            assert server.execute("show max_connections") == [("17",)]
            assert server.execute("show idle_session_timeout") == [("7s",)]

    def test_tells_why_it_does_not_start_and_leaves_nothing(self) -> None:
        server = Server(max_connections="many")  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="invalid value for parameter"), server:
            pass
        assert not server.den.path.exists()

    @pytest.mark.parametrize("mode", ["fast", "immediate"])
    def test_restarts_with_the_same_data_and_port(self, own_postgres: Server, mode: str) -> None:
        name = own_postgres.create_database()
        dsn = own_postgres.dsn(name, "tcp")
        with connect(dsn) as before:
            before.execute("create table t as select 7 as n")
            own_postgres.restart(mode)
            with pytest.raises(psycopg.OperationalError):
                one(before)
        with connect(dsn) as after:
            assert one(after, "select n from t") == 7

    def test_is_unreachable_while_stopped(self, own_postgres: Server) -> None:
        own_postgres.stop()
        for host in ("socket", "tcp"):
            with pytest.raises(psycopg.OperationalError):
                connect(own_postgres.dsn(host=host))
        own_postgres.start()

    def test_starts_again_after_kill_9(self, own_postgres: Server) -> None:
        pids = own_postgres.den.pids()
        own_postgres.kill()
        assert len(pids) > 1
        assert not any(map(alive, pids))
        own_postgres.start()
        assert own_postgres.execute("select 1") == [(1,)]

    def test_is_silent_while_paused(self, own_postgres: Server) -> None:
        with connect(own_postgres.dsn()) as connection:
            own_postgres.pause()
            assert {state(pid) for pid in own_postgres.den.pids()} == {"T"}
            answer = in_background(lambda: one(connection))
            assert still_waits(answer)
            own_postgres.resume()
            assert answer.result(30) == 1

    def test_stops_although_paused(self, own_postgres: Server) -> None:
        own_postgres.pause()
        own_postgres.stop()
        assert own_postgres.den.pids() == []

    def test_leaves_nothing(self) -> None:
        with Server() as server:
            directory, pids, port = server.den.path, server.den.pids(), server.port
            server.kill()
        assert not directory.exists()
        assert not any(map(alive, pids))
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", port))

    @pytest.mark.parametrize("paused", [False, True])
    def test_dies_with_its_owner(self, paused: bool) -> None:
        pause = "server.pause();" if paused else ""
        code = f"from tests.rig.postgres import Server; server = Server().start(); {pause}"
        code += "print(server.den.path, flush=True); input()"
        owner = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=os.environ | WISHES,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with owner:
            assert owner.stdout
            directory = Path(owner.stdout.readline().strip())
            pids = at_home(directory)
            owner.kill()
        assert len(pids) > 1
        wait_until(lambda: not any(map(alive, pids)), within=30, saying="Postgres died with its owner")
        wait_until(lambda: not directory.exists(), within=30, saying="its files are gone")


class TestProxy:
    def test_forwards_and_counts(self, database: Database, proxy: ProxyTo) -> None:
        way = proxy(database.server)
        with connect(database.through(way)) as connection:
            before = way.round_trips
            assert one(connection, "select length(repeat('x', 3000000))") == 3000000
            assert one(connection) == 1
            assert way.round_trips - before == 2
            with connection.pipeline():
                for _ in range(20):
                    connection.execute("select 1")
            assert way.round_trips - before < 10
        connect(database.through(way)).close()
        assert way.connections == 2

    def test_cut_ends_what_is_there_and_refuses_what_comes(self, database: Database, proxy: ProxyTo) -> None:
        way = proxy(database.server)
        with connect(database.through(way)) as connection:
            way.cut()
            with pytest.raises(psycopg.OperationalError):
                one(connection)
        with pytest.raises(psycopg.OperationalError, match="refused"):
            connect(database.through(way))
        way.restore()
        with connect(database.through(way)) as connection:
            assert one(connection) == 1

    def test_cut_is_seen_by_the_server(self, database: Database, proxy: ProxyTo) -> None:
        way = proxy(database.server)
        with connect(database.through(way)) as connection:
            pid = one(connection, "select pg_backend_pid()")
            way.cut()
            wait_until(lambda: not alive(pid), within=30, saying="the backend has gone")

    def test_black_hole_swallows_until_restored(self, database: Database, proxy: ProxyTo) -> None:
        way = proxy(database.server)
        with connect(database.dsn) as witness, connect(database.through(way)) as connection:
            witness.execute("create table t (n integer)")
            way.black_hole()
            old = in_background(lambda: connection.execute("insert into t values (1)"))
            new = in_background(lambda: connect(database.through(way)).close())
            assert still_waits(old)
            assert still_waits(new, 0.1)
            assert one(witness, "select count(*) from t") == 0
            way.restore()
            old.result(30)
            new.result(30)
            assert one(witness, "select count(*) from t") == 1

    def test_black_hole_hides_the_end_of_either_side(self, own_postgres: Server, proxy: ProxyTo) -> None:
        way = proxy(own_postgres)
        dsn = own_postgres.dsn(host="tcp", port=way.port)
        with connect(dsn) as connection, connect(dsn) as leaver, connect(own_postgres.dsn()) as witness:
            pid = one(leaver, "select pg_backend_pid()")
            way.black_hole()
            leaver.close()
            answer = in_background(lambda: one(connection))
            assert still_waits(answer)
            assert one(witness, f"select count(*) from pg_stat_activity where pid = {pid}") == 1
            own_postgres.kill()
            assert still_waits(answer)
            way.cut()
            with pytest.raises(psycopg.OperationalError):
                answer.result(30)

    def test_black_hole_for_new_connections_only(self, database: Database, proxy: ProxyTo) -> None:
        way = proxy(database.server)
        with connect(database.through(way)) as connection:
            way.black_hole(only_new=True)
            assert one(connection) == 1
            with pytest.raises(psycopg.errors.ConnectionTimeout):
                psycopg.connect(database.through(way), connect_timeout=2)
            assert one(connection) == 1

    def test_delay_makes_a_round_trip_longer(self, database: Database, proxy: ProxyTo) -> None:
        way = proxy(database.server)
        with connect(database.through(way)) as connection:
            way.delay(0.3)
            start = time.monotonic()
            one(connection)
            assert time.monotonic() - start >= 0.3

    @pytest.mark.parametrize("round_", range(5))
    def test_lost_acknowledgement_of_a_commit(self, database: Database, proxy: ProxyTo, round_: int) -> None:
        way = proxy(database.server)
        with connect(database.dsn) as witness:
            witness.execute("create table t (n integer)")
            way.drop_reply_to(b"commit")
            with (
                connect(database.through(way)) as connection,
                pytest.raises(psycopg.OperationalError),
                connection.transaction(),
            ):
                connection.execute("insert into t values (1)")
            assert one(witness, "select count(*) from t") == 1
            assert way.dropped == 1
        with connect(database.through(way)) as again, again.transaction():
            again.execute("insert into t values (2)")

    def test_lost_acknowledgement_and_then_silence(self, database: Database, proxy: ProxyTo) -> None:
        way = proxy(database.server)
        with connect(database.dsn) as witness, connect(database.through(way)) as connection:
            witness.execute("create table t (n integer)")
            connection.execute("select 'insert into t'")  # said before: does not count
            way.drop_reply_to(b"INSERT INTO T", then="silence")
            assert one(connection) == 1
            answer = in_background(lambda: connection.execute("insert into t values (1)"))
            wait_until(lambda: way.dropped == 1, within=30, saying="the reply is dropped")
            assert one(witness, "select count(*) from t") == 1
            assert still_waits(answer)
            way.cut()
            with pytest.raises(psycopg.OperationalError):
                answer.result(30)

    def test_lost_acknowledgement_and_then_a_cut(self, database: Database, proxy: ProxyTo) -> None:
        way = proxy(database.server)
        with connect(database.through(way)) as connection, connect(database.through(way)) as bystander:
            way.drop_reply_to(b"create table", then="cut")
            for victim, query in ((connection, "create table t (n integer)"), (bystander, "select 1")):
                with pytest.raises(psycopg.OperationalError):
                    victim.execute(query.encode())
        with connect(database.dsn) as witness:
            assert one(witness, "select count(*) from t") == 0
        with pytest.raises(psycopg.OperationalError, match="refused"):
            connect(database.through(way))


@pytest.mark.needs("pgbouncer")
class TestPgBouncer:
    def test_transaction_mode_hands_the_backend_on(
        self, database: Database, pgbouncer: Callable[..., PgBouncer]
    ) -> None:
        pooler = pgbouncer(database.server, default_pool_size=1)
        with connect(database.through(pooler)) as first, connect(database.through(pooler)) as second:
            pids = {one(connection, "select pg_backend_pid()") for connection in (first, second, first)}
        assert len(pids) == 1

    def test_session_mode_keeps_it(self, database: Database, pgbouncer: Callable[..., PgBouncer]) -> None:
        pooler = pgbouncer(database.server, "session")
        with connect(database.through(pooler)) as first, connect(database.through(pooler)) as second:
            pids = {one(connection, "select pg_backend_pid()") for connection in (first, second)}
        assert len(pids) == 2

    def test_leaves_nothing(self, database: Database, pgbouncer: Callable[..., PgBouncer]) -> None:
        pooler = pgbouncer(database.server)
        assert pooler.den
        directory, pids = pooler.den.path, pooler.den.pids()
        pooler.stop()
        assert pids
        assert not any(map(alive, pids))
        assert not directory.exists()

    def test_tells_why_it_does_not_start(self, database: Database, pgbouncer: Callable[..., PgBouncer]) -> None:
        with pytest.raises(RuntimeError, match="did not start"):
            pgbouncer(database.server, "no such mode")


class TestWaiting:
    def test_returns_what_came_true(self) -> None:
        answers = iter(["", "", "yes"])
        assert wait_until(lambda: next(answers), every=0.001) == "yes"

    def test_says_what_did_not_come_true(self) -> None:
        start = time.monotonic()
        with pytest.raises(AssertionError, match=r"not within 0\.2 s: pigs fly"):
            wait_until(lambda: False, within=0.2, saying="pigs fly")
        assert time.monotonic() - start >= 0.2

    def test_work_in_the_background_brings_its_error_back(self) -> None:
        with pytest.raises(ZeroDivisionError):
            in_background(lambda: 1 // 0).result(30)


class TestProcesses:
    def test_a_tree_is_found_and_killed(self) -> None:
        # A child that leaves the session and a grandchild under a name that breaks naive parsers of /proc.
        code = "import os, subprocess; open('/proc/self/comm', 'w').write('a) R (b'); "
        code += "subprocess.Popen(['sh', '-c', 'sleep 1000 & wait'], start_new_session=True).wait()"
        with subprocess.Popen([sys.executable, "-c", code]) as process:
            tree = wait_until(lambda: found if len(found := descendants(process.pid)) == 2 else [], saying="it grew")
            assert children(process.pid) == tree[:1]
            assert all(map(alive, tree))
            kill_tree(process.pid)
            assert not any(map(alive, [process.pid, *tree]))

    def test_a_zombie_is_not_alive(self) -> None:
        process = subprocess.Popen(["true"])
        wait_until(lambda: state(process.pid) == "Z", saying="it is a zombie")
        assert not alive(process.pid)
        assert process.pid in children(os.getpid())
        process.wait()
        assert state(process.pid) == ""


class TestDen:
    def test_kills_and_removes_when_closed(self) -> None:
        den = Den("test")
        process = den.popen("sleep", "1000")
        wait_until(lambda: den.pids() == [process.pid], saying="it is at home")
        den.close()
        assert process.wait(10) == -signal.SIGKILL
        assert not den.path.exists()

    def test_tells_why_a_command_failed(self) -> None:
        den = Den("test")
        with pytest.raises(RuntimeError, match="No such file"):
            den.run("ls", "/nowhere")
        den.close()

    def test_ports_are_free_and_not_for_clients(self) -> None:
        with socket.create_server(("127.0.0.1", free_port())) as listener:
            first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
            assert 20000 <= listener.getsockname()[1] < max(first, 32000)

    def test_ports_of_another_process_are_others(self) -> None:
        code = "from tests.rig.den import free_port; print(*(free_port() for _ in range(600)))"
        ours = {free_port() for _ in range(600)}
        theirs = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert len(ours) > 1
        assert ours.isdisjoint(map(int, theirs.stdout.split()))


class TestRequirements:
    CONFTEST = """
from tests.rig import requirements

requirements.everything_can_be_had = lambda: {everything}

def pytest_configure(config):
    config.pluginmanager.register(requirements.Requirements(config))
"""
    TESTS = """
import pytest

@pytest.mark.needs("fish", "cron")
def test_in_need(): pass

def test_not_in_need(): pass
"""
    SKIPS = (
        "def test_it(): pytest.skip('tired')",
        "@pytest.mark.skip(reason='tired')\ndef test_it(): pass",
        "@pytest.mark.skipif(True, reason='tired')\ndef test_it(): pass",
        "@pytest.fixture\ndef f(): pytest.skip('tired')\n\ndef test_it(f): pass",
        "pytest.skip('tired', allow_module_level=True)",
        "pytest.importorskip('no_such_module')",
        "class TestIt(unittest.TestCase):\n    def test_it(self): self.skipTest('tired')",
    )

    def session(self, directory: Path, tests: str, *options: str, everything: bool = False) -> tuple[int, list[str]]:
        (directory / "conftest.py").write_text(self.CONFTEST.format(everything=everything))
        (directory / "test_it.py").write_text(tests)
        wishes = {"CRONGUARD_TEST_ABSENT": "cron zsh", "CRONGUARD_TEST_ABSENT_WHY": "it is on holiday"}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", *options, directory],
            cwd=ROOT,
            env=os.environ | wishes | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout.splitlines()

    def test_a_test_in_need_is_left_out_by_name(self, tmp_path: Path) -> None:
        status, lines = self.session(tmp_path, self.TESTS)
        assert status == 0
        assert lines[-2].startswith("LEFT OUT ")
        assert "test_it.py::test_in_need: needs cron (it is on holiday)" in lines[-2]
        assert "1 passed, 1 deselected" in lines[-1]

    def test_where_everything_can_be_had_it_is_an_error(self, tmp_path: Path) -> None:
        status, lines = self.session(tmp_path, self.TESTS, everything=True)
        assert status == 1
        assert "needs cron (it is on holiday)" in "\n".join(lines)
        assert "1 passed, 1 error" in lines[-1]

    def test_an_unknown_need_is_refused(self, tmp_path: Path) -> None:
        for everything in (False, True):
            status, _ = self.session(tmp_path, self.TESTS.replace("fish", "chips"), everything=everything)
            assert status not in (0, 1)

    def test_every_kind_of_skip_is_a_failure(self, tmp_path: Path) -> None:
        for number, skip in enumerate(self.SKIPS):
            (tmp_path / f"test_skip_{number}.py").write_text(f"import pytest, unittest\n\n{skip}\n")
        status, lines = self.session(tmp_path, "def test_other(): pass", "--continue-on-collection-errors")
        assert status == 1
        for number in range(len(self.SKIPS)):
            assert any(line.startswith(("FAILED", "ERROR")) and f"test_skip_{number}.py" in line for line in lines)
        assert "\n".join(lines).count("no test may skip") >= len(self.SKIPS)
        assert "2 failed, 1 passed, 5 errors" in lines[-1]

    def test_an_expected_failure_is_no_skip(self, tmp_path: Path) -> None:
        status, _ = self.session(tmp_path, "import pytest\n\n@pytest.mark.xfail\ndef test_it(): assert False")
        assert status == 0
