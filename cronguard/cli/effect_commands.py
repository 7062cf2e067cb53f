"""cronguard once, claim, confirm, release, effects and resolve: what is done to the outside, once."""

from typing import Annotated, Any

import typer

from cronguard.cli.before_command import EndsBeforeCommand
from cronguard.cli.options import Config, DbWait, Dsn, DsnFile, Durable, Json, StateDir, Text, option

ONCE_EPILOG = """\b
Examples:
  cronguard once reminder ada@example.com --period 2026-11 -- ./send ada
  cronguard once payment 4711 --released-on 3 -- ./pay 4711   (inside a run)

Anything but exit 0 leaves it open, and later unknown: it is not done again
before a person has looked (cronguard resolve). Manual: man cronguard-once"""
BULK_EPILOG = """\b
Example, in a script of a run (sh -e; in a pipe, a claim that failed would
go unseen):
  cronguard claim reminder --file customers >mine
  while read -r who; do
    ./send "$who" </dev/null && printf '%s\\n' "$who"
  done <mine | cronguard confirm reminder

Manual: man cronguard-once"""

Kind = Annotated[str, typer.Argument(metavar="KIND", help="What is done: reminder, payment.", show_default=False)]
Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="Whom or what it is done to.", show_default=False)]
Period = Annotated[
    Text, typer.Option("--period", metavar="LABEL", help="What it is for (inside a run: its own).", show_default=False)
]
SendWithin = Annotated[
    Text,
    typer.Option("--send-within", metavar="DURATION", help="Later it counts as abandoned. [15m]", show_default=False),
]
Idempotent = Annotated[
    bool,
    typer.Option(
        "--provider-idempotent",
        help="The provider does nothing twice under one token: an abandoned one may be claimed again.",
        show_default=False,
    ),
]
File = Annotated[
    Text,
    typer.Option(
        "--file", metavar="FILE", help="The subjects, or - for standard input, as without.", show_default=False
    ),
]
Null = Annotated[bool, typer.Option("-0", "--null", help="NUL after each, not a new line.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    app.command(epilog=ONCE_EPILOG, cls=EndsBeforeCommand)(once)
    app.command(epilog=BULK_EPILOG)(claim)
    for command in (confirm, release, effects, resolve):
        app.command()(command)


def once(
    context: typer.Context,
    kind: Kind,
    subject: Subject,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND [ARG]...", help="What does it.", show_default=False)
    ] = None,
    period: Period = None,
    send_within: SendWithin = None,
    released_on: Annotated[
        Text,
        typer.Option(
            "--released-on", metavar="N", help="With this exit code it was certainly not done.", show_default=False
        ),
    ] = None,
    provider_idempotent: Idempotent = False,
    skip_exit: Annotated[Text, option("skip_exit")] = None,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    durable: Durable = False,
    config: Config = None,
) -> int:
    """Do something once per subject and period. Claimed before it is done, confirmed after."""
    from cronguard.cli import effect_views as views  # noqa: PLC0415  --help needs none of this

    return views.once(_options(context), context.params, command or [])


def claim(
    context: typer.Context,
    kind: Kind,
    period: Period = None,
    file: File = None,
    null: Null = False,
    send_within: SendWithin = None,
    provider_idempotent: Idempotent = False,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Print each one's token and a tab before it.", show_default=False)
    ] = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    durable: Durable = False,
    config: Config = None,
) -> int:
    """Claim many at once: read subjects, print those to be done."""
    from cronguard.cli import effect_views as views  # noqa: PLC0415

    return views.claim(_options(context), context.params)


def confirm(
    context: typer.Context,
    kind: Kind,
    period: Period = None,
    file: File = None,
    null: Null = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    durable: Durable = False,
    config: Config = None,
) -> int:
    """Read subjects: it was done for these."""
    from cronguard.cli import effect_views as views  # noqa: PLC0415

    return views.confirm(_options(context), context.params)


def release(
    context: typer.Context,
    kind: Kind,
    period: Period = None,
    file: File = None,
    null: Null = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    durable: Durable = False,
    config: Config = None,
) -> int:
    """Read subjects: it was not done for these. Certainly not: they may be claimed again."""
    from cronguard.cli import effect_views as views  # noqa: PLC0415

    return views.release(_options(context), context.params)


def effects(
    context: typer.Context,
    kind: Annotated[
        Text,
        typer.Argument(metavar="[KIND]", help="What is done; without it, all that is unknown.", show_default=False),
    ] = None,
    period: Annotated[Text, typer.Option("--period", metavar="LABEL", help="Only of it.", show_default=False)] = None,
    state: Annotated[
        Text,
        typer.Option("--state", metavar="sending|sent|released|unknown", help="Only in it.", show_default=False),
    ] = None,
    limit: Annotated[str, typer.Option("-n", "--limit", metavar="N", help="How many, latest periods first.")] = "20",
    json: Json = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """List what was done once, and what nobody knows of."""
    from cronguard.cli import effect_views as views  # noqa: PLC0415

    return views.effects(_options(context), context.params)


def resolve(
    context: typer.Context,
    kind: Kind,
    subject: Annotated[
        Text, typer.Argument(metavar="[SUBJECT]", help="Whom or what it is done to.", show_default=False)
    ] = None,
    sent: Annotated[bool, typer.Option("--sent", help="It was done.", show_default=False)] = False,
    released: Annotated[
        bool, typer.Option("--released", help="It was not done, and may be tried again.", show_default=False)
    ] = False,
    reason: Annotated[
        Text, typer.Option("--reason", metavar="TEXT", help="How you know, for whoever asks.", show_default=False)
    ] = None,
    period: Period = None,
    file: Annotated[
        Text,
        typer.Option("--file", metavar="FILE", help="Many subjects, or - for standard input.", show_default=False),
    ] = None,
    null: Null = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    state_dir: StateDir = None,
    db_wait: DbWait = None,
    config: Config = None,
) -> int:
    """Say of unknown effects whether they were done."""
    from cronguard.cli import effect_views as views  # noqa: PLC0415

    return views.resolve(_options(context), context.params)


def _options(context: typer.Context) -> dict[str, Any]:
    """The ledger's knobs; what else a command is asked is nobody else's affair."""
    names = ("dsn", "dsn_file", "state_dir", "db_wait", "durable", "config")
    return {name: context.params[name] for name in names if name in context.params}
