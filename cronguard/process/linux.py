"""What only Linux offers: to inherit orphans, and to die with one's parent. Elsewhere both are refused, and said so."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC  # SFD_ has the numbers of O_
_SIGINFO = struct.Struct("=IiiI112x")  # signalfd(2): signo, errno, code, pid, and more
_SENT_BY_THE_KERNEL = 0x80  # sigaction(2): SI_KERNEL, here: the terminal
_SET_DEATH_SIGNAL = 1  # prctl(2): PR_SET_PDEATHSIG
_SET_SUBREAPER = 36  # prctl(2): PR_SET_CHILD_SUBREAPER, since Linux 3.4


def become_subreaper() -> bool:
    """Orphaned descendants become our children instead of init's; false where the system has no such thing."""
    return _prctl(_SET_SUBREAPER, 1)


def die_with_parent(signum: int) -> bool:
    """Get this signal when the thread that forked us ends. A belt: descendants of ours do not inherit it."""
    return _prctl(_SET_DEATH_SIGNAL, signum)


class TerminalSignals:
    """Signals that a terminal sends to everybody in its foreground, told apart from those that somebody sent to us.

    They must be blocked. Where there is no signalfd nothing arrives here, and
    what a person sends to us alone is not passed on.
    """

    def __init__(self, signums: Iterable[int]) -> None:
        mask = (ctypes.c_ulong * 16)(sum(1 << (signum - 1) for signum in signums))
        self.descriptor: int = _libc().signalfd(-1, mask, _NONBLOCK_CLOEXEC) if _is_linux() else -1

    def arrived(self, *, by_terminal: bool) -> list[int]:
        """What arrived since; what the terminal sent too, or without it: a command in its foreground has it already."""
        found = []
        with suppress(BlockingIOError):
            while self.descriptor >= 0 and (info := os.read(self.descriptor, _SIGINFO.size)):
                signum, _, code, _ = _SIGINFO.unpack(info)
                found += [signum] if by_terminal or code != _SENT_BY_THE_KERNEL else []
        return found


def _is_linux() -> bool:
    return sys.platform.startswith("linux")


def _prctl(option: int, value: int) -> bool:
    if not _is_linux():
        return False
    return bool(_libc().prctl(option, value, 0, 0, 0) == 0)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
