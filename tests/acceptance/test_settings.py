"""Where a setting comes from: option, variable, the job's table, the defaults, built in; and how --dry-run tells."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.acceptance.looking import STARTS, configured, tables
from tests.rig.guard import Guard, Result

KEY = ("run", "--key", "nightly")
DRY = (*KEY, "--dry-run")


def settings(result: Result) -> dict[str, str]:
    """What --dry-run says of each setting: its value, and in parentheses where it was set."""
    assert (result.code, result.err) == (0, "")
    _, _, listing = result.out.partition("VALUE  (WHERE IT WAS SET)\n")
    return {name: said.strip() for name, _, said in (line.partition(" ") for line in listing.splitlines())}


@pytest.mark.parametrize(
    ("name", "values", "built_in"),
    [
        ("lease", ("61s", "62s", "63s", "64s"), "60s"),
        ("attempts", ("2", "3", "4", "5"), "1"),
        ("quiet", ("true", "yes", "on", "1"), "false"),
    ],
)
def test_the_nearest_setting_wins(
    sqlite_guard: Guard, tmp_path: Path, name: str, values: tuple[str, str, str, str], built_in: str
) -> None:
    option, variable, job, default = values
    said = f"[defaults]\n{name} = '{default}'\n[jobs.other]\n{name} = '1s'\n"
    settled = said + f"[jobs.nightly]\n{name} = '{job}'\n"
    upper = f"CRONGUARD_{name.upper()}"
    as_option = [f"--{name}"] if name == "quiet" else [f"--{name}", option]

    bare = sqlite_guard
    with_defaults, _ = configured(sqlite_guard, tmp_path, said)
    assert settings(bare.run(*DRY, *STARTS))[name] == f"{built_in}  (default)"
    assert settings(with_defaults.run(*DRY, *STARTS))[name] == f"{default}  ({tmp_path}/cronguard.toml line 2)"
    guard, _ = configured(sqlite_guard, tmp_path, settled)
    assert settings(guard.run(*DRY, *STARTS))[name] == f"{job}  ({tmp_path}/cronguard.toml line 6)"
    guard = guard.with_env(**{upper: variable})
    assert settings(guard.run(*DRY, *STARTS))[name] == f"{variable}  ({upper})"
    assert settings(guard.run(*DRY, *as_option, *STARTS))[name] == f"{option}  (--{name})"


def test_switch_that_the_configuration_sets_can_be_put_back_by_a_variable(sqlite_guard: Guard, tmp_path: Path) -> None:
    guard, _ = configured(sqlite_guard, tmp_path, "[defaults]\nquiet = true\n")
    assert guard.run("run", "--key", "a", "--", "echo", "hi").out == ""
    assert guard.with_env(CRONGUARD_QUIET="false").run("run", "--key", "b", "--", "echo", "hi").out == "hi\n"


def test_what_is_set_is_what_happens(sqlite_guard: Guard, tmp_path: Path) -> None:
    """Not only shown: the job's own table says how often it is due, and ends it."""
    text = '[jobs."nightly"]\nevery = "hour"\ncomplete_by = "0.3s"\nstop_grace = "1s"\n'
    guard, _ = configured(sqlite_guard, tmp_path, text)
    assert guard.run(*KEY, "--", "sleep", "60").code == 124
    assert guard.show("nightly")["cadence"] == "hour"
    assert guard.run("run", "--key", "other", "--", "true").code == 0
    assert guard.show("other")["cadence"] == "day"


def test_empty_variable_counts_as_unset(sqlite_guard: Guard) -> None:
    names = ("LEASE", "ATTEMPTS", "QUIET", "TZ", "EVERY", "PERIOD", "DSN", "DSN_FILE", "CONFIG", "JOB_NAME", "DB_WAIT")
    guard = sqlite_guard.with_env(**{f"CRONGUARD_{name}": "" for name in names})
    shown = settings(guard.run(*DRY, *STARTS))
    assert all(shown[name.lower()].endswith("(default)") for name in names)
    assert guard.run(*KEY, *STARTS).code == 0


