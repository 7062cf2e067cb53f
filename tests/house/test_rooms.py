"""The house as it is drawn: which way the arrows go, one word for each thing, and nothing too large to read."""

from __future__ import annotations

import ast
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from cronguard.domain.effect import EffectState
from cronguard.domain.recovery import Cause
from cronguard.domain.run import Outcome, SkipReason, State
from cronguard.domain.said import Verb
from cronguard.domain.step import StepState
from cronguard.stores.sqlite import INSTANTS, LENGTHS
from cronguard.stores.statements import migrations, statements

ROOT = Path(__file__).resolve().parents[2]
STORES = ROOT / "cronguard" / "stores"
SOURCES = sorted((ROOT / "cronguard").rglob("*.py"))
DIALECTS = ("postgres", "sqlite")
LONGEST_FILE = 350
LONGEST_FUNCTION = 40  # lines of its body; the goal is 25

# --- Arrows -----------------------------------------------------------------------------------------------------------

PLANTED = (
    ("The arrows of the house go one way", "process/tree.py", "import cronguard.services.run"),
    ("Only the front door opens a store", "services/firing.py", "import cronguard.stores.dsn"),
    ("The domain is pure", "domain/period.py", "import os"),
    ("The supervisor never runs a job", "services/results.py", "import cronguard.process.signals"),
    ("Drivers stay in the cellar", "services/judging.py", "import psycopg"),
    ("Only render draws tables", "cli/explain.py", "import rich"),
    ("Only the front door reads argv", "settings/parsers.py", "import typer"),
    ("The arrows of the house go one way", "api.py", "import cronguard.cli.tell"),
)


def _lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", program, "--no-cache", "--no-logo", "--config", "pyproject.toml"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_every_arrow_goes_the_way_it_is_drawn() -> None:
    done = _lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_arrow_the_wrong_way_is_caught_by_each_contract(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "cronguard", tmp_path / "cronguard")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for _, file, line in PLANTED:
        with (tmp_path / "cronguard" / file).open("a") as source:
            source.write(f"{line}\n")
    said = _lint_imports(tmp_path).stdout
    assert [name for name, _, _ in PLANTED if f"{name} BROKEN" not in said] == [], said
    for _, file, _ in PLANTED:
        assert f"cronguard.{file[:-3].replace('/', '.')} ->" in said


# --- What is never done -----------------------------------------------------------------------------------------------


def _nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text()))


def _place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def _reads_the_environment(node: ast.AST) -> bool:
    names = ("environ", "environb", "getenv", "getenvb", "expandvars", "expanduser")
    if isinstance(node, ast.ImportFrom):
        return any(alias.name in names for alias in node.names)
    return isinstance(node, ast.Attribute) and node.attr in names


def test_nothing_but_settings_reads_the_environment() -> None:
    others = [path for path in SOURCES if "settings" not in path.relative_to(ROOT).parts]
    assert [_place(path, node) for path in others for node in _nodes(path) if _reads_the_environment(node)] == []


SQL = re.compile(
    r"^\s*(--\s*)?(select\s.+\sfrom\s|insert\s+into\s|update\s+\S+\s+set\s|delete\s+from\s|grant\s+\w.*\son\s|pragma\s"
    r"|(create|alter|drop)\s+(unique\s+)?(table|schema|index|function|trigger)\s|(begin|commit|rollback);$)",
    re.IGNORECASE | re.MULTILINE,
)


def _literal(node: ast.AST) -> str:
    """The text that a string, or what stands around the values of an f-string, has."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        return node.value if isinstance(node.value, str) else node.value.decode()
    return "".join(_literal(part) or "x" for part in node.values) if isinstance(node, ast.JoinedStr) else ""


def _executed(node: ast.AST) -> str:
    """What is handed to a driver as it stands, however short; by its name it would be a subscript."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return ""
    asked = node.args[0]
    branches = (asked.body, asked.orelse) if isinstance(asked, ast.IfExp) else (asked,)
    return "".join(map(_literal, branches)) if node.func.attr.startswith("execute") else ""


def test_no_sql_stands_in_python() -> None:
    found = {
        f"{_place(path, node)}: {(_executed(node) or _literal(node)).strip()[:60]!r}"
        for path in SOURCES
        for node in _nodes(path)
        if _executed(node) or SQL.search(_literal(node))
    }
    assert found == set()


# --- Nothing too large ------------------------------------------------------------------------------------------------


