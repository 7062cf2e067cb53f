"""A Postgres with standbys: what survives its failover, what it forgets, and what the holders make of that."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cronguard.errors import LedgerUnavailable
from cronguard.stores import open_store
from cronguard.stores.dsn import parse_dsn
from tests.conftest import Database
from tests.rig.cluster import Cluster
from tests.rig.examined import examine
from tests.rig.firings import TERMS, claim, granted
from tests.rig.guard import Guard, code_of, wait_dead
from tests.rig.postgres import Server
from tests.rig.processes import stopped
from tests.rig.proxy import Proxy
from tests.rig.waiting import in_background, still_waits, wait_until

PATIENT = 60.0  # seconds
PERIOD = "2026-11-28"
SHORT = ("--lease", "8s", "--beat-every", "1s", "--stop-grace", "1s")
UNTIL_GO = ("sh", "-c", "echo $$ $CRONGUARD_TOKEN >>started; until [ -e go ]; do sleep 0.1; done; echo >>ended")
WAITING = "select pid from pg_stat_activity where wait_event = 'SyncRep'"
LEASED = "select lease_until from cronguard.lease"
ENDED_BY = {"cancelled": "pg_cancel_backend", "terminated": "pg_terminate_backend"}


@pytest.fixture
def replicated() -> Iterator[Cluster]:
    """Each commit waits for the standby."""
    with Cluster(synchronous=1) as cluster:
        yield cluster


@pytest.fixture
def lagging() -> Iterator[Cluster]:
    """No commit waits for the standby."""
    with Cluster(asynchronous=1) as cluster:
        yield cluster


def host_on(cluster: Cluster, guard: Guard, tmp_path: Path, name: str = "alpha") -> Guard:
    """A host of the fleet; its ledger is there, on the standbys too, and knows the key."""
    database = cluster.primary.create_database("ops")
    host = guard.with_env(CRONGUARD_DSN=cluster.dsn(database), CRONGUARD_STATE_DIR=str(tmp_path / name))
    assert host.run("init").code == 0
    assert host.run("run", "--key", "job", "--period", "2026-11-27", "--", "true").code == 0
    cluster.settle()
    return host


def other_host(host: Guard, tmp_path: Path) -> Guard:
    return host.with_env(CRONGUARD_STATE_DIR=str(tmp_path / "beta"))


def start(host: Guard, *options: str) -> subprocess.Popen[str]:
    """A run whose command waits for the file `go`."""
    process = host.start("run", "--key", "job", "--period", PERIOD, *options, "--", *UNTIL_GO)
    host.wait_for_line("started", within=PATIENT)
    return process


def go(host: Guard) -> None:
    (host.folder / "go").touch()


def leases(cluster: Cluster) -> list[tuple[int, str]]:
    return cluster.primary.execute("select token, lease_until::text from cronguard.lease", database="ops")


def forgotten_claim(cluster: Cluster, host: Guard, *options: str) -> subprocess.Popen[str]:
    """A run that the standby has never heard of."""
    cluster.standbys[0].fall_behind()
    return start(host, *options)


# --- nothing is forgotten ---------------------------------------------------------------------------------------------


def test_a_run_goes_on_after_a_failover_to_a_synchronous_standby(
    replicated: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    host = host_on(replicated, bare_guard, tmp_path)
    run = start(host, *SHORT, "--durable")
    replicated.fail_over()
    (before,) = leases(replicated)
    wait_until(lambda: leases(replicated) != [before], within=30, saying="a beat on the new primary")
    go(host)
    assert code_of(run) == 0
    beta = other_host(host, tmp_path)
    assert beta.run("run", "--key", "job", "--period", PERIOD, "--", "touch", "again").code == 0
    assert beta.run("supervise").code == 0
    shown = beta.show("job", PERIOD)
    assert (shown["state"], len(shown["attempts"]), host.lines("again")) == ("succeeded", 1, [])


def test_durable_waits_until_the_standby_has_applied_it(replicated: Cluster, bare_guard: Guard, tmp_path: Path) -> None:
    """Claims, beats and finishes, whatever the server's own synchronous_commit is; without it, that decides."""
    host_on(replicated, bare_guard, tmp_path)
    replicated.primary.execute("alter role app set synchronous_commit = off")
    standby = replicated.standbys[0]
    address = parse_dsn(replicated.dsn("ops"))
    durable, other = (open_store(address, durable=flag) for flag in (True, False))
    held = granted(claim(durable, period="2026-11-29"))
    standby.execute("select pg_wal_replay_pause()")
    beat = in_background(lambda: durable.beat(held.lease, TERMS.lease_for, TERMS.slack))
    assert still_waits(beat)
    asked = in_background(lambda: claim(durable, key="another"))
    assert still_waits(asked)
    assert granted(claim(other, key="a third"))
    standby.execute("select pg_wal_replay_resume()")
    assert beat.result(30)
    assert granted(asked.result(30))
    assert not durable.stands_alone


