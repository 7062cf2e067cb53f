"""What the facts about this host mean: its zone data, its folders, its processes, and the stream we print to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from cronguard.domain.diagnosis import Diagnosis, note, ok, problem, told_apart, warning
from cronguard.domain.ground import Asked, Folder, Host, Output, State, Zone

LONGEST_RESULT = 4 << 20  # bytes: a result with the most output that --capture keeps, as it is written, and some air
LITTLE_SPACE = 64 << 20  # bytes
SHOWN = 3  # results, by name
FEWEST_OPEN_FILES, FEW_OPEN_FILES = 20, 128  # cronguard itself has up to 16 open; the command inherits the limit
FEWEST_PROCESSES, FEW_PROCESSES = 8, 64  # more than there are: two of our own, and what the command forks


# --------------------------------------------------------------------------- settings


def settings_checked(asked: Asked) -> Iterator[Diagnosis]:
    what = f"the configuration is {asked.config}" if asked.config else "there is no configuration file: none is needed"
    yield ok("settings.configuration", what)
    for name, near in asked.unknown_variables.items():
        advice = f"did you mean {near}?" if near else f"unset {name}"
        yield warning("settings.variables", f"{name} is set, and no setting is called so", "it has no effect", advice)


# --------------------------------------------------------------------------- the zone


def zone_checked(zone: Zone, at_ledger: tuple[timedelta, ...] | None) -> Iterator[Diagnosis]:
    """`at_ledger`: what the server's own zone data say of the same instants; None: it was not asked, or knows none."""
    if zone.failure:
        what, to_type = told_apart(zone.failure)
        yield problem("zone.data", what, "no day begins or ends without it: cronguard run exits 125", to_type)
        return
    yield ok("zone.data", f"the calendar of this host is that of {zone.name}, and its zone data are there")
    if at_ledger is None or not zone.offsets:
        return
    if at_ledger != zone.offsets:
        yield warning(
            "zone.agreement", f"this host and the ledger's server differ about the clocks in {zone.name}",
            "one has older zone data; hosts that differ so choose different periods",
            "apt-get install --only-upgrade tzdata   # on both, and pip install --upgrade tzdata here",
        )  # fmt: skip
    else:
        yield ok("zone.agreement", f"the ledger's server has the same clock changes for {zone.name}, two years ahead")


# --------------------------------------------------------------------------- folders


def state_checked(state: State) -> Iterator[Diagnosis]:
    """Where undelivered results are kept. Without such a place there is none for a ledger either, which is told of."""
    if state.failure:
        what, to_type = told_apart(state.failure)
        yield warning("state.folder", what, "a result that cannot be delivered has only /tmp to be kept in", to_type)
    yield from _folders(state)
    if state.waiting:
        yield warning(
            "state.results", f"{_results(len(state.waiting))} on this host to be delivered: {_some(state.waiting)}",
            "until then those runs read as running, and then as lost", "cronguard history   # delivers what it can",
        )  # fmt: skip
    else:
        yield ok("state.results", "no result waits on this host to be delivered")
    if state.strangers:
        where = state.folders[0].path
        yield note(
            "state.strangers", f"{_results(state.strangers)} here for another ledger, or cannot be read",
            "it is delivered when cronguard is called with that ledger's DSN", f"ls {where}",
        )  # fmt: skip


def _results(count: int) -> str:
    return "1 result waits" if count == 1 else f"{count} results wait"


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _folders(state: State) -> Iterator[Diagnosis]:
    if not state.folders:
        return
    first = state.folders[0]
    good = next((folder for folder in state.folders if not folder.failure), None)
    if good is None:
        yield problem(
            "state.folder", f"nothing can be written to {first.path}: {first.failure}; nor to {_others(state)}",
            "a result that cannot be delivered is lost: its run reads as lost, and is run again",
            "set CRONGUARD_STATE_DIR to a folder that this user can write",
        )  # fmt: skip
        return
    if good is not first:
        yield warning(
            "state.folder", f"nothing can be written to {first.path}: {first.failure}",
            f"results that cannot be delivered go to {good.path}, which a reboot may empty",
            "set CRONGUARD_STATE_DIR to a folder that this user can write",
        )  # fmt: skip
    elif not state.failure:
        is_there = "" if good.is_there else ", which will be made when it is needed"
        yield ok("state.folder", f"results that cannot be delivered go to {good.path}{is_there}")
    yield _space(good)


def _others(state: State) -> str:
    return ", ".join(folder.path for folder in state.folders[1:])


def _space(folder: Folder) -> Diagnosis:
    why = "a result that cannot be delivered has to fit there, and so has a ledger on this host"
    if folder.free_files is not None and folder.free_files < 1:
        return problem("state.space", f"no more files can be made in {folder.path}", why, f"df -i {folder.path}")
    free = folder.free_bytes
    if free is None:
        return note("state.space", f"how much room {folder.path} has is not known", why)
    what = f"{_size(free)} are free in {folder.path}"
    if free < LONGEST_RESULT:
        return problem("state.space", what, why, f"df -h {folder.path}")
    return warning("state.space", what, why, f"df -h {folder.path}") if free < LITTLE_SPACE else ok("state.space", what)


