"""What a long history costs: python -m benchmarks.large [--runs 10000000] [--small 10000] [--plans].

Two ledgers in one Postgres with fsync on, with the same keys and as many runs of each as fit: 250 and 250,000. Each
operation is timed in the one and then in the other, round after round, and must not take more than twice as long in
the larger. It is timed within the process, on one connection that is kept: a start of Python and a connection would
only hide what grows.

Then beats on a lease, as they come: each must be HOT, and the table must not grow. For these alone commits do not wait
for the disk.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from benchmarks.history import EVERY, UNHEARD_OF, History
from benchmarks.report import machine, print_table
from cronguard.domain.claim import Granted
from cronguard.domain.expectation import LOOKED_BACK
from cronguard.domain.period import PeriodRequest
from cronguard.domain.pruning import Keep
from cronguard.domain.text import format_instant
from cronguard.services.prune import RUNS_AT_ONCE, SKIPS_AT_ONCE, _one_batch
from cronguard.services.reading import history_of, statuses_of
from cronguard.stores.overview_rows import DEEP, RECENT
from cronguard.stores.postgres_connection import Row, connect
from cronguard.stores.postgres_supervision import SupervisedPostgres
from cronguard.stores.statements import statements
from tests.rig.firings import TERMS, claim, finish, firing, granted, ledger_on, refusal
from tests.rig.postgres import Server
from tests.rig.waiting import wait_until
from tests.rig.watching import NOTHING_WAITS, found, pass_over

KEYS = 40
ROUNDS = KEYS - UNHEARD_OF - 1  # a key for each; the first round is not counted
AIM = 2.0
KEPT = Keep(timedelta(hours=1), 50)  # of 250 runs of a key, so that 200 may go
HISTORY_SHOWN, RUNS_IN_METRICS = 20, 100  # what the command line asks for
SETTINGS: dict[str, Any] = {
    "fsync": "on",
    "full_page_writes": "on",
    "shared_buffers": "128MB",  # Postgres's own
    "max_wal_size": "16GB",  # these three for the sake of writing so many rows at once
    "checkpoint_timeout": "30min",
    "autovacuum_vacuum_insert_threshold": -1,
}


class Kept(SupervisedPostgres):
    """The fleet's ledger on one connection, however often it would make a new one."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, "the benchmark's ledger", "bench", 60.0)
        self.connection = connect(dsn, "bench", 60.0)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        yield self.connection

    def close(self) -> None:
        self.connection.close()


@dataclass
class Site:
    """One of the two ledgers, and what is under way in it."""

    store: Kept
    newest: datetime  # of the periods that it has
    claimed: dict[str, str] = field(default_factory=dict)  # the period that was run last, by key
    beating: Granted | None = None

    def key(self, nth: int) -> str:
        return f"job-{nth:03}"


def main() -> None:
    options = _options()
    with Server(**SETTINGS) as server:
        print(machine(server.execute("show server_version")[0][0].split()[0]))
        print(", ".join(f"{name} {value}" for name, value in SETTINGS.items()), end="\n\n")
        small, large = (_made(server, runs) for runs in (options.small, options.runs))
        server.execute("checkpoint")
        _compare(small, large, options)
        if options.plans:
            _print_plans(large.store)
        small.store.close()
        large.store.close()
        _beat(server, options.beats)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000_000, help="in the larger ledger [10000000]")
    parser.add_argument("--small", type=int, default=10_000, help="in the smaller, at least 10000 [10000]")
    parser.add_argument("--beats", type=int, default=100_000, help="on one lease, and on 500 [100000]")
    parser.add_argument("--plans", action="store_true", help="show how the larger ledger is read")
    options = parser.parse_args()
    if min(options.runs, options.small) < 250 * KEYS:
        parser.error(f"a batch of a prune takes {RUNS_AT_ONCE} runs of each of {KEYS} keys: not less than {250 * KEYS}")
    return options


def _made(server: Server, runs: int) -> Site:
    """A ledger whose last two periods are still to come."""
    began_at = time.monotonic()
    store = Kept(server.dsn(server.create_database()))
    store.migrate()
    now = datetime.now(UTC)
    site = Site(store, now - timedelta(seconds=now.timestamp() % EVERY.total_seconds()) - 2 * EVERY)
    database = store.connection.info.dbname
    History(runs, KEYS, site.newest).write(server.dsn(database, user="postgres"))
    size = server.execute("select pg_size_pretty(pg_database_size(current_database()))", database=database)[0][0]
    print(f"{runs:,} runs of {KEYS} keys: {size}, made in {time.monotonic() - began_at:.0f} s", end="\n\n", flush=True)
    return site


