"""A real PgBouncer before a Postgres of the rig."""

from __future__ import annotations

import shutil

import psycopg

from tests.rig.den import Den, free_port
from tests.rig.postgres import PASSWORDS, Server
from tests.rig.requirements import SEARCH
from tests.rig.waiting import wait_until

PATIENT = 60.0  # seconds


class PgBouncer:
    """A pooler on 127.0.0.1 that asks for no password; `mode` is transaction, session or statement."""

    def __init__(self, server: Server, mode: str = "transaction", **settings: object) -> None:
        self.server, self.mode, self.port = server, mode, free_port()
        self._settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": "users",
            "admin_users": "postgres",
            "pool_mode": mode,
        } | settings
        self.den: Den | None = None

    def __enter__(self) -> PgBouncer:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> PgBouncer:
        """Start it and wait until it answers; RuntimeError with its words if it does not start."""
        program = shutil.which("pgbouncer", path=SEARCH)
        if not program:
            raise RuntimeError("no pgbouncer here: the test lacks @pytest.mark.needs('pgbouncer')")
        self.den = Den("pgbouncer")
        users = "".join(f'"{user}" ""\n' for user in PASSWORDS)
        (self.den.path / "users").write_text(users)
        (self.den.path / "pgbouncer.ini").write_text(self._configuration())
        self._process = self.den.popen(program, "pgbouncer.ini")
        wait_until(self._answers, PATIENT, saying="pgbouncer answers")
        return self

    def stop(self) -> None:
        """End it and leave nothing behind."""
        if self.den:
            self.den.close()
            self._process.wait(PATIENT)
            self.den = None

    def dsn(self, database: str, user: str = "app") -> str:
        """A URL through the pooler."""
        return self.server.dsn(database, "tcp", user=user, port=self.port)

    def _configuration(self) -> str:
        backend = f"host={self.server.socket_dir} port={self.server.port}"
        return "\n".join(
            ["[databases]", f"* = {backend}", "[pgbouncer]", *(f"{k} = {v}" for k, v in self._settings.items()), ""]
        )

    def _answers(self) -> bool:
        assert self.den
        if self._process.poll() is not None:
            raise RuntimeError(f"pgbouncer did not start:\n{self.den.log()}")
        try:
            psycopg.connect(self.dsn("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True
