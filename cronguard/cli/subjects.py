"""Subjects on their way in and out: one a line, or NUL-separated; never more of them at once than one read brings."""

from __future__ import annotations

import os
import sys
from bisect import bisect_left, bisect_right
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate

from cronguard.cli.tell import warn
from cronguard.domain.effect import LONGEST_SUBJECT, Said, Sender, parse_subject
from cronguard.errors import BadInput, CronguardError
from cronguard.services.effects import Effects

ONE_READ = 1 << 18  # bytes of a file; a pipe gives what it holds, so that a slow writer is not waited for


@contextmanager
def opened_list(file: str | None) -> Iterator[tuple[int, str]]:
    """The list's descriptor, and what to call it in a message; - and nothing at all are standard input."""
    if file in (None, "-"):
        yield 0, "standard input"
        return
    try:
        descriptor = os.open(file or "", os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its name has a NUL in it"
        raise BadInput(f"--file: {file!a} cannot be read: {why}") from None
    try:
        yield descriptor, file or ""
    finally:
        os.close(descriptor)


def batches(descriptor: int, name: str, separator: bytes) -> Iterator[list[str]]:
    """Whatever has come, subject by subject; raises BadInput at the first that is none, with its place."""
    rest, count = b"", 0
    while chunk := _read(descriptor, name):
        *whole, rest = (rest + chunk).split(separator)
        if whole:
            yield [_subject(text, count + n, name, separator) for n, text in enumerate(whole, 1)]
        count += len(whole)
        if len(rest) > LONGEST_SUBJECT:
            _subject(rest, count + 1, name, separator)
    if rest:
        yield [_subject(rest, count + 1, name, separator)]


def refuse_closed_output() -> None:
    """Before anything is claimed: what is won, and told to nobody, would be for a person to look at."""
    if sys.stdout is None:
        raise BadInput("standard output is closed, and nobody would learn what was won; write it to a file or a pipe")


def hand_over(it: Effects, sender: Sender, won: Mapping[str, str], separator: bytes, *, tokens: bool) -> None:
    """Print what this sender has won. What the reader can have seen nothing of is given back; then raises."""
    lines = [(f"{token}\t{subject}" if tokens else subject).encode() + separator for subject, token in won.items()]
    length, why = _printed(b"".join(lines))
    if why is None:
        return
    begins, names = [0, *accumulate(map(len, lines))], list(won)
    back = _given_back(it, sender, names[bisect_left(begins, length) :])
    if isinstance(why, BrokenPipeError):
        raise why
    missing = names[bisect_right(begins, length) - 1 :]  # with the one that was cut in two, which is not given back
    unknown = f", {len(missing) - back} will read as unknown" if back < len(missing) else ""
    raise CronguardError(
        f"{sender.kind} {sender.period}: standard output: {why.strerror}: of {len(won)} claimed {len(missing)} were "
        f"not printed (first {missing[0]!a}): {back} released again{unknown}"
    )


def _printed(text: bytes) -> tuple[int, OSError | None]:
    """Byte for byte as it came, whatever the locale says: how much got out, and what kept the rest back."""
    rest = memoryview(text)
    try:
        while rest:
            rest = rest[os.write(sys.stdout.fileno(), rest) :]
    except OSError as error:
        return len(text) - len(rest), error
    return len(text), None


def _given_back(it: Effects, sender: Sender, subjects: Sequence[str]) -> int:
    """How many are released. Not at an idempotent provider: who had one before, and was cut off, may have done it."""
    if sender.idempotent:
        return 0
    try:
        told = it.release(sender.kind, sender.period, subjects, sender.inside, sender.claim_id)
    except CronguardError as failure:
        many = f"{len(subjects)} that were claimed and not printed will read as unknown"
        warn(f"{sender.kind} {sender.period}: {failure}; {many}")
        return 0
    return told.counts[Said.WRITTEN] + told.counts[Said.ALREADY_SO]


def _read(descriptor: int, name: str) -> bytes:
    try:
        return os.read(descriptor, ONE_READ)
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}") from None


def _subject(text: bytes, number: int, name: str, separator: bytes) -> str:
    try:
        if separator == b"\n":
            _refuse_what_is_no_line(text, number)
        return parse_subject(text[: LONGEST_SUBJECT + 1].decode("utf-8", "surrogateescape"))
    except BadInput as error:
        unit = "line" if separator == b"\n" else "subject"
        raise BadInput(f"{name}, {unit} {number}: {error}") from None


def _refuse_what_is_no_line(text: bytes, number: int) -> None:
    """What a line cannot be seen to have would make another subject of it, which is claimed besides the right one."""
    if b"\0" in text:
        raise BadInput("the line has a NUL in it; if that is what separates the subjects, say so: -0")
    if text.endswith(b"\r"):
        raise BadInput("the line ends in a carriage return; convert the file, or separate by NUL (-0)")
    if number == 1 and text.startswith(BOM_UTF8):
        raise BadInput("the list begins with a byte order mark; take it off, or separate by NUL (-0)")
