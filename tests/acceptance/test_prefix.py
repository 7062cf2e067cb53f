"""cronguard is a prefix: behind it a command finds everything as it was, and what it was told about its run."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.looking import POWERLESS
from tests.rig.guard import Guard

KEY = ("run", "--key", "nightly")

LOOK = """
import json, os, sys
seen = {
    "argv": [os.fsencode(word).hex() for word in sys.argv[1:]],
    "cwd": os.getcwd(),
    "environment": {name.decode(): value.hex() for name, value in os.environb.items()},
    "open": [fd for fd in range(1024) if os.path.exists(f"/proc/self/fd/{fd}")],
    "umask": os.umask(0),
}
with open("seen.json", "w") as file:
    json.dump(seen, file)
"""


@pytest.fixture
def looker(sqlite_guard: Guard) -> tuple[str, str]:
    """A command that writes down everything that it was started with."""
    (sqlite_guard.folder / "look.py").write_text(LOOK)
    return (sys.executable, str(sqlite_guard.folder / "look.py"))


def seen(guard: Guard) -> dict[str, Any]:
    found = json.loads((guard.folder / "seen.json").read_text())
    found["argv"] = [bytes.fromhex(word) for word in found["argv"]]
    found["environment"] = {name: bytes.fromhex(value) for name, value in found["environment"].items()}
    return dict(found)


def told(guard: Guard) -> dict[str, str]:
    """What the last command was told about its run."""
    return {name: value.decode() for name, value in seen(guard)["environment"].items() if name[:10] == "CRONGUARD_"}


# --- The command line -------------------------------------------------------------------------------------------------

WORDS: list[bytes] = [
    b"-c", b"--key", b"other", b"--key=x", b"--", b"--help", b"-h", b"--dry-run", b"", b" ", b"a  b ", b"\t\n", b"*",
    b"$HOME", b"'\"\\", b"{period}", b"{key}", b"--", b"\xff\xfe", "täglich".encode(), b"-",
]  # fmt: skip


@pytest.mark.parametrize("separator", [["--"], []])
def test_everything_from_the_command_on_passes_byte_for_byte(
    sqlite_guard: Guard, looker: tuple[str, str], separator: list[str]
) -> None:
    result = sqlite_guard.run(*KEY, *separator, *looker, *map(os.fsdecode, WORDS))
    assert (result.code, result.err) == (0, "")
    assert seen(sqlite_guard)["argv"] == WORDS


def test_bytes_pass_whatever_the_locale(sqlite_guard: Guard, looker: tuple[str, str]) -> None:
    guard = sqlite_guard.with_env(LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii", ODD=os.fsdecode(b"\xff\xc3"))
    assert guard.run(*KEY, *looker, *map(os.fsdecode, WORDS)).code == 0
    assert seen(guard)["argv"] == WORDS
    assert seen(guard)["environment"]["ODD"] == b"\xff\xc3"


def test_second_separator_belongs_to_the_command(sqlite_guard: Guard) -> None:
    result = sqlite_guard.run(*KEY, "--", "--", "true")
    assert result.code == 127
    assert result.only_line.startswith("cronguard: --: not found in PATH")


def test_expand_replaces_what_it_knows_and_leaves_other_braces(sqlite_guard: Guard, looker: tuple[str, str]) -> None:
    words = (
        "{key}/{period}",
        "{period_start}..{period_end}",
        "{token}",
        "{attempt}",
        "{}",
        "${key}",
        "{key",
        "{{key}}",
    )
    asked = ("--period", "2026-02-03", "--tz", "Europe/Berlin", "--expand")
    assert sqlite_guard.run("run", "--key", "täglich", *asked, "--", *looker, *words).code == 0
    token = told(sqlite_guard)["CRONGUARD_TOKEN"]
    assert [word.decode() for word in seen(sqlite_guard)["argv"]] == [
        "täglich/2026-02-03",
        "2026-02-02T23:00:00Z..2026-02-03T23:00:00Z",
        token,
        "{attempt}",
        "{}",
        "$täglich",
        "{key",
        "{täglich}",
    ]


# --- What is inherited ------------------------------------------------------------------------------------------------


def test_stdin_reaches_the_command(sqlite_guard: Guard, tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"one\ntwo\n")
    with (tmp_path / "input").open() as file:
        assert sqlite_guard.run(*KEY, "--", "cat", stdin=file).out == "one\ntwo\n"


def test_folder_umask_descriptors_and_environment_reach_the_command_and_nothing_else_does(
    sqlite_guard: Guard, looker: tuple[str, str]
) -> None:
    with (sqlite_guard.folder / "lent").open("w") as lent:
        guard = sqlite_guard.with_env(SOME="thing", CRONGUARD_LEASE="90s")
        assert guard.run(*KEY, "--", *looker, pass_fds=[lent.fileno()], umask=0o027).code == 0
        found = seen(guard)
        assert found["open"] == [0, 1, 2, lent.fileno()]
    assert (found["cwd"], found["umask"]) == (str(guard.folder), 0o027)
    inherited = {name: os.fsencode(value) for name, value in guard.environment.items()}
    assert inherited.items() <= found["environment"].items()
    new = found["environment"].keys() - inherited.keys()
    assert {name for name in new if not name.startswith("CRONGUARD_")} <= {"LC_CTYPE"}  # Python's own, at its start


def test_descriptor_that_was_lent_can_be_written(sqlite_guard: Guard) -> None:
    read, write = os.pipe()
    assert sqlite_guard.run(*KEY, "--", "sh", "-c", f"echo lent >/dev/fd/{write}", pass_fds=[write]).code == 0
    os.close(write)
    assert os.read(read, 100) == b"lent\n"
    os.close(read)


def test_output_keeps_its_streams_and_its_bytes(sqlite_guard: Guard) -> None:
    result = sqlite_guard.run(*KEY, "--", "printf", "\\377\\0a", errors="surrogateescape")
    assert os.fsencode(result.out) == b"\xff\0a"
    both = sqlite_guard.run("run", "--key", "b", "--", "sh", "-c", "echo out; echo err >&2")
    assert (both.out, both.err) == ("out\n", "err\n")


# --- What the command is told -----------------------------------------------------------------------------------------


def test_command_is_told_what_it_runs_for(guard: Guard, tmp_path: Path) -> None:
    (guard.folder / "look.py").write_text(LOOK)
    asked = ("--schedule", "30 6 * * *", "--tz", "Europe/Berlin", "--scheduled-at", "2026-03-29T04:30:00Z")
    assert guard.run(*KEY, *asked, "--complete-by", "never", "--", sys.executable, "look.py").code == 0
    facts = told(guard)
    assert facts["CRONGUARD_KEY"] == "nightly"
    assert facts["CRONGUARD_PERIOD"] == "2026-03-29"
    assert facts["CRONGUARD_PERIOD_START"] == "2026-03-28T23:00:00Z"
    assert facts["CRONGUARD_PERIOD_END"] == "2026-03-29T22:00:00Z"  # the day on which an hour is missing
    assert facts["CRONGUARD_TZ"] == "Europe/Berlin"
    assert facts["CRONGUARD_ATTEMPT"] == "1"
    assert facts["CRONGUARD_COMPLETE_BY"] == "never"
    run = guard.show("nightly")
    assert (facts["CRONGUARD_TOKEN"], facts["CRONGUARD_HOLDER"]) == (str(run["token"]), run["holder"])


def test_deadline_is_told_as_an_instant(sqlite_guard: Guard, looker: tuple[str, str]) -> None:
    assert sqlite_guard.run(*KEY, "--complete-by", "1h", "--", *looker).code == 0
    complete_by = told(sqlite_guard)["CRONGUARD_COMPLETE_BY"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z", complete_by)
    assert complete_by == sqlite_guard.show("nightly")["complete_by"]


@pytest.mark.parametrize("calendar", [(), ("--every", "hour"), ("--schedule", "*/15 * * * *", "--tz", "Asia/Kolkata")])
def test_rerun_by_hand_is_told_the_very_same_period(
    sqlite_guard: Guard, looker: tuple[str, str], calendar: tuple[str, ...]
) -> None:
    """The person names the period and nothing else: the calendar is the key's."""
    assert sqlite_guard.run(*KEY, *calendar, "--", *looker).code == 0
    scheduled = told(sqlite_guard)
    again = ("--period", scheduled["CRONGUARD_PERIOD"], "--rerun", "--force")
    assert sqlite_guard.with_env(TZ="America/New_York").run(*KEY, *again, "--", *looker).code == 0
    by_hand = told(sqlite_guard)
    same = ("KEY", "PERIOD", "PERIOD_START", "PERIOD_END", "TZ")
    assert [by_hand[f"CRONGUARD_{name}"] for name in same] == [scheduled[f"CRONGUARD_{name}"] for name in same]
    assert int(by_hand["CRONGUARD_TOKEN"]) > int(scheduled["CRONGUARD_TOKEN"])
    assert by_hand["CRONGUARD_ATTEMPT"] == "2"


