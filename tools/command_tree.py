"""The command line as it really is: every command with its options, read from the program itself.

typer carries its own copy of click, so nothing of click is imported here: commands and options are told by their shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import typer

from cronguard.cli.program import program
from cronguard.settings.knobs import BY_NAME, Knob


@dataclass(frozen=True, slots=True)
class Option:
    """One option as a person may type it; without a metavar it takes no value."""

    names: tuple[str, ...]
    help: str
    metavar: str | None = None
    knob: Knob | None = None

    @property
    def long(self) -> str:
        return next(name for name in self.names if name.startswith("--"))

    @property
    def shorts(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if not name.startswith("--"))

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The words it takes, where its metavar lists them: `key|period`."""
        return tuple(self.metavar.split("|")) if self.metavar and "|" in self.metavar else ()


@dataclass(frozen=True, slots=True)
class Command:
    """One command; the empty name is `cronguard` itself."""

    name: str
    help: str
    options: tuple[Option, ...]
    arguments: tuple[str, ...]

    @property
    def runs_a_command(self) -> bool:
        """Whether its last argument is a command line of somebody else's."""
        return any("COMMAND" in argument for argument in self.arguments)

    @property
    def words_before(self) -> int:
        """How many words of its own stand before that command line."""
        return next(number for number, argument in enumerate(self.arguments) if "COMMAND" in argument)


def commands() -> tuple[Command, ...]:
    """`cronguard` itself, then its commands in the order of its help."""
    group: Any = typer.main.get_command(program())
    context = group.make_context("cronguard", [], resilient_parsing=True)
    others = (_command(name, found, context) for name, found in group.commands.items())
    return (_command("", group, None), *others)


def command(name: str) -> Command:
    return next(found for found in commands() if found.name == name)


def _command(name: str, found: Any, parent: Any) -> Command:
    options = tuple(_option(parameter) for parameter in found.params if parameter.param_type_name == "option")
    arguments = tuple(parameter.metavar for parameter in found.params if parameter.param_type_name == "argument")
    return Command(name, found.help, (*options, _help_option(found, parent)), arguments)


def _option(parameter: Any) -> Option:
    metavar = None if parameter.is_flag else parameter.metavar
    knob = BY_NAME.get(parameter.name)
    names = tuple(sorted(parameter.opts, key=len))
    return Option(names, parameter.help, metavar, knob if knob and knob.option in names else None)


def _help_option(found: Any, parent: Any) -> Option:
    """The help's own names come down from the context of `cronguard` itself."""
    context = found.make_context("cronguard", [], parent=parent, resilient_parsing=True)
    option = found.get_help_option(context)
    return Option(tuple(sorted(option.opts, key=len)), option.help)


def all_options() -> set[str]:
    """Every name of every option of every command."""
    return {name for found in commands() for option in found.options for name in option.names}
