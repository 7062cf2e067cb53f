"""Settings: option > variable > [jobs."KEY"] > [defaults] > built in; each value knows where it was set.

This is the only room that reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cronguard.errors import BadInput
from cronguard.settings.knobs import BY_NAME, GIVEN_TO_THE_COMMAND, INSIDE_A_RUN, KNOBS, Knob

if TYPE_CHECKING:
    from cronguard.settings.config_file import ConfigFile, Said

BUILT_IN = "default"
SYSTEM_CONFIG = Path("/etc/cronguard/config.toml")


@dataclass(frozen=True, slots=True)
class Setting:
    """One knob as it stands: its value, its text, and where that was set."""

    value: Any
    text: str | None
    origin: str

    @property
    def is_set(self) -> bool:
        return self.origin != BUILT_IN


class Settings(Mapping[str, Any]):
    """The value of every knob; `setting(name)` also tells where it comes from."""

    def __init__(self, settings: dict[str, Setting], environment: Mapping[str, str]) -> None:
        self._settings = settings
        self.environment = environment

    def __getitem__(self, name: str) -> Any:
        return self._settings[name].value

    def __iter__(self) -> Any:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def setting(self, name: str) -> Setting:
        return self._settings[name]


def gather(options: Mapping[str, str | bool | None], environment: Mapping[str, str] | None = None) -> Settings:
    """Read every knob from where it is set first; raises BadInput, naming the place and what to type instead."""
    environment = os.environ if environment is None else environment
    said = _Sources(options, environment)
    key = said.first(BY_NAME["key"])[0]
    config = _config(said, environment)
    return Settings({knob.name: _setting(knob, said, config, key) for knob in KNOBS}, environment)


class _Sources:
    """Options and variables, both as text; an empty variable counts as unset."""

    def __init__(self, options: Mapping[str, str | bool | None], environment: Mapping[str, str]) -> None:
        self._options = options
        self._environment = environment
        self._inside_a_run = INSIDE_A_RUN in environment

    def first(self, knob: Knob) -> tuple[str | None, str]:
        option = self._options.get(knob.name)
        if option is not None and option is not False:
            return ("true" if option is True else option), knob.option
        if self._inside_a_run and knob.name in GIVEN_TO_THE_COMMAND:
            return None, BUILT_IN
        return self._environment.get(knob.variable) or None, knob.variable


def _setting(knob: Knob, said: _Sources, config: ConfigFile | None, key: str | None) -> Setting:
    text, origin = said.first(knob)
    if text is None and config:
        found = config.jobs.get(key or "", {}).get(knob.name) or config.defaults.get(knob.name)
        text, origin = (found.value, found.origin) if found else (None, BUILT_IN)
    if text is None:
        text, origin = knob.default, BUILT_IN
    return Setting(None if text is None else _parsed(knob, text, origin), text, origin)


def _parsed(knob: Knob, text: str, origin: str) -> Any:
    try:
        return knob.parse(text)
    except BadInput as error:
        place = origin if origin in (knob.option, knob.variable) else f"{origin}, {knob.name}"
        raise BadInput(f"{place}: {error}") from None


def _config(said: _Sources, environment: Mapping[str, str]) -> ConfigFile | None:
    """The file that was named, or the first of the usual places. Never the current directory: cron's is HOME."""
    named, _ = said.first(BY_NAME["config"])
    path = Path(named) if named else next((place for place in _places(environment) if _is_there(place)), None)
    if path is None:
        return None
    from cronguard.settings.config_file import read_config  # noqa: PLC0415  tomllib, only where there is a file

    return read_config(path)


def _places(environment: Mapping[str, str]) -> list[Path]:
    base = environment.get("XDG_CONFIG_HOME") or (environment.get("HOME", "") and environment["HOME"] + "/.config")
    return [*([Path(base) / "cronguard" / "config.toml"] if base else []), SYSTEM_CONFIG]


def _is_there(path: Path) -> bool:
    """A file that may not even be looked at counts as there: reading it will say why, instead of passing it over."""
    try:
        return path.exists()
    except OSError:
        return True


__all__ = ["BUILT_IN", "Said", "Setting", "Settings", "gather"]
