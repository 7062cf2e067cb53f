"""What a job runs by its configuration: one command, or a list of steps that its run goes through."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.looking import MORTAL_LEASE, configured, refusal
from tests.rig.guard import Guard, code_of, host_dies

KEY = ("run", "--key", "billing")
NAMES = ("pull", "balances", "mails")
PATIENT = 60.0
LIST = """\
[jobs.billing]
steps = [
  {{ name = "pull", command = ["sh", "-c", "{work}"] }},
  {{ name = "balances", command = ["sh", "-c", "{work}"], complete_by = "10m" }},
  {{ name = "mails", command = ["sh", "-c", "{work}"], attempts = 2, retry_delay = "1s" }},
]
"""
# Each says which it is by what the ledger has begun so far.
WAITING = "echo $$ >> begun; until [ -e go-$(wc -l < begun) ]; do sleep 0.02; done"


def listed(guard: Guard, tmp_path: Path, work: str = "echo >> begun") -> Guard:
    return configured(guard, tmp_path, LIST.format(work=work))[0]


def steps(guard: Guard) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in guard.show("billing")["steps"]}


def states(guard: Guard) -> dict[str, str]:
    return {name: step["state"] for name, step in steps(guard).items()}


def let_go(guard: Guard, *numbers: int) -> None:
    for number in numbers:
        (guard.folder / f"go-{number}").touch()


def test_list_is_run_from_the_key_alone_in_its_order(guard: Guard, tmp_path: Path) -> None:
    guard = listed(guard, tmp_path, "echo >> begun; wc -l < begun")
    result = guard.run(*KEY)
    assert (result.code, result.out.split(), result.err) == (0, ["1", "2", "3"], "")
    assert states(guard) == dict.fromkeys(NAMES, "succeeded")
    assert guard.run(*KEY).code == 0
    assert len(guard.lines("begun")) == 3


@pytest.mark.parametrize("at", range(3), ids=NAMES)
def test_host_that_dies_in_a_step_of_the_list_costs_that_step_only(guard: Guard, tmp_path: Path, at: int) -> None:
    guard = listed(guard, tmp_path, WAITING)
    let_go(guard, *range(1, at + 1))
    died = guard.start(*KEY, *MORTAL_LEASE)
    guard.wait_for_line("begun", at + 1)
    assert list(states(guard).values()) == ["succeeded"] * at + ["running"] + ["pending"] * (2 - at)
    host_dies(died.pid)
    let_go(guard, 1, 2, 3, 4)
    assert guard.run(*KEY, "--if-held", "wait", within=PATIENT).code == 0
    assert [step["attempt"] for step in steps(guard).values()] == [1 + (number == at) for number in range(3)]
    assert guard.show("billing")["state"] == "succeeded"


def test_list_stops_at_its_first_failure_and_says_what_it_left(guard: Guard, tmp_path: Path) -> None:
    guard = listed(guard, tmp_path, "echo >> begun; [ $(wc -l < begun) != 2 ] || exit 3")
    result = guard.run(*KEY)
    assert result.code == 3
    assert result.only_line.endswith(": step balances: not done (exit 3); not started: mails")
    assert states(guard) == {"pull": "succeeded", "balances": "failed", "mails": "pending"}
    assert guard.run(*KEY, "--rerun").code == 0
    assert len(guard.lines("begun")) == 4


def test_each_step_has_what_the_list_says_of_it(sqlite_guard: Guard, tmp_path: Path) -> None:
    text = """\
[jobs.billing]
capture = 0
[[jobs.billing.steps]]
name = "slow step"
command = ["sleep", "600"]
complete_by = "1s"
stop_grace = "1s"
[[jobs.billing.steps]]
name = "once"
command = ["sh", "-c", "echo >> tries; echo said; [ $(wc -l < tries) = 3 ]"]
once = true
attempts = 3
retry_delay = "1s"
capture = "1k"
"""
    guard, _ = configured(sqlite_guard, tmp_path, text)
    slow, left = guard.run(*KEY).err.splitlines()
    assert slow.endswith("step slow step: stopped at its complete-by")
    assert left.endswith("step slow step: not done (exit 124); not started: once")
    period = guard.show("billing")["period"]
    assert guard.run("settle", "billing", period, "slow step", "--succeeded", "--reason", "by hand").code == 0
    assert guard.run(*KEY, "--rerun").code == 0
    once = steps(guard)["once"]
    assert (once["once"], once["attempt"], once["output_head"]) == (True, 3, "said\n")
    assert guard.show("billing")["attempts"][-1]["output_head"] is None


def test_words_are_filled_in_and_pass_unchanged_otherwise(sqlite_guard: Guard, tmp_path: Path) -> None:
    text = r"""
