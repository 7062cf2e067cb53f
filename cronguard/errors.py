"""What can go wrong with cronguard itself, each failure with its exit code; and the one exit-code table.

A refusal ("somebody else runs it") is a value, not an error, and the way a
command ended is data. Only what stops cronguard from doing its work is here.
Everything may import this module; it imports nothing.
"""

from __future__ import annotations

SUCCESS = 0
LEDGER_UNREACHABLE = 75  # sysexits(3) EX_TEMPFAIL: trying again later is safe
LEASE_LOST = 76
OUT_OF_TIME = 124  # as timeout(1) has it
CRONGUARD_FAILED = 125  # 125, 126 and 127 as env(1), nice(1) and timeout(1) have them
CANNOT_EXECUTE = 126
NOT_FOUND = 127
SIGNALLED = 128  # plus the signal's number, as shells report it

EXIT_CODES: tuple[tuple[str, str], ...] = (
    ("0", "the command succeeded, or nothing was to be done (see --skip-exit)"),
    ("1-255", "the command's own status, unchanged; 128+n: it died of signal n"),
    ("75", "the ledger could not be reached: nothing was started"),
    ("76", "the lease was lost: another host may be running it"),
    ("124", "stopped at its complete-by, or stalled, or too late to start"),
    ("125", "cronguard itself: usage, configuration, schema, internal error"),
    ("126", "the command could not be executed"),
    ("127", "the command was not found"),
)


class CronguardError(Exception):
    """cronguard failed; the message is one line for the person who reads it."""

    exit_code = CRONGUARD_FAILED


class BadInput(CronguardError):
    """An option, a variable, a configuration line or an argument makes no sense: nothing was started."""


class StepsChanged(CronguardError):
    """The run was begun by another list of steps than the one there is now: nothing was started."""


class LedgerUnavailable(CronguardError):
    """The ledger did not answer; asking again later may help (refused, cut, starting up, full, deadlock)."""

    exit_code = LEDGER_UNREACHABLE


class RowHeld(LedgerUnavailable):
    """The ledger is there, but somebody has had the one row for too long; other rows may well be had."""


class LedgerRefused(CronguardError):
    """The ledger answered no, and asking again would not help (password, rights, missing database)."""

    exit_code = LEDGER_UNREACHABLE


class SchemaMismatch(CronguardError):
    """The ledger has no schema yet, or one that this version may not write."""


class RunLost(CronguardError):
    """The run that speaks is over, or another host has taken it over: what it does must not count any more."""

    exit_code = LEASE_LOST


class Interrupted(CronguardError):
    """A signal arrived, as a rule before anything was started; else it is said what has become of that."""

    def __init__(self, signum: int, so: str = "nothing was started") -> None:
        super().__init__(f"interrupted by signal {signum}: {so}")
        self.signum = signum
        self.exit_code = SIGNALLED + signum
