"""cronguard doctor: the ground it stands on."""

from typing import Annotated

import typer

from cronguard.cli.options import Config, DbWait, Dsn, DsnFile, Json, StateDir, ledger_options


def add_to(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    context: typer.Context,
    cron: Annotated[
        bool,
        typer.Option(
            "--cron", help="Look again with the environment that cron gives, and say what differs.", show_default=False
        ),
    ] = False,
    json: Json = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Look at what cronguard stands on: the ledger, clocks, this host. Exits 1 on a problem; changes nothing."""
    from cronguard.cli import examining  # noqa: PLC0415  --help needs none of this

    return examining.doctor(ledger_options(context.params), cron=cron, as_json=json)
