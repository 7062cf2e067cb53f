"""cronguard once, claim, confirm, release, effects and resolve, as jobs and people call them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from fcntl import F_GETPIPE_SZ, fcntl, ioctl
from termios import FIONREAD

import psycopg
import pytest

from tests.acceptance.looking import address_of, ledger_file, tables
from tests.acceptance.test_inside import KEY, inside, script
from tests.conftest import Database
from tests.rig.guard import Guard, Result, code_of, wait_dead
from tests.rig.hands import EPOCH, change
from tests.rig.postgres import Server
from tests.rig.processes import children
from tests.rig.proxy import Proxy
from tests.rig.terminal import CTRL_C, PROMPT, Terminal
from tests.rig.waiting import wait_until

PERIOD = ("--period", "2026-11")
ONCE = ("once", "mail", "ada", *PERIOD)


def effects(guard: Guard, *options: str, kind: str = "mail") -> dict[str, str]:
    """The state of each subject, as the program tells it."""
    result = guard.run("effects", kind, "-n", "10000", "--json", *options)
    if f"no effect of kind {kind}" in result.err:
        return {}
    assert result.code == 0, result.err
    return {found["subject"]: found["state"] for found in json.loads(result.out)["effects"]}


def feed(guard: Guard, text: str | bytes, *arguments: str, code: int = 0) -> Result:
    """With this on its standard input, as in a pipe."""
    path = guard.folder / "list"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with path.open("rb") as stdin:
        result = guard.run(*arguments, stdin=stdin)
    assert result.code == code, result.err
    return result


def unread(pipe: int) -> int:
    """How many bytes a pipe holds."""
    return int.from_bytes(ioctl(pipe, FIONREAD, bytes(4)), sys.byteorder)


def quiet(result: Result, code: int = 0) -> bool:
    return (result.code, result.out, result.err) == (code, "", "")


# --- once -------------------------------------------------------------------------------------------------------------


def test_once_is_done_once(guard: Guard) -> None:
    first = guard.run(*ONCE, "--", "sh", "-c", "echo >>sent; echo out; echo err >&2")
    assert (first.code, first.out, first.err) == (0, "out\n", "err\n")
    assert quiet(guard.run(*ONCE, "--", "sh", "-c", "echo >>sent"))
    assert quiet(guard.run(*ONCE, "--skip-exit", "9", "--", "sh", "-c", "echo >>sent"), 9)
    assert len(guard.lines("sent")) == 1
    assert effects(guard) == {"ada": "sent"}
    assert guard.run("once", "mail", "ada", "--period", "2026-12", "--", "sh", "-c", "echo >>sent").code == 0
    assert len(guard.lines("sent")) == 2


@pytest.mark.parametrize(
    ("command", "code", "state"),
    [
        (("true",), 0, "sent"),
        (("sh", "-c", "exit 7"), 7, "released"),
        (("sh", "-c", "exit 1"), 1, "sending"),
        (("sh", "-c", "kill -KILL $$"), 137, "sending"),
        (("sh", "-c", "kill -TERM $$"), 143, "sending"),
        (("nowhere/at/all",), 127, "released"),
        (("/etc/passwd",), 126, "released"),
    ],
)
def test_how_it_ended_is_how_it_is_recorded(guard: Guard, command: tuple[str, ...], code: int, state: str) -> None:
    assert guard.run(*ONCE, "--released-on", "7", "--", *command).code == code
    assert effects(guard) == {"ada": state}
    again = guard.run(*ONCE, "--", "touch", "again")
    assert again.code == 0
    assert (guard.folder / "again").exists() is (state == "released")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_command_and_its_end_is_told_as_it_was(sqlite_guard: Guard, signum: signal.Signals) -> None:
    handled = f"trap 'echo >>heard; exit 7' {signum.name[3:]}; echo >>ready; while :; do sleep 0.05; done"
    job = sqlite_guard.start(*ONCE, "--released-on", "7", "--", "sh", "-c", handled)
    sqlite_guard.wait_for_line("ready")
    job.send_signal(signum)
    assert code_of(job) == 7
    assert sqlite_guard.lines("heard") == [""]
    assert effects(sqlite_guard) == {"ada": "released"}


def test_command_gets_what_its_caller_would_have_given_it(sqlite_guard: Guard) -> None:
    asked = "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | tr '\\n' ' '; cat"
    direct = subprocess.run(
        ["sh", "-c", asked], env=dict(sqlite_guard.environment), input="in", capture_output=True, text=True, check=True
    ).stdout
    result = feed(sqlite_guard, "in", *ONCE, "--", "sh", "-c", asked)
    assert result.out == direct


def test_token_is_passed_to_an_idempotent_provider_only_and_stays_the_same(guard: Guard) -> None:
    show = ("--", "sh", "-c", 'echo "${CRONGUARD_EFFECT_TOKEN-none}" >>told; exit 1')
    idempotent = ("--provider-idempotent", "--send-within", "1s")
    guard.run("once", "letter", "ada", *PERIOD, *show)
    guard.run(*ONCE, *idempotent, *show)
    wait_until(lambda: effects(guard, "--state", "unknown") == {"ada": "unknown"}, 30)
    assert quiet(guard.run(*ONCE, *show))  # not declared this time
    guard.run(*ONCE, *idempotent, *show)
    none, first, second = guard.lines("told")
    assert none == "none"
    assert first == second != "none"


# --- once, killed at each point ---------------------------------------------------------------------------------------

STOPS = "if [ ! -e killed ]; then touch here; exec sleep 600; fi; echo >>sent"


def killed(guard: Guard, job: subprocess.Popen[str]) -> None:
    """As the kernel, an operator, or the end of its host would; its command goes with it."""
    below = children(job.pid)
    job.kill()
    job.wait(30)
    for pid in below:
        wait_dead(pid)
    (guard.folder / "killed").touch()


def let_time_pass(guard: Guard) -> None:
    wait_until(lambda: "sending" not in effects(guard).values(), 30)


def test_killed_before_its_claim_it_is_as_if_it_had_never_been(postgres_guard: Guard, database: Database) -> None:
    with database.connect() as blocker:
        blocker.execute("begin; lock table cronguard.effect")
        job = postgres_guard.start(*ONCE, "--", "sh", "-c", STOPS)
        wait_until(lambda: _waiting_for_a_lock(database), 30)
        killed(postgres_guard, job)
        wait_until(lambda: not _waiting_for_a_lock(database), 20)
        blocker.execute("rollback")
    assert effects(postgres_guard) == {}
    assert postgres_guard.run(*ONCE, "--", "sh", "-c", STOPS).code == 0
    assert postgres_guard.lines("sent") == [""]


def _waiting_for_a_lock(database: Database) -> bool:
    with database.connect() as connection:
        asked = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        return bool(connection.execute(asked).fetchall())


COMMIT = b"commit\0"  # the statement, as it goes over the wire


@pytest.fixture
def through_proxy(database: Database, proxy: Callable[[Server], Proxy], postgres_guard: Guard) -> tuple[Guard, Proxy]:
    way = proxy(database.server)
    return postgres_guard.with_env(CRONGUARD_DSN=database.through(way)), way


def test_claim_whose_answer_was_lost_is_asked_again_and_is_its_own(through_proxy: tuple[Guard, Proxy]) -> None:
    guard, way = through_proxy
    way.drop_reply_to(COMMIT)
    assert guard.run(*ONCE, "--", "sh", "-c", "echo >>sent").code == 0
    assert (way.dropped, guard.lines("sent")) == (1, [""])
    assert effects(guard) == {"ada": "sent"}


def test_killed_between_its_claim_and_its_command_nobody_knows(
    through_proxy: tuple[Guard, Proxy], postgres_guard: Guard
) -> None:
    """The claim is in the ledger, and the command was never started; but who could tell."""
    guard, way = through_proxy
    way.drop_reply_to(COMMIT, "silence")
    job = guard.start(*ONCE, "--send-within", "2s", "--", "sh", "-c", "echo >>sent")
    wait_until(lambda: way.dropped, 30)
    killed(postgres_guard, job)
    let_time_pass(postgres_guard)
    assert effects(postgres_guard) == {"ada": "unknown"}
    assert quiet(postgres_guard.run(*ONCE, "--", "sh", "-c", "echo >>sent"))
    assert postgres_guard.lines("sent") == []


def test_killed_after_its_confirmation_it_is_sent(through_proxy: tuple[Guard, Proxy], postgres_guard: Guard) -> None:
    """The ledger was told, and the answer is still on its way."""
    guard, way = through_proxy
    job = guard.start(*ONCE, "--", "sh", "-c", "echo >>sent; until [ -e go ]; do sleep 0.05; done")
    guard.wait_for_line("sent")
    way.drop_reply_to(COMMIT, "silence")
    (guard.folder / "go").touch()
    wait_until(lambda: effects(postgres_guard) == {"ada": "sent"}, 30)
    killed(postgres_guard, job)
    assert quiet(postgres_guard.run(*ONCE, "--", "sh", "-c", "echo >>sent"))
    assert postgres_guard.lines("sent") == [""]


def test_killed_while_its_command_runs_nobody_knows(guard: Guard) -> None:
    """The command may have sent, or not."""
    job = guard.start(*ONCE, "--", "sh", "-c", STOPS)
    wait_until(lambda: (guard.folder / "here").exists(), 30)
    assert effects(guard) == {"ada": "sending"}
    killed(guard, job)
    assert quiet(guard.run(*ONCE, "--", "sh", "-c", STOPS))
    change(address_of(guard), "update {}effect set send_by = ?", EPOCH)
    assert effects(guard) == {"ada": "unknown"}
    assert quiet(guard.run(*ONCE, "--", "sh", "-c", STOPS))
    assert guard.lines("sent") == []


def test_told_to_stop_after_its_claim_and_before_its_command_it_was_not_done(
    postgres_guard: Guard, database: Database
) -> None:
    """It hears of it while it waits for the claim, which may or may not be had then."""
    with database.connect() as blocker:
        blocker.execute("begin; lock table cronguard.effect")
        job = postgres_guard.start(*ONCE, "--", "sh", "-c", STOPS)
        wait_until(lambda: _waiting_for_a_lock(database), 30)
        job.terminate()
        blocker.execute("rollback")
    assert code_of(job) == 143
    assert not (postgres_guard.folder / "here").exists()
    assert effects(postgres_guard) in ({}, {"ada": "released"})


def test_killed_before_it_could_confirm_nobody_knows(postgres_guard: Guard, database: Database) -> None:
    """The command has sent, and the ledger was not told: that is reported, and nothing is sent again."""
    with database.connect() as blocker:
        job = postgres_guard.start(
            *ONCE, "--send-within", "2s", "--", "sh", "-c", "echo >>sent; until [ -e go ]; do sleep 0.05; done"
        )
        postgres_guard.wait_for_line("sent")
        blocker.execute("begin; lock table cronguard.effect in access exclusive mode")
        (postgres_guard.folder / "go").touch()
        wait_until(lambda: _waiting_for_a_lock(database), 30)
        killed(postgres_guard, job)
        blocker.execute("rollback")
    let_time_pass(postgres_guard)
    assert effects(postgres_guard) == {"ada": "unknown"}
    assert quiet(postgres_guard.run(*ONCE, "--", "sh", "-c", "echo >>sent"))
    assert postgres_guard.lines("sent") == [""]


def test_ledger_that_goes_away_meanwhile_leaves_it_unknown_and_that_is_said(
    postgres_guard: Guard, database: Database
) -> None:
    guard = postgres_guard
    job = guard.with_env(CRONGUARD_DB_WAIT="5s").start(
        *ONCE, "--", "sh", "-c", "echo >>sent; until [ -e go ]; do sleep 0.05; done"
    )
    guard.wait_for_line("sent")
    with database.server.connect() as superuser:
        superuser.execute(f"alter database {database.name} connection limit 0".encode())
        (guard.folder / "go").touch()
        _, error = job.communicate(timeout=60)
        superuser.execute(f"alter database {database.name} connection limit -1".encode())
    assert job.returncode == 0
    assert "warning: mail 'ada' 2026-11: the ledger at" in error
    assert error.endswith("how it ended is not recorded, and will read as unknown\n")
    assert effects(guard) == {"ada": "sending"}


# --- many at once -----------------------------------------------------------------------------------------------------


def test_claim_prints_what_is_won_in_the_order_of_the_list(guard: Guard) -> None:
    claim = ("claim", "mail", *PERIOD)
    assert feed(guard, "bob\nada\nbob\nZoë, 2. Stock\n", *claim).out == "bob\nada\nZoë, 2. Stock\n"
    assert feed(guard, "ada\ncarl", *claim).out == "carl\n"
    assert quiet(feed(guard, "", *claim))
    (guard.folder / "file").write_text("dora\nada\n")
    assert guard.run(*claim, "--file", "file").out == "dora\n"
    assert feed(guard, "emil\n", *claim, "--file", "-").out == "emil\n"
    assert quiet(feed(guard, "ada\nbob\n", "confirm", "mail", *PERIOD))
    assert quiet(feed(guard, "carl\n", "release", "mail", *PERIOD))
    expected = {"ada": "sent", "bob": "sent", "carl": "released"}
    assert effects(guard).items() >= expected.items()
    assert feed(guard, "ada\nbob\ncarl\n", *claim).out == "carl\n"


def test_claim_in_the_locale_c_gives_bytes_back_as_they_came(sqlite_guard: Guard) -> None:
    path = sqlite_guard.folder / "list"
    path.write_text("Zürich\n")
    command = [sys.executable, "-m", "cronguard", "claim", "mail", *PERIOD, "--file", str(path)]
    environment = {**sqlite_guard.environment, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    assert done.stdout == "Zürich\n".encode()


def test_subjects_with_newlines_are_separated_by_nul(guard: Guard) -> None:
    result = feed(guard, "two\nlines\0one\r\0", "claim", "mail", *PERIOD, "-0")
    assert result.out == "two\nlines\0one\n\0"  # read as text by this test: \r is a new line to it
    assert effects(guard) == {"two\nlines": "sending", "one\r": "sending"}
    shown = guard.run("effects", "mail").out
    assert "two\\nlines" in shown and "one^M" in shown
    assert quiet(feed(guard, "two\nlines\0", "confirm", "mail", *PERIOD, "--null"))


def test_tokens_are_printed_for_an_idempotent_provider(guard: Guard) -> None:
    asked = ("claim", "mail", *PERIOD, "--provider-idempotent", "--send-within", "1s", "--tokens")
    first = feed(guard, "ada\nbob\n", *asked).out
    assert [line.partition("\t")[2] for line in first.splitlines()] == ["ada", "bob"]
    wait_until(lambda: effects(guard, "--state", "unknown").keys() == {"ada", "bob"}, 30)
    assert feed(guard, "ada\nbob\n", *asked).out == first


def test_slow_list_is_claimed_as_it_comes(sqlite_guard: Guard) -> None:
    """No batch is waited for: what has come is claimed, and printed."""
    job = sqlite_guard.start("claim", "mail", *PERIOD, stdin=subprocess.PIPE)
    assert job.stdin and job.stdout
    for subject in ("ada\n", "bob\n"):
        job.stdin.write(subject)
        job.stdin.flush()
        assert job.stdout.readline() == subject
    assert job.communicate(timeout=60) == ("", "")
    assert job.returncode == 0


def test_claimers_of_one_list_win_each_subject_once(guard: Guard) -> None:
    (guard.folder / "list").write_text("".join(f"customer {n}\n" for n in range(3000)))
    jobs = [guard.start("claim", "mail", *PERIOD, "--file", "list") for _ in range(4)]
    outputs = [job.communicate(timeout=120) for job in jobs]
    assert {error for _, error in outputs} == {""}
    counts = Counter(line for output, _ in outputs for line in output.splitlines())
    assert (len(counts), set(counts.values())) == (3000, {1})


def test_reader_that_goes_away_is_no_failure_of_ours(sqlite_guard: Guard) -> None:
    (sqlite_guard.folder / "list").write_text("".join(f"customer {n}\n" for n in range(30_000)))
    line = f"'{sys.executable}' -m cronguard claim mail --period x --file list | head -n 1"
    done = subprocess.run(
        ["sh", "-c", line], env=dict(sqlite_guard.environment), cwd=sqlite_guard.folder, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("customer 0\n", "")


def test_without_standard_output_nothing_is_claimed(guard: Guard) -> None:
    closed = guard.under("sh", "-c", 'exec "$@" >&-', "sh")
    result = feed(closed, "ada\n", "claim", "mail", *PERIOD, code=125)
    assert "standard output is closed, and nobody would learn what was won; write it to a file" in result.only_line
    assert effects(guard) == {}


@pytest.mark.parametrize(
    ("option", "told", "state"),
    [
        ((), "2 released again", "released"),
        (("--provider-idempotent",), "0 released again, 2 will read as unknown", "sending"),  # it may have been done
    ],
)
def test_what_is_won_and_cannot_be_printed_is_released(
    guard: Guard, option: tuple[str, ...], told: str, state: str
) -> None:
    full = guard.under("sh", "-c", 'exec "$@" >/dev/full', "sh")
    result = feed(full, "ada\nbob\n", "claim", "mail", *PERIOD, *option, code=125)
    assert result.only_line == (
        "cronguard: mail 2026-11: standard output: No space left on device: of 2 claimed 2 were not printed "
        f"(first 'ada'): {told}"
    )
    assert effects(guard) == dict.fromkeys(("ada", "bob"), state)


def test_what_was_printed_in_part_stays_claimed(postgres_guard: Guard) -> None:
    (postgres_guard.folder / "list").write_text("".join(f"{n:09}\n" for n in range(300)))
    small = postgres_guard.under("sh", "-c", 'ulimit -f 2; exec "$@" >won', "sh")  # in half or whole kilobytes
    result = small.run("claim", "mail", *PERIOD, "--file", "list")
    *whole, part = postgres_guard.lines("won")
    assert 0 < len(part) < 9
    assert result.only_line.endswith(
        f"standard output: File too large: of 300 claimed {300 - len(whole)} were not printed "
        f"(first '{len(whole):09}'): {299 - len(whole)} released again, 1 will read as unknown"
    )
    assert Counter(effects(postgres_guard).values()) == {"sending": len(whole) + 1, "released": 299 - len(whole)}


def test_what_can_be_neither_printed_nor_released_is_told(postgres_guard: Guard, database: Database) -> None:
    (postgres_guard.folder / "list").write_text("".join(f"{n:07}\n" for n in range(11_000)))
    ours, theirs = os.pipe()
    guard = postgres_guard.with_env(CRONGUARD_DB_WAIT="1s")
    job = guard.start("claim", "mail", *PERIOD, "--file", "list", stdout=theirs)
    os.close(theirs)
    wait_until(lambda: unread(ours) == fcntl(ours, F_GETPIPE_SZ), 20, saying="the pipe is full")
    with database.server.connect() as superuser:
        superuser.execute(f"alter database {database.name} connection limit 0".encode())
        superuser.execute(
            f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{database.name}'".encode()
        )
        os.close(ours)
        _, error = job.communicate(timeout=30)
        superuser.execute(f"alter database {database.name} connection limit -1".encode())
    assert "warning: mail 2026-11: the ledger at" in error
    assert error.endswith(" that were claimed and not printed will read as unknown\n")
    assert set(effects(guard).values()) == {"sending"}


def test_what_a_reader_that_went_away_cannot_have_read_is_released(guard: Guard) -> None:
    """It had taken 4096 bytes, and a pipe's whole room more was written for it."""
    (guard.folder / "list").write_text("".join(f"{n:07}\n" for n in range(11_000)))
    ours, theirs = os.pipe()
    job = guard.start("claim", "mail", *PERIOD, "--file", "list", stdout=theirs)
    os.close(theirs)
    room = fcntl(ours, F_GETPIPE_SZ)
    assert len(os.read(ours, 4096)) == 4096
    wait_until(lambda: unread(ours) == room, 20, saying="the pipe is full")
    os.close(ours)
    assert (code_of(job), job.communicate()[1]) == (128 + signal.SIGPIPE, "")
    found = sorted(effects(guard, "--state", "released"))
    assert found[0] == f"{(4096 + room) // 8:07}"
    assert (found[-1], len(found)) == ("0010999", 11_000 - int(found[0]))