def test_key_may_come_from_a_variable_and_chooses_the_jobs_table(sqlite_guard: Guard, tmp_path: Path) -> None:
    guard, origin = configured(sqlite_guard, tmp_path, '[jobs."täglich: 1.5"]\nattempts = 7\n', 2)
    guard = guard.with_env(CRONGUARD_KEY="täglich: 1.5")
    assert settings(guard.run("run", "--dry-run", *STARTS))["attempts"] == f"7  ({origin})"


@pytest.mark.parametrize("nearer", ["--dsn", "--dsn-file", "CRONGUARD_DSN", "CRONGUARD_DSN_FILE"])
def test_of_a_dsn_and_a_file_that_holds_one_the_nearer_counts(bare_guard: Guard, tmp_path: Path, nearer: str) -> None:
    """A secret that is mounted for one job is not overruled by what the configuration says for all."""
    near, far = f"sqlite://{tmp_path}/near.db", f"sqlite://{tmp_path}/far.db"
    for name, dsn in (("near", near), ("far", far)):
        (tmp_path / name).write_text(dsn)
        (tmp_path / name).chmod(0o600)
    is_file = nearer.lower().replace("_", "-").endswith("file")
    other = f'dsn = "{far}"' if is_file else f'dsn_file = "{tmp_path}/far"'
    guard, _ = configured(bare_guard, tmp_path, f"[defaults]\n{other}\n")
    value, arguments = (str(tmp_path / "near") if is_file else near), KEY
    if nearer.startswith("--"):
        arguments = (*KEY, nearer, value)
    else:
        guard = guard.with_env(**{nearer: value})
    assert guard.run(*arguments, *STARTS).code == 0
    assert (tmp_path / "near.db").exists()
    assert not (tmp_path / "far.db").exists()


# --- Where the configuration is ---------------------------------------------------------------------------------------


