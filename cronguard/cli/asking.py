"""Before anything is changed for every host: a question on a terminal, --yes in a script."""

from __future__ import annotations

import sys

from cronguard.cli.tell import ask
from cronguard.errors import BadInput


def refuse_without_a_yes(what: str, *, yes: bool) -> None:
    """Where nobody can be asked, silence is no consent."""
    if not (yes or _somebody_is_there()):
        raise BadInput(f"{what}: there is no terminal to ask at; nothing was changed; to do it, add --yes")


def agreed(question: str, *, yes: bool) -> bool:
    """What the person at the terminal says; anything but y or yes is a no."""
    if yes:
        return True
    ask(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _somebody_is_there() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
