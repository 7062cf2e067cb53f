"""cronguard init, history and show: the ledger itself."""

from typing import Annotated

import typer

from cronguard.cli.options import Config, DbWait, Dsn, DsnFile, Json, StateDir, ledger_options


def add_to(app: typer.Typer) -> None:
    app.command()(init)
    app.command()(history)
    app.command()(show)


def init(
    context: typer.Context,
    print_sql: Annotated[
        bool,
        typer.Option(
            "--print-sql", help="Print the SQL for a database administrator; change nothing.", show_default=False
        ),
    ] = False,
    app_role: Annotated[
        str | None,
        typer.Option(
            "--app-role", metavar="NAME", help="With it: only grants for a job's own role.", show_default=False
        ),
    ] = None,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Create or upgrade the ledger's schema. Safe to repeat, and for many hosts at once."""
    from cronguard.cli import ledger_views as views  # noqa: PLC0415  --help needs none of this

    asked = ledger_options(context.params)
    return views.print_sql(asked, app_role) if print_sql else views.init(asked, app_role)


def history(
    context: typer.Context,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="Only this job.", show_default=False)] = None,
    limit: Annotated[str, typer.Option("-n", "--limit", metavar="N", help="How many runs, newest first.")] = "20",
    json: Json = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """List the latest runs: when, how they ended, how many firings were skipped."""
    from cronguard.cli import ledger_views as views  # noqa: PLC0415

    return views.history(ledger_options(context.params), key, limit, as_json=json)


def show(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The job.", show_default=False)],
    period: Annotated[
        str | None, typer.Argument(metavar="[PERIOD]", help="The newest without.", show_default=False)
    ] = None,
    json: Json = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Show one run with its attempts and the firings that were skipped, and why."""
    from cronguard.cli import ledger_views as views  # noqa: PLC0415

    return views.show(ledger_options(context.params), key, period, as_json=json)