def _size(size: int) -> str:
    amount, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if amount >= 10 or unit == "bytes" else f"{amount:.1f} {unit}"


# --------------------------------------------------------------------------- processes


def _pid(it: Host) -> Iterator[Diagnosis]:
    if it.pid == 1:
        why = "harmless: cronguard passes signals on, and takes the status of whoever is orphaned"
        yield note("process.pid", "this is PID 1: of a container, it seems", why)
    if it.inside:
        what = f"this process is in {' and '.join(it.inside)} of its own"
        why = "pids in the ledger, and paths such as /tmp, are those that it knows in there; fine in a container"
        yield note("process.namespace", what, why)
    if it.name.partition(".")[0] == "localhost":
        why = "the ledger tells hosts apart for people by this name; if all are called so, nobody can"
        yield note("process.host", f"this host calls itself {it.name}", why, "hostnamectl set-hostname NAME")


def _subreaper(it: Host) -> Iterator[Diagnosis]:
    if it.adopts:
        yield ok("process.subreaper", "orphaned processes come to their guard: tried out")
    else:
        yield problem(
            "process.subreaper", "orphaned processes do not come to their guard (PR_SET_CHILD_SUBREAPER)",
            "a daemon that the command starts would outlive its run, and run beside the next",
            "use Linux 3.4 or newer; in a sandbox, let it allow prctl(2)",
        )  # fmt: skip


def _proc(it: Host) -> Iterator[Diagnosis]:
    if not it.lists_children:
        yield problem(
            "process.proc", "/proc does not list the children of a process",
            "descendants could not be found: neither frozen in an outage, nor killed at their deadline",
            "mount -t proc proc /proc   # and a kernel with CONFIG_PROC_CHILDREN",
        )  # fmt: skip
    elif it.hidepid:
        why = "what a command starts as another user (sudo) is hidden, and cannot be frozen or named"
        yield note("process.proc", f"/proc hides other users' processes (hidepid={it.hidepid})", why)
    else:
        yield ok("process.proc", "/proc is mounted, and lists the children of a process")


def _memory(it: Host) -> Iterator[Diagnosis]:
    if it.oom_counter:
        yield ok("process.memory", "the kernel counts those that it kills for want of memory, and it can be read")
    else:
        why = "where a shell swallows that one of its commands was killed so, it reads as its own exit code says"
        yield note("process.memory", "how many processes the kernel killed for want of memory cannot be read", why)


def _limits(it: Host) -> Iterator[Diagnosis]:
    files, spare = it.open_files, None if it.processes is None else it.processes - it.own_processes
    if files is not None and files < FEW_OPEN_FILES:
        judged = problem if files < FEWEST_OPEN_FILES else warning
        why = "cronguard has up to 16 open, and the command inherits the limit"
        yield judged("process.limits", f"at most {files} files may be open (RLIMIT_NOFILE)", why, "ulimit -n 1024")
    if spare is not None and spare < FEW_PROCESSES and it.uid:  # root is not held to it
        judged = problem if spare < FEWEST_PROCESSES else warning
        what = f"this user may have {it.processes} processes (RLIMIT_NPROC), and has {it.own_processes}"
        why = "cronguard is two processes, and the command forks more"
        yield judged("process.limits", what, why, "ulimit -u 4096   # in limits.conf for what cron starts")
    elif files is None or files >= FEW_OPEN_FILES:
        yield ok("process.limits", "open files and processes are limited to no less than a job may need")


def _user(it: Host) -> Iterator[Diagnosis]:
    if it.user is None:
        why = "fine in a container; cron has no crontab for such a user, and HOME must be set for a ledger on this host"
        yield note("process.user", f"uid {it.uid} has no name here", why)


Rule = Callable[[Host], Iterator[Diagnosis]]
HOST_RULES: tuple[Rule, ...] = (_pid, _user, _subreaper, _proc, _memory, _limits)


# --------------------------------------------------------------------------- output


def output_checked(it: Output) -> Iterator[Diagnosis]:
    if it.locale_failure:
        why = "programs fall back on ASCII, and what is not ASCII is shown as escapes"
        yield note("output.locale", f"the locale is not there: {it.locale_failure}", why, "export LC_ALL=C.UTF-8")
    if it.encoding.lower().replace("-", "") not in ("utf8", "utf_8"):
        why = "what it does not know, in a key or in a command's output, is shown as an escape"
        yield note("output.encoding", f"what is printed is in {it.encoding}", why, "export LC_ALL=C.UTF-8")
    else:
        yield ok("output.encoding", "what is printed is in UTF-8")