# --------------------------------------------------------------------------- the operations: prepared, then timed


def _quiet_pass(site: Site, nth: int) -> Callable[[], None]:
    def act() -> None:
        passed = pass_over(site.store)
        assert bool(passed.findings) is (nth == 0), passed  # the first finds what nobody has been told of

    return act


def _recovering_pass(site: Site, nth: int) -> Callable[[], None]:
    """One run is stale: of the last period but one, so that the last is left to a claim."""
    label = format_instant(site.newest + EVERY).replace(":00Z", "Z")
    asked = firing(key=site.key(nth), every="15m", request=PeriodRequest(label=label))
    lease = granted(claim(site.store, asked)).lease
    over = "update cronguard.lease set lease_until = clock_timestamp() - interval '1s' where key = %s and token = %s"
    site.store.connection.execute(over, [lease.key, lease.token])

    def act() -> None:
        passed = pass_over(site.store)
        assert found(passed) == [("recovery", label)], passed

    return act


def _winning(site: Site, nth: int) -> Callable[[], None]:
    asked = firing(key=site.key(nth), every="15m")

    def act() -> None:
        held = granted(claim(site.store, asked))
        assert finish(site.store, held) == "mine"
        site.claimed[held.run.key] = held.run.period

    return act


def _losing(site: Site, nth: int) -> Callable[[], None]:
    key = site.key(nth)
    asked = firing(key=key, every="15m", period=site.claimed[key])

    def act() -> None:
        assert refusal(claim(site.store, asked)) == "already_succeeded"

    return act


def _beating(site: Site, nth: int) -> Callable[[], None]:
    held = site.beating = site.beating or granted(claim(site.store, key="beats", every="15m"))

    def act() -> None:
        assert site.store.beat(held.lease, TERMS.lease_for, TERMS.slack)

    return act


def _status(site: Site, nth: int) -> Callable[[], None]:
    return lambda: _must(statuses_of(ledger_on(site.store), NOTHING_WAITS, []), KEYS)


def _history(site: Site, nth: int) -> Callable[[], None]:
    key = site.key(nth)
    return lambda: _must(history_of(ledger_on(site.store), NOTHING_WAITS, key, HISTORY_SHOWN), HISTORY_SHOWN)


def _whole_history(site: Site, nth: int) -> Callable[[], None]:
    return lambda: _must(history_of(ledger_on(site.store), NOTHING_WAITS, None, HISTORY_SHOWN), HISTORY_SHOWN)


def _metrics(site: Site, nth: int) -> Callable[[], None]:
    return lambda: _must(site.store.metrics(None, RUNS_IN_METRICS).keys, KEYS)


def _prune_runs(site: Site, nth: int) -> Callable[[], None]:
    def act() -> None:
        assert _one_batch(site.store, site.key(nth), KEPT) == RUNS_AT_ONCE

    return act


def _prune_skips(site: Site, nth: int) -> Callable[[], None]:
    """They belong to runs, so that none goes."""

    def act() -> None:
        assert site.store.prune_skips(KEPT, 0, SKIPS_AT_ONCE)[0] == 0

    return act


def _must(answer: Sequence[object], at_least: int) -> None:
    assert len(answer) >= at_least, answer


OPERATIONS = {
    "supervise: a pass that finds nothing": _quiet_pass,
    "supervise: a pass that recovers a run": _recovering_pass,
    "supervise --metrics: the figures of all keys": _metrics,
    "status of all keys": _status,
    "history KEY": _history,
    "history of all keys": _whole_history,
    "run: claim of a new period, and its finish": _winning,
    "run: claim that loses": _losing,
    "beat": _beating,
    f"prune: {SKIPS_AT_ONCE} skips looked at": _prune_skips,
    f"prune: a batch of {RUNS_AT_ONCE} runs": _prune_runs,
}


# --------------------------------------------------------------------------- timed, and judged


def _compare(small: Site, large: Site, options: argparse.Namespace) -> None:
    rows = []
    for name, operation in OPERATIONS.items():
        rounds = [[_timed(operation(site, nth)) for site in (small, large)] for nth in range(ROUNDS + 1)][1:]
        at_small, at_large = (median(times) for times in zip(*rounds, strict=True))
        ratio = at_large / at_small
        met = "yes" if ratio <= AIM else "NO"
        rows.append([name, f"{at_small:.2f}", f"{at_large:.2f}", f"{ratio:.2f}", f"{AIM:.0f}", met])
    titles = (f"ms at {options.small:,} runs", f"ms at {options.runs:,} runs", "ratio", "at most", "met")
    print(f"medians of {ROUNDS} rounds")
    print_table(("operation", *titles), rows)


