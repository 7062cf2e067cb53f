"""cronguard step, for a command inside its run; cronguard settle, for a person."""

from typing import Annotated, Any

import typer

from cronguard.cli.before_command import EndsBeforeCommand
from cronguard.cli.options import Config, DbWait, Dsn, DsnFile, Durable, StateDir, Text, option

EPILOG = """\b
Example, in a script that cronguard run starts:
  cronguard step pull -- ./pull
  cronguard step mails --once --complete-by 10m -- ./send-mails

Exit codes: cronguard --help. Manual: man cronguard-step"""


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EPILOG, options_metavar="[OPTIONS]", cls=EndsBeforeCommand)(step)
    app.command()(settle)


def step(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the step, unique in its run.", show_default=False)],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND [ARG]...", help="What to run.", show_default=False)
    ] = None,
    complete_by: Annotated[
        Text,
        typer.Option(
            "--complete-by",
            metavar="WHEN",
            show_default=False,
            help="When it must be over, if before its run: 10m, 07:00 or an instant.",
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="If it is cut off, wait for a person's word instead of running it again.", show_default=False
        ),
    ] = False,
    attempts: Annotated[
        Text, typer.Option("--attempts", metavar="N", help="Tries, made in place. [1]", show_default=False)
    ] = None,
    retry_delay: Annotated[
        Text,
        typer.Option(
            "--retry-delay",
            metavar="DURATION",
            help="Pause before the next try; doubles each time. [30s]",
            show_default=False,
        ),
    ] = None,
    stop_grace: Annotated[Text, option("stop_grace")] = None,
    capture: Annotated[Text, option("capture")] = None,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    durable: Durable = False,
    config: Config = None,
) -> int:
    """Run one named part of a job, from inside its run; a part that has succeeded is passed over."""
    from cronguard.cli import step_views as views  # noqa: PLC0415  --help needs none of this

    said = {"once": once, "complete_by": complete_by, "attempts": attempts, "retry_delay": retry_delay}
    return views.step(_options(context, "stop_grace", "capture", "durable"), name, command or [], said)


def settle(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The job.", show_default=False)],
    period: Annotated[str, typer.Argument(metavar="PERIOD", help="Of the run.", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="STEP", help="Its name.", show_default=False)],
    succeeded: Annotated[
        bool, typer.Option("--succeeded", help="It was done: pass it over from now on.", show_default=False)
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="It was not done: it may be run again.", show_default=False)
    ] = False,
    reason: Annotated[
        Text, typer.Option("--reason", metavar="TEXT", help="How you know; kept with the step.", show_default=False)
    ] = None,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Say how a step ended that nobody saw end, or that shall count as done."""
    from cronguard.cli import step_views as views  # noqa: PLC0415

    return views.settle(_options(context), (key, period, name), succeeded=succeeded, again=again, reason=reason)


def _options(context: typer.Context, *more: str) -> dict[str, Any]:
    names = ("dsn", "dsn_file", "state_dir", "db_wait", "config", *more)
    return {name: context.params[name] for name in names}
