"""Settings: option > variable > [jobs."KEY"] > [defaults] > built in; each value knows where it was set.

This is the only room that reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cronguard.errors import BadInput
from cronguard.settings.knobs import ABOUT_THE_RUN, BY_NAME, INSIDE_A_RUN, KNOBS, Knob
from cronguard.settings.parsers import naming, utf8

if TYPE_CHECKING:
    from cronguard.settings.config_file import ConfigFile, Said
    from cronguard.settings.step_list import Listed

BUILT_IN = "default"
SYSTEM_CONFIG = Path("/etc/cronguard/config.toml")


@dataclass(frozen=True, slots=True)
class Setting:
    """One knob as it stands: its value, its text, and where that was set."""

    value: Any
    text: str | None
    origin: str

    knob: Knob

    @property
    def is_set(self) -> bool:
        return self.origin != BUILT_IN

    @property
    def place(self) -> str:
        """Where a person goes to change it: the option, the variable, or file, line and name."""
        is_named = self.origin in (self.knob.option, self.knob.variable)
        return self.origin if is_named else f"{self.origin}, {self.knob.name}"

    @property
    def rank(self) -> int:
        """How near to this invocation it was set: 0 by its option, 1 by its variable, 2 elsewhere."""
        nearest = (self.knob.option, self.knob.variable)
        return nearest.index(self.origin) if self.origin in nearest else len(nearest)


class Settings(Mapping[str, Any]):
    """The value of every knob; `setting(name)` also tells where it comes from."""

    def __init__(
        self,
        settings: dict[str, Setting],
        environment: Mapping[str, str],
        listed: Listed | None = None,
        config: Path | None = None,
    ) -> None:
        self._settings = settings
        self.environment = environment
        self.config = config  # the file that was read
        self.listed = listed  # what the configuration says that this key runs

    def __getitem__(self, name: str) -> Any:
        return self._settings[name].value

    def __iter__(self) -> Any:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def setting(self, name: str) -> Setting:
        return self._settings[name]

    def places(self, *names: str) -> str:
        """Where these were set, as the beginning of a message; nothing where none of them was."""
        found = [setting.place for name in names if (setting := self._settings[name]).is_set]
        return ", ".join(found) + ": " if found else ""


def gather(
    options: Mapping[str, str | bool | None],
    environment: Mapping[str, str] | None = None,
    unread: Container[str] = (),
) -> Settings:
    """Read every knob from where it is set first; raises BadInput, naming the place and what to type instead.

    Of those `unread` there is only the text.
    """
    environment = os.environ if environment is None else environment
    said = _Sources(options, environment)
    key = said.first(BY_NAME["key"])[0]
    config = _config(said, environment)
    listed = config.listed.get(key or "") if config else None
    settings = {knob.name: _setting(knob, said, config, key) for knob in KNOBS}
    parsed = {name: setting if name in unread else _parsed(setting) for name, setting in settings.items()}
    return Settings(parsed, environment, listed, config.path if config else None)


class _Sources:
    """Options and variables, both as text; an empty variable counts as unset."""

    def __init__(self, options: Mapping[str, str | bool | None], environment: Mapping[str, str]) -> None:
        self._options = options
        self._environment = environment
        self._inside_a_run = INSIDE_A_RUN in environment

    def first(self, knob: Knob) -> tuple[str | None, str]:
        option = self._options.get(knob.name)
        if isinstance(option, str):
            return _readable(_value(option, knob), knob), knob.option
        if option:
            return "true", knob.option
        if self._inside_a_run and knob.name in ABOUT_THE_RUN:
            return None, BUILT_IN
        variable = self._environment.get(knob.variable)
        return _readable(variable, knob) if variable else None, knob.variable


def _value(option: str, knob: Knob) -> str:
    """An option's value, unless it was left out, so that the next option was taken for it (--key $EMPTY -- CMD)."""
    if option.startswith("--"):
        raise BadInput(f"{knob.option} has no value: {option!r} follows it; write {knob.option} {knob.metavar}")
    return option


def _readable(text: str, knob: Knob) -> str:
    return text if knob.is_path else utf8(text)


def _setting(knob: Knob, said: _Sources, config: ConfigFile | None, key: str | None) -> Setting:
    text, origin = said.first(knob)
    if text is None and config:
        found = config.jobs.get(key or "", {}).get(knob.name) or config.defaults.get(knob.name)
        text, origin = (found.value, found.origin) if found else (None, BUILT_IN)
    if text is None:
        text, origin = knob.default, BUILT_IN
    return Setting(None, text, origin, knob)


def _parsed(setting: Setting) -> Setting:
    if setting.text is None:
        return setting
    with naming(setting.place):
        return replace(setting, value=setting.knob.parse(setting.text))


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
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


__all__ = ["BUILT_IN", "Said", "Setting", "Settings", "gather"]
