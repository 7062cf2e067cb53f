-- Every statement that only a supervisor makes of the SQLite ledger, by the same names as in
-- postgres_supervision.sql; the rest, and how they are written, in sqlite.sql.

-- name: survey_leases
select coalesce(sum(case when lease_until >= :now then 1 else 0 end), 0) as live,
       coalesce(sum(case when lease_until < :now then 1 else 0 end), 0) as lapsed
  from lease

-- name: survey_candidates
-- One place where something may be to do, whatever it is: the decision is made on its page.
select key, period
  from (select key, period from lease
         where lease_until < :now or advisory_lock is not null or (complete_by < :now and stop_requested is null)
         union
        select r.key, r.period from run r
         where r.state = 'running'
           and not exists (select 1 from lease l where l.key = r.key and l.lane = r.lane and l.token = r.token)
         union
        select key, period from run
         where state = 'pending' and claim_by < :now
         union
        select key, period from run
         where state in ('failed', 'timed_out', 'dead') and reported_at is null
           and finished_at > :now - :looked_back
         union
        select key, period from recovery
         where announced_at is null and taken_at is null and missed_at is null) found
 where :keys is null or key glob :keys
 order by key, period
 limit :limit

-- name: survey_expected
select * from job
 where expected_by <= :now and (:keys is null or key glob :keys)
 order by key
 limit :limit

-- name: read_supervisor
-- The last pass, of whichever host: a container has another name each time.
select host, started_at, finished_at, mass_expiry_at from supervisor order by finished_at desc limit 1

-- name: read_requests_of
select * from recovery where key = :key and period = :period and taken_at is null and missed_at is null

-- name: record_pass
insert into supervisor (host, started_at, finished_at, mass_expiry_at)
values (:host, :started_at, :now, :mass_expiry_at)
on conflict (host) do update
   set started_at = excluded.started_at, finished_at = excluded.finished_at, mass_expiry_at = excluded.mass_expiry_at

-- name: forget_supervisors
delete from supervisor where finished_at < :now - :kept_for

-- name: metrics_keys
-- The last success is looked for among many more runs than are counted, but not in all there are.
select j.key, j.last_started_at, j.paused_at, j.expected_by,
       (select max(n.finished_at)
          from (select r.state, r.finished_at from run r where r.key = j.key
                 order by coalesce(r.started_at, r.finished_at) desc limit 100 * :runs) n
         where n.state = 'succeeded') as finished_at
  from job j
 where :keys is null or j.key glob :keys
 order by j.key

-- name: metrics_last
select r.*
  from job j
  join run r on r.rowid = (select k.rowid from run k
                            where k.key = j.key and k.finished_at is not null and k.started_at is not null
                            order by coalesce(k.started_at, k.finished_at) desc limit 1)
 where :keys is null or j.key glob :keys

-- name: metrics_runs
-- Cross joins: the keys come first, then of each its newest runs, by index.
select r.key, r.state, count(*) as count
  from job j
 cross join run r
    on r.rowid in (select k.rowid from run k where k.key = j.key
                    order by coalesce(k.started_at, k.finished_at) desc limit :runs)
 where :keys is null or j.key glob :keys
 group by r.key, r.state

-- name: metrics_skips
select s.key, s.reason, count(*) as count
  from job j
 cross join run r
    on r.rowid in (select k.rowid from run k where k.key = j.key
                    order by coalesce(k.started_at, k.finished_at) desc limit :runs)
 cross join skip s on s.key = r.key and s.period = r.period
 where :keys is null or j.key glob :keys
 group by s.key, s.reason

-- name: metrics_leases
select key, complete_by from lease where :keys is null or key glob :keys
