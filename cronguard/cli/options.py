"""Options made from knobs: the name, the meaning and the default stand in settings/knobs.py, once.

No postponed annotations in the modules that declare commands: typer would evaluate each of them at every start."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cronguard.settings.knobs import BY_NAME


def option(name: str) -> Any:
    """The option of a knob. Its text is read by settings, where variables and the configuration are read too."""
    knob = BY_NAME[name]
    default = f" [{knob.default}]" if knob.default and not knob.is_flag else ""
    if knob.is_flag:
        return typer.Option(knob.option, help=_sentence(knob.help), show_default=False)
    return typer.Option(knob.option, metavar=knob.metavar, help=_sentence(knob.help) + default, show_default=False)


def ledger_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """The ledger's knobs; what a command's own arguments are called is nobody else's affair."""
    return {name: params[name] for name in ("dsn", "dsn_file", "state_dir", "db_wait", "config")}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


Text = str | None

Dsn = Annotated[Text, option("dsn")]
DsnFile = Annotated[Text, option("dsn_file")]
StateDir = Annotated[Text, option("state_dir")]
DbWait = Annotated[Text, option("db_wait")]
Durable = Annotated[bool, option("durable")]
Config = Annotated[Text, option("config")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, with a schema field.", show_default=False)]