def test_strangers_word_does_not_make_two_senders_of_one(guard: Guard) -> None:
    job = guard.start(*ONCE, "--", "sh", "-c", "echo begins >>sent; until [ -e go ]; do sleep 0.05; done")
    guard.wait_for_line("sent")
    refused = feed(guard, "ada\n", "release", "mail", *PERIOD, code=125)
    assert "1 being done by cronguard once, which alone can release it (first 'ada')" in refused.only_line
    assert quiet(guard.run(*ONCE, "--", "sh", "-c", "echo again >>sent"))
    (guard.folder / "go").touch()
    assert (code_of(job), guard.lines("sent")) == (0, ["begins"])
    assert effects(guard) == {"ada": "sent"}


def test_what_is_unknown_is_released_by_a_person_only(guard: Guard) -> None:
    feed(guard, "ada\n", "claim", "mail", *PERIOD, "--send-within", "1s")
    wait_until(lambda: effects(guard, "--state", "unknown") == {"ada": "unknown"})
    refused = feed(guard, "ada\n", "release", "mail", *PERIOD, code=125)
    assert "1 unknown: whoever has looked says which by cronguard resolve (first 'ada')" in refused.only_line
    assert effects(guard) == {"ada": "unknown"}


# --- inside a run -----------------------------------------------------------------------------------------------------


