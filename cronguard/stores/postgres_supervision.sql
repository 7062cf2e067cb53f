-- Every statement that only a supervisor makes of the Postgres ledger; the rest, and how they are written, in
-- postgres.sql. The clock is asked for by a sub-select where an index shall be used: by itself it is volatile.

-- name: survey_leases
select coalesce(sum(case when lease_until >= c.clock then 1 else 0 end), 0)::integer as live,
       coalesce(sum(case when lease_until < c.clock then 1 else 0 end), 0)::integer as lapsed
  from cronguard.lease
 cross join (select coalesce(%(now)s::timestamptz, clock_timestamp()) as clock) c

-- name: survey_candidates
-- One place where something may be to do, whatever it is: the decision is made on its page.
with c as materialized (select coalesce(%(now)s::timestamptz, clock_timestamp()) as clock)
select key, period
  from (select key, period from cronguard.lease
         where lease_until < (select clock from c)
            or advisory_lock is not null
            or (complete_by < (select clock from c) and stop_requested is null)
         union
        select r.key, r.period from cronguard.run r
         where r.state = 'running'
           and not exists (select from cronguard.lease l where l.key = r.key and l.lane = r.lane and l.token = r.token)
         union
        select key, period from cronguard.run
         where state = 'pending' and claim_by < (select clock from c)
         union
        select key, period from cronguard.run
         where state in ('failed', 'timed_out', 'dead') and reported_at is null
           and finished_at > (select clock - %(looked_back)s::interval from c)
         union
        select key, period from cronguard.recovery
         where announced_at is null and taken_at is null and missed_at is null) found
 where %(keys)s::text is null or key like %(keys)s
 order by key, period
 limit %(limit)s

-- name: survey_expected
select * from cronguard.job
 where expected_by <= (select coalesce(%(now)s::timestamptz, clock_timestamp()))
   and (%(keys)s::text is null or key like %(keys)s)
 order by key
 limit %(limit)s

-- name: read_supervisor
-- The last pass, of whichever host: a container has another name each time.
select host, started_at, finished_at, mass_expiry_at from cronguard.supervisor order by finished_at desc limit 1

-- name: lock_job_if_free
select key from cronguard.job where key = %(key)s for update skip locked

-- name: read_runs_of
-- One list, as in read_runs.
select r.*
  from cronguard.run r
 where r.key = %(key)s
   and r.period in (select unnest(%(periods)s::text[])
                    union select l.period from cronguard.lease l where l.key = %(key)s)

-- name: read_steps_of
-- Without what is remembered of their output.
select key, period, name, ordinal, state, token, attempt, once, start_id, command_hash, started_at,
       finished_at, complete_by, exit_code, signal, note
  from cronguard.step where key = %(key)s and period = any(%(periods)s) order by period, ordinal, name

-- name: read_requests_of
select * from cronguard.recovery
 where key = %(key)s and period = any(%(periods)s) and taken_at is null and missed_at is null

-- name: record_pass
insert into cronguard.supervisor (host, started_at, finished_at, mass_expiry_at)
values (%(host)s, %(started_at)s, coalesce(%(now)s::timestamptz, clock_timestamp()), %(mass_expiry_at)s)
on conflict (host) do update
   set started_at = excluded.started_at, finished_at = excluded.finished_at, mass_expiry_at = excluded.mass_expiry_at

-- name: forget_supervisors
delete from cronguard.supervisor
 where finished_at < coalesce(%(now)s::timestamptz, clock_timestamp()) - %(kept_for)s::interval

-- name: metrics_keys
-- From the newest back to the first success: among many more runs than are counted, but not in all there are.
select j.key, j.last_started_at, j.paused_at, j.expected_by,
       (select n.finished_at
          from (select r.state, r.finished_at, coalesce(r.started_at, r.finished_at) as seen_at
                  from cronguard.run r where r.key = j.key
                 order by coalesce(r.started_at, r.finished_at) desc nulls last limit 100 * %(runs)s) n
         where n.state = 'succeeded' order by n.seen_at desc nulls last limit 1) as finished_at
  from cronguard.job j
 where %(keys)s::text is null or j.key like %(keys)s
 order by j.key

-- name: metrics_last
select n.*
  from cronguard.job j
 cross join lateral (select * from cronguard.run r
                      where r.key = j.key and r.finished_at is not null and r.started_at is not null
                      order by coalesce(r.started_at, r.finished_at) desc nulls last limit 1) n
 where %(keys)s::text is null or j.key like %(keys)s

-- name: metrics_runs
select j.key, n.state, count(*) as count
  from cronguard.job j
 cross join lateral (select r.state from cronguard.run r where r.key = j.key
                      order by coalesce(r.started_at, r.finished_at) desc nulls last limit %(runs)s) n
 where %(keys)s::text is null or j.key like %(keys)s
 group by j.key, n.state

-- name: metrics_skips
-- `offset 0`: run by run, by index; as a join, all skips there are might be read.
select j.key, s.reason, count(*) as count
  from cronguard.job j
 cross join lateral (select r.period from cronguard.run r where r.key = j.key
                      order by coalesce(r.started_at, r.finished_at) desc nulls last limit %(runs)s) n
 cross join lateral (select k.reason from cronguard.skip k where k.key = j.key and k.period = n.period offset 0) s
 where %(keys)s::text is null or j.key like %(keys)s
 group by j.key, s.reason

-- name: metrics_leases
select key, complete_by from cronguard.lease where %(keys)s::text is null or key like %(keys)s