def test_no_file_is_too_long_to_read() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def _functions(path: Path) -> Iterable[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in _nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without its signature: the options of a command are a list, not a story."""
    return (function.end_lineno or 0) - function.body[0].lineno + 1


def test_no_function_is_too_long_to_read() -> None:
    found = [(_body_lines(function), _place(path, function)) for path in SOURCES for function in _functions(path)]
    assert [place for lines, place in sorted(found) if lines > LONGEST_FUNCTION] == []


# --- One word for each thing: Python, and the SQL of both ledgers -----------------------------------------------------


def _checked(dialect: str, table: str, column: str) -> list[str]:
    """The values that the schema allows in a column of a table, as its newest migration has them."""
    script = "\n".join(script for _, script in migrations(dialect))
    statements = re.findall(
        rf"^(?:create|alter) table (?:cronguard\.)?{table}\b.*?;$", script, re.MULTILINE | re.DOTALL
    )
    lists = re.findall(rf"check \({column} in\s*\(([^)]*)\)", "\n".join(statements))
    return re.findall(r"'(\w+)'", lists[-1])


CHECKED = [
    ("run", "state", State),
    ("attempt", "outcome", Outcome),
    ("skip", "reason", SkipReason),
    ("recovery", "cause", Cause),
    ("intervention", "verb", Verb),
    ("effect", "state", EffectState),
    ("step", "state", StepState),
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("table", "column", "words"), CHECKED)
def test_the_schema_allows_exactly_the_words_of_the_domain(
    dialect: str, table: str, column: str, words: type[StrEnum]
) -> None:
    assert _checked(dialect, table, column) == [str(word) for word in words]


def _asked_for(node: ast.AST) -> tuple[ast.expr, ...]:
    """Where a statement is asked for: `sql[name]`, `_do(…, name)`, `name = … if … else …`, `(name, row)`."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="_sql") | ast.Name(id="sql"), slice=name):
            return (name,)
        case ast.Call(func=ast.Attribute(attr="_do" | "_all" | "_one"), args=[_, name, *_]):
            return (name.body, name.orelse) if isinstance(name, ast.IfExp) else (name,)
        case ast.Call(func=ast.Attribute(attr="_asked"), args=[name, *_]):
            return (name,)
        case ast.Assign(targets=[ast.Name(id="name")], value=ast.IfExp(body=one, orelse=other)):
            return one, other
        case ast.Tuple(elts=[name, ast.Constant(value=None) | ast.Name() | ast.Dict() | ast.Call()]):
            return (name,)
    return ()


def _statements_asked_for(path: Path) -> set[str]:
    names = (name.value for node in _nodes(path) for name in _asked_for(node) if isinstance(name, ast.Constant))
    return {name for name in names if isinstance(name, str) and name.isidentifier()}


def _strings(*paths: Path) -> set[str]:
    constants = (node for path in paths for node in _nodes(path) if isinstance(node, ast.Constant))
    return {node.value for node in constants if isinstance(node.value, str)}


ONLY_IN_SQLITE = {
    "settle",  # pragmas
    "any_table",  # a file may be somebody else's database; in Postgres the schema is ours by its name
    "beat_answer",  # SQLite 3.24 has no RETURNING: a beat asks twice
    "ground_journal",  # pragmas too
    "ground_integrity",
}


def _store(dialect: str) -> list[Path]:
    """The files that one store's code stands in."""
    return sorted(STORES.glob(f"{dialect}*.py"))


DERIVED = {"now", "last_success_at", "last_failure_at"}  # instants that a statement answers and no table has
SHARED = (STORES / "overview_rows.py", STORES / "writing.py", STORES / "script.py")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_that_is_asked_for_exists(dialect: str) -> None:
    asked = {name for path in (*_store(dialect), *SHARED) for name in _statements_asked_for(path)}
    assert len(asked) > 15
    assert asked - set(statements(dialect)) == set()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_statement_is_there_for_nobody(dialect: str) -> None:
    assert set(statements(dialect)) - _strings(*_store(dialect), *SHARED) == set()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_statement_is_called_like_another(dialect: str) -> None:
    texts = [path.read_text() for path in STORES.glob(f"{dialect}*.sql")]
    names = [name for text in texts for name in re.findall(r"^-- name: (\w+)$", text, re.MULTILINE)]
    assert sorted(names) == sorted(statements(dialect))


def test_both_ledgers_call_a_statement_by_one_name() -> None:
    only_there = set(statements("sqlite")) - set(statements("postgres"))
    assert only_there == ONLY_IN_SQLITE


def _columns(postgres_type: str) -> set[str]:
    script = "\n".join(script for _, script in migrations("postgres"))
    return set(re.findall(rf"^  (?:add column )?(\w+)\s+{postgres_type}\b", script, re.MULTILINE))


def test_the_sqlite_ledger_reads_exactly_its_instants_as_instants_and_its_lengths_as_lengths() -> None:
    assert _columns("timestamptz") == INSTANTS - DERIVED
    assert _columns("interval") == LENGTHS


def test_the_tables_of_both_ledgers_have_the_same_columns() -> None:
    with sqlite3.connect(":memory:") as ledger:
        for _, script in migrations("sqlite"):
            ledger.executescript(script)
        tables = [name for (name,) in ledger.execute("select name from sqlite_master where type = 'table'")]
        here = {table: [row[1] for row in ledger.execute(f"pragma table_info({table})")] for table in tables}
        instants = {
            row[1]
            for table in tables
            for row in ledger.execute(f"pragma table_info({table})")
            if row[1] in INSTANTS and row[2] == "INTEGER"
        }
    ledger.close()
    assert here == {table: columns for table, columns in _postgres_tables().items() if table not in ONLY_IN_POSTGRES}
    assert instants == INSTANTS - DERIVED


ONLY_IN_POSTGRES = {"sign"}  # written by a function of the schema, of which SQLite has none


def _postgres_tables() -> dict[str, list[str]]:
    """As they were made, and as later migrations have widened them."""
    script = "\n".join(script for _, script in migrations("postgres"))
    made = re.findall(r"^create table cronguard\.(\w+) \(\n(.*?)^\)", script, re.MULTILINE | re.DOTALL)
    widened = re.findall(r"^alter table cronguard\.(\w+)\n(.*?);", script, re.MULTILINE | re.DOTALL)
    column = re.compile(r"^  (?!primary|constraint|unique|check)(\w+)\s+[a-z]", re.MULTILINE)
    added = re.compile(r"^  add column (\w+)", re.MULTILINE)
    tables = {table: column.findall(body) for table, body in made}
    for table, body in widened:
        tables[table] += added.findall(body)
    return tables
