"""Whatever makes no sense is refused in one line: what is wrong, where it was set, what to write instead.

Exit code 125, nothing started, nothing recorded, no traceback.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.looking import POWERLESS, STARTS, change, configured, records, refusal
from tests.rig.guard import Guard

KEY = ("run", "--key", "nightly")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "there is no command; type: cronguard run --key KEY -- CMD"),
        (KEY, "there is no command"),
        ((*KEY, "--"), "there is no command"),
        ((*KEY, "--dry-run"), "there is no command"),
        ((*KEY, "--", "", "started"), "the command is an empty word; type: cronguard run --key KEY -- CMD"),
        (("run", *STARTS), "there is no key"),
        (("run", "--dry-run", *STARTS), "there is no key"),
        (("run", "--key", "", *STARTS), "--key: the key is empty; give it a name such as"),
        (("run", "--key", "x" * 256, *STARTS), "--key: the key is longer than 255 bytes; shorten it"),
        (("run", "--key", "ä" * 128, *STARTS), "--key: the key is longer than 255 bytes"),
        (("run", "--key", "a\nb", *STARTS), r"--key: the key 'a\nb' has control or unprintable characters; use"),
        (("run", "--key", "a\x1b[31mb", *STARTS), "--key: the key 'a\\x1b[31mb' has control"),
        (("run", "--key", b"a\xffb", *STARTS), r"--key: the key 'a\udcffb' has control or unprintable"),
        (("run", "--key", " a", *STARTS), "--key: the key ' a' begins or ends with a blank; leave it out"),
        ((*KEY, "--force", *STARTS), "--force: --force goes with --rerun; type both"),
        ((*KEY, "--bogus", *STARTS), "no such option: --bogus; see cronguard run --help"),
        ((*KEY, "--attempt", "3", *STARTS), "no such option: --attempt (Possible options: --attempts"),
        ((*KEY, "--rerun=yes", *STARTS), "option '--rerun' does not take a value; see cronguard run --help"),
        (("run", "--key"), "option '--key' requires an argument; see cronguard run --help"),
        (("runn", *STARTS), "no such command 'runn'; did you mean 'run', 'prune'? see cronguard --help"),
        (("frobnicate",), "no such command 'frobnicate'; see cronguard --help"),
        (("--bogus",), "no such option: --bogus; see cronguard --help"),
        (("show",), "missing argument 'KEY'; see cronguard show --help"),
        (("show", "nobody"), "has no run of nobody; see: cronguard history"),
        (("show", "nobody", "2026-11-30"), "has no run of nobody 2026-11-30; see: cronguard history"),
        (("show", "nobody", b"\xff"), r"the period '\udcff' has control or unprintable characters"),
        (("show", ""), "the key is empty"),
        (("history", "a", "b"), "got unexpected extra argument"),
        (("history", b"\xff"), r"the key '\udcff' has control or unprintable characters"),
        (("history", "-n", "0"), "-n: '0' is not a whole number from 1 to 1000000"),
        (("history", "-n", "-1"), "-n: '-1' is not a whole number from 1 to 1000000"),
        (("history", "--limit", "all"), "-n: 'all' is not a whole number from 1 to 1000000"),
    ],
)
def test_command_line_that_makes_no_sense(sqlite_guard: Guard, arguments: tuple[str | bytes, ...], said: str) -> None:
    assert said in refusal(sqlite_guard, *arguments)


def test_bare_cronguard_shows_the_help_and_is_no_success(bare_guard: Guard) -> None:
    """In a crontab it is a slip, and must not read as a run that went well."""
    result = bare_guard.run()
    assert (result.code, result.out) == (125, "")
    assert result.err.startswith("Usage: cronguard ")


@pytest.mark.parametrize("option", ["--key", "--lease", "--dsn", "--dsn-file", "--state-dir", "--config", "--period"])
def test_option_whose_value_was_left_out_does_not_swallow_the_next_word(sqlite_guard: Guard, option: str) -> None:
    """`--key $EMPTY -- CMD` must not become a job called `--`."""
    assert refusal(sqlite_guard, *KEY, option, *STARTS).startswith(f"cronguard: {option} has no value: '--' follows it")


@pytest.mark.parametrize("option", ["--dsn", "--dsn-file", "--state-dir", "--config", "--schedule", "--tz", "--period"])
def test_empty_option_is_not_taken_for_an_absent_one(sqlite_guard: Guard, option: str) -> None:
    """`--dsn "$UNSET"` must not fall back to a ledger that only this host knows."""
    assert refusal(sqlite_guard, *KEY, option, "", *STARTS).startswith(f"cronguard: {option}: ")


# --- A value that cannot be read, wherever it was set -----------------------------------------------------------------

DURATION = "write it like 90s, 15m, 1h30m, 2d or 1w"
DEADLINE = "write it like 15m, 07:00, 2026-11-30T06:00:00Z or never"
CADENCE = "write minute, hour, day, week, month, quarter, year, run, or an interval like 15m"
FORMS = {name: DURATION for name in ("lease", "beat-every", "stop-grace", "retry-delay", "db-wait", "stall-after")}
FORMS["extend-max"] = DURATION
FORMS |= {"complete-by": DEADLINE, "start-by": DEADLINE, "every": CADENCE}


@pytest.mark.parametrize("value", ["10min", "90", "-5m"])
@pytest.mark.parametrize("name", FORMS)
def test_bad_duration_is_answered_with_the_forms_there_are(sqlite_guard: Guard, name: str, value: str) -> None:
    line = refusal(sqlite_guard, *KEY, f"--{name}", value, *STARTS)
    assert line.startswith(f"cronguard: --{name}: '{value}' is not a ")
    assert FORMS[name] in line


BAD_VALUES = [
    ("tz", "Europe/Berlim", "is not an IANA time zone; did you mean Europe/Berlin?"),
    ("tz", "Mars", "is not an IANA time zone; write it like Europe/Berlin or UTC"),
    ("schedule", "0 0 31 2 *", "is not a cron schedule (bad day-of-month); write it like '30 2 * * *'"),
    ("schedule", "every day", "is not a cron schedule of five fields; write it like '30 2 * * *'"),
    ("lease", "1 minute", "is not a duration; write it like 90s, 15m"),
    ("every", "daily", "is not a cadence; write minute, hour, day"),
    ("complete_by", "25:00", "is not a deadline; write it like 15m, 07:00"),
    ("attempts", "0", "is not a whole number from 1 to 1000000"),
    ("recoveries", "-1", "is not a whole number from 0 to 1000000"),
    ("skip_exit", "600", "is not a whole number from 0 to 255"),
    ("exclusive", "host", "is not one of key, period"),
    ("if_held", "queue", "is not one of skip, wait"),
    ("capture", "16kb", "is not a size of at most 1m; write it like 0, 4096, 16k or 1m"),
    ("capture", "1025k", "is not a size of at most 1m; write it like 0, 4096, 16k or 1m"),
]


@pytest.mark.parametrize(("name", "value", "said"), BAD_VALUES)
def test_bad_value_of_an_option(sqlite_guard: Guard, name: str, value: str, said: str) -> None:
    option = "--" + name.replace("_", "-")
    assert refusal(sqlite_guard, *KEY, f"{option}={value}", *STARTS).startswith(
        f"cronguard: {option}: {value!r} {said}"
    )


@pytest.mark.parametrize(("name", "value", "said"), BAD_VALUES[::3])
def test_bad_value_of_a_variable(sqlite_guard: Guard, name: str, value: str, said: str) -> None:
    variable = "CRONGUARD_" + name.upper()
    line = refusal(sqlite_guard.with_env(**{variable: value}), *KEY, *STARTS)
    assert line.startswith(f"cronguard: {variable}: {value!r} {said}")


@pytest.mark.parametrize(("name", "value", "said"), BAD_VALUES[::3])
@pytest.mark.parametrize("header", ["[defaults]", '[jobs."nightly"]'])
def test_bad_value_in_the_configuration(
    sqlite_guard: Guard, tmp_path: Path, header: str, name: str, value: str, said: str
) -> None:
    guard, origin = configured(sqlite_guard, tmp_path, f'# comment\n{header}\n{name} = "{value}"\n', 3)
    assert refusal(guard, *KEY, *STARTS).startswith(f"cronguard: {origin}, {name}: {value!r} {said}")


def test_bad_switch_in_a_variable(sqlite_guard: Guard) -> None:
    line = refusal(sqlite_guard.with_env(CRONGUARD_QUIET="quiet"), *KEY, *STARTS)
    assert line == "cronguard: CRONGUARD_QUIET: 'quiet' is not a switch; write true or false"


def test_force_in_a_variable_goes_with_rerun_too(sqlite_guard: Guard) -> None:
    assert "CRONGUARD_FORCE: --force goes with --rerun" in refusal(
        sqlite_guard.with_env(CRONGUARD_FORCE="true"), *KEY, *STARTS
    )


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (
            ("--lease", "30s", "--beat-every", "11s"),
            {},
            "--lease, --beat-every: a lease of 30s is shorter than three beats of 11s; "
            "lengthen --lease or shorten --beat-every",
        ),
        (("--lease", "11s"), {}, "--lease: a lease of 11s is too short: it must be longer than --stop-grace (8s)"),
        (
            ("--stop-grace", "1m"),
            {"CRONGUARD_LEASE": "60s"},
            "CRONGUARD_LEASE, --stop-grace: a lease of 60s is too short",
        ),
        ((), {"CRONGUARD_BEAT_EVERY": "30s"}, "CRONGUARD_BEAT_EVERY: a lease of 60s is shorter than three beats"),
        (
            ("--stall-after", "5s", "--beat-every", "4s"),
            {},
            "--beat-every, --stall-after: a --stall-after of 5s is shorter than two beats of 4s",
        ),
    ],
)
def test_lease_terms_that_do_not_go_together(
    sqlite_guard: Guard, arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    assert said in refusal(sqlite_guard.with_env(**variables), *KEY, *arguments, *STARTS)


# --- Periods ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (("--period", "2026-W40"), {}, "--period: '2026-W40' is not a day; write the period like 2026-11-30"),
        (("--period", "2026-02-30"), {}, "--period: '2026-02-30' is not a day; write the period like"),
        ((), {"CRONGUARD_PERIOD": "2026-10"}, "CRONGUARD_PERIOD: '2026-10' is not a day; write the period like"),
        (("--every", "hour", "--period", "2026-01-01"), {}, "is not an hour; write the period like 2026-11-30T06:00Z"),
        (("--every", "run", "--period", " x"), {}, "--period: ' x' is no label; write 1 to 255 bytes on one line"),
        (("--every", "run", "--period", "previous"), {}, "--period: with the cadence run each period stands alone"),
        (("--period", "9000-01-01"), {}, "--period: period 9000-01-01 has not begun yet (the ledger's clock says "),
        (("--scheduled-at", "9000-01-01T00:00:00Z"), {}, "--scheduled-at: period 9000-01-01 has not begun yet"),
        (("--scheduled-at", "2026-11-30T06:00"), {}, "has no offset from UTC; write it like 2026-11-30T06:00:00Z"),
        (("--scheduled-at", "yesterday"), {}, "--scheduled-at: 'yesterday' is not an instant; write it like"),
        ((), {"CRONGUARD_JOB_NAME": "digest-for-9000-01-01"}, "CRONGUARD_JOB_NAME: period 9000-01-01 has not begun"),
    ],
)
def test_period_that_cannot_be(
    sqlite_guard: Guard, arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    assert said in refusal(sqlite_guard.with_env(**variables), *KEY, *arguments, *STARTS)


def test_period_that_cannot_be_leaves_nothing_in_postgres_either(postgres_guard: Guard) -> None:
    assert "has not begun yet" in refusal(postgres_guard, *KEY, "--period", "9000-01-01", *STARTS)


def test_dry_run_refuses_such_a_period_with_the_same_words(sqlite_guard: Guard) -> None:
    line = refusal(sqlite_guard, *KEY, "--dry-run", "--period", "9000-01-01", *STARTS)
    assert "--period: period 9000-01-01 has not begun yet" in line


@pytest.mark.parametrize("insisting", [(), ("--rerun", "--force")])
def test_period_older_than_what_the_ledger_remembers(sqlite_guard: Guard, insisting: tuple[str, ...]) -> None:
    assert sqlite_guard.run(*KEY, "--", "true").code == 0
    long_ago = datetime.now(UTC) - timedelta(days=30)
    change(sqlite_guard, "update job set pruned_before = ?", int(long_ago.timestamp() * 1_000_000))
    result = sqlite_guard.run(*KEY, "--period", "2020-02-29", *insisting, *STARTS)
    assert result.code == 125
    assert "nightly 2020-02-29: this period is older than what the ledger remembers" in result.only_line
    assert sqlite_guard.lines("started") == []
    assert [run["period"] for run in sqlite_guard.history()] != ["2020-02-29"]
    assert len(records(sqlite_guard)["attempt"]) == 1


# --- The configuration ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[defaults\n", 0, "not valid TOML: "),
        ("[defaults]\nlease = 60s\n", 0, "not valid TOML: "),
        ("[defaults]\nlease = '60s'\nlease = '90s'\n", 0, "not valid TOML: "),
        (b"[defaults]\n# \xff\n", 0, "not a text file in UTF-8"),
        ('[defaults]\nlease = "60s"\nlaese = "60s"\n', 3, "unknown key 'laese'; did you mean lease?"),
        ('[defaults]\n\n[jobs."nightly"]\n  start-by = "5m"\n', 4, "unknown key 'start-by'; did you mean start_by?"),
        ('[jobs.nightly]\ncomplete_at = "5m"\n', 2, "unknown key 'complete_at'; did you mean complete_by?"),
        ('[jobs.other]\nlease = "9s"\n[jobs.nightly]\nzzz = 1\n', 4, "unknown key 'zzz'; known here: every, "),
        ('[jobs.nightly]\ndsn = "host=db"\n', 2, "unknown key 'dsn'; "),
        ("[defaults]\nrerun = true\n", 2, "unknown key 'rerun'; "),
        ("jobs.nightly.laese = 1\n", 1, "unknown key 'laese'; did you mean lease?"),
        ("\ndefaults = { laese = 1 }\n", 2, "unknown key 'laese'; did you mean lease?"),
        ('\n[default]\nlease = "60s"\n', 2, "unknown key 'default'; did you mean defaults?"),
        ("job = 1\n", 1, "unknown key 'job'; did you mean jobs?"),
        ("[defaults]\nlease = 1.5\n", 2, "lease must be a string, a whole number, true or false"),
        ("[defaults]\nlease = ['60s']\n", 2, "lease must be a string, a whole number, true or false"),
        ("[defaults.lease]\nfor = 1\n", 1, "lease must be a string, a whole number, true or false"),
        ("defaults = 1\n", 1, "defaults must be a table"),
        ("jobs = []\n", 1, "jobs must be a table"),
        ("[jobs]\nnightly = '60s'\n", 2, "nightly must be a table"),
        ("[defaults]\nlease = 60\n", 2, "lease: '60' is not a duration; write it like 90s"),
        ("[defaults]\nattempts = true\n", 2, "attempts: 'true' is not a whole number from 1 to 1000000"),
        ("[defaults]\ndsn = ''\n", 2, "dsn: it is empty; write a value, or leave it out"),
    ],
)
def test_configuration_that_makes_no_sense(
    sqlite_guard: Guard, tmp_path: Path, text: str | bytes, line: int, said: str
) -> None:
    guard, origin = configured(sqlite_guard, tmp_path, text, line)
    complaint = refusal(guard, *KEY, *STARTS)
    assert (origin if line else str(tmp_path / "cronguard.toml")) in complaint
    assert said in complaint


def test_named_configuration_that_is_not_there(sqlite_guard: Guard, tmp_path: Path) -> None:
    line = refusal(sqlite_guard, *KEY, "--config", str(tmp_path / "no.toml"), *STARTS)
    assert line == f"cronguard: {tmp_path}/no.toml: the configuration cannot be read: No such file or directory"


def test_directory_in_the_place_of_the_configuration(sqlite_guard: Guard, tmp_path: Path) -> None:
    place = tmp_path / "xdg" / "cronguard" / "config.toml"
    place.mkdir(parents=True)
    line = refusal(sqlite_guard.with_env(XDG_CONFIG_HOME=str(tmp_path / "xdg")), *KEY, *STARTS)
    assert line == f"cronguard: {place}: the configuration cannot be read: Is a directory"


@pytest.mark.parametrize("locked", ["the file", "its folder"])
def test_configuration_that_may_not_be_read_is_not_passed_over(
    sqlite_guard: Guard, tmp_path: Path, locked: str
) -> None:
    place = tmp_path / "xdg" / "cronguard" / "config.toml"
    place.parent.mkdir(parents=True)
    place.write_text("[defaults]\n")
    (place if locked == "the file" else place.parent).chmod(0)
    guard = sqlite_guard.with_env(XDG_CONFIG_HOME=str(tmp_path / "xdg")).under(*POWERLESS)
    line = refusal(guard, *KEY, *STARTS)
    place.parent.chmod(0o700)
    assert line == f"cronguard: {place}: the configuration cannot be read: Permission denied"
