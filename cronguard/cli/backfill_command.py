"""cronguard backfill."""

from typing import Annotated

import typer

from cronguard.cli.options import Config, DbWait, Dsn, DsnFile, Durable, StateDir, Text, option

EPILOG = """\b
Examples:
  cronguard backfill --key etl --from 2026-10-01 --to previous -- ./etl
  cronguard backfill --key etl --from previous --to current --dry-run -- ./etl

What is left out is as the key has it in the ledger, or as the configuration says. Each command is told the same as
by cronguard run. Exit code: 0, or that of the first period that did not end well. Manual: man cronguard"""


def add_to(app: typer.Typer) -> None:
    """Options stop at the first word of the command, as with run."""
    app.command(
        epilog=EPILOG,
        options_metavar="--key KEY --from A --to B [OPTIONS]",
        context_settings={"allow_interspersed_args": False},
    )(backfill)


def backfill(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[--] COMMAND [ARG]...", help="What to run.", show_default=False)
    ] = None,
    key: Annotated[Text, option("key")] = None,
    first: Annotated[
        Text, typer.Option("--from", metavar="PERIOD", help="The first period, or a date.", show_default=False)
    ] = None,
    last: Annotated[
        Text, typer.Option("--to", metavar="PERIOD", help="The last one, or a date.", show_default=False)
    ] = None,
    only_missing: Annotated[
        bool,
        typer.Option("--only-missing", help="Not those that failed, ran out of time or are dead.", show_default=False),
    ] = False,
    jobs: Annotated[
        str, typer.Option("--jobs", metavar="N", help="How many at a time, with --exclusive period.")
    ] = "1",
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Do not stop at the first that fails.", show_default=False)
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be run and what not, and why.", show_default=False)
    ] = False,
    rerun: Annotated[bool, typer.Option("--rerun", help="Also what was cancelled.", show_default=False)] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --rerun: also what succeeded.", show_default=False)
    ] = False,
    every: Annotated[Text, option("every")] = None,
    schedule: Annotated[Text, option("schedule")] = None,
    tz: Annotated[Text, option("tz")] = None,
    complete_by: Annotated[Text, option("complete_by")] = None,
    extend_max: Annotated[Text, option("extend_max")] = None,
    attempts: Annotated[Text, option("attempts")] = None,
    retry_delay: Annotated[Text, option("retry_delay")] = None,
    recoveries: Annotated[Text, option("recoveries")] = None,
    exclusive: Annotated[Text, option("exclusive")] = None,
    lease: Annotated[Text, option("lease")] = None,
    lock: Annotated[Text, option("lock")] = None,
    beat_every: Annotated[Text, option("beat_every")] = None,
    stop_grace: Annotated[Text, option("stop_grace")] = None,
    stall_after: Annotated[Text, option("stall_after")] = None,
    on_silence: Annotated[Text, option("on_silence")] = None,
    stragglers: Annotated[Text, option("stragglers")] = None,
    expand: Annotated[bool, option("expand")] = False,
    quiet: Annotated[bool, option("quiet")] = False,
    capture: Annotated[Text, option("capture")] = None,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    durable: Durable = False,
    config: Config = None,
) -> int:
    """Run a command for each period of a range that is not done yet, in order, each as a run of its own."""
    from cronguard.cli.backfilling import backfill_from, list_from  # noqa: PLC0415  --help needs none of this

    act = list_from if dry_run else backfill_from
    return act(dict(context.params), command or [])