def written(path: Path, attempts: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[defaults]\nattempts = {attempts}\n")
    return str(path)


def test_configuration_is_looked_for_in_the_usual_places_and_the_first_is_taken(
    sqlite_guard: Guard, tmp_path: Path
) -> None:
    home = written(tmp_path / "home" / ".config" / "cronguard" / "config.toml", 2)
    guard = sqlite_guard.with_env(HOME=str(tmp_path / "home"))
    assert settings(guard.run(*DRY, *STARTS))["attempts"] == f"2  ({home} line 2)"
    xdg = written(tmp_path / "xdg" / "cronguard" / "config.toml", 3)
    guard = guard.with_env(XDG_CONFIG_HOME=str(tmp_path / "xdg"))
    assert settings(guard.run(*DRY, *STARTS))["attempts"] == f"3  ({xdg} line 2)"
    named = written(tmp_path / "named.toml", 4)
    guard = guard.with_env(CRONGUARD_CONFIG=named)
    assert settings(guard.run(*DRY, *STARTS))["attempts"] == f"4  ({named} line 2)"
    option = written(tmp_path / "option.toml", 5)
    assert settings(guard.run(*DRY, "--config", option, *STARTS))["attempts"] == f"5  ({option} line 2)"


def test_configuration_in_the_current_directory_is_never_taken(sqlite_guard: Guard) -> None:
    """cron starts jobs in HOME, a person anywhere: what lies about there must not decide."""
    for name in ("cronguard.toml", "config.toml", ".cronguard.toml", "cronguard/config.toml", ".config/cronguard"):
        written(sqlite_guard.folder / name, 9)
    assert settings(sqlite_guard.run(*DRY, *STARTS))["attempts"] == "1  (default)"


# --- --dry-run --------------------------------------------------------------------------------------------------------


def test_dry_run_claims_nothing_and_writes_nothing(guard: Guard) -> None:
    """Not even the skip of a period that has succeeded."""
    assert guard.run(*KEY, "--", "true").code == 0
    before = tables(guard)
    skipped = guard.run(*DRY, *STARTS)
    assert (skipped.code, skipped.err) == (0, "")
    assert skipped.out.startswith("would     not run: nightly ")
    assert "already succeeded at " in skipped.out
    granted = guard.run("run", "--key", "new", "--every", "hour", "--dry-run", *STARTS)
    assert granted.out.startswith("would     run: touch started\n")
    assert tables(guard) == before
    assert not (guard.folder / "started").exists()


def test_dry_run_says_what_would_happen_and_why(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run(*KEY, "--period", "2026-01-01", "--", "true").code == 0
    asked = ("--schedule", "0 6 * * *", "--tz", "Europe/Berlin", "--period", "2026-01-02", "--complete-by", "never")
    said = sqlite_guard.run(*DRY, *asked, "--", "echo", "a b").out
    for line in (
        "would     run: echo 'a b'",
        "attempt   1, without a deadline",
        "changes   the key's zone from UTC to Europe/Berlin",
        "changes   the key's schedule from none to 0 6 * * *",
        "key       nightly",
        "period    2026-01-02  (from the label)",
        "calendar  every day in Europe/Berlin, schedule '0 6 * * *'",
        "held by   nobody",
        "schedule              0 6 * * *  (--schedule)",
    ):
        assert line in said.splitlines()


def test_dry_run_names_who_holds_it(sqlite_guard: Guard) -> None:
    holder = sqlite_guard.start(*KEY, "--", "sh", "-c", "echo >>ready; read _", stdin=-1)
    sqlite_guard.wait_for_line("ready")
    said = sqlite_guard.run(*DRY, *STARTS).out
    run = sqlite_guard.show("nightly")
    holder.communicate("\n")
    assert said.startswith(f"would     not run: nightly {run['period']}: held: {run['host']} (pid {run['pid']})")
    assert f"held by   {run['host']} pid {run['pid']}, period {run['period']}, lease until " in said


# --- Inside a run -----------------------------------------------------------------------------------------------------

NESTED = (sys.executable, "-m", "cronguard", "run")


def test_what_a_run_tells_its_command_is_no_option_of_a_run_inside_it(sqlite_guard: Guard) -> None:
    """The command is told its key and period by variables that also name settings."""
    told = ("--tz", "Asia/Tokyo", "--period", "2026-01-01", "--complete-by", "1h")
    inner = ("--", *NESTED, "--key", "inner", "--dry-run", "--", "true")
    shown = settings(sqlite_guard.run("run", "--key", "outer", *told, *inner))
    assert shown["key"] == "inner  (--key)"
    assert [shown[name] for name in ("period", "tz", "complete_by")] == ["-  (default)"] * 3


def test_run_inside_a_run_needs_a_key_of_its_own(sqlite_guard: Guard) -> None:
    result = sqlite_guard.run("run", "--key", "outer", "--", *NESTED, *STARTS)
    assert result.code == 125
    assert "there is no key" in result.only_line
    assert [run["key"] for run in sqlite_guard.history()] == ["outer"]


def test_rerun_that_was_asked_of_a_run_is_not_asked_of_a_run_inside_it(sqlite_guard: Guard) -> None:
    guard = sqlite_guard.with_env(CRONGUARD_RERUN="true", CRONGUARD_FORCE="true", CRONGUARD_JOB_NAME="x-29933640")
    shown = settings(guard.run("run", "--key", "outer", "--", *NESTED, "--key", "inner", "--dry-run", "--", "true"))
    assert [shown[name] for name in ("rerun", "force", "job_name")] == ["false  (default)"] * 2 + ["-  (default)"]


def test_other_variables_still_count_inside_a_run(sqlite_guard: Guard) -> None:
    inner = ("--", *NESTED, "--key", "inner", "--dry-run", "--", "true")
    shown = settings(sqlite_guard.with_env(CRONGUARD_LEASE="90s").run("run", "--key", "outer", *inner))
    assert shown["lease"] == "90s  (CRONGUARD_LEASE)"


def test_outside_a_run_they_are_settings_like_all_others(sqlite_guard: Guard) -> None:
    guard = sqlite_guard.with_env(CRONGUARD_KEY="named", CRONGUARD_PERIOD="2026-01-01", CRONGUARD_TZ="Asia/Tokyo")
    assert guard.run("run", "--", "true").code == 0
    run = guard.show("named")
    assert (run["period"], run["zone"]) == ("2026-01-01", "Asia/Tokyo")
