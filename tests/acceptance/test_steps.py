"""cronguard step, called by scripts inside their runs, as it would be; and cronguard settle, by a person."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from typing import Any

import pytest

from tests.acceptance.looking import MORTAL_LEASE, refusal, script
from tests.conftest import Database
from tests.rig.guard import Guard, code_of, host_dies, wait_dead
from tests.rig.terminal import CTRL_C, PROMPT, Terminal
from tests.rig.waiting import wait_until

HOLDER = "7f0c1f3a-3f0e-4a52-9d5c-0a9e6f1f2a11"
KEY = ("run", "--key", "billing")
NAMES = ("pull", "balances", "mails")
PATIENT = 60.0
# A step that says that it has begun, and goes on only when the test lets it.
STEPS = [f"cronguard step {name} -- sh -c 'echo {name} >> begun; until [ -e go-{name} ]; do sleep 0.02; done'"
         for name in NAMES]  # fmt: skip


def steps(guard: Guard, period: str | None = None) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in guard.show("billing", period)["steps"]}


def states(guard: Guard) -> dict[str, str]:
    return {name: step["state"] for name, step in steps(guard).items()}


def let_go(guard: Guard, *names: str) -> None:
    for name in names:
        (guard.folder / f"go-{name}").touch()


def inside(guard: Guard, **facts: str) -> Guard:
    """Somebody who says that he is inside a run."""
    told = {"key": "billing", "period": "2026-11-30", "token": "7", "holder": HOLDER} | facts
    return guard.with_env(**{f"CRONGUARD_{name.upper()}": fact or None for name, fact in told.items()})


# --- Passing over, and going on ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(3), ids=NAMES)
def test_host_that_dies_in_a_step_costs_that_step_only(guard: Guard, at: int) -> None:
    let_go(guard, *NAMES[:at])
    died = guard.start(*KEY, *MORTAL_LEASE, *script(*STEPS))
    assert guard.wait_for_line("begun", at + 1) == list(NAMES[: at + 1])
    assert states(guard)[NAMES[at]] == "running"
    host_dies(died.pid)
    let_go(guard, *NAMES)
    assert guard.run(*KEY, "--if-held", "wait", *script(*STEPS), within=PATIENT).code == 0
    assert guard.lines("begun") == [*NAMES[: at + 1], *NAMES[at:]]
    run = guard.show("billing")
    assert (run["state"], run["recoveries"]) == ("succeeded", 1)
    found = steps(guard)
    assert [found[name]["attempt"] for name in NAMES] == [2 if name == NAMES[at] else 1 for name in NAMES]
    tokens = [attempt["token"] for attempt in run["attempts"]]
    assert [found[name]["token"] for name in NAMES] == [tokens[0]] * at + [tokens[1]] * (3 - at)


def test_step_that_failed_fails_its_run_and_a_rerun_goes_on_from_there(guard: Guard) -> None:
    lines = ("cronguard step pull -- sh -c 'echo pull >> did'", "cronguard step mails -- sh -c 'echo m >> did; exit 3'")
    assert guard.run(*KEY, *script(*lines)).code == 3
    assert guard.run(*KEY, *script(*lines)).code == 3  # its attempts are spent
    assert states(guard) == {"pull": "succeeded", "mails": "failed"}
    result = guard.run(*KEY, "--rerun", *script(lines[0], lines[1].replace("exit 3", "exit 0")))
    assert (result.code, result.out, result.err) == (0, "", "")
    assert guard.lines("did") == ["pull", "m", "m"]
    assert guard.run(*KEY, "--rerun", "--force", *script(lines[0])).code == 0
    assert guard.lines("did")[3:] == ["pull"]  # from its first step on
    assert states(guard) == {"pull": "succeeded"}


def test_try_in_place_goes_on_where_the_last_one_failed(guard: Guard) -> None:
    lines = (
        "cronguard step pull -- sh -c 'echo pull >> did'",
        "cronguard step mails -- sh -c 'mkdir once || exit 0; exit 3'",
    )
    assert guard.run(*KEY, "--attempts", "2", "--retry-delay", "0.1s", *script(*lines)).code == 0
    assert guard.lines("did") == ["pull"]
    assert [step["attempt"] for step in steps(guard).values()] == [1, 2]


def test_name_that_a_loop_uses_twice_is_refused_and_the_run_has_not_succeeded(guard: Guard) -> None:
    result = guard.run(*KEY, *script("for f in a b; do cronguard step load -- sh -c 'echo $0 >> did' $f; done"))
    assert result.code == 125
    assert result.only_line.endswith(
        "step load: this name has been done by this attempt already, with another command: "
        "give each step a name of its own"
    )
    assert guard.lines("did") == ["a"]
    assert guard.show("billing")["state"] == "failed"


def test_at_a_terminal_a_step_that_is_passed_over_says_so(sqlite_guard: Guard) -> None:
    line = "cronguard step pull -- echo pulled"
    (sqlite_guard.folder / "job").write_text(script(line, line)[3])
    with Terminal(sqlite_guard.folder, sqlite_guard.environment) as terminal:
        first, second, *rest = terminal.do(
            f"'{sys.executable}' -m cronguard {shlex.join(KEY)} -- sh -e job"
        ).splitlines()
        assert terminal.last_code() == 0
    assert (first, rest) == ("pulled", [])
    assert "step pull: passed over: it succeeded at 20" in second


# --- once -------------------------------------------------------------------------------------------------------------

MAILS = "cronguard step mails --once -- sh -c 'echo mails >> begun; until [ -e go-mails ]; do sleep 0.02; done'"


@pytest.fixture
def cut_off(guard: Guard) -> Guard:
    """The host has died in a step that must be done once, and the next holder was refused it."""
    died = guard.start(*KEY, *MORTAL_LEASE, *script(MAILS))
    guard.wait_for_line("begun")
    host_dies(died.pid)
    result = guard.run(*KEY, "--if-held", "wait", *script(MAILS), within=PATIENT)
    assert (result.code, result.out) == (125, "")
    assert result.only_line.endswith(
        "step mails: it must be done once, and nobody knows whether it was; to say it, type: "
        f"cronguard settle billing {guard.show('billing')['period']} mails --succeeded (or --again) --reason TEXT"
    )
    return guard


@pytest.mark.parametrize("word", ["--succeeded", "--again"])
def test_step_that_must_be_done_once_waits_for_a_persons_word(cut_off: Guard, word: str) -> None:
    period = cut_off.show("billing")["period"]
    assert states(cut_off) == {"mails": "unknown"}
    let_go(cut_off, "mails")
    assert cut_off.run(*KEY, "--rerun", *script(MAILS)).code == 125
    result = cut_off.with_env(USER="ada").run("settle", "billing", period, "mails", word, "--reason", "the log says so")
    assert (result.code, result.out, result.err) == (0, "", "")
    settled = steps(cut_off)["mails"]
    assert settled["state"] == ("succeeded" if word == "--succeeded" else "pending")
    assert "by ada@" in settled["note"] and settled["note"].endswith(": the log says so")
    assert cut_off.run(*KEY, "--rerun", *script(MAILS)).code == 0
    assert cut_off.lines("begun") == ["mails"] * (1 if word == "--succeeded" else 2)
    assert (states(cut_off), cut_off.show("billing")["state"]) == ({"mails": "succeeded"}, "succeeded")


def test_step_that_failed_by_itself_may_be_tried_again_although_it_must_be_done_once(guard: Guard) -> None:
    line = "cronguard step mails --once --attempts 2 --retry-delay 0.1s -- sh -c 'mkdir once || exit 0; exit 3'"
    assert guard.run(*KEY, *script(line)).code == 0
    assert steps(guard)["mails"]["attempt"] == 2


# --- How a step ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code", "state", "exit_code", "signum"),
    [
        ("true", 0, "succeeded", 0, None),
        ("sh -c 'exit 7'", 7, "failed", 7, None),
        ("sh -c 'kill -9 $$'", 137, "failed", None, 9),
        ("./nowhere", 127, "failed", 127, None),
        ("/", 126, "failed", 126, None),
    ],
)
def test_exit_code_is_that_of_the_command(
    sqlite_guard: Guard, command: str, code: int, state: str, exit_code: int | None, signum: int | None
) -> None:
    sqlite_guard.run(*KEY, *script("set +e", f"cronguard step it -- {command}; echo $? >> codes"))
    step = steps(sqlite_guard)["it"]
    assert sqlite_guard.lines("codes") == [str(code)]
    assert (step["state"], step["exit_code"], step["signal"]) == (state, exit_code, signum)


def test_step_is_stopped_at_its_own_deadline_with_all_that_it_has_started(guard: Guard) -> None:
    sleepers = "setsid sleep 600 & echo $! >> pids; sleep 600 & echo $! >> pids; wait"
    line = f"cronguard step slow --complete-by 1.5s --stop-grace 0.5s -- sh -c 'trap : TERM; {sleepers}; wait'"
    result = guard.run(*KEY, *script(line))
    assert result.code == 124
    assert result.only_line.endswith("step slow: stopped at its complete-by")
    for pid in guard.lines("pids"):
        wait_dead(int(pid))
    step, run = steps(guard)["slow"], guard.show("billing")
    assert (step["state"], step["note"]) == ("failed", "stopped at its complete-by")
    assert (run["state"], run["exit_code"]) == ("failed", 124)
    assert 1.4 <= step["duration_seconds"] < 60
    assert step["complete_by"]


def test_step_that_came_too_late_is_left_undone_whatever_its_script_makes_of_it(guard: Guard) -> None:
    late = "cronguard step late --complete-by 2026-01-01T00:00:00Z -- touch late; echo $? >> codes"
    result = guard.run(*KEY, *script("set +e", late, "cronguard step other -- true"))
    assert (result.code, guard.lines("codes")) == (125, ["124"])
    step = steps(guard)["late"]
    assert (step["state"], step["attempt"], step["note"]) == ("failed", 0, "not started: its complete-by had passed")
    assert (guard.show("billing")["state"], (guard.folder / "late").exists()) == ("failed", False)


def test_step_gets_its_tries_in_place(guard: Guard) -> None:
    line = "cronguard step pull --attempts 3 --retry-delay 0.1s -- sh -c 'echo >> tries; exit 4'"
    assert guard.run(*KEY, *script(line)).code == 4
    assert (len(guard.lines("tries")), steps(guard)["pull"]["attempt"]) == (3, 3)


def test_output_goes_on_and_is_remembered_by_the_step(guard: Guard) -> None:
    line = "cronguard step pull --capture 8 -- sh -c 'echo 12345678; printf abcdefgh'"
    result = guard.run(*KEY, *script(line))
    assert (result.code, result.out, result.err) == (0, "12345678\nabcdefgh", "")
    step = steps(guard)["pull"]
    assert (step["output_head"], step["output_bytes"], step["output_truncated"]) == ("1234", 17, True)
    shown = guard.run("show", "billing").out
    assert "\nOUTPUT OF STEP pull, 17 BYTES\n  1234\n… 9 bytes left out …\n" in shown
    assert "steps        1 of 1 succeeded" in shown


@pytest.mark.parametrize("how", ["option", "variable", "configuration"])
def test_what_may_not_be_kept_of_a_run_is_not_kept_of_its_steps(sqlite_guard: Guard, how: str) -> None:
    config = sqlite_guard.folder / "config.toml"
    config.write_text("[jobs.billing]\ncapture = 0\n" if how == "configuration" else "")
    guard = sqlite_guard.with_env(CRONGUARD_CONFIG=str(config), CRONGUARD_CAPTURE="0" if how == "variable" else None)
    options = ("--capture", "0") if how == "option" else ()
    assert guard.run(*KEY, *options, *script("cronguard step pull -- echo secret")).out == "secret\n"
    assert steps(guard)["pull"]["output_head"] == ""
    assert "secret" not in guard.run("show", "billing", "--json").out


def test_run_with_a_step_left_is_no_success_whatever_its_script_says(guard: Guard) -> None:
    lines = ("cronguard step pull -- true", "cronguard step mails -- false || true")
    result = guard.run(*KEY, *script(*lines))
    assert result.code == 125
    assert ": the command exited 0, but a step is not done, so this is no success; see: cronguard show billing" in (
        result.only_line
    )
    run = guard.show("billing")
    assert (run["state"], run["attempts"][0]["outcome"]) == ("failed", "failed")
    assert run["attempts"][0]["note"] == "exit 0, but step mails is failed"
    assert guard.run(*KEY, "--", "true").code == 125


def test_signal_reaches_the_command_of_a_step_once_and_the_step_is_pending(guard: Guard) -> None:
    command = (
        'trap "echo TERM >> heard" TERM; echo >> begun; until [ -e heard ]; do sleep 0.05; done; sleep 0.5; exit 5'
    )
    started = guard.start(*KEY, *script(f"cronguard step slow -- sh -c '{command}'"))
    guard.wait_for_line("begun")
    os.kill(started.pid, signal.SIGTERM)
    code_of(started, PATIENT)
    assert guard.lines("heard") == ["TERM"]
    assert (guard.show("billing")["state"], states(guard)) == ("pending", {"slow": "pending"})
    assert steps(guard)["slow"]["note"] == "told to stop by SIGTERM"


def test_ctrl_c_reaches_the_command_of_a_step_once(sqlite_guard: Guard) -> None:
    command = 'trap "echo INT >> heard" INT; echo >> begun; until [ -e heard ]; do sleep 0.05; done; sleep 0.5; exit 5'
    (sqlite_guard.folder / "job").write_text(script(f"cronguard step slow -- sh -c '{command}'")[3])
    with Terminal(sqlite_guard.folder, sqlite_guard.environment) as terminal:
        terminal.type(f"'{sys.executable}' -m cronguard {shlex.join(KEY)} -- sh -e job")
        sqlite_guard.wait_for_line("begun")
        terminal.press(CTRL_C)
        terminal.read(PROMPT)
        assert terminal.last_code() == 130
    assert (sqlite_guard.lines("heard"), states(sqlite_guard)) == (["INT"], {"slow": "pending"})


def test_step_is_not_lost_when_the_ledger_is_away_at_its_end(postgres_guard: Guard, database: Database) -> None:
    started = postgres_guard.start(*KEY, *script(*STEPS[:1]))
    postgres_guard.wait_for_line("begun")
    with database.server.connect() as superuser:
        superuser.execute(f"alter database {database.name} connection limit 0".encode())
        let_go(postgres_guard, "pull")
        wait_until(lambda: f'too many connections for database "{database.name}"' in database.server.den.log(), PATIENT)
        superuser.execute(f"alter database {database.name} connection limit -1".encode())
    assert code_of(started, PATIENT) == 0
    assert states(postgres_guard) == {"pull": "succeeded"}


def test_step_whose_cronguard_is_killed_dies_with_it_and_is_not_begun_again_in_that_attempt(guard: Guard) -> None:
    lines = (
        "set +e",
        "cronguard step slow -- sh -c 'echo $PPID $$ >> pids; exec sleep 600'; echo $? >> codes",
        "cronguard step slow -- true; echo $? >> codes",
        "exit 9",
    )
    started = guard.start(*KEY, *script(*lines))
    cronguard, command = (int(pid) for pid in guard.wait_for_line("pids")[0].split())
    os.kill(cronguard, signal.SIGKILL)
    assert code_of(started, PATIENT) == 9
    wait_dead(command)
    assert guard.lines("codes") == ["137", "125"]
    assert guard.run(*KEY, "--rerun", *script("cronguard step slow -- true")).code == 0


def test_steps_are_seen_while_they_run(guard: Guard) -> None:
    started = guard.start(*KEY, *script("cronguard beat --progress 1/3", *STEPS))
    let_go(guard, "pull")
    guard.wait_for_line("begun", 2)
    wait_until(lambda: states(guard) == {"pull": "succeeded", "balances": "running"}, PATIENT)
    shown = guard.run("show", "billing").out
    assert "progress     1/3" in shown
    assert "steps        1 of 2 succeeded" in shown
    let_go(guard, *NAMES)
    assert code_of(started, PATIENT) == 0


def test_command_that_outlives_its_run_begins_no_step(guard: Guard) -> None:
    told = 'for name in KEY PERIOD TOKEN HOLDER; do eval echo "\\$CRONGUARD_$name"; done >told'
    assert guard.run(*KEY, *script(told)).code == 0
    facts = dict(zip(("key", "period", "token", "holder"), guard.lines("told"), strict=True))
    result = inside(guard, **facts).run("step", "pull", "--", "touch", "started")
    assert (result.code, result.out) == (76, "")
    assert f"has no live run under token {facts['token']}: it is over, or lost" in result.only_line
    assert not (guard.folder / "started").exists()
    assert steps(guard) == {}


def test_ledger_that_is_away_starts_nothing(bare_guard: Guard) -> None:
    guard = inside(bare_guard).with_env(CRONGUARD_DSN="postgresql://127.0.0.1:1/ops", CRONGUARD_DB_WAIT="1s")
    result = guard.run("step", "pull", "--", "touch", "started", within=25)  # less than without that setting
    assert (result.code, result.out) == (75, "")
    assert result.only_line.startswith("cronguard: billing 2026-11-30: step pull: the ledger at 127.0.0.1:1/ops cannot")
    assert not (guard.folder / "started").exists()


# --- What makes no sense ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["key", "period", "token", "holder"])
def test_outside_of_a_run_there_is_no_step(sqlite_guard: Guard, name: str) -> None:
    line = refusal(inside(sqlite_guard, **{name: ""}), "step", "pull", "--", "touch", "started")
    assert line.startswith(f"cronguard: CRONGUARD_{name.upper()} is not set: cronguard step is for a command that runs")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "missing argument 'NAME'; see cronguard step --help"),
        (("pull", "true"), "before the command 'true' put --; type: cronguard step NAME -- COMMAND [ARG]..."),
        (("pull",), "there is no command; type: cronguard step NAME -- CMD [ARG…]"),
        (("pull", "--", ""), "there is no command; type: cronguard step NAME -- CMD [ARG…]"),
        (("", "--", "true"), "the step's name is empty; give it a name such as"),
        (("a\nb", "--", "true"), "the step's name 'a\\nb' has control or unprintable characters"),
        (("x" * 256, "--", "true"), "the step's name is longer than 255 bytes; shorten it"),
        (("pull", "touch", "-r", "x"), "no such option: -r; see cronguard step --help"),
        (("pull", "--complete-by", "soon", "--", "true"), "--complete-by: 'soon' is not a deadline; write it like"),
        (("pull", "--attempts", "0", "--", "true"), "--attempts: '0' is not a whole number from 1"),
        (("pull", "--retry-delay", "1", "--", "true"), "--retry-delay: '1' is not a duration"),
        (("pull", "--stop-grace", "1", "--", "true"), "--stop-grace: '1' is not a duration"),
        (("pull", "--capture", "1g", "--", "true"), "--capture: '1g' is not a size of at most 1m"),
    ],
)
def test_step_that_makes_no_sense_is_refused(sqlite_guard: Guard, arguments: tuple[str, ...], said: str) -> None:
    assert said in refusal(inside(sqlite_guard), "step", *arguments)


SETTLE = ("settle", "billing", "2026-11-30", "mails")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (SETTLE[:3], "missing argument 'STEP'; see cronguard settle --help"),
        ((*SETTLE, "--reason", "x"), "say how the step ended: --succeeded, or --again to have it run again"),
        ((*SETTLE, "--succeeded", "--again", "--reason", "x"), "say how the step ended"),
        ((*SETTLE, "--again"), "say how you know, for whoever reads it later: --reason TEXT"),
        ((*SETTLE, "--again", "--reason", ""), "--reason: it is empty"),
        ((*SETTLE, "--again", "--reason", "a\nb"), "--reason: the note has control characters"),
        ((*SETTLE, "--again", "--reason", "x"), "has no such step; see: cronguard show billing 2026-11-30"),
        (("settle", "", "x", "y", "--again", "--reason", "x"), "the key is empty"),
    ],
)
def test_word_that_makes_no_sense_is_refused(sqlite_guard: Guard, arguments: tuple[str, ...], said: str) -> None:
    assert said in refusal(sqlite_guard, *arguments)


def test_step_that_needs_no_word_is_left_alone(guard: Guard) -> None:
    assert guard.run(*KEY, *script("cronguard step mails -- true")).code == 0
    period = guard.show("billing")["period"]
    before = guard.show("billing")
    again = guard.run("settle", "billing", period, "mails", "--again", "--reason", "x")
    assert (again.code, "it has succeeded; to run it all again: cronguard run --rerun --force" in again.only_line) == (
        125,
        True,
    )
    assert guard.run("settle", "billing", period, "mails", "--succeeded", "--reason", "x").code == 0
    assert guard.show("billing") == before
