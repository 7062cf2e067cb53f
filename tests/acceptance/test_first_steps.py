"""The README's first lines: run twice, and the second firing is skipped, with its reason."""

from __future__ import annotations

from tests.rig.guard import Guard


def test_second_firing_of_a_period_is_skipped_and_says_nothing_off_a_terminal(guard: Guard) -> None:
    first = guard.run("run", "--key", "hello", "--", "echo", "hi")
    second = guard.run("run", "--key", "hello", "--", "echo", "hi")
    assert (first.code, first.out, first.err) == (0, "hi\n", "")
    assert (second.code, second.out, second.err) == (0, "", "")
    run = guard.show("hello")
    assert (run["state"], run["attempt"], run["skips"]) == ("succeeded", 1, 1)
    assert run["skipped"][0]["reason"] == "already_succeeded"
