"""cronguard reset, cancel, stop, pause, resume and prune: a person steps in."""

from typing import Annotated, Any

import typer

from cronguard.cli.options import Config, DbWait, Dsn, DsnFile, StateDir, Text

Key = Annotated[str, typer.Argument(metavar="KEY", help="The job.", show_default=False)]
Period = Annotated[str, typer.Argument(metavar="PERIOD", help="Which run of it.", show_default=False)]
Reason = Annotated[Text, typer.Option("--reason", metavar="TEXT", help="Why, for whoever asks.", show_default=False)]
Yes = Annotated[
    bool, typer.Option("-y", "--yes", help="Do not ask; needed where there is no terminal.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    for command in (reset, cancel, stop, pause, resume):
        app.command()(command)
    app.command()(prune)


def reset(
    context: typer.Context,
    key: Key,
    period: Period,
    reason: Reason = None,
    yes: Yes = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Make a run that failed, died, was missed or cancelled pending again."""
    return _step_in(context, "reset")


def cancel(
    context: typer.Context,
    key: Key,
    period: Period,
    reason: Reason = None,
    yes: Yes = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """See to it that a period is not run, or not run again."""
    return _step_in(context, "cancel")


def stop(
    context: typer.Context,
    key: Key,
    period: Annotated[
        str | None, typer.Argument(metavar="[PERIOD]", help="Which, if several are live.", show_default=False)
    ] = None,
    reason: Reason = None,
    yes: Yes = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Ask a live run to end; its holder stops the command at its next beat."""
    return _step_in(context, "stop")


def pause(
    context: typer.Context,
    key: Key,
    reason: Reason = None,
    yes: Yes = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Start nothing of a key any more, on any host, until it is resumed."""
    return _step_in(context, "pause")


def resume(
    context: typer.Context,
    key: Key,
    reason: Reason = None,
    yes: Yes = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Let a paused key run again from its next firing on."""
    return _step_in(context, "resume")


def prune(
    context: typer.Context,
    keep: Annotated[str, typer.Option("--keep", metavar="DURATION", help="Whatever is younger stays.")] = "400d",
    keep_last: Annotated[
        str, typer.Option("--keep-last", metavar="N", help="The newest runs of each key that stay in any case.")
    ] = "50",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go; change nothing.", show_default=False)
    ] = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Forget old runs, with their attempts and skips; their periods still never run again."""
    from cronguard.cli.pruning_view import prune as view  # noqa: PLC0415

    return view(dict(context.params), keep, keep_last, dry_run=dry_run)


def _step_in(context: typer.Context, verb: str) -> int:
    from cronguard.cli.operator_views import step_in  # noqa: PLC0415  --help needs none of this

    said: dict[str, Any] = dict(context.params)
    return step_in(said, verb, said["key"], said.get("period"), said["reason"], yes=said["yes"])