# --- a standby that does not answer -----------------------------------------------------------------------------------


def test_a_claim_that_no_standby_confirms_starts_nothing_and_is_over_in_time(
    replicated: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    host = host_on(replicated, bare_guard, tmp_path)
    replicated.standbys[0].fall_behind()
    fire = ("run", "--key", "job", "--period", PERIOD, "--durable", *SHORT)
    for _ in range(2):
        refused = host.run(*fire, "--db-wait", "4s", "--", "touch", "touched")
        assert refused.code == 75
        assert "nothing was started" in refused.only_line
        assert "synchronous standby" in refused.only_line
    assert not (host.folder / "touched").exists()
    assert len(replicated.primary.execute(WAITING)) == 1
    replicated.standbys[0].catch_up()
    # The claim that was given up is confirmed at last; who comes later finds it, and nobody behind it.
    assert host.run(*fire, "--if-held", "wait", "--", "touch", "touched").code == 0
    shown = host.show("job", PERIOD)
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["lost", "succeeded"]


@pytest.mark.parametrize(("how", "flags"), [
    ("cancelled", ()), ("cancelled", ("--durable",)), ("terminated", ("--durable",)),
], ids=["cancelled", "cancelled-durable", "terminated-durable"])  # fmt: skip
def test_a_wait_for_the_standby_that_somebody_ends_counts_as_failed(
    replicated: Cluster, bare_guard: Guard, tmp_path: Path, how: str, flags: tuple[str, ...]
) -> None:
    """The server has the claim then, and shows it; the standby does not."""
    host = host_on(replicated, bare_guard, tmp_path)
    replicated.standbys[0].fall_behind()
    run = host.start("run", "--key", "job", "--period", PERIOD, *flags, "--db-wait", "10s", "--", "touch", "touched")
    for _ in range(2):
        wait_until(lambda: replicated.primary.execute(WAITING), within=30, saying="a commit waits for the standby")
        replicated.primary.execute(f"select {ENDED_BY[how]}(pid) from ({WAITING}) as waiting")
    assert code_of(run) == 75
    assert not (host.folder / "touched").exists()


def test_a_result_waits_for_its_standby(replicated: Cluster, bare_guard: Guard, tmp_path: Path) -> None:
    host = host_on(replicated, bare_guard, tmp_path)
    run = start(host, "--durable")
    replicated.standbys[0].fall_behind()
    go(host)
    wait_until(lambda: replicated.primary.execute(WAITING), within=30, saying="the finish waits for the standby")
    assert run.poll() is None
    replicated.standbys[0].catch_up()
    assert code_of(run) == 0
    assert host.show("job", PERIOD)["state"] == "succeeded"


def test_a_standby_that_hangs_costs_a_pause_and_a_handful_of_connections(
    replicated: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    host = host_on(replicated, bare_guard, tmp_path)
    run = start(host, *SHORT)
    replicated.standbys[0].fall_behind()
    ours = "select count(*) from pg_stat_activity where application_name like 'cronguard:%'"
    assert still_waits(in_background(run.wait), for_seconds=9)
    assert replicated.primary.execute(ours)[0][0] <= 5  # a beat has 2.6 s, what waits in the server 5 s
    replicated.standbys[0].catch_up()
    go(host)
    assert code_of(run) == 0
    assert len(host.show("job", PERIOD)["attempts"]) == 1


def test_who_asks_for_durable_and_has_no_standby_is_told_so_once(postgres_guard: Guard) -> None:
    backfill = ("backfill", "--key", "job", "--from", "2026-11-26", "--to", "2026-11-28", "--durable", "--", "true")
    said = postgres_guard.run(*backfill)
    assert said.code == 0
    assert [line for line in said.err.splitlines() if "durable" in line] == [
        "cronguard: warning: job: --durable: the Postgres waits for no standby (its synchronous_standby_names is "
        "empty), so a failover may forget this run"
    ]
    skipped = postgres_guard.run("run", "--key", "job", "--period", PERIOD, "--durable", "--", "true")
    assert (skipped.code, skipped.err) == (0, "")


def test_the_checkup_knows_the_standby_that_is_waited_for(
    replicated: Cluster, postgres_guard: Guard, tmp_path: Path
) -> None:
    """Also by a role that may read no more of it than its name."""
    found = examine(host_on(replicated, postgres_guard, tmp_path))
    assert "ledger.standbys" in found.levels("ok")
    assert found.of("ledger.standbys")["what"].endswith("'1 (s1)', and 1 is connected")


def test_a_file_is_durable_anyway(sqlite_guard: Guard) -> None:
    done = sqlite_guard.run("run", "--key", "job", "--durable", "--", "sh", "-c", "echo $CRONGUARD_DURABLE")
    assert (done.code, done.out, done.err) == (0, "true\n", "")


# --- several hosts in the DSN -----------------------------------------------------------------------------------------


def test_of_several_hosts_the_one_that_takes_writes_is_found(
    lagging: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    lagging.servers.reverse()  # the standby first
    host = host_on(lagging, bare_guard, tmp_path)
    assert host.run("run", "--key", "job", "--period", PERIOD, "--", "true").code == 0
    former = lagging.fail_over("fast")
    assert host.run("run", "--key", "job", "--period", "2026-11-29", "--", "true").code == 0
    assert former is not lagging.primary
    assert {run["state"] for run in host.history("job")} == {"succeeded"}


def test_a_standby_alone_says_what_it_is(lagging: Cluster, bare_guard: Guard, tmp_path: Path) -> None:
    host = host_on(lagging, bare_guard, tmp_path)
    standby = lagging.standbys[0]
    for parameters in ({}, {"target_session_attrs": "any"}):
        alone = host.with_env(CRONGUARD_DSN=lagging.dsn("ops", only=standby, **parameters), CRONGUARD_DB_WAIT="1s")
        refused = alone.run("run", "--key", "job", "--period", PERIOD, "--", "true")
        assert refused.code == 75
        assert refused.only_line.endswith("it is a standby (read only)")
    lagging.primary.kill()
    refused = host.with_env(CRONGUARD_DB_WAIT="1s").run("run", "--key", "job", "--period", PERIOD, "--", "true")
    assert refused.code == 75
    assert "connection refused; another host: it is a standby (read only)" in refused.only_line
    assert str(standby.port) in refused.only_line
    assert "@" not in refused.only_line


def test_a_host_that_does_not_even_refuse_is_waited_for_once(
    database: Database, proxy: Callable[[Server], Proxy], bare_guard: Guard, tmp_path: Path
) -> None:
    silent = proxy(database.server)
    silent.black_hole()
    dsn = database.tcp_dsn.replace(f":{database.server.port}/", f":{silent.port},127.0.0.1:{database.server.port}/")
    host = bare_guard.with_env(CRONGUARD_DSN=dsn, CRONGUARD_STATE_DIR=str(tmp_path / "alpha"))
    assert host.run("init").code == 0
    run = start(host, "--lease", "16s", "--beat-every", "1s", "--stop-grace", "1s")
    asked = silent.connections
    with database.connect() as connection:
        for _ in range(3):
            last = connection.execute(LEASED).fetchall()
            wait_until(lambda last=last: connection.execute(LEASED).fetchall() != last, within=60, saying="a beat")  # type: ignore[misc]
    assert silent.connections == asked
    go(host)
    assert code_of(run) == 0
    assert silent.connections == asked
    assert len(host.show("job", PERIOD)["attempts"]) == 1


def test_a_host_that_falls_silent_is_asked_last_from_then_on(
    database: Database, proxy: Callable[[Server], Proxy]
) -> None:
    first, second = proxy(database.server), proxy(database.server)
    dsn = database.tcp_dsn.replace(f":{database.server.port}/", f":{first.port},127.0.0.1:{second.port}/")
    open_store(parse_dsn(database.dsn)).migrate()
    store = open_store(parse_dsn(dsn))
    for _ in range(2):
        store.look("job", "x")
    assert (first.connections, second.connections) == (2, 0)
    first.black_hole()
    for _ in range(3):
        store.look("job", "x")
    assert (first.connections, second.connections) == (3, 3)
    first.restore()
    second.cut()
    for _ in range(2):
        store.look("job", "x")
    assert (first.connections, second.connections) == (5, 3)


def test_hosts_that_are_all_silent_take_no_longer_together_than_an_answer_may(
    database: Database, proxy: Callable[[Server], Proxy]
) -> None:
    """Three with five seconds each would outlast the lease that an answer of six belongs to."""
    silent = [proxy(database.server) for _ in range(3)]
    for way in silent:
        way.black_hole()
    hosts = ",".join(f"127.0.0.1:{way.port}" for way in silent)
    dsn = database.tcp_dsn.replace(f"127.0.0.1:{database.server.port}", hosts)
    asked_at = time.monotonic()
    with pytest.raises(LedgerUnavailable, match="no answer in time"):
        open_store(parse_dsn(dsn), answer_within=6).look("job", "x")
    assert time.monotonic() - asked_at < 12
    assert [way.connections for way in silent] == [1, 1, 1]


# --- what an asynchronous standby has forgotten -----------------------------------------------------------------------


def test_a_holder_whose_claim_is_forgotten_stops_at_its_next_beat(
    lagging: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    """The run waits to be run again, as that of any holder that died; and the next token is a higher one."""
    host = host_on(lagging, bare_guard, tmp_path)
    run = forgotten_claim(lagging, host, *SHORT)
    command, token = host.lines("started")[0].split()
    lagging.fail_over()
    wait_dead(int(command), within=30)
    assert code_of(run) == 76
    assert run.stderr and "a failover forgot it" in run.stderr.read()
    shown = host.show("job", PERIOD)
    assert (shown["state"], [attempt["outcome"] for attempt in shown["attempts"]]) == ("pending", ["lost"])
    go(host)
    assert other_host(host, tmp_path).run("run", "--key", "job", "--only-pending", "--", *UNTIL_GO).code == 0
    assert int(host.lines("started")[1].split()[1]) > int(token)
    assert host.show("job", PERIOD)["state"] == "succeeded"


def test_a_holder_whose_key_is_unknown_stops_and_leaves_nothing(
    lagging: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    """A key that was never seen may as well have been removed by somebody: it is not brought back."""
    host = host_on(lagging, bare_guard, tmp_path)
    lagging.standbys[0].fall_behind()
    run = host.start("run", "--key", "new", "--period", PERIOD, *SHORT, "--", *UNTIL_GO)
    host.wait_for_line("started", within=PATIENT)
    lagging.fail_over()
    assert code_of(run) == 76
    assert '"new"' not in host.run("keys", "--json").out


def test_a_holder_whose_claim_is_forgotten_gives_way_to_whoever_came(
    lagging: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    """Its next beat is some seconds off: until then there are two, which only the fence can tell apart."""
    host = host_on(lagging, bare_guard, tmp_path)
    beta = other_host(host, tmp_path)
    run = forgotten_claim(lagging, host, "--lease", "60s", "--beat-every", "15s", "--stop-grace", "1s")
    lagging.fail_over()
    rival = beta.start("run", "--key", "job", "--period", PERIOD, *SHORT, "--", *UNTIL_GO)
    first, second = (int(line.split()[1]) for line in host.wait_for_line("started", 2))
    assert second > first
    assert code_of(run, PATIENT) == 76
    assert rival.poll() is None
    go(host)
    assert code_of(rival) == 0
    shown = beta.show("job", PERIOD)
    assert (shown["state"], [attempt["token"] for attempt in shown["attempts"]]) == ("succeeded", [second])


def test_the_result_of_a_forgotten_claim_is_written_where_nobody_came(
    lagging: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    host = host_on(lagging, bare_guard, tmp_path)
    run = forgotten_claim(lagging, host, "--lease", "3m")  # no beat comes before its end
    lagging.fail_over()
    go(host)
    assert code_of(run) == 0
    assert run.stderr and "had forgotten this run" in run.stderr.read()
    assert other_host(host, tmp_path).run("run", "--key", "job", "--period", PERIOD, "--", *UNTIL_GO).code == 0
    assert len(host.lines("started")) == 1
    shown = host.show("job", PERIOD)
    assert (shown["state"], shown["attempts"][0]["outcome"]) == ("succeeded", "succeeded")
    assert shown["period_start"]


def test_a_result_that_was_kept_is_delivered_to_a_primary_that_has_forgotten_the_claim(
    lagging: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    host = host_on(lagging, bare_guard, tmp_path)
    run = forgotten_claim(lagging, host, *SHORT)
    lagging.primary.kill()
    go(host)
    assert code_of(run, within=60) == 0
    assert run.stderr and "the result is kept in" in run.stderr.read()
    lagging.fail_over()
    assert host.run("run", "--key", "job", "--period", PERIOD, "--", *UNTIL_GO).code == 0
    shown = host.show("job", PERIOD)
    assert (shown["state"], len(host.lines("started")), bool(shown["period_start"])) == ("succeeded", 1, True)


def test_a_result_that_only_the_old_primary_knew_is_not_known(
    lagging: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    """The hole that --durable is for: the acknowledgement was true, and the failover made it false."""
    host = host_on(lagging, bare_guard, tmp_path)
    run = start(host, *SHORT)
    lagging.settle()
    lagging.standbys[0].fall_behind()
    go(host)
    assert code_of(run) == 0
    lagging.fail_over()
    assert host.show("job", PERIOD)["state"] == "running"
    again = host.run("run", "--key", "job", "--period", PERIOD, *SHORT, "--if-held", "wait", "--", *UNTIL_GO)
    assert (again.code, len(host.lines("started"))) == (0, 2)


# --- an old primary that nobody has fenced ----------------------------------------------------------------------------


def promoted_beside(cluster: Cluster, host: Guard, tmp_path: Path) -> tuple[int, subprocess.Popen[str]]:
    """A run's command, and another host that waits for the run at the new primary, until it has got it: the link
    between the servers is lost, the standby promoted, and the old primary goes on."""
    cluster.settle()
    command = int(host.lines("started")[0].split()[0])
    cluster.standbys[0].promote()
    cluster.servers.reverse()
    other = other_host(host, tmp_path).with_env(CRONGUARD_DSN=cluster.dsn("ops"))
    rival = other.start("run", "--key", "job", "--period", PERIOD, "--if-held", "wait", *SHORT, "--", *UNTIL_GO)
    host.wait_for_line("started", 2, within=60)
    return command, rival


def test_two_primaries_are_two_runs_which_is_the_documented_hole(
    lagging: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    host = host_on(lagging, bare_guard, tmp_path)
    run = start(host, *SHORT)
    command, rival = promoted_beside(lagging, host, tmp_path)
    last = leases(lagging)
    wait_until(lambda: leases(lagging) != last, within=30, saying="the old primary takes another beat")
    assert not stopped(command)
    go(host)
    assert (code_of(run), code_of(rival)) == (0, 0)


def test_an_old_primary_whose_commits_wait_for_a_standby_keeps_nobody_running(
    replicated: Cluster, bare_guard: Guard, tmp_path: Path
) -> None:
    host = host_on(replicated, bare_guard, tmp_path)
    run = start(host, *SHORT)
    command, rival = promoted_beside(replicated, host, tmp_path)
    assert stopped(command)
    go(host)
    assert code_of(rival) == 0
    assert stopped(command)
    replicated.primary.kill()
    assert code_of(run, within=60) == 76
    assert len(host.lines("ended")) == 1
