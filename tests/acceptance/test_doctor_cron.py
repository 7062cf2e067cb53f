"""cronguard doctor --cron: what this shell has and cron would not give, by trying it out."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cronguard.settings.cron import cron_environment
from tests.conftest import Database
from tests.rig.examined import examine
from tests.rig.guard import Guard
from tests.rig.requirements import SEARCH
from tests.rig.waiting import wait_until

CRON_WITHIN = 150.0  # seconds: it fires at the full minute


def test_dsn_that_only_this_shell_knows_is_found_and_not_shown(postgres_guard: Guard, database: Database) -> None:
    checkup = examine(postgres_guard.with_env(CRONGUARD_DSN=database.tcp_dsn), "--cron")
    assert checkup.code == 1
    found = [found for found in checkup.findings if found["check"] == "cron.variables"]
    assert [(found["level"], found["what"]) for found in found][:2] == [
        ("problem", "CRONGUARD_DSN is set in this shell, and cron does not set it so"),
        ("warning", "CRONGUARD_STATE_DIR is set in this shell, and cron does not set it so"),
    ]
    assert "CRONGUARD_DSN_FILE=/etc/cronguard/dsn" in found[0]["type"]
    other = checkup.of("cron.ledger.reached")
    assert (other["level"], other["what"].startswith("under cron: SQLite, for this host alone: ")) == ("problem", True)
    assert "s3cr" not in str(checkup.findings)
    assert "ledger.reached" in checkup.levels("ok")  # here all is well


def test_variable_that_changes_nothing_is_no_problem(bare_guard: Guard, tmp_path: Path) -> None:
    dsn = f"sqlite://{tmp_path}/ledger.db"
    checkup = examine(bare_guard.with_env(CRONGUARD_DSN=dsn, TZ=None), "--cron", "--dsn", dsn)
    assert checkup.problems == {"cron.program"}
    assert checkup.of("cron.variables")["level"] == "note"


def test_results_that_would_wait_in_another_folder_are_a_warning(sqlite_guard: Guard, tmp_path: Path) -> None:
    found = examine(sqlite_guard.with_env(TZ=None), "--cron", "--dsn", f"sqlite://{tmp_path}/ledger.db")
    assert found.of("cron.variables")["level"] == "warning"
    assert "neither side delivers those of the other" in found.of("cron.variables")["why"]
    assert examine(sqlite_guard.with_env(TZ=None), "--cron").problems >= {"cron.variables"}


def test_program_that_is_not_on_crons_path_is_found(sqlite_guard: Guard) -> None:
    """The tests' own program is in a virtual environment."""
    found = examine(sqlite_guard, "--cron").of("cron.program")
    assert (found["level"], "/usr/bin:/bin" in found["what"]) == ("problem", True)
    program = str(Path(sys.executable).with_name("cronguard"))
    assert found["type"] == f"in the crontab: {program} run ..."


def test_zone_and_home_of_this_shell_are_found(bare_guard: Guard) -> None:
    checkup = examine(bare_guard.with_env(TZ="Asia/Tokyo"), "--cron")
    assert checkup.of("cron.zone.data")["why"].startswith("here: the calendar of this host is that of Asia/Tokyo")
    assert checkup.of("cron.locale")["type"].endswith(f"LC_ALL={bare_guard.environment['LANG']}")
    assert checkup.of("cron.home")["what"].endswith(f"and {bare_guard.environment['HOME']} here")


def test_options_are_those_of_the_line_in_the_crontab(bare_guard: Guard, tmp_path: Path) -> None:
    checkup = examine(
        bare_guard, "--cron", "--state-dir", str(tmp_path / "state"), "--dsn", f"sqlite://{tmp_path}/l.db"
    )
    assert "cron.ledger.reached" not in {found["check"] for found in checkup.findings}


def test_text_has_a_part_of_its_own_for_cron(sqlite_guard: Guard) -> None:
    out = sqlite_guard.run("doctor", "--cron", within=120).out
    assert "\nUNDER CRON\n  PROBLEM  " in out
    assert "UNDER CRON" not in sqlite_guard.run("doctor").out