def test_inside_a_run_the_period_is_its_own(guard: Guard) -> None:
    lines = (
        "cronguard once mail ada -- true",
        "printf 'ada\\nbob\\n' | cronguard claim mail >>won",
        "cronguard confirm mail <won",
        "cronguard once letter ada --period 2026-11 -- true",
    )
    result = guard.run(*KEY, "--period", "2026-11-28", *script(*lines))
    assert (result.code, result.err, guard.lines("won")) == (0, "", ["bob"])
    assert effects(guard, "--period", "2026-11-28") == {"ada": "sent", "bob": "sent"}
    assert effects(guard, "--period", "2026-11", kind="letter") == {"ada": "sent"}


def test_skip_exit_of_the_run_is_not_that_of_what_it_does_once(guard: Guard) -> None:
    (guard.folder / "config.toml").write_text("[defaults]\nskip_exit = 75\n")
    told = guard.with_env(CRONGUARD_CONFIG=str(guard.folder / "config.toml"), CRONGUARD_SKIP_EXIT="75")
    twice = (*["cronguard once mail ada -- sh -c 'echo >>sent'"] * 2, "echo to the end")
    for asked in told, told.with_env(CRONGUARD_SKIP_EXIT=None):
        result = asked.run(*KEY, "--rerun", "--force", *script(*twice))
        assert (result.code, result.out, result.err) == (0, "to the end\n", "")
    assert guard.lines("sent") == [""]
    assert told.run(*KEY, *script(*twice)).code == 75


