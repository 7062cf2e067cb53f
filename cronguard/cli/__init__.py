"""FRONT DOOR: argv to settings, one service call, an exit code. One file a group of commands.

Only here are settings, services and stores put together.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from cronguard.cli import ledger_commands, run_command
from cronguard.cli.tell import complain
from cronguard.errors import CRONGUARD_FAILED, EXIT_CODES, SIGNALLED, CronguardError

_EXIT_CODES = "\n".join(f"  {code:<8}{meaning}" for code, meaning in EXIT_CODES)

app = typer.Typer(
    name="cronguard",
    help="Put cronguard in front of a cron job: any number of hosts may fire it, one of them runs it, once per period.",
    epilog=f"\b\nExit codes:\n{_EXIT_CODES}\n\nManual: man cronguard",
    rich_markup_mode=None,  # plain help: stable for the documentation, and it does not load rich
    pretty_exceptions_enable=False,
    add_completion=False,  # completions are static files; see completions/
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
run_command.add_to(app)
ledger_commands.add_to(app)


@app.callback(invoke_without_command=True)
def cronguard(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from importlib.metadata import version as version_of  # noqa: PLC0415  slow, and only for this

        typer.echo(f"cronguard {version_of('cronguard')}")
        raise typer.Exit


def main(argv: Sequence[str] | None = None) -> int:
    """Run cronguard; the exit code. Whatever goes wrong is one line on stderr."""
    try:
        return int(app(args=argv, standalone_mode=False) or 0)
    except CronguardError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return SIGNALLED + 2
    except BrokenPipeError:
        _forget_stdout()
        return SIGNALLED + 13
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        complain(_usage(error))
        return CRONGUARD_FAILED


def _usage(error: Exception) -> str:
    """A usage error of the command line library, which carries its own copy of click: told by its shape."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "cronguard"
    message: str = error.format_message()  # type: ignore[attr-defined]
    message = message[:1].lower() + message[1:].rstrip(".")
    return f"{message}; see {path} --help"


def _forget_stdout() -> None:
    """The reader is gone: keep the interpreter from complaining when it flushes at exit."""
    import os  # noqa: PLC0415

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