[jobs.billing]
every = "run"
steps = [{ name = "pull", command = ["printf", "%s|", "{period}", "{key}", "Zürich {x}", "a\"b\\n", ""] }]
"""
    guard, _ = configured(sqlite_guard, tmp_path, text)
    said = guard.run(*KEY, "--period", 'x"{y}', "--expand").out
    assert said == 'x"{y}|billing|Zürich {x}|a"b\\n||'
    assert guard.run(*KEY, "--period", "other").out == '{period}|{key}|Zürich {x}|a"b\\n||'


def test_file_of_the_same_name_in_the_current_folder_is_not_run(sqlite_guard: Guard, tmp_path: Path) -> None:
    """cron's current folder is anybody's: nothing of it may get between a run and its steps."""
    for name in ("typer.py", "cronguard.py", "json.py"):
        (sqlite_guard.folder / name).write_text("raise SystemExit(99)\n")
    program, guard = Path(sys.executable).with_name("cronguard"), listed(sqlite_guard, tmp_path)
    done = subprocess.run([program, *KEY], env=dict(guard.environment), cwd=guard.folder, timeout=60, check=False)
    assert (done.returncode, len(guard.lines("begun"))) == (0, 3)


def test_job_of_one_is_run_from_the_key_alone(sqlite_guard: Guard, tmp_path: Path) -> None:
    text = '[jobs.billing]\ncommand = ["echo", "{period}", "ü"]\nexpand = true\n'
    guard, _ = configured(sqlite_guard, tmp_path, text)
    assert guard.run(*KEY, "--period", "2026-11-28").out == "2026-11-28 ü\n"
    assert steps(guard) == {}


def test_dry_run_names_the_steps(sqlite_guard: Guard, tmp_path: Path) -> None:
    shown = listed(sqlite_guard, tmp_path).run(*KEY, "--dry-run").out
    assert "would     run: its steps pull, balances, mails\n" in shown


# --- A list that has changed ------------------------------------------------------------------------------------------


def test_changed_list_goes_on_only_when_that_is_agreed_to(guard: Guard, tmp_path: Path) -> None:
    failing = listed(guard, tmp_path, "echo >> begun; [ $(wc -l < begun) != 2 ] || exit 3")
    assert failing.run(*KEY).code == 3
    before = failing.show("billing")
    changed = configured(
        guard, tmp_path,
        '[jobs.billing]\n'
        'steps = [{ name = "pull", command = ["touch", "no"] }, { name = "report", command = ["true"] }]\n',
    )[0]  # fmt: skip
    for options in (("--rerun",), ("--attempts", "9")):
        result = changed.run(*KEY, *options)
        assert (result.code, result.out) == (125, "")
        assert result.only_line.endswith(
            ": its steps are not those that this run was begun with; to go on after those that have succeeded, "
            "add --accept-changed-steps; to begin anew, --rerun --force"
        )
    assert changed.show("billing") == before
    assert changed.run(*KEY, "--rerun", "--accept-changed-steps").code == 0
    assert states(changed) == {"pull": "succeeded", "report": "succeeded"}
    assert not (guard.folder / "no").exists()  # it has succeeded before


def test_changed_list_is_no_matter_for_a_period_that_succeeded_or_a_new_one(guard: Guard, tmp_path: Path) -> None:
    assert listed(guard, tmp_path).run(*KEY).code == 0
    changed = listed(guard, tmp_path, "echo changed >> begun")
    assert changed.run(*KEY).code == 0
    assert changed.run(*KEY, "--period", "2026-11-28").code == 0
    assert changed.run(*KEY, "--rerun", "--force").code == 0
    assert guard.lines("begun") == [""] * 3 + ["changed"] * 6


def test_older_period_begun_by_another_list_does_not_keep_the_own_one_from_running(
    guard: Guard, tmp_path: Path
) -> None:
    begun = listed(guard, tmp_path, "echo >> begun; exec sleep 600")
    started = begun.start(*KEY, "--tz", "UTC", "--period", "previous")
    begun.wait_for_line("begun")
    started.terminate()
    assert code_of(started, PATIENT) == 143
    changed = listed(guard, tmp_path, "echo $CRONGUARD_PERIOD >> ran")
    result = changed.run(*KEY, "--catch-up", "2")
    own, older = (run["period"] for run in guard.history("billing"))
    assert f"billing {older}: its steps are not those" in result.only_line
    assert (result.code, guard.lines("ran")) == (125, [own] * 3)


# --- What makes no sense ----------------------------------------------------------------------------------------------


def step(*more: str, name: str = '"pull"', command: str = '["true"]') -> str:
    return "steps = [{ " + ", ".join((f"name = {name}", f"command = {command}", *more)) + " }]"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("steps = []", "write a list of tables with name and command, at least one"),
        ("steps = 3", "write a list of tables with name and command, at least one"),
        ('steps = ["pull"]', 'step 1: write a table such as { name = "pull", command = ["./pull"] }'),
        ('steps = [{ name = "pull" }]', 'step 1: a command is a list of words; write command = ["./pull", "--all"]'),
        ('steps = [{ command = ["true"] }]', "step 1: the step's name is empty"),
        (step(command='"true"'), "step 1: a command is a list of words"),
        (step(command='["true", 3]'), "step 1: a command is a list of words"),
        (step(command='[""]'), "step 1: a command is a list of words"),
        (step(command='["a\\u0000b"]'), "step 1: a command has no NUL characters"),
        (step(name='" x"'), "step 1: the step's name ' x' begins or ends with a blank"),
        (step("one = true"), "step 1: unknown key 'one'; did you mean once?"),
        (step("xyz = 1"), "step 1: unknown key 'xyz'; known here: name, command"),
        (step("once = 1"), "step 1: once must be true or false"),
        (step("attempts = 0"), "step pull: attempts: '0' is not a whole number from 1 to 1000000"),
        (step('complete_by = "soon"'), "step pull: complete_by: 'soon' is not a deadline"),
        (step("complete_by = true"), "step 1: complete_by must be a string or a whole number"),
        (step('capture = "1g"'), "step pull: capture: '1g' is not a size"),
        ('command = "true"', 'a command is a list of words; write command = ["./pull", "--all"]'),
        ("command = []", "a command is a list of words"),
        (
            'steps = [{ name = "a", command = ["x"] }, { name = "a", command = ["y"] }]',
            "two steps are called 'a'; each needs a name of its own",
        ),
    ],
)
def test_list_that_makes_no_sense_is_refused(sqlite_guard: Guard, tmp_path: Path, said: str, line: str) -> None:
    guard, place = configured(sqlite_guard, tmp_path, f"[jobs.billing]\n{said}\n", 2)
    assert refusal(guard, *KEY).startswith(f"cronguard: {place}")
    assert line in refusal(guard, *KEY)


def test_job_has_a_command_or_steps(sqlite_guard: Guard, tmp_path: Path) -> None:
    guard, place = configured(sqlite_guard, tmp_path, f'[jobs.billing]\ncommand = ["true"]\n{step()}\n', 3)
    assert refusal(guard, *KEY) == f"cronguard: {place}: a job has a command or steps; leave one of them out"


@pytest.mark.parametrize("said", [step(), 'command = ["true"]'])
def test_command_that_is_given_twice_is_refused(sqlite_guard: Guard, tmp_path: Path, said: str) -> None:
    guard, place = configured(sqlite_guard, tmp_path, f"[jobs.billing]\n{said}\n", 2)
    line = refusal(guard, *KEY, "--", "touch", "started")
    assert line == f"cronguard: {place} says already what this job runs; leave the command out, or change it there"


def test_list_may_not_stand_where_it_would_be_every_job_s(sqlite_guard: Guard, tmp_path: Path) -> None:
    guard, place = configured(sqlite_guard, tmp_path, f"[defaults]\n{step()}\n", 2)
    assert refusal(guard, *KEY).startswith(f"cronguard: {place}: unknown key 'steps'")


def test_slip_in_the_list_of_another_job_is_found_today(sqlite_guard: Guard, tmp_path: Path) -> None:
    guard, place = configured(sqlite_guard, tmp_path, f"[jobs.other]\n{step('onc = true')}\n", 2)
    assert refusal(guard, *KEY, "--", "touch", "started").startswith(f"cronguard: {place}, step 1: unknown key 'onc'")