@pytest.mark.parametrize("command", [("once", "mail", "ada", "--", "touch", "started"), ("claim", "mail")])
def test_overtaken_run_claims_nothing(guard: Guard, command: tuple[str, ...]) -> None:
    told = 'for name in KEY PERIOD TOKEN HOLDER; do eval echo "\\$CRONGUARD_$name"; done >told'
    assert guard.run(*KEY, *script(told)).code == 0
    facts = dict(zip(("key", "period", "token", "holder"), guard.lines("told"), strict=True))
    result = feed(inside(guard, **facts), "ada\n", *command, code=76)
    assert f"has no live run under token {facts['token']}: nothing was claimed" in result.only_line
    assert (result.out, (guard.folder / "started").exists()) == ("", False)
    assert effects(guard) == {}


def test_in_the_wrong_ledger_nothing_is_made(sqlite_guard: Guard) -> None:
    result = feed(inside(sqlite_guard), "ada\n", "claim", "mail", code=76)
    assert "has no live run under token 7: nothing was claimed" in result.only_line
    result = inside(sqlite_guard).run("once", "mail", "ada", "--", "true")
    assert result.code == 76
    assert not ledger_file(sqlite_guard).exists()


PYTHON = """
from cronguard import current_run
from cronguard.errors import BadInput, RunLost

run = current_run()
print(run.key, run.period, run.token > 0)
run.beat("3/10", note="from K on")
with run.effect("mail", "ada") as effect:
    assert effect.claimed
    effect.note = "no. 12"
with run.effect("mail", "ada") as effect:
    print(effect.claimed)
try:
    with run.effect("mail", "bob"):
        raise ConnectionResetError
except ConnectionResetError:
    pass
with run.effect("mail", "carl", provider_idempotent=True) as effect:
    print(len(effect.token))
    effect.release()
for who in run.claim("mail", (f"customer {n}" for n in range(5)), at_once=2):
    if who == "customer 3":
        break
    run.confirm("mail", [who])
run.release("mail", ["customer 3"])
try:
    run.confirm("mail", ["nobody"])
except BadInput as error:
    print(error)
"""


