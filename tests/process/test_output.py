"""Where the command's output goes: bytes unchanged, both ends remembered, and nobody who reads it in the way."""

from __future__ import annotations

import os
import pty
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cronguard.process.output import DRAIN_TIMEOUT, SINK_LOST
from tests.rig.processes import children, state
from tests.rig.pumping import Pumping, pumped, shell
from tests.rig.waiting import in_background, still_waits, wait_until

MANY = 3_000_000  # more than all pipes on the way hold together


@pytest.fixture
def anything(tmp_path: Path) -> tuple[bytes, str]:
    """Bytes that are nobody's text, NUL and broken UTF-8 among them, and a file that holds them."""
    data = random.Random(7).randbytes(MANY) + b"\0\xff\xc3"
    (tmp_path / "data").write_bytes(data)
    return data, str(tmp_path / "data")


@pytest.fixture
def stuck() -> Iterator[tuple[int, int]]:
    """A pipe whose reader does not read: its two ends."""
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        os.close(descriptor)


# --- On to ours -------------------------------------------------------------------------------------------------------


def test_row_56_bytes_pass_unchanged_and_the_streams_apart(anything: tuple[bytes, str]) -> None:
    data, path = anything
    result = pumped("sh", "-c", 'cat "$0"; cat "$0" >&2; cat "$0"', path)
    assert result.out == data * 2
    assert result.err == data
    assert (result.captured.total, result.captured.notes) == (3 * len(data), ())


def test_streams_that_go_to_one_place_keep_their_order() -> None:
    reader, writer = os.pipe()
    script = "i=0; while [ $i -lt 1000 ]; do echo out $i; echo err $i >&2; i=$((i + 1)); done"
    pumping = Pumping("sh", "-c", script, stdout=writer, stderr=writer, capture=1 << 20)
    os.close(writer)
    with os.fdopen(reader) as file:
        lines = file.read().splitlines()
    assert lines == [f"{stream} {n}" for n in range(1000) for stream in ("out", "err")]
    assert pumping.result().captured.total == sum(map(len, lines)) + len(lines)


def test_without_capture_the_command_gets_our_streams_as_they_are() -> None:
    result = shell("echo out; echo err >&2", capture=0)
    assert (result.out, result.err) == (b"out\n", b"err\n")
    assert (result.handed_on, result.pumped, result.seen, result.captured.total) == ([True, True], False, False, 0)


@pytest.mark.parametrize("which", ["stdout", "stderr"])
def test_terminal_is_handed_to_the_command_and_the_other_stream_is_captured(which: str) -> None:
    master, slave = pty.openpty()
    result = shell("test -t 1 && echo terminal 1; test -t 2 && echo terminal 2 >&2; echo o; echo e >&2; exit 0",
                   **{which: slave})  # fmt: skip
    os.close(slave)
    on_terminal = b"".join(pieces_of(master))
    os.close(master)
    assert result.handed_on == [which == "stdout", which == "stderr"]
    letter, number = ("o", 1) if which == "stdout" else ("e", 2)
    assert on_terminal == f"terminal {number}\r\n{letter}\r\n".encode()
    assert result.captured.head == (b"e\n" if which == "stdout" else b"o\n")


def pieces_of(terminal: int) -> Iterator[bytes]:
    """All that was written to the other side, which is closed by now; the kernel hands it over piece by piece."""
    with suppress(OSError):
        while piece := os.read(terminal, 4096):
            yield piece


def test_moment_of_the_last_byte_is_known_while_it_is_pumped_and_that_of_the_start_else() -> None:
    """In seconds long enough for one of the processes to stand still in between."""
    early, late = ("sh", "-c", "echo one; sleep 5"), ("sh", "-c", "sleep 5; echo one")
    asked = [(early, {}), (early, {"quiet": True}), (late, {"capture": 0}), (late, {})]
    pumped, held_back, handed_on, at_the_end = [Pumping(*command, **options) for command, options in asked]
    assert pumped.result().silent > 0.5
    assert held_back.result().silent < 0.5  # known only when it is asked for
    assert handed_on.result().silent > 0.5
    assert at_the_end.result().silent < 4.5


# --- Whoever reads it -------------------------------------------------------------------------------------------------


def without_reader() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(
    "opened",
    [without_reader, lambda: os.open("/dev/full", os.O_WRONLY), lambda: os.open("/dev/null", os.O_RDONLY)],
    ids=["EPIPE", "ENOSPC", "EBADF"],
)
def test_row_46_command_goes_on_although_nobody_takes_its_output(opened: Callable[[], int]) -> None:
    descriptor = opened()
    result = shell(f"head -c {MANY} /dev/zero && echo done >&2", stdout=descriptor, capture=2 * MANY)
    os.close(descriptor)
    assert (result.code, result.err) == (0, b"done\n")
    assert (result.captured.total, result.captured.notes) == (MANY + 5, (SINK_LOST,))
    assert b"done\n" in result.captured.head + result.captured.tail


def test_row_46_reader_that_goes_away_in_the_middle_does_not_end_the_command() -> None:
    reader, writer = os.pipe()
    pumping = Pumping("sh", "-c", f"head -c {MANY} /dev/zero; echo done >&2", stdout=writer)
    os.close(writer)
    os.read(reader, 100_000)
    os.close(reader)
    result = pumping.result()
    assert (result.code, result.err, result.captured.notes) == (0, b"done\n", (SINK_LOST,))


