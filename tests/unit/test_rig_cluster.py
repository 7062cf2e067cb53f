"""The rig's cluster does what it says: what a standby has not heard of, it does not know after its promotion."""

from __future__ import annotations

import psycopg
import pytest

from tests.rig.cluster import Cluster
from tests.rig.postgres import Server
from tests.rig.waiting import in_background, still_waits


def numbers(server: Server, database: str) -> list[int]:
    return sorted(number for (number,) in server.execute("select n from t", database=database))


def with_table(cluster: Cluster) -> str:
    name = cluster.primary.create_database()
    cluster.primary.execute("create table t as select 1 as n", database=name)
    cluster.settle()
    return name


def test_a_standby_follows_and_takes_no_writes() -> None:
    with Cluster(synchronous=1, asynchronous=1) as cluster:
        name = with_table(cluster)
        for standby in cluster.standbys:
            assert numbers(standby, name) == [1]
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                standby.execute("insert into t values (2)", database=name)


def test_commits_wait_for_a_synchronous_standby_and_for_no_other() -> None:
    with Cluster(synchronous=1, asynchronous=1) as cluster:
        name = with_table(cluster)
        needed, other = cluster.standbys
        other.fall_behind()
        cluster.primary.execute("insert into t values (2)", database=name)
        needed.fall_behind()
        insert = in_background(lambda: cluster.primary.execute("insert into t values (3)", database=name))
        assert still_waits(insert)
        needed.catch_up()
        insert.result(30)


@pytest.mark.parametrize("mode", ["kill", "immediate"])
def test_what_did_not_reach_the_standby_is_forgotten(mode: str) -> None:
    with Cluster(asynchronous=2) as cluster:
        name = with_table(cluster)
        for standby in cluster.standbys:
            standby.fall_behind()
        cluster.primary.execute("insert into t values (2)", database=name)
        former = cluster.fail_over(mode)
        assert numbers(cluster.primary, name) == [1]
        cluster.primary.execute("insert into t values (3)", database=name)
        cluster.settle()  # the other standby follows the new primary
        assert numbers(cluster.standbys[0], name) == [1, 3]
        former.start()  # two primaries, as without a fence
        assert numbers(former, name) == [1, 2]


def test_a_dsn_finds_the_new_primary() -> None:
    with Cluster(asynchronous=1) as cluster:
        dsn = cluster.dsn(with_table(cluster), target_session_attrs="read-write")
        cluster.fail_over("fast")
        with psycopg.connect(dsn, autocommit=True, connect_timeout=10) as connection:
            assert connection.execute("select pg_is_in_recovery()").fetchone() == (False,)


def test_leaves_nothing() -> None:
    with Cluster(asynchronous=1) as cluster:
        dens = [server.den.path for server in cluster.servers]
    assert not any(den.exists() for den in dens)
