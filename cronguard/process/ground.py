"""What this process stands on, for `cronguard doctor`: found out by trying where that can be done, and undone."""

from __future__ import annotations

import locale
import os
import pwd
import resource
import sys
from contextlib import suppress
from pathlib import Path

from cronguard.domain.ground import Host, Output
from cronguard.process import oom
from cronguard.process.linux import become_subreaper
from cronguard.process.tree import lists_children

# The numbers that the kernel gives to the namespaces of the machine itself (include/linux/proc_ns.h).
_OF_THE_MACHINE = {"pid": ("a PID namespace", 0xEFFFFFFC), "user": ("a user namespace", 0xEFFFFFFD)}


def host_seen() -> Host:
    """The host as a run would find it; to be called before there is any thread or connection, since it forks."""
    return Host(
        name=os.uname().nodename,
        uid=os.geteuid(),
        pid=os.getpid(),
        user=user_name(),
        adopts=_adopts_orphans(),
        lists_children=lists_children(),
        hidepid=_hidepid(),
        oom_counter=oom.counter(),
        open_files=_soft_limit(resource.RLIMIT_NOFILE),
        processes=_soft_limit(resource.RLIMIT_NPROC),
        own_processes=_own_processes(),
        inside=tuple(_namespaces_of_our_own()),
    )


def user_name() -> str | None:
    """The name of whoever we are; None where /etc/passwd does not tell."""
    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return None


def output_seen() -> Output:
    """The stream that our own words and tables go to."""
    stream = sys.stdout
    return Output((stream and stream.encoding) or "ascii", _locale_failure())


def _locale_failure() -> str:
    try:
        locale.setlocale(locale.LC_CTYPE, "")
    except locale.Error as error:
        return str(error)
    return ""


def _soft_limit(which: int) -> int | None:
    soft, _ = resource.getrlimit(which)
    return None if soft == resource.RLIM_INFINITY else soft


def _own_processes() -> int:
    """Threads count too, as they do for the limit."""
    count = 0
    with suppress(OSError):
        for entry in os.scandir("/proc"):
            with suppress(OSError):  # gone meanwhile
                if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                    count += sum(1 for _ in Path(entry.path, "task").iterdir())
    return count


def _hidepid() -> str:
    """The option with which /proc is mounted, by the last of several mounts; nothing where it hides nobody."""
    found = ""
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
            before, _, after = line.partition(" - ")
            if before.split()[4] == "/proc":
                options = dict(option.partition("=")[::2] for option in after.split()[-1].split(","))
                found = options.get("hidepid", "")
    return "" if found in ("0", "off") else found


def _namespaces_of_our_own() -> list[str]:
    found = []
    for name, (words, of_the_machine) in _OF_THE_MACHINE.items():
        with suppress(OSError):
            found += [words] if Path(f"/proc/self/ns/{name}").stat().st_ino != of_the_machine else []
    with suppress(OSError):  # the machine's own has no number that is known
        found += ["a mount namespace"] if not Path("/proc/self/ns/mnt").samefile("/proc/1/ns/mnt") else []
    return found


def _adopts_orphans() -> bool:
    """In a child, since who is a subreaper stays one: does an orphan come to it?"""
    trial = os.fork()
    if trial == 0:
        code = 1
        with suppress(BaseException):
            code = 0 if become_subreaper() and _has_got_an_orphan() else 1
        os._exit(code)
    return os.waitpid(trial, 0)[1] == 0


def _has_got_an_orphan() -> bool:
    """A child that forks and ends leaves its own child to whoever is above."""
    above, (wait_here, until_then), (ours, theirs) = os.getpid(), os.pipe(), os.pipe()
    between = os.fork()
    if between == 0:
        if os.fork() == 0:
            os.close(until_then)
            _tell_who_adopts(wait_here, theirs, above)
        os._exit(0)
    os.close(theirs)
    os.waitpid(between, 0)
    os.close(until_then)
    return os.read(ours, 1) == b"y"


def _tell_who_adopts(wait_here: int, theirs: int, above: int) -> None:
    """Once the one between is gone for sure."""
    with suppress(BaseException):
        os.read(wait_here, 1)
        os.write(theirs, b"y" if os.getppid() == above else b"n")
    os._exit(0)
