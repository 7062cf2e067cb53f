-- What people ask about whole keys, by name. Each statement reads a bounded number of rows, by an index.

-- name: jobs
select * from cronguard.job order by key

-- name: latest_runs
-- The newest period that has begun, the run that was seen last, and those that somebody has a lease of.
select r.*
  from cronguard.run r
 where r.key = %(key)s
   and r.period in (select a.period from (select period from cronguard.run where key = %(key)s and period_start <= %(begun_by)s
                                           order by period_start desc nulls last limit 1) a
                    union select b.period from (select period from cronguard.run where key = %(key)s
                                                 order by coalesce(started_at, finished_at) desc nulls last limit 1) b
                    union select l.period from cronguard.lease l where l.key = %(key)s)

-- name: last_ends
-- From the newest back to the first success, a bounded walk; the failures have an index of their own.
select (select r.finished_at
          from (select state, finished_at, coalesce(started_at, finished_at) as seen_at
                  from cronguard.run where key = %(key)s
                 order by coalesce(started_at, finished_at) desc nulls last limit %(deep)s) r
         where r.state = 'succeeded' order by r.seen_at desc nulls last limit 1) as last_success_at,
       (select finished_at from cronguard.run
         where key = %(key)s and state in ('failed', 'timed_out', 'dead', 'missed')
         order by finished_at desc nulls last limit 1) as last_failure_at

-- name: recent_successes
select r.started_at, r.finished_at
  from (select state, started_at, finished_at from cronguard.run where key = %(key)s
         order by coalesce(started_at, finished_at) desc nulls last limit %(recent)s) r
 where r.state = 'succeeded'

-- name: recent_runs
select * from cronguard.run where key = %(key)s order by coalesce(started_at, finished_at) desc nulls last limit %(limit)s

-- name: count_attempts
select a.host, a.outcome, count(*) as count
  from (select period from cronguard.run where key = %(key)s
         order by coalesce(started_at, finished_at) desc nulls last limit %(limit)s) r
  join cronguard.attempt a on a.key = %(key)s and a.period = r.period
 group by a.host, a.outcome
 order by a.host, a.outcome

-- name: count_skips
select s.host, s.reason, count(*) as count
  from (select period from cronguard.run where key = %(key)s
         order by coalesce(started_at, finished_at) desc nulls last limit %(limit)s) r
  join cronguard.skip s on s.key = %(key)s and s.period = r.period
 group by s.host, s.reason
 order by s.host, s.reason
