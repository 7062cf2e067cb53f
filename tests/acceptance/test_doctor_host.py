"""cronguard doctor on its host: folders, zone data, processes; and the way in which it tells of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from cronguard.domain.lifecycle import Ending
from cronguard.domain.run import Outcome
from cronguard.stores.spool import FileSpool
from tests.acceptance.looking import POWERLESS, UNKNOWN_USER, configured, ledger_file
from tests.acceptance.test_terminals import ASCII, BOX_OR_COLOUR, on_terminal, silenced
from tests.rig.examined import examine
from tests.rig.guard import Guard
from tests.unit.test_lifecycle import HELD

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")
FIRES = ("run", "--key", "job", "--", "true")


def limited(guard: Guard, limit: str) -> Guard:
    return guard.under("sh", "-c", f'ulimit {limit} && exec "$@"', "sh", *guard.through)


def read_only(guard: Guard, *folders: Path) -> Guard:
    """These folders as they are, on a file system that takes no writes."""
    mounts = " && ".join(f"mount --bind -o ro '{folder}' '{folder}'" for folder in folders)
    return guard.under("unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh")


# --- Folders ----------------------------------------------------------------------------------------------------------


@pytest.mark.needs("namespaces")
def test_state_directory_on_a_read_only_disk_is_a_problem_for_a_ledger_in_it(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run(*FIRES).code == 0
    state = ledger_file(sqlite_guard).parent
    checkup = examine(read_only(sqlite_guard, state))
    assert (checkup.code, checkup.problems) == (1, {"ledger.writable"})
    assert checkup.of("ledger.writable")["what"].endswith(f"{state}: Read-only file system")
    assert read_only(sqlite_guard, state).run(*FIRES).code == 125


@pytest.mark.needs("namespaces")
def test_state_directory_on_a_read_only_disk_is_a_warning_where_results_find_another_place(
    postgres_guard: Guard, tmp_path: Path
) -> None:
    state, temporary = tmp_path / "state", tmp_path / "temporary"
    state.mkdir()
    temporary.mkdir()
    guard = postgres_guard.with_env(TMPDIR=str(temporary))
    found = examine(read_only(guard, state)).of("state.folder")
    assert (found["level"], str(temporary) in found["why"]) == ("warning", True)
    checkup = examine(read_only(guard, state, temporary))
    assert checkup.problems == {"state.folder"}


def test_state_directory_that_this_user_may_not_write_is_found(sqlite_guard: Guard) -> None:
    state = ledger_file(sqlite_guard).parent
    (state / "spool").mkdir(parents=True)
    for folder in (state / "spool", state):
        folder.chmod(0o500)
    checkup = examine(sqlite_guard.under(*POWERLESS))
    assert checkup.problems == {"ledger.writable"}
    assert checkup.of("state.folder")["level"] == "warning"
    assert "Permission denied" in checkup.of("state.folder")["what"]
    assert list((state / "spool").iterdir()) == []


def test_looking_at_a_folder_leaves_nothing_in_it(sqlite_guard: Guard) -> None:
    spool = ledger_file(sqlite_guard).parent / "spool"
    spool.mkdir(parents=True)
    assert examine(sqlite_guard).of("state.folder")["what"] == f"results that cannot be delivered go to {spool}"
    assert list(spool.iterdir()) == []


def test_results_that_wait_are_counted_and_left_to_wait(sqlite_guard: Guard) -> None:
    spool = ledger_file(sqlite_guard).parent / "spool"
    for ledger in (str(ledger_file(sqlite_guard)), "db/elsewhere"):
        FileSpool([spool], ledger).keep(HELD, Ending(Outcome.SUCCEEDED))
        (spool / f"{HELD.run.token}-{HELD.lease.holder.id}.result.json").rename(spool / f"{len(ledger)}.result.json")
    checkup = examine(sqlite_guard)
    waiting = f"{HELD.run.key} {HELD.run.period}"
    assert checkup.of("state.results")["what"] == f"1 result waits on this host to be delivered: {waiting}"
    assert (checkup.of("state.results")["level"], checkup.of("state.strangers")["level"]) == ("warning", "note")
    assert len(list(spool.iterdir())) == 2


def test_where_there_is_no_home_there_is_no_place_for_a_ledger(bare_guard: Guard, postgres_guard: Guard) -> None:
    checkup = examine(bare_guard.with_env(HOME=None).under(*UNKNOWN_USER))
    assert checkup.problems == {"ledger.address"}
    assert checkup.of("ledger.address")["what"].startswith("HOME is not set, so there is no place for the ledger")
    guard = postgres_guard.with_env(HOME=None, CRONGUARD_STATE_DIR=None).under(*UNKNOWN_USER)
    assert "state.folder" in examine(guard).levels("warning")


def test_user_without_a_name_is_told(sqlite_guard: Guard) -> None:
    checkup = examine(sqlite_guard.under(*UNKNOWN_USER))
    assert (checkup.problems, checkup.of("process.user")["level"]) == (set(), "note")
    assert "a user namespace" in checkup.of("process.namespace")["what"]


@pytest.mark.parametrize("mark", ["KUBERNETES_SERVICE_HOST", "ECS_CONTAINER_METADATA_URI_V4", "NOMAD_ALLOC_ID"])
def test_orchestrator_without_a_dsn_is_found(sqlite_guard: Guard, mark: str) -> None:
    checkup = examine(sqlite_guard.with_env(**{mark: "10.0.0.1"}))
    assert checkup.problems == {"ledger.address"}
    assert mark in checkup.of("ledger.address")["what"]
    assert "process.subreaper" in checkup.levels("ok")


def test_ledger_in_a_file_is_doubted_under_an_orchestrator(sqlite_guard: Guard, tmp_path: Path) -> None:
    guard = sqlite_guard.with_env(CRONGUARD_DSN=f"sqlite://{tmp_path}/ledger.db", NOMAD_ALLOC_ID="7")
    assert examine(guard).of("ledger.alone")["level"] == "warning"


# --- Zone data --------------------------------------------------------------------------------------------------------


@pytest.fixture
def without_zone_data(sqlite_guard: Guard, tmp_path: Path) -> Guard:
    """Neither the system's nor the package's."""
    (tmp_path / "hiding" / "tzdata").mkdir(parents=True)
    (tmp_path / "hiding" / "tzdata" / "__init__.py").touch()
    return sqlite_guard.with_env(PYTHONTZPATH="", PYTHONPATH=str(tmp_path / "hiding"))


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_missing_zone_data_are_found(without_zone_data: Guard, zone: str | None) -> None:
    guard = without_zone_data.with_env(CRONGUARD_TZ=zone, TZ=None)
    checkup = examine(guard)
    assert checkup.problems == {"zone.data"}
    assert "there is no time zone data" in checkup.of("zone.data")["what"]
    result = guard.run(*FIRES)
    assert (result.code, "there is no time zone data; install" in result.only_line) == (125, True)


def test_zone_that_is_none_is_found(sqlite_guard: Guard) -> None:
    found = examine(sqlite_guard.with_env(CRONGUARD_TZ="Europe/Berlim")).of("zone.data")
    assert (found["level"], found["what"]) == ("problem", "CRONGUARD_TZ: 'Europe/Berlim' is not an IANA time zone")
    assert found["type"] == "did you mean Europe/Berlin?"


# --- Settings ---------------------------------------------------------------------------------------------------------


def test_variable_that_is_none_of_ours_is_found(sqlite_guard: Guard) -> None:
    found = examine(sqlite_guard.with_env(CRONGUARD_DNS_FILE="x")).of("settings.variables")
    assert (found["level"], found["type"]) == ("warning", "did you mean CRONGUARD_DSN_FILE?")


def test_configuration_that_is_read_is_named(sqlite_guard: Guard, tmp_path: Path) -> None:
    guard, _ = configured(sqlite_guard, tmp_path, "[defaults]\nlease = '2m'\n")
    assert examine(guard).of("settings.configuration")["what"].endswith(str(tmp_path / "cronguard.toml"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--dsn", "mysql://db"),
        ("--dsn", "hots=db"),
        ("--dsn-file", "/nowhere/dsn"),
        ("--corn",),
        ("--config", "/nowhere.toml"),
    ],
)
def test_slip_of_the_keyboard_is_one_line_and_125(sqlite_guard: Guard, arguments: tuple[str, ...]) -> None:
    result = sqlite_guard.run("doctor", *arguments)
    assert (result.code, result.out) == (125, "")
    assert arguments[0] in result.only_line or "nowhere.toml" in result.only_line


# --- Processes --------------------------------------------------------------------------------------------------------


def test_few_files_are_a_warning_and_too_few_a_problem(guard: Guard) -> None:
    few, too_few = limited(guard, "-n 20"), limited(guard, "-n 17")
    assert examine(few).of("process.limits")["level"] == "warning"
    assert few.run(*FIRES).code == 0
    assert examine(too_few).problems == {"process.limits"}


@pytest.mark.needs("namespaces")
def test_hidden_processes_and_a_namespace_are_told(sqlite_guard: Guard) -> None:
    remount = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    guard = sqlite_guard.under("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", remount, "sh")
    checkup = examine(guard)
    assert checkup.problems == set()
    assert {"process.proc", "process.pid", "process.namespace"} <= checkup.levels("note")
    assert re.search(r"hidepid=(2|invisible)", checkup.of("process.proc")["what"])


@pytest.mark.needs("namespaces")
def test_proc_that_is_not_mounted_is_found(sqlite_guard: Guard) -> None:
    guard = sqlite_guard.under("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
    assert "process.proc" in examine(guard).problems


# --- How it is told ---------------------------------------------------------------------------------------------------


def test_text_is_plain_fits_eighty_columns_and_ends_with_the_count(guard: Guard) -> None:
    result = guard.run("doctor")
    assert result.err == ""
    assert BOX_OR_COLOUR.search(result.out) is None
    assert [line for line in result.out.splitlines() if len(line) > 80 and " /" not in line] == []
    assert re.fullmatch(r"\d+ problems?, (\d+ \w+, )*\d+ ok", result.out.splitlines()[-1])


def test_text_says_what_why_and_what_to_type_the_worst_first(sqlite_guard: Guard) -> None:
    result = sqlite_guard.with_env(CRONGUARD_DSN="postgresql://127.0.0.1:1/ops").run("doctor")
    assert result.code == 1
    paragraph = result.out.partition("LEDGER\n")[2].partition("\n\n")[0]
    assert re.fullmatch(r"  PROBLEM  the ledger .*\n(?s:.*) {11}why:  .*\n(?s:.*) {11}type: (?s:.*)", paragraph)
    assert result.out.splitlines()[-1].startswith("1 problem, ")


def test_terminal_shows_colours_unless_they_are_not_wanted(sqlite_guard: Guard) -> None:
    guard = sqlite_guard.with_env(CRONGUARD_DSN="postgresql://127.0.0.1:1/ops")
    assert COLOUR.search(on_terminal(guard.with_env(TERM="xterm"), "doctor").out)
    for environment in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert COLOUR.search(on_terminal(guard.with_env(**environment), "doctor").out) is None


@pytest.mark.parametrize("width", [200, 80, 40])
def test_paragraphs_fit_the_terminal(sqlite_guard: Guard, width: int) -> None:
    out = on_terminal(sqlite_guard.with_env(TERM="xterm", NO_COLOR="1"), "doctor", columns=width).out
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in out.splitlines()]
    assert [line for line in lines if len(line) > width and "/" not in line] == []


def test_nobody_who_reads_is_no_failure(sqlite_guard: Guard) -> None:
    assert silenced(sqlite_guard, ">&-").run("doctor").code == 0
    assert silenced(sqlite_guard, "2>&-").run("doctor", "--json").code == 0


def test_where_only_ascii_is_known_that_is_told(sqlite_guard: Guard) -> None:
    checkup = examine(sqlite_guard.with_env(**ASCII))
    assert (checkup.code, checkup.of("output.encoding")["level"]) == (0, "note")


def test_it_is_examined_as_it_is_called_also_inside_of_a_run(sqlite_guard: Guard) -> None:
    inside = sqlite_guard.run("run", "--key", "job", "--", sys.executable, "-m", "cronguard", "doctor")
    assert inside.code == 0
    assert "settings.variables" not in examine(sqlite_guard.with_env(CRONGUARD_TOKEN="7")).levels("warning")