def test_python_job_speaks_for_its_run(guard: Guard) -> None:
    result = guard.run(*KEY, "--period", "2026-11-28", "--", sys.executable, "-c", PYTHON)
    assert result.code == 0, result.err
    assert result.out.splitlines() == [
        "nightly 2026-11-28 True", "False", "36", "1 of 1: not_claimed, the first 'nobody'",
    ]  # fmt: skip
    assert effects(guard) == {
        "ada": "sent", "bob": "sending", "carl": "released", "customer 0": "sent", "customer 1": "sent",
        "customer 2": "sent", "customer 3": "released",
    }  # fmt: skip
    assert guard.show("nightly")["progress_note"] == "from K on"


MISUSE = """
from datetime import timedelta

from cronguard import current_run
from cronguard.errors import BadInput

run = current_run()
for act in (
    lambda: run.claim("mail", "ada"),
    lambda: run.confirm("mail", "ada"),
    lambda: run.release("mail", "ada"),
    lambda: run.claim("mail", ["ada"], at_once=0),
    lambda: run.claim("mail", ["ada"], send_within=timedelta()),
    run.effect("mail", "ada", send_within=timedelta(seconds=-1)).__enter__,
):
    try:
        act()
    except BadInput as error:
        print(error)
"""


def test_python_job_that_asks_for_what_makes_no_sense_is_told_so(guard: Guard) -> None:
    result = guard.run(*KEY, "--", sys.executable, "-c", MISUSE)
    assert (result.code, result.err) == (0, "")
    letters = "the subjects are one str, 'ada', and each letter would be one; give a list of them"
    assert result.out.splitlines() == [
        letters, letters, letters,
        "at_once is 0, and nothing would ever be claimed; give it 1 or more",
        "send_within is 0:00:00: all would be abandoned at once; give it some time",
        "send_within is -1 day, 23:59:59: all would be abandoned at once; give it some time",
    ]  # fmt: skip
    assert effects(guard) == {}