def test_row_47_stuck_reader_ends_the_wait_in_time_and_what_was_said_is_remembered(stuck: tuple[int, int]) -> None:
    result = shell("head -c 500000 /dev/zero; echo last words", stdout=stuck[1], within=0.3)
    assert (result.code, result.captured.total, result.captured.notes) == (0, 500_011, (DRAIN_TIMEOUT,))
    assert result.captured.tail.endswith(b"\0last words\n")
    assert 0.3 <= result.took < 20


def test_row_47_slow_reader_holds_the_command_up_and_gets_every_byte() -> None:
    reader, writer = os.pipe()
    pumping = Pumping("head", "-c", str(MANY), "/dev/zero", stdout=writer)
    os.close(writer)
    head = wait_until(lambda: children(pumping.process.pid), saying="the command runs")[0]
    wait_until(lambda: state(head) == "S", saying="it cannot go on")
    assert still_waits(in_background(pumping.process.wait), 0.3)
    with os.fdopen(reader, "rb") as file:
        assert len(file.read()) == MANY
    assert pumping.result().captured.notes == ()


@pytest.mark.parametrize("read", [True, False], ids=["slow", "stuck"])
def test_descriptor_that_somebody_made_non_blocking_stays_so_and_loses_nothing(read: bool) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    within = 20 if read else 0.3
    pumping = Pumping("head", "-c", str(MANY if read else 500_000), "/dev/zero", stdout=writer, within=within)
    arrived = 0
    while read and arrived < MANY:
        arrived += len(os.read(reader, 4096))
    result = pumping.result()
    assert not os.get_blocking(writer)
    os.close(writer)
    os.close(reader)
    assert result.captured.notes == (() if read else (DRAIN_TIMEOUT,))
    assert result.captured.total == (MANY if read else 500_000)
    assert result.descriptors[0] == result.descriptors[1]


def test_row_50_pipe_that_somebody_else_still_holds_is_given_up_in_time() -> None:
    result = shell("echo out; sleep 60 & echo $!", within=0.3, stderr=None)
    os.kill(int(result.out.split()[-1]), 9)
    assert (result.out[:4], result.captured.notes) == (b"out\n", (DRAIN_TIMEOUT,))
    assert 0.3 <= result.took < 20
    assert result.descriptors[0] == result.descriptors[1]


# --- What is remembered -----------------------------------------------------------------------------------------------


def told(length: int) -> bytes:
    return b"".join(b"%d," % n for n in range(length))[:length]


@pytest.mark.parametrize("quiet", [False, True], ids=["pumped", "quiet"])
@pytest.mark.parametrize("capture", [1, 10, 11])
@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 12, 20, 100_000])
def test_head_and_tail_are_exact_to_the_byte(tmp_path: Path, length: int, capture: int, quiet: bool) -> None:
    (tmp_path / "said").write_bytes(told(length))
    captured = pumped("cat", str(tmp_path / "said"), capture=capture, quiet=quiet).captured
    half = capture // 2
    assert captured.head == told(length)[:half]
    assert captured.tail == told(length)[half:][-(capture - half) :]
    assert (captured.total, captured.left_out) == (length, max(0, length - capture))


def test_single_bytes_take_no_more_memory_than_large_pieces() -> None:
    result = pumped("dd", "if=/dev/zero", "bs=1", "count=600000", "status=none", capture=1 << 20)
    assert result.captured.total == len(result.out) == 600_000
    assert result.captured.left_out == 0
    assert result.grown_kb < 8_000


def test_much_output_takes_little_memory() -> None:
    result = pumped("head", "-c", "200000000", "/dev/zero", stdout=subprocess.DEVNULL, capture=1 << 20)
    assert result.captured.total == 200_000_000
    assert (len(result.captured.head), len(result.captured.tail)) == (1 << 19, 1 << 19)
    assert result.grown_kb < 12_000


# --- --quiet ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capture", [0, 8])
def test_row_58_quiet_holds_both_streams_back_counts_them_and_passes_them_on_when_asked(capture: int) -> None:
    speaks = "printf 'out\\0put\\n'; printf 'err\\377or\\n' >&2; exit 3"
    silent, loud = (shell(speaks, quiet=True, capture=capture, print=wanted) for wanted in (False, True))
    assert (silent.out, silent.err, loud.out, loud.err) == (b"", b"", b"out\0put\n", b"err\xffor\n")
    for result in (silent, loud):
        assert (result.code, result.pumped, result.seen, result.captured.total) == (3, False, True, 15)
        assert result.captured.head == b"out\0"[: capture // 2]
        assert result.captured.tail == (b"\xffor\n" if capture else b"")


def test_quiet_command_that_opens_its_stderr_anew_leaves_no_hole() -> None:
    result = shell("echo one two three >&2; echo four >/dev/stderr; echo five >&2", quiet=True, print=True)
    assert result.err == b"four\nfive\n"  # opening it anew empties it, as it would any file


# --- Afterwards -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quiet", [False, True])
def test_nothing_stays_open(quiet: bool) -> None:
    result = shell("echo out; echo err >&2", quiet=quiet)
    assert result.descriptors[0] == result.descriptors[1]


@pytest.mark.parametrize("quiet", [False, True])
def test_command_that_was_never_started_leaves_nothing_open_and_has_said_nothing(quiet: bool) -> None:
    result = pumped(quiet=quiet)
    assert (result.captured.total, result.captured.notes, result.took < 5) == (0, (), True)
    assert result.descriptors[0] == result.descriptors[1]


def test_command_gets_no_descriptor_of_ours() -> None:
    result = shell("ls /proc/self/fd", stderr=None)
    assert result.out.split() == [b"0", b"1", b"2", b"3"]  # 3 is the folder that ls reads