def test_each_attempt_is_told_its_own_number_and_token(sqlite_guard: Guard) -> None:
    script = "echo $CRONGUARD_ATTEMPT $CRONGUARD_TOKEN >>told; [ $CRONGUARD_ATTEMPT = 3 ]"
    retrying = ("--attempts", "3", "--retry-delay", "0.05s")
    assert sqlite_guard.run(*KEY, *retrying, "--", "sh", "-c", script).code == 0
    numbers, tokens = zip(*(line.split() for line in sqlite_guard.lines("told")), strict=True)
    assert numbers == ("1", "2", "3")
    assert sorted(set(map(int, tokens))) == list(map(int, tokens))


# --- --quiet ----------------------------------------------------------------------------------------------------------

SPEAKS = "echo out; echo err >&2"


def test_quiet_is_silent_on_success(sqlite_guard: Guard) -> None:
    result = sqlite_guard.run(*KEY, "--quiet", "--", "sh", "-c", SPEAKS)
    assert (result.code, result.out, result.err) == (0, "", "")


@pytest.mark.parametrize("end", ["exit 3", "kill -KILL $$"])
def test_quiet_passes_both_streams_on_when_the_command_fails(sqlite_guard: Guard, end: str) -> None:
    result = sqlite_guard.run(*KEY, "--quiet", "--", "sh", "-c", f"{SPEAKS}; {end}")
    assert (result.code, result.out, result.err) == (3 if end == "exit 3" else 137, "out\n", "err\n")


