"""Rows 46 to 48, 50, 55 and 56 of the event table: what the command reads and writes, through the whole program."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.rig.guard import PROGRAM, Guard
from tests.rig.supervised import PATIENT, attempt, ended, run, start
from tests.rig.waiting import wait_until

KEY = ("run", "--key", "job")
MANY = 3_000_000  # more than all pipes on the way hold together


def until(name: str) -> str:
    return f"until [ -e {name} ]; do sleep 0.02; done"


def without_reader() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("how", ["EPIPE", "ENOSPC"])
def test_row_46_reader_that_is_gone_or_disk_that_is_full_does_not_end_the_command(
    sqlite_guard: Guard, how: str
) -> None:
    """Noted as sink_lost, and the tail is there. There is no --on-epipe: the command is never sent a SIGPIPE for it."""
    descriptor = without_reader() if how == "EPIPE" else os.open("/dev/full", os.O_WRONLY)
    script = f"head -c {MANY} /dev/zero && echo end && touch done && exit 3"
    process = sqlite_guard.start(*KEY, "--", "sh", "-c", script, stdout=descriptor)
    os.close(descriptor)
    assert process.wait(20) == 3
    assert (sqlite_guard.folder / "done").exists()
    last = attempt(sqlite_guard)
    assert (last["outcome"], last["output_bytes"]) == ("failed", MANY + 4)
    assert "sink_lost" in last["note"] and last["output_tail"].endswith("end\n")


def test_row_46_without_capture_the_command_has_the_pipe_itself_and_its_signal(sqlite_guard: Guard) -> None:
    """This is what we have for --on-epipe=propagate."""
    descriptor = without_reader()
    process = sqlite_guard.start(*KEY, "--capture", "0", "--", "sh", "-c", "kill -0 $$; exec yes", stdout=descriptor)
    os.close(descriptor)
    assert process.wait(20) == -13
    assert (ended(sqlite_guard), attempt(sqlite_guard)["signal"]) == (("failed", "failed"), 13)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_row_47_reader_that_is_stuck_at_the_end_is_waited_for_two_seconds(sqlite_guard: Guard, stream: str) -> None:
    reader, writer = os.pipe()
    begun = time.monotonic()
    script = f"head -c 500000 /dev/zero {'>&2' if stream == 'stderr' else ''}; exit 3"
    process = sqlite_guard.start(*KEY, "--", "sh", "-c", script, **{stream: writer})
    assert process.wait(PATIENT) == 3
    assert time.monotonic() - begun >= 2
    assert "drain_timeout" in attempt(sqlite_guard)["note"]
    for descriptor in (reader, writer):
        os.close(descriptor)


def test_row_47_slow_reader_holds_the_command_up_and_gets_every_byte(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, f"head -c {MANY} /dev/zero; touch done")
    written = Path(f"/proc/{job.command}/io")
    wait_until(lambda: written.exists() and not (sqlite_guard.folder / "done").exists())
    out, _ = job.process.communicate(timeout=20)
    assert (job.process.returncode, len(out)) == (0, MANY)
    assert attempt(sqlite_guard)["note"] is None


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_row_48_closed_descriptors_become_dev_null_before_anything_else_takes_their_numbers(
    sqlite_guard: Guard, closed: str
) -> None:
    guard = sqlite_guard.under("sh", "-c", f'exec "$@" {closed}', "sh")
    script = 'links=$(for n in 0 1 2; do readlink /proc/$$/fd/$n; done); echo "$links" > links; exit 4'
    assert run(guard, script, "--capture", "0").code == 4
    links = sqlite_guard.lines("links")
    assert len(links) == 3
    for link, sign in zip(links, ("<&-", ">&-", "2>&-"), strict=True):
        assert (link == "/dev/null") == (sign in closed.split() or sign == "<&-")
    assert ended(sqlite_guard) == ("failed", "failed")


def test_row_48_with_all_three_closed_the_output_is_still_remembered(sqlite_guard: Guard) -> None:
    guard = sqlite_guard.under("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
    assert run(guard, "cat; echo said; echo complained >&2").code == 0
    assert attempt(sqlite_guard)["output_head"] == "said\ncomplained\n"


def test_row_50_pipe_that_somebody_outside_holds_open_is_waited_for_two_seconds(sqlite_guard: Guard) -> None:
    job = start(sqlite_guard, "until [ -e go ]; do sleep 0.02; done; echo said; exit 3")
    held = os.open(f"/proc/{job.command}/fd/1", os.O_WRONLY)  # a descriptor passed outside the tree
    begun = time.monotonic()
    (sqlite_guard.folder / "go").touch()
    out, _ = job.process.communicate(timeout=PATIENT)
    assert (job.process.returncode, out) == (3, "said\n")
    assert time.monotonic() - begun >= 2
    os.close(held)
    assert "drain_timeout" in attempt(sqlite_guard)["note"]


@pytest.mark.parametrize("how", ["pipe", "file"])
def test_row_55_stdin_is_the_commands_and_not_a_byte_of_it_is_ours(sqlite_guard: Guard, how: str) -> None:
    """What the command leaves unread is there for whoever comes after it."""
    (sqlite_guard.folder / "input").write_text("one\ntwo\nthree\n")
    words = " ".join(map(_quoted, [*PROGRAM, *KEY, "--", "sh", "-c", "read -r line; echo command $line"]))
    after = f"{words}; while read -r line; do echo after $line; done"
    source = "{ " + after + "; } < input" if how == "file" else f"cat input | {{ {after}; }}"
    done = subprocess.run(
        ["sh", "-c", source], cwd=sqlite_guard.folder, env=dict(sqlite_guard.environment), capture_output=True,
        text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("command one\nafter two\nafter three\n", "")


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def test_row_56_any_bytes_pass_unchanged_and_are_remembered_as_text(sqlite_guard: Guard, tmp_path: Path) -> None:
    data = b"\0\xff\xc3(" + os.urandom(100_000) + "ä".encode()[:1]
    (sqlite_guard.folder / "data").write_bytes(data)
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = sqlite_guard.start(*KEY, "--", "sh", "-c", "cat data; cat data >&2", stdout=out, stderr=err)
    assert process.wait(20) == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "err").read_bytes() == data
    last = attempt(sqlite_guard)
    assert (last["output_bytes"], last["output_truncated"]) == (2 * len(data), True)
    assert "\0" not in last["output_head"] and last["output_head"]


def test_row_56_much_output_is_passed_whole_in_little_memory(sqlite_guard: Guard) -> None:
    """A tenth of what the benchmark passes."""
    size = 100 << 20
    job = start(sqlite_guard, f"{until('go')}; head -c {size} /dev/zero; {until('end')}", text=False)
    assert job.process.stdout
    (sqlite_guard.folder / "go").touch()
    digest, left = hashlib.sha256(), size
    while left:
        piece = os.read(job.process.stdout.fileno(), 1 << 16)
        assert piece
        left -= len(piece)
        digest.update(piece)
    assert digest.digest() == hashlib.sha256(bytes(size)).digest()
    peak = next(line for line in Path(f"/proc/{job.worker}/status").read_text().splitlines() if "VmHWM" in line)
    assert int(peak.split()[1]) < 60 << 10
    (sqlite_guard.folder / "end").touch()
    assert job.code() == 0
    assert attempt(sqlite_guard)["output_bytes"] == size


def test_inherited_descriptors_are_passed_on_and_none_of_ours_is(sqlite_guard: Guard) -> None:
    """As for `flock 9>lock` or a jobserver: the caller's 7 is there, and nothing else above 2."""
    script = "for fd in /proc/self/fd/*; do echo ${fd##*/} $(readlink $fd); done > fds; exit 0"
    guard = sqlite_guard.under("sh", "-c", 'exec 7>mine; exec "$@"', "sh")
    assert run(guard, script).code == 0
    numbers = {int(line.split()[0]) for line in guard.lines("fds")}
    assert 7 in numbers
    job = start(guard, "exec sleep 60", "--rerun", "--force")
    # A shell that has just redirected one word may still have to undo it.
    wait_until(lambda: set(os.listdir(f"/proc/{job.command}/fd")) == {"0", "1", "2", "7"})


@pytest.mark.parametrize("options", [(), ("--quiet",)], ids=["", "quiet"])
def test_row_47_stderr_that_nobody_reads_holds_up_neither_the_ledger_nor_the_end(
    sqlite_guard: Guard, options: tuple[str, ...]
) -> None:
    """Our own words, and what --quiet held back, go out when the ledger has been told, or not at all."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while os.write(writer, bytes(65536)):
            pass
    os.set_blocking(writer, True)
    script = "echo said; echo complained >&2; exec sleep 60"
    process = sqlite_guard.start(
        *KEY, "--complete-by", "5s", *options, "--", "sh", "-c", script, stdout=writer, stderr=writer
    )
    assert process.wait(PATIENT) == 124
    assert ended(sqlite_guard) == ("timed_out", "timed_out")
    for descriptor in (reader, writer):
        os.close(descriptor)
