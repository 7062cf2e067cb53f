"""The TOML configuration: where it is looked for, and what it says, each value with its line."""

from __future__ import annotations

import difflib
import re
import tomllib  # noqa: TID253  loaded only where there is a file to read
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cronguard.errors import BadInput
from cronguard.settings.knobs import BY_NAME, Knob
from cronguard.settings.step_list import NAMES as LISTS
from cronguard.settings.step_list import Listed, listed_in

TOP = ("defaults", "jobs")


@dataclass(frozen=True, slots=True)
class Said:
    """One value as the file has it, and where."""

    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What the file says: for all jobs, and for each key."""

    path: Path
    defaults: dict[str, Said] = field(default_factory=dict)
    jobs: dict[str, dict[str, Said]] = field(default_factory=dict)
    listed: dict[str, Listed | None] = field(default_factory=dict)  # what each key runs, where the file says it


def read_config(path: Path) -> ConfigFile:
    """Read and check the whole file, so that a slip in one job's table is found today; raises BadInput."""
    source = _text_of(path)
    try:
        document = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path}: not valid TOML: {error}") from None
    lines = source.splitlines()
    for name in document:
        if name not in TOP:
            raise _unknown(path, lines, [], name, list(TOP))
    defaults = _table(path, lines, ["defaults"], document.get("defaults", {}), per_job=False)
    jobs = _dictionary(path, lines, ["jobs"], document.get("jobs", {}))
    tables = {key: _table(path, lines, ["jobs", key], table, per_job=True) for key, table in jobs.items()}
    return ConfigFile(path, defaults, tables, {key: _listed(path, lines, key, table) for key, table in jobs.items()})


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not a text file in UTF-8") from None
    except OSError as error:
        raise BadInput(f"{path}: the configuration cannot be read: {error.strerror}") from None


def _table(path: Path, lines: list[str], section: list[str], table: Any, *, per_job: bool) -> dict[str, Said]:
    known = {name: knob for name, knob in BY_NAME.items() if _may_stand(knob, per_job=per_job)}
    said = {}
    for name, value in _dictionary(path, lines, section, table).items():
        if per_job and name in LISTS:
            continue
        if name not in known:
            raise _unknown(path, lines, section, name, [*known, *(LISTS if per_job else ())])
        origin = f"{path} line {_line_of(lines, section, name)}"
        said[name] = Said(_as_text(value, f"{origin}: {name}"), origin)
    return said


def _listed(path: Path, lines: list[str], key: str, table: dict[str, Any]) -> Listed | None:
    return listed_in(table, lambda name: f"{path} line {_line_of(lines, ['jobs', key], name)}")


def _may_stand(knob: Knob, *, per_job: bool) -> bool:
    """In a job's table: what is per job. In [defaults]: also where the ledger is, but nothing about one firing."""
    return knob.per_job or (not per_job and knob.name in ("dsn", "dsn_file", "state_dir"))


def _dictionary(path: Path, lines: list[str], section: list[str], table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise BadInput(f"{path} line {_line_of(lines, section[:-1], section[-1])}: {section[-1]} must be a table")
    return table


def _as_text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    raise BadInput(f"{where} must be a string, a whole number, true or false")


def _unknown(path: Path, lines: list[str], section: list[str], name: str, known: list[str]) -> BadInput:
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
    return BadInput(f"{path} line {_line_of(lines, section, name)}: unknown key {name!r}; {hint}")


def _line_of(lines: list[str], section: list[str], name: str) -> int:
    """Where a name is set, for the message: tomllib does not tell. The first line that fits, below its header.

    A line of its own comes before one that it shares with others: `jobs.nightly.lease = …`, `{ lease = … }`.
    """
    header = re.compile(r"^\s*\[\s*" + r"\s*\.\s*".join(_bare_or_quoted(part) for part in section) + r"\s*\]")
    start = next((number for number, line in enumerate(lines) if section and header.match(line)), 0)
    for before in (r"\s*(?:\[+[^\]]*)?", r"[^#]*[\s.{,]"):
        setting = re.compile(rf"{before}{_bare_or_quoted(name)}\s*[=\].]")
        found = next((n for n, line in enumerate(lines[start:], start + 1) if setting.match(line)), None)
        if found:
            return found
    return start + 1


def _bare_or_quoted(name: str) -> str:
    plain = re.escape(name)
    return rf"(?:{plain}|\"{plain}\"|'{plain}')"
