"""The command's output in the ledger: what `show` tells of it, to people and to programs."""

from __future__ import annotations

import pytest

from tests.rig.guard import Guard

KEY = ("run", "--key", "nightly")
GAP = "… 1871 bytes left out …"


def of_last_attempt(guard: Guard) -> dict[str, object]:
    attempt = guard.show("nightly")["attempts"][-1]
    return {name.removeprefix("output_"): value for name, value in attempt.items() if name.startswith("output_")}


def test_output_of_each_attempt_is_told(guard: Guard) -> None:
    script = 'echo "this is try $CRONGUARD_ATTEMPT"; exit 3'
    result = guard.run(*KEY, "--attempts", "2", "--retry-delay", "0.05s", "--", "sh", "-c", script)
    assert (result.code, result.out) == (3, "this is try 1\nthis is try 2\n")
    assert [attempt["output_head"] for attempt in guard.show("nightly")["attempts"]] == [
        "this is try 1\n",
        "this is try 2\n",
    ]
    shown = guard.run("show", "nightly").out
    for number in (1, 2):
        assert f"\nOUTPUT OF ATTEMPT {number}, 14 BYTES\n  this is try {number}\n" in shown


def test_long_output_is_told_by_its_start_and_its_end(sqlite_guard: Guard) -> None:
    result = sqlite_guard.run(*KEY, "--capture", "21", "--", "seq", "500")
    assert len(result.out) == 1892
    assert of_last_attempt(sqlite_guard) == {
        "head": "1\n2\n3\n4\n5\n", "tail": "98\n499\n500\n"[-11:], "bytes": 1892, "truncated": True,
    }  # fmt: skip
    assert f"  1\n  2\n  3\n  4\n  5\n{GAP}\n  98\n  499\n  500\n" in sqlite_guard.run("show", "nightly").out


def test_output_can_send_nothing_to_the_terminal_of_whoever_looks(sqlite_guard: Guard) -> None:
    sqlite_guard.run(*KEY, "--quiet", "--", "printf", r"\033]0;title\007\000\377\n")
    shown = sqlite_guard.run("show", "nightly").out
    assert "  ^[]0;title^G^@\ufffd\n" in shown
    assert not set(shown) & set(map(chr, [*range(10), *range(11, 32), 127]))


def test_output_that_is_not_to_be_kept_is_not(sqlite_guard: Guard) -> None:
    assert sqlite_guard.run(*KEY, "--capture", "0", "--", "echo", "secret").out == "secret\n"
    assert "secret" not in sqlite_guard.run("show", "nightly").out
    assert of_last_attempt(sqlite_guard) == {"head": None, "tail": None, "bytes": None, "truncated": None}


def test_command_that_says_nothing_has_said_nothing(sqlite_guard: Guard) -> None:
    sqlite_guard.run(*KEY, "--", "true")
    assert of_last_attempt(sqlite_guard) == {"head": "", "tail": "", "bytes": 0, "truncated": False}
    assert "OUTPUT" not in sqlite_guard.run("show", "nightly").out


@pytest.mark.parametrize("code", [0, 3])
def test_what_quiet_held_back_is_told_all_the_same(sqlite_guard: Guard, code: int) -> None:
    result = sqlite_guard.run(*KEY, "--quiet", "--", "sh", "-c", f"echo out; echo err >&2; exit {code}")
    assert (result.out, result.err) == (("out\n", "err\n") if code else ("", ""))
    assert of_last_attempt(sqlite_guard)["head"] == "out\nerr\n"
