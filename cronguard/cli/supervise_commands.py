"""cronguard supervise."""

from typing import Annotated

import typer

from cronguard.cli.options import Config, DbWait, Dsn, DsnFile, Durable, Json, StateDir, Text

EPILOG = """\b
Examples:
  * * * * * root cronguard supervise
  cronguard supervise --every 30s --metrics /var/lib/metrics/cronguard.prom
  cronguard supervise --dry-run --exit-status

It runs no job. It finds what died, was missed or failed, asks that somebody run it again, and tells of it, once.
Any number of hosts may supervise one ledger at the same time. Manual: man cronguard"""


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(supervise)


def supervise(
    context: typer.Context,
    pass_every: Annotated[
        Text,
        typer.Option("--every", metavar="DURATION", help="Pass again and again; one pass without.", show_default=False),
    ] = None,
    keys: Annotated[
        Text, typer.Option("--key", metavar="GLOB", help="Only these keys, with * and ?.", show_default=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what a pass would find; change nothing.", show_default=False)
    ] = False,
    json: Json = False,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="Exit with 1 if anything needs a person.", show_default=False)
    ] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Forget old runs after the pass, as cronguard prune does.", show_default=False),
    ] = False,
    metrics: Annotated[
        Text, typer.Option("--metrics", metavar="FILE", help="Write figures for Prometheus there.", show_default=False)
    ] = None,
    on_request: Annotated[
        Text,
        typer.Option(
            "--on-request",
            metavar="CMD",
            help="Tell this shell command of each run that somebody should run.",
            show_default=False,
        ),
    ] = None,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    durable: Durable = False,
    config: Config = None,
) -> int:
    """Pass over the ledger: recover what died, report what was missed or failed; run nothing."""
    from cronguard.cli.supervise_views import supervise as view  # noqa: PLC0415  --help needs none of this

    return view(dict(context.params))
