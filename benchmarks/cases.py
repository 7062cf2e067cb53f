"""What cost.py compares: each case a command line, its environment, and the exit code that shows it did its part.

`{n}` in a word or a variable becomes the number of the round, so that a case which must be granted has a key of its
own each time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.rig.postgres import PASSWORDS, Server
from tests.rig.proxy import Proxy

CRONGUARD = str(Path(sys.executable).with_name("cronguard"))
FLOOR = "python -c 'import typer, psycopg'"
DATABASE = "bench"
ADVISORY_LOCK = 4711  # of the psql one-liner that is granted; the next number is busy
NEVER_AGAIN = "0 0 1 1 *"  # dislock holds a slot until the next tick


@dataclass(frozen=True)
class Case:
    """One command line; `tcp` are the variables that lead it through the proxy instead (none: it asks no database)."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    tcp: Mapping[str, str] = field(default_factory=dict)
    exit_code: int = 0
    unable: str = ""  # why it cannot be measured here
    waits: bool = False  # a guard that stays while its command runs

    def command(self, n: object) -> list[str]:
        return [word.replace("{n}", str(n)) for word in self.argv]

    def variables(self, base: Mapping[str, str], n: object, *, tcp: bool = False) -> dict[str, str]:
        own = {**self.environment, **(self.tcp if tcp else {})}
        return {**base, **{name: text.replace("{n}", str(n)) for name, text in own.items()}}


def clean_environment(scratch: Path) -> dict[str, str]:
    """Nothing of the caller's but PATH: not his cronguard or Postgres, and no ban on writing bytecode."""
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8", "TZ": "UTC"}


def all_cases(server: Server, proxy: Proxy, scratch: Path, *, dislock: bool) -> list[Case]:
    return [
        Case(FLOOR, [sys.executable, "-c", "import typer, psycopg"]),
        *_cronguard("SQLite", {"CRONGUARD_STATE_DIR": str(scratch / "sqlite")}, {}),
        *_cronguard("Postgres", *_ways("CRONGUARD_DSN", server, proxy, CRONGUARD_STATE_DIR=str(scratch / "postgres"))),
        *_flock(scratch),
        *_psql(server, proxy),
        *(_dislock(server, proxy, scratch) if dislock else []),
    ]


def _ways(name: str, server: Server, proxy: Proxy, **more: str) -> tuple[dict[str, str], dict[str, str]]:
    """A variable with the database's address: over the socket, and through the proxy."""
    return {name: server.dsn(DATABASE), **more}, {name: server.dsn(DATABASE, "tcp", port=proxy.port), **more}


def _cronguard(store: str, socket: Mapping[str, str], tcp: Mapping[str, str]) -> list[Case]:
    def run(key: str) -> list[str]:
        return [CRONGUARD, "run", "--key", key, "--", "true"]

    return [
        Case(f"cronguard, {store}: skipped", run("done"), socket, tcp),
        Case(f"cronguard, {store}: granted", run("key-{n}"), socket, tcp, waits=True),
    ]


def _flock(scratch: Path) -> list[Case]:
    def flock(name: str) -> list[str]:
        return ["flock", "-n", str(scratch / name), "true"]

    unable = "" if shutil.which("flock") else "there is no program flock"
    return [
        Case("flock -n FILE true: busy", flock("busy.lock"), exit_code=1, unable=unable),
        Case("flock -n FILE true: granted", flock("free.lock"), unable=unable, waits=True),
    ]


def _psql(server: Server, proxy: Proxy) -> list[Case]:
    """As people write it. The lock ends with psql, before the command begins: it guards nothing while that runs."""
    socket = {"PGHOST": server.socket_dir, "PGPORT": str(server.port), "PGUSER": "app", "PGDATABASE": DATABASE}
    tcp = {**socket, "PGHOST": "127.0.0.1", "PGPORT": str(proxy.port), "PGPASSWORD": PASSWORDS["app"]}

    def ask(lock: int) -> list[str]:
        return ["sh", "-c", f'[ "$(psql -qAt -c "select pg_try_advisory_lock({lock})")" = t ] && true']

    unable = "" if shutil.which("psql") else "there is no program psql"
    return [
        Case("psql advisory lock: busy", ask(ADVISORY_LOCK + 1), socket, tcp, 1, unable),
        Case("psql advisory lock: granted", ask(ADVISORY_LOCK), socket, tcp, 0, unable),
    ]


def _dislock(server: Server, proxy: Proxy, scratch: Path) -> list[Case]:
    """Its nearest to what cronguard does: one start for each slot, and a lease while it runs."""
    program, unable = installed_dislock(scratch / "dislock")
    server.execute("create table key_value (key text primary key, value text not null, expire_at timestamptz not null)",
                   database=DATABASE)  # fmt: skip
    server.execute("alter table key_value owner to app", database=DATABASE)
    terms = {"LOCK_STRATEGY": "schedule,lease", "CRON_SCHEDULE": NEVER_AGAIN}

    def case(name: str, key: str) -> Case:
        ways = _ways("DATABASE_URL", server, proxy, LOCK_KEY=key, **terms)
        return Case(name, [program, "DATABASE_URL", "true"], *ways, unable=unable, waits="granted" in name)

    return [case("dislock: skipped", "done"), case("dislock: granted", "key-{n}")]


def installed_dislock(place: Path) -> tuple[str, str]:
    """Its program, in a venv of its own; or why there is none."""
    venv.create(place, with_pip=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "dislock"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    program = place / "bin" / "dislock"
    if program.exists():
        return str(program), ""
    return "", f"pip could not install it: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