def _timed(act: Callable[[], None]) -> float:
    began_at = time.perf_counter()
    act()
    return (time.perf_counter() - began_at) * 1000


# --------------------------------------------------------------------------- plans

PLANNED = (
    "survey_leases", "survey_candidates", "survey_expected", "read_runs_of", "read_requests_of",
    "metrics_keys", "metrics_last", "metrics_runs", "metrics_skips",
    "jobs", "read_leases", "latest_runs", "last_ends", "recent_successes", "history_of_key", "history",
    "read_job", "read_runs", "note_foregone", "close_attempt", "beat", "backlog",
    "show", "attempts_of_run", "skips_of_run", "recent_runs", "count_attempts", "count_skips",
    "skips_after", "aged_runs", "drop_attempts_of_run", "drop_skips_of_run", "drop_requests_of_run", "drop_run",
)  # fmt: skip


def _print_plans(store: Kept) -> None:
    asked = _asked(store)
    print("Plans in the larger ledger, their nodes only:\n\n```")
    for name in PLANNED:
        explain = f"explain (costs off) {statements('postgres')[name]}".encode()
        lines = [str(*row.values()) for row in store.connection.execute(explain, asked)]
        print(name, *filter(_is_node, lines), sep="\n  ")
    print("```\n", flush=True)


def _asked(store: Kept) -> Row:
    """Whatever any of them asks for, of the first key."""
    now = datetime.now(UTC)
    shown = store.history("job-000", 1)[0].run
    assert shown
    known = {field: getattr(shown, field) for field in ("key", "period", "token")}
    unknown = dict.fromkeys(re.findall(r"%\((\w+)\)s", " ".join(statements("postgres")[name] for name in PLANNED)))
    return unknown | known | {
        "now": None, "periods": [shown.period], "begun_by": now, "before": now - KEPT.for_, "last": KEPT.last,
        "deep": DEEP, "recent": RECENT, "runs": RUNS_IN_METRICS, "looked_back": LOOKED_BACK, "after": 0,
        "limit": RUNS_AT_ONCE, "lease_for": TERMS.lease_for, "slack": TERMS.slack, "lane": "", "missed": True,
        "holder": shown.holder and shown.holder.id,
    }  # fmt: skip


def _is_node(line: str) -> bool:
    """Not what a node has to say of itself: `Index Cond: …`."""
    return not re.match(r"\s*[A-Z][\w ]*: ", line)


# --------------------------------------------------------------------------- beats


def _beat(server: Server, beats: int) -> None:
    rows = [_beaten(server, beats, leases) for leases in (1, 500)]
    titles = ("beats", "of them HOT", "table kB before", "after", "index kB before", "after", "all HOT, nothing grew")
    print_table(("leases", *titles), rows)


def _beaten(server: Server, beats: int, leases: int) -> list[str]:
    """In turn on each lease of a ledger of their own; its statistics are complete when its connection is closed."""
    database = server.create_database()
    store = Kept(server.dsn(database))
    store.migrate()
    store.connection.execute("set synchronous_commit = off")
    held = [granted(claim(store, key=f"job-{n:03}", every="15m")).lease for n in range(leases)]
    before = _sizes(server, database)
    for n in range(beats):
        assert store.beat(held[n % leases], TERMS.lease_for, TERMS.slack)
    store.close()
    wait_until(lambda: _updates(server, database)[0] >= beats, saying="Postgres has counted all beats")
    (updated, hot), after = _updates(server, database), _sizes(server, database)
    sizes = [f"{size / 1024:.0f}" for pair in zip(before, after, strict=True) for size in pair]
    met = updated == hot and before == after
    return [str(leases), f"{updated:,}", f"{hot:,}", *sizes, "yes" if met else "NO"]


def _updates(server: Server, database: str) -> tuple[int, int]:
    counted = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relid = 'cronguard.lease'::regclass"
    return server.execute(counted, database=database)[0]  # type: ignore[no-any-return]


def _sizes(server: Server, database: str) -> tuple[int, int]:
    sizes = "select pg_relation_size('cronguard.lease'), pg_relation_size('cronguard.lease_pkey')"
    return server.execute(sizes, database=database)[0]  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