def test_checkup_that_fails_under_cron_is_a_finding(bare_guard: Guard, tmp_path: Path) -> None:
    """A path that means something else in HOME, where cron starts its commands."""
    (bare_guard.folder / "here.toml").write_text("[defaults]\n")
    found = examine(bare_guard, "--cron", "--config", "here.toml").of("cron.checkup")
    assert (found["level"], "here.toml: the configuration cannot be read" in found["what"]) == ("problem", True)


# --- Where cron has its variables from --------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host's /etc, with the same user as here."""
    for folder in ("etc/pam.d", "etc/cron.d", "var/spool/cron/crontabs"):
        (tmp_path / "root" / folder).mkdir(parents=True)
    return tmp_path / "root"


def test_variables_of_a_crontab_count_where_a_line_of_ours_follows(root: Path) -> None:
    user = getpass.getuser()
    lines = "SHELL=/bin/bash\nCRONGUARD_DSN_FILE = '/etc/dsn'\n# A=1\n0 6 * * * {} cronguard run --key a -- b\nLATE=1\n"
    (root / "etc/cron.d/ours").write_text(lines.format(user))
    (root / "etc/cron.d/theirs").write_text(lines.format("somebody").replace("/etc/dsn", "/etc/other"))
    (root / "etc/crontab").write_text(f"PATH=/nowhere\n0 6 * * * {user} run-parts /etc/cron.daily\n")
    (root / "var/spool/cron/crontabs" / user).write_text("CRONGUARD_LEASE=2m\n@daily cronguard supervise\n")
    variables, crontabs = cron_environment(root)
    assert [Path(found.path).name for found in crontabs] == ["ours", user]
    assert (variables["SHELL"], variables["PATH"]) == ("/bin/bash", "/usr/bin:/bin")
    assert (variables["CRONGUARD_DSN_FILE"], variables["CRONGUARD_LEASE"]) == ("/etc/dsn", "2m")
    assert not {"A", "LATE"} & set(variables)


@pytest.mark.parametrize("reads", [True, False])
def test_etc_environment_counts_where_pam_reads_it_for_cron(root: Path, reads: bool) -> None:
    (root / "etc/pam.d/cron").write_text("session required pam_env.so\n" if reads else "")
    (root / "etc/environment").write_text('CRONGUARD_DSN_FILE="/etc/dsn"\nexport OTHER=1\nPATH=/opt\nHOME=/x\n')
    variables, _ = cron_environment(root)
    assert ("CRONGUARD_DSN_FILE" in variables, "OTHER" in variables) == (reads, reads)
    assert (variables["PATH"], variables["HOME"]) == ("/usr/bin:/bin", os.path.expanduser(f"~{getpass.getuser()}"))


@pytest.mark.needs("cron", "namespaces")
def test_environment_that_is_tried_is_the_one_that_cron_gives(tmp_path: Path) -> None:
    """Debian's own daemon, with crontabs of its own, says what it gives."""
    told, asks = tmp_path / "told", tmp_path / "asks"
    asks.write_text(f"import json, os\nopen('{told}.new', 'w').write(json.dumps(dict(os.environ)))\n"
                    f"os.rename('{told}.new', '{told}')\n")  # fmt: skip
    table = f"FROM_ABOVE=yes\n* * * * * {getpass.getuser()} {sys.executable} {asks}\n"
    (tmp_path / "table").write_text(table)
    script = (
        'for folder in /etc/cron.d /run /var/spool/cron; do mount -t tmpfs none "$folder"; done; '
        f"mkdir /var/spool/cron/crontabs; cp {tmp_path / 'table'} /etc/cron.d/asks; chmod 644 /etc/cron.d/asks; "
        f"exec {shutil.which('cron', path=SEARCH)} -f"
    )
    command = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script)
    with subprocess.Popen(command, env={"PATH": os.environ["PATH"], "TZ": "Asia/Tokyo"}) as cron:
        try:
            wait_until(told.exists, within=CRON_WITHIN, every=0.2, saying="cron has fired")
        finally:
            cron.kill()
    given = json.loads(told.read_text())
    variables, _ = cron_environment()
    of_the_shell = {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}
    assert {name: value for name, value in given.items() if name not in of_the_shell | {"FROM_ABOVE"}} == variables
