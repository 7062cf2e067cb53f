"""What a start may cost: the modules that are never loaded, read from the interpreter's own account of its imports.

cron starts cronguard on every host at every tick, mostly to be told that there is nothing to do.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from cronguard.cli.program import MODULES, program
from tests.rig.guard import Guard

# Each is behind one door, and has no business in these starts. `subprocess` and `urllib.parse` are not here: typer
# loads the one, and the standard library's pathlib the other.
NEVER = frozenset({
    "asyncio", "concurrent.futures", "cronsim", "durationpy", "email", "http.client", "importlib.metadata", "logging",
    "multiprocessing", "pydantic", "rich", "ssl", "tenacity", "tomllib", "urllib.request",
})  # fmt: skip
DRIVERS = frozenset({"psycopg", "psycopg_binary", "sqlite3"})
ROOMS = frozenset({"cronguard.process", "cronguard.render", "cronguard.services", "cronguard.stores"})
WHERE_RESULTS_ARE_READ = frozenset({"json", "tempfile", "random", "socket"})


def loaded(guard: Guard, *arguments: str, code: int = 0) -> frozenset[str]:
    """The modules that the interpreter loads for `cronguard …`, those of the standard library too."""
    result = guard.with_env(PYTHONPROFILEIMPORTTIME="1").run(*arguments)
    assert result.code == code, result.err
    lines = (line for line in result.err.splitlines() if line.startswith("import time:"))
    modules = frozenset(line.rpartition("|")[2].strip() for line in lines)
    assert "cronguard.cli" in modules
    return modules


EFFECTS = ("once", "claim", "confirm", "release", "effects", "resolve")
PEOPLE = ("status", "watch", "keys", "stats", "reset", "cancel", "stop", "pause", "resume", "prune")
INSIDE = ("beat", "extend", "step", "settle", *EFFECTS)
COMMANDS = ("", "run", "backfill", *INSIDE, "init", "history", "show", "supervise", "doctor", *PEOPLE)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_the_front_door_and_no_room_behind_it(bare_guard: Guard, command: str) -> None:
    modules = loaded(bare_guard, *filter(None, [command]), "--help")
    assert modules & (NEVER | DRIVERS | ROOMS | WHERE_RESULTS_ARE_READ) == frozenset()


def test_a_mistyped_option_costs_no_more_than_the_help(bare_guard: Guard) -> None:
    modules = loaded(bare_guard, "run", "--kye", "digest", "--", "true", code=125)
    assert modules & (NEVER | DRIVERS | ROOMS) == frozenset()


def test_a_run_loads_nothing_of_what_people_ask_about_whole_keys(sqlite_guard: Guard) -> None:
    ours = ("overview", "stats", "advice", "pruning", "following", "intervention", "transcript")
    for _ in ("granted", "skipped"):
        modules = loaded(sqlite_guard, "run", "--key", "digest", "--", "true")
        assert modules & {f"cronguard.domain.{name}" for name in ours} == frozenset()


def test_a_run_on_sqlite_loads_neither_postgres_nor_what_it_does_not_need(sqlite_guard: Guard) -> None:
    granted = loaded(sqlite_guard, "run", "--key", "digest", "--", "true")
    skipped = loaded(sqlite_guard, "run", "--key", "digest", "--", "true")
    assert sqlite_guard.show("digest")["skips"] == 1
    for modules in (granted, skipped):
        assert modules & (NEVER | {"psycopg", "psycopg_binary", "cronguard.render"}) == frozenset()
        assert "sqlite3" in modules


def test_an_effect_on_sqlite_loads_neither_postgres_nor_what_it_does_not_need(sqlite_guard: Guard) -> None:
    asked = ("once", "mail", "ada", "--period", "2026-11", "--", "true")
    for modules in (loaded(sqlite_guard, *asked), loaded(sqlite_guard, *asked)):
        assert modules & (NEVER | {"psycopg", "psycopg_binary"}) == frozenset()


def test_a_job_in_python_pays_for_no_more_than_it_asks_for(bare_guard: Guard) -> None:
    asked = "import sys, cronguard; print(*sorted(name for name in sys.modules if name.startswith('cronguard')))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["cronguard"]


def test_a_run_on_postgres_loads_no_other_ledger_and_nothing_for_tables_or_failures(postgres_guard: Guard) -> None:
    granted = loaded(postgres_guard, "run", "--key", "digest", "--", "true")
    skipped = loaded(postgres_guard, "run", "--key", "digest", "--", "true")
    unneeded = {"cronsim", "durationpy", "pydantic", "rich", "sqlite3", "tenacity", "tomllib", "cronguard.render"}
    for modules in (granted, skipped):
        assert modules & unneeded == frozenset()
        assert "psycopg" in modules


def test_what_is_asked_for_is_loaded(sqlite_guard: Guard) -> None:
    """The other way round, so that the absences above mean something."""
    asked = ("--schedule", "* * * * *", "--complete-by", "1h30m", "--lease", "2m")
    assert {"cronsim", "durationpy"} <= loaded(sqlite_guard, "run", "--key", "digest", *asked, "--", "true")


@pytest.mark.parametrize("module", dict.fromkeys(MODULES.values()))
def test_every_command_is_declared_where_the_table_says(module: str) -> None:
    names = [name for name, where in MODULES.items() if where == module]
    declared = [command.callback.__name__ for command in program(names).registered_commands if command.callback]
    assert declared == names


def test_a_command_loads_no_other_commands() -> None:
    asked = "import sys; from cronguard.cli import main; main(['run', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=60)
    rooms = {f"cronguard.cli.{module}" for module in MODULES.values()}
    assert rooms & set(done.stdout.split()) == {"cronguard.cli.run_command"}
