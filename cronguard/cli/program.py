"""The program as a command line: which commands there are, and in which module each is declared.

To declare all of them takes a third of a start, and cron starts one: so only the
module of the command that is asked for is loaded. All are for the help, and to
say what somebody may have meant.
"""

from collections.abc import Sequence
from importlib import import_module

import typer

from cronguard.errors import CRONGUARD_FAILED, EXIT_CODES

# In the order of the help.
MODULES = {
    "run": "run_command",
    "backfill": "backfill_command",
    **dict.fromkeys(("beat", "extend"), "inside_commands"),
    **dict.fromkeys(("step", "settle"), "step_commands"),
    **dict.fromkeys(("once", "claim", "confirm", "release", "effects", "resolve"), "effect_commands"),
    **dict.fromkeys(("init", "history", "show"), "ledger_commands"),
    **dict.fromkeys(("status", "watch", "keys", "stats"), "overview_commands"),
    **dict.fromkeys(("reset", "cancel", "stop", "pause", "resume", "prune"), "operator_commands"),
    "supervise": "supervise_commands",
    "doctor": "doctor_command",
    "drill": "drill_command",
}
_EXIT_CODES = "\n".join(f"  {code:<8}{meaning}" for code, meaning in EXIT_CODES)


def program(argv: Sequence[str] = ()) -> typer.Typer:
    """All of it, or no more than this command line asks for."""
    app = typer.Typer(
        name="cronguard",
        help="Put cronguard in front of a cron job: any number of hosts may fire it, one of them runs it, once per "
        "period.",
        epilog=f"\b\nExit codes:\n{_EXIT_CODES}\n\nManual: man cronguard",
        rich_markup_mode=None,  # plain help: stable for the documentation, and it does not load rich
        pretty_exceptions_enable=False,
        add_completion=False,  # completions are static files; see completions/
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(cronguard)
    asked = MODULES.get(argv[0]) if argv else None
    for module in dict.fromkeys([asked] if asked else MODULES.values()):
        import_module(f"cronguard.cli.{module}").add_to(app)
    return app


def cronguard(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", show_default=False),
) -> None:
    if version:
        from importlib.metadata import version as version_of  # noqa: PLC0415  slow, and only for this

        typer.echo(f"cronguard {version_of('cronguard')}")
        raise typer.Exit
    if context.invoked_subcommand is None:  # in a crontab a slip: it must not look like a success
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(CRONGUARD_FAILED)
