-- How the ledger forgets, by name. What may go is decided in domain/pruning.py; here it is found, and taken away.

-- name: count_aged
select count(*) as count
  from cronguard.run r
 where r.key = %(key)s and r.period_start < %(before)s
   and coalesce(r.started_at, r.period_start) < %(before)s and coalesce(r.finished_at, r.period_start) < %(before)s
   and r.state not in ('pending', 'running')
   and r.period not in (select period from cronguard.run where key = %(key)s
                         order by coalesce(started_at, finished_at) desc nulls last limit %(last)s)
   and r.period not in (select period from cronguard.run where key = %(key)s
                         order by period_start desc nulls last limit 1)

-- name: aged_runs
-- From the oldest on, by index; what can never go must not stand in the way of what can.
select r.*
  from cronguard.run r
 where r.key = %(key)s and r.period_start < %(before)s
   and coalesce(r.started_at, r.period_start) < %(before)s and coalesce(r.finished_at, r.period_start) < %(before)s
   and r.state not in ('pending', 'running')
   and r.period not in (select period from cronguard.run where key = %(key)s
                         order by coalesce(started_at, finished_at) desc nulls last limit %(last)s)
   and r.period not in (select period from cronguard.run where key = %(key)s
                         order by period_start desc nulls last limit 1)
 order by r.period_start nulls first
 limit %(limit)s

-- name: drop_attempts_of_run
delete from cronguard.attempt where key = %(key)s and period = %(period)s

-- name: drop_skips_of_run
delete from cronguard.skip where key = %(key)s and period = %(period)s

-- name: drop_requests_of_run
delete from cronguard.recovery where key = %(key)s and period = %(period)s

-- name: drop_steps_of_run
delete from cronguard.step where key = %(key)s and period = %(period)s

-- name: drop_run
-- Not its effects, which are about the outside: one that is forgotten could be claimed, and done, again.
delete from cronguard.run where key = %(key)s and period = %(period)s

-- name: skips_after
-- A value of one row, not `exists`: for that, all runs might be read into a hash.
select s.id, s.seen_at,
       (select true from cronguard.run r where r.key = s.key and r.period = s.period) is not null as has_run
  from cronguard.skip s
 where s.id > %(after)s
 order by s.id
 limit %(limit)s

-- name: drop_skip
delete from cronguard.skip where id = %(id)s
