-- How the ledger forgets, by name. What may go is decided in domain/pruning.py; here it is found, and taken away.

-- name: count_aged
select count(*) as count
  from run r
 where r.key = :key and r.period_start < :before
   and coalesce(r.started_at, r.period_start) < :before and coalesce(r.finished_at, r.period_start) < :before
   and r.state not in ('pending', 'running')
   and r.period not in (select period from run where key = :key
                         order by coalesce(started_at, finished_at) desc limit :last)
   and r.period not in (select period from run where key = :key
                         order by period_start desc limit 1)

-- name: aged_runs
-- From the oldest on, by index; what can never go must not stand in the way of what can.
select r.*
  from run r
 where r.key = :key and r.period_start < :before
   and coalesce(r.started_at, r.period_start) < :before and coalesce(r.finished_at, r.period_start) < :before
   and r.state not in ('pending', 'running')
   and r.period not in (select period from run where key = :key
                         order by coalesce(started_at, finished_at) desc limit :last)
   and r.period not in (select period from run where key = :key
                         order by period_start desc limit 1)
 order by r.period_start
 limit :limit

-- name: drop_attempts_of_run
delete from attempt where key = :key and period = :period

-- name: drop_skips_of_run
delete from skip where key = :key and period = :period

-- name: drop_requests_of_run
delete from recovery where key = :key and period = :period

-- name: drop_steps_of_run
delete from step where key = :key and period = :period

-- name: drop_run
-- Not its effects, which are about the outside: one that is forgotten could be claimed, and done, again.
delete from run where key = :key and period = :period

-- name: skips_after
select s.id, s.seen_at,
       exists (select 1 from run r where r.key = s.key and r.period = s.period) as has_run
  from skip s
 where s.id > :after
 order by s.id
 limit :limit

-- name: drop_skip
delete from skip where id = :id
