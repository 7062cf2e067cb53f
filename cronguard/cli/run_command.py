"""cronguard run."""

from typing import Annotated

import typer

from cronguard.cli.options import Config, DbWait, Dsn, DsnFile, Durable, StateDir, Text, option

EPILOG = """\b
Examples:
  cronguard run --key daily_digest -- ./send-digest
  cronguard run --key etl --schedule '30 2 * * *' --tz Europe/Berlin -- ./etl
  cronguard run --key etl --period 2026-11-28 --rerun -- ./etl
  cronguard run --key etl --only-pending -- ./etl

Every option is also a variable (--start-by: CRONGUARD_START_BY) and a key in [defaults] and [jobs."KEY"] of the
configuration. The command is told CRONGUARD_KEY, _PERIOD, _PERIOD_START, _PERIOD_END, _TZ, _TOKEN, _ATTEMPT and
_COMPLETE_BY. Exit codes: cronguard --help. Manual: man cronguard"""


def add_to(app: typer.Typer) -> None:
    """Options stop at the first word of the command: from there on everything is the command's."""
    app.command(
        epilog=EPILOG,
        options_metavar="--key KEY [OPTIONS]",
        context_settings={"allow_interspersed_args": False},
    )(run)


def run(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[--] COMMAND [ARG]...", help="What to run.", show_default=False)
    ] = None,
    key: Annotated[Text, option("key")] = None,
    every: Annotated[Text, option("every")] = None,
    schedule: Annotated[Text, option("schedule")] = None,
    tz: Annotated[Text, option("tz")] = None,
    period: Annotated[Text, option("period")] = None,
    scheduled_at: Annotated[Text, option("scheduled_at")] = None,
    job_name: Annotated[Text, option("job_name")] = None,
    complete_by: Annotated[Text, option("complete_by")] = None,
    start_by: Annotated[Text, option("start_by")] = None,
    extend_max: Annotated[Text, option("extend_max")] = None,
    attempts: Annotated[Text, option("attempts")] = None,
    retry_delay: Annotated[Text, option("retry_delay")] = None,
    recoveries: Annotated[Text, option("recoveries")] = None,
    claim_within: Annotated[Text, option("claim_within")] = None,
    exclusive: Annotated[Text, option("exclusive")] = None,
    if_held: Annotated[Text, option("if_held")] = None,
    rerun: Annotated[bool, option("rerun")] = False,
    force: Annotated[bool, option("force")] = False,
    accept_changed_steps: Annotated[bool, option("accept_changed_steps")] = False,
    only_pending: Annotated[bool, option("only_pending")] = False,
    catch_up: Annotated[Text, option("catch_up")] = None,
    catch_up_window: Annotated[Text, option("catch_up_window")] = None,
    lease: Annotated[Text, option("lease")] = None,
    lock: Annotated[Text, option("lock")] = None,
    beat_every: Annotated[Text, option("beat_every")] = None,
    stop_grace: Annotated[Text, option("stop_grace")] = None,
    stall_after: Annotated[Text, option("stall_after")] = None,
    skip_exit: Annotated[Text, option("skip_exit")] = None,
    on_silence: Annotated[Text, option("on_silence")] = None,
    stragglers: Annotated[Text, option("stragglers")] = None,
    expand: Annotated[bool, option("expand")] = False,
    quiet: Annotated[bool, option("quiet")] = False,
    capture: Annotated[Text, option("capture")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen now, and why; claim nothing.", show_default=False)
    ] = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    durable: Durable = False,
    config: Config = None,
) -> int:
    """Run a command once per period, whoever and however many hosts fire it."""
    from cronguard.cli.opening import explain_from, run_from  # noqa: PLC0415  --help needs none of this

    act = explain_from if dry_run else run_from
    return act(dict(context.params), command or [])
