"""The guards that side_by_side.py compares: how each is put before a command, on each of three hosts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cases import CRONGUARD, DATABASE, NEVER_AGAIN
from tests.rig.postgres import PASSWORDS, Server
from tests.rig.proxy import Proxy

LEASE = 6  # seconds
HOSTS = ("a", "b", "c")
Fire = Callable[["World", str, str, str, Sequence[str]], tuple[Sequence[str], Mapping[str, str]]]


@dataclass(frozen=True)
class World:
    """A server, a way to it for each host, and a folder."""

    server: Server
    ways: Mapping[str, Proxy]
    scratch: Path
    base: Mapping[str, str]
    dislock: str

    def dsn(self, host: str) -> str:
        return self.server.dsn(DATABASE, "tcp", port=self.ways[host].port)


def flock(world: World, host: str, key: str, _period: str, command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """A file of the host's own."""
    folder = world.scratch / f"locks-{host}"
    folder.mkdir(exist_ok=True)
    return ["flock", "-n", str(folder / key), *command], {}


def flock_on_one_host(
    world: World, _host: str, key: str, period: str, command: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    return flock(world, "a", key, period, command)


def psql(world: World, host: str, key: str, period: str, command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The session that has the lock lives as long as the command does."""
    script = world.scratch / f"{key}-{host}-{period}.sql"
    script.write_text(
        f"select pg_try_advisory_lock(hashtext('{key}')) as got \\gset\n"
        f"\\if :got\n\\! exec {shlex.join(command)}\n\\endif\n"
    )
    way = {"PGHOST": "127.0.0.1", "PGPORT": str(world.ways[host].port), "PGDATABASE": DATABASE}
    return ["psql", "-qAtX", "-f", str(script)], way | {"PGUSER": "app", "PGPASSWORD": PASSWORDS["app"]}


def dislock(strategy: str) -> Fire:
    def fire(
        world: World, host: str, key: str, _period: str, command: Sequence[str]
    ) -> tuple[list[str], dict[str, str]]:
        terms = {"LOCK_STRATEGY": strategy, "LOCK_KEY": key, "CRON_SCHEDULE": NEVER_AGAIN}
        lease = {"RUN_LOCK_TTL_SECONDS": str(LEASE), "LOCK_LEASE_INTERVAL": "1"}
        return [world.dislock, "DATABASE_URL", *command], terms | lease | {"DATABASE_URL": world.dsn(host)}

    return fire


def cronguard(
    world: World, host: str, key: str, period: str, command: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    terms = ["--lease", f"{LEASE}s", "--beat-every", "1s", "--stop-grace", "1s"]
    state = {"CRONGUARD_DSN": world.dsn(host), "CRONGUARD_STATE_DIR": str(world.scratch / f"state-{host}")}
    return [CRONGUARD, "run", "--key", key, "--period", period, *terms, "--", *command], state


@dataclass(frozen=True)
class Tool:
    name: str
    fire: Fire
    program: str
    asks_server: bool = True
    in_a_fleet: Fire | None = None  # where its hosts are really several


TOOLS = (
    Tool("flock", flock_on_one_host, "flock", asks_server=False, in_a_fleet=flock),
    Tool("psql", psql, "psql"),
    Tool("dislock lease", dislock("lease"), "dislock"),
    Tool("dislock schedule,lease", dislock("schedule,lease"), "dislock"),
    Tool("cronguard", cronguard, "cronguard"),
)
