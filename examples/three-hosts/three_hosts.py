"""Three hosts, one job: three real crons fire the same line, and the ledger lets one of them run it each minute.

`run` starts this file. The story is `play`; what one host is stands in the file `host`, what the job does in `tick`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.rig.postgres import Server
from tests.rig.processes import children
from tests.rig.waiting import wait_until

HERE = Path(__file__).resolve().parent
SEARCH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
CRONGUARD = shutil.which("cronguard", path=SEARCH) or "cronguard"
NAMESPACES = ("unshare", "--mount", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child")

HOSTS = ("alpha", "beta", "gamma")
KEY = "three_hosts"
CRONTAB = """\
CRONGUARD_DSN_FILE=/run/cronguard.dsn
* * * * * root {cronguard} run --key {key} --every minute -- {tick} {lines} >>/run/tick.log 2>&1
"""

MINUTE = 60
MINUTE_LABEL = len("2026-11-30T06:00")
LEAD = 5  # seconds that starting three daemons may take before the minute turns
MARGIN = 1  # seconds from cron's pid file to cron being asleep until the next minute
SETTLED_WITHIN = 30  # seconds after the tick


class CannotRun(RuntimeError):
    """What this machine lacks, and what to type."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="run", description="Three hosts, one job: once a minute, by whichever host.")
    parser.add_argument("--minutes", type=_minutes, default=3, metavar="N", help="how many ticks to watch (3)")
    minutes = parser.parse_args().minutes
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    try:
        check_machine()
        with a_postgres() as dsn, a_folder() as folder:
            return play(minutes, folder, Ledger(dsn, folder / "dsn"))
    except (RuntimeError, AssertionError) as reason:  # also of the rig: what did not start, what took too long
        print(f"three-hosts: cannot run here: {reason}", file=sys.stderr)
        return 2


def play(minutes: int, folder: Path, ledger: Ledger) -> int:
    """Start the hosts, watch the minutes, end the hosts, count."""
    ledger.init()
    wait_for_room_in_the_minute()
    with hosts(folder, ledger.dsn):
        first = (time.time() + MARGIN) // MINUTE * MINUTE + MINUTE
        ticks = [first + number * MINUTE for number in range(minutes)]
        say(f"{', '.join(HOSTS)} are up; the first tick is {label_of(first)}, in {first - time.time():.0f} s\n")
        records = [watch(tick, ledger) for tick in ticks]
    tally(folder, ledger, minutes, label_of(ticks[-1]))
    return verdict(folder, [label_of(tick) for tick in ticks], records)


# --- What it takes ----------------------------------------------------------------------------------------------------


def check_machine() -> None:
    """Raise CannotRun with the first thing that is missing."""
    if not shutil.which("cron", path=SEARCH):
        raise CannotRun("there is no cron; on Debian type: apt-get install --no-install-recommends cron")
    if not shutil.which("unshare", path=SEARCH) or not shutil.which("setpriv", path=SEARCH):
        raise CannotRun("there is no unshare or setpriv; on Debian type: apt-get install util-linux")
    probe = subprocess.run([*NAMESPACES, "true"], env={"PATH": SEARCH}, capture_output=True, text=True, check=False)
    if probe.returncode:
        why = probe.stderr.strip() or f"exit {probe.returncode}"
        raise CannotRun(f"this machine forbids namespaces ({why}); in a container, start that with --privileged")
    if os.environ.get("CRONGUARD_DSN", "").startswith("sqlite"):
        raise CannotRun(
            "CRONGUARD_DSN names a ledger for one host; type: CRONGUARD_DSN=postgresql://… " + str(HERE / "run")
        )


@contextmanager
def a_postgres() -> Iterator[str]:
    """The DSN of CRONGUARD_DSN, else of a Postgres that is started here and removed afterwards."""
    if told := os.environ.get("CRONGUARD_DSN"):
        yield told
        return
    try:
        server = Server()
    except RuntimeError as error:
        raise CannotRun(f"{error}; or type: CRONGUARD_DSN=postgresql://… {HERE / 'run'}") from None
    with server:
        yield server.dsn(server.create_database(KEY))


