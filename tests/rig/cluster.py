"""A Postgres with standbys: they stream from it, fall behind, hold it up, and take its place.

    with Cluster(synchronous=1, asynchronous=1) as cluster:
        dsn = cluster.dsn(cluster.primary.create_database())
        cluster.fail_over()

Each standby is fed through a proxy of its own: what the network between two machines can do to a replication is done
there, and the servers know nothing of it. `dsn` names every server, as an application behind a failover has it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, urlencode

from psycopg import sql

from tests.rig.postgres import PASSWORDS, Server
from tests.rig.proxy import Proxy
from tests.rig.waiting import wait_until

# A standby that nothing reaches must neither give up nor be given up by itself: only a test ends a silence.
PATIENCE = {"wal_sender_timeout": 0, "wal_receiver_timeout": 0, "wal_retrieve_retry_interval": "100ms"}
PATIENCE |= {"wal_keep_size": "256MB", "hot_standby_feedback": "off"}


class Standby(Server):
    """A copy of `source` that follows it as `name`; with `start` it answers what may be asked of a standby."""

    def __init__(self, source: Server, name: str, **settings: object) -> None:
        self.name, self._source = name, source
        self.feed = Proxy(source.port)
        super().__init__(**settings)  # type: ignore[arg-type]

    def _fill(self, template: Path) -> None:
        socket = f"host={self._source.socket_dir} port={self._source.port} user=postgres"
        self.den.run(
            self._bin / "pg_basebackup", "-D", self._data, "-d", socket, "-c", "fast", "-X", "stream", "--no-sync"
        )
        (self._data / "standby.signal").touch()
        way = f"host=127.0.0.1 port={self.feed.port} user=postgres password='{PASSWORDS['postgres']}'"
        self._settings |= {"primary_conninfo": f"{way} application_name={self.name}"}

    def fall_behind(self) -> None:
        """From now on nothing reaches it, and nobody hears of it; the connection stays, as with a lost cable."""
        self.feed.black_hole()

    def catch_up(self) -> None:
        """Let it be fed again, all that it has missed included."""
        self.feed.restore()

    def is_standby(self) -> bool:
        return bool(self.execute("select pg_is_in_recovery()")[0][0])

    def promote(self) -> None:
        """Make it a primary, with what it has received, and wait until it takes writes."""
        self.feed.cut()
        self.execute("select pg_promote(wait => true, wait_seconds => 60)")
        wait_until(lambda: not self.is_standby(), within=60, saying=f"{self.name} is promoted")

    def close(self) -> None:
        super().close()
        self.feed.cut()


class Cluster:
    """A primary and its standbys, named s1, s2, …: the first `synchronous` of them are waited for by every commit."""

    def __init__(self, *, synchronous: int = 0, asynchronous: int = 0, **settings: object) -> None:
        self._settings = PATIENCE | settings
        self._stack = ExitStack()
        self._synchronous = synchronous
        self._names = [f"s{number + 1}" for number in range(synchronous + asynchronous)]
        self.standbys: list[Standby] = []
        self.servers: list[Server] = []  # in the order of the DSN, dead ones included

    def __enter__(self) -> Cluster:
        with self._stack:
            self.primary = self._stack.enter_context(Server(**self._settings))  # type: ignore[arg-type]
            for name in self._names:
                self.standbys.append(self._stack.enter_context(Standby(self.primary, name, **self._settings)))
            self.servers = [self.primary, *self.standbys]
            wait_until(lambda: len(self._streaming()) == len(self.standbys), within=60, saying="all standbys stream")
            self.wait_for_standbys(self._synchronous)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def wait_for_standbys(self, count: int) -> None:
        """Let each commit wait for the first so many standbys; 0 for none."""
        names = ", ".join(self._names[:count])
        wanted = f"{count} ({names})" if count else ""
        self._order("synchronous_standby_names", wanted)
        seen = "select count(*) from pg_stat_replication where sync_state = 'sync'"
        wait_until(lambda: self.primary.execute(seen) == [(count,)], within=60, saying=f"{count} are waited for")

    def dsn(self, database: str, *, only: Server | None = None, **parameters: object) -> str:
        """As `app` over TCP, naming every server (or `only` one), those that are dead first as they always were."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in ([only] if only else self.servers))
        query = "?" + urlencode(parameters) if parameters else ""
        return f"postgresql://app:{quote(PASSWORDS['app'], safe='')}@{hosts}/{database}{query}"

    def settle(self) -> None:
        """Wait until the standbys have replayed all that the primary has written so far."""
        position = self.primary.execute("select pg_current_wal_flush_lsn()")[0][0]
        there = f"select count(*) from pg_stat_replication where replay_lsn >= '{position}'"
        wanted = [(len(self.standbys),)]
        wait_until(lambda: self.primary.execute(there) == wanted, within=60, saying="the standbys are up to date")

    def fail_over(self, mode: str = "kill", to: Standby | None = None) -> Server:
        """End the primary (`kill` it, stop it `immediate` or `fast`); the first standby, or `to`, takes its place.

        Returns the old one, still to be started by whoever wants two primaries; the other standbys follow the new one,
        and no commit waits for any of them.
        """
        former, new = self.primary, to or self.standbys[0]
        former.kill() if mode == "kill" else former.stop(mode)
        new.promote()
        self.primary = new
        self.standbys.remove(new)
        self._names.remove(new.name)
        for other in self.standbys:
            other.feed.cut()
            other.feed.server_port = new.port
            other.feed.restore()
        return former

    def _streaming(self) -> list[str]:
        found = self.primary.execute("select application_name from pg_stat_replication where state = 'streaming'")
        return [name for (name,) in found]

    def _order(self, setting: str, value: str) -> None:
        statement = sql.SQL("alter system set {} = {}").format(sql.Identifier(setting), sql.Literal(value))
        self.primary.execute(statement)
        self.primary.execute("select pg_reload_conf()")