def test_quiet_loses_nothing_of_much_output(sqlite_guard: Guard) -> None:
    script = "head -c 5000000 /dev/zero | tr '\\0' o; head -c 5000000 /dev/zero | tr '\\0' e >&2; exit 3"
    result = sqlite_guard.run(*KEY, "--quiet", "--", "sh", "-c", script)
    assert (result.code, len(result.out), len(result.err)) == (3, 5_000_000, 5_000_000)
    assert set(result.out) == {"o"}
    assert set(result.err) == {"e"}


def test_quiet_works_where_no_temporary_file_can_be_made(sqlite_guard: Guard, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir(mode=0o555)
    guard = sqlite_guard.with_env(TMPDIR=str(tmp_path / "tmp")).under(*POWERLESS)
    result = guard.run(*KEY, "--quiet", "--", "sh", "-c", f"{SPEAKS}; exit 3")
    assert (result.code, result.out, result.err) == (3, "out\n", "err\n")


def test_quiet_tells_each_attempt_that_failed(sqlite_guard: Guard) -> None:
    script = "echo $CRONGUARD_ATTEMPT; [ $CRONGUARD_ATTEMPT = 3 ]"
    result = sqlite_guard.run(*KEY, "--quiet", "--attempts", "3", "--retry-delay", "0.05s", "--", "sh", "-c", script)
    assert (result.code, result.out, result.err) == (0, "1\n2\n", "")