@contextmanager
def a_folder() -> Iterator[Path]:
    """A folder for the hosts' files, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="three-hosts-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


# --- The ledger, by the program that everybody uses -------------------------------------------------------------------


class Ledger:
    """cronguard's commands for looking at the ledger."""

    def __init__(self, dsn: str, file: Path) -> None:
        self.dsn = dsn
        file.touch(mode=0o600)
        file.write_text(dsn)
        self._environment = {"PATH": SEARCH, "CRONGUARD_DSN_FILE": str(file)}
        self._environment |= {name: os.environ[name] for name in ("LANG", "LC_ALL", "TERM") if name in os.environ}

    def init(self) -> None:
        done = self._run("init", "--db-wait", "5s", stderr=subprocess.PIPE)
        if done.returncode:
            raise CannotRun(f"the ledger cannot be prepared; {done.stderr.strip()}")

    def view(self, *arguments: str) -> None:
        """Print what cronguard prints, below what was typed."""
        say(f"\n$ cronguard {' '.join(arguments)}")
        self._run(*arguments)

    def record(self, label: str) -> dict[str, Any]:
        """The run of one period with its skips; empty when there is none yet."""
        done = self._run("show", KEY, label, "--json", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    def _run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([CRONGUARD, *arguments], env=self._environment, text=True, check=False, **options)


# --- The hosts --------------------------------------------------------------------------------------------------------


@contextmanager
def hosts(folder: Path, dsn: str) -> Iterator[None]:
    """Three crons that are up; dead, with all they started, afterwards."""
    words = {"cronguard": CRONGUARD, "key": KEY, "tick": HERE / "tick", "lines": folder / "lines"}
    crontab = CRONTAB.format_map({name: crontab_word(str(word)) for name, word in words.items()})
    say(f"the crontab of each host:\n\n{textwrap.indent(crontab, '    ')}")
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in HOSTS:
            started[name] = start_host(name, folder / name, crontab, dsn)
        wait_until(lambda: all(is_up(started[name], folder / name) for name in HOSTS), saying="three crons are up")
        yield
    finally:
        for host in started.values():
            end_host(host)


def crontab_word(word: str) -> str:
    """Quoted for the shell, and for cron, to which a bare % ends the command."""
    return shlex.quote(word).replace("%", r"\%")


def start_host(name: str, home: Path, crontab: str, dsn: str) -> subprocess.Popen[bytes]:
    """Furnish its home, then start it; it dies with this process, even when that is killed with -9."""
    for folder in (home, home / "nothing", home / "run"):
        folder.mkdir()
    (home / "crontab").write_text(crontab)
    (home / "crontab").chmod(0o644)  # cron reads none that others may write
    (home / "run" / "cronguard.dsn").touch(mode=0o600)
    (home / "run" / "cronguard.dsn").write_text(dsn)
    with (home / "log").open("wb") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *NAMESPACES, str(HERE / "host"), name, str(home)],
            env={"PATH": SEARCH}, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def is_up(host: subprocess.Popen[bytes], home: Path) -> bool:
    """Whether its cron holds its pid file; CannotRun with the host's last words when it does not start."""
    if host.poll() is not None:
        words = " ".join((home / "log").read_text(errors="replace").split())
        raise CannotRun(f"{home.name} did not start: {words or f'exit {host.returncode}'}")
    return (home / "run" / "crond.pid").exists()


def end_host(host: subprocess.Popen[bytes]) -> None:
    """Kill the first process of its PID namespace: the kernel kills the others with it, and only then it is over."""
    for pid in children(host.pid) or [host.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    host.wait(timeout=10)


# --- The minutes ------------------------------------------------------------------------------------------------------


def label_of(tick: float) -> str:
    """The period that cronguard makes of this minute."""
    return time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(tick))


def wait_for_room_in_the_minute() -> None:
    """All three daemons are to be up before the minute turns."""
    left = MINUTE - time.time() % MINUTE
    if left < LEAD:
        time.sleep(left)


def watch(tick: float, ledger: Ledger) -> dict[str, Any]:
    """Wait for the minute, then until one host has run it and the others were told not to; say so."""
    label = label_of(tick)
    time.sleep(max(0.0, tick - time.time()))
    with suppress(AssertionError):  # not settled in time: then what there is by now is said, and judged at the end
        wait_until(lambda: is_settled(ledger.record(label)), SETTLED_WITHIN, every=0.3)
    record = ledger.record(label)
    skips = [f"{skip['host']} skipped ({skip['reason']})" for skip in record.get("skipped", [])]
    say(f"{label}  " + ", ".join([f"{record.get('host', 'nobody')} ran it", *skips]))
    return record


def is_settled(record: dict[str, Any]) -> bool:
    return record.get("state") == "succeeded" and record["skips"] == len(HOSTS) - 1


def tally(folder: Path, ledger: Ledger, minutes: int, last: str) -> None:
    """What the ledger says, what the job wrote, and what the crons' jobs said, if anything."""
    ledger.view("history", KEY, "-n", str(minutes))
    ledger.view("show", KEY, last)
    for path in [folder / "lines", *(folder / name / "run" / "tick.log" for name in HOSTS)]:
        if path.exists() and (text := path.read_text(errors="replace")):
            say(f"\n$ cat {path}\n{text}", end="")


def verdict(folder: Path, labels: list[str], records: list[dict[str, Any]]) -> int:
    """The last line, and the exit code: 0 only for exactly one line per minute, and three hosts that fired."""
    lines = (folder / "lines").read_text().splitlines() if (folder / "lines").exists() else []
    # A cron that was up early may have fired in the minute before the first that counts.
    counts = Counter(line.split()[0] for line in lines if line[:MINUTE_LABEL] >= labels[0][:MINUTE_LABEL])
    unsettled = [label for label, record in zip(labels, records, strict=True) if not is_settled(record)]
    if counts != Counter(labels):
        found = ", ".join(f"{label}: {counts[label]}" for label in sorted({*labels, *counts}))
        say(f"\nVERDICT: WRONG, not one line per minute ({found})")
    elif unsettled:
        say(f"\nVERDICT: WRONG, one line per minute, but not one success and two skips ({', '.join(unsettled)})")
    else:
        skips = sum(record["skips"] for record in records)
        say(f"\nVERDICT: RIGHT, exactly one line per minute (minutes: {len(labels)}, skips: {skips})")
        return 0
    return 1


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)


def _minutes(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _leave(number: int, _frame: object) -> None:
    """End as by the signal, but tear everything down first, undisturbed."""
    for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
