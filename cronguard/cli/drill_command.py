"""cronguard drill."""

from typing import Annotated

import typer

from cronguard.cli.options import Config, DbWait, Dsn, DsnFile, Json, StateDir, Text

EPILOG = """\b
Examples:
  cronguard drill
  cronguard drill --only kill-holder --only cut --rounds 1
  cronguard drill --rounds 20 --json
  cronguard drill --clean

Scenarios: contention, kill-holder, kill-guard, freeze, skewed-clock, cut,
two-supervisors. It exits with 1 if a promise broke. Manual: man cronguard"""


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(drill)


def drill(
    context: typer.Context,
    replicas: Annotated[str, typer.Option("--replicas", metavar="N", help="How many fire at once, at least 2.")] = "3",
    rounds: Annotated[str, typer.Option("--rounds", metavar="N", help="How often each scenario is played.")] = "5",
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Only this scenario; may be given again.", show_default=False),
    ] = None,
    within: Annotated[
        Text,
        typer.Option("--within", metavar="DURATION", help="Refuse to begin if it takes longer.", show_default=False),
    ] = None,
    clean: Annotated[
        bool,
        typer.Option("--clean", help="Only remove what a drill that was killed has left.", show_default=False),
    ] = False,
    json: Json = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Cause failures on purpose, against your own ledger, and see whether a run is ever doubled or lost."""
    from cronguard.cli import drill_views as views  # noqa: PLC0415  --help needs none of this

    act = views.clean_up if clean else views.drill
    return act(dict(context.params))
