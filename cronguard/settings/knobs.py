"""Every knob of cronguard, once: its name, default, meaning, and how its text is read.

A knob `lease` is the option --lease, the variable CRONGUARD_LEASE and the key
`lease` in [defaults] and in [jobs."KEY"] of the configuration. All three give
text; one parser reads it, so that one sentence says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cronguard.settings import parsers as read


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that can be set."""

    name: str
    parse: Callable[[str], Any]
    help: str
    default: str | None = None  # as a person would type it; None: nothing, or what the help says
    metavar: str = "TEXT"
    per_job: bool = True  # may stand in [jobs."KEY"]; what says where the ledger is may not

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "CRONGUARD_" + self.name.upper()

    @property
    def is_flag(self) -> bool:
        return self.parse is read.flag

    @property
    def is_path(self) -> bool:
        return self.parse is read.path


KNOBS: tuple[Knob, ...] = (
    # which run
    Knob("key", read.key, "the job's name, the same on every host", metavar="KEY", per_job=False),
    Knob(
        "every", read.cadence, "cadence: minute, hour, day, week, month, quarter, year, 15m, or run (day)",
        metavar="CADENCE",
    ),
    Knob("schedule", read.schedule, "cron expression: the period is that of the nominal tick", metavar="CRON"),
    Knob("tz", read.zone, "IANA time zone of the calendar (the key's, else this host's)", metavar="ZONE"),
    Knob("period", read.text, "run this period: a label, current or previous", metavar="PERIOD", per_job=False),
    Knob(
        "scheduled_at", read.instant, "the nominal time, RFC 3339, such as 2026-11-30T06:00:00Z",
        metavar="TIME", per_job=False,
    ),
    Knob(
        "job_name", read.text, "a Kubernetes Job's name, which tells the nominal time",
        metavar="NAME", per_job=False,
    ),
    # how long, how often
    Knob(
        "complete_by", read.deadline, "when it must be over: 15m, 07:00, an instant, or never (one cadence)",
        metavar="WHEN",
    ),
    Knob("start_by", read.deadline, "later than that, do not start: the same forms (none)", metavar="WHEN"),
    Knob(
        "extend_max", read.allowance, "how much later the command may make its complete-by, in all; 0: not at all",
        "0", "DURATION",
    ),
    Knob("attempts", read.positive, "tries of a command that fails, made in place", "1", "N"),
    Knob("retry_delay", read.duration, "pause before the next try; doubles each time, with jitter", "30s", "DURATION"),
    Knob("recoveries", read.count, "how often a run whose holder died may be run again; 0: never", "3", "N"),
    Knob(
        "claim_within", read.duration, "how soon somebody should come for a recovered run (1h or half a cadence)",
        metavar="DURATION",
    ),
    Knob("exclusive", read.exclusive, "what excludes what: key (one run of the key) or period", "key", "key|period"),
    Knob("if_held", read.if_held, "held by another: skip, or wait (stand by and take over)", "skip", "skip|wait"),
    Knob("rerun", read.flag, "run although this period failed or ran out of time", "false", per_job=False),
    Knob(
        "force", read.flag, "with --rerun: also although it succeeded; begins anew, with no step done", "false",
        per_job=False,
    ),
    Knob(
        "accept_changed_steps", read.flag, "go on with a run although its list of steps has changed", "false",
        per_job=False,
    ),
    # older periods
    Knob("only_pending", read.flag, "run what is pending of the key, and nothing else", "false", per_job=False),
    Knob("catch_up", read.count, "older periods, pending or missed, to run before its own, at most", "0", "N"),
    Knob("catch_up_window", read.duration, "how long ago such a period may have ended", "7d", "DURATION"),
    # the lease
    Knob("lease", read.duration, "how long a holder that is silent keeps its run", "60s", "DURATION"),
    Knob("lock", read.lock, "what a run is held by: claim, or advisory (a lock besides)", "claim", "claim|advisory"),
    Knob("beat_every", read.duration, "how often the lease is renewed (a sixth of it)", metavar="DURATION"),
    Knob("stop_grace", read.duration, "between asking the command to stop and killing it", "8s", "DURATION"),
    # the command
    Knob(
        "on_silence", read.on_silence, "no word from the ledger for a lease: freeze the command, kill it, or continue",
        "freeze", "freeze|kill|continue",
    ),
    Knob(
        "stragglers", read.stragglers, "processes that the command leaves behind: kill, wait for them, or leave them",
        "kill", "kill|wait|leave",
    ),
    Knob(
        "stall_after", read.duration, "stopped when it neither says anything nor calls cronguard beat so long (never)",
        metavar="DURATION",
    ),
    Knob("skip_exit", read.exit_code, "exit code where nothing was to be done", "0", "N"),
    Knob("expand", read.flag, "replace {period}, {period_start}, {period_end}, {key}, {token} in arguments", "false"),
    Knob("quiet", read.flag, "hold the output back and print it only if the command fails", "false"),
    Knob("capture", read.size, "bytes of output to remember, half each of start and end; 0: none", "16k", "SIZE"),
    # the ledger
    Knob(
        "dsn", read.text, "the ledger: postgresql://… or sqlite:///path (a file in the state directory)",
        metavar="DSN", per_job=False,
    ),
    Knob("dsn_file", read.path, "a file that holds the DSN, such as a mounted secret", metavar="FILE", per_job=False),
    Knob("state_dir", read.path, "where the local ledger and undelivered results lie", metavar="DIR", per_job=False),
    Knob("durable", read.flag, "a claim or result counts only once a synchronous standby of Postgres has it", "false"),
    Knob("db_wait", read.duration, "how long to try to reach the ledger before giving up with 75", "30s", "DURATION"),
    Knob("config", read.path, "the configuration file, instead of the usual places", metavar="FILE", per_job=False),
)  # fmt: skip

BY_NAME: dict[str, Knob] = {knob.name: knob for knob in KNOBS}

# What `run` tells its command, or was told about this one firing, also names knobs: inside a run it is about
# that run, not about the next one.
ABOUT_THE_RUN = frozenset({
    "key", "period", "tz", "complete_by", "scheduled_at", "job_name", "rerun", "force",
    "accept_changed_steps", "only_pending",
})  # fmt: skip
INSIDE_A_RUN = "CRONGUARD_TOKEN"
