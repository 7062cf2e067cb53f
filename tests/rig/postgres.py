"""A real Postgres for the tests: found, started, disturbed and removed by ourselves."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import uuid
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql

from tests.rig import processes
from tests.rig.binaries import find_binaries, usable
from tests.rig.den import Den, free_port
from tests.rig.waiting import wait_until

PASSWORDS = {"postgres": "open sesame", "app": "s3cr:t/@word"}  # a superuser; an ordinary role that owns the databases
HBA = "local all,replication all trust\nhost all,replication all 127.0.0.1/32 scram-sha-256\n"
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
DEFAULTS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "log_line_prefix": "%m [%p] %a ",
}
DEFAULTS |= {"shared_buffers": "32MB", "dynamic_shared_memory_type": "mmap", "password_encryption": "scram-sha-256"}


@cache
def _prepared() -> tuple[Path, Path]:
    """The programs and an empty cluster, made once for all servers of this process."""
    found, den = find_binaries(), Den("pg-template")
    atexit.register(den.close)
    binaries, data = usable(found, den), den.path / "data"
    den.run(binaries / "initdb", "-D", data, "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync")
    return binaries, data


class Server:
    """One Postgres with its own files, socket directory and port; `start` it, and `close` it at the end."""

    def __init__(self, *, max_connections: int = 100, **settings: object) -> None:
        self._bin, template = _prepared()
        self.den = Den("pg")
        self.port = free_port()
        self.socket_dir = str(self.den.path)
        self._data = self.den.path / "data"
        self._settings = DEFAULTS | {"max_connections": max_connections} | settings
        self._process: subprocess.Popen[bytes] | None = None
        self._fill(template)

    def _fill(self, template: Path) -> None:
        self.den.run("cp", "-r", template, self._data)
        (self._data / "pg_hba.conf").write_text(HBA)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Start, or start again with the same data and port, and wait until it answers."""
        settings = self._settings | {"port": self.port, "unix_socket_directories": self.socket_dir}
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._process = self.den.popen(self._bin / "postgres", "-D", self._data, *flags)
        wait_until(self._answers, within=60, saying="Postgres answers")
        if not self.execute("select 1 from pg_roles where rolname = 'app'"):
            self._create_roles()
        return self

    def stop(self, mode: str = "fast") -> None:
        """Stop as pg_ctl does: smart (waits for clients), fast, or immediate (as after a crash)."""
        self.resume()
        self._signal([self.pid], SIGNALS[mode])
        self._ended()

    def restart(self, mode: str = "fast") -> None:
        """Stop and start on the same port."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """SIGKILL every process of it, as when the machine goes down."""
        while pids := self.den.pids():
            self._signal(pids, signal.SIGKILL)
        self._ended()

    def pause(self) -> None:
        """Freeze every process of it: the kernel still accepts connections and bytes, nobody answers."""
        self._signal([self.pid], signal.SIGSTOP)  # first of all, so that it forks no more
        wait_until(lambda: processes.state(self.pid) == "T", within=30, saying="the postmaster is frozen")
        self._signal(self.den.pids(), signal.SIGSTOP)
        wait_until(
            lambda: all(processes.state(pid) in "TZ" for pid in self.den.pids()), within=30, saying="Postgres is frozen"
        )

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._signal(self.den.pids(), signal.SIGCONT)

    def close(self) -> None:
        """End it and leave nothing behind."""
        self.den.close()
        self._ended()

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        assert self._process, "not started"
        return self._process.pid

    def admit(self, network: str) -> None:
        """Let hosts of that network in, with a password; `listen_addresses` must name where they come to."""
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {network} scram-sha-256\n")
        self.execute("select pg_reload_conf()")

    def dsn(
        self,
        database: str = "postgres",
        host: str = "socket",
        *,
        user: str = "app",
        password: str | None = None,
        port: int | None = None,
        **parameters: object,
    ) -> str:
        """A URL for the `socket` (no password asked) or for `tcp` (password asked), perhaps through another port."""
        port = port or self.port
        if host == "socket":
            query = urlencode({"host": self.socket_dir, "port": port} | parameters)
            return f"postgresql://{user}@/{database}?{query}"
        secret = quote(PASSWORDS[user] if password is None else password, safe="")
        query = "?" + urlencode(parameters) if parameters else ""
        return f"postgresql://{user}:{secret}@127.0.0.1:{port}/{database}{query}"

    def connect(self, database: str = "postgres", user: str = "postgres") -> psycopg.Connection[Any]:
        """An autocommit connection over the socket, by default as the superuser."""
        return psycopg.connect(self.dsn(database, user=user), autocommit=True, connect_timeout=10)

    def execute(self, query: str | sql.SQL | sql.Composed, *values: object, database: str = "postgres") -> list[Any]:
        """Run one statement as the superuser on a connection of its own, and return its rows."""
        with self.connect(database) as connection:
            cursor = connection.execute(query, values or None)
            return cursor.fetchall() if cursor.description else []

    def create_database(self, name: str | None = None) -> str:
        """Create a database that belongs to `app`, and return its name: a unique one unless told."""
        name = name or f"test_{uuid.uuid4().hex[:16]}"
        self.execute(sql.SQL("create database {} owner app").format(sql.Identifier(name)))
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, whoever is connected."""
        self.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def _create_roles(self) -> None:
        self.execute(sql.SQL("create role app login"))
        for role, password in PASSWORDS.items():
            statement = sql.SQL("alter role {} password {}")
            self.execute(statement.format(sql.Identifier(role), sql.Literal(password)))

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"Postgres did not start:\n{self.den.log()}")
        try:
            return bool(self.execute("select 1"))
        except psycopg.OperationalError:
            return False

    def _signal(self, pids: list[int], number: signal.Signals) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _ended(self) -> None:
        if self._process:
            self._process.wait(timeout=60)
        wait_until(lambda: not self.den.pids(), within=30, saying="all processes of Postgres are gone")
