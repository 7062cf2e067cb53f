"""What a job runs by its configuration: `command = […]`, or `steps = [{name = …, command = […], …}, …]`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cronguard.domain.run import parse_name
from cronguard.errors import BadInput

NAMES = ("command", "steps")
OF_A_STEP = ("name", "command", "complete_by", "once", "attempts", "retry_delay", "stop_grace", "capture")


@dataclass(frozen=True, slots=True)
class StepTexts:
    """One step as it was written, each knob as text; None: not said."""

    name: str
    command: tuple[str, ...]
    once: bool = False
    complete_by: str | None = None
    attempts: str | None = None
    retry_delay: str | None = None
    stop_grace: str | None = None
    capture: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """What the configuration says that a job runs, and where: one command, or steps."""

    origin: str
    command: tuple[str, ...] = ()
    steps: tuple[StepTexts, ...] = ()


def listed_in(table: Mapping[str, Any], place: Callable[[str], str]) -> Listed | None:
    """Read a job's table; `place` tells where one of its names stands. Raises BadInput."""
    if "command" in table and "steps" in table:
        raise BadInput(f"{place('steps')}: a job has a command or steps; leave one of them out")
    if "command" in table:
        return Listed(place("command"), command=_command(table["command"], place("command")))
    if "steps" not in table:
        return None
    where, found = place("steps"), table["steps"]
    if not isinstance(found, list) or not found:
        raise BadInput(f"{where}: write a list of tables with name and command, at least one")
    steps = tuple(_step(step, f"{where}, step {number}") for number, step in enumerate(found, 1))
    names = [step.name for step in steps]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(f"{where}: two steps are called {double!r}; each needs a name of its own")
    return Listed(where, steps=steps)


def step_of(document: Any) -> StepTexts:
    """What `listed_in` has read, as it was handed on to another process."""
    return StepTexts(**document | {"command": tuple(document["command"])})


def _step(found: Any, where: str) -> StepTexts:
    if not isinstance(found, dict):
        raise BadInput(f'{where}: write a table such as {{ name = "pull", command = ["./pull"] }}')
    for name in found:
        if name not in OF_A_STEP:
            near = difflib.get_close_matches(name, OF_A_STEP, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(OF_A_STEP)}"
            raise BadInput(f"{where}: unknown key {name!r}; {hint}")
    texts = {name: _text(value, f"{where}: {name}") for name, value in found.items() if name not in ("command", "once")}
    texts["name"] = _name(texts.get("name"), where)
    once = found.get("once", False)
    if not isinstance(once, bool):
        raise BadInput(f"{where}: once must be true or false")
    return StepTexts(command=_command(found.get("command"), where), once=once, **texts)


def _name(text: str | None, where: str) -> str:
    try:
        return parse_name(text or "", "step's name")
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadInput(f"{where} must be a string or a whole number")
    return str(value)


def _command(value: Any, where: str) -> tuple[str, ...]:
    words = value if isinstance(value, list) else []
    if not words or not words[0] or not all(isinstance(word, str) for word in words):
        raise BadInput(f'{where}: a command is a list of words; write command = ["./pull", "--all"]')
    if any("\0" in word for word in words):
        raise BadInput(f"{where}: a command has no NUL characters")
    return tuple(os.fsdecode(word.encode()) for word in words)  # UTF-8 also where the locale is not
