"""Subjects on their way in and out: one a line, or NUL-separated; never more of them at once than one read brings."""

from __future__ import annotations

import os
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from cronguard.domain.effect import LONGEST_SUBJECT, parse_subject
from cronguard.errors import BadInput

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


def print_subjects(subjects: Iterable[str], separator: bytes) -> None:
    """Byte for byte as they came, whatever the locale says."""
    sys.stdout.buffer.write(b"".join(subject.encode() + separator for subject in subjects))
    sys.stdout.buffer.flush()


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
