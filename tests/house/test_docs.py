"""Documents that cannot drift: whatever the program has is named in them, and they name nothing that it has not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cronguard.cli.examining import TOLD
from cronguard.domain import postgres_checks, server_settings
from cronguard.domain.claim import Granted
from cronguard.domain.diagnosis import SUBJECTS, Level
from cronguard.domain.effect import EffectState
from cronguard.domain.run import Attempt, Holder, Lease, Outcome, Run, SkipReason, State
from cronguard.domain.step import StepState
from cronguard.domain.supervision import Finding, Found
from cronguard.errors import EXIT_CODES
from cronguard.services.briefing import environment_of, environment_of_finding
from cronguard.services.once import EFFECT_TOKEN
from cronguard.settings.knobs import KNOBS
from tests.faults.faults import FAULTS, MOMENTS
from tests.faults.lab import BEGIN
from tests.rig.guard import Guard
from tools import blocks
from tools.command_tree import all_options, command, commands

ROOT = Path(__file__).resolve().parents[2]
MAN = ROOT / "man" / "cronguard.1"
PAGES = sorted((ROOT / "man").glob("*.[17]"))
README = ROOT / "README.md"
COMMANDS = [found.name for found in commands()]


def _variables_given() -> set[str]:
    """What a command is told, by telling it."""
    now, holder = datetime(2026, 11, 30, tzinfo=UTC), Holder("a-uuid", "host", 1)
    run = Run("key", "2026-11-30", State.RUNNING, holder=holder)
    attempt = Attempt("key", "2026-11-30", 1, 1, holder, now)
    lease = Lease("key", "", "2026-11-30", 1, holder, now)
    told = environment_of_finding(Finding(Found.RECOVERY, "key", "2026-11-30", run), {})
    return {*environment_of(Granted(run, attempt, lease, now), {}), *told, EFFECT_TOKEN}


VARIABLES = {knob.variable for knob in KNOBS} | _variables_given()
WORDS = [str(word) for words in (State, Outcome, SkipReason, Found) for word in words]
CODES = [code for code, _ in EXIT_CODES]

# --- What is generated ------------------------------------------------------------------------------------------------


def _generate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "tools" / "generate.py"), *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)


def test_generated_files_are_up_to_date() -> None:
    done = _generate(ROOT, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What is generated and what generates it, to be spoiled; the README with nothing but its blocks."""
    for name in ("tools", "man", "completions", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    empty = "".join(f"<!-- generated: {name} -->\n<!-- end -->\n" for name in blocks.of_readme().texts)
    (tmp_path / "README.md").write_text(blocks.of_readme().fill(empty))
    return tmp_path


def test_check_names_each_file_that_differs_and_writes_nothing(copy: Path) -> None:
    spoiled = {name: (copy / name).read_text().replace("lease", "lock") for name in ("man/cronguard.1", "README.md")}
    for name, text in spoiled.items():
        (copy / name).write_text(text)
    (copy / "completions" / "_cronguard").unlink()
    done = _generate(copy, "--check")
    assert done.returncode == 1
    named = [line.partition(" ")[0] for line in done.stderr.splitlines()]
    assert sorted(named) == ["README.md", "completions/_cronguard", "man/cronguard.1"]
    assert {name: (copy / name).read_text() for name in spoiled} == spoiled
    assert not (copy / "completions" / "_cronguard").exists()


def test_generate_repairs_its_blocks_leaves_the_rest_alone_and_is_then_content(copy: Path) -> None:
    before = (copy / "man" / "cronguard.1").read_text()
    (copy / "man" / "cronguard.1").write_text(
        before.replace("Fl Fl lease Ar DURATION", "Fl Fl lock").replace(".Os", ".Os X")
    )
    assert _generate(copy).stdout == "wrote man/cronguard.1\n"
    assert (copy / "man" / "cronguard.1").read_text() == before.replace(".Os", ".Os X")
    assert (_generate(copy).stdout, _generate(copy, "--check").returncode) == ("", 0)


def test_a_document_that_has_lost_a_block_is_an_error(copy: Path) -> None:
    text = (copy / "README.md").read_text().replace("<!-- generated: exit-codes -->", "")
    (copy / "README.md").write_text(text)
    done = _generate(copy, "--check")
    assert done.returncode == 1
    assert "README.md: has the blocks ['options', 'skip-reasons']" in done.stderr


# --- The man page -----------------------------------------------------------------------------------------------------


def _man() -> str:
    return MAN.read_text().replace("\\-", "-")


def _options_in_man(text: str) -> set[str]:
    """As macros and as literal text; kubectl, in an example, has options of its own."""
    text = re.sub(r"^kubectl .*$", "", text, flags=re.MULTILINE)
    long = re.findall(r"\bFl Fl ([a-z][a-z-]*)", text) + re.findall(r"(?<!\S)--([a-z][a-z-]*)", text)
    return {f"--{name}" for name in long} | {f"-{name}" for name in re.findall(r"\bFl ([a-z0])\b", text)}


def test_the_man_page_names_every_option_and_no_other() -> None:
    assert _options_in_man(_man()) == all_options()


@pytest.mark.parametrize("name", COMMANDS[1:])
def test_the_man_page_has_a_section_for_each_command_with_its_own_options(name: str) -> None:
    section = re.search(rf"^\.Ss cronguard {name}\b.*\n((?:(?!\.S[hs] ).*\n)*)", _man(), re.MULTILINE)
    assert section
    shared = {option.long for option in command("run").options} if name != "run" else set()
    own = {option.long for option in command(name).options} - shared
    assert own <= _options_in_man(section[1])
    assert re.search(rf"^\.Cm {name}$", _man(), re.MULTILINE)  # in the synopsis


def test_the_man_page_names_every_variable_and_no_other() -> None:
    assert set(re.findall(r"CRONGUARD_[A-Z_]+", _man())) == VARIABLES


@pytest.mark.parametrize("word", sorted(set(WORDS)))
def test_the_man_page_explains_every_state_outcome_and_skip_reason(word: str) -> None:
    assert _man().count(f".It Sy {word}\n") == WORDS.count(word)


@pytest.mark.parametrize("code", CODES)
def test_the_man_page_explains_every_exit_code(code: str) -> None:
    section = _man().partition(".Sh EXIT STATUS")[2].partition(".Sh ")[0]
    assert f".It {code}\n" in section


ABOUT_EFFECTS = ("once", "claim", "confirm", "release", "effects", "resolve")


def test_the_page_of_effects_names_their_options_and_no_other() -> None:
    text = (ROOT / "man" / "cronguard-once.1").read_text().replace("\\-", "-")
    own = {name for found in ABOUT_EFFECTS for option in command(found).options for name in option.names}
    shared = {name for option in command("history").options for name in option.names} - {"-n", "--json"}
    assert own - shared - {"--limit"} <= _options_in_man(text) <= own | {"--print-sql", "--app-role"}


def _mandoc(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["mandoc", *options, str(MAN)], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.needs("mandoc")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_man_page_is_clean(page: Path) -> None:
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", str(page)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.needs("mandoc")
@pytest.mark.parametrize(
    ("page", "typed"),
    [
        ("cronguard.1", "cronguard run --key daily_digest -- ./send-digest"),
        ("cronguard-doctor.1", "sudo -u app cronguard doctor --cron"),
        ("cronguard-once.1", 'cronguard once reminder "$who" -- ./send "$who" </dev/null'),
        ("cronguard-step.1", "cronguard step mails --once -- ./send-mails"),
        ("cronguard.7", "cronguard.assert_token(key, token)"),
    ],
)
def test_the_man_page_reads_well_on_a_narrow_terminal(page: str, typed: str) -> None:
    done = subprocess.run(
        ["mandoc", "-T", "ascii", "-O", "width=78", str(ROOT / "man" / page)],
        capture_output=True,
        text=True,
        check=True,
    )
    text = re.sub(r".\x08", "", done.stdout)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert typed in text  # as it is to be typed


@pytest.mark.parametrize("name", ["step", "settle"])
def test_the_page_of_a_command_names_its_options_and_no_others(name: str) -> None:
    page = (ROOT / "man" / "cronguard-step.1").read_text()
    shared = {option.long for option in command("beat").options}
    assert {option.long for option in command(name).options} - shared <= _options_in_man(page)
    assert _options_in_man(page) <= all_options()


def test_the_page_of_steps_explains_every_state_of_one() -> None:
    page = (ROOT / "man" / "cronguard-step.1").read_text()
    assert re.findall(r"^\.It Sy (\w+)$", page, re.MULTILINE) == [str(state) for state in StepState]


def _checks() -> set[str]:
    """Every check that a rule of the domain speaks of by its name; those of limits and rights are made of their own."""
    modules = [*(ROOT / "cronguard" / "domain").glob("*_checks.py"), Path(server_settings.__file__)]
    name = re.compile(rf'"((?:{"|".join(SUBJECTS)})\.[a-z_]+)"')
    names = {found for path in modules for found in name.findall(path.read_text())}
    limits = {f"ledger.{limit.name}" for limit in server_settings.LIMITS}
    return names | limits | {f"ledger.rights_{use}" for use in postgres_checks.USES}


def test_the_page_of_the_checkup_explains_every_level_and_check_and_names_its_options_and_no_others() -> None:
    page = (ROOT / "man" / "cronguard-doctor.1").read_text()
    items = re.findall(r"^\.It Sy (.+)$", page, re.MULTILINE)
    named = [name for item in items for name in item.split(" , ")]
    assert [name for name in named if "." not in name] == [str(level) for level in Level]
    assert {name for name in named if "." in name} == _checks()
    shared = {option.long for option in command("beat").options}
    assert {option.long for option in command("doctor").options} - shared <= _options_in_man(page)
    assert _options_in_man(page) <= all_options()


def test_the_checkup_knows_every_variable_that_is_told() -> None:
    assert {knob.variable for knob in KNOBS} | TOLD == VARIABLES


def test_the_page_of_ideas_explains_every_state_and_names_no_option_that_is_not() -> None:
    page = (ROOT / "man" / "cronguard.7").read_text()
    explained = set(re.findall(r"^\.It Sy (\w+)$", page, re.MULTILINE))
    assert {str(state) for states in (State, EffectState) for state in states} <= explained
    assert _options_in_man(page) <= all_options()
    assert set(re.findall(r"CRONGUARD_[A-Z_]+", page)) <= VARIABLES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_page_is_installed_and_names_all_the_others(page: Path) -> None:
    section = page.suffix[1:]
    packaged = f'"man/{page.name}" = "share/man/man{section}/{page.name}"\n'
    assert packaged in (ROOT / "pyproject.toml").read_text()
    see_also = page.read_text().partition(".Sh SEE ALSO\n")[2].partition(".Sh ")[0]
    named = {f"{name}.{number}" for name, number in re.findall(r"^\.Xr (\S+) (\d)", see_also, re.MULTILINE)}
    assert {other.name for other in PAGES} - {page.name} <= named


# --- The README -------------------------------------------------------------------------------------------------------


def _readme() -> str:
    return README.read_text()


@pytest.mark.parametrize("name", ["options", "exit-codes", "skip-reasons"])
def test_the_readme_has_its_generated_tables(name: str) -> None:
    assert _readme().count(f"<!-- generated: {name} -->\n|") == 1


def test_the_readme_names_every_command_and_option() -> None:
    assert [name for name in COMMANDS if f"cronguard {name}".strip() not in _readme()] == []
    assert {option for option in all_options() if not re.search(rf"(?<![\w-]){option}(?![\w-])", _readme())} == set()


def test_the_readme_names_every_variable_and_no_other() -> None:
    named = set(re.findall(r"CRONGUARD_(?!TEST_)[A-Z_]*[A-Z]", _readme()))
    assert named == VARIABLES


def test_the_readme_names_every_state_outcome_skip_reason_and_exit_code() -> None:
    assert [word for word in (*WORDS, *CODES) if f"`{word}`" not in _readme()] == []


# --- The promises -----------------------------------------------------------------------------------------------------

PROMISES = ROOT / "docs" / "guarantees.md"
ROUNDS = 20  # at least, of each cell of the table of faults


def _named_tests() -> list[tuple[str, str]]:
    return re.findall(r"`(tests/\w+/\w+\.py)(?:::(\w+))?`", PROMISES.read_text())


def test_every_test_that_the_promises_name_is_there() -> None:
    missing = [f"{file}::{name}" for file, name in _named_tests() if f"def {name}" not in (ROOT / file).read_text()]
    assert missing == []


def test_every_promise_names_its_own_tests_and_they_name_them_all() -> None:
    parts = dict(re.findall(r"^## (G\d): .*\n((?:(?!## ).*\n)*)", PROMISES.read_text(), re.MULTILINE))
    own = sorted((ROOT / "tests" / "guarantees").glob("test_g*.py"))
    assert list(parts) == [f"G{number + 1}" for number in range(len(own))]
    for (_, part), file in zip(sorted(parts.items()), own, strict=True):
        assert f"`tests/guarantees/{file.name}`" in part
        assert "\nConditions: " in part


def test_the_table_of_faults_has_every_fault_and_every_moment() -> None:
    table = [line.strip("| ").split(" | ") for line in PROMISES.read_text().partition(BEGIN)[2].splitlines()]
    rows = [cells for cells in table if len(cells) == len(MOMENTS) + 1]
    assert rows[0] == ["fault", *MOMENTS]
    assert [cells[0] for cells in rows[2:]] == [fault.name for fault in FAULTS]
    assert [cell for cells in rows[2:] for cell in cells[1:] if not _is_held(cell)] == []


def _is_held(cell: str) -> bool:
    """In every round, of enough of them."""
    rounds = re.match(r"held (\d+)/(\d+)(?:,|$)", cell)
    return bool(rounds) and rounds[1] == rounds[2] and int(rounds[2]) >= ROUNDS and "BROKE" not in cell


@pytest.mark.parametrize(
    "cell", ["**BROKE** held 3/20", "held 19/20", "held 1/1", "held 20/20, **BROKE**", "held 20/200"]
)
def test_a_cell_of_that_table_in_which_a_promise_broke_is_noticed(cell: str) -> None:
    assert not _is_held(cell)


# --- The help ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_is_plain_text_that_fits_a_terminal(bare_guard: Guard, name: str) -> None:
    guard = bare_guard.with_env(COLUMNS="80", TERM="xterm-256color", FORCE_COLOR="1")
    result = guard.run(*filter(None, [name]), "--help")
    assert (result.code, result.err) == (0, "")
    assert [line for line in result.out.splitlines() if len(line) > 80] == []
    assert re.findall(r"[\x1b\u2500-\u259f]", result.out) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_is_the_same_by_its_short_name_and_where_only_ascii_is_known(bare_guard: Guard, name: str) -> None:
    words = [*filter(None, [name])]
    ascii_only = bare_guard.with_env(PYTHONIOENCODING="ascii:backslashreplace")
    assert bare_guard.run(*words, "-h").out == bare_guard.run(*words, "--help").out
    assert ascii_only.run(*words, "--help").code == 0
