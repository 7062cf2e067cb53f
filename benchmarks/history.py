"""A ledger with a long history, for `large.py`: every row that so many runs would have left, made by SQL alone.

Keys fire every quarter of an hour, all alike, so that two histories differ in their length only. Rows go in as time
went, key by key within a period, and into their indexes as they come: neither lies closer together than in real life.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

EVERY = timedelta(minutes=15)
AT_ONCE = 500_000  # rows of one transaction
UNHEARD_OF = 9  # keys at the end whose newest run is not simply over

_RUNS = """
from (select format('job-%%s', lpad((n %% %(keys)s)::text, 3, '0')) as key,
             %(oldest)s::timestamptz + n / %(keys)s * %(every)s::interval as period_start, n,
             (n / %(keys)s + n %% %(keys)s) %% 50 = 7 as fails
        from generate_series(%(first)s::integer, %(last)s::integer) n) r
cross join lateral (select to_char(period_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"') as period,
                           period_start + interval '2s' as started_at, period_start + interval '50s' as finished_at,
                           (extract(epoch from period_start) * 1000)::bigint + 2000 as token,
                           md5(n::text)::uuid as holder, 'host-' || n %% 3 as host) t
"""
ROWS = {
    "run": f"""
insert into cronguard.run
       (key, period, state, lane, attempt, failures, recoveries, attempts_allowed, recoveries_allowed, token, holder,
        host, pid, period_start, period_end, zone, cadence, source, started_at, finished_at, complete_by, exit_code,
        reported_at)
select key, period, case when fails then 'failed' else 'succeeded' end, '', 1, fails::integer, 0, 1, 3, token, holder,
       host, 4711, period_start, period_start + %(every)s::interval, 'UTC', '15m', 'clock', started_at, finished_at,
       started_at + %(every)s::interval, fails::integer, case when fails then finished_at end
{_RUNS}""",
    "attempt": f"""
insert into cronguard.attempt
       (key, token, period, attempt, holder, host, pid, started_at, finished_at, outcome, exit_code)
select key, token, period, 1, holder, host, 4711, started_at, finished_at,
       case when fails then 'failed' else 'succeeded' end, fails::integer
{_RUNS}""",
    "skip": f"""
insert into cronguard.skip (key, period, reason, seen_at, host, pid)
select key, period, 'held', started_at, host, 4712
{_RUNS}
 where (n / %(keys)s + n %% %(keys)s) %% 10 = 3""",
}
JOBS = """
insert into cronguard.job (key, token, cadence, zone, last_period, last_started_at, claim_within)
select r.key, r.token, r.cadence, r.zone, r.period, r.started_at, interval '450s'
  from cronguard.run r where r.period_start = %(newest)s::timestamptz
"""
# The newest runs of the last keys: three that fail and one dead, of which nobody has told; two that wait, two that are
# live for as long as anybody measures, and one whose lease is over.
UNSETTLED = """
with unsettled (nth, state) as (
  values (1, 'failed'), (2, 'failed'), (3, 'failed'), (4, 'dead'), (5, 'pending'), (6, 'pending'),
         (7, 'running'), (8, 'running'), (9, 'running')),
changed as (
  update cronguard.run r
     set state = u.state, reported_at = null,
         finished_at = case when u.state in ('failed', 'dead') then r.finished_at end,
         exit_code = case when u.state = 'failed' then 1 end,
         claim_by = case when u.state = 'pending' then clock_timestamp() + interval '1 day' end,
         complete_by = case when u.state = 'running' then null else r.complete_by end
    from unsettled u
   where r.key = format('job-%%s', lpad((%(keys)s - u.nth)::text, 3, '0')) and r.period_start = %(newest)s::timestamptz
  returning r.*, u.nth),
tried as (
  update cronguard.attempt a
     set outcome = case c.state when 'failed' then 'failed' when 'running' then null else 'lost' end,
         finished_at = case when c.state <> 'running' then a.finished_at end, exit_code = c.exit_code
    from changed c where a.key = c.key and a.token = c.token)
insert into cronguard.lease (key, lane, period, token, holder, host, pid, lease_until)
select key, lane, period, token, holder, host, pid,
       clock_timestamp() + case nth when 9 then '-1 hour' else '1 day' end::interval
  from changed where state = 'running'
"""


@dataclass(frozen=True)
class History:
    """So many runs of so many keys, the newest period of each starting at `newest`."""

    runs: int
    keys: int
    newest: datetime

    def write(self, dsn: str) -> None:
        """The tables side by side; then what depends on them, and what a ledger that has lived would know of it."""
        with ThreadPoolExecutor(2) as hands:
            list(hands.map(lambda table: self._fill(dsn, table), ROWS))
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(JOBS.encode(), self._asked())
            connection.execute(UNSETTLED.encode(), self._asked())
            connection.execute("vacuum (analyze)")

    def _fill(self, dsn: str, table: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("set synchronous_commit = off")
            for first in range(0, self.runs, AT_ONCE):
                last = min(first + AT_ONCE, self.runs) - 1
                connection.execute(ROWS[table].encode(), {**self._asked(), "first": first, "last": last})

    def _asked(self) -> Mapping[str, Any]:
        oldest = self.newest - (self.runs // self.keys - 1) * EVERY
        return {"keys": self.keys, "every": EVERY, "oldest": oldest, "newest": self.newest}
