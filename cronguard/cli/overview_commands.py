"""cronguard status, watch, keys and stats: what people ask about whole keys, and about a run that is under way."""

from typing import Annotated

import typer

from cronguard.cli.options import Config, DbWait, Dsn, DsnFile, Json, StateDir, ledger_options

Keys = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY]...", help="Only these; globs will do.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    for command in (status, watch, keys, stats):
        app.command()(command)


def status(
    context: typer.Context,
    key: Keys = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on, and show what changes, until Ctrl-C.", show_default=False)
    ] = False,
    json: Json = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Tell how every key stands, problems first, a line each."""
    from cronguard.cli import overview_views as views  # noqa: PLC0415  --help needs none of this

    act = views.watch_status if watch else views.status
    return act(ledger_options(context.params), key or [], as_json=json)


def watch(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The job.", show_default=False)],
    period: Annotated[
        str | None, typer.Argument(metavar="[PERIOD]", help="Without: what is live, or newest.", show_default=False)
    ] = None,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="Exit with the code of the run.", show_default=False)
    ] = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Follow one run until it ends: its states, its attempts, how far it is."""
    from cronguard.cli import following_view as view  # noqa: PLC0415

    return view.watch(ledger_options(context.params), key, period, exit_status=exit_status)


def keys(
    context: typer.Context,
    json: Json = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """List the keys that the ledger knows, with their calendars, and who paused them."""
    from cronguard.cli import overview_views as views  # noqa: PLC0415

    return views.keys(ledger_options(context.params), as_json=json)


def stats(
    context: typer.Context,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Only this one, in full.", show_default=False)
    ] = None,
    json: Json = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Count the last 1000 runs of each key, and advise a complete-by."""
    from cronguard.cli import overview_views as views  # noqa: PLC0415

    return views.stats(ledger_options(context.params), key, as_json=json)