BROKEN_OFF = """
from cronguard import current_run

run = current_run()
mine = list(run.claim("mail", map(str, range(3000))))

def until(last):
    yield from mine[:last]
    raise EOFError

for say, last in (run.confirm, 1500), (run.release, 2500):
    try:
        say("mail", until(last))
    except EOFError:
        pass
try:
    run.release("mail", mine)
except Exception as error:
    print(error)
"""


def test_words_of_a_python_job_are_written_by_the_batch(guard: Guard) -> None:
    """What it has in mind for them may be long; those that have come are written when it breaks off."""
    result = guard.run(*KEY, "--", sys.executable, "-c", BROKEN_OFF)
    assert (result.code, result.err) == (0, "")
    assert result.out == "1000 of 3000: was_sent, the first '0'\n"
    assert Counter(effects(guard).values()) == {"sent": 1000, "released": 2000}


OVERTAKEN = """
from cronguard import current_run
from cronguard.errors import RunLost

run = current_run()
for act in (lambda: run.beat("1"), lambda: list(run.claim("mail", ["ada"])), run.effect("mail", "ada").__enter__):
    try:
        act()
    except RunLost as error:
        print(error)
"""


def test_python_job_that_was_overtaken_is_told_so(guard: Guard) -> None:
    assert guard.run(*KEY, "--", "true").code == 0
    environment = {**inside(guard).environment}
    done = subprocess.run(
        [sys.executable, "-c", OVERTAKEN], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stderr, len(done.stdout.splitlines())) == ("", 3)
    assert "nightly 2026-11-30: no live run under token 7" in done.stdout


