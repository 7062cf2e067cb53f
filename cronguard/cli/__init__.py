"""FRONT DOOR: argv to settings, one service call, an exit code. One file a group of commands.

Only here are settings, services and stores put together.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from cronguard.cli.program import MODULES, program
from cronguard.cli.tell import complain
from cronguard.errors import CRONGUARD_FAILED, SIGNALLED, CronguardError


def main(argv: Sequence[str] | None = None) -> int:
    """Run cronguard; the exit code. Whatever goes wrong is one line on stderr."""
    words = sys.argv[1:] if argv is None else argv
    return guarded(lambda: _enter(words), words)


def guarded(work: Callable[[], int], argv: Sequence[str]) -> int:
    """The exit code of this work, however it fails."""
    try:
        return work()
    except typer.Exit as done:
        return done.exit_code
    except CronguardError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return SIGNALLED + signal.SIGINT
    except BrokenPipeError:
        _forget_stdout()
        return SIGNALLED + signal.SIGPIPE
    except Exception as error:
        complain(_usage(error, argv) if hasattr(error, "format_message") else _unforeseen(error))
        _forget_stdout()
        return CRONGUARD_FAILED


def _enter(argv: Sequence[str]) -> int:
    """By hand: the library's own main would turn a broken pipe into an exit code of 1."""
    command = get_command(program(argv))
    with command.make_context("cronguard", list(argv)) as context:
        return int(command.invoke(context) or 0)


def _usage(error: Any, argv: Sequence[str]) -> str:
    """A usage error of the command line library, which carries its own copy of click: told by its shape."""
    path = f"cronguard {argv[0]}" if argv and argv[0] in MODULES else "cronguard"
    message: str = error.format_message().rstrip(".").replace(". Did", "; did")
    return f"{message[:1].lower()}{message[1:]}{' ' if message.endswith('?') else '; '}see {path} --help"


def _unforeseen(error: Exception) -> str:
    """Where it happened, for a report; what it says only if it comes from the system, since it could be a secret."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{Path(frame.filename).stem}:{frame.lineno}" for frame in reversed(frames))
    if isinstance(error, OSError):
        return ": ".join(map(str, filter(None, (error.filename, error.strerror)))) + f" (at {places})"
    return f"internal error, please report it: {type(error).__name__} (at {places})"


def _forget_stdout() -> None:
    """What could not be written stays unwritten: keep the interpreter from trying, and complaining, at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
