"""cronguard beat and extend: for the command itself, from inside its run."""

from typing import Annotated

import typer

from cronguard.cli.options import Config, DbWait, Dsn, DsnFile, StateDir, Text, ledger_options


def add_to(app: typer.Typer) -> None:
    app.command()(beat)
    app.command()(extend)


def beat(
    context: typer.Context,
    progress: Annotated[
        Text, typer.Option("--progress", metavar="DONE", help="How far it is: 3/10, 40% or 3.", show_default=False)
    ] = None,
    note: Annotated[
        Text, typer.Option("--note", metavar="TEXT", help="One line about where it is.", show_default=False)
    ] = None,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Say from inside a run that it gets on, and how far it is: see --stall-after of run."""
    from cronguard.cli import inside_views as views  # noqa: PLC0415  --help needs none of this

    return views.beat(ledger_options(context.params), progress, note)


def extend(
    context: typer.Context,
    by: Annotated[str, typer.Argument(metavar="DURATION", help="How much more, such as 10m.", show_default=False)],
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Move the run's own complete-by from inside it, as far as --extend-max of run allows."""
    from cronguard.cli import inside_views as views  # noqa: PLC0415

    return views.extend(ledger_options(context.params), by)