def test_python_outside_of_a_run_is_told_so(bare_guard: Guard) -> None:
    asked = "from cronguard import current_run; current_run()"
    done = subprocess.run(
        [sys.executable, "-c", asked], env=dict(bare_guard.environment), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "CRONGUARD_KEY is not set: cronguard current_run is for" in done.stderr


# --- what a person sees, and says -------------------------------------------------------------------------------------


def test_person_resolves_what_nobody_knows(guard: Guard) -> None:
    feed(guard, "ada\nbob\ncarl\n", "claim", "mail", *PERIOD, "--send-within", "1s")
    resolve = ("resolve", "mail", "ada", *PERIOD, "--reason", "asked the provider")
    wait_until(lambda: effects(guard, "--state", "unknown").keys() == {"ada", "bob", "carl"}, 30)
    assert quiet(guard.run(*resolve, "--released"))
    assert quiet(guard.run(*resolve, "--released"))
    assert quiet(guard.run("resolve", "mail", "bob", *PERIOD, "--sent", "--reason", "saw it"))
    assert effects(guard) == {"ada": "released", "bob": "sent", "carl": "unknown"}
    shown = guard.run("effects", "mail", "--state", "released").out
    assert "asked the provider" in shown and "resolved by" in shown
    assert guard.run(*ONCE, "--", "true").code == 0
    refused = guard.run(*resolve, "--released")
    assert refused.code == 125
    assert refused.only_line.endswith("mail ada 2026-11: it was sent; what was done cannot be undone")


def test_json_tells_everything(guard: Guard) -> None:
    assert guard.run(*KEY, *script("cronguard once mail ada --provider-idempotent -- true")).code == 0
    document = json.loads(guard.run("effects", "mail", "--json").out)
    assert document["schema"] == "cronguard.effects/1"
    (found,) = document["effects"]
    assert (found["kind"], found["subject"], found["state"], found["key"]) == ("mail", "ada", "sent", "nightly")
    assert found["idempotent"] is True and found["claimed_at"].endswith("Z") and len(found["effect_token"]) == 36


def test_many_that_are_unknown_are_told_together_counted_and_resolved_at_once(guard: Guard) -> None:
    subjects = [f"customer {number:04}" for number in range(2500)]
    claimed = feed(guard, "".join(f"{who}\n" for who in subjects), "claim", "mail", *PERIOD, "--send-within", "1s")
    assert claimed.out.splitlines() == subjects
    shown = wait_until(lambda: (seen := guard.run("effects", "mail")).out.count("unknown") == 20 and seen)
    assert shown.only_line == "cronguard: warning: 20 of 2500 are shown; to see all: -n 2500"
    document = json.loads(guard.run("effects", "--json").out)
    assert (len(document["effects"]), document["total"]) == (20, 2500)
    (finding,) = json.loads(guard.run("supervise", "--json").out)["findings"]
    assert (finding["found"], finding["kind"], finding["count"]) == ("unknown_effect", "mail", 2500)
    assert finding["subjects"] == subjects[:3]
    assert finding["what"].endswith(
        "of 2500 whether they were done: customer 0000, customer 0001, customer 0002 and 2497 more"
    )
    assert finding["next"] == "cronguard effects mail --period 2026-11 --state unknown"
    assert json.loads(guard.run("supervise", "--json").out)["findings"] == []
    resolve = ("resolve", "mail", "--file", "-", *PERIOD, "--reason", "the provider's list")
    assert quiet(feed(guard, "\0".join(subjects[:2400]), *resolve, "-0", "--released"))
    some = feed(guard, "\n".join([*subjects[2390:], "nobody"]), *resolve, "--sent", code=125)
    assert some.only_line == "cronguard: mail 2026-11: of 111, 1 never claimed (first 'nobody')"
    again = feed(guard, "\n".join(subjects[2389:]), *resolve, "--released", code=125)
    assert "of 111, 110 sent, and what was done cannot be undone (first 'customer 2390')" in again.only_line
    assert Counter(effects(guard).values()) == {"released": 2390, "sent": 110}
    assert feed(guard, subjects[0], "claim", "mail", *PERIOD).out == f"{subjects[0]}\n"
    being = feed(guard, subjects[0], *resolve, "--sent", code=125)
    assert "1 being sent, and may yet be confirmed" in being.only_line


def test_who_may_only_read_can_list_what_is_unknown(postgres_guard: Guard, database: Database) -> None:
    assert postgres_guard.run(*ONCE, "--send-within", "1s", "--", "false").code == 1
    with database.connect() as connection:
        connection.execute("revoke insert, update, delete on all tables in schema cronguard from app")
    wait_until(lambda: effects(postgres_guard, "--state", "unknown") == {"ada": "unknown"})
    assert effects(postgres_guard, "--state", "sending") == {}
    assert effects(postgres_guard) == {"ada": "unknown"}


def test_at_a_terminal_a_person_is_told_why_nothing_happened(sqlite_guard: Guard) -> None:
    once = f"{sys.executable} -m cronguard {' '.join(ONCE)} --"
    with Terminal(sqlite_guard.folder, sqlite_guard.environment) as terminal:
        assert terminal.do(f"{once} true") == ""
        said = terminal.do(f"{once} true")
        assert said == "cronguard: not run: mail 'ada' 2026-11 was claimed before; see: cronguard effects mail\n"


def test_at_a_terminal_ctrl_c_reaches_the_command_once(sqlite_guard: Guard) -> None:
    handled = "trap 'echo >>heard; exit 7' INT; echo >>ready; while :; do sleep 0.05; done"
    with Terminal(sqlite_guard.folder, sqlite_guard.environment) as terminal:
        terminal.type(f'{sys.executable} -m cronguard {" ".join(ONCE)} -- sh -c "{handled}"')
        sqlite_guard.wait_for_line("ready")
        terminal.press(CTRL_C)
        terminal.read(PROMPT)
        assert terminal.last_code() == 7
    assert sqlite_guard.lines("heard") == [""]


def test_at_a_terminal_a_long_list_has_a_bar(sqlite_guard: Guard) -> None:
    with Terminal(sqlite_guard.folder, sqlite_guard.environment) as terminal:
        terminal.type(f"seq 100000 | TERM=xterm {sys.executable} -m cronguard claim mail --period x >won")
        terminal.read("[1-9][0-9]*/")
        terminal.read(PROMPT, within=120)
    assert len(sqlite_guard.lines("won")) == 100_000


# --- what makes no sense ----------------------------------------------------------------------------------------------

LONG = "x" * 1001


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("once", "mail", "ada", "--", "true"), "outside of a run the period must be named: add --period"),
        (("claim", "mail"), "outside of a run the period must be named"),
        (("confirm", "mail"), "outside of a run the period must be named"),
        (("release", "mail"), "outside of a run the period must be named"),
        (("once", "mail", "", *PERIOD, "--", "true"), "the subject is empty"),
        (("once", "mail", LONG, *PERIOD, "--", "true"), "the subject is longer than 1000 bytes"),
        (("once", "mail", b"a\xff", *PERIOD, "--", "true"), "the subject has bytes that are not UTF-8"),
        (("once", "", "ada", *PERIOD, "--", "true"), "the kind is empty"),
        (("once", "a\nb", "ada", *PERIOD, "--", "true"), r"the kind 'a\nb' has control or unprintable characters"),
        (("once", "mail", "ada", "--period", "current", "--", "true"), "--period: 'current' is no period of an effect"),
        (("once", "mail", "ada", "--period", "", "--", "true"), "--period: the period is empty"),
        (("once", "mail", "ada", *PERIOD), "no command is given; put it at the end, after --"),
        ((*ONCE, "true"), "before the command 'true' put --; type: cronguard once KIND SUBJECT -- COMMAND [ARG]..."),
        (("once", "mail"), "missing argument 'SUBJECT'; see cronguard once --help"),
        ((*ONCE, "--released-on", "0", "--", "true"), "--released-on: '0' is not a whole number from 1 to 255"),
        ((*ONCE, "--released-on", "256", "--", "true"), "--released-on: '256' is not a whole number from 1 to 255"),
        ((*ONCE, "--send-within", "15", "--", "true"), "--send-within: '15' is not a duration"),
        ((*ONCE, "--skip-exit", "x", "--", "true"), "--skip-exit: 'x' is not a whole number"),
        (("claim", "mail", *PERIOD, "--file", "nowhere"), "--file: 'nowhere' cannot be read: No such file"),
        (("claim", "mail", *PERIOD, "--file", "."), ". cannot be read: Is a directory"),
        (("resolve", "mail", "ada", *PERIOD, "--reason", "x"), "say which it was: --sent or --released"),
        (("resolve", "mail", "ada", "--sent", "--released", "--reason", "x"), "say which it was"),
        (("resolve", "mail", "ada", *PERIOD, "--sent"), "--reason is missing"),
        (("resolve", "mail", "ada", *PERIOD, "--sent", "--reason", ""), "--reason: it is empty"),
        (("resolve", "mail", "ada", *PERIOD, "--sent", "--reason", "x"), "has no effect of kind mail"),
        (("resolve", "mail", *PERIOD, "--sent", "--reason", "x"), "name one SUBJECT, or a list of them by --file"),
        (("resolve", "mail", "ada", "--file", "-", *PERIOD, "--sent", "--reason", "x"), "name one SUBJECT, or a list"),
        (("resolve", "mail", "--file", "-", *PERIOD, "--sent", "--reason", "x"), "has no effect of kind mail"),
        (("effects", "mail"), "has no effect of kind mail"),
        (("effects", "mail", "--state", "gone"), "--state: 'gone' is not one of sending, sent, released, unknown"),
        (("effects", "--state", "sent"), "--state sent: name the KIND; without it only what is unknown is listed"),
        (("effects", "mail", "-n", "0"), "-n: '0' is not a whole number"),
        (("init", "--app-role", "billing"), "--app-role goes with --print-sql"),
        (("init", "--print-sql", "--app-role", "billing"), "--app-role is for a ledger in Postgres"),
    ],
)
def test_what_makes_no_sense_is_refused(sqlite_guard: Guard, arguments: tuple[str | bytes, ...], said: str) -> None:
    result = sqlite_guard.run(*map(os.fsdecode, arguments))
    assert (result.code, result.out) == (125, "")
    assert said in result.only_line
    assert not ledger_file(sqlite_guard).exists() or not tables(sqlite_guard)["effect"]


