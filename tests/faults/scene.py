"""Where a fault happens: a ledger, the ways to it, and two hosts that fire the same jobs."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cronguard.ports import Store
from cronguard.stores import open_store
from cronguard.stores.dsn import parse_dsn
from tests.rig.cluster import Cluster
from tests.rig.host import Host
from tests.rig.pgbouncer import PgBouncer
from tests.rig.postgres import Server
from tests.rig.proxy import Proxy

STATE = "CRONGUARD_STATE_DIR"


@dataclass
class Scene:
    """`near` is the host that the fault strikes; `far` has a way of its own to the ledger, which `dsn` reads."""

    folder: Path
    near: Host
    far: Host
    dsn: str
    server: Server | None = None
    proxy: Proxy | None = None
    pooler: PgBouncer | None = None
    cluster: Cluster | None = None
    database: str = ""
    disk: Path | None = None  # a small file system, which near (and a local ledger) writes to

    def store(self) -> Store:
        """The ledger, to be read."""
        return open_store(parse_dsn(self.dsn))


@contextmanager
def on_postgres(
    way: str = "proxy", *, own_pids: bool = False, small_disk: bool = False, max_connections: int = 200
) -> Iterator[Scene]:
    """A Postgres of its own; near goes through a proxy, or both through a `pooler`, or both straight."""
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        server = stack.enter_context(Server(max_connections=max_connections))
        database = server.create_database()
        dsn = server.dsn(database)
        open_store(parse_dsn(dsn)).migrate()
        proxy = stack.enter_context(Proxy(server.port)) if way == "proxy" else None
        pooler = stack.enter_context(PgBouncer(server)) if way == "pooler" else None
        near = far = pooler.dsn(database) if pooler else dsn
        if proxy:
            near = server.dsn(database, "tcp", port=proxy.port)
        disk = stack.enter_context(small_file_system(folder / "disk")) if small_disk else None
        state = {STATE: str(disk / "state"), "TMPDIR": str(disk / "tmp")} if disk else {}
        hosts = [
            _host(stack, folder / "near", {"CRONGUARD_DSN": near, **state}, own_pids),
            _host(stack, folder / "far", {"CRONGUARD_DSN": far}),
        ]
        yield Scene(folder, *hosts, dsn, server, proxy, pooler, disk=disk)


@contextmanager
def on_cluster(**standbys: int) -> Iterator[Scene]:
    """A primary and a standby; both hosts name both, as they would behind a failover."""
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        cluster = stack.enter_context(Cluster(**standbys))
        database = cluster.primary.create_database()
        dsn = cluster.primary.dsn(database)
        open_store(parse_dsn(dsn)).migrate()
        environment = {"CRONGUARD_DSN": cluster.dsn(database)}
        near, far = (_host(stack, folder / name, environment) for name in ("near", "far"))
        yield Scene(folder, near, far, dsn, cluster=cluster, database=database)


@contextmanager
def on_sqlite(*, own_pids: bool = False, small_disk: bool = False) -> Iterator[Scene]:
    """A file on one machine, which both `hosts` share: two crontabs that fire the same jobs."""
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        disk = stack.enter_context(small_file_system(folder / "disk")) if small_disk else None
        state = (disk or folder) / "state"
        dsn = f"sqlite://{state}/ledger.db"
        state.mkdir()
        open_store(parse_dsn(dsn)).migrate()
        environment = {STATE: str(state), "TMPDIR": str(disk or folder)}
        near = _host(stack, folder / "near", environment, own_pids)
        yield Scene(folder, near, _host(stack, folder / "far", environment), dsn, disk=disk)


@contextmanager
def small_file_system(path: Path, size: str = "2m") -> Iterator[Path]:
    """A tmpfs of its own, which is soon full; it takes root."""
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "cronguard-test", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(disk: Path) -> Path:
    """Write until nothing more goes in; the file that takes up the room."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler


@contextmanager
def _folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="cronguard-lab-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _host(stack: ExitStack, folder: Path, environment: Mapping[str, str], own_pids: bool = False) -> Host:
    host = Host(folder, {STATE: str(folder / "state"), "TMPDIR": str(folder), **environment}, own_pids)
    stack.callback(host.close)
    return host
