"""Whether a person is at the terminal, and we are what they are talking to."""

from __future__ import annotations

import os
import select
import signal

from cronguard.process.signals import Caller


def is_interactive(caller: Caller) -> bool:
    """Standard input is a terminal and we are its foreground.

    `cmd &` in a script without job control looks like that too, but there the
    shell had SIGINT ignored.
    """
    if signal.SIGINT in caller.ignored or not is_terminal(0):
        return False
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def has_hung_up(descriptor: int) -> bool:
    """The window was closed, or the line is dead."""
    line = select.poll()
    line.register(descriptor, 0)
    return bool(line.poll(0))


def is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