@pytest.mark.parametrize(
    ("text", "option", "said"),
    [
        (b"ada\n\nbob\n", (), "standard input, line 2: the subject is empty"),
        (b"ada\nbob\r\n", (), "standard input, line 2: the line ends in a carriage return; convert the file, or"),
        (b"ada\n" + b"x" * 10_000_000, (), "standard input, line 2: the subject is longer than 1000 bytes"),
        (b"ada\n" + b"x" * 10_000_000 + b"\n", (), "standard input, line 2: the subject is longer than 1000 bytes"),
        (
            b"\xef\xbb\xbfada\nada\n",
            (),
            "standard input, line 1: the list begins with a byte order mark; take it off, or",
        ),
        (b"ada\nb\xff\n", (), "standard input, line 2: the subject has bytes that are not UTF-8"),
        (
            b"ada\nb\0c\n",
            (),
            "standard input, line 2: the line has a NUL in it; if that is what separates the subjects",
        ),
        (b"ada\0bob\0" * 1000, (), "standard input, line 1: the line has a NUL in it"),
        (b"ada\0\0", ("-0",), "standard input, subject 2: the subject is empty"),
    ],
)
def test_list_that_makes_no_sense_is_refused_at_its_line(
    sqlite_guard: Guard, text: bytes, option: tuple[str, ...], said: str
) -> None:
    for command in ("claim", "confirm", "release"):
        result = feed(sqlite_guard, text, command, "mail", *PERIOD, *option, code=125)
        assert said in result.only_line


def test_words_about_what_was_never_claimed_are_refused_and_the_others_are_written(guard: Guard) -> None:
    feed(guard, "ada\n", "claim", "mail", *PERIOD)
    confirmed = feed(guard, "ada\nbob\ncarl\n", "confirm", "mail", *PERIOD, code=125)
    assert confirmed.only_line == "cronguard: mail 2026-11: of 3, 2 never claimed (first 'bob')"
    released = feed(guard, "ada\n", "release", "mail", *PERIOD, code=125)
    assert released.only_line == "cronguard: mail 2026-11: of 1, 1 sent already (first 'ada')"
    assert guard.run(*KEY, *script("cronguard once mail dora --period 2026-11 -- false || true")).code == 0
    released = feed(guard, "dora\n", "release", "mail", *PERIOD, code=125)
    assert (
        "1 claimed by another run, which alone can release it, or a person by cronguard resolve (first 'dora')"
        in released.only_line
    )
    assert effects(guard) == {"ada": "sent", "dora": "sending"}


@pytest.mark.parametrize("command", ["confirm", "release"])
def test_word_in_a_ledger_that_is_not_there_makes_none(sqlite_guard: Guard, command: str) -> None:
    result = feed(sqlite_guard, "ada\n", command, "mail", *PERIOD, code=125)
    assert "1 never claimed (first 'ada')" in result.only_line
    assert not ledger_file(sqlite_guard).exists()


@pytest.mark.parametrize("command", [(*ONCE, "--", "touch", "started"), ("claim", "mail", *PERIOD)])
def test_without_a_ledger_nothing_starts(bare_guard: Guard, command: tuple[str, ...]) -> None:
    guard = bare_guard.with_env(CRONGUARD_DSN="postgresql://127.0.0.1:1/ops", CRONGUARD_DB_WAIT="1s")
    result = feed(guard, "ada\n", *command, code=75)
    assert "127.0.0.1:1/ops cannot be reached: connection refused" in result.only_line
    assert not (guard.folder / "started").exists()


def test_grants_for_a_jobs_role_are_printed(postgres_guard: Guard, database: Database) -> None:
    printed = postgres_guard.run("init", "--print-sql", "--app-role", 'billing"; drop schema cronguard; --').out
    grants = [line for line in printed.splitlines() if line.startswith("grant ")]
    assert len(grants) == 9
    assert all(line.endswith(' to "billing""; drop schema cronguard; --";') for line in grants)


def test_grants_for_a_jobs_role_can_be_given_when_the_ledger_is_there(
    postgres_guard: Guard, database: Database
) -> None:
    """That is all that is printed; and they may be given once more."""
    role = f"billing_{os.getpid()}"
    printed = postgres_guard.run("init", "--print-sql", "--app-role", role).out
    with psycopg.connect(database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(f"create role {role}".encode())
        try:
            superuser.execute(printed.encode())
            superuser.execute(printed.encode())
            superuser.execute(f"set role {role}".encode())
            superuser.execute("select cronguard.claim_effect('mail', 'ada', '2026-11')")
        finally:
            superuser.execute(f"reset role; drop owned by {role}; drop role {role}".encode())
    assert effects(postgres_guard) == {"ada": "sending"}
